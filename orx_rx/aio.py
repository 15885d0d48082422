"""Rx and asyncio: read an observable with `async for`, await its final response."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from reactivex.disposable import Disposable

from orx_rx.errors import StreamInterrupted
from orx_rx.models.lifecycle_events import TerminalEvent
from orx_rx.operators import accumulate
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.violations import QUIET, Judge

if TYPE_CHECKING:
    from types import TracebackType

    from reactivex import Observable, abc

    from orx_rx.models.event_base import Event
    from orx_rx.models.response import Response

T = TypeVar("T")


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
        RuntimeError: It is read again, or by two tasks at once.
    """
    return Iteration(observable)


class Iteration(Generic[T]):
    """The reading of one observable; made by `iterate`."""

    def __init__(self, observable: Observable[T]) -> None:
        self._observable = observable
        self._subscription: abc.DisposableBase | None = None
        self._elements: deque[T] = deque()
        self._ended = False
        self._error: Exception | None = None
        self._awaited: asyncio.Future[None] | None = None

    def __aiter__(self) -> Self:
        """Begin to read."""
        return self

    async def __anext__(self) -> T:
        """Read the next element."""
        if self._subscription is None:
            self._subscription = Disposable()
            subscription = self._observable.subscribe(self._on_next, self._on_error, self._on_completed)
            if self._ended:
                subscription.dispose()
            else:
                self._subscription = subscription
        if not self._elements and not self._ended:
            await self._wait()
        if self._elements:
            return self._elements.popleft()
        error, self._error = self._error, None
        if error is not None:
            raise error
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
        self._elements.clear()
        self._stop()
        # a source that closes a connection does so in a task of its own; let it begin
        await asyncio.sleep(0)

    def __del__(self) -> None:
        """Dispose the subscription of a loop that was left by `break`."""
        if self._subscription is not None and not self._ended:
            self._subscription.dispose()

    async def _wait(self) -> None:
        if self._awaited is not None:
            raise RuntimeError("expected one task to read an iteration, got a second one")
        self._awaited = asyncio.get_running_loop().create_future()
        try:
            await self._awaited
        except asyncio.CancelledError:
            self._stop()
            raise
        finally:
            self._awaited = None

    def _stop(self) -> None:
        self._ended = True
        if self._subscription is None:
            self._subscription = Disposable()
        self._subscription.dispose()
        self._wake()

    def _wake(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_result(None)

    def _on_next(self, element: T) -> None:
        self._elements.append(element)
        self._wake()

    def _on_error(self, error: Exception) -> None:
        self._error = error
        self._on_completed()

    def _on_completed(self) -> None:
        self._ended = True
        self._wake()


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
    async with iterate(observable.pipe(accumulate(into=accumulator))) as reading:
        response: Response | None = None
        async for event in reading:
            if isinstance(event, TerminalEvent) and response is None:
                response = event.response
    if response is not None:
        return response
    error = StreamInterrupted("expected a terminal, got the end of the stream", cursor=accumulator.cursor)
    error.snapshot = accumulator.response
    raise error
