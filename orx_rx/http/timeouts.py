"""The clocks of a stream."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

from reactivex.disposable import CompositeDisposable, SerialDisposable
from reactivex.scheduler.eventloop import AsyncIOScheduler

from orx_rx.errors import StreamTimeout
from orx_rx.flow import current_flow
from orx_rx.models.lifecycle_events import ResponseInProgressEvent, ResponseQueuedEvent
from orx_rx.models.stream_events import KeepaliveEvent
from orx_rx.step import Stream, running_loop, stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex import Observable, abc

    from orx_rx.models.event_base import Event
    from orx_rx.step import Operator

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """The clocks of a stream, each in seconds; None turns one off.

    There is no clock for the whole by default: a healthy stream may take hours.

    Attributes:
        connect: Until the connection is made.
        first_event: From the request to the first event that is no keepalive.
        idle: Between two arrivals of bytes; keepalives and comments reset it.
        progress: Between two events that move the response on: anything but keepalives, `queued` and `in_progress`.
        duration: From the request to the end of the stream.

    Raises:
        ValueError: A clock is not a positive number of seconds.
    """

    connect: float | None = 10.0
    first_event: float | None = 120.0
    idle: float | None = 300.0
    progress: float | None = None
    duration: float | None = None

    def __post_init__(self) -> None:
        """Refuse clocks that cannot run."""
        for field in fields(self):
            seconds: float | None = getattr(self, field.name)
            if seconds is not None and not 0 < seconds < math.inf:
                raise ValueError(f"expected {field.name} to be None or above 0 seconds, got {seconds}")


def watch_events(timeouts: Timeouts, scheduler: abc.SchedulerBase | None = None) -> Operator[Event, Event]:
    """Hold a stream of events to the clocks that events reset; those of bytes are the source's.

    ::

        a: an event

        ------------------------
        [ first_event=10       ]
        ----------#

    Args:
        timeouts: The clocks; `first_event`, `progress` and `duration` are used.
        scheduler: Keeps the time; by default that of the subscriber, else the running event loop.

    Raises:
        StreamTimeout: To the subscriber, when a clock runs out.
    """
    clocks: list[tuple[str, float | None, Callable[[Event], bool] | None, bool]] = [
        ("first_event", timeouts.first_event, _is_content, False),
        ("progress", timeouts.progress, _is_progress, True),
        ("duration", timeouts.duration, None, False),
    ]

    def operator(source: Observable[Event]) -> Observable[Event]:
        for name, seconds, stops, again in clocks:
            if seconds is not None:
                source = _clocked(source, name, seconds, stops, again, scheduler)
        return source

    return operator


def _is_content(event: Event) -> bool:
    return not isinstance(event, KeepaliveEvent)


def _is_progress(event: Event) -> bool:
    return not isinstance(event, KeepaliveEvent | ResponseQueuedEvent | ResponseInProgressEvent)


def _clocked(
    source: Observable[T],
    name: str,
    seconds: float,
    stops: Callable[[T], bool] | None,
    again: bool,
    scheduler: abc.SchedulerBase | None,
) -> Observable[T]:
    """Run one clock: an element for which `stops` holds stops it, or winds it up again."""

    def subscribe(
        observer: abc.ObserverBase[T], subscriber_scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        keeper = scheduler or subscriber_scheduler or AsyncIOScheduler(running_loop("read HTTP"))
        timer = SerialDisposable()
        flow, pauses = current_flow(), 0
        running = stops is not None
        now = stopwatch(keeper)
        wound = now()

        def wind(left: float) -> None:
            timer.disposable = keeper.schedule_relative(left, expire)

        def expire(*_: object) -> None:
            nonlocal wound, pauses
            if again and flow is not None and (flow.is_paused or flow.times_paused > pauses):
                wound, pauses = now(), flow.times_paused  # a slow consumer is no fault of the server
            left = seconds - (now() - wound)
            if left > 0:  # it was wound up since; setting a timer for every element would cost more
                wind(left)
            else:
                observer.on_error(StreamTimeout(name, seconds))

        def on_next(element: T) -> None:
            nonlocal running, wound
            if running and stops is not None and stops(element):
                if again:
                    wound = now()
                else:
                    running = False
                    timer.dispose()
            observer.on_next(element)

        wind(seconds)
        upstream = source.subscribe(on_next, observer.on_error, observer.on_completed, scheduler=subscriber_scheduler)
        return CompositeDisposable(upstream, timer)

    return Stream(subscribe)
