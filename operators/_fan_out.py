"""Share one upstream subscription among any number of subscribers."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from reactivex import Observable
from reactivex.disposable import Disposable, SingleAssignmentDisposable

from orx_rx.errors import StreamInterrupted
from orx_rx.reporting import log

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex import abc

    from orx_rx.step import Operator

T = TypeVar("T")


def fan_out(*, history: Literal["all"] | int | None = "all", keep_alive: bool = False) -> Operator[T, T]:
    """Share one upstream subscription among any number of subscribers.

    The first subscriber subscribes upstream, and nobody ever does again: one request, one answer, one bill. Who joins
    late gets the history and then what is live, without a gap or a repeat, and the end if it has come. A subscriber
    that raises is detached, told through its `on_error`, and logged; it harms nobody else. When the last one leaves,
    the upstream is disposed; who comes after that gets the history and a `StreamInterrupted`.

    ::

        ---a---b---c---d---|
        [    fan_out()     ]
        ---a---b---c---d---|      subscribed at once
                 (abc)-d---|      subscribed after c

    Args:
        history: What late subscribers get of the past: `"all"`, the last so many elements, or None for nothing.
        keep_alive: Whether the upstream goes on when the last subscriber has left.

    Raises:
        ValueError: `history` is none of these.
    """
    if history is not None and history != "all" and (isinstance(history, bool) or history < 1):
        raise ValueError(f"expected history to be 'all', a number from 1, or None, got {history!r}")
    kept = None if history == "all" else history or 0

    def operator(source: Observable[T]) -> Observable[T]:
        hub = _Hub(source, deque[T](maxlen=kept), keep_alive)
        return Observable(hub.join)

    return operator


class _Hub(Generic[T]):
    """The one subscriber of the source, and all those who listen to it.

    Everything that happens is done one after the other: what happens while the hub is at work waits in `_waiting`, so
    that a subscriber that makes the source emit, or joins, or leaves, in the middle of an element disturbs no order.
    """

    def __init__(self, source: Observable[T], history: deque[T], keep_alive: bool) -> None:
        self._source = source
        self._history = history
        self._keep_alive = keep_alive
        self._listeners: tuple[abc.ObserverBase[T], ...] = ()  # replaced, never changed, so a round is not disturbed
        self._waiting: deque[Callable[[], None]] = deque()
        self._working = False
        self._upstream: SingleAssignmentDisposable | None = None
        self._end: Callable[[abc.ObserverBase[T]], None] | None = None

    def join(self, observer: abc.ObserverBase[T], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        """Let an observer listen."""
        left = Disposable(lambda: self._leave(observer))
        self._do(lambda: self._welcome(observer, left))
        if self._upstream is None:
            self._upstream = SingleAssignmentDisposable()
            self._upstream.disposable = self._source.subscribe(
                self._on_next, self._on_error, self._on_completed, scheduler=scheduler
            )
        return left

    def _do(self, work: Callable[[], None]) -> None:
        self._waiting.append(work)
        if self._working:
            return
        self._working = True
        try:
            while self._waiting:
                self._waiting.popleft()()
        finally:
            self._working = False

    def _on_next(self, element: T) -> None:
        if self._working:
            self._waiting.append(lambda: self._spread(element))
        else:
            self._do(lambda: self._spread(element))

    def _on_error(self, error: Exception) -> None:
        self._do(lambda: self._finish(lambda observer: observer.on_error(error)))

    def _on_completed(self) -> None:
        self._do(lambda: self._finish(lambda observer: observer.on_completed()))

    def _welcome(self, observer: abc.ObserverBase[T], left: Disposable) -> None:
        for element in tuple(self._history):
            if left.is_disposed or not self._hand(observer, element):
                return
        if self._end is not None:
            self._tell(observer, self._end)
        elif not left.is_disposed:
            self._listeners = (*self._listeners, observer)

    def _spread(self, element: T) -> None:
        if self._end is not None:
            return
        self._history.append(element)
        for observer in self._listeners:
            self._hand(observer, element)

    def _hand(self, observer: abc.ObserverBase[T], element: T) -> bool:
        """Hand an element to an observer; detach it and say no if it raises."""
        try:
            observer.on_next(element)
        except Exception as error:
            self._detach(observer, error)
        except asyncio.CancelledError as cancelled:
            # a subscriber that raises this on its own has failed like any other; a task that is cancelled is not
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            failure = RuntimeError("a subscriber raised CancelledError")
            failure.__cause__ = cancelled
            self._detach(observer, failure)
        else:
            return True
        return False

    def _detach(self, observer: abc.ObserverBase[T], error: Exception) -> None:
        log.error("a subscriber raised and was detached", error=type(error).__name__, exc_info=error)
        self._tell(observer, lambda told: told.on_error(error))
        self._leave(observer)

    def _tell(self, observer: abc.ObserverBase[T], word: Callable[[abc.ObserverBase[T]], None]) -> None:
        try:
            word(observer)
        except Exception as error:
            log.error("a subscriber raised at the end", error=type(error).__name__, exc_info=error)

    def _finish(self, end: Callable[[abc.ObserverBase[T]], None]) -> None:
        if self._end is not None:
            return
        self._end = end
        listeners, self._listeners = self._listeners, ()
        for observer in listeners:
            self._tell(observer, end)

    def _leave(self, observer: abc.ObserverBase[T]) -> None:
        before = self._listeners
        self._listeners = tuple(other for other in before if other is not observer)
        if before and not self._listeners and not self._keep_alive and self._end is None:
            self._end = _abandoned
            if self._upstream is not None:
                self._upstream.dispose()


def _abandoned(observer: abc.ObserverBase[Any]) -> None:
    observer.on_error(StreamInterrupted("expected a live stream, got one that ended when its last subscriber left"))
