"""Events about the stream itself: errors, keepalives, the unknown, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, cast

from pydantic.functional_validators import ModelWrapValidatorHandler, model_validator

from orx_rx.models.base import Int, Tolerant
from orx_rx.models.event_base import Event

if TYPE_CHECKING:
    from collections.abc import Mapping

_ERROR_FIELDS = {"code": "code", "message": "message", "param": "param", "type": "error_type"}


class ResponseErrorEvent(Event, frozen=True):
    """An error of the stream.

    The reference documents flat fields, the live service and Open Responses nest them under `error`, and some servers
    send the bare object; all three are this one event, and the nested object stays readable as `.error`.

    Attributes:
        code: The machine-readable code, as text; None where there is none.
        message: What the server said; the empty string where it said nothing.
        param: The parameter of the request that is to blame, or None.
        error_type: The category, such as `server_error`, or None.
    """

    type: Literal["error"] = "error"
    code: Tolerant[str | None] = None
    message: Tolerant[str] = ""
    param: Tolerant[str | None] = None
    error_type: Tolerant[str | None] = None

    @model_validator(mode="wrap")
    @classmethod
    def _flatten(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(data, dict):
            return handler(data)
        flat = cast("dict[str, Any]", data)
        nested: object = flat.get("error")
        found: dict[str, object] = {name: flat[name] for name in ("code", "message", "param") if name in flat}
        if isinstance(nested, str):
            found["message"] = nested
        elif isinstance(nested, dict):
            inner = cast("Mapping[str, object]", nested)
            found |= {ours: inner[theirs] for theirs, ours in _ERROR_FIELDS.items() if inner.get(theirs) is not None}
        event = handler(flat | {name: str(value) for name, value in found.items() if value is not None})
        event.model_fields_set.intersection_update(flat)  # what was read out of the nested object was not sent flat
        return event


class KeepaliveEvent(Event, frozen=True):
    """A sign of life without content; it counts in the sequence and takes no part in the lifecycle."""

    type: Literal["keepalive"] = "keepalive"


class UnknownEvent(Event, frozen=True):
    """An event of a type that this library does not know, with every field kept.

    It counts in the sequence and takes no part in the lifecycle.
    """


class StreamEnd(Event, frozen=True):
    """What framing knows about the end of a stream, for whoever checks it.

    It does not come off the wire: `decode` emits it when the stream ends and there is something to tell, and
    `lifecycle_guard` consumes it.

    Attributes:
        done: Whether the sentinel `[DONE]` came.
        unfinished_bytes: The size of a last frame that broke off and was dropped, in bytes; 0 where none was.
        unfinished_type: The type that the broken frame claims, as far as it can be read.
    """

    type: Literal["orx.stream_end"] = "orx.stream_end"
    done: bool = False
    unfinished_bytes: Int = 0
    unfinished_type: str | None = None


OutOfBand = KeepaliveEvent | UnknownEvent
"""Events that take no part in the lifecycle."""
