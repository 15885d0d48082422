"""The picture of a stream: lanes with marks on them, before anybody draws it.

There is a lane for the response, one for each item, and one for each part; time, or the order of the events, goes
across. What draws it needs to know nothing of the protocol.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from orx_rx.errors import OrxError
from orx_rx.models.event_base import DeltaEvent, Event
from orx_rx.models.item_events import ResponseOutputItemAddedEvent, ResponseOutputItemDoneEvent
from orx_rx.models.lifecycle_events import ResponseCreatedEvent, TerminalEvent
from orx_rx.models.stream_events import ResponseErrorEvent, StreamEnd
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.decoding import Decoder
from orx_rx.protocol.lifecycle import LifecycleGuard
from orx_rx.protocol.sequence import SequenceChecker
from orx_rx.protocol.violations import RULES, Judge, Profile, Violation
from orx_rx.wire import FrameParser

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from orx_rx.protocol.cassette import Cassette

Kind = Literal["event", "open", "delta", "close", "completed", "failed", "violation", "reconnect", "end", "broken"]

LONG = 0.5
"""Seconds without a byte from which a silence is a gap; and it has to be a part of the whole, see `SHARE`."""

SHARE = 0.08
"""The part of the whole stream that a gap takes, at least: shorter ones are seen without being told."""

_REPORTING = Profile("REPORTING", dict.fromkeys(RULES, "report"))
_INNER = ("content", "summary", "command")  # what an item may have several of


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened.

    Attributes:
        at: Where it is, in the unit of the picture.
        kind: What it was.
        text: What to say of it.
        size: How many characters it brought.
    """

    at: float
    kind: Kind
    text: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Lane:
    """What happened to one thing.

    Attributes:
        place: The thing: `output[0].content[1]`, or the empty string for the response.
        name: The same with its type, for people.
        marks: What happened, in order.
    """

    place: str
    name: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """A stream to be drawn.

    Attributes:
        lanes: The lanes, the response first.
        length: Where it ends.
        timed: Whether the unit is the second; otherwise it is the event.
        gaps: Where nothing came, from and to.
        violations: What was wrong, a line for each rule.
    """

    lanes: tuple[Lane, ...]
    length: float
    timed: bool
    gaps: tuple[tuple[float, float], ...]
    violations: tuple[str, ...]


def picture_of(tapes: Sequence[Cassette], *, timed: bool) -> Picture:
    """Make the picture of a stream.

    Args:
        tapes: The stream, a cassette for each connection that it took.
        timed: Whether time goes across; otherwise the order of the events.
    """
    sketch = _Sketch(timed)
    for number, tape in enumerate(tapes):
        if number:
            sketch.reconnect()
        sketch.take(tape)
    return sketch.picture()


@dataclass(slots=True)
class _Thing:
    """A lane that grows."""

    kind: str = ""
    marks: list[Mark] = field(default_factory=list[Mark])


class _Sketch:
    """Takes streams, and keeps what is to be seen of them."""

    def __init__(self, timed: bool) -> None:
        self._timed = timed
        self._judge = Judge(_REPORTING, self._violated)
        # The guard and the accumulator are for their violations alone; they outlive a connection.
        self._checks: Sequence[Any] = (
            SequenceChecker(self._judge),
            LifecycleGuard(self._judge),
            Accumulator(self._judge),
        )
        self._decoder = Decoder(self._judge)  # of the last connection
        self._things: dict[str, _Thing] = {"": _Thing("response")}
        self._events = 0
        self._began = 0.0  # the connection, in seconds since the first one did
        self._time = 0.0
        self._silences: list[tuple[float, float]] = []
        self._violations: dict[str, list[Violation]] = {}

    @property
    def _now(self) -> float:
        return self._time if self._timed else float(self._events)

    def take(self, tape: Cassette) -> None:
        """Take one connection."""
        frames, decoder = FrameParser(), Decoder(self._judge)
        self._decoder = decoder
        try:
            for chunk in tape.chunks:
                self._pass(self._began + chunk.at)
                for frame in frames.feed(chunk.data):
                    self._take_all(decoder.feed(frame))
            for frame in frames.end():
                self._take_all(decoder.feed(frame))
        except OrxError as error:  # a frame that is too large
            self._mark("", "violation", str(error))
        self._pass(self._began + tape.ended)
        self._began = self._time
        if tape.end == "complete":
            self._mark("", "end", "the connection ended")
        else:
            self._mark("", "broken", str(tape.error or f"the recording was {tape.end}"))

    def reconnect(self) -> None:
        """Begin another connection."""
        self._events += 1
        self._mark("", "reconnect", "another connection")

    def picture(self) -> Picture:
        """Finish."""
        length = self._now or 1.0
        self._finish()
        lanes = [
            Lane(place, f"{place or 'response'} {thing.kind if place else ''}".rstrip(), tuple(thing.marks))
            for place, thing in sorted(self._things.items(), key=lambda named: _numbers(named[0]))
        ]
        gaps = [(begin, end) for begin, end in self._silences if end - begin >= max(LONG, SHARE * length)]
        return Picture(tuple(lanes), length, self._timed, tuple(gaps if self._timed else ()), self._lines())

    def _pass(self, time: float) -> None:
        """Let time pass, in which nothing came."""
        if time > self._time:
            self._silences.append((self._time, time))
            self._time = time

    def _take_all(self, events: Iterable[Event]) -> None:
        for event in events:
            if not isinstance(event, StreamEnd):
                self._events += 1
                self._draw(event)
            self._check(event)

    def _draw(self, event: Event) -> None:
        place = _place_of(event)
        thing = self._things.setdefault(place, _Thing())
        thing.kind = _kind_of(event) or thing.kind
        size = len(event.delta) if isinstance(event, DeltaEvent) else 0
        number = "" if event.sequence_number is None else f"#{event.sequence_number} "
        self._mark(place, _mark_of(event), f"{number}{event.type}{f', {size} characters' if size else ''}", size)

    def _check(self, event: Event) -> None:
        """Let the steps that check see an event; whatever they report becomes a mark."""
        thing: Any = event
        try:
            for step in self._checks:
                made: Sequence[Any] = step.feed(thing)
                if not made:
                    return
                (thing,) = made
        except OrxError:  # an error of the server, which has its mark
            return

    def _finish(self) -> None:
        """Let them see the end."""
        try:
            for event in self._decoder.end():
                self._check(event)
            for step in self._checks:
                step.end()
        except OrxError:
            return

    def _violated(self, violation: Violation) -> None:
        place = violation.place if violation.place in self._things else ""
        self._mark(place, "violation", f"{violation.code}: {violation.message}")
        self._violations.setdefault(violation.code, []).append(violation)

    def _lines(self) -> tuple[str, ...]:
        """Tell the violations, those of one rule together."""
        return tuple(
            f"{code}, {len(found)} times, first{str(found[0]).removeprefix(code)}" if found[1:] else str(found[0])
            for code, found in self._violations.items()
        )

    def _mark(self, place: str, kind: Kind, text: str, size: int = 0) -> None:
        self._things[place].marks.append(Mark(self._now, kind, text, size))


def _place_of(event: Event) -> str:
    item = getattr(event, "output_index", None)
    if item is None:
        return ""
    for name in _INNER:
        part = getattr(event, f"{name}_index", None)
        if part is not None:
            return f"output[{item}].{name}[{part}]"
    return f"output[{item}]"


def _kind_of(event: Event) -> str:
    """Find the type of the item or part that an event is about, where it says so."""
    thing = getattr(event, "item", None) or getattr(event, "part", None)
    return str(getattr(thing, "type", "") or "")


def _mark_of(event: Event) -> Kind:
    if isinstance(event, TerminalEvent):
        return "completed" if event.type == "response.completed" else "failed"
    if isinstance(event, ResponseErrorEvent):
        return "failed"
    if isinstance(event, DeltaEvent):
        return "delta"
    if isinstance(event, ResponseCreatedEvent | ResponseOutputItemAddedEvent) or event.type.endswith("part.added"):
        return "open"
    if isinstance(event, ResponseOutputItemDoneEvent) or event.type.endswith("part.done"):
        return "close"
    return "event"


def _numbers(place: str) -> tuple[int, int, str, int]:
    """Sort items by their places, and parts behind their item."""
    numbers = [int(number) for number in re.findall(r"\[(\d+)\]", place)]
    item, part = (*numbers, -1, -1)[:2]
    return item, len(numbers), place.partition(".")[2].partition("[")[0], part
