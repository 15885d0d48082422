"""Rx and asyncio: read an observable with `async for`, await its final response."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self, TypeVar

from reactivex.scheduler.eventloop import AsyncIOScheduler

from orx_rx.errors import StreamInterrupted, TransportError
from orx_rx.flow import wake
from orx_rx.inbox import Reading, inbox_of
from orx_rx.loops import current_loop
from orx_rx.models.lifecycle_events import ResponseCreatedEvent, TerminalEvent
from orx_rx.operators import accumulate
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.violations import QUIET, Judge

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from reactivex import Observable, abc

    from orx_rx.inbox import Inbox, Overflow
    from orx_rx.models.event_base import Event
    from orx_rx.models.response import Response

T = TypeVar("T")

_TURNS = 3  # of the event loop, in which a source that was disposed cancels its request and closes its connection


def iterate(
    observable: Observable[T],
    *,
    buffer: int = 256,
    overflow: Overflow = "pause",
    resume_at: int | None = None,
) -> Iteration[T]:
    """Read an observable with `async for`.

    It subscribes when the reading begins and disposes when it ends, in whatever way: the last element, an error,
    `aclose()`, cancellation, leaving an `async with`, or being dropped after a `break`. Only `aclose()` and
    `async with` dispose at a definite point, so a loop that may end early is best written::

        async with iterate(events) as reading:
            async for event in reading:
                ...

    What comes while the reader is busy waits in a buffer, in its order. When the buffer is full, the policy decides:

    - `"pause"`: the source reads no more from its socket until the buffer is down to `resume_at`. Nothing is lost; the
      buffer holds at most what the last chunk brought beyond its mark. A source that cannot pause, such as a `Subject`,
      goes on, and the buffer with it.
    - `"conflate"`: deltas of the same part that wait next to each other become one, however many; if the buffer is full
      all the same, the source pauses. No text is lost, and the reader has less to do.
    - `"drop_oldest"`: the oldest element makes room.
    - `"latest"`: only the newest element waits.
    - `"fail"`: the reading ends with an error, after the elements that waited.

    The history that a `fan_out` replays when it is joined does not count as long as it is being read.

    Args:
        observable: What to read.
        buffer: How many elements may wait, at least 1; with `"latest"` it is always 1.
        overflow: What happens when more would have to wait.
        resume_at: At how many waiting elements a pause ends; half of `buffer` by default.

    Raises:
        ValueError: `buffer` is below 1, `overflow` is not one of the policies, or `resume_at` is not below `buffer`.
        RuntimeError: It is read again after its end, or by two tasks at once.
        ConsumerTooSlow: To the reader, when the policy is `"fail"` and the buffer was full.
    """
    return Iteration(observable, inbox_of(buffer, overflow, resume_at))


class Iteration(Reading[T]):
    """The reading of one observable; made by `iterate`."""

    # The subscription leads to the inbox and not to the iteration, so that an iteration that is dropped is collected
    # while the stream runs, and ends it.

    def __init__(self, observable: Observable[T], inbox: Inbox[T]) -> None:
        self._call = _Call()
        super().__init__(inbox, self._call.answer)
        self._observable = observable
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
        if self._call.awaited is not None:
            raise RuntimeError("expected one task to read an iteration, got a second one")
        if inbox.elements:
            return inbox.take()
        if self._over:
            raise StopAsyncIteration
        if self._subscription is None:
            # timed operators of Rx would otherwise run in threads of their own
            scheduler = AsyncIOScheduler(asyncio.get_running_loop())
            with inbox.subscribing():
                self._subscription = self._observable.subscribe(inbox, scheduler=scheduler)
            inbox.subscribed(self._subscription)
        if inbox.is_empty:
            inbox.was_read()
            try:
                await self._call.wait(inbox)
            except asyncio.CancelledError:
                self._stop()
                raise
        if inbox.elements:
            return inbox.take()
        self._over = True
        raise inbox.take_end() or StopAsyncIteration

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
        self._stop()

    def _stop(self) -> None:
        self._over = True
        self._inbox.clear()
        if self._subscription is not None:
            self._subscription.dispose()


class _Call:
    """What a reader waits for, in its loop; the inbox knows nothing else of the reader.

    Attributes:
        awaited: What the reader awaits; None while it does not wait.
    """

    def __init__(self) -> None:
        self.awaited: asyncio.Future[None] | None = None

    async def wait(self, inbox: Inbox[Any]) -> None:
        """Wait until there is something in an inbox, or the end."""
        self.awaited = asyncio.get_running_loop().create_future()
        try:
            if inbox.is_empty:  # nothing came from another thread in between
                await self.awaited
        finally:
            self.awaited = None

    def answer(self) -> None:
        """Wake whoever waits."""
        awaited = self.awaited
        if awaited is None or awaited.done():
            return
        if current_loop() is awaited.get_loop():  # as nearly always, and sooner done than what it takes otherwise
            awaited.set_result(None)
        else:
            wake(awaited)


class _OfLast(Accumulator):
    """Accumulates one response after the other."""

    def feed(self, event: Event, /) -> Sequence[Event]:
        if self.final_response is not None and isinstance(event, ResponseCreatedEvent):
            self.reset()
        return super().feed(event)


async def final_response(observable: Observable[Event]) -> Response:
    """Await the final response of a stream.

    It subscribes, reads to the end of the stream, and returns the response of the terminal, whichever of the three it
    is: look at `response.status`. Of a stream of several responses, such as that of `run_tools`, it is the last one.
    Cancelling it disposes the subscription.

    Args:
        observable: A stream of events, with or without `accumulate` in its pipeline.

    Raises:
        StreamInterrupted: The stream ended before a terminal; `snapshot` has the response so far.
        OrxError: Whatever else the stream ended with, with the `snapshot` too.
    """
    accumulator = _OfLast(Judge(QUIET))
    response: Response | None = None
    try:
        async with iterate(observable.pipe(accumulate(into=accumulator))) as reading:
            async for event in reading:
                if isinstance(event, TerminalEvent) and response is None:
                    response = event.response
                elif isinstance(event, ResponseCreatedEvent) and response is not None:  # another one begins
                    response = None
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
