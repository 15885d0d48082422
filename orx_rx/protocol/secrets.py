"""What may be written down of a request and its answer, and what of it is a secret."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

HIDDEN = "[hidden]"

REQUEST_HEADERS = frozenset({"accept", "accept-encoding", "cache-control", "content-type", "user-agent"})
"""The headers of a request that are written down; the value of every other one may be a secret."""

RESPONSE_HEADERS = frozenset(
    {"cache-control", "content-encoding", "content-length", "content-type", "date", "openai-model"}
    | {"openai-processing-ms", "openai-version", "retry-after", "retry-after-ms", "server", "transfer-encoding"}
    | {"x-request-id", "x-should-retry"}
)
"""The headers of an answer that are written down."""

QUERY = frozenset({"api-version", "starting_after", "stream"})
"""What is written down of a query."""

# Names of fields in a body whose texts are secrets, such as those that remote MCP servers are to be called with, and
# fields of which everything is.
_SECRET_FIELD = re.compile(
    r"authori[sz]ation|cookie|(.*[-_.])?(api[-_]?key|credentials?|passw(or)?d|secret|token)", re.IGNORECASE
)
_SECRET_OBJECT = "headers"

_SPEAKS_OF_SECRETS = re.compile(r"auth|cookie|credential|key|passw|secret|session|token", re.IGNORECASE)
_SHORTEST = 8  # characters of a value whose name speaks of secrets; a shorter one may be part of any word
_SHORTEST_OTHER = 16  # characters of any other value that is not written down
_BREAKS = re.compile(r"[\s;,]+")


class Secrets:
    """Values that are never written down.

    Where one is found, asterisks take its place, as many as it is long, so that all sizes and borders stay.

    Args:
        values: The values.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._texts = sorted(set(values), key=len, reverse=True)
        self._values = [text.encode("utf-8", "surrogateescape") for text in self._texts]

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._texts)

    def hide(self, data: bytes) -> bytes:
        """Hide them in bytes."""
        for value in self._values:
            data = data.replace(value, b"*" * len(value))
        return data

    def hide_in(self, value: Any) -> Any:
        """Hide them in all texts of a JSON value."""
        if isinstance(value, str):
            for secret in self._texts:
                value = value.replace(secret, "*" * len(secret))
            return value
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            return {self.hide_in(name): self.hide_in(field) for name, field in fields.items()}
        if isinstance(value, list):
            items = cast("list[Any]", value)  # type: ignore[redundant-cast]
            return [self.hide_in(item) for item in items]
        return value

    def begun(self, data: bytes) -> int:
        """Tell how many bytes at the end may be the beginning of one."""
        return max((_overlap(data, value) for value in self._values), default=0)


def _overlap(data: bytes, value: bytes) -> int:
    """Tell how much of the end of some bytes is the beginning of a value, and not all of it."""
    end = data[1 - len(value) :] if len(value) > 1 else b""
    place = end.find(value[:1])
    while place >= 0:
        if value.startswith(end[place:]):
            return len(end) - place
        place = end.find(value[:1], place + 1)
    return 0


def secrets_in(url: str, params: Mapping[str, str] | None, headers: Mapping[str, str]) -> Secrets:
    """Collect what may be a secret of a request: whatever is not written down of it and is long enough.

    Args:
        url: Its address, perhaps with a query and credentials.
        params: More of its query.
        headers: Its headers.
    """
    parts = urlsplit(url)
    fields = [(name, value) for name, value in headers.items() if name.lower() not in REQUEST_HEADERS]
    queried = [*parse_qsl(parts.query), *(params or {}).items()]
    fields += [(name, value) for name, value in queried if name.lower() not in QUERY]
    fields.append(("password", parts.password or ""))
    return Secrets(value for field in fields for value in _values_of(*field))


def _values_of(name: str, value: str) -> Iterator[str]:
    """Name what is secret of one field: the value, its words, and what they are set to."""
    shortest = _SHORTEST if _SPEAKS_OF_SECRETS.search(name) else _SHORTEST_OTHER
    words = _BREAKS.split(value)
    candidates = [value.strip(), *words, *(word.partition("=")[2] for word in words)]
    return (candidate for candidate in candidates if len(candidate) >= shortest)


def kept(fields: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    """Keep the fields that may be written down, with their names in lower case."""
    return {name.lower(): value for name, value in fields.items() if name.lower() in names}


def body_without_secrets(body: bytes | None) -> Any:
    """Read a JSON body, and hide what its fields say of secrets; None for any other body, which nobody can judge."""
    with suppress(ValueError, RecursionError):
        return None if body is None else _judged(json.loads(body))
    return None


def _judged(value: Any, *, hidden: bool = False) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {
            name: _judged(
                field,
                hidden=hidden
                or bool(_SECRET_FIELD.fullmatch(name))
                or (name.lower() == _SECRET_OBJECT and isinstance(field, dict)),
            )
            for name, field in fields.items()
        }
    if isinstance(value, list):
        items = cast("list[Any]", value)  # type: ignore[redundant-cast]
        return [_judged(item, hidden=hidden) for item in items]
    return HIDDEN if hidden and isinstance(value, str) else value
