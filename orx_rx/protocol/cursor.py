"""The cursor: enough to resume a response where its stream broke off."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from orx_rx.models.base import to_wire
from orx_rx.models.lifecycle_events import ResponseEvent
from orx_rx.models.parse import problems
from orx_rx.models.response import Response
from orx_rx.models.stream_events import KeepaliveEvent, ResponseErrorEvent, StreamEnd, UnknownEvent

if TYPE_CHECKING:
    from orx_rx.models.event_base import Event

REPEATABLE = (KeepaliveEvent, UnknownEvent, ResponseErrorEvent, StreamEnd)
"""Events that do no harm when they come again, so that a cursor need not count them."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the stream of a response; a small value that survives a process.

    What is resumed begins behind it, so it should stand at the last event that was dealt with, and not at the last that
    came: take it from an `Accumulator` that is fed where events are dealt with. The one of `events(into=...)` is ahead
    of whoever reads through a buffer, such as `iterate`.

    Attributes:
        response_id: The id of the response.
        sequence_number: The number of the last event that was handed on, from 0.
        snapshot: The response as accumulated until there, or None.

    Raises:
        ValueError: The id is empty, the number is negative, or the snapshot is of another response.
    """

    response_id: str
    sequence_number: int
    snapshot: Response | None = None

    def __post_init__(self) -> None:
        """Refuse a place that cannot be."""
        if not self.response_id:
            raise ValueError("expected a cursor with the id of a response, got an empty one")
        if self.sequence_number < 0:
            raise ValueError(f"expected a cursor with a number of at least 0, got {self.sequence_number}")
        if self.snapshot is not None and self.snapshot.id not in ("", self.response_id):
            raise ValueError(f"expected a snapshot of {self.response_id}, got one of {self.snapshot.id}")

    def to_json(self) -> str:
        """Write the cursor as one line of JSON."""
        fields = {"response_id": self.response_id, "sequence_number": self.sequence_number}
        snapshot = {} if self.snapshot is None else {"snapshot": to_wire(self.snapshot)}
        return json.dumps(fields | snapshot, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Cursor:
        """Read what `to_json` wrote.

        Raises:
            ValueError: It is not that.
        """
        try:
            fields: Any = json.loads(text)
        except ValueError:
            raise ValueError("expected a cursor as JSON, got something else") from None
        if not isinstance(fields, dict):
            raise ValueError("expected a cursor as a JSON object, got a value of another kind")
        known = cast("dict[str, Any]", fields)
        id_, number, snapshot = (known.get(name) for name in ("response_id", "sequence_number", "snapshot"))
        if not isinstance(id_, str) or not isinstance(number, int) or isinstance(number, bool):
            raise ValueError("expected response_id as text and sequence_number as a whole number, got other values")
        try:
            return cls(id_, number, None if snapshot is None else Response.model_validate(snapshot))
        except ValidationError as error:
            raise ValueError(f"expected a snapshot that is a response, got {'; '.join(problems(error))}") from None


class Bookmark:
    """Keeps the place in a stream.

    Attributes:
        response_id: The id of the response; the empty string until the server has told it.
        sequence_number: The number of the last event that had one, or None.
    """

    def __init__(self) -> None:
        self.response_id: str = ""
        self.sequence_number: int | None = None
        self._ahead = False  # what came last had no number of the server, so that resuming would bring it again

    @property
    def cursor(self) -> Cursor | None:
        """The place; None where the id or the number of the last event is not known."""
        if not self.response_id or self.sequence_number is None or self._ahead:
            return None
        return Cursor(self.response_id, self.sequence_number)

    def place(self, cursor: Cursor) -> None:
        """Begin at a cursor."""
        self.response_id, self.sequence_number = cursor.response_id, cursor.sequence_number

    def turn(self, event: Event) -> None:
        """Go on to an event."""
        if event.sequence_number is not None:
            self.sequence_number = event.sequence_number
            self._ahead = event.is_renumbered  # with a number that means nothing to the server
        elif not isinstance(event, REPEATABLE):
            self._ahead = True
        if not self.response_id and isinstance(event, ResponseEvent):
            self.response_id = event.response.id
