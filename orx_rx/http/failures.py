"""From an answer with an error status to a typed error."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

import aiohttp

from orx_rx.errors import StatusError, status_error
from orx_rx.wire import FrameParser

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST = 64 * 1024  # bytes of a body that are read
_KEPT = 2_000  # characters of a body that the error keeps
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


async def failure_of(response: aiohttp.ClientResponse) -> StatusError:
    """Make the error of an answer; reads the body as JSON, as an event stream, or as text, by its media type."""
    try:
        body = await response.content.read(_MOST)
        while len(body) < _MOST and (more := await response.content.read(_MOST - len(body))):
            body += more
    except (aiohttp.ClientError, OSError, TimeoutError):
        body = b""
    media_type = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    found = _error_object(_json_of(body, media_type))
    message = found.get("message") or _summary(body, media_type) or response.reason or "no message"
    return status_error(response.status)(
        response.status,
        message,
        code=found.get("code"),
        type=found.get("type"),
        param=found.get("param"),
        request_id=response.headers.get("x-request-id"),
        headers={name.lower(): value for name, value in response.headers.items()},
        body=body.decode("utf-8", "replace")[:_KEPT],
    )


def _json_of(body: bytes, media_type: str) -> object:
    if media_type == "text/event-stream":
        parser = FrameParser()
        frames = [*parser.feed(body), *parser.end()]
        return next((value for frame in frames if (value := _loads(frame.data)) is not None), None)
    return _loads(body)


def _loads(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _error_object(value: object) -> dict[str, str]:
    """Find message, code, type and param in the shapes that servers send: nested, flat, or a bare text."""
    if not isinstance(value, dict):
        return {}
    outer = cast("Mapping[str, Any]", value)
    nested = outer.get("error")
    if isinstance(nested, str):
        return {"message": nested}
    fields = cast("Mapping[str, Any]", nested) if isinstance(nested, dict) else outer
    found = {name: fields.get(name) for name in ("message", "code", "type", "param")}
    found["message"] = found["message"] or fields.get("detail")
    return {
        name: text if isinstance(text, str) else json.dumps(text) for name, text in found.items() if text is not None
    }


def _summary(body: bytes, media_type: str) -> str:
    text = body.decode("utf-8", "replace").strip()
    if media_type == "text/html" or text[:15].lower().startswith(("<!doctype", "<html")):
        title = _TITLE.search(text)
        return f"an HTML page{f' titled {title[1].strip()!r}' if title else ''} of {len(body)} bytes"
    return text[:200]
