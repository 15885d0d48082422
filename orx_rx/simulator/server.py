"""The simulator: a provider on loopback that speaks the Responses API."""

from __future__ import annotations

import asyncio
import hmac
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from aiohttp import web

from orx_rx.models.lifecycle_events import TerminalEvent
from orx_rx.simulator.frames import DONE, Cutter, frame_of, json_bytes
from orx_rx.simulator.requests import ApiError, read_body, request_of
from orx_rx.simulator.scenarios import scenario_for
from orx_rx.simulator.script import Script, play
from orx_rx.simulator.seen import SeenRequest, without_secrets
from orx_rx.simulator.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping
    from types import TracebackType

    from orx_rx.models.event_base import Event
    from orx_rx.models.response import Response
    from orx_rx.simulator.requests import Request
    from orx_rx.simulator.script import Scenario

_LARGEST_BODY = 64 * 1024 * 1024
_STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}


class Simulator:
    """A provider on loopback, with models that do what their names say.

    It speaks `POST /v1/responses`, as a stream and as one JSON object. Every answer is made from the request alone, and
    conforms to Open Responses; `SCENARIOS` lists the models. Use it as ::

        async with Simulator() as simulator:
            async with Client(base_url=simulator.base_url) as client:
                ...

    Args:
        scenarios: Scenarios besides `SCENARIOS`, by the name of the model; they win.
        api_key: The key that requests have to carry; None demands none.
        event_lines: Whether frames have an event line.
        done: Whether `[DONE]` ends a stream.
        chunk_bytes: The size of the pieces that a stream is written in, whatever they cut in two; None writes every
            frame in one piece. What is left over is written before every pause.
        pace: How long to wait after every frame, in seconds.
        hold: After how many frames a stream pauses until `release()` is called; None never pauses.
        host: The address to listen at.
        port: The port to listen at; 0 takes a free one.

    Attributes:
        requests: What came, in order.
        disconnects: How many clients went away before the end of their stream.

    Raises:
        ValueError: A number is out of range.
    """

    def __init__(
        self,
        *,
        scenarios: Mapping[str, Scenario] | None = None,
        api_key: str | None = None,
        event_lines: bool = True,
        done: bool = True,
        chunk_bytes: int | None = None,
        pace: float = 0.0,
        hold: int | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        for name, value, least in (("chunk_bytes", chunk_bytes, 1), ("pace", pace, 0), ("hold", hold, 0)):
            if value is not None and value < least:
                raise ValueError(f"expected {name} of at least {least}, got {value}")
        self.requests: list[SeenRequest] = []
        self.disconnects: int = 0
        self._scenarios = dict(scenarios or {})
        self._api_key = api_key
        self._event_lines = event_lines
        self._done = done
        self._chunk_bytes = chunk_bytes
        self._pace = pace
        self._hold = hold
        self._host = host
        self._port = port
        self._store = Store()
        self._responses = self._answers = 0
        self._runner: web.AppRunner | None = None
        self._streams: dict[asyncio.Task[object], asyncio.Event] = {}  # of each open stream: its task, its gate
        self._changed = asyncio.Event()

    def __repr__(self) -> str:
        """Say what it has seen; the key is not in it."""
        where = f"base_url={self.base_url!r}" if self._runner else "stopped"
        return (
            f"Simulator({where}, requests={len(self.requests)}, open_streams={self.open_streams}, "
            f"disconnects={self.disconnects})"
        )

    @property
    def open_streams(self) -> int:
        """How many streams are being written."""
        return len(self._streams)

    @property
    def base_url(self) -> str:
        """The address that clients need, up to and without `/responses`.

        Raises:
            RuntimeError: The simulator does not run.
        """
        if self._runner is None:
            raise RuntimeError("expected a simulator that runs, got one outside of its `async with`")
        host, port = self._runner.addresses[0][:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"

    async def __aenter__(self) -> Self:
        """Begin to listen.

        Raises:
            OSError: The port is taken.
        """
        app = web.Application(middlewares=[self._answer], client_max_size=_LARGEST_BODY)
        app.router.add_post("/v1/responses", self._create)
        app.on_response_prepare.append(self._identify)
        # cancellation tells of a client that goes away while nothing is being written to it
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Break off the streams that are open, and stop listening."""
        runner, self._runner = self._runner, None
        for task in self._streams:
            task.cancel()
        if runner is not None:
            await runner.cleanup()

    def release(self) -> None:
        """Let the streams that have begun go on past their hold; those that begin later pause again."""
        for gate in self._streams.values():
            gate.set()

    async def wait_for(self, condition: Callable[[Simulator], object], *, timeout: float = 5.0) -> None:
        """Wait until something is true of the simulator.

        Args:
            condition: Says whether it is, such as `lambda s: s.disconnects == 1`; asked again at every change.
            timeout: How long to wait, in seconds.

        Raises:
            TimeoutError: It did not become true in time.
        """
        try:
            async with asyncio.timeout(timeout):
                while not condition(self):
                    await self._changed.wait()
        except TimeoutError:
            raise TimeoutError(f"expected the condition to hold within {timeout} s, got {self!r}") from None

    # answering

    @web.middleware
    async def _answer(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Record a request, check its key, and turn what goes wrong into JSON."""
        try:
            self._record(request, await request.read())
            self._authorize(request)
            return await handler(request)
        except ApiError as error:
            return _json(error.body, error.status)
        except web.HTTPException as error:
            message = f"{error.reason}: {request.method} {request.path}"
            return _json(ApiError(error.status, message).body, error.status, error.headers.get("Allow"))

    def _record(self, request: web.Request, data: bytes) -> None:
        body = None
        with suppress(ApiError):
            body = read_body(data)
        headers, query = without_secrets(request.headers), without_secrets(request.query)
        self.requests.append(SeenRequest(request.method, request.path, query, headers, body))
        self._tell()

    def _authorize(self, request: web.Request) -> None:
        if self._api_key is None:
            return
        given = request.headers.get("Authorization", "")
        if not given:
            raise ApiError(401, "Expected an API key as bearer token, got none.")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), f"Bearer {self._api_key}".encode()):
            raise ApiError(401, "Incorrect API key provided.", code="invalid_api_key")

    async def _create(self, request: web.Request) -> web.StreamResponse:
        asked = request_of(read_body(await request.read()), self._store.earlier)
        self._responses += 1
        script = Script(asked, self._responses)
        events = self._kept(asked, play(scenario_for(asked, self._scenarios), script))
        return await self._stream(request, events) if asked.stream else _json(_last(events))

    def _kept(self, asked: Request, events: Iterator[Event]) -> Iterator[Event]:
        """Pass events on, and keep the response that they end with."""
        for event in events:
            if isinstance(event, TerminalEvent):
                self._store.keep(asked, event.response)
            yield event

    # streaming

    async def _stream(self, request: web.Request, events: Iterator[Event]) -> web.StreamResponse:
        response = web.StreamResponse(headers=_STREAM_HEADERS)
        with self._open_stream() as gate:
            await response.prepare(request)
            await self._write(response, self._frames(events), gate)
            await response.write_eof()
        return response

    @contextmanager
    def _open_stream(self) -> Generator[asyncio.Event]:
        """Keep account of a stream while it is written; what it gives is the gate that a hold waits at."""
        task = asyncio.current_task()
        assert task is not None
        gate = self._streams[task] = asyncio.Event()
        self._tell()
        try:
            yield gate
        except (asyncio.CancelledError, ConnectionError):
            self.disconnects += self._runner is not None  # otherwise it was the simulator that stopped
            raise
        finally:
            del self._streams[task]
            self._tell()

    def _frames(self, events: Iterator[Event]) -> Iterator[bytes]:
        for event in events:
            yield frame_of(event, event_line=self._event_lines)
        if self._done:
            yield DONE

    async def _write(self, response: web.StreamResponse, frames: Iterator[bytes], gate: asyncio.Event) -> None:
        cutter = Cutter(self._chunk_bytes)
        written = 0
        for frame in frames:
            if written:
                await _send(response, cutter.end() if self._pace else ())
                await asyncio.sleep(self._pace)
            await self._hold_back(response, cutter, written, gate)
            await _send(response, cutter.feed(frame))
            written += 1
        await self._hold_back(response, cutter, written, gate)
        await _send(response, cutter.end())

    async def _hold_back(self, response: web.StreamResponse, cutter: Cutter, written: int, gate: asyncio.Event) -> None:
        if written == self._hold:
            await _send(response, cutter.end())
            await gate.wait()

    async def _identify(self, _: web.Request, response: web.StreamResponse) -> None:
        self._answers += 1
        response.headers["x-request-id"] = f"req_{self._answers:04d}"

    def _tell(self) -> None:
        """Wake up whoever waits for a change."""
        self._changed.set()
        self._changed = asyncio.Event()


async def _send(response: web.StreamResponse, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        await response.write(piece)


def _json(value: object, status: int = 200, allow: str | None = None) -> web.Response:
    headers = {} if allow is None else {"Allow": allow}
    return web.Response(body=json_bytes(value), status=status, headers=headers, content_type="application/json")


def _last(events: Iterable[Event]) -> Response:
    """Play everything, and take the response of the terminal."""
    *_, terminal = events
    assert isinstance(terminal, TerminalEvent)
    return terminal.response
