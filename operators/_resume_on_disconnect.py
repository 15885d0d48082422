"""Go on where the stream of a background response broke off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reactivex import operators as rx
from reactivex.disposable import CompositeDisposable, SerialDisposable, SingleAssignmentDisposable
from reactivex.scheduler import CurrentThreadScheduler

from orx_rx.loops import clock_of, stopwatch
from orx_rx.protocol.resume import MAX_QUEUED, Move, Resumer, doubled
from orx_rx.protocol.violations import DEFAULT, Profile
from orx_rx.reporting import Attempt, announce, judges
from orx_rx.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex import Observable, abc

    from orx_rx.models.event_base import Event
    from orx_rx.models.response import Response
    from orx_rx.protocol.cursor import Cursor
    from orx_rx.reporting import AttemptListener, ViolationListener
    from orx_rx.stream import Operator


def resume_on_disconnect(
    reopen: Callable[[Cursor], Observable[Event]],
    *,
    poll: Callable[[str], Observable[Response]] | None = None,
    cursor: Cursor | None = None,
    rebuild: bool = False,
    attempts: int = 5,
    wait: float = 0.5,
    longest_wait: float = 8.0,
    max_queued: float = MAX_QUEUED,
    profile: Profile = DEFAULT,
    on_violation: ViolationListener | None = None,
    on_attempt: AttemptListener | None = None,
    scheduler: abc.SchedulerBase | None = None,
) -> Operator[Event, Event]:
    """Go on where the stream of a background response broke off.

    A disconnect is a transport error, or an end without a terminal. Only a response that was created in the background
    is resumed; every other stream ends as it did. What comes after a disconnect must go on exactly behind the last
    event that was handed on: events that came before are dropped, a gap is an error. Nothing is ever sent twice: to
    reopen is to ask for the rest of the same response.

    When the server refuses to stream the rest (the response expired, was not stored, or is finished and comes as JSON)
    the response is polled until it is final, and the events that are missing are made from it, marked `is_synthetic`.
    It is asked for as a whole, too, when a stream that was opened again ends with nothing in it, as that of a cancelled
    response does. Behind a cursor without a snapshot nobody knows what is missing: only the terminal is made.

    ::

        1 2 3 4: events with that number; reopen: --2---3---4---|; wait: 2 columns

        ---1---2---#--------------------
        [ resume_on_disconnect(reopen) ]
        ---1---2-----------3---4---|

    Args:
        reopen: Given the cursor, opens the stream behind it again.
        poll: Given the id of the response, gets it as a whole; without it a refusal ends the stream.
        cursor: Up to where the response was handed on before, when the source does not create it but goes on behind
            that place.
        rebuild: Whether the source begins at the beginning nevertheless; what was handed on before the cursor is
            passed on too, and is for whoever rebuilds a snapshot.
        attempts: How often to try again without progress, at most.
        wait: The wait before the first attempt, in seconds; it doubles with every one.
        longest_wait: The longest wait, in seconds.
        max_queued: How long a response that is polled may stay queued, in seconds; an hour by default.
        profile: What each violation costs.
        on_violation: A function or an observer that hears of every reported violation.
        on_attempt: Hears of every attempt to resume or to poll, before the wait.
        scheduler: Keeps the time; by default that of the subscriber, else the running event loop, else this thread.

    Raises:
        ValueError: A number is negative.
        SequenceViolation: To the subscriber, when the server leaves a gap behind the cursor, or the cursor is ahead of
            the stream.
        StreamTimeout: To the subscriber, when the response stays queued for too long.
        StreamInterrupted: To the subscriber, when the server refuses to go on.
        OrxError: To the subscriber, whatever the stream ended with, when it cannot be resumed or attempts run out.
    """
    numbers = {"attempts": attempts, "wait": wait, "longest_wait": longest_wait, "max_queued": max_queued}
    for name, value in numbers.items():
        if not value >= 0:
            raise ValueError(f"expected {name} of at least 0, got {value}")
    new_judge = judges(profile, on_violation)

    def operator(source: Observable[Event]) -> Observable[Event]:
        def subscribe(
            observer: abc.ObserverBase[Event], subscriber_scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            resumer = Resumer(
                attempts, new_judge(), cursor, rebuild=rebuild, polls=poll is not None, max_queued=max_queued
            )
            clock = clock_of(scheduler, subscriber_scheduler) or CurrentThreadScheduler.singleton()

            def open_at(place: Cursor | None) -> Observable[Event]:
                return source if place is None else reopen(place)

            resuming = _Resuming(observer, resumer, open_at, poll, (wait, longest_wait), clock, on_attempt)
            resuming.listen(source, subscriber_scheduler)
            return resuming.subscription

        return Stream(subscribe)

    return operator


class _Resuming:
    """One stream, over as many connections as it takes."""

    def __init__(
        self,
        observer: abc.ObserverBase[Event],
        resumer: Resumer,
        reopen: Callable[[Cursor | None], Observable[Event]],
        poll: Callable[[str], Observable[Response]] | None,
        waits: tuple[float, float],
        clock: abc.SchedulerBase,
        on_attempt: AttemptListener | None,
    ) -> None:
        self._observer = observer
        self._resumer = resumer
        self._reopen = reopen
        self._poll = poll
        self._waits = waits
        self._clock = clock
        self._now = stopwatch(clock)
        self._listener = on_attempt
        self._polls = 0
        self._connection = SerialDisposable()
        self._timer = SerialDisposable()
        self.subscription = CompositeDisposable(self._connection, self._timer)

    def listen(self, source: Observable[Event], scheduler: abc.SchedulerBase | None = None) -> None:
        """Listen to a connection."""
        slot = self._connect()
        slot.disposable = source.subscribe(
            self._on_next, self._on_end, lambda: self._on_end(None), scheduler=scheduler or self._clock
        )

    def _connect(self) -> SingleAssignmentDisposable:
        """Give up the last connection, and make room for the next, which may end before it is told apart."""
        slot = SingleAssignmentDisposable()
        self._connection.disposable = slot
        return slot

    def _on_next(self, event: Event) -> None:
        try:
            events = self._resumer.feed(event)
        except Exception as error:
            self._observer.on_error(error)
            return
        for passing in events:
            self._observer.on_next(passing)
            self._resumer.passed(passing)

    def _on_end(self, error: Exception | None) -> None:
        self._go(self._resumer.disconnected(error), error)

    def _go(self, move: Move, error: Exception | None) -> None:
        if move is Move.END:
            self._end(error)
            return
        self._polls += move is Move.POLL
        number = self._resumer.tries if move is Move.REOPEN else self._polls
        wait = doubled(*self._waits, number - 1)
        cursor = self._resumer.cursor
        announce(
            Attempt("resume" if move is Move.REOPEN else "poll", number, wait, error),
            self._listener,
            response_id=self._resumer.response_id,
            sequence_number=cursor and cursor.sequence_number,
        )
        self._timer.disposable = self._clock.schedule_relative(wait, self._open if move is Move.REOPEN else self._ask)

    def _open(self, *_: Any) -> None:
        self._resumer.reopened()
        try:
            source = self._reopen(self._resumer.cursor)
        except Exception as error:
            self._observer.on_error(error)
            return
        self.listen(source)

    def _ask(self, *_: Any) -> None:
        assert self._poll is not None
        try:
            source = self._poll(self._resumer.response_id)
        except Exception as error:
            self._observer.on_error(error)
            return
        slot = self._connect()
        slot.disposable = source.pipe(rx.first()).subscribe(
            self._on_response, lambda error: self._go(self._resumer.not_polled(error), error), scheduler=self._clock
        )

    def _on_response(self, response: Response) -> None:
        try:
            rest = self._resumer.polled(response, self._now())
        except Exception as error:
            self._observer.on_error(error)
            return
        if isinstance(rest, Move):
            self._go(rest, None)
            return
        for event in rest:
            self._observer.on_next(event)
        self._observer.on_completed()

    def _end(self, error: Exception | None) -> None:
        for event in self._resumer.end():
            self._observer.on_next(event)
        told = self._resumer.give_up(error)
        if told is None:
            self._observer.on_completed()
        else:
            self._observer.on_error(told)
