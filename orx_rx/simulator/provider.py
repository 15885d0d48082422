"""What the simulator answers: responses made, retrieved, and cancelled."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from orx_rx.models.event_base import Event
from orx_rx.models.lifecycle_events import TerminalEvent
from orx_rx.simulator import taped
from orx_rx.simulator.background import Run, paced
from orx_rx.simulator.errors import ApiError
from orx_rx.simulator.failing import Exchange
from orx_rx.simulator.frames import DONE, frame_of, json_bytes
from orx_rx.simulator.requests import cursor_of, read_body, request_of, wants_stream
from orx_rx.simulator.scenarios import scenario_for
from orx_rx.simulator.script import Script, play
from orx_rx.simulator.store import Store
from orx_rx.simulator.streams import OpenStreams, Stream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from orx_rx.models.response import Response
    from orx_rx.protocol.cassette import Cassette
    from orx_rx.simulator.failing import Pause, Steps
    from orx_rx.simulator.requests import Request
    from orx_rx.simulator.script import Scenario

EXCHANGE: ContextVar[Exchange] = ContextVar("exchange")
"""How the request that is being answered is to be answered."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How streams are written; `Simulator` tells of each field."""

    event_lines: bool
    done: bool
    chunk_bytes: int | None
    pace: float
    hold: int | None
    speed: float | None


class Provider:
    """Answers requests.

    Args:
        scenarios: Scenarios besides `SCENARIOS`, by the name of the model.
        cassettes: Recorded streams, by the name of the model.
        manner: How streams are written.
        changed: Called after every change.

    Attributes:
        store: The responses.
        streams: The streams that are being written.
    """

    def __init__(
        self,
        scenarios: Mapping[str, Scenario],
        cassettes: Mapping[str, Cassette],
        manner: Manner,
        changed: Callable[[], None],
    ) -> None:
        self.store: Store = Store()
        self.streams: OpenStreams = OpenStreams(changed)
        self._scenarios = scenarios
        self._cassettes = cassettes
        self._manner = manner
        self._tell = changed
        self._responses = 0
        self._runs: set[asyncio.Task[None]] = set()

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Answer `POST /v1/responses`."""
        body = read_body(await request.read())
        if body.get("model") in self._cassettes:
            return await self._replay(request, str(body["model"]), streamed=body.get("stream") is True)
        asked = request_of(body, self.store.earlier)
        self._responses += 1
        script = Script(asked, self._responses)
        response_id = script.response("in_progress").id
        events = self._kept(asked, play(scenario_for(asked, self._scenarios), script))
        if asked.background:
            run = self._run(script, events)
            return await self._follow(request, run, -1) if asked.stream else json_answer(run.response)
        self.store.begin(asked, response_id)
        if not asked.stream or EXCHANGE.get().as_json:
            return json_answer(_last(events))
        with self.streams.open(request, response_id) as gate:
            frames = paced(self._frames(events), pace=self._manner.pace, hold=self._manner.hold, gate=gate)
            return await self._write(request, frames, gate)

    async def _replay(self, request: web.Request, model: str, *, streamed: bool) -> web.StreamResponse:
        """Answer with a cassette."""
        if not streamed:
            raise ApiError(400, "A cassette is a stream: 'stream' has to be true.", param="stream")
        cassette = self._cassettes[model]
        taped.refuse(cassette)
        with self.streams.open(request, f"cassette {model}") as gate:
            steps = taped.play(cassette, self._manner.speed, gate.wait)
            return await Stream(request, None).write(EXCHANGE.get().apply(steps, gate.wait))

    async def retrieve(self, request: web.Request) -> web.StreamResponse:
        """Answer `GET /v1/responses/{id}`."""
        response = self.store.response(request.match_info["id"])
        after = cursor_of(request.query)
        if not wants_stream(request.query):
            return json_answer(response)
        run = self.store.streamed(response.id)
        return await self._follow(request, run, -1 if EXCHANGE.get().ignore_cursor else after)

    async def cancel(self, request: web.Request) -> web.StreamResponse:
        """Answer `POST /v1/responses/{id}/cancel`."""
        return json_answer(self.store.cancelled(request.match_info["id"]))

    def _run(self, script: Script, events: Iterator[Event]) -> Run:
        """Let a response go on by itself."""
        run = Run(script, self._tell)
        task = run.start(paced(events, pace=self._manner.pace, hold=self._manner.hold, gate=run.gate))
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)
        self.store.run(run)
        return run

    def _kept(self, asked: Request, events: Iterator[Event]) -> Iterator[Event]:
        """Pass events on, and keep the response that they end with."""
        for event in events:
            if isinstance(event, TerminalEvent):
                self.store.keep(asked, event.response)
            yield event

    # streaming

    async def _follow(self, request: web.Request, run: Run, after: int) -> web.StreamResponse:
        if EXCHANGE.get().as_json:
            return json_answer(run.response)
        with self.streams.open(request, run.response.id) as gate:
            return await self._write(request, self._frames(run.follow(after), lambda: run.whole), gate)

    def _frames(self, events: Iterable[Event | Pause], whole: Callable[[], bool] = lambda: True) -> Steps:
        """Turn events into frames; a stream that ends too early has no `[DONE]`."""
        terminal = EXCHANGE.get().terminal
        for step in events:
            if not isinstance(step, Event):
                yield step
            elif terminal or not isinstance(step, TerminalEvent):
                yield frame_of(step, event_line=self._manner.event_lines)
        if self._manner.done and whole():
            yield DONE

    async def _write(self, request: web.Request, steps: Steps, gate: asyncio.Event) -> web.StreamResponse:
        return await Stream(request, self._manner.chunk_bytes).write(EXCHANGE.get().apply(steps, gate.wait))

    async def stop(self) -> None:
        """Break off the streams that are open, and the responses in the background."""
        self.streams.abort()
        for task in self._runs:
            task.cancel()
        await asyncio.gather(*self._runs, return_exceptions=True)


def json_answer(value: object, status: int = 200, allow: str | None = None) -> web.Response:
    """Make an answer in JSON.

    Args:
        value: The value; models are written the way a server sends them.
        status: The HTTP status.
        allow: The header `Allow`.
    """
    headers = {} if allow is None else {"Allow": allow}
    return web.Response(body=json_bytes(value), status=status, headers=headers, content_type="application/json")


def _last(events: Iterable[Event]) -> Response:
    """Play everything, and take the response of the terminal."""
    *_, terminal = events
    assert isinstance(terminal, TerminalEvent)
    return terminal.response
