"""Run the tools that a model calls, and let it go on with what they return."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Literal

from reactivex import Observable
from reactivex.disposable import Disposable, SingleAssignmentDisposable

from orx_rx.errors import OutputError, ToolFailed, TooManyRounds
from orx_rx.flow import subscribing
from orx_rx.loops import clock_of, current_loop, run_in, running_loop
from orx_rx.models.event_base import Event
from orx_rx.protocol.calls import Round, ToolCall, ToolOutput
from orx_rx.reporting import log
from orx_rx.stream import Stream
from orx_rx.tools import Toolbox

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from reactivex import abc

    from orx_rx.models.hosted_items import McpApprovalRequest
    from orx_rx.protocol.calls import Turn
    from orx_rx.stream import Operator
    from orx_rx.tools import Tool, ToolLike


def run_tools(
    ask: Callable[[Turn], Observable[Event]],
    *,
    tools: Iterable[ToolLike],
    max_rounds: int = 8,
    concurrency: int | None = 8,
    timeout: float | None = None,
    errors: Literal["tell", "raise"] = "tell",
    approve: Callable[[McpApprovalRequest], bool | Awaitable[bool]] | None = None,
    on_output: Callable[[ToolOutput], object] | None = None,
    scheduler: abc.SchedulerBase | None = None,
) -> Operator[Event, Event]:
    """Run the tools that a model calls, and let it go on with what they return.

    The source is the first response. A call is begun as soon as it is finished, while the stream still goes on: a
    coroutine function is awaited, any other function runs in a thread. When the response is completed, its stream has
    ended, and every call has returned, `ask` is called with all outputs, in the order of the calls, and its events
    follow. So it goes on until a response calls nothing; one that failed or is incomplete is the last one, too.

    ::

        c: response.created   f: a call is finished   t: the terminal; the call takes 10 columns; ask: -c--t|

        ---c---f--t|-----------------
        [ run_tools(ask, tools=[f]) ]
        ---c---f--t-------c--t|

    The events of all rounds pass as they are. Each round begins with a `response.created` of its own, which tells the
    rounds apart, and numbers its events anew: what checks a stream belongs into the source and into `ask`. Behind this
    operator `items`, `tool_calls` and `final_response` mind the rounds.

    What is wrong with a call (no such tool, arguments that do not fit, an exception, no time left) is told to the model
    as its output, unless `errors` says otherwise. A call of a tool that has no function, and a request to approve a
    call on an MCP server where there is no `approve`, are left to the subscriber: the stream completes behind that
    round, and `on_output` has heard what the other calls gave. A call of a custom tool that is none of `tools` was run
    by the server itself, as xAI does, and passes.

    Dispose ends the stream that runs, and cancels what runs; so does an error. A thread cannot be cancelled: what it
    returns is dropped. A stream that a tool reads is not paused along with this one.

    Args:
        ask: Given a `Turn`, asks the model to go on. It is called once a round, never again for the same outputs.
        tools: The tools of the request: functions, types, tools, dicts.
        max_rounds: How many responses there may be, the first one included; calls of the last are not run.
        concurrency: How many calls may run at a time, at least 1; None for any number.
        timeout: How long a call may take from when it is begun, in seconds; None for any time.
        errors: What becomes of an error of a call: `"tell"` it to the model, or `"raise"` it and end the stream.
        approve: Decides requests to approve a call on an MCP server; a function, or a coroutine function. What it
            raises ends the stream.
        on_output: Hears of every output, as soon as it is there.
        scheduler: Keeps the time; by default that of the subscriber, else the running event loop.

    Raises:
        TypeError: One of the tools is nothing to make a tool of; to the subscriber, when `ask` returns no observable.
        ValueError: Two tools have the same name, or a number is out of range.
        TooManyRounds: To the subscriber, when the last response that was allowed still calls tools; it is `snapshot`.
        ToolFailed: To the subscriber, with `errors="raise"`, when a tool raised or ran out of time.
        OutputError: To the subscriber, with `errors="raise"`, when there is no such tool, or arguments do not fit.
        RuntimeError: To the subscriber, when there is a call and no running event loop, or somebody else cancels one.
    """
    for name, number in {"max_rounds": max_rounds, "concurrency": 1 if concurrency is None else concurrency}.items():
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"expected {name} to be a number from 1, got {number!r}")
    if timeout is not None and not timeout > 0:
        raise ValueError(f"expected timeout to be None or above 0 seconds, got {timeout}")
    if errors not in ("tell", "raise"):
        raise ValueError(f"expected errors to be 'tell' or 'raise', got {errors!r}")
    toolbox = Toolbox(tools)
    options = _Options(ask, toolbox, max_rounds, concurrency, timeout, errors, approve, on_output)

    def operator(source: Observable[Event]) -> Observable[Event]:
        def subscribe(
            observer: abc.ObserverBase[Event], subscriber_scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            running = _Running(options, observer, subscriber_scheduler, clock_of(scheduler, subscriber_scheduler))
            running.listen(source)
            return Disposable(running.leave)

        return Stream(subscribe)

    return operator


@dataclass(frozen=True, slots=True)
class _Options:
    ask: Callable[[Turn], Observable[Event]]
    toolbox: Toolbox
    max_rounds: int
    concurrency: int | None
    timeout: float | None
    errors: Literal["tell", "raise"]
    approve: Callable[[McpApprovalRequest], bool | Awaitable[bool]] | None
    on_output: Callable[[ToolOutput], object] | None


class _Running:
    """One subscription: the round that is on, and its calls."""

    def __init__(
        self,
        options: _Options,
        observer: abc.ObserverBase[Event],
        scheduler: abc.SchedulerBase | None,
        clock: abc.SchedulerBase | None,
    ) -> None:
        self._options = options
        self._observer = observer
        self._scheduler = scheduler
        self._clock = clock
        self._loop = current_loop()
        self._slots = nullcontext() if options.concurrency is None else asyncio.Semaphore(options.concurrency)
        self._context = copy_context()  # of the subscription, with the flow of whoever is behind: for later rounds
        with subscribing(None):
            self._own_context = copy_context()  # for the calls
        self._over = False
        self._number = 0
        self._history: Sequence[Mapping[str, Any]] = ()

    def listen(self, source: Observable[Event]) -> None:
        """Begin a round."""
        self._number += 1
        self._round = Round(self._options.toolbox, approvals=self._options.approve is not None)
        self._tasks: list[Task[ToolOutput]] = []
        self._ended = False  # the stream of the round
        upstream = self._upstream = SingleAssignmentDisposable()
        upstream.disposable = source.subscribe(self._on_next, self._end, self._on_completed, scheduler=self._scheduler)

    def leave(self) -> None:
        """Stop, from any thread."""
        self._over = True
        self._upstream.dispose()
        self._act(self._stop)

    def _act(self, act: Callable[[], object]) -> None:
        """Do something where the calls are, if there can be any."""
        if self._loop is None:
            act()
        else:
            run_in(self._loop, act)

    # the stream

    def _on_next(self, event: Event) -> None:
        if self._over:
            return
        if not isinstance(event, Event):  # pyright: ignore[reportUnnecessaryIsInstance]
            self._end(TypeError(f"expected a source of Event elements, got one of {type(event).__name__}"))
            return
        demands = self._round.feed(event)
        self._observer.on_next(event)
        if demands and self._number < self._options.max_rounds:
            self._act(partial(self._begin, demands))

    def _on_completed(self) -> None:
        self._act(self._complete)

    def _complete(self) -> None:
        self._ended = True
        self._advance()

    def _advance(self) -> None:
        """End, or go on with the next round, as soon as it is known which."""
        if self._over or not self._ended:
            return
        if not self._round.is_answered:
            self._end(None)
        elif all(task.done() for task in self._tasks):
            if self._round.handed_back:
                self._end(None)
            elif self._number == self._options.max_rounds:
                self._end(self._too_many())
            else:
                self._next()

    def _next(self) -> None:
        outputs = [task.result() for task in self._tasks]
        turn = self._round.turn(self._number + 1, self._history, outputs)
        self._history = turn.history
        try:
            source = self._context.copy().run(self._options.ask, turn)
            if not isinstance(source, Observable):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise TypeError(f"expected ask to return an observable, got {type(source).__name__}")
            self._context.copy().run(self.listen, source)
        except Exception as error:
            if self._over:  # it is the subscriber's own
                raise
            self._end(error)

    def _too_many(self) -> TooManyRounds:
        error, terminal = TooManyRounds(self._options.max_rounds), self._round.terminal
        error.snapshot = terminal.response if terminal is not None else None
        return error

    def _end(self, error: Exception | None) -> None:
        if self._over:
            return
        self.leave()
        if error is None:
            self._observer.on_completed()
        else:
            self._observer.on_error(error)

    def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    # the calls

    def _begin(self, demands: Sequence[ToolCall | McpApprovalRequest]) -> None:
        if self._over:
            return
        try:
            loop = running_loop("run tools")
        except RuntimeError as error:
            self._end(error)
            return
        for demand in demands:
            task = loop.create_task(self._answer(demand), name="orx_rx run_tools", context=self._own_context.copy())
            self._tasks.append(task)
            task.add_done_callback(self._on_done)
        if self._over:  # an eager task has begun already, and may have disposed
            self._stop()

    def _on_done(self, task: Task[ToolOutput]) -> None:
        error = None if task.cancelled() else task.exception()
        if self._over:
            if error is not None:  # and nobody is left who could take it
                log.error("a tool raised after it was cancelled", error=type(error).__name__, exc_info=error)
        elif task.cancelled():
            self._end(RuntimeError("expected a call of a tool to end, got one that somebody cancelled"))
        elif error is not None:
            self._end(error if isinstance(error, Exception) else RuntimeError(f"a tool raised {type(error).__name__}"))
        else:
            self._tell(task.result())
            self._advance()

    def _tell(self, output: ToolOutput) -> None:
        if self._options.on_output is not None:
            try:
                self._options.on_output(output)
            except Exception as raised:
                log.error("a listener to outputs raised", error=type(raised).__name__, exc_info=raised)

    async def _answer(self, demand: ToolCall | McpApprovalRequest) -> ToolOutput:
        async with self._slots:
            if not isinstance(demand, ToolCall):
                return await self._decide(demand)
            try:
                arguments = demand.arguments
                assert demand.tool is not None  # otherwise it would have raised
                return ToolOutput.of(demand, await self._in_time(demand.tool, arguments))
            except Exception as error:
                if self._options.errors == "tell":
                    log.warning("a call failed, and the model is told", tool=demand.name, error=type(error).__name__)
                    return ToolOutput.of_error(demand, error)
                if isinstance(error, OutputError) and error is demand.error:
                    raise
                raise ToolFailed(demand.name, demand.call_id, error) from error

    async def _decide(self, request: McpApprovalRequest) -> ToolOutput:
        assert self._options.approve is not None
        decision = self._options.approve(request)
        approved = await decision if isawaitable(decision) else decision
        return ToolOutput.of_approval(request, bool(approved))

    async def _in_time(self, tool: Tool, arguments: Any) -> object:
        seconds = self._options.timeout
        if seconds is None or self._clock is None:
            return await _result_of(tool, arguments)
        limit = asyncio.timeout(None)
        loop = asyncio.get_running_loop()

        def expire(_: abc.SchedulerBase, __: object = None) -> None:
            run_in(loop, partial(_expire, limit))

        timer = self._clock.schedule_relative(seconds, expire)
        try:
            async with limit:
                return await _result_of(tool, arguments)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"expected a result within {seconds:g} s, got none") from None
        finally:
            timer.dispose()


def _expire(limit: asyncio.Timeout) -> None:
    with suppress(RuntimeError):  # it is over
        limit.reschedule(asyncio.get_running_loop().time())


async def _result_of(tool: Tool, arguments: Any) -> object:
    """Call a tool; one that is no coroutine function in a thread."""
    if tool.is_async:
        result = tool.call(arguments)
    else:
        result, error = await asyncio.to_thread(_attempt, tool, arguments)
        if error is not None:
            raise error
    try:
        return await result if isawaitable(result) else result
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise RuntimeError("expected a result, got a tool that cancelled itself") from None


def _attempt(tool: Tool, arguments: Any) -> tuple[Any, Exception | None]:
    """Call a tool and return what it raises, since not every exception can be raised out of a thread."""
    try:
        return tool.call(arguments), None
    except Exception as error:
        return None, error
