"""Exchanges: what a recorder needs to know of the request and the answer that its chunks come from.

Chunks alone do not tell. A recorder makes an exchange, and is subscribed within it; the source finds it there, through
whatever operators stand between, and notes what it asked and what it was answered. The way is a context variable, as it
is for `Flow`.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from orx_rx.protocol.secrets import (
    QUERY,
    REQUEST_HEADERS,
    RESPONSE_HEADERS,
    Secrets,
    body_without_secrets,
    kept,
    secrets_in,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

_current: ContextVar[Exchange | None] = ContextVar("orx_rx_exchange", default=None)


def current_exchange() -> Exchange | None:
    """Find the exchange of whoever subscribes; None where nobody wants to know."""
    return _current.get()


@contextmanager
def noting(exchange: Exchange | None) -> Generator[None]:
    """Let every source that is subscribed to here find an exchange, or none.

    Args:
        exchange: The exchange; None hides the one that there is.
    """
    token = _current.set(exchange)
    try:
        yield
    finally:
        _current.reset(token)


class Exchange:
    """One request and its answer, as far as they may be written down.

    A request that is sent again takes the place of the one before.

    Args:
        now: Tells the time in seconds.

    Attributes:
        began: When the request was sent, or else when the exchange was made.
        request: The request, without its secrets; None where no source spoke of one.
        response: The status and the headers of the answer; None where none came.
        secrets: What of the request must never be written down.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.now: Callable[[], float] = now
        self.began: float = now()
        self.request: dict[str, Any] | None = None
        self.response: dict[str, Any] | None = None
        self.secrets: Secrets = Secrets()
        self._sealed = False

    @property
    def age(self) -> float:
        """How long ago the request was sent, in seconds."""
        return max(0.0, self.now() - self.began)

    def ask(
        self, method: str, url: str, params: Mapping[str, str] | None, headers: Mapping[str, str], body: bytes | None
    ) -> None:
        """Note a request that is about to be sent.

        Args:
            method: Its HTTP method.
            url: Its address.
            params: More of its query.
            headers: Its headers.
            body: Its body.
        """
        if self._sealed:
            return
        parts = urlsplit(url)
        self.began, self.response, self.secrets = self.now(), None, secrets_in(url, params, headers)
        self.request = {
            "method": method,
            "path": parts.path,
            "query": kept({**dict(parse_qsl(parts.query)), **(params or {})}, QUERY),
            "headers": kept(headers, REQUEST_HEADERS),
            "body": body_without_secrets(body),
        }

    def answer(self, status: int, headers: Mapping[str, str]) -> None:
        """Note what was answered.

        Args:
            status: The HTTP status.
            headers: The headers.
        """
        if not self._sealed:
            self.response = {"status": status, "headers": kept(headers, RESPONSE_HEADERS)}

    def seal(self) -> None:
        """Take no more notes: what is asked from now on is something else."""
        self._sealed = True


@cache
def library_version() -> str:
    """Tell the version of this library."""
    try:
        return version("orx-rx")
    except PackageNotFoundError:
        return "unknown"
