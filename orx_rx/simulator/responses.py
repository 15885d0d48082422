"""Response objects with all the fields that Open Responses requires."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orx_rx.models.response import InputTokensDetails, OutputTokensDetails, Response, ResponseUsage
from orx_rx.simulator.requests import object_of, objects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orx_rx.simulator.requests import Request

_FIRST_CREATED_AT = 1_735_689_600  # 2025-01-01; there is no clock here, so that equal requests get equal answers

_ECHOED: Mapping[str, Any] = {
    "frequency_penalty": 0.0,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "presence_penalty": 0.0,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
}
"""The fields that a response repeats from its request, and what they are where the request says nothing."""


def blank_response(request: Request, *, id: str, number: int) -> Response:
    """Make the response of a request as it is before anything happened.

    Args:
        request: The request; most fields repeat what it says.
        id: The id of the response.
        number: The number of the response, from which its time is made.
    """
    body = request.body
    fields = {name: default if body.get(name) is None else body[name] for name, default in _ECHOED.items()}
    reasoning = object_of(body.get("reasoning"))
    return Response.model_validate(
        {
            "id": id,
            "object": "response",
            "created_at": _FIRST_CREATED_AT + number,
            "completed_at": None,
            "status": "in_progress",
            "model": request.model,
            "output": [],
            "error": None,
            "incomplete_details": None,
            "usage": None,
            "background": request.background,
            "service_tier": "default",
            "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")},
            "text": _text(request),
            "tools": [_tool(tool) for tool in objects(body.get("tools"))],
            "tool_choice": _tool_choice(body.get("tool_choice")),
            **fields,
        }
    )


def usage_of(request: Request, *, pieces: int, reasoning_pieces: int) -> ResponseUsage:
    """Count tokens: a word that was read is one, and so is a piece that was written.

    Args:
        request: What was read.
        pieces: How many pieces were written.
        reasoning_pieces: How many of them were reasoning.
    """
    return ResponseUsage(
        input_tokens=request.words,
        input_tokens_details=InputTokensDetails(cached_tokens=0, cache_write_tokens=0),
        output_tokens=pieces,
        output_tokens_details=OutputTokensDetails(reasoning_tokens=reasoning_pieces),
        total_tokens=request.words + pieces,
    )


def _text(request: Request) -> dict[str, Any]:
    text = object_of(request.body.get("text"))
    wanted = request.text_format
    if wanted.get("type") == "json_schema":
        # Open Responses leaves the schema itself out of the echo: null is all that its own schema allows there
        named = {"name": wanted.get("name", ""), "description": wanted.get("description")}
        wanted = {"type": "json_schema", **named, "schema": None, "strict": bool(wanted.get("strict"))}
    verbosity = text.get("verbosity")
    return {"format": wanted or {"type": "text"}} | ({"verbosity": verbosity} if verbosity else {})


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {"description": None, "parameters": None, "strict": True} if tool.get("type") == "function" else {}
    return {**defaults, **{name: value for name, value in tool.items() if value is not None or name not in defaults}}


def _tool_choice(choice: Any) -> Any:
    if object_of(choice).get("type") == "allowed_tools":
        return {"mode": "auto", **choice}
    return "auto" if choice is None else choice
