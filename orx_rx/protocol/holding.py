"""What is known of each item while it is streamed, and how that becomes an item again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from orx_rx.models.base import Model
from orx_rx.models.item_base import StatusItem
from orx_rx.models.items import ITEM_CLASSES, UnknownItem
from orx_rx.models.machine_items import ShellAction, ShellOutput
from orx_rx.models.parts import PART_CLASSES, Part, UnknownPart
from orx_rx.protocol.channels import CHANNELS, Channel
from orx_rx.protocol.growth import GROWTHS, Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from orx_rx.models.item_base import Item
    from orx_rx.models.parts import Logprob

M = TypeVar("M", bound=Model)


class Grown:
    """One part of an item, or one field of it, as far as it was streamed."""

    __slots__ = ("annotations", "channel", "closed", "growth", "logprobs", "part", "told")

    def __init__(self, channel: Channel) -> None:
        self.channel: Channel = channel
        self.growth: Any = GROWTHS.get(channel.name, Text)()
        self.told: Any = None  # what the done event said
        self.part: Part | None = None  # the part as added or as done
        self.closed: str | None = None  # what the part said when it was done
        self.annotations: dict[int, Any] = {}
        self.logprobs: list[Logprob] = []

    def streamed(self) -> Any:
        """What was streamed: the done event if it said anything, otherwise the deltas; None if nothing came at all."""
        if self.told or not self.growth.size:
            return self.told
        return self.growth.read(self.growth.size)


class Held:
    """One item, as far as it is known."""

    __slots__ = ("added", "done", "grown", "kind", "partial", "seeded", "snapshot", "status")

    def __init__(self, kind: str, *, partial: bool) -> None:
        self.kind: str = kind
        self.partial: bool = partial  # it began before the stream did
        self.seeded: bool = False  # what is known of it comes from a snapshot of the server
        self.added: Item | None = None
        self.done: Item | None = None
        self.status: str | None = None
        self.grown: dict[tuple[str, int], Grown] = {}
        self.snapshot: Item | None = None  # as last read; None when something came since


def said_of(item: Item, channel: Channel, number: int) -> Any:
    """Read what an item says where a channel would have streamed it."""
    if not channel.index:
        return getattr(item, channel.field, None)
    values = _list_of(item, channel.place)
    if number >= len(values):
        return None
    value = values[number]
    if channel.parts and isinstance(value, dict):  # the parts of an item of an unknown type stay as they came
        return cast("dict[str, Any]", value).get(channel.field)
    return getattr(value, channel.field, None) if channel.parts else value


def contents(item: Item) -> dict[tuple[str, int], tuple[Channel, Any]]:
    """Read all that an item says of what could have been streamed, by channel and number.

    What is empty is left out, and so is what cannot be compared with what was streamed.
    """
    found: dict[tuple[str, int], tuple[Channel, Any]] = {}
    for channel in CHANNELS:
        if item.type not in channel.items or not channel.compared:
            continue
        for number in range(len(_list_of(item, channel.place)) if channel.index else 1):
            if text := said_of(item, channel, number):
                found[channel.name, number] = channel, text
    return found


def _list_of(item: Item, place: str) -> list[Any]:
    holder: Any = getattr(item, "action", None) if place == "commands" else item
    value: Any = getattr(holder, place, None)
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def part_of(item: Item, channel: Channel, number: int) -> Part:
    """Read the part of an item that a channel fills."""
    return _list_of(item, channel.place)[number]  # type: ignore[no-any-return]


def emptied(item: Item) -> Item:
    """Make the item as it was when nothing of it had been streamed."""
    update: dict[str, Any] = {}
    for channel in CHANNELS:
        if item.type not in channel.items or not channel.compared:
            continue
        if channel.place == "commands":
            action: Any = getattr(item, "action", None)
            if isinstance(action, ShellAction):
                update["action"] = action.model_copy(update={"commands": []})
        elif getattr(item, channel.place, None) is not None:
            update[channel.place] = [] if channel.index else ""
    if isinstance(item, StatusItem) and item.status is not None:
        update["status"] = "in_progress"
    return item.model_copy(update=update)


def names_of(item: Item) -> list[tuple[str, str]]:
    """List what an item is known by; with the type, because a call and its output have the same `call_id`."""
    names: tuple[object, ...] = (item.id, getattr(item, "call_id", None))
    return [(item.type, name) for name in names if name and isinstance(name, str)]


def item_named(kind: str) -> Item:
    """Make an item that was never added: nothing is known of it but its kind."""
    return ITEM_CLASSES.get(kind, UnknownItem)(type=kind or "unknown")


def overlay(item: Item, held: Held, *, prefer_item: bool) -> Item:
    """Complete an item with what was streamed of it; the item itself where that adds nothing.

    Args:
        item: The item as the server sent it.
        held: What was streamed.
        prefer_item: Whether what the item says wins; otherwise what was streamed does.
    """
    update: dict[str, Any] = {}
    lists: dict[str, dict[int, Grown]] = {}
    for (place, number), grown in held.grown.items():
        if grown.channel.index:
            lists.setdefault(place, {})[number] = grown
            continue
        said, streamed = getattr(item, grown.channel.field, None), grown.streamed()
        update[grown.channel.field] = (said or streamed) if prefer_item else (streamed or said)
    for place, numbered in lists.items():
        said = _list_of(item, place)
        if place == "output":
            update[place] = said if said and prefer_item else _printed(numbered) or said
            continue
        values = list(_elements(said, numbered, prefer_item=prefer_item))
        if place == "commands":
            action: Any = getattr(item, "action", None)
            action = action if isinstance(action, ShellAction) else ShellAction()
            update["action"] = action.model_copy(update={"commands": values})
        else:
            update[place] = values
    if held.status is not None and not prefer_item:
        update["status"] = held.status
    changes = {name: value for name, value in update.items() if value != getattr(item, name, None)}
    return item.model_copy(update=changes) if changes else item


def fill(last: M, before: M) -> M:
    """Complete what a server said last with what it said before: the fields that it leaves out or empty."""
    if type(last) is not type(before) or isinstance(last, UnknownItem | UnknownPart):
        return last
    update: dict[str, Any] = {}
    for name, earlier in before:
        said = getattr(last, name, None)
        value = _fill_value(said, earlier, deep=name in ("content", "summary", "commands"))
        if value is not said:
            update[name] = value
    return last.model_copy(update=update) if update else last


def _fill_value(said: Any, earlier: Any, *, deep: bool) -> Any:
    if _says_nothing(said):
        return said if _says_nothing(earlier) else earlier
    if deep and all(isinstance(value, list) for value in (said, earlier)):
        filled = [_fill_value(*pair, deep=False) for pair in zip(said, earlier, strict=False)]
        return [*filled, *said[len(filled) :], *earlier[len(filled) :]]
    return fill(said, earlier) if isinstance(said, Model) and isinstance(earlier, Model) else said


def _says_nothing(value: object) -> bool:
    return value is None or value in ("", [], {})


def _elements(said: list[Any], numbered: dict[int, Grown], *, prefer_item: bool) -> Iterator[Any]:
    if prefer_item and len(numbered) <= len(said) <= max(numbered):
        # the server numbers its parts in some other way than by their place, and lists no less of them than it streamed
        numbered = dict(enumerate(grown for _, grown in sorted(numbered.items())))
    for number in sorted({*range(len(said)), *numbered}):
        element = said[number] if number < len(said) else None
        grown = numbered.get(number)
        if grown is None or (prefer_item and isinstance(element, dict)):  # content of an unknown item stays as it came
            yield element  # pyright: ignore[reportUnknownVariableType]
        elif not grown.channel.parts:
            yield (element or grown.streamed()) if prefer_item else (grown.streamed() or element)
        else:
            yield _part_of(element, grown, prefer_item=prefer_item)


def _part_named(type_: str) -> Part:
    return PART_CLASSES[type_](type=type_)


def _part_of(element: Any, grown: Grown, *, prefer_item: bool) -> Part:
    base: Part = element if isinstance(element, Part) else grown.part or _part_named(grown.channel.parts[0])
    field = grown.channel.field
    said = getattr(base, field, None)
    streamed = grown.closed or grown.streamed()
    update: dict[str, Any] = {}
    text = (said or streamed) if prefer_item else (streamed or said)
    if text and text != said:
        update[field] = text
    for name, values in (
        ("annotations", [grown.annotations[number] for number in sorted(grown.annotations)]),
        ("logprobs", grown.logprobs),
    ):
        if values and not getattr(base, name, None):
            update[name] = list(values)
    return base.model_copy(update=update) if update else base


def _printed(numbered: Mapping[int, Grown]) -> list[Any]:
    """List what the commands printed; one command may print several records, so places do not tell them apart."""
    outputs: list[Any] = []
    for _, grown in sorted(numbered.items()):
        if grown.told and isinstance(grown.told, list):
            outputs += grown.told  # pyright: ignore[reportUnknownMemberType]
        elif grown.growth.size:
            printed = grown.growth.read(grown.growth.size)
            outputs.append(ShellOutput(stdout=printed.stdout, stderr=printed.stderr))
    return outputs
