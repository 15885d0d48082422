"""Items of tools that the server runs."""

from __future__ import annotations

from typing import Any, Literal

from orx_rx.models.base import Model, Tolerant
from orx_rx.models.item_base import Item, StatusItem


class FileSearchResult(Model, frozen=True):
    """One passage that a file search found."""

    attributes: Tolerant[dict[str, str | float | bool] | None] = None
    file_id: Tolerant[str | None] = None
    filename: Tolerant[str | None] = None
    score: Tolerant[float | None] = None
    text: Tolerant[str | None] = None


class ResponseFileSearchToolCall(StatusItem, frozen=True):
    """A search in the caller's vector stores."""

    type: Literal["file_search_call"] = "file_search_call"
    queries: Tolerant[list[str] | None] = None
    results: Tolerant[list[FileSearchResult] | None] = None


class WebSearchActionFind(Model, frozen=True):
    """Find a text on a page."""

    type: Literal["find_in_page"] = "find_in_page"
    pattern: Tolerant[str | None] = None
    url: Tolerant[str | None] = None


class WebSearchActionOpenPage(Model, frozen=True):
    """Open a page."""

    type: Literal["open_page"] = "open_page"
    url: Tolerant[str | None] = None


class WebSearchSource(Model, frozen=True):
    """A page that a search read."""

    type: Literal["url"] = "url"
    url: Tolerant[str | None] = None


class WebSearchActionSearch(Model, frozen=True):
    """Search the web."""

    type: Literal["search"] = "search"
    queries: Tolerant[list[str] | None] = None
    query: Tolerant[str | None] = None
    sources: Tolerant[list[WebSearchSource] | None] = None


class ResponseFunctionWebSearch(StatusItem, frozen=True):
    """A search or a visit on the web."""

    type: Literal["web_search_call"] = "web_search_call"
    action: Tolerant[WebSearchActionSearch | WebSearchActionOpenPage | WebSearchActionFind | None] = None


class CodeInterpreterImage(Model, frozen=True):
    """An image that the program made."""

    type: Literal["image"] = "image"
    url: Tolerant[str | None] = None


class CodeInterpreterLogs(Model, frozen=True):
    """What the program printed."""

    type: Literal["logs"] = "logs"
    logs: Tolerant[str | None] = None


class ResponseCodeInterpreterToolCall(StatusItem, frozen=True):
    """A program that the server ran, with its outputs."""

    type: Literal["code_interpreter_call"] = "code_interpreter_call"
    code: str | None = None
    container_id: Tolerant[str | None] = None
    outputs: Tolerant[list[CodeInterpreterLogs | CodeInterpreterImage] | None] = None


class ImageGenerationCallSvgUsage(Model, frozen=True):
    """The tokens that an SVG image took."""

    input_tokens: Tolerant[int | None] = None
    model: Tolerant[str | None] = None
    output_tokens: Tolerant[int | None] = None
    reasoning_tokens: Tolerant[int | None] = None
    total_tokens: Tolerant[int | None] = None


class ImageGenerationCallErrorModerationDetails(Model, frozen=True):
    """What the moderation objected to."""

    categories: Tolerant[list[str] | None] = None
    moderation_stage: Tolerant[str | None] = None


class ImageGenerationCallError(Model, frozen=True):
    """Why no image was made."""

    type: Tolerant[str | None] = None
    code: Tolerant[str | None] = None
    message: Tolerant[str | None] = None
    param: Tolerant[str | None] = None
    moderation_details: Tolerant[ImageGenerationCallErrorModerationDetails | None] = None


class ImageGenerationCall(StatusItem, frozen=True):
    """A generated image, in base64."""

    type: Literal["image_generation_call"] = "image_generation_call"
    action: Tolerant[str | None] = None
    background: Tolerant[str | None] = None
    error: Tolerant[ImageGenerationCallError | None] = None
    output_format: Tolerant[str | None] = None
    quality: Tolerant[str | None] = None
    result: Tolerant[str | None] = None
    revised_prompt: Tolerant[str | None] = None
    size: Tolerant[str | None] = None
    svg_usage: Tolerant[ImageGenerationCallSvgUsage | None] = None


class McpHttpError(Model, frozen=True):
    """The MCP server answered with an HTTP error."""

    type: Literal["http_error"] = "http_error"
    code: Tolerant[int | None] = None
    message: Tolerant[str | None] = None


class McpToolExecutionError(Model, frozen=True):
    """The tool failed."""

    type: Literal["mcp_tool_execution_error"] = "mcp_tool_execution_error"
    content: Any = None


class McpProtocolError(Model, frozen=True):
    """The MCP server broke its protocol."""

    type: Literal["mcp_protocol_error"] = "mcp_protocol_error"
    code: Tolerant[int | None] = None
    message: Tolerant[str | None] = None


class McpCall(StatusItem, frozen=True):
    """A call of a tool on an MCP server."""

    type: Literal["mcp_call"] = "mcp_call"
    approval_request_id: Tolerant[str | None] = None
    arguments: str | None = None
    error: Tolerant[McpProtocolError | McpToolExecutionError | McpHttpError | None] = None
    name: Tolerant[str | None] = None
    output: Tolerant[str | None] = None
    server_label: Tolerant[str | None] = None


class McpListToolsTool(Model, frozen=True):
    """One tool of an MCP server."""

    input_schema: Any = None
    name: Tolerant[str | None] = None
    annotations: Any = None
    description: Tolerant[str | None] = None


class McpListTools(Item, frozen=True):
    """The tools that an MCP server offers."""

    type: Literal["mcp_list_tools"] = "mcp_list_tools"
    error: Tolerant[str | None] = None
    server_label: Tolerant[str | None] = None
    tools: Tolerant[list[McpListToolsTool] | None] = None


class McpApprovalRequest(Item, frozen=True):
    """A request to approve a call on an MCP server."""

    type: Literal["mcp_approval_request"] = "mcp_approval_request"
    arguments: Tolerant[str | None] = None
    name: Tolerant[str | None] = None
    server_label: Tolerant[str | None] = None


class McpApprovalResponse(Item, frozen=True):
    """The answer to such a request."""

    type: Literal["mcp_approval_response"] = "mcp_approval_response"
    approval_request_id: Tolerant[str | None] = None
    approve: Tolerant[bool | None] = None
    reason: Tolerant[str | None] = None
