"""Items of functions and other tools that the caller runs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from orx_rx.models.base import Model, Tolerant
from orx_rx.models.item_base import Item, StatusItem
from orx_rx.models.parts import ResponseInputFile, ResponseInputImage, ResponseInputText


class CallerProgram(Model, frozen=True):
    """A program of the model made the call."""

    type: Literal["program"] = "program"
    caller_id: Tolerant[str | None] = None


class CallerDirect(Model, frozen=True):
    """The model itself made the call."""

    type: Literal["direct"] = "direct"


class ResponseFunctionToolCall(StatusItem, frozen=True):
    """A call of one of the caller's functions."""

    type: Literal["function_call"] = "function_call"
    arguments: str | None = None
    async_: Tolerant[bool | None] = Field(default=None, alias="async")
    call_id: Tolerant[str | None] = None
    caller: Tolerant[CallerDirect | CallerProgram | None] = None
    name: Tolerant[str | None] = None
    namespace: Tolerant[str | None] = None


class ResponseFunctionToolCallOutputItem(StatusItem, frozen=True):
    """What one of the caller's functions returned."""

    type: Literal["function_call_output"] = "function_call_output"
    call_id: Tolerant[str | None] = None
    caller: Tolerant[CallerDirect | CallerProgram | None] = None
    created_by: Tolerant[str | None] = None
    name: Tolerant[str | None] = None
    namespace: Tolerant[str | None] = None
    output: Tolerant[str | list[ResponseInputText | ResponseInputImage | ResponseInputFile] | None] = None


class ResponseCustomToolCall(Item, frozen=True):
    """A call of a tool that takes free text."""

    type: Literal["custom_tool_call"] = "custom_tool_call"
    async_: Tolerant[bool | None] = Field(default=None, alias="async")
    call_id: Tolerant[str | None] = None
    caller: Tolerant[CallerDirect | CallerProgram | None] = None
    input: str | None = None
    name: Tolerant[str | None] = None
    namespace: Tolerant[str | None] = None


class ResponseCustomToolCallOutputItem(StatusItem, frozen=True):
    """What such a tool returned."""

    type: Literal["custom_tool_call_output"] = "custom_tool_call_output"
    call_id: Tolerant[str | None] = None
    caller: Tolerant[CallerDirect | CallerProgram | None] = None
    created_by: Tolerant[str | None] = None
    output: Tolerant[str | list[ResponseInputText | ResponseInputImage | ResponseInputFile] | None] = None


class Program(Item, frozen=True):
    """A program that the model wrote to call tools."""

    type: Literal["program"] = "program"
    call_id: Tolerant[str | None] = None
    code: Tolerant[str | None] = None
    fingerprint: Tolerant[str | None] = None


class ProgramOutput(StatusItem, frozen=True):
    """What such a program returned."""

    type: Literal["program_output"] = "program_output"
    call_id: Tolerant[str | None] = None
    result: Tolerant[str | None] = None


class ResponseToolSearchCall(StatusItem, frozen=True):
    """A search for tools whose definitions were deferred."""

    type: Literal["tool_search_call"] = "tool_search_call"
    arguments: Any = None
    call_id: Tolerant[str | None] = None
    created_by: Tolerant[str | None] = None
    execution: Tolerant[str | None] = None


class ResponseToolSearchOutputItem(StatusItem, frozen=True):
    """The tools that a search found."""

    type: Literal["tool_search_output"] = "tool_search_output"
    call_id: Tolerant[str | None] = None
    created_by: Tolerant[str | None] = None
    execution: Tolerant[str | None] = None
    tools: Tolerant[list[dict[str, Any]] | None] = None


class AdditionalTools(Item, frozen=True):
    """Tools that joined in the middle of a conversation."""

    type: Literal["additional_tools"] = "additional_tools"
    role: Tolerant[str | None] = None
    tools: Tolerant[list[dict[str, Any]] | None] = None
