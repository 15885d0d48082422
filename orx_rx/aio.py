"""Rx and asyncio: read an observable with `async for`, await its final response."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from reactivex import abc
from reactivex.scheduler.eventloop import AsyncIOScheduler

from orx_rx.errors import StreamInterrupted, TransportError
from orx_rx.models.lifecycle_events import TerminalEvent
from orx_rx.operators import accumulate
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.violations import QUIET, Judge
from orx_rx.step import current_loop

if TYPE_CHECKING:
    from types import TracebackType

    from reactivex import Observable

    from orx_rx.models.event_base import Event
    from orx_rx.models.response import Response

T = TypeVar("T")

_TURNS = 3  # of the event loop, in which a source that was disposed cancels its request and closes its connection


def iterate(observable: Observable[T]) -> Iteration[T]:
    """Read an observable with `async for`.

    It subscribes when the reading begins and disposes when it ends, in whatever way: the last element, an error,
    `aclose()`, cancellation, leaving an `async with`, or being dropped after a `break`. Only `aclose()` and
    `async with` dispose at a definite point, so a loop that may end early is best written::

        async with iterate(events) as reading:
            async for event in reading:
                ...

    Args:
        observable: What to read. What it emits while nobody awaits is kept, in order.

    Raises:
        RuntimeError: It is read again after its end, or by two tasks at once.
    """
    return Iteration(observable)


class Iteration(Generic[T]):
    """The reading of one observable; made by `iterate`."""

    # The subscription leads to the inbox and not to the iteration, so that an iteration that is dropped is collected
    # while the stream runs, and ends it.

    def __init__(self, observable: Observable[T]) -> None:
        self._observable = observable
        self._inbox = _Inbox[T]()
        self._subscription: abc.DisposableBase | None = None
        self._over = False

    def __aiter__(self) -> Self:
        """Begin to read, or go on."""
        if self._over:
            raise RuntimeError(
                "expected an iteration that has not ended, got one that has: iterate the observable anew"
            )
        return self

    async def __anext__(self) -> T:
        """Read the next element."""
        inbox = self._inbox
        if inbox.awaited is not None:
            raise RuntimeError("expected one task to read an iteration, got a second one")
        if self._over:
            raise StopAsyncIteration
        if self._subscription is None:
            # timed operators of Rx would otherwise run in threads of their own
            scheduler = AsyncIOScheduler(asyncio.get_running_loop())
            self._subscription = self._observable.subscribe(inbox, scheduler=scheduler)
        if not inbox.elements and not inbox.ended:
            try:
                await inbox.wait()
            except asyncio.CancelledError:
                self._stop()
                raise
        if inbox.elements:
            return inbox.elements.popleft()
        self._over = True
        if inbox.error is not None:
            raise inbox.take_error(inbox.error)
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        """Begin to read."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop reading."""
        await self.aclose()

    async def aclose(self) -> None:
        """Stop reading: dispose the subscription and forget what was not read."""
        self._stop()
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    def __del__(self) -> None:
        """Dispose the subscription of a loop that was left by `break`."""
        if self._subscription is not None:
            self._subscription.dispose()

    def _stop(self) -> None:
        self._over = True
        self._inbox.clear()
        if self._subscription is not None:
            self._subscription.dispose()


class _Inbox(abc.ObserverBase[T]):
    """Keeps what an observable emits until somebody reads it."""

    def __init__(self) -> None:
        self.elements: deque[T] = deque()
        self.ended = False
        self.error: Exception | None = None
        self.awaited: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Wait for the next element, or the end."""
        self.awaited = asyncio.get_running_loop().create_future()
        try:
            if not self.elements and not self.ended:  # nothing came from another thread in between
                await self.awaited
        finally:
            self.awaited = None

    def on_next(self, value: T) -> None:
        """Keep an element."""
        self.elements.append(value)
        self._wake()

    def on_error(self, error: Exception) -> None:
        """Keep the error until what came before it was read."""
        self.error = error
        self.on_completed()

    def on_completed(self) -> None:
        """Note the end."""
        self.ended = True
        self._wake()

    def take_error(self, error: Exception) -> Exception:
        """Forget the error, which knows through its traceback where it was raised, and would keep that alive."""
        self.error = None
        return error

    def clear(self) -> None:
        """Forget everything, and end."""
        self.elements.clear()
        self.error = None
        self.on_completed()

    def _wake(self) -> None:
        awaited = self.awaited
        if awaited is None or awaited.done():
            return
        loop = awaited.get_loop()
        if current_loop() is loop:
            awaited.set_result(None)
        else:  # timers of Rx run in threads of their own, which do not wake the loop
            loop.call_soon_threadsafe(_wake, awaited)


def _wake(awaited: asyncio.Future[None]) -> None:
    if not awaited.done():
        awaited.set_result(None)


async def final_response(observable: Observable[Event]) -> Response:
    """Await the final response of a stream.

    It subscribes, reads to the end of the stream, and returns the response of the terminal, whichever of the three it
    is: look at `response.status`. Cancelling it disposes the subscription.

    Args:
        observable: A stream of events, with or without `accumulate` in its pipeline.

    Raises:
        StreamInterrupted: The stream ended before a terminal; `snapshot` has the response so far.
        OrxError: Whatever else the stream ended with, with the `snapshot` too.
    """
    accumulator = Accumulator(Judge(QUIET))
    response: Response | None = None
    try:
        async with iterate(observable.pipe(accumulate(into=accumulator))) as reading:
            async for event in reading:
                if isinstance(event, TerminalEvent) and response is None:
                    response = event.response
    except TransportError:  # after the terminal it does not matter any more
        if response is None:
            raise
    if response is not None:
        return response
    snapshot = accumulator.response
    error = StreamInterrupted(
        "expected a terminal, got the end of the stream",
        cursor=accumulator.cursor,
        resumable=snapshot is not None and snapshot.background is True and snapshot.store is not False,
    )
    error.snapshot = snapshot
    raise error
