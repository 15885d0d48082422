"""Reading the body of an answer, where aiohttp alone would lose bytes or wait for ever."""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import suppress
from typing import Self, cast

import aiohttp


async def read_start(content: aiohttp.StreamReader, most: int, longest: float) -> bytes:
    """Read the start of a body, however it ends.

    Args:
        content: The body, of which nothing was read.
        most: How many bytes to read.
        longest: How many seconds to wait for them.
    """
    start = bytearray()
    with suppress(Exception):  # what broke or stalled here matters less than what came before it
        async with asyncio.timeout(longest):
            while len(start) < most and (more := await content.read(most - len(start))):
                start += more
    start += rest_of(content)
    return bytes(start[:most])


def rest_of(content: aiohttp.StreamReader) -> bytes:
    """Take what came before a body broke off and was not read; aiohttp hides it behind the error."""
    content.set_exception(cast("BaseException", None))
    return content.read_nowait()


class Watch:
    """Watches the connection of a body for two things that aiohttp does not tell its reader.

    When somebody closes the session, or a body is not chunked as it should be, aiohttp forgets the body and leaves its
    reader waiting for ever. And where the end of the connection is the end of the body, it takes a connection that
    broke for a body that ended.

    Args:
        response: The answer.
    """

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._content = response.content
        self._delimited = "Content-Length" in response.headers or "Transfer-Encoding" in response.headers
        protocol = response.connection.protocol if response.connection is not None else None
        self._closed: asyncio.Future[None] | None = getattr(protocol, "closed", None)  # where aiohttp has it

    def __enter__(self) -> Self:
        """Begin to watch."""
        if self._closed is not None:
            self._closed.add_done_callback(self._wake)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; the connection may live on in the pool, and somebody has to take the error that it dies of there."""
        if self._closed is not None:
            self._closed.remove_done_callback(self._wake)
            self._closed.remove_done_callback(_error_of)
            self._closed.add_done_callback(_error_of, context=contextvars.Context())

    def end(self) -> bytes:
        """Take the end of the body: no bytes.

        Raises:
            ClientConnectionError: It was the end because the connection broke.
        """
        if self._closed is not None and not self._delimited and (error := _error_of(self._closed)):
            raise error
        return b""

    def _wake(self, closed: asyncio.Future[None]) -> None:
        _error_of(closed)
        if not self._content.is_eof() and self._content.exception() is None:
            self._content.set_exception(aiohttp.ClientConnectionError("the connection was closed"))


def _error_of(closed: asyncio.Future[None]) -> BaseException | None:
    return closed.exception() if closed.done() and not closed.cancelled() else None
