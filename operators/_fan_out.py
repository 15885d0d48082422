"""Share one upstream subscription among any number of subscribers."""

from __future__ import annotations

from asyncio import CancelledError
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from reactivex.disposable import Disposable, SingleAssignmentDisposable

from orx_rx.errors import JoinedTooLate, StreamInterrupted
from orx_rx.flow import Flow, current_flow, subscribing
from orx_rx.reporting import log, unheard
from orx_rx.step import Lifted

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex import Observable, abc

T = TypeVar("T")
A = TypeVar("A")


# The callable is spelled out: behind an alias mypy does not see that it is generic, and loses its type within a pipe.
def fan_out(
    *,
    history: Literal["all"] | int | None = "all",
    gaps: Literal["raise", "allow"] = "raise",
    keep_alive: bool = False,
) -> Callable[[Observable[T]], Observable[T]]:
    """Share one upstream subscription among any number of subscribers.

    The first subscriber subscribes upstream, and nobody ever does again: one request, one answer, one bill. Who joins
    late gets the history and then what is live, without a gap or a repeat, and the end if it has come. Where only part
    of the history is kept, who comes too late for its beginning is told so and gets nothing, unless gaps are allowed.
    The upstream is paused while any subscriber wants a pause, as `iterate` does while its buffer is full. A subscriber
    that raises is detached, told through its `on_error`, and logged; it harms nobody else. An error that a subscriber
    does not take goes to the exception handler of the event loop. When the last one leaves, the upstream is disposed;
    who comes after that gets the history and a `StreamInterrupted`.

    What subscribes again, as `retry` does, belongs in front of it: behind it there is nothing that could run again.

    Any thread may subscribe, dispose and emit, and none waits for another. A subscriber is called by whichever of them
    is at work, from one call to the next perhaps another, and never by two at a time.

    ::

        ---a---b---c-------d---|
        [      fan_out()       ]
        ---a---b---c-------d---|      subscribed at once
                    (abc)--d---|      subscribed after c

    Args:
        history: What is kept of the past for late subscribers: `"all"`, the last so many elements, or None for nothing,
            with which everybody gets what comes from now on.
        gaps: What becomes of who comes when the beginning is not kept any more: it gets an error (`"raise"`) or what is
            kept (`"allow"`).
        keep_alive: Whether the upstream goes on when the last subscriber has left.

    Raises:
        ValueError: `history` or `gaps` is none of these.
        JoinedTooLate: To who comes when the beginning is not kept any more.
        StreamInterrupted: To who subscribes after the last one left.
    """
    counts = isinstance(history, int) and not isinstance(history, bool) and history > 0
    if not (counts or history is None or history == "all"):
        raise ValueError(f"expected history to be 'all', a number from 1, or None, got {history!r}")
    if gaps not in ("raise", "allow"):
        raise ValueError(f"expected gaps to be 'raise' or 'allow', got {gaps!r}")
    kept = None if history == "all" else history or 0

    def operator(source: Observable[T]) -> Observable[T]:
        hub = _Hub(source, deque[T](maxlen=kept), keep_alive, whole=history is not None and gaps == "raise")
        return Lifted(hub.join)

    return operator


class _Hub(Generic[T]):
    """The one subscriber of the source, and all those who listen to it.

    Everything that happens is done one after the other: what happens while the hub is at work waits in `_waiting`, so
    that a subscriber that makes the source emit, or joins, or leaves, in the middle of an element disturbs no order.
    That holds for threads too. Whichever finds nobody at work does what there is to do, also for the others, who wait
    for nothing; so no lock is held that a subscriber could wait for.
    """

    def __init__(self, source: Observable[T], history: deque[T], keep_alive: bool, *, whole: bool) -> None:
        self._source = source
        self._history = history
        self._keep_alive = keep_alive
        self._whole = whole  # a history without its beginning is none
        self._seen = 0
        self._flow = Flow()
        # in their order, with what makes their flows part; never changed in the middle of a round
        self._listeners: dict[abc.ObserverBase[T], abc.DisposableBase | None] = {}
        self._waiting: deque[tuple[Callable[[Any], None], Any]] = deque()
        # tokens: to take one is atomic, and costs a quarter of what a lock does
        self._turn = deque([None])  # whoever has it is at work
        self._first = deque([None])  # whoever takes it subscribes to the source, and keeps it
        self._upstream = SingleAssignmentDisposable()
        self._ended = False
        self._error: Exception | None = None  # what it ended with, if not with completion

    def join(self, observer: abc.ObserverBase[T], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        """Let an observer listen."""
        self._do(self._welcome, (observer, current_flow()))
        if _took(self._first):
            with subscribing(self._flow):
                self._upstream.disposable = self._source.subscribe(
                    partial(self._do, self._spread),
                    partial(self._do, self._finish),
                    partial(self._do, self._finish, None),
                    scheduler=scheduler,
                )
        return Disposable(partial(self._do, self._leave, observer))

    def _do(self, work: Callable[[A], None], about: A) -> None:
        """Do something, or leave it to whoever is at work."""
        self._waiting.append((work, about))
        # once more after the turn was given back: somebody may have left something to us just before
        while self._waiting and _took(self._turn):
            try:
                while self._waiting:
                    next_work, its_subject = self._waiting.popleft()
                    next_work(its_subject)
            finally:
                self._turn.append(None)

    def _welcome(self, guest: tuple[abc.ObserverBase[T], Flow | None]) -> None:
        observer, flow = guest
        missed = self._seen - len(self._history)
        if missed and self._whole:
            self._tell(observer, JoinedTooLate(missed))
            return
        try:
            for element in self._history:
                observer.on_next(element)
        except (Exception, CancelledError) as error:
            self._detach(observer, error)
            return
        if self._ended:
            self._tell(observer, self._error)
        else:
            self._listeners[observer] = None if flow is None else self._flow.join(flow)

    def _spread(self, element: T) -> None:
        if self._ended:
            return
        self._history.append(element)
        self._seen += 1
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
        for observer, part in listeners.items():
            if part is not None:
                part.dispose()
            self._tell(observer, error)

    def _leave(self, observer: abc.ObserverBase[T]) -> None:
        left = bool(self._listeners)
        part = self._listeners.pop(observer, None)
        if part is not None:
            part.dispose()
        if left and not self._listeners and not self._keep_alive:
            self._finish(StreamInterrupted("expected a live stream, got one whose last subscriber had left"))
            self._upstream.dispose()

    def _detach(self, observer: abc.ObserverBase[T], raised: BaseException) -> None:
        """Tell an observer what it raised; what is told an error leaves by itself."""
        log.error("a subscriber raised and was detached", error=type(raised).__name__, exc_info=raised)
        if isinstance(raised, Exception):
            self._tell(observer, raised, logged=True)
        else:
            # Nothing here awaits, so a CancelledError is the subscriber's own: that of our task comes when it awaits.
            error = RuntimeError(f"expected a subscriber to raise exceptions at most, got {type(raised).__name__}")
            error.__cause__ = raised
            self._tell(observer, error, logged=True)

    def _tell(self, observer: abc.ObserverBase[T], error: Exception | None, *, logged: bool = False) -> None:
        """Tell an observer how it ends: with an error, which may have been logged already, or with completion."""
        traceback = error.__traceback__ if error is not None else None
        try:
            if error is None:
                observer.on_completed()
            else:
                observer.on_error(error)
        except (Exception, CancelledError) as raised:
            if raised is not error or not logged:
                log.error("a subscriber raised at the end", error=type(raised).__name__, exc_info=raised)
            unheard(raised)
        finally:
            if error is not None:
                error.__traceback__ = traceback  # an error that is kept keeps nobody alive who raised it again


def _took(token: deque[None]) -> bool:
    """Take a token, if it is there."""
    try:
        token.pop()
    except IndexError:
        return False
    return True
