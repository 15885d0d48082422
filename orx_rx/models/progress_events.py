"""Events that tell how far the tools of the server are."""

from __future__ import annotations

from typing import Literal

from orx_rx.models.base import Index, Tolerant
from orx_rx.models.event_base import ItemEvent


class ResponseCodeInterpreterCallCompletedEvent(ItemEvent, frozen=True):
    """The program is finished."""

    type: Literal["response.code_interpreter_call.completed"] = "response.code_interpreter_call.completed"


class ResponseCodeInterpreterCallInProgressEvent(ItemEvent, frozen=True):
    """The program has begun."""

    type: Literal["response.code_interpreter_call.in_progress"] = "response.code_interpreter_call.in_progress"


class ResponseCodeInterpreterCallInterpretingEvent(ItemEvent, frozen=True):
    """The program runs."""

    type: Literal["response.code_interpreter_call.interpreting"] = "response.code_interpreter_call.interpreting"


class ResponseCompactionCompactingEvent(ItemEvent, frozen=True):
    """The compaction is being written."""

    type: Literal["response.compaction.compacting"] = "response.compaction.compacting"


class ResponseFileSearchCallCompletedEvent(ItemEvent, frozen=True):
    """The file search is finished."""

    type: Literal["response.file_search_call.completed"] = "response.file_search_call.completed"


class ResponseFileSearchCallInProgressEvent(ItemEvent, frozen=True):
    """The file search has begun."""

    type: Literal["response.file_search_call.in_progress"] = "response.file_search_call.in_progress"


class ResponseFileSearchCallSearchingEvent(ItemEvent, frozen=True):
    """The file search searches."""

    type: Literal["response.file_search_call.searching"] = "response.file_search_call.searching"


class ResponseWebSearchCallCompletedEvent(ItemEvent, frozen=True):
    """The web search is finished."""

    type: Literal["response.web_search_call.completed"] = "response.web_search_call.completed"


class ResponseWebSearchCallInProgressEvent(ItemEvent, frozen=True):
    """The web search has begun."""

    type: Literal["response.web_search_call.in_progress"] = "response.web_search_call.in_progress"


class ResponseWebSearchCallSearchingEvent(ItemEvent, frozen=True):
    """The web search searches."""

    type: Literal["response.web_search_call.searching"] = "response.web_search_call.searching"


class ResponseImageGenCallCompletedEvent(ItemEvent, frozen=True):
    """The image is finished."""

    type: Literal["response.image_generation_call.completed"] = "response.image_generation_call.completed"


class ResponseImageGenCallGeneratingEvent(ItemEvent, frozen=True):
    """The image is being made."""

    type: Literal["response.image_generation_call.generating"] = "response.image_generation_call.generating"


class ResponseImageGenCallInProgressEvent(ItemEvent, frozen=True):
    """The image has begun."""

    type: Literal["response.image_generation_call.in_progress"] = "response.image_generation_call.in_progress"


class ResponseMcpCallCompletedEvent(ItemEvent, frozen=True):
    """The MCP call is finished."""

    type: Literal["response.mcp_call.completed"] = "response.mcp_call.completed"


class ResponseMcpCallFailedEvent(ItemEvent, frozen=True):
    """The MCP call failed."""

    type: Literal["response.mcp_call.failed"] = "response.mcp_call.failed"


class ResponseMcpCallInProgressEvent(ItemEvent, frozen=True):
    """The MCP call has begun."""

    type: Literal["response.mcp_call.in_progress"] = "response.mcp_call.in_progress"


class ResponseMcpListToolsCompletedEvent(ItemEvent, frozen=True):
    """The listing of MCP tools is finished."""

    type: Literal["response.mcp_list_tools.completed"] = "response.mcp_list_tools.completed"


class ResponseMcpListToolsFailedEvent(ItemEvent, frozen=True):
    """The listing of MCP tools failed."""

    type: Literal["response.mcp_list_tools.failed"] = "response.mcp_list_tools.failed"


class ResponseMcpListToolsInProgressEvent(ItemEvent, frozen=True):
    """The listing of MCP tools has begun."""

    type: Literal["response.mcp_list_tools.in_progress"] = "response.mcp_list_tools.in_progress"


class ResponseImageGenCallPartialImageEvent(ItemEvent, frozen=True):
    """A preview of the image, in base64."""

    type: Literal["response.image_generation_call.partial_image"] = "response.image_generation_call.partial_image"
    partial_image_index: Index
    partial_image_b64: str
    background: Tolerant[str | None] = None
    output_format: Tolerant[str | None] = None
    quality: Tolerant[str | None] = None
    size: Tolerant[str | None] = None
