"""Show one answer in any number of browsers, with aiohttp: `python -m examples.browsers_aiohttp [PORT]`.

`GET /` is a page that reads `GET /events` with an EventSource. A tab that is reloaded gets the answer from its start.
One that lost its connection says in `Last-Event-ID` what it has, and gets the rest. One that stops reading holds up
nobody. This shows one answer; where there are several, each needs an address of its own, because ids count within one.

A browser opens six connections to a server at most, those of all its tabs together, unless a proxy in front speaks
HTTP/2.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from examples.provider import model, provider
from orx_rx import ConsumerTooSlow, iterate, last_event_id
from orx_rx import operators as ops

if TYPE_CHECKING:
    from reactivex import Observable

    from orx_rx.models import Event

PAGE = Path(__file__).parent / "data" / "browsers.html"
HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",  # a proxy that compresses waits until there is enough to compress
    "X-Accel-Buffering": "no",  # nginx collects what it passes on, unless it is told not to
}


def application(events: Observable[Event], *, patience: float = 30.0, buffer: int = 1_000) -> web.Application:
    """Make a server that shows a stream to whoever asks.

    Args:
        events: The stream, behind a `fan_out` that keeps its history.
        patience: How long a browser may leave what was sent to it unread, in seconds.
        buffer: How many frames may wait for a browser that reads too slowly, besides the history.
    """

    async def page(_: web.Request) -> web.FileResponse:
        return web.FileResponse(PAGE)

    async def stream(request: web.Request) -> web.StreamResponse:
        after = last_event_id(request.headers.get("Last-Event-ID"))
        response = web.StreamResponse(headers=HEADERS)
        await response.prepare(request)
        try:
            frames = events.pipe(ops.encode_sse(after=after))
            async with iterate(frames, buffer=buffer, overflow="fail") as reading:
                async for frame in reading:
                    async with asyncio.timeout(patience):
                        await response.write(frame)
        except (TimeoutError, ConsumerTooSlow):
            if request.transport is not None:
                request.transport.abort()  # to close it would be to wait until the browser has read it all
        return response

    app = web.Application()
    app.router.add_get("/", page)
    app.router.add_get("/events", stream, allow_head=False)
    return app


async def main(port: int = 0) -> None:
    """Serve until Ctrl-C; nobody is asked for an answer before the first browser is there.

    Args:
        port: The port to listen at; 0 takes a free one.
    """
    async with provider() as client:
        # The answer is paid for, and a tab that is reloaded is gone for a moment: so the request outlives its readers,
        # and ends with the answer, or with this program. Without keep_alive it would end with its last reader.
        answer = client.events(model=model(), input="Tell me a short story").pipe(ops.fan_out(keep_alive=True))
        # handler_cancellation ends a handler, and with it the subscription, in the moment in which its browser leaves
        runner = web.AppRunner(application(answer), handler_cancellation=True, shutdown_timeout=1)
        await runner.setup()
        with socket.create_server(("127.0.0.1", port)) as listener:
            try:
                await web.SockSite(runner, listener).start()
                print(
                    f"http://127.0.0.1:{listener.getsockname()[1]}/ shows it in every tab; Ctrl-C ends it", flush=True
                )
                await asyncio.Event().wait()
            finally:
                await runner.cleanup()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(*map(int, sys.argv[1:])))
