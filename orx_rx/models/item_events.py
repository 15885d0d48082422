"""Events that open and close items and their parts."""

from __future__ import annotations

from typing import Literal

from orx_rx.models.base import Index, Tolerant
from orx_rx.models.event_base import ContentEvent, Event, SummaryEvent
from orx_rx.models.items import AnyItem
from orx_rx.models.parts import AnyPart


class ResponseOutputItemAddedEvent(Event, frozen=True):
    """An item begins."""

    type: Literal["response.output_item.added"] = "response.output_item.added"
    output_index: Index
    item: AnyItem | None = None


class ResponseOutputItemDoneEvent(Event, frozen=True):
    """An item is finished; what it says replaces what came before."""

    type: Literal["response.output_item.done"] = "response.output_item.done"
    output_index: Index
    item: AnyItem | None = None


class ResponseContentPartAddedEvent(ContentEvent, frozen=True):
    """A content part begins."""

    type: Literal["response.content_part.added"] = "response.content_part.added"
    part: AnyPart


class ResponseContentPartDoneEvent(ContentEvent, frozen=True):
    """A content part is finished."""

    type: Literal["response.content_part.done"] = "response.content_part.done"
    part: AnyPart


class ResponseReasoningSummaryPartAddedEvent(SummaryEvent, frozen=True):
    """A part of a reasoning summary begins."""

    type: Literal["response.reasoning_summary_part.added"] = "response.reasoning_summary_part.added"
    part: AnyPart


class ResponseReasoningSummaryPartDoneEvent(SummaryEvent, frozen=True):
    """A part of a reasoning summary is finished; `status` is `incomplete` after an interruption."""

    type: Literal["response.reasoning_summary_part.done"] = "response.reasoning_summary_part.done"
    part: AnyPart
    status: Tolerant[str | None] = None
