"""Parts of items: opened before they are used, their texts whole, and closed before what they are in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orx_rx.protocol.channels import part_channel
from orx_rx.protocol.repair_line import Draft, Line, at
from orx_rx.protocol.repair_payloads import (
    DELTAS,
    PART_EVENTS,
    TEXTS,
    Payload,
    delta_of,
    done_of,
    new_part,
    number_in,
    object_in,
    text_in,
)
from orx_rx.protocol.repair_places import Item, Part, part_number
from orx_rx.protocol.states import Action, State

if TYPE_CHECKING:
    from orx_rx.protocol.routes import Route

_FINISHED = {"part": State.FINISHED, "command": State.DONE, "field": State.DONE}


class PartRepair:
    """Repairs the parts of items.

    Args:
        line: Where the events go.

    Attributes:
        quick: The type and the place of the last event, if it was a delta that needed no repair, and its part.
        waiting: Ends that say nothing, until something follows: of a part, or of its item.
    """

    def __init__(self, line: Line) -> None:
        self.quick: tuple[str, object, object, object, Part] | None = None
        self.waiting: list[tuple[Draft, Item, Part | None]] = []
        self._line = line

    def use(self, draft: Draft, item: Item, what: Route, action: Action) -> None:
        """Take an event that is about a part of an item."""
        number = part_number(draft.fields, item, what, action is Action.ADD)
        if what.index and number_in(draft.fields, what.index) is None:
            message = f"expected {what.index} {number}, got none"
            self._line.record("part_index_added", message, f"{at(item)}.{what.place}[{number}]", once=True)
            draft.put(**{what.index: number})
        part = item.parts.get((what.place, number))
        if part is None:
            part = item.parts[what.place, number] = Part(what.place, number, what.machine)
        part.channel = TEXTS.get(draft.type) or part.channel
        if item.state is State.DONE:  # which the guard says better
            self._line.emit(draft)
        elif action is Action.ADD:
            self._add(draft, item, part)
        elif action is Action.DONE:
            self._end(draft, item, part)
        else:
            if part.state is State.ABSENT:
                self._open(item, part, "")
            if action is Action.FINISH:
                self._finish(draft, item, part)
            else:
                self._grow(draft, part)

    def _grow(self, draft: Draft, part: Part) -> None:
        fields, piece = draft.fields, draft.fields.get("delta")
        if draft.type in DELTAS and isinstance(piece, str):
            part.pieces.append(piece)
        self._line.emit(draft)
        if not draft.changed and draft.type in DELTAS and part.state is State.OPEN:
            index = part.channel.index if part.channel is not None else ""
            self.quick = (draft.type, fields.get("item_id"), fields.get("output_index"), fields.get(index), part)

    def _add(self, draft: Draft, item: Item, part: Part) -> None:
        if part.state is State.OPEN:
            self._line.record("part_dropped", "expected the part to be added once, got it again", at(item, part))
            return
        if part.state is not State.ABSENT:
            self._line.emit(draft)
            return
        part.state = State.OPEN
        empty: Payload = {"command": ""}
        if part.machine == "command":
            part.channel = TEXTS["response.shell_call_command.delta"]
            begun = text_in(draft.fields, "command")
        else:
            body = part.body = object_in(draft.fields, "part") or {}
            part.channel = part_channel(part.place, text_in(body, "type"), item.kind)
            field = part.channel.field if part.channel is not None else ""
            begun, empty = text_in(body, field), {"part": {**body, field: ""}}
        if not begun:
            self._line.emit(draft)
            return
        self._line.record("part_emptied", f"expected an empty part, got {len(begun)} characters", at(item, part))
        draft.put(**empty)
        self._line.emit(draft)
        self._deliver(item, part, begun)

    def _finish(self, draft: Draft, item: Item, part: Part) -> None:
        channel = part.channel
        if part.state in (State.FINISHED, State.DONE):
            told = text_in(draft.fields, channel.told) if channel is not None else ""
            if channel is None or not channel.compared or told in ("", part.text):
                self._line.record("part_dropped", "expected the text to be done once, got it again", at(item, part))
            else:
                self._line.emit(draft)
            return
        if channel is not None and channel.compared and channel.told:
            told, streamed = text_in(draft.fields, channel.told), part.text
            if told != streamed and told.startswith(streamed):
                self.rest(item, part, told)
            elif streamed and not told:
                message = f"expected the {len(streamed)} characters that were streamed, got none"
                self._line.record("text_filled", message, at(item, part))
                draft.put(**{channel.told: streamed})
            elif not told:
                part.state = _FINISHED[part.machine]
                self.waiting.append((draft, item, part))
                return
        part.state = _FINISHED[part.machine]
        self._line.emit(draft)

    def finish_late(self, draft: Draft, item: Item, part: Part, text: str) -> None:
        """Give a text that was held back without one what is said of it now."""
        if text and part.channel is not None:
            self.rest(item, part, text)
            self._line.record("text_filled", f"expected {len(text)} characters, got none", at(item, part))
            draft.put(**{part.channel.told: text})

    def _end(self, draft: Draft, item: Item, part: Part) -> None:
        if part.state is State.DONE:
            self._line.record("part_dropped", "expected the part to be done once, got it again", at(item, part))
            return
        body = object_in(draft.fields, "part") or {}
        part.channel = part.channel or part_channel(part.place, text_in(body, "type"), item.kind)
        channel = part.channel
        if channel is None:  # a part of an unknown kind has no text that could be done
            if part.state is State.ABSENT:
                self._open(item, part, text_in(body, "type"))
        else:
            self.close_text(item, part, text_in(body, channel.field), text_in(body, "type"))
            if part.text and not text_in(body, channel.field):
                message = f"expected the {len(part.text)} characters that were streamed, got none"
                self._line.record("text_filled", message, at(item, part))
                draft.put(part={**body, channel.field: part.text})
        part.state = State.DONE
        self._line.emit(draft)

    def close_part(self, item: Item, part: Part, text: str, body: Payload | None) -> None:
        """Stream the rest of a text, and close its part."""
        if part.state is State.DONE:
            return
        channel = part.channel
        if channel is not None and channel.compared:
            self.close_text(item, part, text, text_in(body or {}, "type"))
        closes = PART_EVENTS[part.place][1] if part.machine == "part" else ""
        if closes:
            self._line.record("part_done", "expected the part to be done before its item, got none", at(item, part))
            kind = {channel.field: part.text} if channel is not None else {}
            whole = {**(body or part.body or (new_part(channel) if channel is not None else {})), **kind}
            index = "summary_index" if part.place == "summary" else "content_index"
            place = {**({"item_id": item.id} if item.id else {}), "output_index": item.index, index: part.number}
            self._line.add({"type": closes, **place, "part": whole})
        part.state = State.DONE

    def end_output(self, item: Item, part: Part, outputs: list[Any]) -> None:
        """End what a command printed; its records are in the finished item."""
        if part.state is State.OPEN and part.channel is not None:
            self._line.record("text_done", "expected the output to be done before its item, got none", at(item, part))
            alone = sum(other.place == "output" for other in item.parts.values()) == 1
            told = outputs if alone else outputs[part.number : part.number + 1]
            self._line.add({**done_of(part.channel, item.place(part.channel, part.number), ""), "output": told})
        part.state = State.DONE

    def close_text(self, item: Item, part: Part, text: str, kind: str) -> None:
        """Stream the rest of a text, and end it."""
        channel = part.channel
        if channel is None or part.state in (State.FINISHED, State.DONE):
            return
        if part.state is State.ABSENT and part.machine != "field":
            self._open(item, part, kind)
        if text != part.text and text.startswith(part.text):
            self.rest(item, part, text)
        if part.machine != "field" or part.text:
            self._line.record(
                "text_done", "expected the text to be done before what it is in, got none", at(item, part)
            )
            self._line.add(done_of(channel, item.place(channel, part.number), part.text))
        part.state = _FINISHED[part.machine]

    def _open(self, item: Item, part: Part, kind: str) -> None:
        channel = part.channel
        if part.machine == "field" or (channel is None and not kind):
            part.state = State.OPEN
            return
        self._line.record("part_added", "expected the part to be added first, got what belongs in it", at(item, part))
        part.state = State.OPEN
        opens = PART_EVENTS[part.place][0]
        if part.machine == "command":
            assert channel is not None
            self._line.add({"type": opens, **item.place(channel, part.number), "command": ""})
            return
        part.body = new_part(channel, kind) if channel is not None else {"type": kind}
        index = "summary_index" if part.place == "summary" else "content_index"
        place = {**({"item_id": item.id} if item.id else {}), "output_index": item.index, index: part.number}
        self._line.add({"type": opens, **place, "part": part.body})

    def rest(self, item: Item, part: Part, text: str) -> None:
        """Stream what is missing of a text, as one delta."""
        streamed = len(part.text)
        message = f"expected {len(text)} characters in deltas, got {streamed}"
        self._line.record("delta_added", message, at(item, part))
        self._deliver(item, part, text[streamed:])

    def _deliver(self, item: Item, part: Part, text: str) -> None:
        channel = part.channel
        assert channel is not None
        part.pieces.append(text)
        self._line.add(delta_of(channel, item.place(channel, part.number), text))
