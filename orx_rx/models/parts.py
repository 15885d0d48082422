"""Content parts, annotations and log probabilities."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field

from orx_rx.models.base import Model, Tolerant


class Part(Model, frozen=True):
    """Base of the parts that items consist of."""

    type: str


class Annotation(Model, frozen=True):
    """Base of the annotations of a text."""

    type: str


class AnnotationFileCitation(Annotation, frozen=True):
    """A passage of a file that the text rests on."""

    type: Literal["file_citation"] = "file_citation"
    file_id: Tolerant[str | None] = None
    filename: Tolerant[str | None] = None
    index: Tolerant[int | None] = None


class AnnotationURLCitation(Annotation, frozen=True):
    """A web page that a stretch of the text rests on."""

    type: Literal["url_citation"] = "url_citation"
    end_index: Tolerant[int | None] = None
    start_index: Tolerant[int | None] = None
    title: Tolerant[str | None] = None
    url: Tolerant[str | None] = None


class AnnotationContainerFileCitation(Annotation, frozen=True):
    """A file in a container that a stretch of the text rests on."""

    type: Literal["container_file_citation"] = "container_file_citation"
    container_id: Tolerant[str | None] = None
    end_index: Tolerant[int | None] = None
    file_id: Tolerant[str | None] = None
    filename: Tolerant[str | None] = None
    start_index: Tolerant[int | None] = None


class AnnotationFilePath(Annotation, frozen=True):
    """A file that the model made."""

    type: Literal["file_path"] = "file_path"
    file_id: Tolerant[str | None] = None
    index: Tolerant[int | None] = None


class UnknownAnnotation(Annotation, frozen=True):
    """An annotation of a type that this library does not know, with every field kept."""


class LogprobTopLogprob(Model, frozen=True):
    """A token that the model might have chosen."""

    token: Tolerant[str | None] = None
    logprob: Tolerant[float | None] = None
    bytes: Tolerant[list[int] | None] = None


class Logprob(Model, frozen=True):
    """A token that the model chose, with its log probability and the candidates."""

    token: Tolerant[str | None] = None
    logprob: Tolerant[float | None] = None
    bytes: Tolerant[list[int] | None] = None
    top_logprobs: Tolerant[list[LogprobTopLogprob] | None] = None


AnyAnnotation = Annotated[
    Annotated[
        AnnotationFileCitation | AnnotationURLCitation | AnnotationContainerFileCitation | AnnotationFilePath,
        Field(discriminator="type"),
    ]
    | UnknownAnnotation,
    Field(union_mode="left_to_right"),
]
"""Any annotation, the unknown ones included."""


class ResponseOutputText(Part, frozen=True):
    """A text of the model."""

    type: Literal["output_text"] = "output_text"
    text: str = ""
    annotations: Tolerant[list[AnyAnnotation] | None] = None
    logprobs: Tolerant[list[Logprob] | None] = None


class ResponseOutputRefusal(Part, frozen=True):
    """A refusal of the model."""

    type: Literal["refusal"] = "refusal"
    refusal: str = ""


class PartReasoningText(Part, frozen=True):
    """A stretch of the raw reasoning."""

    type: Literal["reasoning_text"] = "reasoning_text"
    text: str = ""


class SummaryText(Part, frozen=True):
    """A part of the summary of the reasoning."""

    type: Literal["summary_text"] = "summary_text"
    text: str = ""


class ResponseText(Part, frozen=True):
    """A plain text, as Open Responses has it."""

    type: Literal["text"] = "text"
    text: str = ""


class ResponseInputText(Part, frozen=True):
    """A text that was given to the model."""

    type: Literal["input_text"] = "input_text"
    text: str = ""
    prompt_cache_breakpoint: Tolerant[dict[str, Any] | None] = None


class ResponseInputImage(Part, frozen=True):
    """An image that was given to the model."""

    type: Literal["input_image"] = "input_image"
    detail: Tolerant[str | None] = None
    file_id: Tolerant[str | None] = None
    image_url: Tolerant[str | None] = None
    prompt_cache_breakpoint: Tolerant[dict[str, Any] | None] = None


class ResponseInputFile(Part, frozen=True):
    """A file that was given to the model."""

    type: Literal["input_file"] = "input_file"
    detail: Tolerant[str | None] = None
    file_data: Tolerant[str | None] = None
    file_id: Tolerant[str | None] = None
    file_url: Tolerant[str | None] = None
    filename: Tolerant[str | None] = None
    prompt_cache_breakpoint: Tolerant[dict[str, Any] | None] = None


class ResponseInputVideo(Part, frozen=True):
    """A video that was given to the model, as Open Responses has it."""

    type: Literal["input_video"] = "input_video"
    video_url: Tolerant[str | None] = None


KnownPart = Annotated[
    ResponseOutputText
    | ResponseOutputRefusal
    | PartReasoningText
    | SummaryText
    | ResponseText
    | ResponseInputText
    | ResponseInputImage
    | ResponseInputFile
    | ResponseInputVideo,
    Field(discriminator="type"),
]
"""The parts that this library knows."""

PART_CLASSES: dict[str, type[Part]] = {
    part.model_fields["type"].default: part for part in get_args(get_args(KnownPart)[0])
}
"""The class of each part type."""


def _refuse_known(type_: str) -> str:
    """Keep a known part of the wrong shape from passing as an unknown one."""
    if type_ in PART_CLASSES:
        raise ValueError("a type that this library does not know")
    return type_


class UnknownPart(Part, frozen=True):
    """A part of a type that this library does not know, with every field kept."""

    type: Annotated[str, AfterValidator(_refuse_known)]


AnyPart = Annotated[KnownPart | UnknownPart, Field(union_mode="left_to_right")]
"""Any part, the unknown ones included."""
