"""Streams on their way to clients: writing them, ending them in every way, keeping account of them."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web

from orx_rx.simulator.failing import Closed
from orx_rx.simulator.frames import Cutter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping

    from orx_rx.simulator.failing import Steps

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}
_RESET = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)  # linger for 0 s
_SETTLING = 0.005  # seconds that a client has to read what came before a reset, since a reset throws away the rest


class Stream:
    """An answer that is a stream.

    Args:
        request: What it answers.
        chunk_bytes: The size of the pieces that it is written in; None writes every frame in one piece.
    """

    def __init__(self, request: web.Request, chunk_bytes: int | None) -> None:
        self._request = request
        self._response = web.StreamResponse(headers=_HEADERS)
        self._cutter = Cutter(chunk_bytes)

    async def write(self, steps: Steps) -> web.StreamResponse:
        """Write it.

        Args:
            steps: The frames, and the pauses between them.
        """
        await self._response.prepare(self._request)
        try:
            for number, step in enumerate(steps):
                if isinstance(step, bytes):
                    if number:
                        await asyncio.sleep(0)  # let the others have their turn
                    await self._send(self._cutter.feed(step))
                else:
                    await self._send(self._cutter.end())
                    await step()
            await self._send(self._cutter.end())
        except Closed as closed:
            return await close(closed.kind, self._request, self._response)
        await self._response.write_eof()
        return self._response

    async def _send(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            await self._response.write(piece)


async def close(kind: str, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection of a request.

    Args:
        kind: How: `fin`, `rst` or `eof`.
        request: The request.
        response: Its answer as far as it got.
    """
    await _CLOSINGS[kind](request, response)
    return response


async def _finish(_: web.Request, response: web.StreamResponse) -> None:
    await response.write_eof()


async def _shut(request: web.Request, _: web.StreamResponse) -> None:
    transport = request.transport
    assert transport is not None  # this task is cancelled when the connection is lost
    transport.close()


async def _reset(request: web.Request, response: web.StreamResponse) -> None:
    await asyncio.sleep(_SETTLING)
    transport = request.transport
    assert transport is not None
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    await _shut(request, response)


_CLOSINGS: Mapping[str, Callable[[web.Request, web.StreamResponse], Awaitable[None]]] = {
    "eof": _finish,
    "fin": _shut,
    "rst": _reset,
}


@dataclass(eq=False, slots=True)
class _OpenStream:
    """A stream that is being written: its response, its connection, its task, and the gate that a hold waits at."""

    response_id: str
    request: web.Request
    task: asyncio.Task[object]
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def connected(self) -> bool:
        transport = self.request.transport
        return transport is not None and not transport.is_closing()


class OpenStreams:
    """The streams that are being written.

    Args:
        changed: Called after every change.

    Attributes:
        disconnects: How many clients went away before the end of their stream.
        overlaps: How often a stream of a response began while another one of it was open.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self.disconnects: int = 0
        self.overlaps: int = 0
        self._open: set[_OpenStream] = set()
        self._aborted: set[_OpenStream] = set()
        self._tell = changed

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._open)

    @property
    def blocked(self) -> int:
        """How many of them wait until their client reads."""
        return sum(stream.request.protocol.writing_paused for stream in self._open if stream.connected)

    @contextmanager
    def open(self, request: web.Request, response_id: str) -> Generator[asyncio.Event]:
        """Keep account of a stream while it is written; what it gives is the gate that a hold waits at.

        Args:
            request: What it answers.
            response_id: The response that it is about.
        """
        task = asyncio.current_task()
        assert task is not None
        stream = _OpenStream(response_id, request, task)
        self.overlaps += any(other.response_id == response_id and other.connected for other in self._open)
        self._open.add(stream)
        self._tell()
        try:
            yield stream.gate
        except (asyncio.CancelledError, ConnectionError):
            self.disconnects += stream not in self._aborted
            raise
        finally:
            self._open.discard(stream)
            self._aborted.discard(stream)
            self._tell()

    def release(self) -> None:
        """Let them go on past their gates."""
        for stream in self._open:
            stream.gate.set()

    def abort(self) -> None:
        """Break them off."""
        self._aborted |= self._open
        for stream in self._open:
            stream.task.cancel()
