"""The clients over a socket: each one reads streams in its own way, every event of them.

Everybody does the same with an event: it counts it, and keeps the delta of a text delta. Those that read bytes count
those. Nobody is held back by limits that are made for other uses: connections, pools and retries are set as somebody
would set them who reads a thousand streams at a time. A client whose package is not installed raises ImportError when
it is opened, never while it reads.
"""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import openai

    from orx_rx.models.event_base import Event

REQUEST: Mapping[str, Any] = {"model": "story", "input": "Tell me one"}

_DELTA = "response.output_text.delta"


class Heard:
    """What somebody heard of one stream.

    Attributes:
        events: How many events.
        size: How many bytes, of those who read bytes.
        pieces: The text deltas.
        final: The text of the final response, of those who accumulate.
        first: When the first event, or the first byte, was there.
    """

    def __init__(self) -> None:
        self.events: int = 0
        self.size: int = 0
        self.pieces: list[str] = []
        self.final: str | None = None
        self.first: float = 0.0

    def take(self, delta: str | None) -> None:
        """Take an event."""
        if not self.events:
            self.first = time.perf_counter()
        self.events += 1
        if delta is not None:
            self.pieces.append(delta)

    def take_bytes(self, chunk: bytes) -> None:
        """Take bytes."""
        if not self.size:
            self.first = time.perf_counter()
        self.size += len(chunk)


Read = Callable[[Heard], Awaitable[None]]
"""Asks for a stream, and reads it to its end."""


@asynccontextmanager
async def subscribed(base_url: str) -> AsyncGenerator[Read]:
    """Open ours, with a subscriber: the chain of operators as it comes out of `Client.events`."""
    from orx_rx import Client

    async with Client(base_url=base_url, api_key="none") as client:

        async def read(heard: Heard) -> None:
            done = asyncio.get_running_loop().create_future()
            client.events(**REQUEST).subscribe(taker(heard), done.set_exception, lambda: done.set_result(None))
            await done

        yield read


@asynccontextmanager
async def iterated(base_url: str) -> AsyncGenerator[Read]:
    """Open ours, and read with `async for`."""
    from orx_rx import Client, iterate

    async with Client(base_url=base_url, api_key="none") as client:

        async def read(heard: Heard) -> None:
            take = taker(heard)
            async with iterate(client.events(**REQUEST)) as events:
                async for event in events:
                    take(event)

        yield read


def taker(heard: Heard) -> Callable[[Event], None]:
    """Make a subscriber of our events."""
    from orx_rx.models import ResponseCompletedEvent, ResponseTextDeltaEvent

    def take(event: Event) -> None:
        heard.take(event.delta if isinstance(event, ResponseTextDeltaEvent) else None)
        if isinstance(event, ResponseCompletedEvent):
            heard.final = event.response.output_text

    return take


@asynccontextmanager
async def raw_chunks(base_url: str) -> AsyncGenerator[Read]:
    """Open ours, without any operator: `Client.chunks`."""
    from orx_rx import Client

    async with Client(base_url=base_url, api_key="none") as client:

        async def read(heard: Heard) -> None:
            done = asyncio.get_running_loop().create_future()
            client.chunks(**REQUEST).subscribe(heard.take_bytes, done.set_exception, lambda: done.set_result(None))
            await done

        yield read


@asynccontextmanager
async def aiohttp_bytes(base_url: str) -> AsyncGenerator[Read]:
    """Open the limit: what aiohttp costs alone."""
    import aiohttp

    body = {**REQUEST, "stream": True}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
    ) as session:

        async def read(heard: Heard) -> None:
            async with session.post(f"{base_url}/responses", json=body) as response:
                while chunk := await response.content.readany():
                    heard.take_bytes(chunk)

        yield read


@asynccontextmanager
async def openai_raw(base_url: str) -> AsyncGenerator[Read]:
    """Open the asynchronous client of openai: `responses.create(stream=True)`."""
    async with _openai(base_url) as client:

        async def read(heard: Heard) -> None:
            async for event in await client.responses.create(**REQUEST, stream=True):
                heard.take(event.delta if event.type == "response.output_text.delta" else None)

        yield read


@asynccontextmanager
async def openai_helper(base_url: str) -> AsyncGenerator[Read]:
    """Open the helper of openai, `responses.stream()`, which accumulates as we do."""
    async with _openai(base_url) as client:

        async def read(heard: Heard) -> None:
            async with client.responses.stream(**REQUEST) as stream:
                async for event in stream:
                    heard.take(event.delta if event.type == "response.output_text.delta" else None)
                heard.final = (await stream.get_final_response()).output_text

        yield read


def _openai(base_url: str) -> openai.AsyncOpenAI:
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    http = importlib.import_module(
        str(DefaultAsyncHttpxClient.__base__.__module__)
    )  # httpx, or httpx2 in newer versions
    client = DefaultAsyncHttpxClient(limits=http.Limits(), timeout=None)
    return AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0, http_client=client)


@asynccontextmanager
async def openresponses_strict(base_url: str) -> AsyncGenerator[Read]:
    """Open the asynchronous client of openresponses-py, strict as it is by default."""
    import httpx
    from openresponses import AsyncOpenResponses
    from openresponses.streaming import AsyncResponseStream

    http = httpx.AsyncClient(limits=httpx.Limits(), timeout=None)
    async with AsyncOpenResponses(base_url=base_url, api_key="none", timeout=3600, http_client=http) as client:

        async def read(heard: Heard) -> None:
            stream = await client.responses.create({**REQUEST, "stream": True})
            assert isinstance(stream, AsyncResponseStream)
            async for event in stream:
                heard.take(event.delta if event.type == _DELTA else None)

        yield read


@asynccontextmanager
async def httpx_sse_and_json(base_url: str) -> AsyncGenerator[Read]:
    """Open what many write themselves: httpx-sse for the frames, json for the data, no types and no checks."""
    import json

    import httpx
    from httpx_sse import aconnect_sse

    body = {**REQUEST, "stream": True}
    async with httpx.AsyncClient(limits=httpx.Limits(), timeout=None) as client:

        async def read(heard: Heard) -> None:
            async with aconnect_sse(client, "POST", f"{base_url}/responses", json=body) as source:
                async for frame in source.aiter_sse():
                    if frame.data != "[DONE]":
                        event = json.loads(frame.data)
                        heard.take(event["delta"] if event["type"] == _DELTA else None)

        yield read


OURS = "orx_rx, events"

CLIENTS: Mapping[str, Callable[[str], AbstractAsyncContextManager[Read]]] = {
    OURS: subscribed,
    "orx_rx, iterate": iterated,
    "orx_rx, chunks (bytes)": raw_chunks,
    "limit: aiohttp (bytes)": aiohttp_bytes,
    "openai raw": openai_raw,
    "openai helper": openai_helper,
    "openresponses-py strict": openresponses_strict,
    "httpx-sse + json.loads": httpx_sse_and_json,
}
"""Every client by its name: a function that takes a base URL and opens it."""
