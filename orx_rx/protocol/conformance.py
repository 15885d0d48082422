"""Conformance: what is wrong with a stream, and what a client would suffer from it.

The stream goes through every rule at once. One chain of steps only reports, so that it hears of everything; two more
obey `DEFAULT` and `STRICT`, and tell whether a client with that profile reads the stream to its end, and what ends it
otherwise. What is to be told of a stream beyond the rules, such as the times at which its bytes came, is in a table of
its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from orx_rx.errors import FrameTooLarge, OrxError, ServerError
from orx_rx.models.event_base import Event
from orx_rx.models.item_events import ResponseOutputItemAddedEvent, ResponseOutputItemDoneEvent
from orx_rx.models.lifecycle_events import ResponseCreatedEvent, TerminalEvent
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.decoding import Decoder
from orx_rx.protocol.effects import EFFECTS, OBSERVATIONS
from orx_rx.protocol.lifecycle import LifecycleGuard
from orx_rx.protocol.sequence import SequenceChecker
from orx_rx.protocol.timing import Times
from orx_rx.protocol.violations import DEFAULT, RULES, STRICT, Judge, Profile, Rule, Violation
from orx_rx.wire import DEFAULT_MAX_FRAME_BYTES, Frame, FrameParser

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from orx_rx.models.response import Response

Severity = Literal["error", "warning", "note"]
"""`error`: `DEFAULT` raises, so that a client loses something; `warning`: `STRICT` raises; `note`: neither does."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a stream something was found.

    Attributes:
        frame: The number of the frame, from 0, or None where no frame is meant, as at the end of the stream.
        sequence_number: The number of the event, or None.
        event_type: The type of the event, or None.
        place: The item and part, such as `output[0].content[1]`, or a field; the empty string where there is none.
    """

    frame: int | None = None
    sequence_number: int | None = None
    event_type: str | None = None
    place: str = ""

    def __str__(self) -> str:
        """Read as a few words."""
        frame = "" if self.frame is None else f"frame {self.frame}, "
        number = "" if self.sequence_number is None else f" #{self.sequence_number}"
        return f"{frame}{self.event_type or 'stream'}{number}{f' at {self.place}' if self.place else ''}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule that a stream broke.

    Attributes:
        rule: The code of the rule, in `RULES` or `OBSERVATIONS`.
        count: How often it was found; what goes on for a whole stream is found once.
        first: Where it was found first.
        message: What was expected there, and what came.
    """

    rule: str
    count: int
    first: Place
    message: str

    @property
    def severity(self) -> Severity:
        """What the rule costs: derived from its verdicts."""
        rule = _rule(self.rule)
        return "error" if rule.default == "raise" else "warning" if rule.strict == "raise" else "note"

    @property
    def effect(self) -> str:
        """What a client would suffer, in one sentence."""
        return EFFECTS[self.rule]

    def __str__(self) -> str:
        """Read as one line."""
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{self.severity}: {self.rule}{times}: {self.message} ({self.first}). {self.effect}"


@dataclass(frozen=True, slots=True)
class Report:
    """What was found out about a stream.

    Attributes:
        findings: The rules that it broke, the worst first, and those that are as bad in the order they were found.
        default_error: What ends it for a client with `DEFAULT`; None where that reads it to its end.
        strict_error: What ends it for a client with `STRICT`; None where that reads it to its end.
        bytes: How many bytes came.
        frames: How many frames came, `[DONE]` among them.
        unnamed_frames: How many of them had no event line, `[DONE]` not among them.
        events: How many events came.
        done: Whether `[DONE]` came.
        terminal: The type of the first terminal, or None.
        first_event: Seconds from the request to the first event, or None where the times are not known.
        duration: Seconds from the request to the last byte, or to the end where there was no terminal; or None where
            the times are not known.
        longest_silence: Seconds without a byte, the longest of them, or None where the times are not known.
        longest_wait: Seconds without an event, the longest of them, or None where the times are not known.
    """

    findings: tuple[Finding, ...]
    default_error: str | None
    strict_error: str | None
    bytes: int
    frames: int
    unnamed_frames: int
    events: int
    done: bool
    terminal: str | None
    first_event: float | None
    duration: float | None
    longest_silence: float | None
    longest_wait: float | None

    @property
    def passes_default(self) -> bool:
        """Whether a client with `DEFAULT` reads it to its end."""
        return self.default_error is None

    @property
    def passes_strict(self) -> bool:
        """Whether a client with `STRICT` reads it to its end."""
        return self.strict_error is None

    @property
    def rules(self) -> tuple[str, ...]:
        """The codes of what was found, in the order of the findings."""
        return tuple(finding.rule for finding in self.findings)

    def lines(self) -> list[str]:
        """Write the report as text, line by line."""
        size = f"{_many(self.events, 'event')} in {_many(self.frames, 'frame')} and {_many(self.bytes, 'byte')}"
        ends = f"{self.terminal or 'no terminal'}, {'[DONE]' if self.done else 'no [DONE]'}"
        times = [] if self.duration is None else [f"{self.duration:.2f} s"]
        times += [] if self.first_event is None else [f"the first event after {self.first_event:.2f} s"]
        verdicts = [
            f"{name}: {'passes' if error is None else error}"
            for name, error in (("DEFAULT", self.default_error), ("STRICT", self.strict_error))
        ]
        found = [str(finding) for finding in self.findings] or ["nothing was found"]
        return ["; ".join([size, ends, *times]), *verdicts, *found]

    def __str__(self) -> str:
        """Read as the lines of the report."""
        return "\n".join(self.lines())

    def to_json(self) -> dict[str, Any]:
        """Make a JSON object of the report."""
        findings = [
            {
                "rule": finding.rule,
                "severity": finding.severity,
                "count": finding.count,
                "first": {name: getattr(finding.first, name) for name in Place.__slots__},
                "message": finding.message,
                "effect": finding.effect,
            }
            for finding in self.findings
        ]
        rest = {name: getattr(self, name) for name in self.__slots__ if name != "findings"}
        return {
            "passes_default": self.passes_default,
            "passes_strict": self.passes_strict,
            **rest,
            "findings": findings,
        }


class Conformance:
    """Checks a stream: give it the bytes as they come, and it tells at the end what was wrong.

    Nothing that a server sends makes it raise. It reads on behind every violation; only behind a frame that is too
    large there is nothing more to be read.

    Args:
        started: When the request was sent, in seconds on the clock of `feed`; None where that is not known, and then
            the first bytes are the beginning.
        max_frame_bytes: The most bytes that a frame may have.

    Attributes:
        accumulator: Holds the response as it stands.
    """

    def __init__(self, *, started: float | None = None, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        judge = Judge(_REPORTING, self._take)
        self.accumulator: Accumulator = Accumulator(judge)
        self._frames = FrameParser(max_frame_bytes)
        self._judge = judge
        self._reporting = _Chain(judge, self.accumulator)
        self._obeying = [_Chain(Judge(profile)) for profile in (DEFAULT, STRICT)]
        self._found: dict[str, Finding] = {}
        self._times = Times(started)
        self._open: dict[int, Place] = {}  # items that were added and are not done
        self._bytes = self._count = self._events = self._unnamed = 0
        self._frame: int | None = None  # the one that is being read
        self._begins = False  # with response.created
        self._done = False
        self._terminal: str | None = None
        self._over = False

    @property
    def response(self) -> Response | None:
        """The response so far; None before the first event."""
        return self.accumulator.response

    def feed(self, chunk: bytes, at: float | None = None) -> None:
        """Take the next bytes.

        Args:
            chunk: The bytes.
            at: When they came, in seconds on any clock; None where that is not known.
        """
        self._bytes += len(chunk)
        before = self._events
        if not self._over:
            try:
                frames = self._frames.feed(chunk)
                for frame in frames:
                    self._read(frame)
                if frames:
                    self._frames.feed(b"")  # which raises what the frames came before
            except FrameTooLarge as error:
                self._stop(error)
        if at is not None:
            self._times.take(at, self._events - before)

    def end(self, error: Exception | None = None, at: float | None = None) -> Report:
        """Take the end of the connection, and report.

        Args:
            error: What the connection broke with; None where it ended well.
            at: When it ended, in seconds on the clock of `feed`; None where that is not known.
        """
        if at is not None and self._terminal is None:  # behind it nothing is waited for
            self._times.take(at, 0)
        if not self._over:
            self._over = True
            try:
                for frame in self._frames.end():
                    self._read(frame)
            except FrameTooLarge as too_large:
                self._stop(too_large)
            else:
                self._frame = None
                self._reporting.end()  # whose judge throws nothing but an error of the server
                if isinstance(self._reporting.error, ServerError):
                    message = "expected a terminal after the error, got the end of the stream"
                    self._observe("error_without_terminal", message, Place())
                for chain in self._obeying:
                    chain.end(error)
            self._look_back()
        return self._report()

    def _read(self, frame: Frame) -> None:
        self._frame = self._count
        self._count += 1
        if frame.data.strip() == b"[DONE]":
            self._done = True
        elif not frame.event:
            self._unnamed += 1
        event = self._reporting.feed(frame)
        for chain in self._obeying:
            chain.feed(frame)
        self._judge.reported.clear()  # they are counted instead
        decoded = self._reporting.decoded
        if decoded is not None:
            self._events += 1
            self._begins = self._begins or (self._events == 1 and isinstance(decoded, ResponseCreatedEvent))
        if event is not None:
            self._follow(event)

    def _follow(self, event: Event) -> None:
        if isinstance(event, ResponseOutputItemAddedEvent):
            self._open[event.output_index] = Place(
                self._frame, event.sequence_number, event.type, f"output[{event.output_index}]"
            )
        elif isinstance(event, ResponseOutputItemDoneEvent):
            self._open.pop(event.output_index, None)
        elif isinstance(event, TerminalEvent):
            self._terminal = self._terminal or event.type

    def _stop(self, error: FrameTooLarge) -> None:
        """Take notice of a frame that is too large, behind which nothing can be read."""
        self._over = True
        self._observe("frame_too_large", str(error), Place(self._count))
        for chain in self._obeying:
            chain.end(error)

    def _look_back(self) -> None:
        """Tell what is seen only when the stream is over."""
        if self._terminal is None:
            for place in self._open.values():
                self._observe("item_cut_off", "expected the item to be done, got the end of the stream", place)
        whole = self._begins and self._terminal is not None
        for code, message in self._times.observed(whole):
            self._observe(code, message, Place())

    def _take(self, violation: Violation) -> None:
        place = Place(self._frame, violation.sequence_number, violation.event_type, violation.place)
        self._observe(violation.code, violation.message, place)

    def _observe(self, code: str, message: str, place: Place) -> None:
        known = self._found.get(code)
        self._found[code] = (
            Finding(code, 1, place, message)
            if known is None
            else Finding(code, known.count + 1, known.first, known.message)
        )

    def _report(self) -> Report:
        default, strict = (chain.said for chain in self._obeying)
        times = self._times
        return Report(
            tuple(sorted(self._found.values(), key=lambda finding: _SEVERITIES.index(finding.severity))),
            default,
            strict,
            self._bytes,
            self._count,
            self._unnamed,
            self._events,
            self._done,
            self._terminal,
            times.first_event,
            times.duration,
            times.longest_silence,
            times.longest_wait,
        )


def check(chunks: bytes | Iterable[bytes]) -> Report:
    """Check a whole stream.

    Args:
        chunks: The bytes, in any pieces.
    """
    conformance = Conformance()
    for chunk in (chunks,) if isinstance(chunks, bytes) else chunks:
        conformance.feed(chunk)
    return conformance.end()


_SEVERITIES: Sequence[Severity] = ("error", "warning", "note")
_REPORTING = Profile("REPORTING", dict.fromkeys(RULES, "report"))


def _rule(code: str) -> Rule:
    return RULES.get(code) or OBSERVATIONS[code]


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


class _Chain:
    """The canonical chain behind the frames, with one judge.

    Attributes:
        error: What ended it, or None.
        decoded: The event of the last frame as it was decoded, or None.
    """

    def __init__(self, judge: Judge, accumulator: Accumulator | None = None) -> None:
        self.error: Exception | None = None
        self.decoded: Event | None = None
        self._steps: Sequence[Any] = (
            Decoder(judge),
            SequenceChecker(judge),
            LifecycleGuard(judge),
            accumulator or Accumulator(judge),
        )
        self._over = False

    @property
    def said(self) -> str | None:
        """What ended it, in words; None where nothing did."""
        return None if self.error is None else f"{type(self.error).__name__}: {self.error}"

    def feed(self, frame: Frame) -> Event | None:
        """Take a frame, and give the event that came through, if one did."""
        self.decoded = None
        return None if self._over else self._push(frame, 0)

    def end(self, error: Exception | None = None) -> None:
        """Take the end of the connection."""
        if not self._over:
            self._finish(0, error)

    def _push(self, thing: Any, first: int) -> Event | None:
        """Take a thing through the steps from one on; each makes at most one thing of it."""
        for number, step in enumerate(self._steps[first:], first):
            try:
                made = step.feed(thing)
            except OrxError as error:
                self._finish(number + 1, error)
                return None
            if not made:
                return None
            (thing,) = made
            if number == 0:
                self.decoded = thing
        return thing if isinstance(thing, Event) else None

    def _finish(self, first: int, error: Exception | None) -> None:
        """End the steps from one on, with or without an error, the way `lift` does."""
        self._over = True
        for number, step in enumerate(self._steps[first:], first):
            try:
                left = step.end() if error is None else step.fail(error)
            except Exception as raised:
                error = raised
                continue
            error = None
            for thing in left:  # what the decoder knows of the end, which raises nothing
                self._push(thing, number + 1)
        self.error = error
