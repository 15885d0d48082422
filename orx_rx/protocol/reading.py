"""Reading a stream for what people want out of it: pieces of text, finished items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from orx_rx.errors import SchemaViolation
from orx_rx.models.event_base import DeltaEvent, Event
from orx_rx.models.item_events import ResponseOutputItemDoneEvent
from orx_rx.models.lifecycle_events import ResponseCreatedEvent, TerminalEvent
from orx_rx.models.parse import problems
from orx_rx.models.response import Response
from orx_rx.protocol.channels import DELTA_CHANNELS, ByClass, Channel
from orx_rx.protocol.holding import names_of
from orx_rx.protocol.steps import Batched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orx_rx.models.item_base import Item


class PieceReader(Batched[Event, str]):
    """Reads the deltas of some channels.

    Args:
        channels: The names of the channels, such as `text`.
        separator: What to put in front of the first piece of every part but the first one.
    """

    takes = Event

    def __init__(self, *channels: str, separator: str = "") -> None:
        named = {event: row for event, row in DELTA_CHANNELS.items() if row.name in channels}
        self._channels: ByClass[Channel] = ByClass(named)
        self._separator = separator
        self._place: object = None

    def feed_all(self, events: Sequence[Event], pieces: list[str], /) -> None:
        """Read events."""
        for event in events:
            channel = self._channels[type(event)]
            if channel is None or not isinstance(event, DeltaEvent):
                continue
            if self._separator:
                fields = event.__dict__
                place = (channel.place, fields["output_index"], fields[channel.index])
                if self._place is not None and place != self._place:
                    pieces.append(self._separator)
                self._place = place
            pieces.append(event.delta)

    def end(self) -> Sequence[str]:
        """Do nothing: what was read was handed on."""
        return ()


class ItemReader:
    """Reads finished items, each one once: when it is done, or with the terminal if it never was.

    A `response.created` behind a terminal begins another response, as in the stream of `run_tools`.
    """

    takes = Event

    def __init__(self) -> None:
        self._done: dict[int, Item] = {}  # by output index
        self._ended = False

    def feed(self, event: Event) -> Sequence[Item]:
        """Read one event."""
        if isinstance(event, ResponseOutputItemDoneEvent) and event.item is not None:
            if event.output_index in self._done:
                return ()
            self._done[event.output_index] = event.item
            return (event.item,)
        if isinstance(event, TerminalEvent) and not self._ended:
            self._ended = True
            return self._not_done(event.response.output or [])
        if isinstance(event, ResponseCreatedEvent) and self._ended:
            self._done.clear()
            self._ended = False
        return ()

    def end(self) -> Sequence[Item]:
        """Do nothing: items that no terminal carries are not finished."""
        return ()

    def _not_done(self, output: Sequence[Item]) -> Sequence[Item]:
        """Find what was not done: items are the same if they share a name; the names may rotate, so else by type."""
        done = {name for item in self._done.values() for name in names_of(item)}
        listed = {name for item in output for name in names_of(item)}
        rotated = [item.type for item in self._done.values() if listed.isdisjoint(names_of(item))]
        found: list[Item] = []
        for item in output:
            if not done.isdisjoint(names_of(item)):
                continue
            if item.type in rotated:
                rotated.remove(item.type)
            else:
                found.append(item)
        return found


class WholeResponse:
    """Reads a response out of the chunks of a JSON body."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []

    def feed(self, chunk: bytes) -> Sequence[Response]:
        """Keep a chunk."""
        self._chunks.append(chunk)
        return ()

    def end(self) -> Sequence[Response]:
        """Read the body.

        Raises:
            SchemaViolation: It is not a response.
        """
        try:
            return (Response.model_validate_json(b"".join(self._chunks)),)
        except ValidationError as error:
            found = problems(error)
            raise SchemaViolation(
                f"expected a response, got a body that does not fit: {'; '.join(found)}", problems=found
            ) from None
