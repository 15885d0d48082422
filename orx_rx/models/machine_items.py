"""Items that operate a machine: shells, patches, screens."""

from __future__ import annotations

from typing import Literal

from orx_rx.models.base import Model, Tolerant
from orx_rx.models.function_items import CallerDirect, CallerProgram
from orx_rx.models.item_base import StatusItem


class LocalShellCallAction(Model, frozen=True):
    """The command, with its environment."""

    type: Literal["exec"] = "exec"
    command: Tolerant[list[str] | None] = None
    env: Tolerant[dict[str, str] | None] = None
    timeout_ms: Tolerant[int | None] = None
    user: Tolerant[str | None] = None
    working_directory: Tolerant[str | None] = None


class LocalShellCall(StatusItem, frozen=True):
    """A command for the caller's own shell."""

    type: Literal["local_shell_call"] = "local_shell_call"
    action: Tolerant[LocalShellCallAction | None] = None
    call_id: Tolerant[str | None] = None


class LocalShellCallOutput(StatusItem, frozen=True):
    """What the caller's shell printed, as JSON text."""

    type: Literal["local_shell_call_output"] = "local_shell_call_output"
    output: Tolerant[str | None] = None


class ResponseContainerReference(Model, frozen=True):
    """A container of the server."""

    type: Literal["container_reference"] = "container_reference"
    container_id: Tolerant[str | None] = None


class ResponseLocalEnvironment(Model, frozen=True):
    """The caller's own machine."""

    type: Literal["local"] = "local"


class ShellAction(Model, frozen=True):
    """The commands of a shell call."""

    commands: Tolerant[list[str] | None] = None
    max_output_length: Tolerant[int | None] = None
    timeout_ms: Tolerant[int | None] = None


class ResponseFunctionShellToolCall(StatusItem, frozen=True):
    """Commands for a shell, run one after another."""

    type: Literal["shell_call"] = "shell_call"
    action: Tolerant[ShellAction | None] = None
    call_id: Tolerant[str | None] = None
    caller: Tolerant[CallerDirect | CallerProgram | None] = None
    created_by: Tolerant[str | None] = None
    environment: Tolerant[ResponseLocalEnvironment | ResponseContainerReference | None] = None


class ShellOutcomeExit(Model, frozen=True):
    """The command ended with an exit code."""

    type: Literal["exit"] = "exit"
    exit_code: Tolerant[int | None] = None


class ShellOutcomeTimeout(Model, frozen=True):
    """The command ran out of time."""

    type: Literal["timeout"] = "timeout"


class ShellOutput(Model, frozen=True):
    """What one command printed, and how it ended."""

    outcome: Tolerant[ShellOutcomeTimeout | ShellOutcomeExit | None] = None
    stderr: Tolerant[str | None] = None
    stdout: Tolerant[str | None] = None
    created_by: Tolerant[str | None] = None


class ResponseFunctionShellToolCallOutput(StatusItem, frozen=True):
    """What each command of a shell call printed."""

    type: Literal["shell_call_output"] = "shell_call_output"
    call_id: Tolerant[str | None] = None
    caller: Tolerant[CallerDirect | CallerProgram | None] = None
    created_by: Tolerant[str | None] = None
    max_output_length: Tolerant[int | None] = None
    output: Tolerant[list[ShellOutput] | None] = None


class OperationUpdateFile(Model, frozen=True):
    """Change a file."""

    type: Literal["update_file"] = "update_file"
    diff: Tolerant[str | None] = None
    path: Tolerant[str | None] = None


class OperationDeleteFile(Model, frozen=True):
    """Delete a file."""

    type: Literal["delete_file"] = "delete_file"
    path: Tolerant[str | None] = None


class OperationCreateFile(Model, frozen=True):
    """Create a file."""

    type: Literal["create_file"] = "create_file"
    diff: Tolerant[str | None] = None
    path: Tolerant[str | None] = None


class ResponseApplyPatchToolCall(StatusItem, frozen=True):
    """A change to one file."""

    type: Literal["apply_patch_call"] = "apply_patch_call"
    call_id: Tolerant[str | None] = None
    caller: Tolerant[CallerDirect | CallerProgram | None] = None
    created_by: Tolerant[str | None] = None
    operation: Tolerant[OperationCreateFile | OperationDeleteFile | OperationUpdateFile | None] = None


class ResponseApplyPatchToolCallOutput(StatusItem, frozen=True):
    """Whether the change could be made."""

    type: Literal["apply_patch_call_output"] = "apply_patch_call_output"
    call_id: Tolerant[str | None] = None
    caller: Tolerant[CallerDirect | CallerProgram | None] = None
    created_by: Tolerant[str | None] = None
    output: Tolerant[str | None] = None


class ComputerActionWait(Model, frozen=True):
    """Wait."""

    type: Literal["wait"] = "wait"


class ComputerActionType(Model, frozen=True):
    """Type a text."""

    type: Literal["type"] = "type"
    text: Tolerant[str | None] = None


class ComputerActionScroll(Model, frozen=True):
    """Scroll."""

    type: Literal["scroll"] = "scroll"
    scroll_x: Tolerant[int | None] = None
    scroll_y: Tolerant[int | None] = None
    x: Tolerant[int | None] = None
    y: Tolerant[int | None] = None
    keys: Tolerant[list[str] | None] = None


class ComputerActionScreenshot(Model, frozen=True):
    """Take a picture of the screen."""

    type: Literal["screenshot"] = "screenshot"


class ComputerActionMove(Model, frozen=True):
    """Move the pointer."""

    type: Literal["move"] = "move"
    x: Tolerant[int | None] = None
    y: Tolerant[int | None] = None
    keys: Tolerant[list[str] | None] = None


class ComputerActionKeypress(Model, frozen=True):
    """Press keys together."""

    type: Literal["keypress"] = "keypress"
    keys: Tolerant[list[str] | None] = None


class ComputerActionDragPath(Model, frozen=True):
    """A point of a path."""

    x: Tolerant[int | None] = None
    y: Tolerant[int | None] = None


class ComputerActionDrag(Model, frozen=True):
    """Drag along a path."""

    type: Literal["drag"] = "drag"
    path: Tolerant[list[ComputerActionDragPath] | None] = None
    keys: Tolerant[list[str] | None] = None


class ComputerActionDoubleClick(Model, frozen=True):
    """Click twice."""

    type: Literal["double_click"] = "double_click"
    keys: Tolerant[list[str] | None] = None
    x: Tolerant[int | None] = None
    y: Tolerant[int | None] = None


class ComputerActionClick(Model, frozen=True):
    """Click."""

    type: Literal["click"] = "click"
    button: Tolerant[str | None] = None
    x: Tolerant[int | None] = None
    y: Tolerant[int | None] = None
    keys: Tolerant[list[str] | None] = None


class PendingSafetyCheck(Model, frozen=True):
    """A check that the caller has to acknowledge."""

    id: Tolerant[str | None] = None
    code: Tolerant[str | None] = None
    message: Tolerant[str | None] = None


ComputerAction = (
    ComputerActionClick
    | ComputerActionDoubleClick
    | ComputerActionDrag
    | ComputerActionKeypress
    | ComputerActionMove
    | ComputerActionScreenshot
    | ComputerActionScroll
    | ComputerActionType
    | ComputerActionWait
)
"""What to do on the screen."""


class ResponseComputerToolCall(StatusItem, frozen=True):
    """Actions on a screen that the caller operates."""

    type: Literal["computer_call"] = "computer_call"
    action: Tolerant[ComputerAction | None] = None
    actions: Tolerant[list[ComputerAction] | None] = None
    call_id: Tolerant[str | None] = None
    pending_safety_checks: Tolerant[list[PendingSafetyCheck] | None] = None


class AcknowledgedSafetyCheck(Model, frozen=True):
    """A check that the caller acknowledged."""

    id: Tolerant[str | None] = None
    code: Tolerant[str | None] = None
    message: Tolerant[str | None] = None


class ResponseComputerToolCallOutputScreenshot(Model, frozen=True):
    """A picture of the screen."""

    type: Literal["computer_screenshot"] = "computer_screenshot"
    file_id: Tolerant[str | None] = None
    image_url: Tolerant[str | None] = None


class ResponseComputerToolCallOutputItem(StatusItem, frozen=True):
    """The screen after the actions."""

    type: Literal["computer_call_output"] = "computer_call_output"
    acknowledged_safety_checks: Tolerant[list[AcknowledgedSafetyCheck] | None] = None
    call_id: Tolerant[str | None] = None
    created_by: Tolerant[str | None] = None
    output: Tolerant[ResponseComputerToolCallOutputScreenshot | None] = None
