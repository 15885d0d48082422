"""A client for code without an event loop: the loop runs in a thread of the client's own."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from contextvars import Context
from functools import update_wrapper
from threading import RLock, Thread, current_thread
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, Self, TypeVar
from weakref import finalize

from reactivex.disposable import Disposable, SingleAssignmentDisposable
from reactivex.scheduler.eventloop import AsyncIOThreadSafeScheduler

from orx_rx.aio import final_response
from orx_rx.errors import ConnectFailed
from orx_rx.flow import wake
from orx_rx.http.blocking import GLANCE, BlockingIteration
from orx_rx.http.client import Client
from orx_rx.inbox import inbox_of
from orx_rx.loops import current_loop
from orx_rx.reporting import log
from orx_rx.stream import Stream, moved

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future
    from types import TracebackType

    from reactivex import Observable, abc

    from orx_rx.inbox import Overflow
    from orx_rx.models.event_base import Event
    from orx_rx.models.response import Response

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_PATIENCE = 5.0  # seconds that `close` waits for the thread, which a subscriber may block
_LEAST_PATIENCE = 1.0  # seconds that collecting the client, or leaving the interpreter, waits for it
_LAST_TURNS = 1.0  # seconds that tasks have to end by themselves when the client closes, before they are cancelled


def _as_of(
    method: Callable[Concatenate[Client, P], R],
) -> Callable[[Callable[..., R]], Callable[Concatenate[ThreadedClient, P], R]]:
    """Give a method the signature of one of `Client`, for type checkers and for `help`."""

    def give(own: Callable[..., R]) -> Callable[..., R]:
        return update_wrapper(own, method, assigned=(), updated=())

    return give


class ThreadedClient:
    """Speaks to one server, for code without an event loop; made by `Client.in_thread`.

    The loop runs in a daemon thread that begins with the first subscription. Observables may be subscribed to and
    disposed of from any thread; elements arrive, and every function that was given is called, in the thread of the
    loop, which a subscriber should not block: waiting there, as `run()` of Rx does, would last for ever. The clocks of
    the client run there as well, whatever scheduler the subscriber has; operators behind it keep time there if they are
    given `scheduler`. Use it as ::

        with Client.in_thread() as client:
            for event in client.iterate(client.events(model="story", input="Tell me one")):
                ...

    A client that is dropped closes itself, as does one that is left when the interpreter exits. A fork has no part of
    the thread: a client that was used belongs to one process.

    Args:
        client: Who sends the requests; nobody else may use it.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._thread = _LoopThread(client)
        finalize(self, self._thread.close, _LEAST_PATIENCE)

    def __repr__(self) -> str:
        """Name the server, and never the key."""
        return f"ThreadedClient(base_url={self.base_url!r})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied, as `Client` does."""
        self._client.__reduce__()

    @property
    def base_url(self) -> str:
        """The address up to and without `/responses`."""
        return self._client.base_url

    @property
    def scheduler(self) -> abc.SchedulerBase:
        """A scheduler that keeps time in the thread of the loop, for the timed operators of Rx.

        It can be used from any thread, until the client is closed; what is scheduled then never happens.

        Raises:
            ConnectFailed: The client is closed.
            RuntimeError: This is a fork of the process that the client was first used in.
        """
        return AsyncIOThreadSafeScheduler(self._thread.loop())

    def __enter__(self) -> Self:
        """Open the client; nothing is sent before a subscription."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the client."""
        self.close()

    def close(self) -> None:
        """End every stream that still runs with a `ConnectionLost`, and stop the loop and its thread; from any thread.

        It waits for the thread, five seconds at most, since a subscriber may block it. In the thread of the loop itself
        it waits for nothing: the streams end when the subscriber that called it has returned.
        """
        self._thread.close(_PATIENCE)

    @_as_of(Client.chunks)
    def chunks(self, *args: Any, **request: Any) -> Observable[bytes]:
        """Create a response and read the bytes of its stream: `Client.chunks`, to be subscribed to from any thread."""
        return self.on_loop(self._client.chunks(*args, **request))

    @_as_of(Client.events)
    def events(self, *args: Any, **request: Any) -> Observable[Event]:
        """Create a response and read its events: `Client.events`, to be subscribed to from any thread."""
        return self.on_loop(self._client.events(*args, **request))

    @_as_of(Client.run_tools)
    def run_tools(self, *args: Any, **request: Any) -> Observable[Event]:
        """Create a response, and run the tools that it calls: `Client.run_tools`, to be subscribed to from any thread.

        Coroutine functions run in the thread of the loop, any other function in a thread of its own.
        """
        return self.on_loop(self._client.run_tools(*args, **request))

    @_as_of(Client.resume)
    def resume(self, *args: Any, **options: Any) -> Observable[Event]:
        """Go on with the stream of a background response: `Client.resume`, to be subscribed to from any thread."""
        return self.on_loop(self._client.resume(*args, **options))

    def retrieve(self, response_id: str) -> Response:
        """Get a response as it stands, and wait for it.

        Args:
            response_id: Its id.

        Raises:
            RuntimeError: This is the thread of the event loop.
            OrxError: As for `Client.retrieve`; a `ConnectFailed` when the client is closed.
        """
        return self._wait_for(self._client.retrieve, response_id)

    def cancel(self, response_id: str) -> Response:
        """Cancel a background response, and wait for it as it stands after that.

        Args:
            response_id: Its id.

        Raises:
            RuntimeError: This is the thread of the event loop.
            OrxError: As for `Client.cancel`; a `ConnectFailed` when the client is closed.
        """
        return self._wait_for(self._client.cancel, response_id)

    def final_response(self, observable: Observable[Event]) -> Response:
        """Wait for the final response of a stream.

        Args:
            observable: A stream of events, with or without `accumulate` in its pipeline.

        Raises:
            RuntimeError: This is the thread of the event loop.
            OrxError: As for `orx_rx.final_response`; a `ConnectFailed` when the client is closed.
        """
        return self._wait_for(final_response, observable)

    def iterate(
        self,
        observable: Observable[T],
        *,
        buffer: int = 256,
        overflow: Overflow = "pause",
        resume_at: int | None = None,
    ) -> BlockingIteration[T]:
        """Read an observable with `for`, and wait for each element.

        It subscribes when the reading begins and disposes when it ends, in whatever way: the last element, an error,
        Ctrl-C, `close()`, leaving a `with`, or being dropped after a `break`.

        Args:
            observable: What to read.
            buffer: How many elements may wait, at least 1; with `"latest"` it is always 1.
            overflow: What happens when more would have to wait, as for `orx_rx.iterate`.
            resume_at: At how many waiting elements a pause ends; half of `buffer` by default.

        Raises:
            ValueError: As for `orx_rx.iterate`.
            ConsumerTooSlow: To the reader, as for `orx_rx.iterate`.
            RuntimeError: To the reader: the reading has ended, or this is the thread of the event loop.
        """
        inbox = inbox_of(buffer, overflow, resume_at)

        def subscribe(observer: abc.ObserverBase[T], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            with inbox.subscribing():
                return observable.subscribe(observer, scheduler=scheduler)

        return BlockingIteration(self.on_loop(Stream(subscribe)), inbox, self._thread.may_wait)

    def on_loop(self, observable: Observable[T]) -> Observable[T]:
        """Move the subscriptions to an observable into the thread of the loop.

        What the client gives is moved already. It is of use around what minds one thread only, such as operators of Rx
        that are shared by subscribers in several threads.

        Args:
            observable: What to move. It is given `scheduler` to keep its time with.

        Raises:
            ConnectFailed: To the subscriber, when the client is closed.
            RuntimeError: To the subscriber, in a fork of the process that the client was first used in.
        """
        # so that closing the client ends whatever somebody waits for
        tracked = self._client._tracked(observable)  # pyright: ignore[reportPrivateUsage]

        def subscribe(observer: abc.ObserverBase[T], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            scheduler = self.scheduler  # in place of that of the subscriber, whose timers may run in other threads
            if self._thread.is_current:
                return tracked.subscribe(observer, scheduler=scheduler)
            moved()
            gone = False
            upstream = SingleAssignmentDisposable()

            def begin() -> None:
                if not gone:
                    upstream.disposable = tracked.subscribe(observer, scheduler=scheduler)

            def dispose() -> None:
                nonlocal gone
                gone = True  # at once, so that nothing is sent if it has not begun
                self._thread.undo(upstream.dispose)

            self._thread.do(begin)
            return Disposable(dispose)

        return Stream(subscribe)

    def _wait_for(self, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **options: P.kwargs) -> R:
        """Let a coroutine run in the loop, and wait for what it returns."""
        self._thread.may_wait()
        return self._thread.wait_for(lambda: function(*args, **options))


class _LoopThread:
    """The event loop and its thread, which begin when they are first needed.

    It knows nothing of the client in front, so that one that is dropped is collected, and closes it.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = RLock()  # not Lock: a client may be collected in the middle of anything, and closes this
        self._over = False
        self._process = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Future[None] | None = None
        self._thread: Thread | None = None

    @property
    def is_current(self) -> bool:
        """Whether this is the thread of the loop."""
        return self._loop is not None and current_loop() is self._loop

    def may_wait(self) -> None:
        """Refuse to wait in the thread that everything comes from."""
        if self.is_current:
            raise RuntimeError(
                "expected a thread that may wait, got that of the client's event loop: subscribe instead, or wait in a "
                "thread of your own"
            )

    def loop(self) -> asyncio.AbstractEventLoop:
        """Get the loop, which runs."""
        if self._is_forked:
            raise RuntimeError(
                "expected the process that the client was first used in, got a fork of it: make a client in each"
            )
        with self._lock:
            if self._over:
                raise ConnectFailed("expected an open client, got one that was closed")
            return self._loop or Context().run(self._begin)  # not in the context of whoever happens to be the first

    def do(self, work: Callable[[], object]) -> None:
        """Let the loop do something, in the context of the caller, or refuse: what is taken is done."""
        with self._lock:  # so that it comes before the end, if that is asked for in another thread
            self.loop().call_soon_threadsafe(work)

    def undo(self, work: Callable[[], object]) -> None:
        """Let the loop do something that is of no use when it is closed; at once, if this is its thread."""
        if self.is_current:
            work()
        elif self._loop is not None and not self._is_forked:
            with suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(work)

    def wait_for(self, begin: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Let a coroutine run in the loop, and wait for what it returns; Ctrl-C cancels it."""
        with self._lock:
            loop = self.loop()
            future: Future[R] = asyncio.run_coroutine_threadsafe(begin(), loop)
        try:
            while True:
                with suppress(TimeoutError):
                    return future.result(GLANCE)
                if future.done():
                    return future.result()
        finally:
            future.cancel()

    def close(self, patience: float) -> None:
        """Stop the loop, which ends what runs in it, and wait for its thread.

        Args:
            patience: How long to wait, in seconds.
        """
        if self._is_forked:
            return
        with self._lock:
            over, self._over = self._over, True
            if self._stop is not None and not over:
                wake(self._stop)
        if self._thread is not None and self._thread is not current_thread():
            self._thread.join(patience)
            if self._thread.is_alive():
                log.warning("the event loop of a client did not stop, perhaps a subscriber blocks it", waited=patience)

    @property
    def _is_forked(self) -> bool:
        return self._loop is not None and self._process != os.getpid()

    def _begin(self) -> asyncio.AbstractEventLoop:
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        loop = runner.get_loop()
        stop: asyncio.Future[None] = loop.create_future()
        thread = Thread(target=self._run, args=(runner, stop), name="orx_rx client", daemon=True)
        thread.start()
        self._process, self._loop, self._stop, self._thread = os.getpid(), loop, stop, thread
        return loop

    def _run(self, runner: asyncio.Runner, stop: asyncio.Future[None]) -> None:
        """Run the loop until it is told to stop, or until a subscriber exits, which in a thread ends that thread."""

        async def stopped() -> None:
            await stop

        with suppress(SystemExit), runner:
            try:
                runner.run(stopped())
            finally:
                with self._lock:  # from here on nothing is taken
                    self._over = True
                stop.cancel()
                runner.run(self._end())

    async def _end(self) -> None:
        await self._client.aclose()
        others = asyncio.all_tasks() - {task for task in (asyncio.current_task(),) if task is not None}
        if others:
            await asyncio.wait(others, timeout=_LAST_TURNS)
