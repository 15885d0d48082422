"""Share one upstream subscription among any number of subscribers."""

from __future__ import annotations

from asyncio import CancelledError
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from reactivex import Observable
from reactivex.disposable import Disposable, SingleAssignmentDisposable

from orx_rx.errors import StreamInterrupted
from orx_rx.reporting import log, unheard

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex import abc

T = TypeVar("T")
A = TypeVar("A")


# The callable is spelled out: behind an alias mypy does not see that it is generic, and loses its type within a pipe.
def fan_out(
    *, history: Literal["all"] | int | None = "all", keep_alive: bool = False
) -> Callable[[Observable[T]], Observable[T]]:
    """Share one upstream subscription among any number of subscribers.

    The first subscriber subscribes upstream, and nobody ever does again: one request, one answer, one bill. Who joins
    late gets the history and then what is live, without a gap or a repeat, and the end if it has come. A subscriber
    that raises is detached, told through its `on_error`, and logged; it harms nobody else. An error that a subscriber
    does not take goes to the exception handler of the event loop. When the last one leaves, the upstream is disposed;
    who comes after that gets the history and a `StreamInterrupted`.

    What subscribes again, as `retry` does, belongs in front of it: behind it there is nothing that could run again.

    ::

        ---a---b---c-------d---|
        [      fan_out()       ]
        ---a---b---c-------d---|      subscribed at once
                    (abc)--d---|      subscribed after c

    Args:
        history: What late subscribers get of the past: `"all"`, the last so many elements, or None for nothing.
        keep_alive: Whether the upstream goes on when the last subscriber has left.

    Raises:
        ValueError: `history` is none of these.
        StreamInterrupted: To who subscribes after the last one left.
    """
    counts = isinstance(history, int) and not isinstance(history, bool) and history > 0
    if not (counts or history is None or history == "all"):
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
        self._listeners: dict[abc.ObserverBase[T], None] = {}  # in their order; never changed in the middle of a round
        self._waiting: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._working = False
        self._connected = False
        self._upstream = SingleAssignmentDisposable()
        self._ended = False
        self._error: Exception | None = None  # what it ended with, if not with completion

    def join(self, observer: abc.ObserverBase[T], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        """Let an observer listen."""
        self._do(self._welcome, observer)
        if not self._connected:
            self._connected = True
            self._upstream.disposable = self._source.subscribe(
                partial(self._do, self._spread),
                partial(self._do, self._finish),
                partial(self._do, self._finish, None),
                scheduler=scheduler,
            )
        return Disposable(partial(self._do, self._leave, observer))

    def _do(self, work: Callable[[A], None], about: A) -> None:
        self._waiting.append((work, about))
        if self._working:
            return
        self._working = True
        try:
            while self._waiting:
                next_work, its_subject = self._waiting.popleft()
                next_work(its_subject)
        finally:
            self._working = False

    def _welcome(self, observer: abc.ObserverBase[T]) -> None:
        try:
            for element in self._history:
                observer.on_next(element)
        except (Exception, CancelledError) as error:
            self._detach(observer, error)
            return
        if self._ended:
            self._tell(observer, self._error)
        else:
            self._listeners[observer] = None

    def _spread(self, element: T) -> None:
        if self._ended:
            return
        self._history.append(element)
        for observer in self._listeners:
            try:
                observer.on_next(element)
            except (Exception, CancelledError) as error:
                self._detach(observer, error)

    def _finish(self, error: Exception | None) -> None:
        if self._ended:
            return
        self._ended, self._error = True, error
        listeners, self._listeners = self._listeners, {}
        for observer in listeners:
            self._tell(observer, error)

    def _leave(self, observer: abc.ObserverBase[T]) -> None:
        left = bool(self._listeners)
        self._listeners.pop(observer, None)
        if left and not self._listeners and not self._keep_alive:
            self._finish(StreamInterrupted("expected a live stream, got one whose last subscriber had left"))
            self._upstream.dispose()

    def _detach(self, observer: abc.ObserverBase[T], raised: BaseException) -> None:
        """Tell an observer what it raised; what is told an error leaves by itself."""
        log.error("a subscriber raised and was detached", error=type(raised).__name__, exc_info=raised)
        if isinstance(raised, Exception):
            self._tell(observer, raised)
        else:
            # Nothing here awaits, so a CancelledError is the subscriber's own: that of our task comes when it awaits.
            error = RuntimeError(f"expected a subscriber to raise exceptions at most, got {type(raised).__name__}")
            error.__cause__ = raised
            self._tell(observer, error)

    def _tell(self, observer: abc.ObserverBase[T], error: Exception | None) -> None:
        """Tell an observer how it ends: with an error, or with completion."""
        traceback = error.__traceback__ if error is not None else None
        try:
            if error is None:
                observer.on_completed()
            else:
                observer.on_error(error)
        except (Exception, CancelledError) as raised:
            if raised is not error or error is self._error:  # else it was logged when the observer was detached
                log.error("a subscriber raised at the end", error=type(raised).__name__, exc_info=raised)
            unheard(raised)
        finally:
            if error is not None:
                error.__traceback__ = traceback  # an error that is kept keeps nobody alive who raised it again
