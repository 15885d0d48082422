"""Which item and which part an event means, however little it says.

An event names its item by `item_id`, by `output_index` and by `call_id`, and what it names first in this order counts.
An event that names nothing means the item of the right kind that is open. Where two are, nobody can tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orx_rx.protocol.channels import Channel, part_channel
from orx_rx.protocol.repair_payloads import Payload, number_in, object_in, text_in
from orx_rx.protocol.states import State

if TYPE_CHECKING:
    from collections.abc import Collection

    from orx_rx.protocol.routes import Route


class Part:
    """One part of an item, or one field of it, as far as it was streamed.

    Attributes:
        place: The field of the item that it lives in.
        number: Which part it is; 0 for a field.
        machine: Its machine: `part`, `command` or `field`.
        state: Where that is.
        channel: What streams its text; None until that is known, or for a part of an unknown kind.
        body: The part as it was added, or None.
        pieces: The text so far.
    """

    def __init__(self, place: str, number: int, machine: str) -> None:
        self.place: str = place
        self.number: int = number
        self.machine: str = machine
        self.state: State = State.ABSENT
        self.channel: Channel | None = None
        self.body: Payload | None = None
        self.pieces: list[str] = []

    @property
    def text(self) -> str:
        """The text so far."""
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""


class Item:
    """One item, as far as it is known.

    Attributes:
        index: Its place in the output.
        kind: Its type; the empty string where it is not known.
        id: The first id that it had, or the empty string.
        call_id: Its call id, or the empty string.
        state: Whether it is open or done.
        body: The item as it was added, and later as it was done.
        parts: Its parts, by place and number.
    """

    def __init__(self, index: int, kind: str) -> None:
        self.index: int = index
        self.kind: str = kind
        self.id: str = ""
        self.call_id: str = ""
        self.state: State = State.ABSENT
        self.body: Payload = {"type": kind}
        self.parts: dict[tuple[str, int], Part] = {}

    def differs(self, body: Payload) -> bool:
        """Say whether this is certainly not the item of a body."""
        kind, call = text_in(body, "type"), text_in(body, "call_id")
        return bool((self.kind and kind and kind != self.kind) or (self.call_id and call and call != self.call_id))

    def place(self, channel: Channel, number: int) -> Payload:
        """Make the fields that name a part of this item."""
        named = {"item_id": self.id} if self.id and channel.place != "commands" else {}
        return {**named, "output_index": self.index, **({channel.index: number} if channel.index else {})}


class Unclear(Exception):
    """Raised when an event may mean two things; the message says what was expected and what came."""


class Items:
    """The items of a stream."""

    def __init__(self) -> None:
        self.by_index: dict[int, Item] = {}
        self._by_id: dict[str, Item] = {}
        self._by_call: dict[tuple[str, str], Item] = {}
        self._claims: dict[int, list[Item]] = {}  # by the index that the server gives them

    def new(self, kind: str, index: int | None) -> Item:
        """Make an item at an index, or at the next one that is free."""
        place = index if index is not None and index not in self.by_index else max(self.by_index, default=-1) + 1
        item = self.by_index[place] = Item(place, kind)
        self._claims.setdefault(place if index is None else index, []).append(item)
        return item

    def name(self, item: Item, id_: str, call_id: str = "") -> None:
        """Take note of a name of an item."""
        if id_:
            item.id = item.id or id_
            self._by_id.setdefault(id_, item)
        if call_id:
            item.call_id = item.call_id or call_id
            self._by_call.setdefault((item.kind, call_id), item)

    def known(self, body: Payload) -> Item | None:
        """Find the item of a body by its names."""
        named = self._by_id.get(text_in(body, "id"))
        if named is not None and named.kind in ("", text_in(body, "type")):
            return named
        return self._by_call.get((text_in(body, "type"), text_in(body, "call_id")))

    def claimed(self, index: int | None) -> Item | None:
        """Find the item that the server gave an index to last."""
        return self._claims[index][-1] if index is not None and index in self._claims else None

    def of_done(self, body: Payload, index: int | None) -> Item | None:
        """Find the item that a body finishes; None where it was never added.

        Raises:
            Unclear: Two may be meant.
        """
        item = self.known(body)
        if item is not None:
            return item
        there = [] if index is None else self._claims.get(index, [])
        claimed = [item for item in there if not item.differs(body)] or [
            item for item in there if item.kind == body.get("type") and item.state is State.OPEN
        ]
        if claimed:
            return self._one(claimed, text_in(body, "type")) or claimed[-1]
        if index is not None and not there:
            return None
        fitting = [item for item in self.by_index.values() if not item.differs(body) and item.kind]
        return self._one(fitting, text_in(body, "type"))

    def of_event(self, payload: Payload, kinds: Collection[str]) -> Item | None:
        """Find the item that an event is about; None where it was never added.

        Args:
            payload: The event.
            kinds: The kinds of items that it fits; empty for any.

        Raises:
            Unclear: Two may be meant.
        """
        item = self._by_id.get(text_in(payload, "item_id"))
        if item is not None and _fits(item, kinds):
            return item
        index = number_in(payload, "output_index")
        if index is not None:
            if index not in self._claims:
                return None
            claimed = [item for item in self._claims[index] if _fits(item, kinds)]
            if claimed:
                return self._one(claimed, _said(kinds)) or claimed[-1]
        call_id = text_in(payload, "call_id")
        calls = [self._by_call[kind, call_id] for kind in kinds if (kind, call_id) in self._by_call]
        if calls:
            return calls[0]
        return self._one([item for item in self.by_index.values() if _fits(item, kinds)], _said(kinds))

    def open(self) -> list[Item]:
        """List the items that are open, in their order."""
        return [item for _, item in sorted(self.by_index.items()) if item.state is State.OPEN]

    def _one(self, items: Collection[Item], what: str) -> Item | None:
        """Choose the open one; None where none is."""
        opened = [item for item in items if item.state is State.OPEN]
        if len(opened) > 1:
            places = ", ".join(f"output[{item.index}]" for item in opened)
            raise Unclear(
                f"expected an event that says which open {what or 'item'} it means, got one that may mean {places}"
            )
        return opened[0] if opened else None


def part_number(payload: Payload, item: Item, what: Route, adds: bool) -> int:
    """Find which part an event is about.

    Raises:
        Unclear: Two may be meant.
    """
    if not what.index:
        return 0
    number = number_in(payload, what.index)
    if number is not None:
        return number
    parts = [part for part in item.parts.values() if part.place == what.place]
    following = max((part.number for part in parts), default=-1) + 1
    if adds:
        return following
    opened = [part for part in parts if part.state in (State.OPEN, State.FINISHED) and _suits(part, what)]
    if len(opened) > 1:
        places = ", ".join(f"{what.place}[{part.number}]" for part in opened)
        raise Unclear(f"expected an event with {what.index}, got none, and it may mean {places}")
    return opened[0].number if opened else following


def kinds_of(payload: Payload, what: Route) -> Collection[str]:
    """Say which kinds of items an event fits; a part tells by its type what it is a part of."""
    part = object_in(payload, "part")
    if what.items or part is None:
        return what.items
    channel = part_channel(what.place, text_in(part, "type"))
    return channel.items if channel is not None else ()


def _suits(part: Part, what: Route) -> bool:
    return not what.parts or part.channel is None or bool({*what.parts} & {*part.channel.parts})


def _fits(item: Item, kinds: Collection[str]) -> bool:
    return not kinds or not item.kind or item.kind in kinds


def _said(kinds: Collection[str]) -> str:
    return " or ".join(sorted(kinds))
