"""Reading a stream for what people want out of it: pieces of text, finished items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orx_rx.models.event_base import DeltaEvent
from orx_rx.models.item_events import ResponseOutputItemDoneEvent
from orx_rx.models.lifecycle_events import TerminalEvent
from orx_rx.protocol.channels import DELTA_CHANNELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orx_rx.models.event_base import Event
    from orx_rx.models.item_base import Item


class PieceReader:
    """Reads the deltas of some channels.

    Args:
        channels: The names of the channels, such as `text`.
        separator: What to put in front of the first piece of every part but the first one.
    """

    def __init__(self, *channels: str, separator: str = "") -> None:
        self._channels = {event: row for event, row in DELTA_CHANNELS.items() if row.name in channels}
        self._separator = separator
        self._place: object = None

    def feed(self, event: Event) -> Sequence[str]:
        """Read one event."""
        channel = self._channels.get(event.__class__)
        if channel is None or not isinstance(event, DeltaEvent):
            return ()
        if not self._separator:
            return (event.delta,)
        place = (channel.place, event.output_index, getattr(event, channel.index))  # type: ignore[attr-defined]
        first = self._place is None or place == self._place
        self._place = place
        return (event.delta,) if first else (self._separator, event.delta)

    def end(self) -> Sequence[str]:
        """Do nothing: what was read was handed on."""
        return ()


class ItemReader:
    """Reads finished items, each one once: when it is done, or with the terminal if it never was."""

    def __init__(self) -> None:
        self._places: set[int] = set()
        self._ids: set[str] = set()

    def feed(self, event: Event) -> Sequence[Item]:
        """Read one event."""
        if isinstance(event, ResponseOutputItemDoneEvent) and event.item is not None:
            if event.output_index in self._places:
                return ()
            self._places.add(event.output_index)
            self._ids.update(_ids(event.item))
            return (event.item,)
        if isinstance(event, TerminalEvent):
            output = event.response.output or []
            return [item for place, item in enumerate(output) if not self._known(place, item)]
        return ()

    def end(self) -> Sequence[Item]:
        """Do nothing: items that no terminal carries are not finished."""
        return ()

    def _known(self, place: int, item: Item) -> bool:
        ids = _ids(item)
        return not ids.isdisjoint(self._ids) or place in self._places


def _ids(item: Item) -> set[str]:
    return {name for name in (item.id, getattr(item, "call_id", None)) if name}
