"""From an answer with an error status to a typed error."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from orx_rx.errors import StatusError, status_error
from orx_rx.http.bodies import read_start
from orx_rx.protocol.secrets import Secrets
from orx_rx.wire import FrameParser

if TYPE_CHECKING:
    from collections.abc import Mapping

    import aiohttp

_MOST = 64 * 1024  # bytes of a body that are read
LONGEST = 5.0  # seconds that reading it may take; the status is known, so nobody has to wait for the rest
_KEPT = 2_000  # characters of a body that the error keeps
_SHOWN = 200  # characters of a body without an error object that stand for its message
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_NONE = Secrets()


def _hidden(text: str | None, secrets: Secrets) -> str | None:
    return None if text is None else secrets.hide(text.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")


async def failure_of(response: aiohttp.ClientResponse, secrets: Secrets = _NONE) -> StatusError:
    """Make the error of an answer; reads the body as JSON, as an event stream, or as text."""
    body = secrets.hide(await read_start(response.content, _MOST, LONGEST))
    found = _error_object(_json_of(body))
    reason, request_id = (_hidden(text, secrets) for text in (response.reason, response.headers.get("x-request-id")))
    message = found.get("message") or _summary(body, response.content_type) or reason or "no message"
    return status_error(response.status)(
        response.status,
        message[:_KEPT],
        code=found.get("code"),
        type=found.get("type"),
        param=found.get("param"),
        request_id=request_id,
        headers={name.lower(): _hidden(value, secrets) or "" for name, value in response.headers.items()},
        body=body.decode("utf-8", "replace")[:_KEPT],
    )


def _json_of(body: bytes) -> object:
    """Read a body as JSON, else as an event stream, whatever its media type; None where it is neither."""
    value = _loads(body)
    if value is not None:
        return value
    parser = FrameParser()
    frames = [*parser.feed(body), *parser.end()]
    return next((value for frame in frames if (value := _loads(frame.data)) is not None), None)


def _loads(data: bytes) -> object:
    with suppress(ValueError, RecursionError):
        return json.loads(data)
    return None


def _error_object(value: object) -> dict[str, str]:
    """Find message, code, type and param in the shapes that servers send: nested, flat, or a bare text."""
    if isinstance(value, list) and value:
        return _error_object(cast("list[object]", value)[0])
    if not isinstance(value, dict):
        return {}
    outer = cast("Mapping[str, Any]", value)
    nested = outer.get("error")
    fields = cast("Mapping[str, Any]", nested) if isinstance(nested, dict) else outer
    found = {name: fields.get(name) for name in ("code", "type", "param")}
    found["message"] = fields.get("message") or fields.get("detail") or (nested if isinstance(nested, str) else None)
    return {
        name: text if isinstance(text, str) else json.dumps(text) for name, text in found.items() if text is not None
    }


def _summary(body: bytes, media_type: str) -> str:
    text = body.decode("utf-8", "replace").strip()
    if media_type == "text/html" or text[:15].lower().startswith(("<!doctype", "<html")):
        title = _TITLE.search(text)
        named = f" titled {_line(title[1])!r}" if title else ""
        return f"an HTML page{named} of {len(body)} bytes" if text else ""
    return _line(text)


def _line(text: str) -> str:
    """Make one short line of a text."""
    return " ".join(text.split())[:_SHOWN]
