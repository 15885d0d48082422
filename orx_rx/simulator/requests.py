"""What a client asked for: the body of a request, checked, and read the way scenarios need it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from orx_rx.simulator.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_CALLS = ("function_call", "custom_tool_call")
_OUTPUTS = tuple(f"{kind}_output" for kind in _CALLS)


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked for.

    Attributes:
        body: The JSON object as it came.
        items: The conversation as input items, the earlier turns first; a string became a message of the user.
    """

    body: Mapping[str, Any]
    items: Sequence[Mapping[str, Any]] = ()

    @property
    def model(self) -> str:
        """The name of the model, which chooses the scenario."""
        return str(self.body.get("model", ""))

    @property
    def stream(self) -> bool:
        """Whether the answer is to be a stream of events."""
        return bool(self.body.get("stream"))

    @property
    def background(self) -> bool:
        """Whether the response is to go on without the connection."""
        return bool(self.body.get("background"))

    @property
    def stored(self) -> bool:
        """Whether the response is to be kept."""
        return self.body.get("store") is not False

    @property
    def question(self) -> str:
        """The last text of the user in one line; the empty string where there is none."""
        texts = (text_of(item.get("content")) for item in reversed(self.items) if item.get("role") == "user")
        return " ".join(next(texts, "").split())

    @property
    def results(self) -> list[tuple[str, str]]:
        """What the caller's tools returned since the model spoke last: name and text of each."""
        found: list[tuple[str, str]] = []
        names = {item.get("call_id"): str(item.get("name")) for item in self.items if item.get("name")}
        for item in reversed(self.items):
            if item.get("role") == "assistant":
                break
            if item.get("type") in _OUTPUTS:
                found.append((names.get(item.get("call_id"), "the function"), text_of(item.get("output"))))
        return found[::-1]

    @property
    def called(self) -> int:
        """How many of the caller's tools the model has called since the user spoke last."""
        count = 0
        for item in reversed(self.items):
            if item.get("role") == "user":
                break
            count += item.get("type") in _CALLS
        return count

    @property
    def customs(self) -> list[Mapping[str, Any]]:
        """The tools that take free text, in order."""
        tools = [tool for tool in objects(self.body.get("tools")) if tool.get("type") == "custom"]
        return tools if self.body.get("tool_choice") in (None, "auto", "required") else []

    @property
    def functions(self) -> list[Mapping[str, Any]]:
        """The function tools that the model may call, in order."""
        tools = [tool for tool in objects(self.body.get("tools")) if tool.get("type") == "function"]
        choice = self.body.get("tool_choice")
        if choice == "none":
            return []
        wanted = object_of(choice)
        if not wanted:
            return tools
        allowed = objects(wanted.get("tools")) if wanted.get("type") == "allowed_tools" else [wanted]
        names = [tool.get("name") for tool in allowed if tool.get("type") == "function"]
        return [tool for tool in tools if tool.get("name") in names]

    @property
    def must_call(self) -> bool:
        """Whether the model has to call a function."""
        choice = self.body.get("tool_choice")
        wanted = object_of(choice)
        demands = "required" in (choice, wanted.get("mode")) or wanted.get("type") == "function"
        return demands and bool(self.functions)

    @property
    def may_call(self) -> bool:
        """Whether calls are not ruled out."""
        return self.body.get("tool_choice") != "none"

    @property
    def text_format(self) -> Mapping[str, Any]:
        """The format that the text is to have."""
        return object_of(object_of(self.body.get("text")).get("format"))

    @property
    def max_output_tokens(self) -> int | None:
        """The most tokens that the answer may have, or None."""
        return self.body.get("max_output_tokens")

    @property
    def words(self) -> int:
        """The number of words that the model had to read."""
        texts = [text_of(self.body.get("instructions"))]
        texts += [text_of(item.get(field)) for item in self.items for field in ("content", "output", "arguments")]
        return sum(len(text.split()) for text in texts)


_SHAPES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "background": ((bool,), "a boolean"),
    "model": ((str,), "a string"),
    "input": ((str, list), "a string or a list of items"),
    "instructions": ((str, list), "a string or a list of items"),
    "max_output_tokens": ((int,), "an integer"),
    "metadata": ((dict,), "an object"),
    "previous_response_id": ((str,), "a string"),
    "store": ((bool,), "a boolean"),
    "stream": ((bool,), "a boolean"),
    "text": ((dict,), "an object"),
    "tool_choice": ((str, dict), "a string or an object"),
    "tools": ((list,), "a list of tools"),
}
"""The shapes of the fields that are looked at; null passes for absent."""


def read_body(data: bytes) -> dict[str, Any]:
    """Read the body of a request, which is a JSON object.

    Raises:
        ApiError: It is not.
    """
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise ApiError(400, "Expected a body in JSON, got one that is not.", code="invalid_json") from None
    if not isinstance(body, dict):
        raise ApiError(400, f"Expected a JSON object as body, got {_name(body)}.", code="invalid_json")
    return cast("dict[str, Any]", body)


def request_of(body: Mapping[str, Any], earlier: Callable[[str], Sequence[Mapping[str, Any]]] | None = None) -> Request:
    """Check a body, and make the request of it.

    Args:
        body: The JSON object that the client sent.
        earlier: Finds the conversation of a `previous_response_id`, as input items.

    Raises:
        ApiError: A required field is missing, a field has the wrong shape, or there is no such conversation.
    """
    for name, (kinds, shape) in _SHAPES.items():
        value = body.get(name)
        wrong = value is not None and not (isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)))
        if wrong:
            raise _invalid(name, shape, value)
    for name in ("model", "input"):
        if body.get(name) in (None, ""):
            raise _missing(name)
    if (body.get("max_output_tokens") or 1) < 1:
        raise _invalid("max_output_tokens", "an integer of at least 1", body["max_output_tokens"])
    for number, tool in enumerate(body.get("tools") or ()):
        _check_tool(f"tools[{number}]", tool)
    given = body["input"]
    items = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given
    for number, item in enumerate(items):
        _check_item(f"input[{number}]", item)
    previous = body.get("previous_response_id")
    before = () if earlier is None or previous is None else earlier(previous)
    request = Request(body, (*before, *items))
    if request.background and not request.stored:
        raise ApiError(400, "Background mode requires store=true.", param="store", code="invalid_value")
    wanted = object_of(body.get("tool_choice"))
    if wanted.get("type") == "function" and not request.functions:
        message = f"Expected the tool choice to be one of the tools, got {wanted.get('name')!r}."
        raise ApiError(400, message, param="tool_choice", code="invalid_value")
    return request


def wants_stream(query: Mapping[str, str]) -> bool:
    """Say whether a query asks for a stream.

    Raises:
        ApiError: It says neither yes nor no.
    """
    value = query.get("stream", "false")
    if value not in ("true", "false"):
        raise ApiError(400, f"Expected 'stream' to be true or false, got {value!r}.", param="stream")
    return value == "true"


def cursor_of(query: Mapping[str, str]) -> int:
    """Read the number of the event behind which a stream is to begin; -1 where a query says none.

    Raises:
        ApiError: It is no number of an event.
    """
    value = query.get("starting_after")
    if value is not None and not re.fullmatch("[0-9]{1,18}", value):
        message = f"Expected 'starting_after' to be a whole number of at least 0, got {value!r}."
        raise ApiError(400, message, param="starting_after")
    return -1 if value is None else int(value)


def _check_tool(place: str, tool: object) -> None:
    fields = object_of(tool)
    if not isinstance(tool, dict):
        raise _invalid(place, "an object", tool)
    for name in ("type", "name") if fields.get("type") == "function" else ("type",):
        if not isinstance(fields.get(name), str):
            raise _missing(f"{place}.{name}")


def _check_item(place: str, item: object) -> None:
    fields = object_of(item)
    if not isinstance(item, dict):
        raise _invalid(place, "an object", item)
    kind = fields.get("type", "message")
    for name in {"message": ("role", "content"), **dict.fromkeys(_OUTPUTS, ("call_id", "output"))}.get(kind, ()):
        if fields.get(name) is None:
            raise _missing(f"{place}.{name}")


def _missing(name: str) -> ApiError:
    return ApiError(400, f"Missing required parameter: '{name}'.", param=name, code="missing_required_parameter")


def _invalid(name: str, shape: str, value: object) -> ApiError:
    message = f"Invalid type for '{name}': expected {shape}, got {_name(value)}."
    return ApiError(400, message, param=name, code="invalid_type")


_NAMES: Mapping[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "a list",
    dict: "an object",
}


def _name(value: object) -> str:
    return _NAMES.get(type(value), "null")


def object_of(value: object) -> Mapping[str, Any]:
    """Take a JSON value as an object; anything else is an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def objects(value: object) -> list[Mapping[str, Any]]:
    """Take the objects of a JSON list; anything else has none."""
    elements = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Mapping[str, Any]", element) for element in elements if isinstance(element, dict)]


def text_of(value: object) -> str:
    """Read the text of a string or of a list of parts; images, files and the rest have none."""
    if isinstance(value, str):
        return value
    texts = (part.get("text") for part in objects(value))
    return " ".join(text for text in texts if isinstance(text, str))
