"""What is missing of a stream when the response is known as a whole."""

from __future__ import annotations

from itertools import count, repeat
from typing import TYPE_CHECKING, Any

from orx_rx.models.argument_events import ResponseShellCallCommandAddedEvent
from orx_rx.models.item_events import (
    ResponseContentPartAddedEvent,
    ResponseContentPartDoneEvent,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseReasoningSummaryPartAddedEvent,
    ResponseReasoningSummaryPartDoneEvent,
)
from orx_rx.models.lifecycle_events import (
    ResponseCompletedEvent,
    ResponseFailedEvent,
    ResponseIncompleteEvent,
    TerminalEvent,
)
from orx_rx.protocol.holding import contents, emptied, part_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orx_rx.models.event_base import Event
    from orx_rx.models.item_base import Item
    from orx_rx.models.response import Response
    from orx_rx.protocol.accumulator import Accumulator
    from orx_rx.protocol.channels import Channel
    from orx_rx.protocol.holding import Grown

_TERMINALS: Mapping[str, type[TerminalEvent]] = {
    "completed": ResponseCompletedEvent,
    "failed": ResponseFailedEvent,
    # for a response that was cancelled there is no event; it is not whole
    "incomplete": ResponseIncompleteEvent,
    "cancelled": ResponseIncompleteEvent,
}

_PARTS: Mapping[str, tuple[type[Event], type[Event] | None]] = {
    "content": (ResponseContentPartAddedEvent, ResponseContentPartDoneEvent),
    "summary": (ResponseReasoningSummaryPartAddedEvent, ResponseReasoningSummaryPartDoneEvent),
    "commands": (ResponseShellCallCommandAddedEvent, None),
}
"""The events that open and close the parts of a place."""


def completion(so_far: Accumulator, response: Response) -> Sequence[Event]:
    """Make the events that are missing between what was streamed and the final response.

    Every event is marked `synthetic` and numbered on. What was streamed is not repeated: a text goes on where it broke
    off. Where a text does not begin with what was streamed of it, only its `done` event says the whole.

    Args:
        so_far: What was streamed.
        response: The response, in a status that it does not leave again.
    """
    last = so_far.last_sequence_number
    numbered = last is not None or so_far.response is None  # a stream without numbers goes on without
    numbers: Iterator[int | None] = count(0 if last is None else last + 1) if numbered else repeat(None)
    made = [
        *(made for index, item in enumerate(response.output or ()) for made in _item(so_far, index, item)),
        _terminal(response),
    ]
    return [_make(kind, fields, number) for (kind, fields), number in zip(made, numbers, strict=False)]


def ending(response: Response, number: int) -> Sequence[Event]:
    """Make the terminal alone, where it is not known what else is missing.

    Args:
        response: The response, in a status that it does not leave again.
        number: The number of the terminal.
    """
    return [_make(*_terminal(response), number)]


_Made = tuple[type["Event"], dict[str, Any]]


def _terminal(response: Response) -> _Made:
    return _TERMINALS[response.status or "incomplete"], {"response": response}


def _make(kind: type[Event], fields: Mapping[str, Any], number: int | None) -> Event:
    numbered = {} if number is None else {"sequence_number": number}
    return kind.model_validate({**fields, **numbered, "synthetic": True})


def _item(so_far: Accumulator, index: int, item: Item) -> Iterator[_Made]:
    held = so_far.known(index)
    if held is not None and (held.done is not None or held.kind not in ("", item.type)):
        return
    if held is None:
        yield ResponseOutputItemAddedEvent, {"output_index": index, "item": emptied(item)}
    begun = {} if held is None else dict(held.grown)
    for (_, number), (channel, text) in contents(item).items():
        yield from _channel(index, item, channel, number, text, begun.pop((channel.place, number), None))
    for (_, number), grown in begun.items():
        yield from _close(index, item, number, grown)
    yield ResponseOutputItemDoneEvent, {"output_index": index, "item": item}


def _close(index: int, item: Item, number: int, grown: Grown) -> Iterator[_Made]:
    """Make the events that end what was begun, and of which the item says nothing that can be compared."""
    channel, part = grown.channel, grown.part
    place = _place(index, item, channel, number)
    whole = grown.streamed() or ""
    if grown.told is None and (whole or (part.type in channel.parts if part else channel.index)):
        yield channel.done, place | ({channel.told: whole} if channel.compared else {})
    _, closes = _PARTS.get(channel.place, (None, None))
    if closes is not None and grown.closed is None and part is not None:
        yield closes, place | {"part": part.model_copy(update={channel.field: whole}) if whole else part}


def _place(index: int, item: Item, channel: Channel, number: int) -> dict[str, Any]:
    place: dict[str, Any] = {"output_index": index}
    if channel.place != "commands":
        place["item_id"] = item.id
    if channel.index:
        place[channel.index] = number
    return place


def _channel(index: int, item: Item, channel: Channel, number: int, text: str, grown: Grown | None) -> Iterator[_Made]:
    """Make the events that are missing of one text."""
    place = _place(index, item, channel, number)
    opens, closes = _PARTS.get(channel.place, (None, None))
    part = part_of(item, channel, number) if channel.place in _PARTS and channel.parts else None
    if opens is not None and not (grown is not None and (grown.part or grown.growth.size or part is None)):
        empty: Any = {"command": ""} if part is None else {"part": part.model_copy(update={channel.field: ""})}
        yield opens, place | empty
    if grown is None or grown.told is None:
        streamed = grown.growth.read(grown.growth.size) if grown is not None else ""
        if text.startswith(streamed) and text != streamed:
            yield channel.delta, place | {"delta": text[len(streamed) :]}
        yield channel.done, place | {channel.told: text}
    if closes is not None and (grown is None or grown.closed is None):
        yield closes, place | {"part": part}
