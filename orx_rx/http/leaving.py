"""Cancelling a background response when its subscriber leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactivex.disposable import Disposable, SingleAssignmentDisposable

from orx_rx.models.lifecycle_events import ResponseEvent, TerminalEvent
from orx_rx.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex import Observable, abc

    from orx_rx.models.event_base import Event


def cancelled_on_dispose(
    source: Observable[Event], cancel: Callable[[str], object], response_id: str = ""
) -> Observable[Event]:
    """Call a function when a subscriber leaves before the terminal.

    ::

        source:    ---created---a---b---c---
        subscriber:                 left        cancel("resp_1")

    Who leaves before the id of the response is known is not told any more of it, but the stream is read on until the
    id comes, since without it there is nothing to cancel.

    Args:
        source: The events of a background response.
        cancel: Called with the id of the response, once at most for each subscription.
        response_id: The id, where it is known before.
    """

    def subscribe(observer: abc.ObserverBase[Event], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        leaving = _Leaving(observer, cancel, response_id)
        leaving.upstream.disposable = source.subscribe(
            leaving.on_next, leaving.on_error, leaving.on_completed, scheduler=scheduler
        )
        return Disposable(leaving.leave)

    return Stream(subscribe)


class _Leaving:
    """One subscription."""

    def __init__(self, observer: abc.ObserverBase[Event], cancel: Callable[[str], object], response_id: str) -> None:
        self.upstream = SingleAssignmentDisposable()
        self._observer: abc.ObserverBase[Event] | None = observer
        self._cancel = cancel
        self._id = response_id
        self._over = False  # there is nothing left to cancel

    def on_next(self, event: Event) -> None:
        if isinstance(event, ResponseEvent):
            self._id = self._id or event.response.id
            self._over = self._over or isinstance(event, TerminalEvent)
        if self._observer is not None:
            self._observer.on_next(event)
        elif self._over or self._id:
            self.leave()

    def on_error(self, error: Exception) -> None:
        self._over = True
        if self._observer is not None:
            self._observer.on_error(error)

    def on_completed(self) -> None:
        self._over = True
        if self._observer is not None:
            self._observer.on_completed()

    def leave(self) -> None:
        self._observer = None
        if self._over or self._id:
            self.upstream.dispose()
            if not self._over:
                self._over = True
                self._cancel(self._id)
