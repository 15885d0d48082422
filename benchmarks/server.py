"""A server of prepared streams, in a process of its own, which does as little as a server can.

    python -m benchmarks.server

It prints its port and serves until its standard input ends. What a client gets, the path of its base URL says, so that
one server does for all clients: `/<mode>/<deltas>/v1`; or `/<mode>/<deltas>/<cut>/v1` where every connection breaks off
after so many frames of a response in the background, and the next one asks for what comes after them. The modes:

- `coalesced`: every frame is an HTTP chunk, and many of them are one write, as out of a proxy.
- `64k`: an HTTP chunk and a write are 64 KiB, as out of a cache.
- `frame`: every frame is an HTTP chunk and a write, with a turn of the event loop behind it. Whoever is slow finds
  several of them when it looks again.
- `paced`: the same, with 2 ms behind it, so that every frame wakes whoever reads: how a model talks.

`/counts` tells how many requests of each method there were for streams since it was asked the last time.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

from benchmarks.workload import workload

ROOT = Path(__file__).parent.parent  # where processes find the benchmarks
PAUSES = {"frame": 0.0, "paced": 0.002}  # seconds behind every frame
WRITE = 64 * 1024  # bytes of a write that holds many frames
BACKLOG = 4096  # connections that may wait to be accepted, for clients that all come at once

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_END = b"0\r\n\r\n"
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_STREAM = re.compile(r"/(coalesced|64k|frame|paced)/(\d+)(?:/(\d+))?/v1/responses(?:/[^/]+)?")


@contextmanager
def serving() -> Generator[str]:
    """Run the server in a process of its own, and give its address, to which no proxy is used."""
    command = [sys.executable, "-m", "benchmarks.server"]
    root = {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    with (
        patch.dict(os.environ, {"no_proxy": "127.0.0.1", **root}),
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


@cache
def frames(deltas: int, background: bool) -> Sequence[bytes]:
    """Build the frames of a stream, the end marker at the end."""
    frames = workload(deltas, None).chunks
    return [frame.replace(b'"background":false', b'"background":true') for frame in frames] if background else frames


@cache
def writes(mode: str, deltas: int, background: bool, start: int, stop: int | None) -> Sequence[bytes]:
    """Build what is written for a stretch of a stream."""
    stretch = frames(deltas, background)[start:stop]
    if mode == "64k":
        whole = b"".join(stretch)
        return [_chunk(whole[at : at + WRITE]) for at in range(0, len(whole), WRITE)]
    chunks = [_chunk(frame) for frame in stretch]
    return chunks if mode in PAUSES else _joined(chunks)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _joined(chunks: Sequence[bytes]) -> list[bytes]:
    joined = [bytearray()]
    for chunk in chunks:
        if len(joined[-1]) + len(chunk) > WRITE:
            joined.append(bytearray())
        joined[-1] += chunk
    return [bytes(one) for one in joined]


class Server:
    """Answers requests, and counts those for streams."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until one side closes it."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._answer(reader, writer):
                pass
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Read a request and answer it; false where the connection is to break off."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        await reader.readexactly(int(length[1]) if length else 0)
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        url = urlsplit(target)
        asked = _STREAM.fullmatch(url.path)
        if asked is None:
            self._tell(writer)
            return True
        self.counts[method] += 1
        mode, deltas, background = asked[1], int(asked[2]), asked[3] is not None
        start = int(parse_qs(url.query).get("starting_after", ["-1"])[0]) + 1
        stop = start + int(asked[3]) if background else None
        if stop is not None and stop >= len(frames(deltas, background)):
            stop = None
        writer.write(_HEAD)
        for piece in writes(mode, deltas, background, start, stop):
            writer.write(piece)
            await writer.drain()
            if mode in PAUSES:
                await asyncio.sleep(PAUSES[mode])
        if stop is None:
            writer.write(_END)
            await writer.drain()
        return stop is None

    def _tell(self, writer: asyncio.StreamWriter) -> None:
        body = json.dumps(self.counts).encode()
        self.counts.clear()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


async def main() -> None:
    """Serve until the standard input ends."""
    server = await asyncio.start_server(Server().serve, "127.0.0.1", 0, backlog=BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
