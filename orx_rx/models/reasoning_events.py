"""Events of reasoning: the raw text and its summary."""

from __future__ import annotations

from typing import Literal

from orx_rx.models.base import Tolerant
from orx_rx.models.event_base import ContentEvent, DeltaEvent, SummaryEvent


class ResponseReasoningTextDeltaEvent(ContentEvent, DeltaEvent, frozen=True):
    """A piece of the raw reasoning."""

    type: Literal["response.reasoning_text.delta"] = "response.reasoning_text.delta"
    obfuscation: Tolerant[str | None] = None


class ResponseReasoningTextDoneEvent(ContentEvent, frozen=True):
    """The whole text of a part of the raw reasoning."""

    type: Literal["response.reasoning_text.done"] = "response.reasoning_text.done"
    text: str


class ResponseReasoningDeltaEvent(ContentEvent, DeltaEvent, frozen=True):
    """A piece of the raw reasoning, by the name that Open Responses gives it."""

    type: Literal["response.reasoning.delta"] = "response.reasoning.delta"
    obfuscation: Tolerant[str | None] = None


class ResponseReasoningDoneEvent(ContentEvent, frozen=True):
    """The whole text of a part of the raw reasoning, by the name that Open Responses gives it."""

    type: Literal["response.reasoning.done"] = "response.reasoning.done"
    text: str


class ResponseReasoningSummaryTextDeltaEvent(SummaryEvent, DeltaEvent, frozen=True):
    """A piece of a reasoning summary."""

    type: Literal["response.reasoning_summary_text.delta"] = "response.reasoning_summary_text.delta"
    obfuscation: Tolerant[str | None] = None


class ResponseReasoningSummaryTextDoneEvent(SummaryEvent, frozen=True):
    """The whole text of a part of a reasoning summary."""

    type: Literal["response.reasoning_summary_text.done"] = "response.reasoning_summary_text.done"
    text: str
