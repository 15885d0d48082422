"""Payloads as JSON objects: what they say, and how the missing ones are made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from pydantic import ValidationError
from pydantic_core import from_json

from orx_rx.models.base import to_wire
from orx_rx.models.events import EVENT_CLASSES
from orx_rx.models.lifecycle_events import ResponseCreatedEvent
from orx_rx.models.response import Response
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.channels import CHANNELS, Channel, part_channel
from orx_rx.protocol.completion import completion
from orx_rx.protocol.resume import FINAL
from orx_rx.protocol.routes import Route, route
from orx_rx.protocol.violations import QUIET, Judge

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Payload: TypeAlias = dict[str, Any]

ROUTES: Mapping[str, Route | None] = {type_: route(event) for type_, event in EVENT_CLASSES.items()}
"""What the events of each known type do; None for those that take no part in the lifecycle."""


def _type_of(event: Any) -> str:
    return str(event.model_fields["type"].default)


TEXTS: Mapping[str, Channel] = {
    _type_of(event): channel for channel in CHANNELS for event in (channel.delta, channel.done)
}
"""The channel of each type of event that streams a text or ends one."""

DELTAS = frozenset(_type_of(channel.delta) for channel in CHANNELS if channel.compared and channel.items)
"""The types of the deltas that add text to an item."""

PART_EVENTS: Mapping[str, tuple[str, str]] = {
    "content": ("response.content_part.added", "response.content_part.done"),
    "summary": ("response.reasoning_summary_part.added", "response.reasoning_summary_part.done"),
    "commands": ("response.shell_call_command.added", ""),
}
"""The events that open and close the parts of each place."""

OTHER_ENDS: Mapping[str, str] = {
    "response.cancelled": "cancelled",
    "response.canceled": "cancelled",
    "response.done": "",
}
"""The names under which some servers end a stream, and the status that each means; none where it says nothing."""

SEVERITY: Mapping[str, int] = {"completed": 1, "incomplete": 2, "cancelled": 3, "failed": 4}
"""How bad the end of a response is."""

_USAGE: Mapping[str, str] = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "prompt_tokens_details": "input_tokens_details",
    "completion_tokens_details": "output_tokens_details",
}

_NEW_ITEMS: Mapping[str, Payload] = {
    "message": {"role": "assistant", "status": "in_progress", "content": []},
    "reasoning": {"summary": []},
    "function_call": {"arguments": "", "status": "in_progress"},
    "custom_tool_call": {"input": ""},
    "mcp_call": {"arguments": "", "status": "in_progress"},
    "code_interpreter_call": {"code": "", "status": "in_progress"},
    "shell_call": {"action": {"commands": []}, "status": "in_progress"},
}
_NEW_PARTS: Mapping[str, Payload] = {"output_text": {"annotations": [], "logprobs": []}}
_LARGEST = 2**63 - 1
_COMPARED = [channel for channel in CHANNELS if channel.compared and channel.items]


def read(data: bytes) -> Payload | None:
    """Read a JSON object; None where the data is something else."""
    try:
        value = from_json(data, cache_strings="keys")
    except ValueError:
        return None
    return cast("Payload", value) if isinstance(value, dict) else None


def mended(data: bytes) -> Payload | None:
    """Read a JSON object in spite of bytes that are not UTF-8 and of raw control characters; None where that fails."""
    try:
        value: object = json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None
    return cast("Payload", value) if isinstance(value, dict) else None


def write(payload: Payload) -> bytes:
    """Write JSON."""
    return json.dumps(payload, separators=(",", ":")).encode()


def number_in(payload: Payload, name: str) -> int | None:
    """Read a number that an event may have; None where there is none."""
    value = payload.get(name)
    return value if type(value) is int and 0 <= value <= _LARGEST else None


def text_in(payload: Payload, name: str) -> str:
    """Read a text; the empty string where there is none."""
    value = payload.get(name)
    return value if isinstance(value, str) else ""


def object_in(payload: Payload, name: str) -> Payload | None:
    """Read an object; None where there is none."""
    value = payload.get(name)
    return cast("Payload", value) if isinstance(value, dict) else None


def list_in(payload: Payload, name: str) -> list[Any]:
    """Read a list; an empty one where there is none."""
    value = payload.get(name)
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def part_list(body: Payload, place: str) -> list[Any]:
    """Read the parts of an item, or its commands."""
    holder = object_in(body, "action") if place == "commands" else body
    return [] if holder is None else list_in(holder, place)


def with_parts(body: Payload, place: str, values: list[Any]) -> Payload:
    """Make an item with other parts, or with other commands."""
    if place == "commands":
        return {**body, "action": {**(object_in(body, "action") or {}), "commands": values}}
    return {**body, place: values}


def texts(body: Payload) -> Iterator[tuple[Channel, int, str]]:
    """Read all that an item says of what is streamed: channel, number, text; also where the text is empty."""
    kind = text_in(body, "type")
    for channel in _COMPARED:
        if kind not in channel.items:
            continue
        if not channel.index:
            yield channel, 0, text_in(body, channel.field)
            continue
        for number, value in enumerate(part_list(body, channel.place)):
            if not channel.parts:
                yield channel, number, value if isinstance(value, str) else ""
            elif isinstance(value, dict):
                part = cast("Payload", value)
                if part_channel(channel.place, text_in(part, "type"), kind) is channel:
                    yield channel, number, text_in(part, channel.field)


def filled(body: Payload, channel: Channel, number: int, text: str) -> Payload:
    """Make an item that says a text."""
    if not channel.index:
        return {**body, channel.field: text}
    values = part_list(body, channel.place)
    if number > len(values):  # parts before it are not known
        return body
    element: Any = text
    if channel.parts:
        known = values[number] if number < len(values) else None
        element = {**(cast("Payload", known) if isinstance(known, dict) else new_part(channel)), channel.field: text}
    return with_parts(body, channel.place, [*values[:number], element, *values[number + 1 :]])


def emptied(body: Payload) -> Payload:
    """Make the item as it was when nothing of it had been streamed."""
    fresh = dict(body)
    for channel in _COMPARED:
        if text_in(fresh, "type") not in channel.items:
            continue
        if channel.place == "commands":
            fresh = with_parts(fresh, "commands", [])
        elif fresh.get(channel.place) is not None:
            fresh[channel.place] = [] if channel.index else ""
    if fresh.get("status") is not None:
        fresh["status"] = "in_progress"
    return fresh


def new_item(kind: str, id_: str) -> Payload:
    """Make an item of which nothing is known but its kind and perhaps its id."""
    return {"type": kind, **({"id": id_} if id_ else {}), **_NEW_ITEMS.get(kind, {})}


def new_part(channel: Channel, kind: str = "") -> Payload:
    """Make a part without text."""
    kind = kind or channel.parts[0]
    return {"type": kind, channel.field: "", **_NEW_PARTS.get(kind, {})}


def delta_of(channel: Channel, place: Payload, text: str) -> Payload:
    """Make the event that adds a text."""
    more: Payload = {"logprobs": []} if channel.name == "text" else {}
    return {"type": _type_of(channel.delta), **place, "delta": text, **more}


def done_of(channel: Channel, place: Payload, text: str) -> Payload:
    """Make the event that ends a text."""
    more: Payload = {"logprobs": []} if channel.name == "text" else {}
    return {"type": _type_of(channel.done), **place, **({channel.told: text} if channel.told else {}), **more}


def usual_usage(usage: Payload) -> Payload:
    """Give token counts the names of this protocol; the same object where they have them."""
    if usage.keys().isdisjoint(_USAGE):
        return usage
    renamed = {_USAGE.get(name, name): value for name, value in usage.items() if _USAGE.get(name) not in usage}
    counts = [renamed.get(name) for name in ("input_tokens", "output_tokens")]
    if "total_tokens" not in renamed and all(type(count) is int for count in counts):
        renamed["total_tokens"] = sum(cast("list[int]", counts))
    return renamed


def beginning(response: Payload) -> Payload:
    """Make the response as it was in the beginning."""
    fresh: Payload = {**response, "status": "in_progress", "output": []}
    fresh |= {name: None for name in ("completed_at", "error", "incomplete_details", "usage") if name in response}
    return fresh


def unfolded(fields: Payload) -> Sequence[Payload] | None:
    """Make the events of a stream out of a whole response; None where the object is none.

    Of a response that has not ended there is only the beginning.
    """
    if fields.get("object") != "response" and not ("output" in fields and "status" in fields):
        return None
    if "type" in fields or object_in(fields, "response") is not None:
        return None
    try:
        response = Response.model_validate(fields)
    except ValidationError:
        return None
    if response.status not in FINAL:
        return [{"type": "response.created", "response": fields}]
    created = {"type": "response.created", "response": beginning(fields)}
    so_far = Accumulator(Judge(QUIET))
    so_far.feed(ResponseCreatedEvent.model_validate({**created, "sequence_number": 0}))
    return [created, *map(to_wire, completion(so_far, response))]
