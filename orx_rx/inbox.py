"""What waits until somebody reads it, and what becomes of it when it is too much: one class for each policy."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from math import inf
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, cast

from orx_rx.errors import ConsumerTooSlow
from orx_rx.flow import Flow, subscribing
from orx_rx.protocol.conflation import merged, where_of
from orx_rx.reporting import log
from orx_rx.stream import TakesBatches

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from reactivex import abc

T = TypeVar("T")

Overflow: TypeAlias = Literal["pause", "drop_oldest", "latest", "fail", "conflate"]
"""What becomes of elements that nobody has read yet when there are too many of them."""


def inbox_of(buffer: int, overflow: Overflow, resume_at: int | None) -> Inbox[Any]:
    """Make an inbox, or say why there is none of that kind; the arguments are those of `iterate`.

    Raises:
        ValueError: One of them is out of range.
    """
    if overflow not in _INBOXES:
        raise ValueError(f"expected overflow to be one of {', '.join(_INBOXES)}, got {overflow!r}")
    if not _is_count(buffer, 1):
        raise ValueError(f"expected a buffer of at least 1 element, got {buffer!r}")
    low = buffer // 2 if resume_at is None else resume_at
    if not _is_count(low, 0) or low >= buffer:
        raise ValueError(f"expected resume_at to be from 0 to {buffer - 1}, got {resume_at!r}")
    return _INBOXES[overflow](buffer, low)


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


class Inbox(TakesBatches[T]):
    """Keeps what an observable emits until somebody takes it; when it is full, the oldest element is dropped.

    Elements may come from another thread than that of the reader.

    Args:
        mark: How many elements it holds.
        low: At how many elements a pause ends, where one is made.

    Attributes:
        elements: What waits.
        ended: Whether nothing more comes.
        error: What it ended with, if not with completion.
        dropped: How many elements were dropped.
        merged: How many elements were merged into others.
        flow: What pauses the source; None where nothing does.
        news: Called when there is something to take, or the end.
    """

    def __init__(self, mark: int, low: int) -> None:
        self.elements: deque[T] = deque()
        self.ended: bool = False
        self.error: Exception | None = None
        self.dropped: int = 0
        self.merged: int = 0
        self.flow: Flow | None = None
        self.news: Callable[[], None] = _nothing
        self._mark = mark
        self._most: float = mark  # more than the mark while a history waits that was replayed at once

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to take, and no end."""
        return not self.elements and not self.ended

    @contextmanager
    def subscribing(self) -> Generator[None]:
        """Be subscribed here; what comes at once is a history that is kept elsewhere anyway, and never too much."""
        self._most = inf
        try:
            with subscribing(self.flow):
                yield
        finally:
            self._most = len(self.elements) + self._mark

    def subscribed(self, subscription: abc.DisposableBase) -> None:
        """Take notice of the subscription."""

    def take(self) -> T:
        """Take the oldest element."""
        return self.elements.popleft()

    def take_end(self) -> Exception | None:
        """Take what it ended with, which knows through its traceback where it was raised, and would keep that alive."""
        error, self.error = self.error, None
        return error

    def was_read(self) -> None:
        """Take notice that everything was taken, and so the history as well."""
        self._most = self._mark

    def on_next(self, value: T) -> None:
        """Keep an element, unless nobody wants more."""
        if self.ended:
            return
        self.elements.append(value)
        if len(self.elements) > self._most:
            self.overflow()
        self.news()

    def overflow(self) -> None:
        """Make room: one element more waits than there should."""
        self.elements.popleft()
        self.dropped += 1

    def on_error(self, error: Exception) -> None:
        """Keep the error until what came before it was taken."""
        if not self.ended:
            self.error = error
            self.on_completed()

    def on_completed(self) -> None:
        """Note the end."""
        self.ended = True
        self.news()

    def clear(self) -> None:
        """Forget everything, and end."""
        self.elements.clear()
        self.error = None
        self.on_completed()


class Reading(Generic[T]):
    """What somebody reads out of an inbox, in whatever way.

    Args:
        inbox: The inbox, which nobody else reads.
        news: Called when there is something to read, or the end.
    """

    def __init__(self, inbox: Inbox[T], news: Callable[[], None]) -> None:
        self._inbox = inbox
        inbox.news = news

    @property
    def waiting(self) -> int:
        """How many elements wait to be read."""
        return len(self._inbox.elements)

    @property
    def dropped(self) -> int:
        """How many elements were dropped, by `"drop_oldest"` or `"latest"`."""
        return self._inbox.dropped

    @property
    def merged(self) -> int:
        """How many elements became a part of another one, by `"conflate"`."""
        return self._inbox.merged


class _Latest(Inbox[T]):
    """Keeps the newest element alone."""

    def __init__(self, mark: int, low: int) -> None:
        super().__init__(1, 0)


class _Failing(Inbox[T]):
    """Ends the reading when it is full."""

    _subscription: abc.DisposableBase | None = None

    def subscribed(self, subscription: abc.DisposableBase) -> None:
        """Keep what ends the source."""
        if not self.ended:
            self._subscription = subscription

    def overflow(self) -> None:
        """Give up, behind the elements that wait."""
        self.elements.pop()
        subscription = self._subscription
        self.on_error(ConsumerTooSlow(self._mark))
        if subscription is not None:
            subscription.dispose()

    def on_completed(self) -> None:
        """Note the end, and forget the subscription, which leads back here."""
        self._subscription = None
        super().on_completed()


class _Pausing(Inbox[T]):
    """Pauses the source while it is full."""

    def __init__(self, mark: int, low: int) -> None:
        super().__init__(mark - 1, low)  # at the mark it is full
        self.flow = self._flow = Flow()
        self._room = mark - low  # that a pause waits for
        self._paused = False
        self._lock = RLock()

    def on_batch(self, values: Sequence[T]) -> None:
        """Keep elements, unless nobody wants more."""
        if not self.ended:
            self.elements.extend(values)
            if len(self.elements) > self._most:
                self.overflow()
            self.news()

    def take(self) -> T:
        """Take the oldest element, and let the source go on if enough were taken."""
        element = self.elements.popleft()
        if self._paused:
            self._perhaps_resume()
        return element

    def overflow(self) -> None:
        """Pause the source; the element stays."""
        if self._paused or self.ended:
            return
        with self._lock:
            self._paused = True
            self._flow.pause()
        if not self._flow.is_heeded:
            log.info("nothing to pause", waiting=len(self.elements))
        self._perhaps_resume()  # the reader may have been faster

    def clear(self) -> None:
        """Forget everything, and end; others may want what this one paused."""
        super().clear()
        self._perhaps_resume()

    def _perhaps_resume(self) -> None:
        with self._lock:
            if self._paused and (self.ended or len(self.elements) <= self._most + 1 - self._room):
                self._paused = False
                self._flow.resume()


class _Conflating(_Pausing[T]):
    """Keeps deltas that continue each other as one element."""

    def __init__(self, mark: int, low: int) -> None:
        super().__init__(mark, low)
        self._kind: type[object] | None = None  # of what came last
        self._where: Callable[[Mapping[str, object]], object] | None = None  # reads its place, if it is a delta
        self._place: object = None

    def on_next(self, value: T) -> None:
        """Keep an element, as a part of the last one if it continues that."""
        self.on_batch((value,))

    def on_batch(self, values: Sequence[T]) -> None:
        """Keep elements, each as a part of the one before it if it continues that."""
        with self._lock:
            if self.ended:
                return
            waiting = len(self.elements)
            for value in values:
                if self._continues(value):
                    self._merge(value)
                else:
                    self.elements.append(value)
            news = len(self.elements) > waiting
        if news:
            super().on_batch(())

    def take(self) -> T:
        """Take the oldest element."""
        with self._lock:
            element: Any = super().take()
        return cast("T", merged(element)) if type(element) is _Run else cast("T", element)

    def _continues(self, value: T) -> bool:
        """Say whether an element is a delta that goes on where the last one ended, and that one waits still."""
        kind = type(value)
        if kind is not self._kind:
            self._kind, self._where = kind, where_of(kind)
            self._place = self._where and self._where(value.__dict__)
            return False
        if self._where is None:
            return False
        last, self._place = self._place, self._where(value.__dict__)
        return last == self._place and bool(self.elements)

    def _merge(self, value: T) -> None:
        last: Any = self.elements[-1]
        if type(last) is _Run:
            last.append(value)
        else:
            self.elements[-1] = cast("T", _Run([last, value]))
        self.merged += 1


class _Run(list[Any]):
    """Deltas that continue each other, merged when they are read."""


_INBOXES: Mapping[Overflow, Callable[[int, int], Inbox[Any]]] = {
    "pause": _Pausing,
    "drop_oldest": Inbox,
    "latest": _Latest,
    "fail": _Failing,
    "conflate": _Conflating,
}


def _nothing() -> None:
    pass
