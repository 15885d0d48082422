"""The contenders: each one reads the chunks of a stream in its own way, to the number of events and the final text.

Every contender does the same with an event: it counts it, and keeps the delta of a text delta. Who accumulates anyway
(we, and the helper of openai) says its own final text too, which must be the same. A contender whose package is not
installed raises ImportError when it is made, never while it reads.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, get_args

if TYPE_CHECKING:
    import openai
    from openai.types.responses import ResponseStreamEvent

    from orx_rx.models.event_base import Event

Read = Callable[[Sequence[bytes]], tuple[int, str]]
"""Reads a stream: the number of its events, and its text."""

_DELTA = "response.output_text.delta"
_HEADERS = {"content-type": "text/event-stream"}


def orx_rx() -> Read:
    """Make our chain: five composed operators between a cold observable of chunks and one subscriber."""
    import reactivex

    from orx_rx import operators as ops
    from orx_rx.models import ResponseCompletedEvent, ResponseTextDeltaEvent

    def read(chunks: Sequence[bytes]) -> tuple[int, str]:
        events = 0
        pieces: list[str] = []
        final = ""

        def on_next(event: Event) -> None:
            nonlocal events, final
            events += 1
            if isinstance(event, ResponseTextDeltaEvent):
                pieces.append(event.delta)
            elif isinstance(event, ResponseCompletedEvent):
                final = event.response.output_text

        reactivex.from_iterable(chunks).pipe(
            ops.frame(),
            ops.decode(),
            ops.sequence_check(),
            ops.lifecycle_guard(),
            ops.accumulate(),
        ).subscribe(on_next)
        return events, _same("".join(pieces), final)

    return read


def openai_raw() -> Read:
    """Make the event stream of the openai package, `responses.create(stream=True)`."""
    chunks_of, client = _openai()

    def read(chunks: Sequence[bytes]) -> tuple[int, str]:
        chunks_of[:] = chunks
        return _drain(client.responses.create(model="story", input="Tell me one", stream=True))

    return read


def openai_helper() -> Read:
    """Make the helper of the openai package, `responses.stream()`, which accumulates as we do."""
    chunks_of, client = _openai()

    def read(chunks: Sequence[bytes]) -> tuple[int, str]:
        events = 0
        pieces: list[str] = []
        chunks_of[:] = chunks
        with client.responses.stream(model="story", input="Tell me one") as stream:
            for event in stream:
                events += 1
                if event.type == "response.output_text.delta":
                    pieces.append(event.delta)
            final = stream.get_final_response().output_text
        return events, _same("".join(pieces), final)

    return read


def openai_discriminated() -> Read:
    """Make what the raw stream of openai would be if it kept the discriminator of its union: what a fix might bring.

    The package validates the bare union, all of its members for every event. Behind an alias of a type it does not see
    that there is a union, and hands the alias to pydantic as it is; here it stands for the same union with the
    discriminator that the package itself names. Nothing is patched.
    """
    from openai import Stream
    from openai.types.responses import ResponseStreamEvent
    from pydantic import Field
    from typing_extensions import TypeAliasType

    union: Any = Annotated[get_args(ResponseStreamEvent)[0], Field(discriminator="type")]
    alias: Any = TypeAliasType  # not a type of its own, since no type checker can see what is made here
    streams: Any = Stream
    stream_cls: type[Stream[ResponseStreamEvent]] = streams[alias("Discriminated", union)]
    chunks_of, client = _openai()

    def read(chunks: Sequence[bytes]) -> tuple[int, str]:
        chunks_of[:] = chunks
        body = {"model": "story", "input": "Tell me one", "stream": True}
        return _drain(client.post("/responses", cast_to=object, body=body, stream=True, stream_cls=stream_cls))

    return read


def openresponses_strict() -> Read:
    """Make the event stream of openresponses-py, strict as it is by default."""
    import httpx
    from openresponses import OpenResponses
    from openresponses.streaming import ResponseStream

    chunks_of: list[bytes] = []
    client = OpenResponses(api_key="none", http_client=httpx.Client(transport=_transport(httpx, chunks_of)))

    def read(chunks: Sequence[bytes]) -> tuple[int, str]:
        events = 0
        pieces: list[str] = []
        chunks_of[:] = chunks
        stream = client.responses.create({"model": "story", "input": "Tell me one", "stream": True})
        assert isinstance(stream, ResponseStream)
        for event in stream:
            events += 1
            if event.type == _DELTA:
                pieces.append(event.delta)
        return events, "".join(pieces)

    return read


def httpx_sse_and_json() -> Read:
    """Make what many write themselves: httpx-sse for the frames, json for the data, no types and no checks."""
    import json

    import httpx
    from httpx_sse import EventSource

    def read(chunks: Sequence[bytes]) -> tuple[int, str]:
        events = 0
        pieces: list[str] = []
        response = httpx.Response(200, headers=_HEADERS, content=iter(chunks))
        for frame in EventSource(response).iter_sse():
            if frame.data == "[DONE]":
                break
            event = json.loads(frame.data)
            events += 1
            if event["type"] == _DELTA:
                pieces.append(event["delta"])
        return events, "".join(pieces)

    return read


def split_and_orjson() -> Read:
    """Make the limit: the least that Python can do, which knows one form of frames and checks nothing."""
    import orjson

    def read(chunks: Sequence[bytes]) -> tuple[int, str]:
        events = 0
        pieces: list[str] = []
        rest = b""
        for chunk in chunks:
            *frames, rest = (rest + chunk).split(b"\n\n")
            for frame in frames:
                data = frame.partition(b"data: ")[2]
                if data == b"[DONE]":
                    break
                event = orjson.loads(data)
                events += 1
                if event["type"] == _DELTA:
                    pieces.append(event["delta"])
        return events, "".join(pieces)

    return read


OURS = "orx_rx, five operators"

CONTENDERS: Mapping[str, Callable[[], Read]] = {
    OURS: orx_rx,
    "openai raw": openai_raw,
    "openai helper": openai_helper,
    "openai raw, if discriminated": openai_discriminated,
    "openresponses-py strict": openresponses_strict,
    "httpx-sse + json.loads": httpx_sse_and_json,
    "limit: split + orjson": split_and_orjson,
}
"""Every contender by its name: a function that makes it, or raises ImportError where it is not installed."""


def _same(text: str, final: str) -> str:
    assert text == final, f"expected {len(text)} characters as streamed, got {len(final)} accumulated"
    return text


def _drain(stream: Iterator[ResponseStreamEvent]) -> tuple[int, str]:
    events = 0
    pieces: list[str] = []
    for event in stream:
        events += 1
        if event.type == "response.output_text.delta":
            pieces.append(event.delta)
    return events, "".join(pieces)


def _openai() -> tuple[list[bytes], openai.OpenAI]:
    """Make a client of openai that reads every stream from a list instead of from a socket."""
    from openai import DefaultHttpxClient, OpenAI

    http = importlib.import_module(str(DefaultHttpxClient.__base__.__module__))  # httpx, or httpx2 in newer versions
    chunks: list[bytes] = []
    client = DefaultHttpxClient(transport=_transport(http, chunks))
    return chunks, OpenAI(api_key="none", http_client=client, max_retries=0)


def _transport(http: Any, chunks: list[bytes]) -> Any:
    def answer(_: object) -> Any:
        return http.Response(200, headers=_HEADERS, content=iter(chunks))

    return http.MockTransport(answer)
