"""How checks ask a server: every request once, what it costs is counted, and what several look at is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast
from uuid import uuid4

from orx_rx.aio import iterate
from orx_rx.errors import OrxError, RateLimited, StatusError, StreamTimeout
from orx_rx.http.source import EVENT_STREAM, JSON, body_chunks, to_json
from orx_rx.protocol.conformance import Conformance
from orx_rx.wire import FrameParser

if TYPE_CHECKING:
    from reactivex import Observable

    from orx_rx.http.client import Client
    from orx_rx.models.response import Response
    from orx_rx.protocol.conformance import Report

CUT_AFTER = 3
"""After how many events the stream of the background response is cut: queued or created, and a few behind them."""


class Failed(Exception):
    """Raised when what the server did is not what was expected.

    Args:
        got: What it did.
        effect: What a client suffers, where the check alone does not tell.
    """

    def __init__(self, got: str, effect: str = "") -> None:
        super().__init__(got)
        self.effect = effect


class Skipped(Exception):
    """Raised when what was to be looked at is not there."""


def said(error: Exception) -> str:
    """Say what was raised."""
    return str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"


@dataclass
class Heard:
    """What came of a stream.

    Attributes:
        report: The report of it.
        payloads: The events as JSON objects.
        response: The response so far.
        lingered: Seconds from its last event to its end; None where we left.
    """

    report: Report
    payloads: list[Mapping[str, Any]]
    response: Response | None
    lingered: float | None = None


@dataclass
class Background:
    """The background response.

    Attributes:
        response_id: Its id.
        before: The events before the cut.
        rest: What came of the stream that goes on behind it, or why nothing came.
        ended: Whether it is known to have ended.
    """

    response_id: str
    before: list[Mapping[str, Any]]
    rest: Heard | Exception = field(default_factory=lambda: Skipped("nothing was asked for"))
    ended: bool = False


class Probe:
    """Asks one server, counts what that may cost, and keeps what several checks look at."""

    def __init__(self, client: Client, fields: Mapping[str, object], timeout: float) -> None:
        self.client = client
        self.fields = fields
        self.timeout = timeout
        self.paid: int = 0
        self.heard: list[Report] = []
        self._stream: Heard | Exception | None = None
        self._background: Background | Exception | None = None

    @property
    def stream(self) -> Heard:
        """The stream that is shared; only asked for when it is there."""
        assert isinstance(self._stream, Heard)
        return self._stream

    @property
    def background(self) -> Background:
        """The background response; only asked for when it is there."""
        assert isinstance(self._background, Background)
        return self._background

    async def prepare(self, what: Literal["stream", "background"]) -> Exception | None:
        """Make sure that something shared is there, once; say why it is not."""
        if what == "stream":
            if self._stream is None:
                self._stream = await _caught(self.create())
            return self._stream if isinstance(self._stream, Exception) else None
        if self._background is None:
            self._background = await _caught(self._begin())
        return self._background if isinstance(self._background, Exception) else None

    async def _begin(self) -> Background:
        """Create a background response, cut its stream, and go on behind the cut."""
        try:
            heard = await self.create(CUT_AFTER, background=True, store=True)
        except RateLimited:
            raise
        except StatusError as error:
            if error.status >= 500:
                raise
            raise Skipped(f"the server refuses background responses: {said(error)}") from None
        response = heard.response
        if response is None or not response.id:
            raise Failed("no response with an id")
        if response.background is not True:
            raise Skipped("the server answers background=true in the foreground")
        background = self._background = Background(response.id, heard.payloads)
        last = numbers_of(heard.payloads)[-1:]
        if last:
            background.rest = await _caught(self.retrieve_stream(response.id, last[0]))
        else:
            background.rest = Failed("events without sequence numbers")
        background.ended = isinstance(background.rest, Heard) and background.rest.report.terminal is not None
        return background

    async def clean(self) -> None:
        """Cancel what would go on in the background."""
        if isinstance(self._background, Background) and not self._background.ended:
            with suppress(OrxError, TimeoutError):
                async with asyncio.timeout(self.timeout):
                    await self.client.cancel(self._background.response_id)

    async def create(self, most: int | None = None, *, without: str = "", key: str = "", **fields: object) -> Heard:
        """Create a response and read its stream.

        Args:
            most: After how many events to leave; None for never.
            without: A field to leave out.
            key: An idempotency key.
            **fields: Fields of the request.
        """
        asked = {**self.fields, **fields, "stream": True}
        asked.pop(without, None)
        self.paid += 1
        headers = {"Idempotency-Key": key or f"orx-{uuid4()}"}
        return await self._read(self.send("POST", "/responses", EVENT_STREAM, to_json(asked), headers=headers), most)

    async def retrieve_stream(self, response_id: str, after: int | None = None) -> Heard:
        """Read the stream of a background response, from its beginning or behind an event."""
        params = {"stream": "true"} | ({} if after is None else {"starting_after": str(after)})
        return await self._read(self.send("GET", f"/responses/{response_id}", EVENT_STREAM, params=params), None)

    async def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Ask for an answer in JSON."""
        async with iterate(self.send(method, path, JSON, body)) as reading:
            return b"".join([chunk async for chunk in reading])

    def send(
        self,
        method: str,
        path: str,
        media_type: str,
        body: bytes | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Observable[bytes]:
        """Send a request as the client would, once, and whatever it holds."""
        client = self.client
        more = {"Accept": media_type, "Accept-Encoding": "identity", **(headers or {})}
        content = {} if body is None else {"Content-Type": JSON}
        return body_chunks(
            client._session,  # pyright: ignore[reportPrivateUsage]
            method,
            client.base_url + path,
            media_type,
            headers=client._all_headers({**content, **more}),  # pyright: ignore[reportPrivateUsage]
            body=body,
            params=params,
            proxy=client._proxy,  # pyright: ignore[reportPrivateUsage]
            timeouts=client._timeouts,  # pyright: ignore[reportPrivateUsage]
        )

    async def _read(self, chunks: Observable[bytes], most: int | None) -> Heard:
        """Read a stream to its end, as far as it comes within the time; a break is told by its report."""
        loop = asyncio.get_running_loop()
        conformance, parser = Conformance(started=loop.time()), FrameParser()
        payloads: list[Mapping[str, Any]] = []
        failure: Exception | None = None
        came = loop.time()
        begun = left = False
        try:
            async with asyncio.timeout(self.timeout), iterate(chunks) as reading:
                async for chunk in reading:
                    begun = True
                    conformance.feed(chunk, loop.time())
                    found = [payload for frame in parser.feed(chunk) if (payload := object_in(frame.data)) is not None]
                    came = loop.time() if found else came
                    payloads += found
                    if most is not None and len(payloads) >= most:
                        left = True
                        break
        except TimeoutError:
            failure = StreamTimeout("duration", self.timeout)
        except OrxError as error:
            if not begun:
                raise
            failure = error
        report = conformance.end(failure, None if left else loop.time())
        if not left:
            self.heard.append(report)
        elif most is not None:
            del payloads[most:]
        if failure is not None and not begun:
            raise failure
        return Heard(report, payloads, conformance.response, None if left else loop.time() - came)


async def _caught(awaited: Awaitable[Any]) -> Any:
    """Take what is raised as the result."""
    try:
        return await awaited
    except Exception as error:
        return error


def object_in(data: bytes) -> Mapping[str, Any] | None:
    """Read a JSON object; None where it is none."""
    with suppress(ValueError, RecursionError):
        value: object = json.loads(data)
        if isinstance(value, dict):
            return cast("Mapping[str, Any]", value)
    return None


def inner(payload: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Find an object within an object; an empty one where there is none."""
    value = payload.get(name)
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def numbers_of(payloads: Sequence[Mapping[str, Any]]) -> list[int]:
    """Find the numbers of events."""
    return [number for payload in payloads if isinstance(number := payload.get("sequence_number"), int)]


def by_number(payloads: Sequence[Mapping[str, Any]]) -> dict[int, tuple[object, ...]]:
    """Find what of each event is the same whenever it is sent; padding against eavesdroppers is not."""
    same = ("type", "output_index", "delta", "text")
    return {
        number: tuple(payload.get(name) for name in same)
        for payload in payloads
        if isinstance(number := payload.get("sequence_number"), int)
    }
