"""Items of tools that the server runs, and of tools other than functions."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from orx_rx.models import argument_events as argument
from orx_rx.models import progress_events as progress
from orx_rx.models.function_items import ResponseCustomToolCall
from orx_rx.models.hosted_items import (
    CodeInterpreterLogs,
    FileSearchResult,
    ImageGenerationCall,
    McpCall,
    McpListTools,
    McpListToolsTool,
    ResponseCodeInterpreterToolCall,
    ResponseFileSearchToolCall,
    ResponseFunctionWebSearch,
    WebSearchActionSearch,
    WebSearchSource,
)
from orx_rx.models.items import ResponseCompactionItem
from orx_rx.models.machine_items import (
    ResponseFunctionShellToolCall,
    ResponseFunctionShellToolCallOutput,
    ResponseLocalEnvironment,
    ShellAction,
    ShellOutcomeExit,
    ShellOutput,
)
from orx_rx.simulator.items import FieldKind, field_events, json_text
from orx_rx.simulator.script import item_events, slices, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from orx_rx.models.event_base import Event
    from orx_rx.simulator.script import Place, Script

_MCP_ARGUMENTS = FieldKind(
    argument.ResponseMcpCallArgumentsDeltaEvent, argument.ResponseMcpCallArgumentsDoneEvent, "arguments"
)
_INPUT = FieldKind(
    argument.ResponseCustomToolCallInputDeltaEvent, argument.ResponseCustomToolCallInputDoneEvent, "input"
)
_CODE = FieldKind(
    argument.ResponseCodeInterpreterCallCodeDeltaEvent, argument.ResponseCodeInterpreterCallCodeDoneEvent, "code"
)


def mcp_list_tools(script: Script, server_label: str, tools: Mapping[str, Mapping[str, Any]]) -> Iterator[Event]:
    """Write the listing of the tools of an MCP server: their names, and the schemas of their input."""
    place = script.place("mcpl")
    added = McpListTools(id=place.item_id, server_label=server_label, tools=[])
    steps = _progress(place, progress.ResponseMcpListToolsInProgressEvent, progress.ResponseMcpListToolsCompletedEvent)
    listed = [McpListToolsTool(name=name, input_schema=schema) for name, schema in tools.items()]
    yield from item_events(script, place, added, steps, tools=listed)


def mcp_call(
    script: Script, server_label: str, name: str, arguments: Mapping[str, Any], output: str
) -> Iterator[Event]:
    """Write a call of a tool of an MCP server."""
    place = script.place("mcp")
    value = json_text(arguments)
    added = McpCall(
        id=place.item_id,
        status="in_progress",
        server_label=server_label,
        name=name,
        arguments="",
        approval_request_id=None,
        error=None,
        output=None,
    )
    steps = chain(
        _progress(place, progress.ResponseMcpCallInProgressEvent),
        field_events(place, _MCP_ARGUMENTS, value),
        _progress(place, progress.ResponseMcpCallCompletedEvent),
    )
    yield from item_events(script, place, added, steps, status="completed", arguments=value, output=output)


def custom_tool_call(script: Script, name: str, value: str) -> Iterator[Event]:
    """Write a call of a tool that takes free text."""
    place = script.place("ctc")
    added = ResponseCustomToolCall(id=place.item_id, call_id=place.call_id, name=name, input="")
    yield from item_events(script, place, added, field_events(place, _INPUT, value), input=value)


def code_interpreter_call(script: Script, code: str, logs: str) -> Iterator[Event]:
    """Write a program that the server ran, with what it printed."""
    place = script.place("ci")
    added = ResponseCodeInterpreterToolCall(
        id=place.item_id, status="in_progress", code="", container_id=f"cntr_{place.item_id}", outputs=[]
    )
    steps = chain(
        _progress(place, progress.ResponseCodeInterpreterCallInProgressEvent),
        field_events(place, _CODE, code),
        _progress(
            place,
            progress.ResponseCodeInterpreterCallInterpretingEvent,
            progress.ResponseCodeInterpreterCallCompletedEvent,
        ),
    )
    outputs = [CodeInterpreterLogs(type="logs", logs=logs)]
    yield from item_events(script, place, added, steps, status="completed", code=code, outputs=outputs)


def shell(script: Script, printed: Mapping[str, str]) -> Iterator[Event]:
    """Write a shell call and the item of its output: commands, and what each printed."""
    place = script.place("sh")
    added = ResponseFunctionShellToolCall(
        id=place.item_id,
        status="in_progress",
        call_id=place.call_id,
        action=ShellAction(commands=[], max_output_length=None, timeout_ms=None),
        environment=ResponseLocalEnvironment(type="local"),
    )
    action = ShellAction(commands=list(printed), max_output_length=None, timeout_ms=None)
    yield from item_events(script, place, added, _commands(place, list(printed)), status="completed", action=action)
    call_id = place.call_id
    place = script.place("sho")
    result = ResponseFunctionShellToolCallOutput(
        id=place.item_id, status="in_progress", call_id=call_id, max_output_length=None, output=[]
    )
    outputs = [
        ShellOutput(outcome=ShellOutcomeExit(type="exit", exit_code=0), stdout=text, stderr="")
        for text in printed.values()
    ]
    yield from item_events(script, place, result, _printed(place, outputs), status="completed", output=outputs)


def image_generation_call(script: Script, partial: str, result: str) -> Iterator[Event]:
    """Write a generated image with one preview, both in base64."""
    place = script.place("ig")
    looks: dict[str, Any] = {"background": "opaque", "output_format": "png", "quality": "low", "size": "1024x1024"}
    added = ImageGenerationCall(id=place.item_id, status="in_progress", result=None)
    preview = progress.ResponseImageGenCallPartialImageEvent(
        output_index=place.output_index,
        item_id=place.item_id,
        partial_image_index=0,
        partial_image_b64=partial,
        **looks,
    )
    steps = chain(
        _progress(place, progress.ResponseImageGenCallInProgressEvent, progress.ResponseImageGenCallGeneratingEvent),
        (preview,),
        _progress(place, progress.ResponseImageGenCallCompletedEvent),
    )
    yield from item_events(script, place, added, steps, status="completed", result=result, **looks)


def web_search_call(script: Script, query: str, sources: Sequence[str]) -> Iterator[Event]:
    """Write a search on the web, with the addresses of the pages that it read."""
    place = script.place("ws")
    action = WebSearchActionSearch(type="search", query=query, sources=[])
    added = ResponseFunctionWebSearch(id=place.item_id, status="in_progress", action=action)
    steps = _progress(
        place,
        progress.ResponseWebSearchCallInProgressEvent,
        progress.ResponseWebSearchCallSearchingEvent,
        progress.ResponseWebSearchCallCompletedEvent,
    )
    found = [WebSearchSource(type="url", url=url) for url in sources]
    searched = action.model_copy(update={"sources": found})
    yield from item_events(script, place, added, steps, status="completed", action=searched)


def file_search_call(script: Script, query: str, passages: Mapping[str, str]) -> Iterator[Event]:
    """Write a search in vector stores, with the passages that it found by the names of their files."""
    place = script.place("fs")
    added = ResponseFileSearchToolCall(id=place.item_id, status="in_progress", queries=[query], results=None)
    steps = _progress(
        place,
        progress.ResponseFileSearchCallInProgressEvent,
        progress.ResponseFileSearchCallSearchingEvent,
        progress.ResponseFileSearchCallCompletedEvent,
    )
    results = [
        FileSearchResult(file_id=f"file_{number}", filename=name, score=0.9, text=text, attributes={})
        for number, (name, text) in enumerate(passages.items())
    ]
    yield from item_events(script, place, added, steps, status="completed", results=results)


def compaction(script: Script, encrypted_content: str) -> Iterator[Event]:
    """Write an encrypted digest of the conversation."""
    place = script.place("cmp")
    added = ResponseCompactionItem(id=place.item_id, encrypted_content="")
    steps = _progress(place, progress.ResponseCompactionCompactingEvent)
    yield from item_events(script, place, added, steps, encrypted_content=encrypted_content)


def _progress(place: Place, *events: Callable[..., Event]) -> Iterator[Event]:
    for event in events:
        yield event(output_index=place.output_index, item_id=place.item_id)


def _commands(place: Place, commands: Sequence[str]) -> Iterator[Event]:
    for number, command in enumerate(commands):
        where: dict[str, Any] = {"output_index": place.output_index, "command_index": number}
        yield argument.ResponseShellCallCommandAddedEvent(**where, command="")
        for piece in slices(command):
            yield argument.ResponseShellCallCommandDeltaEvent(**where, delta=piece)
        yield argument.ResponseShellCallCommandDoneEvent(**where, command=command)


def _printed(place: Place, outputs: Sequence[ShellOutput]) -> Iterator[Event]:
    for number, output in enumerate(outputs):
        where: dict[str, Any] = {
            "output_index": place.output_index,
            "item_id": place.item_id,
            "command_index": number,
        }
        for piece in words(output.stdout or ""):
            delta = argument.ShellOutputDelta(stdout=piece)
            yield argument.ResponseShellCallOutputContentDeltaEvent(**where, delta=delta)
        yield argument.ResponseShellCallOutputContentDoneEvent(**where, output=[output])
