"""The terminal: it and the streamed items agree, and each gets from the other what it lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orx_rx.protocol.repair_items import ItemRepair, listed_in, match
from orx_rx.protocol.repair_line import Draft, Line
from orx_rx.protocol.repair_payloads import (
    SEVERITY,
    Payload,
    filled,
    list_in,
    text_in,
    texts,
)
from orx_rx.protocol.repair_places import Item

if TYPE_CHECKING:
    from collections.abc import Sequence


class TerminalRepair:
    """Repairs the terminal of a response.

    Args:
        line: Where the events go.
        items: Repairs the items.
    """

    def __init__(self, line: Line, items: ItemRepair) -> None:
        self._line = line
        self._items = items

    def settled(self, draft: Draft, response: Payload) -> Payload:
        """Let the worse of event name and status count."""
        named, status = draft.type.removeprefix("response."), response.get("status")
        if status is None or status == named:
            return response
        worse = status if SEVERITY.get(str(status), 0) > SEVERITY[named] else named
        if worse == "cancelled":  # for which there is no terminal
            self._settle(draft, "incomplete", named, status)
            draft.put(synthetic=True)
            return response
        self._settle(draft, worse, named, status)
        return {**response, "status": worse}

    def _settle(self, draft: Draft, name: str, named: str, status: object) -> None:
        if draft.type != f"response.{name}" or status != "cancelled":
            message = f"expected status {named} as in the event, got {status}"
            self._line.record("status_settled", message, "response.status")
        draft.put(type=f"response.{name}")

    def whole(self, draft: Draft, response: Payload) -> Payload:
        """Make the terminal and the streamed items agree: each gets from the other what it lacks."""
        named = draft.type.removeprefix("response.")
        items = self._items.items.by_index
        output = list_in(response, "output")
        listed = listed_in(response)
        matches = match(self._items.items, listed)
        if named != "failed":
            self._stream_rest(listed, matches, closes=named == "completed")
        null = not isinstance(response.get("output"), list)
        if not items or (not output and named == "failed"):
            if null and "output" in response:
                self._line.record("output_listed", "expected a list as output, got null", "response.output")
            return {**response, "output": []} if null and "output" in response else response
        if not output:
            got = "null" if null else "none"
            self._line.record(
                "output_filled", f"expected the {len(items)} streamed items, got {got}", "response.output"
            )
            return {**response, "output": [_known(item) for _, item in sorted(items.items())]}
        if len(matches) != len(output):
            return response
        final = [self._reconciled(items[matches[place]], body, place) for place, body in listed]
        missing = [item for index, item in sorted(items.items()) if index not in matches.values()]
        for item in reversed(missing):
            message = f"expected the {item.kind or 'item'} of output index {item.index}, got none"
            self._line.record("output_extended", message, "response.output")
            behind = [place for place, index in sorted(matches.items()) if index > item.index]
            final.insert(behind[0] if behind else len(final), _known(item))
        changed = missing or any(new is not old for new, old in zip(final, output, strict=True))
        return {**response, "output": final} if changed else response

    def _stream_rest(self, listed: Sequence[tuple[int, Payload]], matches: dict[int, int], *, closes: bool) -> None:
        """Stream what only the terminal carries, and close what is open."""
        bodies = {matches[place]: body for place, body in listed if place in matches}
        for item in self._items.items.open():
            if item.index in bodies or closes:
                body = self._items.identified(item, bodies.get(item.index) or _completed(item))
                self._items.stream(item, body)
        for place, body in listed:
            if place not in matches:
                item = self._items.items.new(text_in(body, "type"), None)
                self._items.stream(item, self._items.identified(item, body))
                matches[place] = item.index

    def _reconciled(self, item: Item, body: Payload, place: int) -> Payload:
        """Give an item of the terminal the id and the texts that were streamed."""
        body = self._items.identified(item, body)
        said = {(channel, number): text for channel, number, text in texts(body)}
        for channel, number, text in texts(_known(item)):
            if text and not said.get((channel, number)):
                message = f"expected the {len(text)} characters that were streamed, got none"
                self._line.record("output_completed", message, f"response.output[{place}]")
                body = filled(body, channel, number, text)
        return body


def _known(item: Item) -> Payload:
    """Make an item with all that is known of it."""
    body = item.body
    said = {(channel.place, number): text for channel, number, text in texts(body)}
    for part in sorted(item.parts.values(), key=lambda part: part.number):
        channel = part.channel
        if channel is not None and channel.compared and part.text and not said.get((part.place, part.number)):
            body = filled(body, channel, part.number, part.text)
    return body


def _completed(item: Item) -> Payload:
    body = _known(item)
    return {**body, "status": "completed"} if body.get("status") is not None else body
