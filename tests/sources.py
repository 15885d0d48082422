"""The two ends of a pipeline, for tests: a source that is pushed by hand, and a listener that keeps what it hears."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import Disposable

T = TypeVar("T")


class Source(Generic[T]):
    """A source that is pushed by hand, counts, and has no manners: it goes on after the end and after a dispose.

    Attributes:
        observable: What to subscribe to.
        subscribed: How often that was done.
        disposed: How often that was undone.
    """

    def __init__(self) -> None:
        self.observable: Observable[T] = Observable(self._subscribe)
        self.subscribed = 0
        self.disposed = 0
        self._observers: list[abc.ObserverBase[T]] = []

    def push(self, *elements: T) -> None:
        """Emit; what a subscriber raises comes out here."""
        for element in elements:
            for observer in tuple(self._observers):
                observer.on_next(element)

    def fail(self, error: Exception) -> None:
        """Fail."""
        for observer in tuple(self._observers):
            observer.on_error(error)

    def complete(self) -> None:
        """Complete."""
        for observer in tuple(self._observers):
            observer.on_completed()

    def _subscribe(self, observer: abc.ObserverBase[T], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        self.subscribed += 1
        self._observers.append(observer)
        return Disposable(self._dispose)

    def _dispose(self) -> None:
        self.disposed += 1


class Listener(Generic[T]):
    """A subscriber that keeps what it hears, in a list, and how it ends, in another: an error, or None for completion.

    Args:
        observable: Where to listen; None to do it later, with `join`.
        act: What to do with each element after it was kept.
        scheduler: The scheduler to subscribe with.
    """

    def __init__(
        self,
        observable: Observable[T] | None = None,
        act: Callable[[T], object] | None = None,
        scheduler: abc.SchedulerBase | None = None,
    ) -> None:
        self.heard: list[T] = []
        self.ends: list[Exception | None] = []
        self._act = act
        self._subscription: abc.DisposableBase | None = None
        self._left = False
        if observable is not None:
            self.join(observable, scheduler)

    def join(self, observable: Observable[T], scheduler: abc.SchedulerBase | None = None) -> None:
        """Subscribe."""
        subscription = observable.subscribe(
            self._on_next, self.ends.append, lambda: self.ends.append(None), scheduler=scheduler
        )
        self._subscription = subscription
        if self._left:
            subscription.dispose()

    def leave(self) -> None:
        """Dispose; if that is asked for in the middle of `join`, as soon as it can be done."""
        self._left = True
        if self._subscription is not None:
            self._subscription.dispose()

    def _on_next(self, element: T) -> None:
        self.heard.append(element)
        if self._act is not None:
            self._act(element)


def at_once(elements: Sequence[Any], *ends: Exception | None) -> Observable[Any]:
    """Make a source that emits all it has while it is subscribed to, and whatever ends are asked for after it."""

    def subscribe(observer: abc.ObserverBase[Any], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        for element in elements:
            observer.on_next(element)
        for end in ends:
            observer.on_completed() if end is None else observer.on_error(end)
        return Disposable()

    return Observable(subscribe)
