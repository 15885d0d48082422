"""The clocks of a stream."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

from reactivex.disposable import CompositeDisposable, SerialDisposable
from reactivex.scheduler.eventloop import AsyncIOScheduler

from orx_rx.errors import StreamTimeout
from orx_rx.flow import current_flow
from orx_rx.loops import LEAST_WAIT, running_loop, stopwatch
from orx_rx.models.event_base import Event
from orx_rx.models.lifecycle_events import ResponseInProgressEvent, ResponseQueuedEvent
from orx_rx.models.stream_events import KeepaliveEvent
from orx_rx.protocol.steps import Batched, Completes
from orx_rx.step import BatchObserver
from orx_rx.stream import Lifted, attach

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reactivex import Observable, abc

    from orx_rx.stream import Attached, Operator


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
    source: Observable[Event],
    name: str,
    seconds: float,
    stops: Callable[[Event], bool] | None,
    again: bool,
    scheduler: abc.SchedulerBase | None,
) -> Observable[Event]:
    """Run one clock: an event for which `stops` holds stops it, or winds it up again."""

    def subscribe(
        observer: Attached[Event], subscriber_scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        keeper = scheduler or subscriber_scheduler or AsyncIOScheduler(running_loop("read HTTP"))
        clock = _Clock(seconds, stops, again, keeper)
        watching = BatchObserver(clock, observer)
        clock.run(lambda: watching.on_error(StreamTimeout(name, seconds)))
        return CompositeDisposable(attach(watching, source, subscriber_scheduler), clock.timer)

    return Lifted(subscribe)


class _Clock(Batched[Event, Event]):
    """Runs for one subscription; events pass."""

    completes: ClassVar[Completes] = "same"

    def __init__(
        self, seconds: float, stops: Callable[[Event], bool] | None, again: bool, keeper: abc.SchedulerBase
    ) -> None:
        self.timer = SerialDisposable()
        self._seconds = seconds
        self._stops = stops
        self._again = again
        self._keeper = keeper
        self._flow, self._pauses = current_flow(), 0
        self._now = stopwatch(keeper)
        self._wound = self._now()

    def feed_all(self, events: Sequence[Event], passing: list[Event], /) -> None:
        stops = self._stops
        if stops is not None and any(map(stops, events)):
            if self._again:
                self._wound = self._now()
            else:
                self._stops = None
                self.timer.dispose()
        passing += events

    def end(self) -> Sequence[Event]:
        return ()

    def run(self, expired: Callable[[], None]) -> None:
        """Begin to run."""
        self._expired = expired
        self._wind(self._seconds)

    def _wind(self, left: float) -> None:
        self.timer.disposable = self._keeper.schedule_relative(left, self._expire)

    def _expire(self, *_: object) -> None:
        flow = self._flow
        if self._again and flow is not None and (flow.is_paused or flow.times_paused > self._pauses):
            self._wound, self._pauses = self._now(), flow.times_paused  # a slow consumer is no fault of the server
        left = self._seconds - (self._now() - self._wound)
        if left >= LEAST_WAIT:  # it was wound up since; setting a timer for every event would cost more
            self._wind(left)
        else:
            self._expired()
