"""Await a coroutine for each element."""

from __future__ import annotations

from asyncio import CancelledError
from collections import deque
from contextvars import copy_context
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Generic, TypeVar

from reactivex.disposable import CompositeDisposable, Disposable, SingleAssignmentDisposable

from orx_rx.flow import Flow, current_flow, subscribing
from orx_rx.loops import run_in, running_loop
from orx_rx.reporting import log, unheard
from orx_rx.stream import Stream

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Awaitable, Callable

    from reactivex import Observable, abc

    from orx_rx.stream import Operator

In = TypeVar("In")
Out = TypeVar("Out")

_MANY = 16  # elements that wait: as soon as there are more, the source is paused
_FEW = 8  # and when no more than these are left it goes on


def map_async(
    fn: Callable[[In], Awaitable[Out]], *, concurrency: int | None = 1, ordered: bool = True
) -> Operator[In, Out]:
    """Await a coroutine for each element.

    One after the other, unless `concurrency` says more: as in a loop that awaits in its body, nothing overlaps that was
    not asked to. What comes meanwhile waits in order. While more than 16 elements wait the source is paused, if it is
    one that can be, such as a request; and while the subscriber is paused, nothing is begun.

    ::

        fn takes 12 columns for a, and 8 for every other

        ---a--b--c----------d--------------------------|
        [ map_async(fn, concurrency=2)                 ]
        ---------------(ab)---c-----d------------------|
        [ map_async(fn, concurrency=2, ordered=False)  ]
        --------------ba------c-----d------------------|

    Everything that came before the source completed or failed is awaited and handed on, and the end comes after it.
    The first error of `fn` ends the stream: with `ordered`, after the results of what came before the element; without,
    at once. What else runs then is cancelled, as it is by dispose.

    Every call runs in a task and a copy of the context of its own, as of when somebody subscribed. A stream that `fn`
    reads is not paused along with this one. But what waits for a later element of the same source may wait for ever.

    Args:
        fn: A coroutine function, or another that returns an awaitable; called in the event loop.
        concurrency: How many may run at a time, at least 1; None for any number.
        ordered: Whether results come in the order of their elements; else they come as they are ready.

    Raises:
        TypeError: `fn` cannot be called, or `concurrency` is no number; to the subscriber, when `fn` returns something
            that cannot be awaited.
        ValueError: `concurrency` is below 1.
        RuntimeError: To the subscriber, when there is no running event loop, and when a call is cancelled by somebody
            else than this operator.
    """
    if not callable(fn):
        raise TypeError(f"expected fn to be a coroutine function, got {fn!r}")
    if concurrency is not None:
        if not isinstance(concurrency, int) or isinstance(concurrency, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected concurrency to be a number from 1, or None, got {concurrency!r}")
        if concurrency < 1:
            raise ValueError(f"expected concurrency to be a number from 1, or None, got {concurrency!r}")

    def operator(source: Observable[In]) -> Observable[Out]:
        def subscribe(
            observer: abc.ObserverBase[Out], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            mapping = _Mapping(fn, concurrency, ordered, observer, running_loop("await coroutines"))
            return mapping.listen(source, scheduler)

        return Stream(subscribe)

    return operator


class _Mapping(Generic[In, Out]):
    """The elements of one subscription on their way: they wait, run, are handed on.

    Everything is done by `_work`, in the loop, one after the other. What happens while it is at work is seen in its
    next round, so that a subscriber that makes the source emit, or end, in the middle of an element disturbs no order.
    """

    def __init__(
        self,
        fn: Callable[[In], Awaitable[Out]],
        concurrency: int | None,
        ordered: bool,
        observer: abc.ObserverBase[Out],
        loop: AbstractEventLoop,
    ) -> None:
        self._fn = fn
        self._most = concurrency
        self._ordered = ordered
        self._observer = observer
        self._loop = loop
        self._waiting: deque[In] = deque()
        self._running: dict[Task[Out], None] = {}  # in their order
        self._line: deque[Task[Out]] = deque()  # to be handed on in this order; without `ordered` only what is done
        self._ended = False  # no more is to come
        self._error: Exception | None = None  # what the source ended with, if not with completion
        self._over = False  # no more is to be told
        self._working = False
        self._upstream = SingleAssignmentDisposable()
        self._flow = Flow()
        self._pausing = False
        self._downstream = current_flow()
        self._patience: Task[None] | None = None  # awaits that the downstream takes more
        with subscribing(None):
            self._context = copy_context()

    def listen(self, source: Observable[In], scheduler: abc.SchedulerBase | None) -> abc.DisposableBase:
        """Subscribe to the source."""
        joined: abc.DisposableBase = Disposable()
        if self._downstream is not None:
            self._downstream.heed()
            joined = self._flow.join(self._downstream)
        with subscribing(self._flow):
            self._upstream.disposable = source.subscribe(
                self._on_next, self._on_end, partial(self._on_end, None), scheduler=scheduler
            )
        return CompositeDisposable(self._upstream, joined, Disposable(partial(run_in, self._loop, self._stop)))

    def _on_next(self, element: In) -> None:
        if not self._ended:
            self._waiting.append(element)
            run_in(self._loop, self._work)

    def _on_end(self, error: Exception | None) -> None:
        if not self._ended:
            self._error = error
            self._ended = True  # last, because another thread may run the loop
            run_in(self._loop, self._work)

    def _stop(self) -> None:
        """Tell no more, and cancel what runs."""
        self._over = self._ended = True
        self._upstream.dispose()
        self._waiting.clear()
        self._line.clear()
        self._cancel(*self._running)
        if self._patience is not None:
            self._patience.cancel()
        self._regulate()

    def _cancel(self, *tasks: Task[Out]) -> None:
        for task in tasks:
            self._running.pop(task, None)
            task.cancel()

    def _work(self) -> None:
        """Begin, hand on, and end what can be."""
        if self._working:
            return
        self._working = True
        try:
            while not self._over:
                ended = self._ended  # before what waits is looked at, because another thread may add to it and end
                self._begin()
                if self._line and self._line[0].done():
                    self._hand_on(self._line.popleft())
                elif ended and not (self._waiting or self._running or self._line):
                    self._end(self._error)
                else:
                    break
            self._regulate()
        finally:
            self._working = False

    def _begin(self) -> None:
        while self._waiting and (self._most is None or len(self._running) < self._most):
            if self._downstream is not None and self._downstream.is_paused:
                self._wait(self._downstream)
                return
            task = self._loop.create_task(
                self._call(self._waiting.popleft()), name="orx_rx map_async", context=self._context.copy()
            )
            self._running[task] = None
            if self._ordered:
                self._line.append(task)
            task.add_done_callback(self._on_done)
            if self._over:  # an eager task has begun already, and may have disposed
                self._cancel(task)

    async def _call(self, element: In) -> Out:
        awaitable = self._fn(element)
        if not isawaitable(awaitable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected an awaitable, got {type(awaitable).__name__}")
        return await awaitable

    def _wait(self, downstream: Flow) -> None:
        def go_on(task: Task[None]) -> None:
            self._patience = None
            if not task.cancelled():
                self._work()

        if self._patience is None:
            self._patience = self._loop.create_task(downstream.ready(), name="orx_rx map_async, paused")
            self._patience.add_done_callback(go_on)

    def _on_done(self, task: Task[Out]) -> None:
        if task not in self._running:  # it was cancelled here, and nobody is told what it raised
            if not task.cancelled() and (late := task.exception()) is not None:
                log.error("a coroutine raised after it was cancelled", error=type(late).__name__, exc_info=late)
            return
        del self._running[task]
        if not self._ordered:
            self._line.append(task)
        if _error_of(task) is not None:
            self._end_behind(task)
        self._work()

    def _end_behind(self, task: Task[Out]) -> None:
        """Give up what comes after an element, because with that one the stream will fail."""
        self._ended = True
        self._upstream.dispose()
        self._waiting.clear()
        if not self._ordered:
            self._cancel(*self._running)
            return
        while self._line and self._line[-1] is not task:
            self._cancel(self._line.pop())

    def _hand_on(self, task: Task[Out]) -> None:
        error = _error_of(task)
        if error is not None:
            # a loop that shuts down cancels every task, and then it is no news to it
            self._end(error, told=error if task.cancelling() else None)
            return
        try:
            self._observer.on_next(task.result())
        except (Exception, CancelledError) as raised:  # nothing here awaits: a CancelledError is the subscriber's own
            if isinstance(raised, Exception):
                error = raised
            else:
                error = RuntimeError("a subscriber raised CancelledError")
                error.__cause__ = raised
            # who emitted the element has gone on since, so that nobody else could take it
            context = {"message": "a subscriber of orx_rx.operators.map_async raised", "exception": error}
            self._loop.call_exception_handler(context)
            self._end(error, told=error)

    def _end(self, error: Exception | None, *, told: Exception | None = None) -> None:
        self._stop()
        try:
            if error is None:
                self._observer.on_completed()
            else:
                self._observer.on_error(error)
        except (Exception, CancelledError) as raised:
            if raised is not told:
                unheard(raised)

    def _regulate(self) -> None:
        """Pause the source while many elements wait, or were awaited and wait for their turn."""
        many = len(self._waiting) + len(self._line) - (len(self._running) if self._ordered else 0)
        if not self._pausing and not self._over and many > _MANY:
            self._pausing = True
            self._flow.pause()
        elif self._pausing and many <= _FEW:
            self._pausing = False
            self._flow.resume()


def _error_of(task: Task[Out]) -> Exception | None:
    """Tell what a call raised, or that it was cancelled."""
    raised: BaseException | None
    try:
        raised = task.exception()
    except CancelledError as cancelled:
        raised = cancelled
    if raised is None or isinstance(raised, Exception):
        return raised
    error = RuntimeError(f"expected fn to return, or to raise an Exception, got {type(raised).__name__}")
    error.__cause__ = raised
    return error
