"""Fields that a server has to send and that the models can do without.

A row lists what OpenAI's schema or Open Responses requires of a type; a question mark says that null will do. The
number of an event is left out, since it has rules of its own. Fields that a model itself demands are not listed: their
absence is a `SchemaViolation`.
"""

from __future__ import annotations

from orx_rx.models.base import Model
from orx_rx.models.event_base import Event
from orx_rx.models.item_base import Item
from orx_rx.models.parts import Part
from orx_rx.models.response import Response

REQUIRED: dict[str, tuple[str, ...]] = {
    type_: tuple(names.split())
    for type_, names in {
        "response.output_item.added": "item?",
        "response.output_item.done": "item?",
        "response.content_part.added": "item_id",
        "response.content_part.done": "item_id",
        "response.reasoning_summary_part.added": "item_id",
        "response.reasoning_summary_part.done": "item_id",
        "response.output_text.delta": "item_id logprobs",
        "response.output_text.done": "item_id logprobs",
        "response.output_text.annotation.added": "annotation? item_id",
        "response.refusal.delta": "item_id",
        "response.refusal.done": "item_id",
        "response.reasoning_text.delta": "item_id",
        "response.reasoning_text.done": "item_id",
        "response.reasoning.delta": "item_id",
        "response.reasoning.done": "item_id",
        "response.reasoning_summary_text.delta": "item_id",
        "response.reasoning_summary_text.done": "item_id",
        "response.function_call_arguments.delta": "item_id",
        "response.function_call_arguments.done": "item_id",
        "response.mcp_call_arguments.delta": "item_id",
        "response.mcp_call_arguments.done": "item_id",
        "response.custom_tool_call_input.delta": "item_id",
        "response.custom_tool_call_input.done": "item_id",
        "response.code_interpreter_call_code.delta": "item_id",
        "response.code_interpreter_call_code.done": "item_id",
        "response.shell_call_output_content.delta": "item_id",
        "response.shell_call_output_content.done": "item_id output",
        "response.code_interpreter_call.completed": "item_id",
        "response.code_interpreter_call.in_progress": "item_id",
        "response.code_interpreter_call.interpreting": "item_id",
        "response.compaction.compacting": "item_id",
        "response.file_search_call.completed": "item_id",
        "response.file_search_call.in_progress": "item_id",
        "response.file_search_call.searching": "item_id",
        "response.web_search_call.completed": "item_id",
        "response.web_search_call.in_progress": "item_id",
        "response.web_search_call.searching": "item_id",
        "response.image_generation_call.completed": "item_id",
        "response.image_generation_call.generating": "item_id",
        "response.image_generation_call.in_progress": "item_id",
        "response.mcp_call.completed": "item_id",
        "response.mcp_call.failed": "item_id",
        "response.mcp_call.in_progress": "item_id",
        "response.mcp_list_tools.completed": "item_id",
        "response.mcp_list_tools.failed": "item_id",
        "response.mcp_list_tools.in_progress": "item_id",
        "response.image_generation_call.partial_image": "item_id",
        "message": "content id role status",
        "reasoning": "id summary",
        "function_call": "arguments call_id id name status",
        "function_call_output": "call_id? id output status",
        "custom_tool_call": "call_id input name",
        "custom_tool_call_output": "call_id caller? id output status",
        "program": "call_id code fingerprint id",
        "program_output": "call_id id result status",
        "tool_search_call": "arguments call_id? execution id status",
        "tool_search_output": "call_id? execution id status tools",
        "additional_tools": "id role tools",
        "compaction": "encrypted_content id",
        "file_search_call": "id queries status",
        "web_search_call": "action id status",
        "code_interpreter_call": "code? container_id id outputs? status",
        "image_generation_call": "id result? status",
        "mcp_call": "arguments id name server_label",
        "mcp_list_tools": "id server_label tools",
        "mcp_approval_request": "arguments id name server_label",
        "mcp_approval_response": "approval_request_id approve id",
        "local_shell_call": "action call_id id status",
        "local_shell_call_output": "id output",
        "shell_call": "action call_id environment? id status",
        "shell_call_output": "call_id id max_output_length? output status",
        "apply_patch_call": "call_id id operation status",
        "apply_patch_call_output": "call_id id status",
        "computer_call": "call_id id pending_safety_checks status",
        "computer_call_output": "call_id id output status",
        "output_text": "annotations text",
        "refusal": "refusal",
        "reasoning_text": "text",
        "summary_text": "text",
        "text": "text",
        "input_text": "text",
        "input_image": "detail image_url?",
        "input_video": "video_url",
        "response": (
            "background completed_at? created_at error? frequency_penalty id incomplete_details? instructions? "
            "max_output_tokens? max_tool_calls? metadata? model object output parallel_tool_calls presence_penalty "
            "previous_response_id? prompt_cache_key? reasoning? safety_identifier? service_tier status store "
            "temperature? text tool_choice tools top_logprobs top_p? truncation usage?"
        ),
    }.items()
}
"""The required fields of events, items and parts by their type, and those of the response as `response`."""


def missing_fields(model: Model) -> list[str]:
    """Name the required fields that a server left out, as dotted paths, without repeats.

    Args:
        model: An event, an item, a part or a response; what it contains is examined too.
    """
    found: dict[str, None] = {}
    _collect(model, "", found)
    return list(found)


def _collect(model: Model, path: str, found: dict[str, None]) -> None:
    for row in REQUIRED.get(_type_of(model), ()):
        name = row.removesuffix("?")
        if name not in model.model_fields_set or (name == row and getattr(model, name) is None):
            found[path + name] = None
    for name in model.model_fields_set:
        value = getattr(model, name, None)
        for inner in value if isinstance(value, list) else (value,):  # pyright: ignore[reportUnknownVariableType]
            if isinstance(inner, Model):
                _collect(inner, f"{path}{name}.", found)


def _type_of(model: Model) -> str:
    if isinstance(model, Response):
        return "response"
    # what is nested deeper has types as well, and some read like those of items: a caller may be a `program`
    return model.type if isinstance(model, Event | Item | Part) else ""
