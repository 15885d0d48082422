"""The rules of the protocol: what each one says, where it comes from, and what breaking it costs.

Machines find violations; a profile decides. A rule that is raised ends the stream with the error class of its row; one
that is reported goes to whoever listens, and the stream goes on; one that is ignored goes nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NoReturn

from orx_rx.errors import (
    FrameDecodeError,
    LifecycleViolation,
    OrxError,
    SchemaViolation,
    SequenceViolation,
    StreamInterrupted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orx_rx.models.event_base import Event

Verdict = Literal["raise", "report", "ignore"]
"""What a profile decides about a rule."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the protocol.

    Attributes:
        code: Its name, such as `part_not_open`.
        error: The error that a stream ends with when the rule is raised.
        default: The verdict of `DEFAULT`.
        strict: The verdict of `STRICT`.
        source: Who made the rule.
        sentence: What the rule demands.
    """

    code: str
    error: type[OrxError]
    default: Verdict
    strict: Verdict
    source: str
    sentence: str


_FRAME, _SHAPE, _ORDER, _LIFE, _CUT = (
    FrameDecodeError,
    SchemaViolation,
    SequenceViolation,
    LifecycleViolation,
    StreamInterrupted,
)

_ROWS: tuple[tuple[str, type[OrxError], Verdict, Verdict, str, str], ...] = (
    # frames
    ("data_not_json", _FRAME, "raise", "raise", "Open Responses", "data is JSON in UTF-8"),
    ("empty_data", _FRAME, "report", "raise", "Open Responses", "a frame carries data"),
    ("unfinished_frame", _FRAME, "report", "raise", "WHATWG", "a blank line ends the last frame"),
    (
        "event_name_mismatch",
        _SHAPE,
        "report",
        "raise",
        "Open Responses",
        "an event field equals the type",
    ),
    ("missing_done", _LIFE, "ignore", "raise", "Open Responses", "[DONE] ends the stream"),
    # shapes
    ("not_an_object", _SHAPE, "raise", "raise", "Open Responses", "data is a JSON object"),
    ("type_missing", _SHAPE, "raise", "raise", "Open Responses", "an event has a type"),
    ("type_only_in_name", _SHAPE, "report", "raise", "Open Responses", "the type is in the data"),
    ("wrong_shape", _SHAPE, "raise", "raise", "OpenAI", "an event of a known type has its shape"),
    ("output_null", _SHAPE, "report", "raise", "Open Responses", "the output of a response is a list"),
    ("field_missing", _SHAPE, "ignore", "report", "Open Responses", "required fields are present"),
    # sequence numbers
    ("sequence_missing", _ORDER, "report", "raise", "Open Responses", "every event has a sequence number"),
    ("sequence_gap", _ORDER, "report", "report", "orx_rx", "sequence numbers leave nothing out"),
    ("sequence_repeated", _ORDER, "report", "raise", "Open Responses", "no event comes twice"),
    ("sequence_backward", _ORDER, "raise", "raise", "Open Responses", "sequence numbers increase"),
    ("resume_gap", _ORDER, "raise", "raise", "OpenAI", "a resumed stream goes on where it broke off"),
    ("cursor_ahead", _ORDER, "raise", "raise", "OpenAI", "a stream does not end before the place it is resumed at"),
    # the response
    ("created_not_first", _LIFE, "report", "raise", "OpenAI", "response.created comes first"),
    ("created_twice", _LIFE, "report", "raise", "OpenAI", "response.created comes once"),
    ("response_id_changed", _LIFE, "report", "raise", "OpenAI", "a stream is about one response"),
    ("error_not_failed", _LIFE, "report", "raise", "Open Responses", "response.failed follows an error"),
    ("status_mismatch", _LIFE, "report", "raise", "OpenAI", "a terminal and its status agree"),
    ("second_terminal", _LIFE, "report", "raise", "OpenAI", "a stream has one terminal"),
    ("event_after_terminal", _LIFE, "report", "raise", "OpenAI", "nothing follows the terminal"),
    ("missing_terminal", _CUT, "raise", "raise", "OpenAI", "a terminal ends the stream"),
    # items
    ("item_not_open", _LIFE, "report", "raise", "Open Responses", "an item is added before it is used"),
    ("item_added_twice", _LIFE, "report", "raise", "Open Responses", "an item is added once"),
    ("place_taken", _LIFE, "raise", "raise", "OpenAI", "an output index belongs to one item"),
    ("item_already_done", _LIFE, "report", "raise", "Open Responses", "nothing changes an item that is done"),
    (
        "item_not_closed",
        _LIFE,
        "report",
        "raise",
        "Open Responses",
        "items are done before a completed terminal",
    ),
    ("item_status_open", _LIFE, "ignore", "report", "OpenAI", "an item that is done has a status that is final"),
    ("item_id_changed", _LIFE, "report", "raise", "OpenAI", "the id of an item stays the same"),
    ("item_id_conflict", _LIFE, "raise", "raise", "OpenAI", "id and output index name the same item"),
    ("wrong_item_kind", _LIFE, "raise", "raise", "OpenAI", "an event fits the type of its item"),
    # parts
    ("part_not_open", _LIFE, "report", "raise", "Open Responses", "a part is added before it is used"),
    ("part_already_open", _LIFE, "report", "raise", "Open Responses", "a part is added once"),
    ("part_already_done", _LIFE, "report", "raise", "Open Responses", "nothing changes a part that is done"),
    ("part_not_finished", _LIFE, "report", "raise", "Open Responses", "a text is done before its part is"),
    ("part_not_closed", _LIFE, "report", "raise", "Open Responses", "parts are done before their item is"),
    ("wrong_part_kind", _LIFE, "raise", "raise", "Open Responses", "an event fits the type of its part"),
    # contents
    ("done_mismatch", _LIFE, "report", "raise", "OpenAI", "what is done equals what was streamed"),
    ("terminal_output_empty", _LIFE, "report", "raise", "OpenAI", "the terminal carries the streamed items"),
    ("terminal_mismatch", _LIFE, "report", "raise", "OpenAI", "items of the terminal equal the streamed ones"),
    ("terminal_order", _LIFE, "report", "raise", "OpenAI", "items of the terminal are in their output order"),
)

RULES: Mapping[str, Rule] = MappingProxyType({row[0]: Rule(*row) for row in _ROWS})
"""Every rule by its code."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that is told of a stream, and where in it.

    Attributes:
        code: The code of its kind.
        message: What was expected and what came.
        sequence_number: The number of the event that it is about, or None.
        event_type: The type of that event, or None.
        place: The item and part, such as `output[0].content[1]`; the empty string where the stream as a whole is meant.
    """

    code: str
    message: str
    sequence_number: int | None = None
    event_type: str | None = None
    place: str = ""

    def __str__(self) -> str:
        """Read as one line."""
        number = "" if self.sequence_number is None else f" #{self.sequence_number}"
        where = f"{self.event_type or 'stream'}{number}{f' at {self.place}' if self.place else ''}"
        return f"{self.code}: {self.message} ({where})"


@dataclass(frozen=True, slots=True)
class Violation(Remark):
    """A rule that a server broke.

    Attributes:
        code: The code of the rule.
        message: What was expected and what came.
        sequence_number: The number of the event that broke it, or None.
        event_type: The type of that event, or None.
        place: The item and part, such as `output[0].content[1]`; the empty string where the stream as a whole is meant.
    """


@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """What breaking each rule costs.

    Attributes:
        name: The name for logs.
        verdicts: The verdict of every rule, by code.
    """

    name: str
    verdicts: Mapping[str, Verdict]

    def __repr__(self) -> str:
        """Read as the name; the verdicts are many."""
        return self.name

    def __hash__(self) -> int:
        """Hash, so that a profile may be the key of a cache."""
        return hash((self.name, frozenset(self.verdicts.items())))

    def but(self, **verdicts: Verdict) -> Profile:
        """Make a profile that differs in some rules.

        Args:
            **verdicts: The new verdicts by code, such as `missing_done="ignore"`.

        Raises:
            ValueError: A code that is not in the catalogue, or a verdict that does not exist.
        """
        for code, verdict in verdicts.items():
            if code not in RULES:
                raise ValueError(f"expected the code of a rule, got {code!r}; the codes are {', '.join(RULES)}")
            if verdict not in ("raise", "report", "ignore"):
                raise ValueError(f"expected 'raise', 'report' or 'ignore' for {code}, got {verdict!r}")
        changes = ", ".join(f"{code}={verdict}" for code, verdict in verdicts.items())
        return replace(self, name=f"{self.name} but {changes}", verdicts={**self.verdicts, **verdicts})


STRICT = Profile("STRICT", {code: rule.strict for code, rule in RULES.items()})
"""Open Responses to the letter."""

DEFAULT = Profile("DEFAULT", {code: rule.default for code, rule in RULES.items()})
"""For every real server: accepts what is unambiguous and reports it, raises what is lost or ambiguous."""

QUIET = Profile("QUIET", {code: "ignore" for code in RULES})
"""For whoever reads a stream that something else checks."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What an event that could not be read says of itself.

    Attributes:
        type: The type, or None.
        sequence_number: The number, or None.
    """

    type: str | None = None
    sequence_number: int | None = None


class Judge:
    """Applies a profile to the violations of one stream.

    Args:
        profile: What each violation costs.
        report: Called with every violation that is reported; what it raises is its own affair.

    Attributes:
        reported: The violations that were found so far, without the ignored ones.
    """

    def __init__(self, profile: Profile = DEFAULT, report: Callable[[Violation], None] | None = None) -> None:
        self.profile = profile
        self.reported: list[Violation] = []
        self._report = report

    def verdict(self, code: str) -> Verdict:
        """Look up what a violation would cost."""
        return self.profile.verdicts[code]

    def found(
        self,
        code: str,
        message: str,
        *,
        event: Event | Claim = Claim(),
        place: str = "",
        error: OrxError | None = None,
    ) -> None:
        """Take notice of a violation.

        Args:
            code: The code of the rule.
            message: What was expected and what came.
            event: The event that broke the rule.
            place: Where in the output.
            error: The error to raise, where the class of the rule alone would say too little.

        Raises:
            OrxError: The profile says so; of the class of the rule, with every violation so far.
        """
        verdict = self.profile.verdicts[code]
        if verdict == "ignore":
            return
        violation = Violation(code, message, event.sequence_number, event.type, place)
        self.reported.append(violation)
        if verdict == "raise":
            self.throw(error or RULES[code].error(str(violation)))
        if self._report is not None:
            self._report(violation)

    def throw(self, error: Exception) -> NoReturn:
        """Raise an error, with the violations of this stream if it is one of ours."""
        if isinstance(error, OrxError) and self.reported:
            known = set(self.reported)
            error.violations = (*self.reported, *(v for v in error.violations if v not in known))
        raise error
