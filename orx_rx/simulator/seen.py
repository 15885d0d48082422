"""What the simulator saw of a request, without the secrets in it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECRET = re.compile(r"auth|cookie|key|secret|token")
_HIDDEN = "[hidden]"


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """A request that came.

    Attributes:
        method: The HTTP method.
        path: The path, without the query.
        query: The query; values that may be secrets are hidden.
        headers: The headers by their names in lower case; values that may be secrets are hidden.
        body: The JSON object that came; None where none did.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Mapping[str, Any] | None

    @property
    def wants_stream(self) -> bool:
        """Whether it asks for a stream."""
        return self.query.get("stream") == "true" or bool(self.body and self.body.get("stream") is True)


def without_secrets(fields: Mapping[str, str]) -> dict[str, str]:
    """Copy fields with their names in lower case, and hide the values of those whose names speak of secrets.

    Args:
        fields: Headers, or a query.
    """
    return {name.lower(): _HIDDEN if _SECRET.search(name.lower()) else value for name, value in fields.items()}
