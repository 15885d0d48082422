"""The simulator: a provider on loopback that speaks the Responses API."""

from __future__ import annotations

import asyncio
import hmac
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

from orx_rx.cassettes import read_cassette
from orx_rx.protocol.cassette import Cassette
from orx_rx.simulator.errors import ApiError
from orx_rx.simulator.failing import Closed, Exchange, Refused
from orx_rx.simulator.faults import Fault, FaultPlan
from orx_rx.simulator.provider import EXCHANGE, Manner, Provider, json_answer
from orx_rx.simulator.requests import read_body
from orx_rx.simulator.seen import SeenRequest, without_secrets
from orx_rx.simulator.streams import close
from orx_rx.simulator.threaded import ThreadedSimulator

if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from types import TracebackType

    from orx_rx.simulator.script import Scenario

_LARGEST_BODY = 64 * 1024 * 1024
_OFTEN = 0.02  # seconds between two looks at what changes by itself
_ONE = "/v1/responses/{id:(?!compact$)[^/]+}"  # there is no endpoint `compact`, and no response of that name


class Simulator:
    """A provider on loopback, with models that do what their names say.

    It speaks `POST /v1/responses`, as a stream and as one JSON object, `GET /v1/responses/{id}`, with `stream=true` and
    `starting_after` for responses in the background, and `POST /v1/responses/{id}/cancel`. Every answer is made from
    the request alone, and conforms to Open Responses; `SCENARIOS` lists the models. Use it as ::

        async with Simulator() as simulator:
            async with Client(base_url=simulator.base_url) as client:
                ...

    Args:
        scenarios: Scenarios besides `SCENARIOS`, by the name of the model; they win.
        cassettes: Recorded streams, as paths or as they were read, by the name of the model; they win over all
            scenarios. A request for a stream is answered with the same chunks, and the same end; whether the client
            gets them in the same pieces is up to the network, which may join what comes close together.
        speed: How much faster than recorded cassettes are played; None plays them without any waiting.
        api_key: The key that requests have to carry; None demands none.
        event_lines: Whether frames have an event line.
        done: Whether `[DONE]` ends a stream.
        chunk_bytes: The size of the pieces that a stream is written in, whatever they cut in two; None writes every
            frame in one piece. What is left over is written before every pause.
        pace: How long to wait after every frame, in seconds; a background response waits after every event.
        hold: After how many frames a stream pauses until `release()` is called, or after how many events a background
            response does; None never pauses.
        faults: What is to go wrong.
        host: The address to listen at.
        port: The port to listen at; 0 takes a free one.

    Attributes:
        requests: What came, in order.
        most_connections: How many connections there were at most when a request came.

    Raises:
        ValueError: A number is out of range.
        CassetteError: A cassette is damaged or cut off.
        OSError: A cassette cannot be read.
    """

    def __init__(
        self,
        *,
        scenarios: Mapping[str, Scenario] | None = None,
        cassettes: Mapping[str, Cassette | str | os.PathLike[str]] | None = None,
        speed: float | None = 1.0,
        api_key: str | None = None,
        event_lines: bool = True,
        done: bool = True,
        chunk_bytes: int | None = None,
        pace: float = 0.0,
        hold: int | None = None,
        faults: FaultPlan | Iterable[Fault] = (),
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        for name, value, least in (("chunk_bytes", chunk_bytes, 1), ("pace", pace, 0), ("hold", hold, 0)):
            if value is not None and value < least:
                raise ValueError(f"expected {name} of at least {least}, got {value}")
        if speed is not None and not 0 < speed < float("inf"):
            raise ValueError(f"expected speed to be None or above 0, got {speed}")
        self.requests: list[SeenRequest] = []
        self._faults = FaultPlan.of(faults)
        self.most_connections: int = 0
        self._api_key = api_key
        self._address = host, port
        manner = Manner(event_lines=event_lines, done=done, chunk_bytes=chunk_bytes, pace=pace, hold=hold, speed=speed)
        tapes = {
            model: tape if isinstance(tape, Cassette) else read_cassette(tape)
            for model, tape in (cassettes or {}).items()
        }
        self._provider = Provider(dict(scenarios or {}), tapes, manner, self._tell)
        self._answers = self._asked_streams = 0
        self._runner: web.AppRunner | None = None
        self._changed = asyncio.Event()

    @classmethod
    def in_thread(cls, **options: Any) -> ThreadedSimulator:
        """Make a simulator that runs in a thread, for code without an event loop, or with several.

        Use it as `with Simulator.in_thread() as simulator`.

        Args:
            **options: As for `Simulator`.

        Raises:
            ValueError: As for `Simulator`.
            CassetteError: As for `Simulator`.
            OSError: As for `Simulator`.
        """
        return ThreadedSimulator(cls(**options))

    def __repr__(self) -> str:
        """Say what it has seen; the key is not in it."""
        where = f"base_url={self.base_url!r}" if self._runner else "stopped"
        return (
            f"Simulator({where}, requests={len(self.requests)}, open_streams={self.open_streams}, "
            f"disconnects={self.disconnects})"
        )

    @property
    def faults(self) -> FaultPlan:
        """What is to go wrong from now on; a list of faults can be set as well."""
        return self._faults

    @faults.setter
    def faults(self, faults: FaultPlan | Iterable[Fault]) -> None:
        self._faults = FaultPlan.of(faults)

    @property
    def open_streams(self) -> int:
        """How many streams are being written."""
        return self._provider.streams.count

    @property
    def blocked_streams(self) -> int:
        """How many streams are not written on because their client does not read, and every buffer between is full."""
        return self._provider.streams.blocked

    @property
    def disconnects(self) -> int:
        """How many clients went away before the end of their stream."""
        return self._provider.streams.disconnects

    @property
    def overlaps(self) -> int:
        """How often a stream of a response began while another one of the same response was open."""
        return self._provider.streams.overlaps

    @property
    def connections(self) -> int:
        """How many connections there are."""
        return len(self._runner.server.connections) if self._runner and self._runner.server else 0

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
        app.router.add_post("/v1/responses", self._provider.create)
        app.router.add_get(_ONE, self._provider.retrieve, allow_head=False)
        app.router.add_post("/v1/responses/{id}/cancel", self._provider.cancel)
        app.on_response_prepare.append(self._identify)
        # cancellation tells of a client that goes away while nothing is being written to it
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, *self._address).start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Break off the streams that are open and the responses in the background, and stop listening."""
        runner, self._runner = self._runner, None
        await self._provider.stop()
        if runner is not None:
            await runner.cleanup()

    def release(self) -> None:
        """Let the streams and background responses that have begun go on; those that begin later pause again."""
        self._provider.streams.release()
        self._provider.store.release()

    def expire(self, response_id: str) -> None:
        """Make a background response too old to be streamed, as it is after five minutes; it can still be retrieved.

        Raises:
            LookupError: There is no such response.
        """
        self._provider.store.expire(response_id)

    def forget(self, response_id: str) -> None:
        """Forget a response, so that it is not found any more.

        Raises:
            LookupError: There is no such response.
        """
        self._provider.store.forget(response_id)

    def status_of(self, response_id: str) -> str | None:
        """Say how a response stands; None where none is kept."""
        with suppress(ApiError):
            return self._provider.store.response(response_id).status
        return None

    async def wait_for(self, condition: Callable[[Simulator], object], *, timeout: float = 5.0) -> None:
        """Wait until something is true of the simulator.

        Args:
            condition: Says whether it is, such as `lambda s: s.disconnects == 1`; asked again at every change,
                and now and then.
            timeout: How long to wait, in seconds.

        Raises:
            TimeoutError: It did not become true in time.
        """
        try:
            async with asyncio.timeout(timeout):
                while not condition(self):
                    # connections end without a change that we hear of
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), _OFTEN)
        except TimeoutError:
            raise TimeoutError(f"expected the condition to hold within {timeout} s, got {self!r}") from None

    # answering

    @web.middleware
    async def _answer(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Record a request, check its key, and turn what goes wrong into an answer."""
        try:
            exchange = self._record(request, await request.read())
            EXCHANGE.set(exchange)
            exchange.begin()
            self._authorize(request)
            return await handler(request)
        except ApiError as error:
            return json_answer(error.body, error.status)
        except web.HTTPException as error:
            message = f"{error.reason}: {request.method} {request.path}"
            return json_answer(ApiError(error.status, message).body, error.status, error.headers.get("Allow"))
        except Refused as refused:
            return web.Response(status=refused.status, headers=refused.headers, body=refused.body)
        except Closed as closed:
            return await close(closed.kind, request, web.StreamResponse())
        except ConnectionError:  # the client left while something was written to it: the end, and no failure of ours
            return web.StreamResponse()

    def _record(self, request: web.Request, data: bytes) -> Exchange:
        body = None
        with suppress(ApiError):
            body = read_body(data)
        headers, query = without_secrets(request.headers), without_secrets(request.query)
        seen = SeenRequest(request.method, request.path, query, headers, body)
        number, connection = len(self.requests), self._asked_streams if seen.wants_stream else None
        self._asked_streams += seen.wants_stream
        self.requests.append(seen)
        self.most_connections = max(self.most_connections, self.connections)
        self._tell()
        return Exchange(self.faults.concerning(connection, number, request.method), request.match_info.get("id", ""))

    def _authorize(self, request: web.Request) -> None:
        if self._api_key is None:
            return
        given = request.headers.get("Authorization", "")
        if not given:
            raise ApiError(401, "Expected an API key as bearer token, got none.")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), f"Bearer {self._api_key}".encode()):
            raise ApiError(401, "Incorrect API key provided.", code="invalid_api_key")

    async def _identify(self, request: web.Request, response: web.StreamResponse) -> None:
        if request.transport is None or request.transport.is_closing():
            return  # nobody is there to be answered
        self._answers += 1
        response.headers["x-request-id"] = f"req_{self._answers:04d}"

    def _tell(self) -> None:
        """Wake up whoever waits for a change."""
        self._changed.set()
        self._changed = asyncio.Event()
