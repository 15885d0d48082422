"""Items: opened before they are used, closed before the end, under one place and one id."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from orx_rx.protocol.repair_line import Draft, Line, at
from orx_rx.protocol.repair_parts import PartRepair
from orx_rx.protocol.repair_payloads import (
    PART_EVENTS,
    Payload,
    emptied,
    filled,
    list_in,
    new_item,
    number_in,
    object_in,
    part_list,
    text_in,
    texts,
)
from orx_rx.protocol.repair_places import Item, Items, Part, Unclear, kinds_of
from orx_rx.protocol.states import Action, State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orx_rx.protocol.routes import Route

_ANNOTATION = "response.output_text.annotation.added"
_CALLS = frozenset({"function_call", "custom_tool_call", "mcp_call"})
_MACHINES = {"content": "part", "summary": "part", "commands": "command"}


class ItemRepair:
    """Repairs the items of a response.

    Args:
        line: Where the events go.

    Attributes:
        items: The items so far.
        parts: Repairs their parts.
    """

    def __init__(self, line: Line) -> None:
        self.items: Items = Items()
        self.parts: PartRepair = PartRepair(line)
        self._line = line

    def add(self, draft: Draft) -> None:
        """Take an event that adds an item."""
        self.release()
        body = object_in(draft.fields, "item")
        index = number_in(draft.fields, "output_index")
        if body is None:  # all that is known of it is its place
            self.items.new("", index).state = State.OPEN
            self._line.emit(draft)
            return
        item, claimed = self.items.known(body), self.items.claimed(index)
        if item is None and claimed is not None and not claimed.differs(body) and claimed.state is State.OPEN:
            if claimed.id and text_in(body, "id") and claimed.kind:
                message = f"expected output index {index} to stay with item {claimed.id}, got {text_in(body, 'id')}"
                self._line.contradict(draft, message)
            item = claimed
        if item is not None:
            self._line.record("item_dropped", f"expected the {item.kind} to be added once, got it again", at(item))
            return
        item = self.items.new(text_in(body, "type"), index)
        self._place(draft, item, index)
        item.state, item.body = State.OPEN, body
        self.identified(item, body)
        self._line.emit(draft)

    def end(self, draft: Draft) -> None:
        """Take an event that ends an item."""
        body = object_in(draft.fields, "item")
        index = number_in(draft.fields, "output_index")
        if body is None:  # what ends it comes with the terminal, if at all
            self._line.record("item_dropped", "expected a finished item, got null")
            return
        item = self.items.of_done(body, index)
        said = _said(body)
        if said or self._held() is not item:  # else the terminal may say it
            self.release(said if self._held() is item else None)
        if item is None:
            item = self.items.new(text_in(body, "type"), index)
        if item.state is State.DONE:
            self._line.record("item_dropped", f"expected the {item.kind} to be done once, got it again", at(item))
            return
        item.kind = item.kind or text_in(body, "type")
        self._place(draft, item, index)
        whole = self._closed(item, self.identified(item, body))
        if whole is not body:
            draft.put(item=whole)
        if item.kind in _CALLS and not any(text for _, _, text in texts(whole)):
            self.parts.waiting.append((draft, item, None))
            return
        self._line.emit(draft)

    def use(self, draft: Draft, what: Route) -> None:
        """Take an event that is about an item, or about a part of it."""
        kinds = kinds_of(draft.fields, what)
        item = self.items.of_event(draft.fields, kinds)
        index = number_in(draft.fields, "output_index")
        self._release_for_part(draft, item, what)
        if item is None:
            if len(kinds) != 1 or self.items.claimed(index) is not None:
                self._line.emit(draft)  # for an item of another kind, about which the guard has something to say
                return
            item = self.items.new(next(iter(kinds)), index)
            self.items.name(item, text_in(draft.fields, "item_id"))
            self._open(item, new_item(item.kind, item.id))
        if not item.kind and len(kinds) == 1:
            item.kind = next(iter(kinds))
            item.body = new_item(item.kind, text_in(draft.fields, "item_id"))
        self._place(draft, item, index)
        id_ = text_in(draft.fields, "item_id")
        if not id_ and item.id and what.place != "commands":
            self._line.record("item_id_added", f"expected item id {item.id}, got none", at(item), once=True)
            draft.put(item_id=item.id)
        elif id_:
            self.items.name(item, id_)
            if id_ != item.id:
                self._line.record("item_id_kept", f"expected item id {item.id}, got {id_}", at(item), once=True)
                draft.put(item_id=item.id)
        if what.part_action is None:
            if draft.type == _ANNOTATION and number_in(draft.fields, "content_index") is None:
                self._place_annotation(draft, item)
            self._line.emit(draft)
        else:
            self.parts.use(draft, item, what, what.part_action)

    def stream(self, item: Item, body: Payload) -> None:
        """Stream what an item says, and end it."""
        whole = self._closed(item, body)
        self._line.record("item_done", "expected response.output_item.done for the item, got none", at(item))
        self._line.add({"type": "response.output_item.done", "output_index": item.index, "item": whole})

    def _closed(self, item: Item, body: Payload) -> Payload:
        """Stream what a finished item says, close its parts, and give it the texts that it lacks."""
        if item.state is State.ABSENT:
            self._open(item, emptied(body))
        said = {(channel.place, number): (channel, text) for channel, number, text in texts(body)}
        for (place, number), (channel, text) in said.items():
            part = item.parts.get((place, number))
            if part is None and text:
                part = item.parts[place, number] = Part(place, number, _MACHINES.get(place, "field"))
            if part is None:
                continue
            part.channel = part.channel or channel
            self.parts.close_part(item, part, text, _element(body, place, number))
        for part in list(item.parts.values()):
            key = (part.place, part.number)
            if part.place == "output":
                self.parts.end_output(item, part, list_in(body, "output"))
            elif key not in said:
                self.parts.close_part(item, part, "", _element(body, *key))
            if part.channel is None or not part.channel.compared or not part.text or (key in said and said[key][1]):
                continue
            if (whole := filled(body, part.channel, part.number, part.text)) is not body:
                message = f"expected the {len(part.text)} characters that were streamed, got none"
                self._line.record("item_filled", message, at(item, part))
                body = whole
        item.state, item.body = State.DONE, body
        return body

    def _open(self, item: Item, body: Payload) -> None:
        self._line.record("item_added", f"expected response.output_item.added for the {item.kind}, got none", at(item))
        item.state, item.body = State.OPEN, body
        self._line.add({"type": "response.output_item.added", "output_index": item.index, "item": body})

    def _place(self, draft: Draft, item: Item, index: int | None) -> None:
        if index == item.index:
            return
        if index is None:
            message = f"expected output index {item.index}, got none"
            self._line.record("output_index_added", message, at(item), once=True)
        else:
            message = f"expected output index {item.index}, got {index}"
            self._line.record("output_index_changed", message, at(item), once=True)
        draft.put(output_index=item.index)

    def _place_annotation(self, draft: Draft, item: Item) -> None:
        """Give an annotation the place of its part, which may be done by now."""
        numbers = [number for place, number in item.parts if place == "content"]
        if len(numbers) > 1:
            raise Unclear(f"expected an annotation with content_index, got none, and there are {len(numbers)} parts")
        number = numbers[0] if numbers else 0
        self._line.record("part_index_added", f"expected content_index {number}, got none", at(item), once=True)
        draft.put(content_index=number)

    def identified(self, item: Item, body: Payload) -> Payload:
        """Take note of the names in an item, and give it its first id."""
        id_ = text_in(body, "id")
        self.items.name(item, id_, text_in(body, "call_id"))
        if not item.id or id_ == item.id:
            return body
        if not id_:
            self._line.record("item_id_added", f"expected item id {item.id}, got none", at(item), once=True)
            return {**body, "id": item.id}
        self._line.record("item_id_kept", f"expected item id {item.id}, got {id_}", at(item), once=True)
        return {**body, "id": item.id, "server_id": id_}

    def release(self, said: Mapping[tuple[str, int], str] | None = None) -> None:
        """Hand on the ends that were held back, with what is now known of their texts.

        A text that is done without having said anything is held back until the next event, because some servers send
        an empty end first and the text with what follows.
        """
        waiting, self.parts.waiting = self.parts.waiting, []
        for draft, item, part in waiting:
            if said and part is not None:
                self.parts.finish_late(draft, item, part, said.get((part.place, part.number), ""))
            elif said:
                self._end_late(draft, item, said)
            self._line.emit(draft)

    def release_for_terminal(self, response: Payload) -> None:
        """Hand on the ends that were held back, with what the terminal says of them."""
        held = self._held()
        listed = listed_in(response)
        places = [place for place, index in match(self.items, listed).items() if held and index == held.index]
        self.release(_said(dict(listed)[places[0]]) if places else None)

    def _release_for_part(self, draft: Draft, item: Item | None, what: Route) -> None:
        """Hand on the end that was held back, with what the end of its part says."""
        part = object_in(draft.fields, "part") if what.part_action is Action.DONE else None
        held = self.parts.waiting[-1][2] if self.parts.waiting and self._held() is item else None
        if part is None or held is None or held.channel is None:
            self.release()
        else:
            self.release({(held.place, held.number): text_in(part, held.channel.field)})

    def _held(self) -> Item | None:
        return self.parts.waiting[-1][1] if self.parts.waiting else None

    def _end_late(self, draft: Draft, item: Item, said: Mapping[tuple[str, int], str]) -> None:
        body = item.body
        for channel, number, text in texts(body):
            late = said.get((channel.place, number), "")
            if text or not late:
                continue
            part = item.parts.get((channel.place, number))
            if part is None:  # not even its end came
                part = item.parts[channel.place, number] = Part(channel.place, number, "field")
                part.channel = channel
                self.parts.close_text(item, part, late, "")
            self._line.record("item_filled", f"expected {len(late)} characters, got none", at(item, part))
            body = filled(body, channel, number, late)
        item.body = body
        draft.put(item=body)


def listed_in(response: Payload) -> list[tuple[int, Payload]]:
    """Read the items of a response with their places."""
    values = enumerate(list_in(response, "output"))
    return [(place, cast("Payload", body)) for place, body in values if isinstance(body, dict)]


def match(items: Items, listed: Sequence[tuple[int, Payload]]) -> dict[int, int]:
    """Find the output index of each listed item: by its names, else by its kind, and by place where that agrees."""
    matches: dict[int, int] = {}
    for place, body in listed:
        item = items.known(body)
        if item is not None and item.index not in matches.values():
            matches[place] = item.index
    order = sorted(items.by_index)
    free = [index for index in order if index not in matches.values()]
    for place, body in listed:
        fitting = [index for index in free if not items.by_index[index].differs(body)]
        if place not in matches and fitting:
            there = order[place] if place < len(order) else -1
            matches[place] = there if there in fitting else fitting[0]
            free.remove(matches[place])
    return matches


def _element(body: Payload, place: str, number: int) -> Payload | None:
    values = part_list(body, place) if place in PART_EVENTS else []
    value = values[number] if number < len(values) else None
    return cast("Payload", value) if isinstance(value, dict) else None


def _said(body: Payload) -> dict[tuple[str, int], str]:
    return {(channel.place, number): text for channel, number, text in texts(body) if text}
