"""Items that a model writes: messages, refusals, reasoning, function calls."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orx_rx.models import argument_events as argument
from orx_rx.models import item_events as opening
from orx_rx.models import reasoning_events as thought
from orx_rx.models import text_events as text
from orx_rx.models.function_items import ResponseFunctionToolCall
from orx_rx.models.items import ResponseOutputMessage, ResponseReasoningItem
from orx_rx.models.parts import (
    PartReasoningText,
    ResponseOutputRefusal,
    ResponseOutputText,
    SummaryText,
)
from orx_rx.simulator.script import item_events, slices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from orx_rx.models.event_base import Event
    from orx_rx.models.parts import AnyAnnotation, Part
    from orx_rx.simulator.script import Place, Script


@dataclass(frozen=True, slots=True)
class PartKind:
    """A kind of part that is streamed: its events and their fields.

    Attributes:
        part: The class of the part.
        delta: The event that adds a piece.
        done: The event that says the whole.
        name: The field of the part, and of that event, that holds the whole.
        index: The field of the events that says which part.
        added: The event that opens the part.
        closed: The event that closes it.
        part_extras: Fields of the part besides the text, as they are before anything was added to them.
        event_extras: Fields of `delta` and `done` besides the text.
    """

    part: Callable[..., Part]
    delta: Callable[..., Event]
    done: Callable[..., Event]
    name: str = "text"
    index: str = "content_index"
    added: Callable[..., Event] = opening.ResponseContentPartAddedEvent
    closed: Callable[..., Event] = opening.ResponseContentPartDoneEvent
    part_extras: Mapping[str, Any] = field(default_factory=dict[str, Any])
    event_extras: Mapping[str, Any] = field(default_factory=dict[str, Any])


TEXT = PartKind(
    ResponseOutputText,
    text.ResponseTextDeltaEvent,
    text.ResponseTextDoneEvent,
    part_extras={"annotations": [], "logprobs": []},
    event_extras={"logprobs": []},
)
REFUSAL = PartKind(ResponseOutputRefusal, text.ResponseRefusalDeltaEvent, text.ResponseRefusalDoneEvent, name="refusal")
THOUGHT = PartKind(PartReasoningText, thought.ResponseReasoningTextDeltaEvent, thought.ResponseReasoningTextDoneEvent)
SUMMARY = PartKind(
    SummaryText,
    thought.ResponseReasoningSummaryTextDeltaEvent,
    thought.ResponseReasoningSummaryTextDoneEvent,
    index="summary_index",
    added=opening.ResponseReasoningSummaryPartAddedEvent,
    closed=opening.ResponseReasoningSummaryPartDoneEvent,
)


@dataclass(frozen=True, slots=True)
class FieldKind:
    """A field of an item that is streamed: its events.

    Attributes:
        delta: The event that adds a piece.
        done: The event that says the whole.
        name: The field of the item, and of that event, that holds the whole.
    """

    delta: Callable[..., Event]
    done: Callable[..., Event]
    name: str


ARGUMENTS = FieldKind(
    argument.ResponseFunctionCallArgumentsDeltaEvent, argument.ResponseFunctionCallArgumentsDoneEvent, "arguments"
)


def part_events(
    place: Place,
    kind: PartKind,
    number: int,
    pieces: Iterable[str],
    *,
    annotations: Sequence[AnyAnnotation] = (),
    done: bool = True,
) -> Iterator[Event]:
    """Write a part: it is added, grows, is finished and closed.

    Args:
        place: The place of its item.
        kind: What it is.
        number: Its own place in the item.
        pieces: What it grows by.
        annotations: What is said about its text.
        done: Whether it is finished; otherwise it breaks off after the last piece.
    """
    where: dict[str, Any] = {"output_index": place.output_index, "item_id": place.item_id, kind.index: number}
    yield kind.added(**where, part=part_of(kind, ()))
    whole: list[str] = []
    for piece in pieces:
        whole.append(piece)
        yield kind.delta(**where, delta=piece, **kind.event_extras)
    for index, annotation in enumerate(annotations):
        yield text.ResponseOutputTextAnnotationAddedEvent(**where, annotation_index=index, annotation=annotation)
    if done:
        part = part_of(kind, whole, annotations)
        yield kind.done(**where, **{kind.name: getattr(part, kind.name)}, **kind.event_extras)
        yield kind.closed(**where, part=part)


def part_of(kind: PartKind, pieces: Iterable[str], annotations: Sequence[AnyAnnotation] = ()) -> Part:
    """Make a part out of its pieces."""
    extras = {**kind.part_extras, **({"annotations": list(annotations)} if annotations else {})}
    return kind.part(**{kind.name: "".join(pieces)}, **extras)


def field_events(place: Place, kind: FieldKind, value: str) -> Iterator[Event]:
    """Write a field of an item: it grows, and is finished.

    Args:
        place: The place of the item.
        kind: What it is.
        value: The whole of it.
    """
    where = {"output_index": place.output_index, "item_id": place.item_id}
    for piece in slices(value):
        yield kind.delta(**where, delta=piece)
    yield kind.done(**where, **{kind.name: value})


def message(
    script: Script,
    pieces: Iterable[str],
    *,
    annotations: Sequence[AnyAnnotation] = (),
    status: str = "completed",
    kind: PartKind = TEXT,
) -> Iterator[Event]:
    """Write a message of one part.

    Args:
        script: The script that it belongs to.
        pieces: What its text grows by.
        annotations: What is said about the text.
        status: How it ends: `completed`, `incomplete`, or `in_progress` if it breaks off after the last piece.
        kind: What it consists of; a text by default.
    """
    pieces = tuple(pieces)
    place = script.place("msg")
    done = status != "in_progress"
    added = ResponseOutputMessage(id=place.item_id, status="in_progress", role="assistant", content=[])
    steps = part_events(place, kind, 0, pieces, annotations=annotations, done=done)
    content = [part_of(kind, pieces, annotations)]
    yield from item_events(script, place, added, steps, done=done, status=status, content=content)


def refusal(script: Script, pieces: Iterable[str]) -> Iterator[Event]:
    """Write a message that is a refusal.

    Args:
        script: The script that it belongs to.
        pieces: What it grows by.
    """
    yield from message(script, pieces, kind=REFUSAL)


def reasoning(
    script: Script, summaries: Sequence[Sequence[str]], thoughts: Sequence[Sequence[str]] = ()
) -> Iterator[Event]:
    """Write a reasoning item.

    Args:
        script: The script that it belongs to.
        summaries: The parts of the summary, each as the pieces that it grows by.
        thoughts: The parts of the raw reasoning, the same way.
    """
    place = script.place("rs")
    added = ResponseReasoningItem(id=place.item_id, status="in_progress", summary=[])
    kinds = ((THOUGHT, thoughts), (SUMMARY, summaries))
    steps = (
        event
        for kind, parts in kinds
        for number, pieces in enumerate(parts)
        for event in part_events(place, kind, number, pieces)
    )
    final: dict[str, Any] = {"summary": [part_of(SUMMARY, pieces) for pieces in summaries]}
    if thoughts:
        final["content"] = [part_of(THOUGHT, pieces) for pieces in thoughts]
    yield from item_events(script, place, added, steps, status="completed", **final)


def function_call(script: Script, name: str, arguments: Mapping[str, Any] | str) -> Iterator[Event]:
    """Write a function call.

    Args:
        script: The script that it belongs to.
        name: The name of the function.
        arguments: Its arguments; a text is sent as it is, and need not be JSON.
    """
    place = script.place("fc")
    added = ResponseFunctionToolCall(
        id=place.item_id, status="in_progress", call_id=place.call_id, name=name, arguments=""
    )
    value = arguments if isinstance(arguments, str) else json_text(arguments)
    steps = field_events(place, ARGUMENTS, value)
    yield from item_events(script, place, added, steps, status="completed", arguments=value)


def json_text(value: object) -> str:
    """Write a value as JSON, the way a model does."""
    return json.dumps(value, ensure_ascii=False)
