"""Scripts: what happens in the stream of one response, event by event, without I/O.

A scenario is a function that takes a script and yields the events of some items. `play` puts them into the frame that
every stream has: `response.created` and `response.in_progress` first, for a background response with `response.queued`
between them, a terminal last, and numbers on all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from orx_rx.models.event_base import DeltaEvent, Event, SummaryEvent
from orx_rx.models.item_events import ResponseOutputItemAddedEvent, ResponseOutputItemDoneEvent
from orx_rx.models.lifecycle_events import (
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseFailedEvent,
    ResponseIncompleteEvent,
    ResponseInProgressEvent,
    ResponseQueuedEvent,
    TerminalEvent,
)
from orx_rx.models.reasoning_events import ResponseReasoningDeltaEvent, ResponseReasoningTextDeltaEvent
from orx_rx.models.response import IncompleteDetails, ResponseError
from orx_rx.simulator.responses import blank_response, usage_of

if TYPE_CHECKING:
    from orx_rx.models.items import AnyItem
    from orx_rx.models.response import Response
    from orx_rx.simulator.requests import Request

_REASONING = (SummaryEvent, ResponseReasoningTextDeltaEvent, ResponseReasoningDeltaEvent)


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item stands.

    Attributes:
        output_index: Its place in the output of the response.
        item_id: Its id.
        call_id: The id of the call that it is, if it is one.
    """

    output_index: int
    item_id: str
    call_id: str


class Script:
    """The course of one response: its request, and what has happened so far.

    Args:
        request: What the client asked for.
        number: The number of the response, from which its ids and its time are made.

    Attributes:
        request: What the client asked for.
        output: The items so far, by output index.
    """

    def __init__(self, request: Request, number: int = 1) -> None:
        self.request = request
        self.output: dict[int, AnyItem] = {}
        self._number = number
        self._places = 0
        self._pieces = 0
        self._reasoning_pieces = 0
        self._blank = blank_response(request, id=f"resp_{number:04d}", number=number)

    def place(self, prefix: str) -> Place:
        """Take the next free place of the output.

        Args:
            prefix: What the id of the item begins with, such as `msg`.
        """
        index = self._places
        self._places += 1
        name = f"{self._number:04d}_{index}"
        return Place(index, f"{prefix}_{name}", f"call_{name}")

    def response(self, status: str, **changes: Any) -> Response:
        """Make the response as it is now.

        Args:
            status: Its status.
            **changes: Other fields that differ from those of a response that has just begun.
        """
        output = [item for _, item in sorted(self.output.items())]
        return self._blank.model_copy(update={"status": status, "output": output, **changes})

    def completed(self) -> Event:
        """Make the terminal of a response that went well; a scenario that yields none ends with this one."""
        at = (self._blank.created_at or 0) + 1
        return ResponseCompletedEvent(response=self.response("completed", completed_at=at, usage=self._usage()))

    def incomplete(self, reason: str) -> Event:
        """Make the terminal of a response that was cut off.

        Args:
            reason: Why, such as `max_output_tokens`.
        """
        details = IncompleteDetails(reason=reason)
        response = self.response("incomplete", incomplete_details=details, usage=self._usage())
        return ResponseIncompleteEvent(response=response)

    def failed(self, code: str, message: str) -> Event:
        """Make the terminal of a response that failed.

        Args:
            code: The machine-readable code, such as `server_error`.
            message: What happened.
        """
        return ResponseFailedEvent(response=self.response("failed", error=ResponseError(code=code, message=message)))

    def count(self, event: Event) -> None:
        """Take notice of an event that was sent; what the model wrote is counted for the usage."""
        if isinstance(event, DeltaEvent):
            self._pieces += 1
            self._reasoning_pieces += isinstance(event, _REASONING)

    def _usage(self) -> Any:
        return usage_of(self.request, pieces=self._pieces, reasoning_pieces=self._reasoning_pieces)


Scenario = Callable[[Script], Iterable[Event]]
"""Yields the events of the items of a response; sequence numbers and what surrounds them are added by `play`."""


def play(scenario: Scenario, script: Script) -> Iterator[Event]:
    """Play a scenario: all the events of the stream, numbered from 0, with a terminal at the end.

    A terminal that the scenario yields ends the stream; if it yields none, the response is completed.

    Args:
        scenario: What happens.
        script: The script to write; a fresh one for every playing.
    """
    for number, event in enumerate(_framed(scenario, script)):
        script.count(event)
        yield event.model_copy(update={"sequence_number": number})


def _framed(scenario: Scenario, script: Script) -> Iterator[Event]:
    if script.request.background:
        yield ResponseCreatedEvent(response=script.response("queued"))
        yield ResponseQueuedEvent(response=script.response("queued"))
    else:
        yield ResponseCreatedEvent(response=script.response("in_progress"))
    yield ResponseInProgressEvent(response=script.response("in_progress"))
    for event in scenario(script):
        yield event
        if isinstance(event, TerminalEvent):
            return
    yield script.completed()


def item_events(
    script: Script, place: Place, item: AnyItem, steps: Iterable[Event], *, done: bool = True, **final: Any
) -> Iterator[Event]:
    """Write an item: it is added, the steps happen, it is done.

    Args:
        script: The script that the item belongs to.
        place: Its place.
        item: The item as it is added.
        steps: The events in between.
        done: Whether it is finished; otherwise it breaks off after the steps.
        **final: The fields in which the finished item differs.
    """
    yield ResponseOutputItemAddedEvent(output_index=place.output_index, item=item)
    yield from steps
    finished = item.model_copy(update=final)
    script.output[place.output_index] = finished
    if done:
        yield ResponseOutputItemDoneEvent(output_index=place.output_index, item=finished)


def interleave(*streams: Iterable[Event]) -> Iterator[Event]:
    """Write several items at once, an event of each in turn.

    Args:
        *streams: The events of each item.
    """
    for events in zip_longest(*streams):
        yield from (event for event in events if event is not None)


def words(text: str) -> list[str]:
    """Cut a text into pieces of a word each, blanks behind it included."""
    return re.findall(r"\s*\S+\s*", text)


def slices(text: str, size: int = 10) -> list[str]:
    """Cut a text into pieces of equal length.

    Args:
        text: What to cut.
        size: The characters of a piece.
    """
    return [text[start : start + size] for start in range(0, len(text), size)]
