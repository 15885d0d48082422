"""Calls of the caller's tools: reading them out of a stream, and what goes back to the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import from_json, to_json

from orx_rx.errors import OutputError, OutputParseError, UnknownTool
from orx_rx.models.argument_events import (
    ResponseCustomToolCallInputDeltaEvent,
    ResponseCustomToolCallInputDoneEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionCallArgumentsDoneEvent,
)
from orx_rx.models.base import to_wire
from orx_rx.models.event_base import Event
from orx_rx.models.function_items import ResponseCustomToolCall, ResponseFunctionToolCall
from orx_rx.models.hosted_items import McpApprovalRequest
from orx_rx.models.item_events import ResponseOutputItemDoneEvent
from orx_rx.models.lifecycle_events import ResponseCompletedEvent, ResponseCreatedEvent, TerminalEvent
from orx_rx.models.parts import Part
from orx_rx.protocol.holding import names_of
from orx_rx.protocol.reading import ItemReader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orx_rx.models.item_base import Item
    from orx_rx.models.response import Response
    from orx_rx.tools import CallItem, Tool, Toolbox

_CALLS = (ResponseFunctionToolCall, ResponseCustomToolCall)
_DELTAS = (ResponseFunctionCallArgumentsDeltaEvent, ResponseCustomToolCallInputDeltaEvent)
_READ = (
    *_DELTAS,
    ResponseFunctionCallArgumentsDoneEvent,
    ResponseCustomToolCallInputDoneEvent,
    ResponseOutputItemDoneEvent,
    ResponseCreatedEvent,
    TerminalEvent,
)  # all others say nothing about calls, and they are many


@dataclass(frozen=True)
class ToolCall:
    """A finished call of one of the caller's tools.

    What is wrong with it shows when its arguments are read, so that a bad call harms no other.

    Attributes:
        item: The item that it is.
        tool: The tool that it calls; None where the tools are not known, or it is none of them.
        known: The names of the tools; None where they are not known.
    """

    item: CallItem
    tool: Tool | None = None
    known: Sequence[str] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The name of the tool."""
        return str(self.item.name or "")

    @property
    def namespace(self) -> str | None:
        """The namespace of the tool, or None."""
        return self.item.namespace

    @property
    def call_id(self) -> str:
        """What the output has to name: the id of the call; that of the item where a server knows no other."""
        return str(self.item.call_id or self.item.id or "")

    @property
    def text(self) -> str:
        """The arguments as they came: JSON for a function, any text for a custom tool."""
        return (self.item.input if isinstance(self.item, ResponseCustomToolCall) else self.item.arguments) or ""

    @property
    def arguments(self) -> Any:
        """The arguments, checked against the tool; where that is not known, parsed as JSON. The text of a custom tool.

        Raises:
            UnknownTool: It calls none of the tools.
            OutputParseError: They do not fit, or are not JSON.
        """
        arguments, error = self._read
        if error is not None:
            raise error
        return arguments

    @property
    def error(self) -> OutputError | None:
        """What reading the arguments would raise, or None."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[Any, OutputError | None]:
        try:
            if self.tool is not None:
                return self.tool.validate(self.text), None
            if self.known is not None:
                raise UnknownTool(
                    f"{self.namespace}.{self.name}" if self.namespace else self.name, self.known, self.text
                )
            return self.text if isinstance(self.item, ResponseCustomToolCall) else from_json(self.text), None
        except OutputError as error:
            return None, error
        except ValueError:
            message = f"expected arguments in JSON, got {len(self.text)} characters that are not"
            return None, OutputParseError(message, self.text)


class CallReader:
    """Reads finished calls, each one once: when its item is done, or with the terminal if it never was.

    Arguments come from the first of these that says anything: the item that is done, the event that says they are, the
    deltas; where all are empty, from the terminal, with which the call comes out then. A call that was cut off is not
    finished, and does not come out. A call id that comes again is the same call.

    Args:
        toolbox: The tools; None where they are not known.
    """

    takes = Event

    def __init__(self, toolbox: Toolbox | None = None) -> None:
        self._toolbox = toolbox
        self._begin()

    def _begin(self) -> None:
        self._items = ItemReader()
        self._pieces: dict[int, list[str]] = {}  # the arguments so far, by output index
        self._told: dict[int, str] = {}  # what the event said that they are done
        self._empty: list[CallItem] = []  # done, without arguments
        self._known: set[str] = set()  # the call ids that came
        self._ended = False

    def feed(self, event: Event) -> Sequence[ToolCall]:
        """Read one event."""
        if not isinstance(event, _READ):
            return ()
        if isinstance(event, _DELTAS):
            self._pieces.setdefault(event.output_index, []).append(event.delta)
            return ()
        if isinstance(event, ResponseFunctionCallArgumentsDoneEvent):
            self._told[event.output_index] = event.arguments
        elif isinstance(event, ResponseCustomToolCallInputDoneEvent):
            self._told[event.output_index] = event.input
        elif isinstance(event, ResponseCreatedEvent) and self._ended:
            self._begin()
        items = self._items.feed(event)
        if isinstance(event, ResponseOutputItemDoneEvent):
            return [call for item in items if isinstance(item, _CALLS) for call in self._done(item, event.output_index)]
        if isinstance(event, TerminalEvent) and not self._ended:
            self._ended = True
            return self._last(items, event)
        return ()

    def end(self) -> Sequence[ToolCall]:
        """Do nothing: a call that no terminal carries is not finished."""
        return ()

    def _done(self, item: CallItem, index: int) -> Sequence[ToolCall]:
        if getattr(item, "status", None) == "incomplete":
            return ()
        streamed = "".join(self._pieces.pop(index, ()))
        if not _text(item):
            item = _with_text(item, self._told.get(index) or streamed)
        if not _text(item):
            self._empty.append(item)
            return ()
        return self._calls(item)

    def _last(self, items: Sequence[Item], event: TerminalEvent) -> Sequence[ToolCall]:
        completed = isinstance(event, ResponseCompletedEvent)
        wrong = ("incomplete",) if completed else ("incomplete", "in_progress", None)
        late = [item for item in items if isinstance(item, _CALLS) and getattr(item, "status", None) not in wrong]
        listed = [item for item in event.response.output or () if isinstance(item, _CALLS)]
        filled = [next((one for one in listed if _same(one, item)), item) for item in self._empty]
        return [call for item in (*filled, *late) for call in self._calls(item)]

    def _calls(self, item: CallItem) -> Sequence[ToolCall]:
        known, toolbox = self._known, self._toolbox
        call = ToolCall(item) if toolbox is None else ToolCall(item, toolbox.find(item), tuple(toolbox.names))
        if call.call_id in known:
            return ()
        if call.call_id:
            known.add(call.call_id)
        return (call,)


def _text(item: CallItem) -> str | None:
    return item.input if isinstance(item, ResponseCustomToolCall) else item.arguments


def _with_text(item: CallItem, text: str) -> CallItem:
    name = "input" if isinstance(item, ResponseCustomToolCall) else "arguments"
    return item.model_copy(update={name: text}) if text else item


def _is_of_server(call: ToolCall) -> bool:
    """Tell whether a server, such as xAI's, made and ran a call itself: a custom tool that nobody offered."""
    return call.tool is None and isinstance(call.item, ResponseCustomToolCall)


def _same(one: Item, other: Item) -> bool:
    return not set(names_of(one)).isdisjoint(names_of(other))


# what goes back

_OUTPUTS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}


@dataclass(frozen=True)
class ToolOutput:
    """What became of a call.

    Attributes:
        call: The call, or the request to approve one.
        item: What goes back to the model, as a request has it among its `input`.
        error: What the tool raised, or why it was not run; None where it returned.
    """

    call: ToolCall | McpApprovalRequest
    item: Mapping[str, Any]
    error: Exception | None = None

    @classmethod
    def of(cls, call: ToolCall, result: object) -> ToolOutput:
        """Make one of what a tool returned.

        Args:
            call: The call.
            result: A text as it is, parts such as `ResponseInputImage` as they are, anything else as JSON.

        Raises:
            ValueError: JSON does not know it, or it is text that cannot be sent.
        """
        return cls(call, _output_item(call, output_of(result)))

    @classmethod
    def of_error(cls, call: ToolCall, error: Exception) -> ToolOutput:
        """Make one of what went wrong: the model is told the class and the message, without a traceback.

        Args:
            call: The call.
            error: What went wrong.
        """
        text = f"error: {type(error).__name__}: {error}".encode(errors="replace").decode()
        return cls(call, _output_item(call, text), error)

    @classmethod
    def of_approval(cls, request: McpApprovalRequest, approve: bool) -> ToolOutput:
        """Make one of a decision.

        Args:
            request: What was asked.
            approve: The decision.
        """
        item = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": approve}
        return cls(request, item)


def _output_item(call: ToolCall, output: object) -> dict[str, Any]:
    return {"type": _OUTPUTS[call.item.type], "call_id": call.call_id, "output": output}


def output_of(result: object) -> str | list[Any]:
    """Write down what a tool returned, for the model.

    Args:
        result: A text as it is, parts such as `ResponseInputImage` as they are, anything else as JSON.

    Raises:
        ValueError: JSON does not know it, or it is text that cannot be sent.
    """
    if isinstance(result, list) and result:
        parts = cast("list[object]", result)
        if all(isinstance(part, Part) for part in parts):
            return cast("list[Any]", to_wire(parts))
    text = result if isinstance(result, str) else to_json(result).decode()  # pyright: ignore[reportUnknownArgumentType]
    text.encode()  # which half of a surrogate pair does not survive
    return text


@dataclass(frozen=True, slots=True)
class Turn:
    """What a model is asked next, after it called tools.

    Attributes:
        number: Which round it begins; the one that called first is 1.
        response: The response that called, as its terminal had it.
        outputs: What the calls gave, in the order of the calls: the `input` for a server that keeps responses, with
            the id of the response as `previous_response_id`.
        history: Everything since the first request: the output of every response and what went back, in order. For a
            server that keeps nothing it belongs behind the first `input`.
    """

    number: int
    response: Response
    outputs: Sequence[Mapping[str, Any]]
    history: Sequence[Mapping[str, Any]]


class Round:
    """One round of asking and calling: what a response calls, and how it ends.

    Args:
        toolbox: The tools.
        approvals: Whether requests to approve a call on an MCP server are answered.

    Attributes:
        demands: What is to be answered, in the order in which it came.
        terminal: The terminal, once it has come.
        handed_back: Whether it has a call that is for somebody else: of a tool without a function, or one to approve.
    """

    def __init__(self, toolbox: Toolbox, *, approvals: bool) -> None:
        self.demands: list[ToolCall | McpApprovalRequest] = []
        self.terminal: TerminalEvent | None = None
        self.handed_back: bool = False
        self._calls = CallReader(toolbox)
        self._items = ItemReader()
        self._approvals = approvals
        self._done: dict[int, Item] = {}

    def feed(self, event: Event) -> Sequence[ToolCall | McpApprovalRequest]:
        """Read one event, and return what it asks to be answered."""
        if not isinstance(event, _READ):
            return ()
        calls = self._calls.feed(event)
        found: list[ToolCall | McpApprovalRequest] = [call for call in calls if not _is_of_server(call)]
        found += [item for item in self._items.feed(event) if isinstance(item, McpApprovalRequest)]
        if isinstance(event, ResponseOutputItemDoneEvent) and event.item is not None:
            self._done.setdefault(event.output_index, event.item)
        if isinstance(event, TerminalEvent) and self.terminal is None:
            self.terminal = event
        self.demands += found
        answered = [one for one in found if self._is_answered(one)]
        self.handed_back = self.handed_back or len(answered) < len(found)
        return answered

    @property
    def is_answered(self) -> bool:
        """Whether the response is whole and waits for what it called; only then the conversation goes on."""
        return isinstance(self.terminal, ResponseCompletedEvent) and bool(self.demands)

    def turn(self, number: int, before: Sequence[Mapping[str, Any]], outputs: Sequence[ToolOutput]) -> Turn:
        """Make what is asked next.

        Args:
            number: Of the next round.
            before: The history until this round.
            outputs: What its calls gave, in any order.
        """
        assert self.terminal is not None
        response = self.terminal.response
        items: Sequence[Item] = response.output or [item for _, item in sorted(self._done.items())]
        places = {name: place for place, item in enumerate(items) for name in names_of(item)}

        def place(output: ToolOutput) -> int:
            item = output.call.item if isinstance(output.call, ToolCall) else output.call
            return min((places[name] for name in names_of(item) if name in places), default=len(places))

        given = tuple(output.item for output in sorted(outputs, key=place))
        return Turn(number, response, given, (*before, *(to_wire(item) for item in items), *given))

    def _is_answered(self, demand: ToolCall | McpApprovalRequest) -> bool:
        if isinstance(demand, McpApprovalRequest):
            return self._approvals
        return demand.tool is None or demand.tool.function is not None
