"""The contenders: each one reads a stream in its own way, to the number of its events and the text of its deltas.

Every contender does the same with an event: it counts it, and keeps its delta if it is one of those that the stream is
about. Who accumulates anyway (we, and the helper of openai) says its own final text too, which must be the same. A
contender whose package is not installed raises ImportError when it is made, never while it reads.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args
from weakref import finalize

from benchmarks.workload import ARGUMENTS, SUMMARY, TEXT, Workload

if TYPE_CHECKING:
    import openai
    from openai.types.responses import ResponseStreamEvent
    from openresponses import OpenResponses
    from reactivex import Observable

    from orx_rx import Frame, Operator
    from orx_rx.models.event_base import Event

Read = Callable[[Workload], tuple[int, str]]
"""Reads a stream: the number of its events, and its text."""

_HEADERS = {"content-type": "text/event-stream"}


class Tally:
    """What every contender does with an event, where it calls a function for each.

    Args:
        stream: What is read.
    """

    def __init__(self, stream: Workload) -> None:
        self.events = 0
        self.pieces: list[str] = []
        self._delta = stream.delta
        self._said = _SAID[stream.delta] if stream.is_told else None
        self._final: str | None = None

    def take(self, event: Any) -> None:
        """Count an event, and keep its delta."""
        self.events += 1
        if event.type == self._delta:
            self.pieces.append(event.delta)
        elif event.type == "response.completed" and self._said is not None:
            self._final = self._said(event.response)

    def told(self) -> tuple[int, str]:
        """Tell what was read."""
        text = "".join(self.pieces)
        return self.events, text if self._said is None else _same(text, self._final or "")


def chain(chunks: Observable[bytes], *more: Operator[Frame, Frame]) -> Observable[Event]:
    """Compose our five operators.

    Args:
        chunks: The bytes.
        more: What else is to stand between `frame` and `decode`.
    """
    from orx_rx import operators as ops

    return chunks.pipe(ops.frame(), *more).pipe(
        ops.decode(),
        ops.sequence_check(),
        ops.lifecycle_guard(),
        ops.accumulate(),
    )


def orx_rx() -> Read:
    """Make our chain: five composed operators between a cold observable of chunks and one subscriber."""
    import reactivex

    def read(stream: Workload) -> tuple[int, str]:
        tally = Tally(stream)
        chain(reactivex.from_iterable(stream.chunks)).subscribe(tally.take)
        return tally.told()

    return read


def orx_rx_fan_out() -> Read:
    """Make our chain with a sixth operator, which shares the stream and keeps all of it for who comes late."""
    import reactivex

    from orx_rx import operators as ops

    def read(stream: Workload) -> tuple[int, str]:
        tally = Tally(stream)
        chain(reactivex.from_iterable(stream.chunks)).pipe(ops.fan_out()).subscribe(tally.take)
        return tally.told()

    return read


def orx_rx_iterate() -> Read:
    """Make our chain behind an `async for` in an event loop, which turns once for every chunk, as with a socket."""
    import asyncio

    from reactivex import Observable, abc
    from reactivex.disposable import Disposable

    from orx_rx import iterate
    from orx_rx.flow import current_flow

    runner = asyncio.Runner()

    def source(chunks: Sequence[bytes]) -> Observable[bytes]:
        def subscribe(observer: abc.ObserverBase[bytes], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            flow = current_flow()
            assert flow is not None
            flow.heed()

            async def push() -> None:
                for chunk in chunks:
                    observer.on_next(chunk)
                    await asyncio.sleep(0)
                    if flow.is_paused:
                        await flow.ready()
                observer.on_completed()

            task = asyncio.get_running_loop().create_task(push())

            def cancel() -> None:
                task.cancel()

            return Disposable(cancel)

        return Observable(subscribe)

    async def consume(stream: Workload) -> tuple[int, str]:
        tally = Tally(stream)
        take = tally.take
        async with iterate(chain(source(stream.chunks))) as reading:
            async for event in reading:
                take(event)
        return tally.told()

    def read(stream: Workload) -> tuple[int, str]:
        return runner.run(consume(stream))

    finalize(read, runner.close)  # the loop lives as long as who reads in it
    return read


def openai_raw() -> Read:
    """Make the event stream of the openai package, `responses.create(stream=True)`."""
    chunks_of, client = openai_client()

    def read(stream: Workload) -> tuple[int, str]:
        chunks_of[:] = stream.chunks
        return _drain(stream, client.responses.create(model="story", input="Tell me one", stream=True))

    return read


def openai_helper() -> Read:
    """Make the helper of the openai package, `responses.stream()`, which accumulates as we do."""
    chunks_of, client = openai_client()

    def read(stream: Workload) -> tuple[int, str]:
        chunks_of[:] = stream.chunks
        with client.responses.stream(model="story", input="Tell me one") as events:
            read = _drain(stream, events)
            if stream.is_told:
                _same(read[1], _SAID[stream.delta](events.get_final_response()))
        return read

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
    chunks_of, client = openai_client()

    def read(stream: Workload) -> tuple[int, str]:
        chunks_of[:] = stream.chunks
        body = {"model": "story", "input": "Tell me one", "stream": True}
        return _drain(stream, client.post("/responses", cast_to=object, body=body, stream=True, stream_cls=stream_cls))

    return read


def openresponses_strict() -> Read:
    """Make the event stream of openresponses-py, strict as it is by default."""
    from openresponses.streaming import ResponseStream

    chunks_of, client = openresponses_client()

    def read(stream: Workload) -> tuple[int, str]:
        chunks_of[:] = stream.chunks
        events = client.responses.create({"model": "story", "input": "Tell me one", "stream": True})
        assert isinstance(events, ResponseStream)
        return _drain(stream, events)

    return read


def httpx_sse_and_json() -> Read:
    """Make what many write themselves: httpx-sse for the frames, json for the data, no types and no checks."""
    import json

    import httpx
    from httpx_sse import EventSource

    def read(stream: Workload) -> tuple[int, str]:
        events = 0
        pieces: list[str] = []
        delta = stream.delta
        response = httpx.Response(200, headers=_HEADERS, content=iter(stream.chunks))
        for frame in EventSource(response).iter_sse():
            if frame.data == "[DONE]":
                break
            event = json.loads(frame.data)
            events += 1
            if event["type"] == delta:
                pieces.append(event["delta"])
        return events, "".join(pieces)

    return read


def split_and_orjson() -> Read:
    """Make the limit: the least that Python can do, which knows one form of frames and checks nothing."""
    import orjson

    def read(stream: Workload) -> tuple[int, str]:
        events = 0
        pieces: list[str] = []
        delta = stream.delta
        for data in _split(stream.chunks):
            event = orjson.loads(data)
            events += 1
            if event["type"] == delta:
                pieces.append(event["delta"])
        return events, "".join(pieces)

    return read


def split_and_msgspec() -> Read:
    """Make the limit with types: as above, but into a tagged union of structs that know a few fields each."""
    msgspec: Any = importlib.import_module("msgspec")
    place: list[tuple[str, Any]] = [("output_index", int), ("item_id", str)]
    content: list[tuple[str, Any]] = [*place, ("content_index", int), ("logprobs", list[Any])]
    fields: dict[str, list[tuple[str, Any]]] = {
        **{f"response.{name}": [("response", dict[str, Any])] for name in ("created", "in_progress", "completed")},
        **{f"response.output_item.{name}": [("output_index", int), ("item", dict[str, Any])] for name in _ENDS},
        **{f"response.content_part.{name}": [*place, ("content_index", int), ("part", Any)] for name in _ENDS},
        **{f"response.reasoning_summary_part.{name}": [*place, ("part", Any)] for name in _ENDS},
        TEXT: [*content, ("delta", str)],
        "response.output_text.done": [*content, ("text", str)],
        ARGUMENTS: [*place, ("delta", str)],
        "response.function_call_arguments.done": [*place, ("arguments", str)],
        SUMMARY: [*place, ("summary_index", int), ("delta", str)],
        "response.reasoning_summary_text.done": [*place, ("summary_index", int), ("text", str)],
    }
    structs: dict[str, Any] = {
        type_: msgspec.defstruct(f"Event{number}", [("sequence_number", int), *row], tag_field="type", tag=type_)
        for number, (type_, row) in enumerate(fields.items())
    }
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(Union[tuple(structs.values())]).decode  # noqa: UP007

    def read(stream: Workload) -> tuple[int, str]:
        events = 0
        pieces: list[str] = []
        wanted = structs[stream.delta]
        for data in _split(stream.chunks):
            event = decode(data)
            events += 1
            if type(event) is wanted:
                pieces.append(event.delta)
        return events, "".join(pieces)

    return read


def _split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Find the data of frames that have one event line and one data line, and end with two LF."""
    rest = b""
    for chunk in chunks:
        *frames, rest = (rest + chunk).split(b"\n\n")
        for frame in frames:
            data = frame.partition(b"data: ")[2]
            if data == b"[DONE]":
                return
            yield data


OURS, ITERATE = "orx_rx, five operators", "orx_rx, read with iterate"
RAW, HELPER, WHAT_IF = "openai raw", "openai helper", "openai raw, if discriminated"
STRICT = "openresponses-py strict"
UNTYPED = "httpx-sse + json.loads"
LIMIT, TYPED_LIMIT = "limit: split + orjson", "limit: split + msgspec"

CONTENDERS: Mapping[str, Callable[[], Read]] = {
    OURS: orx_rx,
    ITERATE: orx_rx_iterate,
    "orx_rx, with fan_out as well": orx_rx_fan_out,
    RAW: openai_raw,
    HELPER: openai_helper,
    WHAT_IF: openai_discriminated,
    STRICT: openresponses_strict,
    UNTYPED: httpx_sse_and_json,
    LIMIT: split_and_orjson,
    TYPED_LIMIT: split_and_msgspec,
}
"""Every contender by its name: a function that makes it, or raises ImportError where it is not installed."""


_ENDS = ("added", "done")

_SAID: Mapping[str, Callable[[Any], str]] = {
    TEXT: lambda response: response.output_text,
    ARGUMENTS: lambda response: "".join(item.arguments for item in response.output),
    SUMMARY: lambda response: "".join(part.text for item in response.output for part in item.summary),
}
"""Finds in a response what the deltas of a type add up to."""


def _same(text: str, final: str) -> str:
    assert text == final, f"expected {len(text)} characters as streamed, got {len(final)} accumulated"
    return text


def _drain(stream: Workload, read: Iterable[Any]) -> tuple[int, str]:
    events = 0
    pieces: list[str] = []
    delta = stream.delta
    for event in read:
        events += 1
        if event.type == delta:
            pieces.append(event.delta)
    return events, "".join(pieces)


def openai_client() -> tuple[list[bytes], openai.OpenAI]:
    """Make a client of openai that reads every stream from a list instead of from a socket."""
    from openai import DefaultHttpxClient, OpenAI

    http = importlib.import_module(str(DefaultHttpxClient.__base__.__module__))  # httpx, or httpx2 in newer versions
    chunks: list[bytes] = []
    client = DefaultHttpxClient(transport=_transport(http, chunks))
    return chunks, OpenAI(api_key="none", http_client=client, max_retries=0)


def openresponses_client() -> tuple[list[bytes], OpenResponses]:
    """Make a client of openresponses-py; otherwise as `openai_client`."""
    import httpx
    from openresponses import OpenResponses

    chunks: list[bytes] = []
    return chunks, OpenResponses(api_key="none", http_client=httpx.Client(transport=_transport(httpx, chunks)))


def _transport(http: Any, chunks: list[bytes]) -> Any:
    def answer(_: object) -> Any:
        return http.Response(200, headers=_HEADERS, content=iter(chunks))

    return http.MockTransport(answer)
