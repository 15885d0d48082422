"""Cassettes: what is recorded comes again, with its borders, times and end; damage is told; secrets are not kept."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import pickle
import random
import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
import reactivex
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import Observable
from reactivex import operators as rx
from reactivex.testing import TestScheduler

from orx_rx import (
    BadRequest,
    Cassette,
    CassetteError,
    Client,
    ConnectFailed,
    ConnectionLost,
    Cursor,
    NotAnEventStream,
    OrxError,
    RateLimited,
    Retry,
    SchemaViolation,
    ServerFault,
    StreamInterrupted,
    StreamTimeout,
    Unauthorized,
    final_response,
    iterate,
    read_cassette,
    replay,
    sse_chunks,
)
from orx_rx import operators as ops
from orx_rx.exchange import library_version
from orx_rx.models import Event
from orx_rx.protocol.cassette import Chunk, End, parse_cassette, write_cassette
from orx_rx.protocol.secrets import Secrets, body_without_secrets
from orx_rx.simulator import Fault, Simulator
from orx_rx.simulator.__main__ import main
from tests.captures import capture_names, read_capture
from tests.chain import hello, sse
from tests.marbles import Trouble, at
from tests.servers import CHUNKED, LAST, Ear, answer, chunk, listening, until
from tests.servers import clean_environment as clean_environment
from tests.sources import Listener, Source, at_once

BODY = sse(*hello())
STORY = Cassette(
    chunks=(Chunk(0.25, b"data: a\n"), Chunk(0.25, "\u00e9".encode()[:1]), Chunk(1.5, "\u00e9".encode()[1:] + b"\n\n")),
    ended=2.0,
    request={"method": "POST", "path": "/v1/responses", "query": {}, "headers": {}, "body": {"input": "H\u00ed"}},
    response={"status": 200, "headers": {"content-type": "text/event-stream"}},
    library="0.1.0",
    recorded="2026-01-02T03:04:05Z",
)
WRITTEN = write_cassette(STORY)

KEY = "sk-0123456789abcdef"
ODD = "hunter2-hunter2-hunter2"


class Kept(io.StringIO):
    """A file in memory that can be read after it was closed."""

    text = ""

    def close(self) -> None:
        self.text = self.text or self.getvalue()
        super().close()


def recorded(
    chunks: Sequence[tuple[float, bytes]], end: Exception | str | None = None, ended: float = 0.0
) -> tuple[Cassette, Listener[bytes]]:
    """Record a source in virtual time; `left` as its end disposes."""
    clock, source, file = TestScheduler(), Source[bytes](), Kept()
    listener = Listener(source.observable.pipe(ops.record(lambda: file)), scheduler=clock)
    for when, data in chunks:
        at(clock, when, partial(source.push, data))
    endings: Callable[[], None] = partial(source.fail, end) if isinstance(end, Exception) else source.complete
    at(clock, max([ended, *(when for when, _ in chunks)]), listener.leave if end == "left" else endings)
    clock.start()
    return parse_cassette(file.text.encode()), listener


def played(observable: Observable[bytes]) -> list[tuple[float, bytes | Exception | None]]:
    """Play in virtual time, and note what comes when."""
    clock, marks = TestScheduler(), list[tuple[float, bytes | Exception | None]]()

    def mark(thing: bytes | Exception | None = None) -> None:
        marks.append((clock.to_seconds(clock.now), thing))

    observable.subscribe(mark, mark, mark, scheduler=clock)
    clock.start()
    return marks


# the format


def test_a_cassette_is_a_header_a_line_for_each_chunk_and_an_end() -> None:
    lines = WRITTEN.decode().splitlines()
    assert [re.sub(r',"check":"[0-9a-f]{8}"}$', "}", line) for line in lines] == [
        '{"line":1,"orx_cassette":1,"library":"0.1.0","recorded":"2026-01-02T03:04:05Z","request":{"method":"POST",'
        '"path":"/v1/responses","query":{},"headers":{},"body":{"input":"H\u00ed"}},'
        '"response":{"status":200,"headers":{"content-type":"text/event-stream"}}}',
        '{"line":2,"at":0.25,"text":"data: a\\n"}',
        '{"line":3,"at":0.25,"base64":"ww=="}',
        '{"line":4,"at":1.5,"base64":"qQoK"}',
        '{"line":5,"at":2.0,"end":"complete","chunks":3,"bytes":12}',
    ]
    assert parse_cassette(WRITTEN) == STORY
    assert STORY.body == "data: a\n\u00e9\n\n".encode()


def test_line_ends_of_another_system_and_a_missing_last_one_are_no_damage() -> None:
    assert parse_cassette(WRITTEN.replace(b"\n", b"\r\n")) == STORY
    assert parse_cassette(WRITTEN.removesuffix(b"\n")) == STORY


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TIMES = st.integers(0, 10**9).map(lambda micros: micros / 1e6)
CHUNKS = st.lists(st.tuples(TIMES, st.binary() | st.text().map(str.encode)), max_size=12).map(
    lambda chunks: sorted(chunks, key=lambda pair: pair[0])
)


@settings(deadline=None)
@given(CHUNKS, TIMES, st.sampled_from(["complete", "left", "cut"]), st.dictionaries(st.text(), JSON, max_size=3))
def test_any_cassette_is_read_as_it_was_written(
    chunks: list[tuple[float, bytes]], more: float, end: End, request: dict[str, Any]
) -> None:
    last = chunks[-1][0] if chunks else 0.0
    ended = last if end == "cut" else round(last + more, 6)
    cassette = Cassette(tuple(Chunk(*pair) for pair in chunks), end, ended, None, request)
    assert parse_cassette(write_cassette(cassette), partial=end == "cut") == cassette


@pytest.mark.parametrize("name", capture_names())
def test_the_stream_of_a_real_server_is_read_as_it_was_written(name: str) -> None:
    body = read_capture(name)
    cuts = sorted(random.Random(name).sample(range(len(body)), min(50, len(body))))
    pieces = [body[begin:end] for begin, end in zip([0, *cuts], [*cuts, None], strict=True)]
    cassette = Cassette(tuple(Chunk(number / 100, piece) for number, piece in enumerate(pieces)))
    again = parse_cassette(write_cassette(cassette))
    assert (again.chunks, again.body) == (cassette.chunks, body)


# damage


@pytest.mark.parametrize("line", range(1, 6))
def test_a_missing_line_is_told(line: int) -> None:
    lines = WRITTEN.splitlines(keepends=True)
    told = {5: "expected the end of the stream, got a cut after line 4"}
    with pytest.raises(CassetteError, match=told.get(line, f"expected line {line}, got line {line + 1}")) as caught:
        parse_cassette(b"".join(lines[: line - 1] + lines[line:]))
    assert caught.value.line == line


@pytest.mark.parametrize("line", range(1, 6))
def test_a_line_that_comes_twice_is_told(line: int) -> None:
    lines = WRITTEN.splitlines(keepends=True)
    told = "nothing after the end" if line == 5 else f"expected line {line + 1}, got line {line}"
    with pytest.raises(CassetteError, match=told):
        parse_cassette(b"".join(lines[:line] + lines[line - 1 :]))


def places(line: int) -> range:
    """The places of the bytes of a line, with its line end."""
    lines = WRITTEN.splitlines(keepends=True)
    begin = len(b"".join(lines[: line - 1]))
    return range(begin, begin + len(lines[line - 1]))


@pytest.mark.parametrize("line", range(1, 6))
def test_wherever_it_is_cut_off_the_line_is_told(line: int) -> None:
    for size in places(line):
        if size == len(WRITTEN) - 1:
            break  # nothing but the last line end is missing
        with pytest.raises(CassetteError) as caught:
            parse_cassette(WRITTEN[:size])
        last_is_whole = WRITTEN[size : size + 1] == b"\n"
        assert caught.value.line == line + last_is_whole
        if line > 1 or last_is_whole:
            cut = f"expected the end of the stream, got a cut after line {line - 1 + last_is_whole}"
            assert str(caught.value).endswith(cut)
        elif not size:
            assert str(caught.value) == "line 1 of a cassette: expected the header of a cassette, got nothing"


@pytest.mark.parametrize("line", range(1, 5))
def test_one_that_was_cut_off_is_read_if_that_is_asked_for(line: int) -> None:
    lines = WRITTEN.splitlines(keepends=True)
    whole = b"".join(lines[:line])
    for rest in (b"", lines[line][:7], lines[line][:-3]):
        cassette = parse_cassette(whole + rest, partial=True)
        assert (cassette.chunks, cassette.end) == (STORY.chunks[: line - 1], "cut")
        assert cassette.ended == (cassette.chunks[-1].at if cassette.chunks else 0)
    with pytest.raises(CassetteError, match="the line was changed"):
        parse_cassette(whole.replace(b"0.1.0", b"0.1.1") + lines[line], partial=True)


@pytest.mark.parametrize("line", range(1, 6))
@pytest.mark.parametrize("flip", [1, 2, 0x20, 0x80])
def test_every_changed_byte_is_found_in_its_line(line: int, flip: int) -> None:
    for place in places(line):
        damaged = bytearray(WRITTEN)
        damaged[place] ^= flip
        with pytest.raises(CassetteError, match=r"expected .+, got .+") as caught:
            parse_cassette(bytes(damaged))
        assert caught.value.line == line


def sealed(*lines: str) -> bytes:
    """Write lines with their checks, as something else might that calls itself a cassette."""
    from zlib import crc32

    check, written = 0, ""
    for line in lines:
        check = crc32(line[:-1].encode(), check)
        written += f'{line[:-1]},"check":"{check:08x}"}}\n'
    return written.encode()


HEAD = '{"line":1,"orx_cassette":1,"library":"","recorded":"","request":null,"response":null}'
LOST = '{"line":2,"at":0,"end":"error","chunks":0,"bytes":0,"error":%s}'

FOREIGN: dict[str, tuple[bytes, int, str]] = {
    "an event stream": (BODY, 1, "expected a line of the header of a cassette that ends with its check"),
    "JSON lines": (b'{"a":1}\n', 1, "expected a line of the header of a cassette that ends with its check"),
    "no object": (sealed("[1]"), 1, "expected a JSON object with its number, got none"),
    "no number": (sealed('{"orx_cassette":1}'), 1, "expected a JSON object with its number, got none"),
    "no format": (sealed('{"line":1}'), 1, "expected a cassette of format 1, got none"),
    "a later format": (sealed('{"line":1,"orx_cassette":2}'), 1, "expected a cassette of format 1, got another format"),
    "no library": (sealed('{"line":1,"orx_cassette":1}'), 1, "expected a header with library, got none"),
    "an odd request": (sealed(HEAD.replace("null", "7", 1)), 1, "expected a header with request, got none, or int"),
    "no time": (sealed(HEAD, '{"line":2,"text":""}'), 2, "expected a time from 0 s on"),
    "time as text": (sealed(HEAD, '{"line":2,"at":"1","text":""}'), 2, "expected a time from 0 s on"),
    "time runs backwards": (
        sealed(HEAD, '{"line":2,"at":2,"text":""}', '{"line":3,"at":1,"text":""}'),
        3,
        "expected a time from 2 s on",
    ),
    "endless time": (sealed(HEAD, '{"line":2,"at":Infinity,"text":""}'), 2, "expected a time from 0 s on"),
    "no chunk": (sealed(HEAD, '{"line":2,"at":0}'), 2, "expected a chunk as text or base64"),
    "two chunks": (sealed(HEAD, '{"line":2,"at":0,"text":"","base64":""}'), 2, "expected a chunk as text or base64"),
    "half a character": (sealed(HEAD, '{"line":2,"at":0,"text":"\\ud83d"}'), 2, "expected a chunk as text or base64"),
    "no base64": (sealed(HEAD, '{"line":2,"at":0,"base64":"?"}'), 2, "expected a chunk as text or base64"),
    "another end": (sealed(HEAD, '{"line":2,"at":0,"end":"cut"}'), 2, "the end to be complete, error or left"),
    "a wrong count": (
        sealed(HEAD, '{"line":2,"at":0,"end":"complete","chunks":1,"bytes":0}'),
        2,
        "expected the end to count 0 chunks",
    ),
    "an unknown error": (
        sealed(HEAD, LOST % '{"kind":"Exception","message":"","fields":{}}'),
        2,
        "expected an error that this version of orx_rx knows",
    ),
    "no error": (sealed(HEAD, LOST % "null"), 2, "expected an error that this version of orx_rx knows"),
    "more after the end": (WRITTEN + b"x", 6, "expected nothing after the end of the stream"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_what_is_no_cassette_is_refused(case: str) -> None:
    data, line, told = FOREIGN[case]
    for partial_ in (False, True):
        with pytest.raises(CassetteError, match=re.escape(told)) as caught:
            parse_cassette(data, partial=partial_)
        assert caught.value.line == line


def test_the_file_is_named_beside_the_line(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(WRITTEN[:-9])
    with pytest.raises(CassetteError) as caught:
        replay(tmp_path / "x.jsonl")
    assert caught.value.__notes__ == [f"in {tmp_path / 'x.jsonl'}"]


# recording and replaying


@settings(deadline=None)
@given(CHUNKS, TIMES, st.sampled_from([None, ConnectionLost("expected a, got b")]))
def test_what_is_recorded_comes_again_at_the_same_virtual_times(
    chunks: list[tuple[float, bytes]], ended: float, end: Exception | None
) -> None:
    cassette, listener = recorded(chunks, end, ended)
    assert listener.heard == [data for _, data in chunks]
    assert [(chunk.at, chunk.data) for chunk in cassette.chunks] == chunks
    again = played(replay(parse_cassette(write_cassette(cassette))))
    *before, (when, last) = again
    assert before == chunks
    assert (when, type(last), str(last)) == (max([ended, *(t for t, _ in chunks)]), type(end), str(end))


ENDS: Sequence[OrxError] = [
    ConnectFailed("expected an answer, got a closed connection"),
    ConnectionLost("expected the rest of the body, got a body that broke off or cannot be decoded"),
    StreamTimeout("idle", 2.5),
    RateLimited(429, "slow", code="c", type="t", param="p", request_id="r", headers={"retry-after": "1"}, body="{}"),
    NotAnEventStream("text/html", b"<html>\xff"),
    NotAnEventStream(None, b""),
    SchemaViolation("expected a, got b", problems=["p", "q"]),
]


@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
def test_an_error_comes_again_as_what_it_was(error: OrxError) -> None:
    cassette, listener = recorded([(1.0, b"a")], error, 2.0)
    assert listener.ends == [error]
    first, second = (played(replay(cassette))[-1] for _ in range(2))
    for when, again in (first, second):
        assert when == 2.0
        assert isinstance(again, OrxError)
        assert (type(again), again.args, vars(again)) == (type(error), error.args, vars(error))
        assert pickle.loads(pickle.dumps(again)).args == error.args
    assert first[1] is not second[1]


def test_an_error_that_is_not_ours_is_told_by_its_class_alone() -> None:
    cassette, _ = recorded([], Trouble(KEY))
    assert type(cassette.error) is OrxError
    assert str(cassette.error) == "expected the rest of the stream, got Trouble"


def test_what_is_behind_a_recording_whose_subscriber_left_nobody_knows() -> None:
    cassette, listener = recorded([(1.0, BODY)], "left", 3.0)
    assert (cassette.end, cassette.ended, listener.ends) == ("left", 3.0, [])
    *_, (when, error) = played(replay(cassette))
    assert (when, type(error)) == (3.0, ConnectionLost)
    assert str(error) == "expected the rest of the body, got the end of a recording whose subscriber left"
    guarded = Listener(replay(cassette, speed=None).pipe(ops.frame(), ops.decode(), ops.lifecycle_guard()))
    assert (len(guarded.heard), guarded.ends) == (len(hello()), [None])  # the response was whole


def test_one_that_was_cut_off_plays_until_there_if_that_is_asked_for(tmp_path: Path) -> None:
    lines = WRITTEN.splitlines(keepends=True)
    path = tmp_path / "cut.jsonl"
    path.write_bytes(b"".join(lines[:3]))
    *chunks, (when, error) = played(replay(path, partial=True))
    assert (len(chunks), when, type(error)) == (2, 0.25, ConnectionLost)
    assert "a recording that was cut off" in str(error)


@pytest.mark.parametrize(("speed", "times"), [(1.0, [0.25, 0.25, 1.5, 2.0]), (10, [0.025, 0.025, 0.15, 0.2])])
def test_speed_is_a_factor(speed: float, times: list[float]) -> None:
    assert [when for when, _ in played(replay(STORY, speed=speed))] == times


def test_without_speed_nothing_waits() -> None:
    assert played(replay(STORY, speed=None)) == [(0.0, chunk.data) for chunk in STORY.chunks] + [(0.0, None)]


@pytest.mark.parametrize("speed", [0, -1, float("nan"), float("inf")])
def test_a_speed_that_makes_no_sense_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="expected speed to be None or above 0, got"):
        replay(STORY, speed=speed)
    with pytest.raises(ValueError, match="expected speed to be None or above 0, got"):
        Simulator(speed=speed)


def test_without_a_clock_a_cassette_plays_in_the_thread_that_subscribes() -> None:
    for _ in range(2):  # and again
        observable = replay(STORY, speed=None)
        assert [Listener(observable).heard for _ in range(2)] == [[chunk.data for chunk in STORY.chunks]] * 2
    assert Listener(replay(STORY, speed=None).pipe(rx.take(1))).heard == [b"data: a\n"]


def test_a_replay_that_is_disposed_of_stops() -> None:
    clock = TestScheduler()
    listener = Listener[bytes](act=lambda _: listener.leave())
    listener.join(replay(STORY), clock)
    clock.start()
    assert (listener.heard, listener.ends) == ([b"data: a\n"], [])


async def test_in_an_event_loop_a_replay_lets_others_have_their_turn() -> None:
    async with iterate(replay(STORY, speed=None)) as reading:
        assert [piece async for piece in reading] == [chunk.data for chunk in STORY.chunks]


# what recording does to a stream: nothing


class Full(io.StringIO):
    """A file on a disk that is full after so many lines."""

    def __init__(self, lines: int) -> None:
        super().__init__()
        self._left = lines

    def write(self, text: str, /) -> int:
        self._left -= text.count("\n")
        if self._left < 0:
            raise OSError(28, "No space left on device")
        return super().write(text)


@pytest.mark.parametrize("lines", range(4))
def test_a_full_disk_ends_the_recording_and_not_the_stream(lines: int, caplog: pytest.LogCaptureFixture) -> None:
    file = Full(lines)
    with caplog.at_level(logging.WARNING, "orx_rx"):
        listener = Listener(at_once([b"a", b"b"], None).pipe(ops.record(lambda: file)))
    assert (listener.heard, listener.ends, file.closed) == ([b"a", b"b"], [None], True)
    assert [record.getMessage() for record in caplog.records] == ["recording stopped error=OSError"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a file on a disk that is full")
def test_a_disk_that_is_really_full_does_the_same(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "orx_rx"):
        listener = Listener(at_once([b"a", b"b"], None).pipe(ops.record("/dev/full")))
    assert (listener.heard, listener.ends) == ([b"a", b"b"], [None])
    assert [record.getMessage() for record in caplog.records] == [
        "recording stopped error=OSError name=/dev/full",
        "a recording was not closed error=OSError",
    ]


def test_where_a_cassette_cannot_be_opened_nothing_is_subscribed_to(tmp_path: Path) -> None:
    source = Source[bytes]()
    listener = Listener(source.observable.pipe(ops.record(tmp_path / "none" / "x.jsonl")))
    assert [type(end) for end in listener.ends] == [FileNotFoundError]
    assert source.subscribed == 0


def test_every_subscription_has_a_cassette_of_its_own(tmp_path: Path) -> None:
    tries = [at_once([b"a"], Trouble("the first time")), at_once([b"b"], None)]
    observable = reactivex.defer(lambda _: tries.pop(0)).pipe(ops.record(tmp_path / "a.b.jsonl"), rx.retry(2))
    assert Listener(observable).heard == [b"a", b"b"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.b-2.jsonl", "a.b.jsonl"]
    assert read_cassette(tmp_path / "a.b.jsonl").end == "error"
    assert read_cassette(tmp_path / "a.b-2.jsonl").body == b"b"


def test_every_line_is_in_the_file_before_the_chunk_goes_on(tmp_path: Path) -> None:
    path, seen = tmp_path / "x.jsonl", list[int]()
    source = Source[bytes]()
    listener = Listener(source.observable.pipe(ops.record(path)), lambda _: seen.append(path.read_bytes().count(b"\n")))
    source.push(b"a", b"b")
    assert seen == [2, 3]
    assert read_cassette(path, partial=True).body == b"ab"
    listener.leave()
    assert (read_cassette(path).end, path.read_bytes().count(b"\r")) == ("left", 0)


def test_a_source_that_cannot_be_subscribed_to_leaves_no_open_file() -> None:
    file = Kept()

    async def session() -> Any:
        raise AssertionError

    listener = Listener(sse_chunks(session, "GET", "http://x").pipe(ops.record(lambda: file)))
    assert ([type(end) for end in listener.ends], file.closed) == ([RuntimeError], True)


def test_an_interrupt_while_it_is_subscribed_to_leaves_no_open_file() -> None:
    def subscribe(*_: object) -> Any:
        raise KeyboardInterrupt

    file = Kept()
    with pytest.raises(KeyboardInterrupt):
        Listener(Observable[bytes](subscribe).pipe(ops.record(lambda: file)))
    assert parse_cassette(file.text.encode()).end == "left"


def test_what_is_no_chunk_is_told() -> None:
    (error,) = Listener(at_once(["a"], None).pipe(ops.record(io.StringIO))).ends
    assert str(error) == "expected a source of bytes elements, got one of str"


# from the simulator and back


def piped(chunks: Observable[bytes]) -> Observable[Event]:
    return chunks.pipe(ops.frame(), ops.decode(), ops.sequence_check(), ops.lifecycle_guard(), ops.accumulate())


@pytest.mark.parametrize("seed", range(4))
async def test_a_recorded_stream_gives_the_same_borders_and_the_same_events(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    slow = Fault("slow", size=chance.randrange(50, 900), pace=chance.choice([0, 0.001]))
    came: list[bytes] = []
    async with (
        Simulator(chunk_bytes=chance.randrange(1, 300), pace=0.0001 * chance.randrange(3), faults=[slow]) as simulator,
        Client(base_url=simulator.base_url) as client,
    ):
        chunks = client.chunks(model="reasoning", input="Tell me").pipe(ops.record(tmp_path / "x.jsonl"))
        events = await collected(piped(chunks.pipe(rx.do_action(came.append))))
    cassette = read_cassette(tmp_path / "x.jsonl")
    assert [chunk.data for chunk in cassette.chunks] == came
    times = [chunk.at for chunk in cassette.chunks] + [cassette.ended]
    again = played(replay(tmp_path / "x.jsonl"))
    assert again == [*zip(times, [*came, None], strict=True)]
    assert await collected(piped(replay(cassette, speed=None))) == events


async def collected(observable: Observable[Event]) -> list[Event]:
    async with iterate(observable) as reading:
        return [event async for event in reading]


async def test_a_client_records_what_its_events_are_made_of(tmp_path: Path) -> None:
    async with Simulator(api_key=KEY) as simulator, Client(base_url=simulator.base_url, api_key=KEY) as client:
        events = client.events(model="story", input="Tell me", record=tmp_path / "x.jsonl")
        response = await final_response(events)
    cassette = read_cassette(tmp_path / "x.jsonl")
    assert cassette.request is not None
    assert cassette.response is not None
    assert (cassette.request["method"], cassette.request["path"]) == ("POST", "/v1/responses")
    assert cassette.request["body"] == {"model": "story", "input": "Tell me", "stream": True}
    assert cassette.response["status"] == 200
    assert cassette.response["headers"]["content-type"].startswith("text/event-stream")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", cassette.recorded)
    assert await final_response(piped(replay(cassette, speed=None))) == response


async def test_every_connection_of_a_background_response_has_a_cassette(tmp_path: Path) -> None:
    cut = Fault("cut", after_events=20, connection=0, kind="fin")
    retry = Retry(first=0.001)
    async with Simulator(faults=[cut]) as simulator, Client(base_url=simulator.base_url, retry=retry) as client:
        events = client.events(model="story", input="x", background=True, record=tmp_path / "x.jsonl")
        await final_response(events)
        cursor = Cursor("resp_0001", 3)
        await final_response(client.resume(cursor, record=tmp_path / "rest.jsonl"))
    assert b'"sequence_number":4,' in read_cassette(tmp_path / "rest.jsonl").chunks[0].data
    first, second = (read_cassette(tmp_path / name) for name in ("x.jsonl", "x-2.jsonl"))
    assert (first.end, type(first.error), second.end) == ("error", ConnectionLost, "complete")
    assert second.request is not None
    assert second.request["method"] == "GET"
    assert second.request["query"] == {"stream": "true", "starting_after": "19"}


async def test_the_time_begins_with_the_request_that_was_answered(tmp_path: Path) -> None:
    busy = Fault("status", request=0, status=503, retry_after_ms="60")
    async with Simulator(faults=[busy]) as simulator, Client(base_url=simulator.base_url) as client:
        began = asyncio.get_running_loop().time()
        await final_response(client.events(model="json", input="x", record=tmp_path / "x.jsonl"))
        took = asyncio.get_running_loop().time() - began
    cassette = read_cassette(tmp_path / "x.jsonl")
    assert cassette.response is not None
    assert cassette.response["status"] == 200
    assert cassette.ended < took - 0.03


async def test_a_second_request_in_the_same_pipeline_does_not_get_into_the_header(tmp_path: Path) -> None:
    async with Simulator() as simulator, Client(base_url=simulator.base_url) as client:
        recorded_ = client.chunks(model="json", input="first").pipe(ops.record(tmp_path / "x.jsonl"))
        both = recorded_.pipe(
            rx.take(1), rx.flat_map(lambda _: client.chunks(model="json", input="second")), rx.to_list()
        )
        async with iterate(both) as reading:
            await anext(reading)
    request = read_cassette(tmp_path / "x.jsonl").request
    assert request is not None
    assert request["body"]["input"] == "first"


# secrets


async def test_secrets_of_a_request_are_not_written_wherever_they_come_back(tmp_path: Path) -> None:
    sent = {"Authorization": f"Bearer {KEY}", "X-Whatever": ODD, "Cookie": "a=b; session=0011223344"}
    tools = [{"type": "mcp", "authorization": "mcp-key", "headers": {"X-A": "mcp-header", "n": [1, "two"]}}]
    error = {"error": {"message": f"bad {KEY} {ODD}", "code": f"c {ODD}", "type": "t"}, "session": "0011223344"}
    async with listening() as server, Client(base_url=server.url, headers=sent) as client:
        path = tmp_path / "x.jsonl"
        chunks = client.chunks(model=f"m-{ODD}", tools=tools).pipe(ops.record(path))
        ear = Ear(chunks)
        peer, _ = await server.asked()
        told = json.dumps(error).encode()
        await peer.send(answer(told, "400 Bad", "application/json", x_odd=ODD, x_request_id=f"r-{ODD}"))
        failure = (await ear.ended()).error
    assert isinstance(failure, BadRequest)
    text = path.read_text("utf-8")
    for secret in (KEY, ODD, "0011223344", "mcp-key", "mcp-header", "two"):
        assert secret not in text
    error_again = read_cassette(path).error
    assert isinstance(error_again, BadRequest)
    assert error_again.message == failure.message == f"bad {'*' * len(KEY)} {'*' * len(ODD)}"
    assert "x-odd" not in error_again.headers
    assert error_again.request_id == f"r-{'*' * len(ODD)}"


async def heard(ear: Ear[bytes], count: int) -> None:
    await until(lambda: len(ear.elements) >= count)


@pytest.mark.parametrize("size", [1, 2, 5, 7, 1_000])
async def test_secrets_in_chunks_are_hidden_across_borders_and_the_borders_stay(size: int, tmp_path: Path) -> None:
    import aiohttp

    url, params = f"/v1/x?api-key={ODD}&api-version=3", {"token": "0123-4567-89"}
    body = f"data: {KEY}{KEY} {ODD[:-1]} {ODD}, 0123-4567-89, sk-012".encode()
    async with listening() as server, aiohttp.ClientSession() as session:
        chunks = sse_chunks(session, "GET", server.url + url, params=params, headers={"api-key": KEY})
        ear = Ear(chunks.pipe(ops.record(tmp_path / "x.jsonl")))
        peer, _ = await server.asked()
        await peer.send(CHUNKED)
        for begin in range(0, len(body), size):
            await peer.send(chunk(body[begin : begin + size]))
            await heard(ear, begin // size + 1)
        await peer.send(LAST)
        await ear.ended()
    text, cassette = (tmp_path / "x.jsonl").read_text("utf-8"), read_cassette(tmp_path / "x.jsonl")
    assert (b"".join(ear.elements), [*map(len, ear.elements)]) == (body, [len(c.data) for c in cassette.chunks])
    hidden = f"data: {'*' * 2 * len(KEY)} {ODD[:-1]} {'*' * len(ODD)}, {'*' * 12}, sk-012"
    assert cassette.body.decode() == hidden
    assert not [secret for secret in (KEY, ODD, "0123-4567-89") if secret in text]
    assert cassette.request is not None
    assert cassette.request["query"] == {"api-version": "3"}


def test_short_and_harmless_values_are_no_secrets() -> None:
    from orx_rx.protocol.secrets import secrets_in

    assert not secrets_in("http://x/y?stream=true", None, {"Accept": "text/event-stream", "X-Region": "us-east-1"})
    assert not secrets_in("http://x/y", None, {"api-key": "short"})
    assert secrets_in("http://me:long-password@x/y", None, {}).hide(b"long-password") == b"*" * 13


@settings(deadline=None)
@given(st.lists(st.binary(max_size=6)), st.lists(st.sampled_from(["aab", "abab", "ba"]), min_size=1, unique=True))
def test_no_secret_is_left_in_a_stream_however_it_is_cut(chunks: list[bytes], values: list[str]) -> None:
    from orx_rx.protocol.cassette import CassetteWriter

    chunks = [bytes(b"ab"[byte % 2] for byte in chunk) for chunk in chunks]
    writer, secrets = CassetteWriter(), Secrets(values)
    lines = [writer.begin(secrets=secrets)]
    for chunk_ in chunks:
        lines += writer.chunk(0, chunk_)
    lines += writer.end(0, "complete")
    cassette = parse_cassette("".join(lines).encode())
    assert [len(c.data) for c in cassette.chunks] == [*map(len, chunks)]
    assert not [value for value in values if value.encode() in cassette.body]


def test_a_body_that_is_no_json_is_not_written() -> None:
    assert body_without_secrets(b"key=value") is None
    assert body_without_secrets(None) is None
    fields = {
        "max_output_tokens": 5,
        "prompt_cache_key": "k",
        "api_key": "x",
        "headers": "kept",
        "text": ["a", {"b": 1}],
    }
    assert body_without_secrets(json.dumps(fields).encode()) == {**fields, "api_key": "[hidden]"}


# served


async def raw(base_url: str, body: dict[str, Any]) -> tuple[bytes, bytes]:
    """Ask for a stream, and take the answer as it is on the wire: its head, and the rest."""
    host, port = re.findall(r"//(.+):(\d+)/", base_url)[0]
    reader, writer = await asyncio.open_connection(host, int(port))
    data = json.dumps(body).encode()
    writer.write(
        b"POST /v1/responses HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
        % (len(data), data)
    )
    try:
        head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    return head, rest


async def test_a_cassette_is_served_with_its_borders() -> None:
    async with Simulator(cassettes={"taped": STORY}, speed=None) as simulator:
        head, rest = await raw(simulator.base_url, {"model": "taped", "stream": True})
    assert head.startswith(b"HTTP/1.1 200 OK")
    assert rest == b"".join(chunk(piece.data) for piece in STORY.chunks) + LAST


async def test_a_cassette_is_served_to_a_client_as_fast_as_it_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(write_cassette(Cassette((Chunk(0.05, BODY[:300]), Chunk(0.1, BODY[300:])), ended=0.1)))
    async with Simulator(cassettes={"taped": path}) as simulator, Client(base_url=simulator.base_url) as client:
        began = asyncio.get_running_loop().time()
        response = await final_response(client.events(model="taped"))
        assert asyncio.get_running_loop().time() - began > 0.05
        head, rest = await raw(simulator.base_url, {"model": "taped"})
    assert response.output_text == "Hello"
    assert (head[:12], b"A cassette is a stream" in rest) == (b"HTTP/1.1 400", True)


SERVED: Sequence[tuple[OrxError, type[Exception], str]] = [
    (ConnectionLost("expected a, got b"), StreamInterrupted, "ConnectionLost"),
    (RateLimited(429, "slow", body='{"error": {"message": "slow"}}'), RateLimited, "got 429, .*: slow"),
    (Unauthorized(401, "who", body="who"), Unauthorized, "got 401, .*: who"),
    (ServerFault(500, "m", body=""), ServerFault, "got 500"),
    (NotAnEventStream("text/html", b"<html>"), NotAnEventStream, "got content type 'text/html' and a body of 6 bytes"),
    (ConnectFailed("expected a, got b"), ConnectFailed, "expected an answer"),
]


@pytest.mark.parametrize(("error", "kind", "told"), SERVED, ids=lambda value: type(value).__name__)
async def test_the_end_of_a_cassette_is_served(error: OrxError, kind: type[Exception], told: str) -> None:
    has_chunks = kind is StreamInterrupted
    cassette = Cassette((Chunk(0, BODY[:300]),) if has_chunks else (), "error", 0.0, error)
    async with (
        Simulator(cassettes={"taped": cassette}) as simulator,
        Client(base_url=simulator.base_url, retry=Retry(attempts=0)) as client,
    ):
        with pytest.raises(kind, match=told):
            await final_response(client.events(model="taped"))


async def test_a_clock_that_ran_out_is_served_as_silence() -> None:
    cassette = Cassette((Chunk(0, b"a"),), "error", 0.0, StreamTimeout("idle", 60))
    async with Simulator(cassettes={"taped": cassette}) as simulator:
        asking = asyncio.create_task(raw(simulator.base_url, {"model": "taped", "stream": True}))
        await simulator.wait_for(lambda s: s.open_streams == 1)
        simulator.release()
        _, rest = await asking
    assert rest == chunk(b"a")


async def test_a_cassette_that_is_damaged_is_refused_before_anything_is_served(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(WRITTEN[:-20])
    with pytest.raises(CassetteError, match="line 5"):
        Simulator(cassettes={"taped": tmp_path / "x.jsonl"})


def test_the_command_serves_cassettes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(WRITTEN[:-20])
    assert main(["--port", "0", "--cassette", f"taped={path}"]) == 1
    assert capsys.readouterr().err == (
        f"orx_rx.simulator: line 5 of a cassette: expected the end of the stream, got a cut after line 4 in {path}\n"
    )
    with pytest.raises(SystemExit):
        main(["--cassette", "taped"])
    assert "expected MODEL=FILE, got 'taped'" in capsys.readouterr().err


def test_a_library_that_is_not_installed_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("orx_rx.exchange.version", version)
    library_version.cache_clear()
    assert library_version() == "unknown"
    library_version.cache_clear()


def test_paths_are_taken_as_texts_too(tmp_path: Path) -> None:
    path = os.path.join(tmp_path, "x.jsonl")
    Listener(at_once([b"a"], None).pipe(ops.record(path)))
    assert read_cassette(path).body == b"a"
