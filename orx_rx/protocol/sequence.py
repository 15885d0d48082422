"""The order of events: sequence numbers increase, leave nothing out, and come once."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from orx_rx.models.event_base import Event
from orx_rx.models.stream_events import ResponseErrorEvent, StreamEnd
from orx_rx.protocol.steps import Batched, Completes
from orx_rx.protocol.violations import Judge

if TYPE_CHECKING:
    from collections.abc import Sequence


class SequenceChecker(Batched[Event, Event]):
    """Checks the sequence numbers of a stream; every event counts, keepalives and unknown ones too.

    A stream may begin at any number, as a resumed one does. Missing numbers are reported once, and never of an error:
    its reason must not hide behind its form. An event that comes twice with the same number is dropped where the
    profile lets it pass; repeats are told by number and never by text alone.

    Args:
        judge: Decides what a violation costs.
    """

    takes = Event
    completes: ClassVar[Completes] = "same"

    def __init__(self, judge: Judge | None = None) -> None:
        self._judge = judge or Judge()
        self._last: int = -1
        self._last_event: Event | None = None
        self._unnumbered = 0  # events without a number since the last one that had one
        self._told = False

    def feed_all(self, events: Sequence[Event], passing: list[Event], /) -> None:
        """Check events.

        Raises:
            SequenceViolation: The profile does not let a number pass.
        """
        for event in events:
            number = event.sequence_number
            if number is None:
                passing += self._missing(event)
            elif number == self._last + 1 or self._last_event is None:
                self._last = number
                self._last_event = event
                self._unnumbered = 0
                passing.append(event)
            else:
                passing += self._jump(event, number)

    def end(self) -> Sequence[Event]:
        """Do nothing: a stream may end at any number."""
        return ()

    def fail(self, error: Exception) -> Sequence[Event]:
        """Pass on an error with the violations that were found here."""
        self._judge.throw(error)

    def _missing(self, event: Event) -> Sequence[Event]:
        self._unnumbered += 1
        if not self._told and not isinstance(event, ResponseErrorEvent | StreamEnd):
            self._told = True
            self._judge.found("sequence_missing", "expected a sequence number, got none", event=event)
        return (event,)

    def _jump(self, event: Event, number: int) -> Sequence[Event]:
        last = self._last
        if number > last:
            # events without a number fill as many places
            if number - last - 1 > self._unnumbered:
                message = f"expected sequence number {last + 1}, got {number}: {number - last - 1} missing"
                self._judge.found("sequence_gap", message, event=event)
            self._last, self._last_event, self._unnumbered = number, event, 0
            return (event,)
        if number == last and event == self._last_event:
            self._judge.found(
                "sequence_repeated", f"expected sequence number {last + 1}, got {last} again", event=event
            )
            return ()
        self._judge.found("sequence_backward", f"expected a sequence number above {last}, got {number}", event=event)
        return (event,)
