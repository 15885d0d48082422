"""The response object: what a stream builds up, and what its terminal carries."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from orx_rx.models.base import Model, Tolerant
from orx_rx.models.items import AnyItem, ResponseOutputMessage
from orx_rx.models.parsing import Parsing
from orx_rx.models.parts import ResponseOutputText


class InputTokensDetails(Model, frozen=True):
    """Where the input tokens came from."""

    cached_tokens: Tolerant[int | None] = None
    cache_write_tokens: Tolerant[int | None] = None


class OutputTokensDetails(Model, frozen=True):
    """What the output tokens were spent on."""

    reasoning_tokens: Tolerant[int | None] = None


class ResponseUsage(Model, frozen=True):
    """The tokens that a response took."""

    input_tokens: Tolerant[int | None] = None
    input_tokens_details: Tolerant[InputTokensDetails | None] = None
    output_tokens: Tolerant[int | None] = None
    output_tokens_details: Tolerant[OutputTokensDetails | None] = None
    total_tokens: Tolerant[int | None] = None


class ResponseError(Model, frozen=True):
    """Why a response failed."""

    code: Tolerant[str | None] = None
    message: Tolerant[str | None] = None
    type: Tolerant[str | None] = None
    param: Tolerant[str | None] = None


class IncompleteDetails(Model, frozen=True):
    """Why a response is incomplete."""

    reason: Tolerant[str | None] = None


class Conversation(Model, frozen=True):
    """The conversation that a response belongs to."""

    id: Tolerant[str | None] = None


class Response(Parsing, Model, frozen=True):
    """A response of the model, as far as it is known.

    Attributes:
        id: The id that the server gave; the empty string where it gave none.
        status: `queued`, `in_progress`, `completed`, `failed`, `incomplete` or `cancelled`.
        output: The items, in order; None where the server sent null.
        error: Why it failed, or None.
        incomplete_details: Why it is incomplete, or None.
        usage: The tokens that it took; None until the server has counted them.
    """

    __slots__ = ("_reader",)

    id: str = ""
    object: Tolerant[str | None] = None
    created_at: Tolerant[float | None] = None
    completed_at: Tolerant[float | None] = None
    status: Tolerant[str | None] = None
    model: Tolerant[str | None] = None
    output: list[AnyItem] | None = Field(default_factory=list[AnyItem])
    error: Tolerant[ResponseError | None] = None
    incomplete_details: Tolerant[IncompleteDetails | None] = None
    usage: Tolerant[ResponseUsage | None] = None
    background: Tolerant[bool | None] = None
    conversation: Tolerant[Conversation | None] = None
    frequency_penalty: Tolerant[float | None] = None
    instructions: Tolerant[str | list[dict[str, Any]] | None] = None
    max_output_tokens: Tolerant[int | None] = None
    max_tool_calls: Tolerant[int | None] = None
    metadata: Tolerant[dict[str, Any] | None] = None
    parallel_tool_calls: Tolerant[bool | None] = None
    presence_penalty: Tolerant[float | None] = None
    previous_response_id: Tolerant[str | None] = None
    prompt_cache_key: Tolerant[str | None] = None
    reasoning: Tolerant[dict[str, Any] | None] = None
    safety_identifier: Tolerant[str | None] = None
    service_tier: Tolerant[str | None] = None
    store: Tolerant[bool | None] = None
    temperature: Tolerant[float | None] = None
    text: Tolerant[dict[str, Any] | None] = None
    tool_choice: Tolerant[str | dict[str, Any] | None] = None
    tools: Tolerant[list[dict[str, Any]] | None] = None
    top_logprobs: Tolerant[int | None] = None
    top_p: Tolerant[float | None] = None
    truncation: Tolerant[str | None] = None

    @property
    def output_text(self) -> str:
        """The text of every text part of every message, joined without a separator."""
        return "".join(
            part.text
            for item in self.output or ()
            if isinstance(item, ResponseOutputMessage)
            for part in item.content or ()
            if isinstance(part, ResponseOutputText)
        )

    @property
    def output_parsed(self) -> Any:
        """The answer as the `text_format` of the request; parsed when it is read for the first time.

        It is the first text of the answer that says anything but null; messages of another `phase` than `final_answer`
        are no answer. None where there is no text, such as beside calls of functions. The errors have the response as
        `snapshot`.

        Raises:
            Refused: The model refused to answer.
            IncompleteOutput: The response is not completed, so that its text was cut off.
            OutputParseError: The text does not fit.
            AttributeError: The request had no `text_format`.
        """
        return self._read_as_asked()
