"""Read structured output as far as it is known."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar, overload

from reactivex.disposable import CompositeDisposable, SerialDisposable

from orx_rx.loops import clock_of
from orx_rx.models.text_events import ResponseTextDeltaEvent
from orx_rx.protocol.partial import PATIENCE, PartialReader, Tick
from orx_rx.protocol.structured import OutputFormat
from orx_rx.step import lift
from orx_rx.stream import Stream

if TYPE_CHECKING:
    from reactivex import Observable, abc

    from orx_rx.models.event_base import Event
    from orx_rx.stream import Operator

T = TypeVar("T")


@overload
def partial(
    text_format: type[T], *, every: float | None = 0.1, scheduler: abc.SchedulerBase | None = None
) -> Operator[Event, T]: ...


@overload
def partial(
    text_format: object, *, every: float | None = 0.1, scheduler: abc.SchedulerBase | None = None
) -> Operator[Event, Any]: ...


def partial(
    text_format: Any, *, every: float | None = 0.1, scheduler: abc.SchedulerBase | None = None
) -> Operator[Event, Any]:
    """Read structured output as far as it is known.

    An object comes out whenever it changed; the last one is the answer, validated. Those before are of the same type:

    - A field that is not known yet has its default. One without a default is not there: reading it is an
      `AttributeError`, so give fields defaults to show them early; the model writes them all the same.
      `model_fields_set` says what is known.
    - A string may be cut. A number is there once something follows it, and a literal, an enum or a date once it is
      whole. An object of a union is there once a literal field tells which it is.
    - What does not fit is left out. Validators of fields run on whole values, those of models and containers on the
      answer only.

    ::

        a: delta '{"n": 12'   b: delta ', "s": "H'   c: delta 'i"}'   t: the terminal
        x: s "H"   y: s "Hi"

        ---a---b---c---t---|
        [ partial(Model)   ]
        ---o---x---y-------|   o: nothing but defaults

    The text is read at most once in each interval, and at the end; and only when it has grown by a sixteenth of
    itself, or ten intervals have passed. All readings together therefore cost what 17 readings of the whole text cost,
    and those of one interval in ten.

    Args:
        text_format: The type, as it was given to `Client.events`. What is no object is read as the `value` of one.
        every: The shortest time between two readings, in seconds; None to look at every delta, whatever the time.
        scheduler: Keeps the time; by default that of the subscriber, else the running event loop. Where there is
            neither, it looks at every delta.

    Raises:
        TypeError: pydantic cannot read the type from JSON.
        ValueError: `every` is not above 0.
        IncompleteOutput: To the subscriber, when the response was cut off or failed.
        Refused: To the subscriber, when the model refused to answer.
        OutputParseError: To the subscriber, when the answer does not fit.
    """
    if every is not None and not (every > 0 and isfinite(every)):
        raise ValueError(f"expected every to be None or above 0 seconds, got {every}")
    asked = OutputFormat.of(text_format)
    PartialReader[Any](asked)  # makes what all readers share, here and not at the first subscription

    def operator(source: Observable[Event]) -> Observable[Any]:
        def subscribe(
            observer: abc.ObserverBase[Any], subscriber_scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            clock = None if every is None else clock_of(scheduler, subscriber_scheduler)
            reader = PartialReader[Any](asked, None if clock is None else PATIENCE)
            ticking = _at_every_delta(source) if clock is None else _at_times(source, reader, every or 0, clock)
            return ticking.pipe(lift(lambda: reader)).subscribe(observer, scheduler=subscriber_scheduler)

        return Stream(subscribe)

    return operator


def _at_every_delta(source: Observable[Event]) -> Observable[Event | Tick]:
    def subscribe(
        observer: abc.ObserverBase[Event | Tick], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        def on_next(event: Event) -> None:
            observer.on_next(event)
            if isinstance(event, ResponseTextDeltaEvent):
                observer.on_next(Tick.TICK)

        return source.subscribe(on_next, observer.on_error, observer.on_completed, scheduler=scheduler)

    return Stream(subscribe)


def _at_times(
    source: Observable[Event], reader: PartialReader[Any], seconds: float, clock: abc.SchedulerBase
) -> Observable[Event | Tick]:
    """Tick at the first delta, and after that at intervals, as long as something waits to be read."""

    def subscribe(
        observer: abc.ObserverBase[Event | Tick], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        timer = SerialDisposable()
        is_running = False

        def tick() -> None:
            nonlocal is_running
            is_running = True
            timer.disposable = clock.schedule_relative(seconds, expire)
            observer.on_next(Tick.TICK)

        def expire(*_: object) -> None:
            nonlocal is_running
            is_running = False
            if reader.waiting:
                tick()

        def on_next(event: Event) -> None:
            observer.on_next(event)
            if not is_running and reader.waiting:
                tick()

        upstream = source.subscribe(on_next, observer.on_error, observer.on_completed, scheduler=scheduler)
        return CompositeDisposable(upstream, timer)

    return Stream(subscribe)
