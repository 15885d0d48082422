"""Events of texts, their annotations, and refusals."""

from __future__ import annotations

from typing import Any, Literal

from orx_rx.models.base import Index, Tolerant
from orx_rx.models.event_base import ContentEvent, DeltaEvent
from orx_rx.models.parsing import Parsing
from orx_rx.models.parts import AnyAnnotation, Logprob


class ResponseTextDeltaEvent(ContentEvent, DeltaEvent, frozen=True):
    """A piece of text."""

    type: Literal["response.output_text.delta"] = "response.output_text.delta"
    logprobs: Tolerant[list[Logprob] | None] = None
    obfuscation: Tolerant[str | None] = None


class ResponseTextDoneEvent(Parsing, ContentEvent, frozen=True):
    """The whole text of a part."""

    __slots__ = ("_reader",)

    type: Literal["response.output_text.done"] = "response.output_text.done"
    text: str
    logprobs: Tolerant[list[Logprob] | None] = None

    @property
    def parsed(self) -> Any:
        """What the text says, as the `text_format` of the request; parsed when it is read for the first time.

        None for a text that is no answer: a message of another `phase` than `final_answer`. A text can be cut off
        where the stream does not say so before its terminal; why it was is known after that.

        Raises:
            IncompleteOutput: The text was cut off.
            OutputParseError: The text is whole, and does not fit.
            AttributeError: The request had no `text_format`.
        """
        return self._read_as_asked()


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
