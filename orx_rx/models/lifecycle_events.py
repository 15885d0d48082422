"""Events that carry the whole response: its start, its states, its three ends."""

from __future__ import annotations

from typing import Literal

from orx_rx.models.event_base import Event
from orx_rx.models.response import Response


class ResponseEvent(Event, frozen=True):
    """Base of the events that carry the response.

    Attributes:
        response: The response as the server sees it.
    """

    response: Response


class ResponseCreatedEvent(ResponseEvent, frozen=True):
    """The response exists; the first event of a stream."""

    type: Literal["response.created"] = "response.created"


class ResponseQueuedEvent(ResponseEvent, frozen=True):
    """The response waits for its turn."""

    type: Literal["response.queued"] = "response.queued"


class ResponseInProgressEvent(ResponseEvent, frozen=True):
    """The model works on the response."""

    type: Literal["response.in_progress"] = "response.in_progress"


class TerminalEvent(ResponseEvent, frozen=True):
    """Base of the three events that end a response."""


class ResponseCompletedEvent(TerminalEvent, frozen=True):
    """The response is whole."""

    type: Literal["response.completed"] = "response.completed"


class ResponseFailedEvent(TerminalEvent, frozen=True):
    """The response failed; `response.error` says why."""

    type: Literal["response.failed"] = "response.failed"


class ResponseIncompleteEvent(TerminalEvent, frozen=True):
    """The response was cut off; `response.incomplete_details` says why."""

    type: Literal["response.incomplete"] = "response.incomplete"
