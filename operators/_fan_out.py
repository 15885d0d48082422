"""Share one upstream subscription among any number of subscribers."""

from __future__ import annotations

from asyncio import CancelledError
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from reactivex.disposable import Disposable, SingleAssignmentDisposable
from reactivex.internal import default_error, noop

from orx_rx.errors import JoinedTooLate, StreamInterrupted
from orx_rx.flow import Flow, current_flow, subscribing
from orx_rx.reporting import log, unheard
from orx_rx.stream import Attached, Lifted, attach, on_trampoline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reactivex import Observable, abc

    from orx_rx.stream import Functions

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
        return _Shared(hub)

    return operator


class _Shared(Lifted[T]):
    """What `fan_out` returns. It calls subscribers as they are: the observer that Rx would wrap each in costs more."""

    def __init__(self, hub: _Hub[T]) -> None:
        super().__init__(self._join)
        self._hub = hub

    def _connect(self, functions: Functions[T], on_batch: object, scheduler: abc.SchedulerBase | None) -> Disposable:
        listener = _Listener(*functions)
        on_trampoline(lambda: self._hub.join(listener, scheduler))
        return Disposable(partial(self._hub.leave, listener))

    def _join(self, observer: Attached[T], scheduler: abc.SchedulerBase | None) -> Disposable:
        return self._connect((observer.on_next, observer.on_error, observer.on_completed), None, scheduler)


class _Listener(Generic[T]):
    """A subscriber, as three functions."""

    __slots__ = ("on_completed", "on_error", "on_next", "part")

    def __init__(
        self,
        on_next: Callable[[T], None] | None,
        on_error: Callable[[Exception], None] | None,
        on_completed: Callable[[], None] | None,
    ) -> None:
        self.on_next: Callable[[T], None] = on_next or noop
        self.on_error: Callable[[Exception], None] = on_error or default_error
        self.on_completed: Callable[[], None] = on_completed or noop
        self.part: abc.DisposableBase | None = None  # makes its flow part with that of the source

    def silence(self) -> tuple[Callable[[Exception], None], Callable[[], None]]:
        """Let it hear nothing any more, and return what it would have been told at the end."""
        ends = self.on_error, self.on_completed
        self.on_next = self.on_error = self.on_completed = noop
        return ends


class _Ear(Attached[T]):
    """What listens to the source for a hub."""

    def __init__(self, hub: _Hub[T]) -> None:
        super().__init__()
        self._hub = hub

    def on_next(self, value: T) -> None:
        self._hub.spread((value,))

    def on_batch(self, values: Sequence[T]) -> None:
        self._hub.spread(values)

    def _on_error_core(self, error: Exception) -> None:
        self._hub.finish(error)

    def _on_completed_core(self) -> None:
        self._hub.finish(None)


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
        self._listeners: dict[_Listener[T], None] = {}  # in their order; never changed in the middle of a round
        self._round: tuple[_Listener[T], ...] | None = ()  # the same; None when it has to be made anew
        self._waiting: deque[tuple[Callable[[Any], None], Any]] = deque()
        # tokens: to take one is atomic, and costs a quarter of what a lock does
        self._turn = deque([None])  # whoever has it is at work
        self._first = deque([None])  # whoever takes it subscribes to the source, and keeps it
        self._upstream = SingleAssignmentDisposable()
        self._ended = False
        self._error: Exception | None = None  # what it ended with, if not with completion

    def join(self, listener: _Listener[T], scheduler: abc.SchedulerBase | None) -> None:
        """Let somebody listen."""
        self._do(self._welcome, (listener, current_flow()))
        if _took(self._first):
            with subscribing(self._flow):
                self._upstream.disposable = attach(_Ear(self), self._source, scheduler)

    def leave(self, listener: _Listener[T]) -> None:
        """Let somebody hear nothing any more, from now on."""
        listener.silence()
        self._do(self._leave, listener)

    def spread(self, elements: Sequence[T]) -> None:
        """Tell everybody what came."""
        if self._waiting or not _took(self._turn):
            self._do(self._spread, elements)
            return
        try:  # nobody is at work and nothing waits, as nearly always
            self._spread(elements)
        finally:
            self._turn.append(None)
        if self._waiting:
            self._work()

    def finish(self, error: Exception | None) -> None:
        """Tell everybody that it has ended."""
        self._do(self._finish, error)

    def _do(self, work: Callable[[A], None], about: A) -> None:
        """Do something, or leave it to whoever is at work."""
        self._waiting.append((work, about))
        self._work()

    def _work(self) -> None:
        # once more after the turn was given back: somebody may have left something to us just before
        while self._waiting and _took(self._turn):
            try:
                while self._waiting:
                    next_work, its_subject = self._waiting.popleft()
                    next_work(its_subject)
            finally:
                self._turn.append(None)

    def _welcome(self, guest: tuple[_Listener[T], Flow | None]) -> None:
        listener, flow = guest
        missed = self._seen - len(self._history)
        if missed and self._whole:
            self._tell(listener, JoinedTooLate(missed))
            return
        try:
            for element in self._history:
                listener.on_next(element)
        except (Exception, CancelledError) as error:
            self._detach(listener, error)
            return
        if self._ended:
            self._tell(listener, self._error)
            return
        self._listeners[listener] = None
        self._round = None
        if flow is not None:
            listener.part = self._flow.join(flow)

    def _spread(self, elements: Sequence[T]) -> None:
        if self._ended:
            return
        waiting, keep = self._waiting, self._history.append
        for element in elements:
            keep(element)
            self._seen += 1
            if self._round is None:
                self._round = tuple(self._listeners)
            for listener in self._round:
                on_next = listener.on_next  # which is faster than to call what an attribute holds
                try:
                    on_next(element)
                except (Exception, CancelledError) as error:
                    self._detach(listener, error)
            if waiting:
                self._let_in_and_out()
                if self._ended:
                    return

    def _let_in_and_out(self) -> None:
        """Let who joins or leaves do so between two elements; other elements, and the end, come behind these."""
        while self._waiting and self._waiting[0][0] in (self._welcome, self._leave):
            next_work, its_subject = self._waiting.popleft()
            next_work(its_subject)

    def _finish(self, error: Exception | None) -> None:
        if self._ended:
            return
        self._ended, self._error = True, error
        listeners, self._listeners, self._round = self._listeners, {}, ()
        for listener in listeners:
            if listener.part is not None:
                listener.part.dispose()
            self._tell(listener, error)
        self._upstream.dispose()

    def _leave(self, listener: _Listener[T]) -> None:
        if listener not in self._listeners:
            return
        del self._listeners[listener]
        self._round = None
        if listener.part is not None:
            listener.part.dispose()
        if not self._listeners and not self._keep_alive:
            self._finish(StreamInterrupted("expected a live stream, got one whose last subscriber had left"))

    def _detach(self, listener: _Listener[T], raised: BaseException) -> None:
        """Tell somebody what it raised, and nothing any more."""
        self._waiting.append((self._leave, listener))
        log.error("a subscriber raised and was detached", error=type(raised).__name__, exc_info=raised)
        if isinstance(raised, Exception):
            self._tell(listener, raised, logged=True)
        else:
            # Nothing here awaits, so a CancelledError is the subscriber's own: that of our task comes when it awaits.
            error = RuntimeError(f"expected a subscriber to raise exceptions at most, got {type(raised).__name__}")
            error.__cause__ = raised
            self._tell(listener, error, logged=True)

    def _tell(self, listener: _Listener[T], error: Exception | None, *, logged: bool = False) -> None:
        """Tell somebody how it ends: with an error, which may have been logged already, or with completion."""
        traceback = error.__traceback__ if error is not None else None
        on_error, on_completed = listener.silence()
        try:
            if error is None:
                on_completed()
            else:
                on_error(error)
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
