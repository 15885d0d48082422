"""Structured output while it is written: what is known of it, at every moment that is worth looking."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from orx_rx.models.event_base import Event
from orx_rx.models.lifecycle_events import TerminalEvent
from orx_rx.models.text_events import ResponseTextDeltaEvent, ResponseTextDoneEvent
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.known import UNKNOWN, CutText
from orx_rx.protocol.structured import OutputFormat, is_answer
from orx_rx.protocol.violations import QUIET, Judge

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

SHARE = 1 / 16
"""By how much of itself a text has to grow to be read again.

A text of n characters is then read at lengths that form a geometric series, so that all readings together read at most
17 n characters.
"""

PATIENCE = 10
"""After how many ticks a text that grew by less is read again all the same."""


class Tick(Enum):
    """What tells the reader that it may look."""

    TICK = "tick"


class PartialReader(Generic[T]):
    """Reads the first text of the answer as far as it was written, at ticks; and the answer at the terminal.

    Args:
        text_format: The type to read it as.
        patience: After how many ticks a text that has hardly grown is read again; None for never.
    """

    takes = Event

    def __init__(self, text_format: OutputFormat[T], patience: int | None = PATIENCE) -> None:
        self._format = text_format
        self._patience = patience
        self._known = text_format.known
        self._accumulator = Accumulator(Judge(QUIET))
        self._cut = CutText()
        self._place: tuple[int, int] | None = None
        self._delta: ResponseTextDeltaEvent | None = None  # the last one that was not read yet
        self._read = 0  # characters, at the last reading
        self._ticks = 0  # since then
        self._whole = self._ended = False
        self._value: Any = UNKNOWN  # as JSON, at the last reading
        self._last: Any = UNKNOWN

    @property
    def waiting(self) -> bool:
        """Whether there is something that was not read yet."""
        return self._delta is not None

    def feed(self, item: Event | Tick) -> Sequence[T]:
        """Take an event or a tick, and return what is known if that is news.

        Raises:
            OutputError: The answer is not what was asked for.
        """
        if isinstance(item, Tick):
            return self._tick()
        (event,) = self._accumulator.feed(item)
        if isinstance(event, ResponseTextDeltaEvent):
            if self._is_read(event) and not self._whole:
                self._delta = event
        elif isinstance(event, ResponseTextDoneEvent):
            if self._is_read(event) and not self._whole:
                self._whole = True
                return self._look(event.text)
        elif isinstance(event, TerminalEvent) and not self._ended:
            return self._end(event)
        return ()

    def end(self) -> Sequence[T]:
        """Do nothing: an answer without a terminal is not finished."""
        return ()

    def _is_read(self, event: ResponseTextDeltaEvent | ResponseTextDoneEvent) -> bool:
        """Say whether a text is the one to read: the first of the answer."""
        place = (event.output_index, event.content_index)
        if self._place is None:
            held = self._accumulator.known(event.output_index)
            if is_answer(getattr(held and held.added, "phase", None)):
                self._place = place
        return place == self._place

    def _tick(self) -> Sequence[T]:
        delta = self._delta
        if delta is None:
            return ()
        self._ticks += 1
        grown = delta.snapshot_length - self._read
        patient = self._patience is None or self._ticks < self._patience
        return () if patient and grown < self._read * SHARE else self._look(delta.snapshot)

    def _look(self, text: str) -> Sequence[T]:
        self._delta, self._read, self._ticks = None, len(text), 0
        value = self._cut.read(text)
        if value is UNKNOWN or value == self._value:
            return ()
        self._value = value
        known = self._known(value)
        if self._format.wrapped:
            known = getattr(known, "value", UNKNOWN)
        return self._news(known)

    def _end(self, event: TerminalEvent) -> Sequence[T]:
        self._ended = self._whole = True
        self._delta = None
        answer = self._format.read(event.response)
        return () if answer is None and self._last is UNKNOWN else self._news(answer)

    def _news(self, known: Any) -> Sequence[T]:
        if known is UNKNOWN or _is_same(known, self._last):
            return ()
        self._last = known
        return (cast("T", known),)


def _is_same(one: object, other: object) -> bool:
    try:
        return type(one) is type(other) and one == other
    except AttributeError:  # a dataclass compares fields that are not there
        return False
