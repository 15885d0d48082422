"""A server on loopback that the test itself plays, byte by byte.

    async with listening() as server:
        ear = Ear(sse_chunks(session, "GET", server.url))
        peer = await server.accept()
        await peer.request()
        await peer.send(CHUNKED, chunk(b"data: 1"))
        peer.reset()

Nothing happens that the test does not say: a stall is a test that sends nothing, and nobody waits for a clock to run
out, since `pass_time` puts it forward.
"""

from __future__ import annotations

import asyncio
import gc
import select
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

import pytest
from reactivex import Observable

from orx_rx import ConnectFailed, ConnectionLost, OrxError

T = TypeVar("T")

PATIENCE = 60.0  # seconds after which what a test waits for has not happened; none waits until they are over

SETTINGS = [f"{family}_{name}" for family in ("ORX", "OPENAI") for name in ("BASE_URL", "API_KEY")]
PROXIES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"]


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide what the environment says to clients."""
    for name in (*SETTINGS, *PROXIES, *map(str.lower, PROXIES), "NETRC"):
        monkeypatch.delenv(name, raising=False)


# what a server sends


def head(status: str = "200 OK", content_type: str | None = "text/event-stream", **headers: str) -> bytes:
    """Write the head of an answer; `transfer_encoding="chunked"` is a header."""
    if content_type is not None:
        headers = {"content_type": content_type, **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


CHUNKED = head(transfer_encoding="chunked")
LENGTH = head(content_length="100")
LAST = b"0\r\n\r\n"
UNTIL_CLOSE = head(connection="close")


def chunk(data: bytes) -> bytes:
    """Write one piece of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer(
    body: bytes, status: str = "200 OK", content_type: str | None = "text/event-stream", **headers: str
) -> bytes:
    """Write a whole answer."""
    return head(status, content_type, content_length=str(len(body)), **headers) + body


# the server


@dataclass
class Request:
    """What a client sent; the names of headers are in lower case, and one that came twice is there twice."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def all(self, name: str) -> list[str]:
        """Find all values of a header."""
        return [value for other, value in self.headers if other == name]


class Peer:
    """The server's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._read = b""

    async def request(self) -> Request:
        """Read one request."""
        lines = (await self._until(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = lines[0].split(" ")
        pairs = [line.partition(":") for line in lines[1:] if line]
        headers = [(name.lower(), value.strip()) for name, _, value in pairs]
        length = int(dict(headers).get("content-length", 0))
        while len(self._read) < length:
            await self._more()
        body, self._read = self._read[:length], self._read[length:]
        return Request(method, target, headers, body)

    async def send(self, *pieces: bytes) -> None:
        """Send bytes, all of them in one piece if the network lets it."""
        async with asyncio.timeout(PATIENCE):
            await asyncio.get_running_loop().sock_sendall(self._socket, b"".join(pieces))

    def finish(self) -> None:
        """Say that nothing more will come: FIN."""
        self._socket.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Break the connection: RST."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    async def gone(self) -> bool:
        """Wait until the client has closed the connection; False if it said something instead."""
        async with asyncio.timeout(PATIENCE):
            with suppress(ConnectionResetError):
                return not await asyncio.get_running_loop().sock_recv(self._socket, 1)
            return True

    def is_gone(self) -> bool:
        """Whether the client has closed the connection already: the event loop stands still while this looks."""
        self._socket.settimeout(PATIENCE)
        try:
            return not self._socket.recv(1)
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        finally:
            self._socket.setblocking(False)

    async def _until(self, end: bytes) -> bytes:
        while end not in self._read:
            await self._more()
        found, _, self._read = self._read.partition(end)
        return found

    async def _more(self) -> None:
        async with asyncio.timeout(PATIENCE):
            more = await asyncio.get_running_loop().sock_recv(self._socket, 65536)
        if not more:
            raise ConnectionError("expected more of a request, got the end of the connection")
        self._read += more


@dataclass
class Server:
    """A socket that listens.

    Attributes:
        peers: The connections that were accepted, in order.
    """

    socket: socket.socket
    peers: list[Peer] = field(default_factory=list[Peer])

    @property
    def port(self) -> int:
        """The port."""
        port: int = self.socket.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """The address, without a path."""
        return f"http://127.0.0.1:{self.port}"

    async def accept(self) -> Peer:
        """Wait for the next connection."""
        async with asyncio.timeout(PATIENCE):
            connection, _ = await asyncio.get_running_loop().sock_accept(self.socket)
        self.peers.append(Peer(connection))
        return self.peers[-1]

    async def asked(self) -> tuple[Peer, Request]:
        """Wait for the next connection and read its request."""
        peer = await self.accept()
        return peer, await peer.request()

    def knocks(self) -> bool:
        """Whether there is a connection that was not accepted yet."""
        return bool(select.select([self.socket], [], [], 0)[0])


@asynccontextmanager
async def listening() -> AsyncGenerator[Server]:
    """Listen on a free port of loopback; closes every connection at the end."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        server = Server(listener)
        try:
            yield server
        finally:
            for peer in server.peers:
                peer.close()


# how a connection fails


async def say_nothing(_: Peer) -> None:
    await turns()


def say(*pieces: bytes) -> Callable[[Peer], Awaitable[None]]:
    async def send(peer: Peer) -> None:
        for piece in pieces:
            await peer.send(piece)
            await turns()

    return send


# what the server does, how it ends, the error that this is, and the chunks that come before it
BROKEN: dict[str, tuple[Callable[[Peer], Awaitable[None]], Callable[[Peer], None], type[OrxError], list[bytes]]] = {
    "closed before the head": (say_nothing, Peer.finish, ConnectFailed, []),
    "reset before the head": (say_nothing, Peer.reset, ConnectFailed, []),
    "closed in the head": (say(b"HTTP/1.1 200 OK\r\nSet-Cookie: "), Peer.finish, ConnectFailed, []),
    "reset in the head": (say(b"HTTP/1.1 200 OK\r\nSet-Cookie: "), Peer.reset, ConnectFailed, []),
    "another protocol": (say(b"SSH-2.0-OpenSSH_9.6\r\n"), Peer.finish, ConnectFailed, []),
    "a head too long": (say(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000), Peer.finish, ConnectFailed, []),
    "closed in the body": (say(CHUNKED, chunk(b"a")), Peer.finish, ConnectionLost, [b"a"]),
    "reset in the body": (say(CHUNKED, chunk(b"a")), Peer.reset, ConnectionLost, [b"a"]),
    "closed in a piece of the body": (say(CHUNKED, b"9\r\na"), Peer.finish, ConnectionLost, [b"a"]),
    "closed too early": (say(LENGTH, b"a"), Peer.finish, ConnectionLost, [b"a"]),
    "reset too early": (say(LENGTH, b"a"), Peer.reset, ConnectionLost, [b"a"]),
    "reset where the end of the connection ends the body": (
        say(UNTIL_CLOSE, b"a"),
        Peer.reset,
        ConnectionLost,
        [b"a"],
    ),
    "a body that is not chunked as it should be": (
        say(CHUNKED, chunk(b"a"), b"nonsense\r\n"),
        Peer.finish,
        ConnectionLost,
        [b"a"],
    ),
    "a body that is not compressed as it should be": (
        say(head(content_length="100", content_encoding="gzip"), b"a" * 50),
        Peer.finish,
        ConnectionLost,
        [],
    ),
}


# the client


class Ear(Generic[T]):
    """A subscriber that remembers what it hears.

    Args:
        observable: What to listen to, from now on.
        then: Called with every element after it was remembered.
    """

    def __init__(self, observable: Observable[T], then: Callable[[T], object] = lambda _: None) -> None:
        self.elements: list[T] = []
        self.error: Exception | None = None
        self.completed = False
        self._then = then
        self.subscription = observable.subscribe(self._on_next, self._on_error, self._on_completed)

    @property
    def has_ended(self) -> bool:
        """Whether there was an error or a completion."""
        return self.completed or self.error is not None

    async def heard(self, count: int) -> Self:
        """Wait for so many elements."""
        await until(lambda: len(self.elements) >= count or self.has_ended)
        assert len(self.elements) >= count, self.error or "completed"
        return self

    async def ended(self) -> Self:
        """Wait for the end."""
        await until(lambda: self.has_ended)
        return self

    async def failed(self) -> Exception:
        """Wait for the end, which has to be an error."""
        await self.ended()
        assert self.error is not None, "completed"
        return self.error

    def _on_next(self, element: T) -> None:
        self.elements.append(element)
        self._then(element)

    def _on_error(self, error: Exception) -> None:
        assert not self.has_ended
        self.error = error

    def _on_completed(self) -> None:
        assert not self.has_ended
        self.completed = True


async def until(so: Callable[[], bool]) -> None:
    """Let the event loop turn until something is so."""
    async with asyncio.timeout(PATIENCE):
        while not so():
            await asyncio.sleep(0)


async def turns(count: int = 50) -> None:
    """Let the event loop turn, so that what would happen wrongly has the time to."""
    for _ in range(count):
        await asyncio.sleep(0)


def pass_time(seconds: float) -> None:
    """Put the clock of the event loop forward: what was to happen by then is due in its next turn."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]


def other_tasks() -> set[asyncio.Task[Any]]:
    """Find the tasks that are left besides this one."""
    return asyncio.all_tasks() - {task for task in (asyncio.current_task(),) if task is not None}


@asynccontextmanager
async def told() -> AsyncGenerator[list[dict[str, Any]]]:
    """Collect what the event loop is told of exceptions that nobody took, late ones included."""
    loop, contexts = asyncio.get_running_loop(), list[dict[str, Any]]()
    loop.set_exception_handler(lambda _, context: contexts.append(context))
    try:
        yield contexts
        gc.collect()
        await turns()
    finally:
        loop.set_exception_handler(None)
