"""The cursor: enough to resume a response where its stream broke off."""

from __future__ import annotations

from dataclasses import dataclass

from orx_rx.models.stream_events import KeepaliveEvent, ResponseErrorEvent, StreamEnd, UnknownEvent

REPEATABLE = (KeepaliveEvent, UnknownEvent, ResponseErrorEvent, StreamEnd)
"""Events that do no harm when they come again, so that a cursor need not count them."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the stream of a response.

    Attributes:
        response_id: The id of the response.
        sequence_number: The number of the last event that was handed on.
    """

    response_id: str
    sequence_number: int
