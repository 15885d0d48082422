"""Events of what tools are given: arguments, inputs, code, commands; and what commands print."""

from __future__ import annotations

from typing import Literal

from orx_rx.models.base import Model, Tolerant
from orx_rx.models.event_base import CommandEvent, DeltaEvent, ItemEvent
from orx_rx.models.machine_items import ShellOutput


class ResponseFunctionCallArgumentsDeltaEvent(ItemEvent, DeltaEvent, frozen=True):
    """A piece of the arguments of a function call, which are JSON text."""

    type: Literal["response.function_call_arguments.delta"] = "response.function_call_arguments.delta"
    obfuscation: Tolerant[str | None] = None


class ResponseFunctionCallArgumentsDoneEvent(ItemEvent, frozen=True):
    """The whole arguments of a function call."""

    type: Literal["response.function_call_arguments.done"] = "response.function_call_arguments.done"
    arguments: str
    name: Tolerant[str | None] = None


class ResponseMcpCallArgumentsDeltaEvent(ItemEvent, DeltaEvent, frozen=True):
    """A piece of the arguments of an MCP call, which are JSON text."""

    type: Literal["response.mcp_call_arguments.delta"] = "response.mcp_call_arguments.delta"
    obfuscation: Tolerant[str | None] = None


class ResponseMcpCallArgumentsDoneEvent(ItemEvent, frozen=True):
    """The whole arguments of an MCP call."""

    type: Literal["response.mcp_call_arguments.done"] = "response.mcp_call_arguments.done"
    arguments: str


class ResponseCustomToolCallInputDeltaEvent(ItemEvent, DeltaEvent, frozen=True):
    """A piece of the input of a custom tool."""

    type: Literal["response.custom_tool_call_input.delta"] = "response.custom_tool_call_input.delta"
    obfuscation: Tolerant[str | None] = None


class ResponseCustomToolCallInputDoneEvent(ItemEvent, frozen=True):
    """The whole input of a custom tool."""

    type: Literal["response.custom_tool_call_input.done"] = "response.custom_tool_call_input.done"
    input: str


class ResponseCodeInterpreterCallCodeDeltaEvent(ItemEvent, DeltaEvent, frozen=True):
    """A piece of a program."""

    type: Literal["response.code_interpreter_call_code.delta"] = "response.code_interpreter_call_code.delta"
    obfuscation: Tolerant[str | None] = None


class ResponseCodeInterpreterCallCodeDoneEvent(ItemEvent, frozen=True):
    """The whole program."""

    type: Literal["response.code_interpreter_call_code.done"] = "response.code_interpreter_call_code.done"
    code: str


class ResponseShellCallCommandAddedEvent(CommandEvent, frozen=True):
    """A shell command begins."""

    type: Literal["response.shell_call_command.added"] = "response.shell_call_command.added"
    command: str


class ResponseShellCallCommandDeltaEvent(CommandEvent, DeltaEvent, frozen=True):
    """A piece of a shell command."""

    type: Literal["response.shell_call_command.delta"] = "response.shell_call_command.delta"
    obfuscation: Tolerant[str | None] = None


class ResponseShellCallCommandDoneEvent(CommandEvent, frozen=True):
    """The whole shell command."""

    type: Literal["response.shell_call_command.done"] = "response.shell_call_command.done"
    command: str


class ShellOutputDelta(Model, frozen=True):
    """What a command printed since the last event."""

    stdout: str | None = None
    stderr: str | None = None


class ResponseShellCallOutputContentDeltaEvent(CommandEvent, frozen=True):
    """A piece of what a shell command printed."""

    type: Literal["response.shell_call_output_content.delta"] = "response.shell_call_output_content.delta"
    item_id: str | None = None
    delta: ShellOutputDelta

    @property
    def snapshot(self) -> ShellOutputDelta:
        """What the command printed as of this event; built when it is read.

        Raises:
            AttributeError: The event did not go through `accumulate`.
        """
        growth, end = self._grown()
        printed: ShellOutputDelta = growth.read(end)
        return printed


class ResponseShellCallOutputContentDoneEvent(CommandEvent, frozen=True):
    """All that a shell command printed, and how it ended."""

    type: Literal["response.shell_call_output_content.done"] = "response.shell_call_output_content.done"
    item_id: str | None = None
    output: Tolerant[list[ShellOutput] | None] = None
