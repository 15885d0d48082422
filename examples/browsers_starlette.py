"""Show one answer in any number of browsers, with Starlette: `python -m examples.browsers_starlette [PORT]`.

It does what `browsers_aiohttp` does, for any ASGI server and framework. FastAPI is Starlette:
`FastAPI().add_route("/events", Stream(events), methods=["GET"])`.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import FileResponse, StreamingResponse
from starlette.routing import Route

from examples.provider import model, provider
from orx_rx import ConsumerTooSlow, iterate, last_event_id
from orx_rx import operators as ops

if TYPE_CHECKING:
    from reactivex import Observable
    from starlette.requests import Request
    from starlette.types import Message, Receive, Scope, Send

    from orx_rx.models import Event

PAGE = Path(__file__).parent / "data" / "browsers.html"
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",  # a proxy that compresses waits until there is enough to compress
    "X-Accel-Buffering": "no",  # nginx collects what it passes on, unless it is told not to
}


class Stream:
    """Shows a stream to whoever asks, as an ASGI application.

    Args:
        events: The stream, behind a `fan_out` that keeps its history.
        patience: How long a browser may leave what was sent to it unread, in seconds.
        buffer: How many frames may wait for a browser that reads too slowly, besides the history.
    """

    def __init__(self, events: Observable[Event], *, patience: float = 30.0, buffer: int = 1_000) -> None:
        self._events = events
        self._patience = patience
        self._buffer = buffer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; the response watches for a browser that leaves, and ends then."""

        async def send_in_time(message: Message) -> None:
            async with asyncio.timeout(self._patience):
                await send(message)

        after = last_event_id(Headers(scope=scope).get("Last-Event-ID"))
        # who gave up reading is given up: an ASGI server closes the connection of an answer that was not completed
        with suppress(TimeoutError, ConsumerTooSlow):
            frames = self._events.pipe(ops.encode_sse(after=after))
            async with iterate(frames, buffer=self._buffer, overflow="fail") as reading:
                await StreamingResponse(reading, headers=HEADERS)(scope, receive, send_in_time)


def application(events: Observable[Event], *, patience: float = 30.0, buffer: int = 1_000) -> Starlette:
    """Make a server that shows a stream to whoever asks; the arguments are those of `Stream`."""

    async def page(_: Request) -> FileResponse:
        return FileResponse(PAGE)

    return Starlette(
        routes=[Route("/", page), Route("/events", Stream(events, patience=patience, buffer=buffer), methods=["GET"])]
    )


async def main(port: int = 0) -> None:
    """Serve until Ctrl-C; nobody is asked for an answer before the first browser is there.

    Args:
        port: The port to listen at; 0 takes a free one.
    """
    async with provider() as client:
        # The answer is paid for, and a tab that is reloaded is gone for a moment: so the request outlives its readers,
        # and ends with the answer, or with this program. Without keep_alive it would end with its last reader.
        answer = client.events(model=model(), input="Tell me a short story").pipe(ops.fan_out(keep_alive=True))
        config = uvicorn.Config(application(answer), log_level="warning", timeout_graceful_shutdown=5)
        with socket.create_server(("127.0.0.1", port)) as listener:
            listener.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
            )  # asyncio does not, for a socket made by hand
            print(f"http://127.0.0.1:{listener.getsockname()[1]}/ shows it in every tab; Ctrl-C ends it", flush=True)
            await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(*map(int, sys.argv[1:])))
