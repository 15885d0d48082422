"""Events of texts, their annotations, and refusals."""

from __future__ import annotations

from typing import Literal

from orx_rx.models.base import Index, Tolerant
from orx_rx.models.event_base import ContentEvent, DeltaEvent
from orx_rx.models.parts import AnyAnnotation, Logprob


class ResponseTextDeltaEvent(ContentEvent, DeltaEvent, frozen=True):
    """A piece of text."""

    type: Literal["response.output_text.delta"] = "response.output_text.delta"
    logprobs: Tolerant[list[Logprob] | None] = None
    obfuscation: Tolerant[str | None] = None


class ResponseTextDoneEvent(ContentEvent, frozen=True):
    """The whole text of a part."""

    type: Literal["response.output_text.done"] = "response.output_text.done"
    text: str
    logprobs: Tolerant[list[Logprob] | None] = None


class ResponseOutputTextAnnotationAddedEvent(ContentEvent, frozen=True):
    """An annotation of a text."""

    type: Literal["response.output_text.annotation.added"] = "response.output_text.annotation.added"
    annotation_index: Index
    annotation: Tolerant[AnyAnnotation | None] = None


class ResponseRefusalDeltaEvent(ContentEvent, DeltaEvent, frozen=True):
    """A piece of a refusal."""

    type: Literal["response.refusal.delta"] = "response.refusal.delta"
    obfuscation: Tolerant[str | None] = None


class ResponseRefusalDoneEvent(ContentEvent, frozen=True):
    """The whole refusal."""

    type: Literal["response.refusal.done"] = "response.refusal.done"
    refusal: str
