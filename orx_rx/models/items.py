"""The output items of a response, as one union."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from orx_rx.models.base import Tolerant
from orx_rx.models.function_items import (
    AdditionalTools,
    Program,
    ProgramOutput,
    ResponseCustomToolCall,
    ResponseCustomToolCallOutputItem,
    ResponseFunctionToolCall,
    ResponseFunctionToolCallOutputItem,
    ResponseToolSearchCall,
    ResponseToolSearchOutputItem,
)
from orx_rx.models.hosted_items import (
    ImageGenerationCall,
    McpApprovalRequest,
    McpApprovalResponse,
    McpCall,
    McpListTools,
    ResponseCodeInterpreterToolCall,
    ResponseFileSearchToolCall,
    ResponseFunctionWebSearch,
)
from orx_rx.models.item_base import Item, StatusItem
from orx_rx.models.machine_items import (
    LocalShellCall,
    LocalShellCallOutput,
    ResponseApplyPatchToolCall,
    ResponseApplyPatchToolCallOutput,
    ResponseComputerToolCall,
    ResponseComputerToolCallOutputItem,
    ResponseFunctionShellToolCall,
    ResponseFunctionShellToolCallOutput,
)
from orx_rx.models.parts import AnyPart


class ResponseOutputMessage(StatusItem, frozen=True):
    """A message of the model: a list of text and refusal parts."""

    type: Literal["message"] = "message"
    role: Tolerant[str | None] = None
    content: list[AnyPart] | None = None
    phase: Tolerant[str | None] = None


class ResponseReasoningItem(StatusItem, frozen=True):
    """What the model thought: a summary, the raw text, or an encrypted form of it."""

    type: Literal["reasoning"] = "reasoning"
    summary: list[AnyPart] | None = None
    content: list[AnyPart] | None = None
    encrypted_content: Tolerant[str | None] = None


class ResponseCompactionItem(Item, frozen=True):
    """An encrypted digest of the conversation so far."""

    type: Literal["compaction"] = "compaction"
    encrypted_content: Tolerant[str | None] = None
    created_by: Tolerant[str | None] = None


KnownItem = Annotated[
    ResponseOutputMessage
    | ResponseReasoningItem
    | ResponseFunctionToolCall
    | ResponseFunctionToolCallOutputItem
    | ResponseCustomToolCall
    | ResponseCustomToolCallOutputItem
    | Program
    | ProgramOutput
    | ResponseToolSearchCall
    | ResponseToolSearchOutputItem
    | AdditionalTools
    | ResponseCompactionItem
    | ResponseFileSearchToolCall
    | ResponseFunctionWebSearch
    | ResponseCodeInterpreterToolCall
    | ImageGenerationCall
    | McpCall
    | McpListTools
    | McpApprovalRequest
    | McpApprovalResponse
    | LocalShellCall
    | LocalShellCallOutput
    | ResponseFunctionShellToolCall
    | ResponseFunctionShellToolCallOutput
    | ResponseApplyPatchToolCall
    | ResponseApplyPatchToolCallOutput
    | ResponseComputerToolCall
    | ResponseComputerToolCallOutputItem,
    Field(discriminator="type"),
]
"""The items that this library knows."""

ITEM_CLASSES: dict[str, type[Item]] = {
    item.model_fields["type"].default: item for item in get_args(get_args(KnownItem)[0])
}
"""The class of each item type."""


def _refuse_known(type_: str) -> str:
    """Keep a known item of the wrong shape from passing as an unknown one."""
    if type_ in ITEM_CLASSES:
        raise ValueError("a type that this library does not know")
    return type_


class UnknownItem(Item, frozen=True):
    """An item of a type that this library does not know, with every field kept."""

    type: Annotated[str, AfterValidator(_refuse_known)]


AnyItem = Annotated[KnownItem | UnknownItem, Field(union_mode="left_to_right")]
"""Any item, the unknown ones included."""
