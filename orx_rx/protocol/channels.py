"""What grows by deltas: one row for each text, argument, code, command or sound of the protocol.

The guard, the accumulator and the operators that read content look things up here, so a new kind of delta is a new row.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Generic, TypeVar

from orx_rx.models import argument_events as argument
from orx_rx.models import audio_events as audio
from orx_rx.models import reasoning_events as reasoning
from orx_rx.models import text_events as text

V = TypeVar("V")

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from orx_rx.models.event_base import Event


@dataclass(frozen=True, slots=True)
class Channel:
    """One thing that grows.

    Attributes:
        name: What it is.
        delta: The event that adds a piece.
        done: The event that says the whole.
        items: The types of the items that have it; empty where it belongs to the response as a whole.
        place: The field of the item that it lives in: `content`, `summary`, `commands`, or the text field itself.
        index: The field of the events that says which one, or the empty string where an item has one.
        parts: The types of the parts that hold it, the usual one first; empty where it is a field of the item.
        field: The field that holds the text: of the part, or of the item.
        told: The field of the done event that says the whole, or the empty string where it says nothing.
        compared: Whether what is done can be compared with what was streamed.
        where: Reads from the fields of an event whatever tells its place: equal values in a row mean one more piece of
            the same.
    """

    name: str
    delta: type[Event]
    done: type[Event]
    items: frozenset[str]
    place: str
    index: str
    parts: tuple[str, ...]
    field: str
    told: str
    compared: bool
    where: Callable[[Mapping[str, object]], object]


def _row(
    name: str,
    events: tuple[type[Event], type[Event]],
    items: str,
    place: str,
    index: str = "",
    parts: tuple[str, ...] = (),
    field: str = "",
    told: str = "",
) -> Channel:
    fields = [name for name in ("output_index", "item_id", index) if name in events[0].model_fields]
    where = itemgetter(*fields or ("type",))
    compared = place != "output"  # what commands print is streamed on two channels and told in one record
    return Channel(name, *events, frozenset(items.split()), place, index, parts, field or place, told, compared, where)


_THOUGHTS = ("reasoning_text", "text", "summary_text")

CHANNELS: tuple[Channel, ...] = (
    _row(
        "text",
        (text.ResponseTextDeltaEvent, text.ResponseTextDoneEvent),
        "message",
        "content",
        "content_index",
        ("output_text", "text"),
        "text",
        "text",
    ),
    _row(
        "refusal",
        (text.ResponseRefusalDeltaEvent, text.ResponseRefusalDoneEvent),
        "message",
        "content",
        "content_index",
        ("refusal",),
        "refusal",
        "refusal",
    ),
    _row(
        "reasoning",
        (reasoning.ResponseReasoningTextDeltaEvent, reasoning.ResponseReasoningTextDoneEvent),
        "reasoning",
        "content",
        "content_index",
        _THOUGHTS,
        "text",
        "text",
    ),
    _row(
        "reasoning",
        (reasoning.ResponseReasoningDeltaEvent, reasoning.ResponseReasoningDoneEvent),
        "reasoning",
        "content",
        "content_index",
        _THOUGHTS,
        "text",
        "text",
    ),
    _row(
        "summary",
        (reasoning.ResponseReasoningSummaryTextDeltaEvent, reasoning.ResponseReasoningSummaryTextDoneEvent),
        "reasoning",
        "summary",
        "summary_index",
        ("summary_text", "text"),
        "text",
        "text",
    ),
    _row(
        "arguments",
        (argument.ResponseFunctionCallArgumentsDeltaEvent, argument.ResponseFunctionCallArgumentsDoneEvent),
        "function_call",
        "arguments",
        told="arguments",
    ),
    _row(
        "mcp_arguments",
        (argument.ResponseMcpCallArgumentsDeltaEvent, argument.ResponseMcpCallArgumentsDoneEvent),
        "mcp_call",
        "arguments",
        told="arguments",
    ),
    _row(
        "input",
        (argument.ResponseCustomToolCallInputDeltaEvent, argument.ResponseCustomToolCallInputDoneEvent),
        "custom_tool_call",
        "input",
        told="input",
    ),
    _row(
        "code",
        (argument.ResponseCodeInterpreterCallCodeDeltaEvent, argument.ResponseCodeInterpreterCallCodeDoneEvent),
        "code_interpreter_call",
        "code",
        told="code",
    ),
    _row(
        "command",
        (argument.ResponseShellCallCommandDeltaEvent, argument.ResponseShellCallCommandDoneEvent),
        "shell_call",
        "commands",
        "command_index",
        told="command",
    ),
    _row(
        "shell_output",
        (argument.ResponseShellCallOutputContentDeltaEvent, argument.ResponseShellCallOutputContentDoneEvent),
        "shell_call_output",
        "output",
        "command_index",
        told="output",
    ),
    _row("audio", (audio.ResponseAudioDeltaEvent, audio.ResponseAudioDoneEvent), "", "audio"),
    _row(
        "transcript",
        (audio.ResponseAudioTranscriptDeltaEvent, audio.ResponseAudioTranscriptDoneEvent),
        "",
        "transcript",
    ),
)

DELTA_CHANNELS: Mapping[type[Event], Channel] = {channel.delta: channel for channel in CHANNELS}
"""The channel that a delta event adds to."""

DONE_CHANNELS: Mapping[type[Event], Channel] = {channel.done: channel for channel in CHANNELS}
"""The channel that a done event ends."""


def apart(_: Mapping[str, object]) -> object:
    """Read the place of an event that is at a place of its own."""
    return object()


class ByClass(dict["type[Event]", "V | None"], Generic[V]):
    """Something known of classes of events, and so of their subclasses; None for all others.

    Looking up is as fast as in a dict: what was found once is kept.
    """

    def __missing__(self, event: type[Event]) -> V | None:
        """Find it for a class that was not looked up before."""
        found = self[event] = next((self[base] for base in event.__mro__[1:] if base in self), None)
        return found


def part_channel(place: str, part_type: str, item_type: str = "") -> Channel | None:
    """Find the channel that fills a part.

    Args:
        place: `content` or `summary`.
        part_type: The type of the part.
        item_type: The type of its item, where it is known: a plain `text` may be an answer or a thought.
    """
    rows = [row for row in CHANNELS if row.place == place and part_type in row.parts]
    usual = [row for row in rows if item_type in row.items] or [row for row in rows if row.parts[0] == part_type]
    return usual[0] if usual else None
