"""Back to the wire: what a frame looks like, what comes back of it, and what a reader is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import Any

import pytest
import reactivex
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import Observable
from reactivex import operators as rx
from reactivex.testing import TestScheduler

from orx_rx import errors, last_event_id
from orx_rx import operators as ops
from orx_rx.errors import ConnectionLost, OrxError, ServerError, StreamInterrupted, StreamTimeout, Unauthorized
from orx_rx.models import Event, ResponseErrorEvent, StreamEnd, UnknownEvent, to_wire
from orx_rx.protocol import EventEncoder
from orx_rx.protocol.encoding import DONE, KEEPALIVE, encode_event, error_event, json_bytes
from orx_rx.simulator import SCENARIOS, Script, play, request_of, scenario_for
from tests import chain
from tests.captures import capture_names, read_capture
from tests.marbles import Trouble, at, draw
from tests.servers import until
from tests.sources import Listener, Source, at_once
from tests.test_errors import EXAMPLES

HELLO = chain.events(*chain.hello())
TERMINAL = HELLO[-1]
SECRET = "sk-hunter2"
LOST = ConnectionLost("expected the rest of the body, got none")
READ = (ops.frame(), ops.decode())


def streamed(model: str, *, background: bool = False) -> list[Event]:
    """Let the simulator write a stream."""
    request = request_of({"model": model, "input": "Tell me about cats", "background": background, "stream": True})
    return list(play(scenario_for(request), Script(request)))


def unknown(number: int | None = None, type: str = "x", **fields: Any) -> UnknownEvent:
    return UnknownEvent.model_validate({"type": type, "sequence_number": number, **fields})


def written(events: Sequence[Event], **options: Any) -> list[bytes]:
    """Write events, and expect the operator to complete."""
    listener = Listener(at_once(events, None).pipe(ops.encode_sse(**options)))
    assert listener.ends == [None]
    return listener.heard


def read(*frames: bytes) -> list[Event]:
    """Read what was written, as any client does."""
    listener = Listener(at_once(frames, None).pipe(*READ))
    assert listener.ends == [None]
    return listener.heard


def ids(frames: Sequence[bytes]) -> list[int | None]:
    """Read the id line of each frame."""
    return [int(frame.partition(b"\nid: ")[2].partition(b"\n")[0] or -1) for frame in frames]


# frames

FRAMES: Sequence[tuple[Event, bytes]] = [
    (unknown(7), b'event: x\nid: 7\ndata: {"type":"x","sequence_number":7}\n\n'),
    (unknown(0), b'event: x\nid: 0\ndata: {"type":"x","sequence_number":0}\n\n'),
    (unknown(None), b'event: x\ndata: {"type":"x","sequence_number":null}\n\n'),
    (UnknownEvent(type="x"), b'event: x\ndata: {"type":"x"}\n\n'),
    (unknown(1, text="a\r\nb"), b'event: x\nid: 1\ndata: {"type":"x","sequence_number":1,"text":"a\\r\\nb"}\n\n'),
    (unknown(1, text="Zoë"), 'event: x\nid: 1\ndata: {"type":"x","sequence_number":1,"text":"Zoë"}\n\n'.encode()),
    (unknown(1, "a b:c"), b'event: a b:c\nid: 1\ndata: {"type":"a b:c","sequence_number":1}\n\n'),
    (unknown(1, "a\nb"), b'id: 1\ndata: {"type":"a\\nb","sequence_number":1}\n\n'),
    (unknown(1, "a\rb"), b'id: 1\ndata: {"type":"a\\rb","sequence_number":1}\n\n'),
    (unknown(1, x=[{"y": None}]), b'event: x\nid: 1\ndata: {"type":"x","sequence_number":1,"x":[{"y":null}]}\n\n'),
]


@pytest.mark.parametrize(("event", "frame"), FRAMES)
def test_an_event_is_a_frame_with_its_type_its_number_and_all_its_fields(event: Event, frame: bytes) -> None:
    assert written([event]) == [frame]
    assert read(frame) == [event]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_does_not_have_is_null(number: str) -> None:
    data = f'{{"type":"x","logprobs":[{{"logprob":{number},"bytes":[1]}}],"text":"{number}"}}'
    (event,) = read(b"data: %b\n\n" % data.encode())
    (frame,) = written([event])
    sent = json.loads(frame.partition(b"data: ")[2])
    assert sent == {"type": "x", "logprobs": [{"logprob": None, "bytes": [1]}], "text": number}


def test_a_lone_surrogate_is_escaped() -> None:
    assert json_bytes({"x": "\ud83c"}) == b'{"x":"\\ud83c"}'


def test_what_json_cannot_carry_is_the_error_of_the_stream() -> None:
    listener = Listener(at_once([UnknownEvent.model_construct(type="x", x=object())], None).pipe(ops.encode_sse()))
    assert [type(end) for end in listener.ends] == [TypeError]


def test_what_framing_knows_of_the_end_is_no_event() -> None:
    assert written([unknown(1), StreamEnd(done=True)]) == written([unknown(1)])


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("model", SCENARIOS)
def test_what_is_written_reads_as_equal_events(model: str, background: bool) -> None:
    events = streamed(model, background=background)
    frames = written(events)
    back = read(*frames)
    assert back == events
    assert [*map(type, back)] == [*map(type, events)]
    assert [*map(to_wire, back)] == [*map(to_wire, events)]
    assert ids(frames) == [event.sequence_number for event in events]


def test_what_was_accumulated_is_written_as_what_came() -> None:
    events = streamed("everything")
    accumulated = Listener(at_once(events, None).pipe(ops.accumulate())).heard
    assert written(accumulated) == written(events)


@pytest.mark.parametrize("name", capture_names())
def test_a_real_stream_is_the_same_after_a_second_wire(name: str) -> None:
    first = read(read_capture(name))
    second = read(*written(first))
    assert second == [event for event in first if not isinstance(event, StreamEnd)]
    assert [*map(to_wire, second)] == [to_wire(event) for event in first if not isinstance(event, StreamEnd)]


# who comes back

AFTER: Sequence[tuple[int | None, Sequence[int | None], Sequence[int | None]]] = [
    (None, [0, 1, 2], [0, 1, 2]),
    (0, [0, 1, 2], [1, 2]),
    (1, [0, 1, 2], [2]),
    (2, [0, 1, 2], []),
    (9, [0, 1, 2], []),
    (1, [0, 2, 5], [2, 5]),  # a gap
    (4, [3, 4, 5], [5]),  # a stream that began elsewhere
    (1, [0, None, 1, None, 2, None], [None, None, 2, None]),  # nobody knows who has what has no number
    (5, [None, None], [None, None]),
]


@pytest.mark.parametrize(("after", "numbers", "sent"), AFTER)
def test_who_comes_back_gets_what_comes_after(
    after: int | None, numbers: Sequence[int | None], sent: Sequence[int | None]
) -> None:
    events = [unknown(number) for number in numbers]
    assert written(events, after=after) == written([unknown(number) for number in sent])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40)), max_size=8))
def test_a_reader_that_comes_back_again_and_again_gets_everything_once(visits: list[tuple[int, int, int]]) -> None:
    events = streamed("story")
    source = Source[Event]()
    shared = source.observable.pipe(ops.fan_out(keep_alive=True))
    shared.subscribe()
    got: list[bytes] = []
    coming = iter(events)
    for before, during, arrive in visits:
        source.push(*islice(coming, before))  # while nobody listens
        listener = Listener(shared.pipe(ops.encode_sse(after=ids(got)[-1] if got else None)))
        source.push(*islice(coming, during))
        listener.leave()
        got += listener.heard[:arrive]  # the rest is lost on the way
    source.push(*coming)
    got += Listener(shared.pipe(ops.encode_sse(after=ids(got)[-1] if got else None))).heard
    assert got == written(events)


HEADERS: Sequence[tuple[str | None, int | None]] = [
    ("0", 0),
    ("57", 57),
    (" 57 ", 57),
    ("007", 7),
    ("9" * 18, 10**18 - 1),
    (None, None),
    ("", None),
    ("-1", None),
    ("+1", None),
    ("1.0", None),
    ("1e3", None),
    ("0x10", None),
    ("1_000", None),
    ("1 2", None),
    ("٣", None),  # a digit, but not one of ours
    ("9" * 19, None),
    ("resp_a", None),
    ("12\n13", None),
]


@pytest.mark.parametrize(("text", "number"), HEADERS)
def test_a_header_is_a_number_or_nothing(text: str | None, number: int | None) -> None:
    assert last_event_id(text) == number


# the end


def test_done_comes_last_where_it_is_asked_for() -> None:
    assert written(HELLO, done=True) == [*written(HELLO), DONE]
    assert DONE == b"data: [DONE]\n\n"
    assert read(*written(HELLO, done=True)) == [*HELLO, StreamEnd(done=True)]


@pytest.mark.parametrize("kind", [kind for kind in EXAMPLES if kind is not OrxError])
def test_a_reader_is_told_of_every_error_by_a_code_of_its_own(kind: type[OrxError]) -> None:
    listener = Listener(at_once(HELLO[:3], EXAMPLES[kind]).pipe(ops.encode_sse(done=True)))
    assert listener.ends == [None]
    *before, last = listener.heard
    assert before == written(HELLO[:3])
    assert last.startswith(
        b"event: error\ndata: "
    )  # without an id: who comes back gets what comes after the last event
    told = json.loads(last.partition(b"data: ")[2])
    assert told == {"type": "error", "code": told["code"], "message": told["message"], "param": None}
    assert told["code"] != "internal_error"
    assert read(last) == [ResponseErrorEvent(code=told["code"], message=told["message"])]


CODES: Sequence[tuple[Exception, str]] = [
    (LOST, "connection_lost"),
    (StreamTimeout("idle", 3), "stream_timeout"),
    (errors.ConnectFailed("x"), "connect_failed"),
    (errors.RateLimited(429, "x"), "rate_limited"),
    (Unauthorized(401, "x"), "request_refused"),
    (errors.FrameTooLarge(2, 1), "protocol_error"),
    (errors.SequenceViolation("x"), "protocol_error"),
    (ServerError("x"), "server_error"),
    (StreamInterrupted("x"), "stream_interrupted"),
    (errors.Refused("x"), "output_error"),
    (errors.ConsumerTooSlow(1), "consumer_too_slow"),
    (ValueError("x"), "internal_error"),
    (OrxError("x"), "internal_error"),
]


@pytest.mark.parametrize(("error", "code"), CODES)
def test_the_code_says_what_happened(error: Exception, code: str) -> None:
    assert error_event(error).code == code


@pytest.mark.parametrize(
    "error", [Unauthorized(401, f"bad key {SECRET}", code=SECRET), ServerError(SECRET, code=SECRET), Trouble(SECRET)]
)
def test_a_reader_is_told_no_word_of_an_error(error: Exception) -> None:
    (frame,) = EventEncoder().fail(error)
    assert SECRET.encode() not in frame


def test_a_connection_that_breaks_behind_the_terminal_is_no_news() -> None:
    broken = Listener(at_once(HELLO, LOST).pipe(ops.encode_sse(done=True)))
    assert (broken.heard, broken.ends) == (written(HELLO, done=True), [None])
    known = Listener(at_once(HELLO, LOST).pipe(ops.encode_sse(after=TERMINAL.sequence_number)))
    assert (known.heard, known.ends) == ([], [None])
    other = Listener(at_once(HELLO, errors.SequenceViolation("x")).pipe(ops.encode_sse()))
    assert other.heard == [*written(HELLO), encode_event(error_event(errors.SequenceViolation("x")))]


def test_an_error_that_the_stream_told_is_not_told_again() -> None:
    told = ResponseErrorEvent(code="busy", message="Try later.", sequence_number=3)
    events = [*HELLO[:3], told]
    assert Listener(at_once(events, ServerError("x")).pipe(ops.encode_sse())).heard == written(events)
    assert len(Listener(at_once(events, LOST).pipe(ops.encode_sse())).heard) == len(events) + 1


def test_who_reads_the_frames_with_this_library_gets_an_error_of_the_server() -> None:
    frames = at_once(HELLO[:4], StreamInterrupted("x")).pipe(ops.encode_sse())
    (error,) = Listener(frames.pipe(*READ, ops.lifecycle_guard())).ends
    assert isinstance(error, ServerError)
    assert error.code == "stream_interrupted"


def test_the_error_is_logged_without_its_text(caplog: pytest.LogCaptureFixture) -> None:
    Listener(at_once([], Unauthorized(401, SECRET)).pipe(ops.encode_sse()))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().endswith("error=Unauthorized code=request_refused")
    assert SECRET not in caplog.text


def test_a_bug_in_front_is_logged_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    def buggy(event: Event) -> Event:
        raise ZeroDivisionError

    Listener(at_once(HELLO, None).pipe(rx.map(buggy), ops.encode_sse()))
    assert "in buggy" in caplog.text


# silence


def spell(frame: bytes) -> str:
    return "k" if frame == KEEPALIVE else "E" if frame.startswith(b"event: error") else "a"


@pytest.mark.parametrize(
    ("keepalive", "source", "result"),
    [
        (3, "-a---------|", "-a--k--k--k|"),
        (3, "-----------|", "---k--k--k-|"),
        (3, "-a-a-a-a-a-|", "-a-a-a-a-a-|"),
        (4, "-a--a-----a-|", "-a--a---k-a-|"),
        (None, "-a---------|", "-a---------|"),
        (100, "-a---------|", "-a---------|"),
    ],
)
def test_a_comment_fills_every_silence(keepalive: float | None, source: str, result: str) -> None:
    assert draw(ops.encode_sse(keepalive=keepalive), source, {"a": unknown(1)}, spell=spell) == result


def test_an_event_that_the_reader_has_is_silence() -> None:
    assert draw(ops.encode_sse(after=1, keepalive=3), "-a-a-a-a-a-|", {"a": unknown(1)}, spell=spell) == "---k--k--k-|"


def test_nothing_comes_after_the_end() -> None:
    assert draw(ops.encode_sse(keepalive=3), "-a-|---------", {"a": unknown(1)}, spell=spell) == "-a-|"
    assert draw(ops.encode_sse(keepalive=3), "-a-#---------", {"a": unknown(1)}, spell=spell) == "-a-(E|)"
    assert draw(ops.encode_sse(keepalive=3), "-a----------", {"a": unknown(1)}, leave=5, spell=spell) == "-a--k"


def test_a_comment_is_no_frame() -> None:
    assert KEEPALIVE == b": keepalive\n\n"
    assert read(*(piece for frame in written(HELLO) for piece in (frame, KEEPALIVE))) == HELLO


def test_a_source_that_ends_at_once_leaves_no_timer() -> None:
    clock = TestScheduler()
    listener = Listener(at_once(HELLO, None).pipe(ops.encode_sse(keepalive=1)), scheduler=clock)
    clock.advance_to(100.0)
    assert (len(listener.heard), listener.ends) == (len(HELLO), [None])


def test_a_reader_may_leave_at_a_comment() -> None:
    clock, source = TestScheduler(), Source[Event]()
    listener = Listener[bytes](act=lambda _: listener.leave())
    listener.join(source.observable.pipe(ops.encode_sse(keepalive=1)), clock)
    clock.advance_to(100.0)
    assert (listener.heard, source.disposed) == ([KEEPALIVE], 1)


def test_the_scheduler_of_the_operator_goes_before_that_of_the_subscriber() -> None:
    own, other, source = TestScheduler(), TestScheduler(), Source[Event]()
    listener = Listener(source.observable.pipe(ops.encode_sse(keepalive=1, scheduler=own)), scheduler=other)
    other.advance_to(10.0)
    assert listener.heard == []
    own.advance_to(2.0)
    assert listener.heard == [KEEPALIVE] * 2
    listener.leave()


def test_without_a_clock_there_are_no_comments() -> None:
    source = Source[Event]()
    listener = Listener(source.observable.pipe(ops.encode_sse(keepalive=1e-6)))
    source.push(*HELLO)
    source.complete()
    assert (listener.heard, listener.ends) == (written(HELLO), [None])


async def test_the_running_loop_keeps_the_time() -> None:
    source = Source[Event]()
    listener = Listener(source.observable.pipe(ops.encode_sse(keepalive=1e-3)))
    await until(lambda: len(listener.heard) == 3)
    assert set(listener.heard) == {KEEPALIVE}
    listener.leave()


def test_every_subscription_has_a_clock_of_its_own() -> None:
    clock = TestScheduler()
    silent: Observable[Event] = reactivex.never()
    kept = silent.pipe(ops.encode_sse(keepalive=2))
    first, second = Listener(kept, scheduler=clock), Listener[bytes]()
    at(clock, 1, partial(second.join, kept, clock))
    clock.advance_to(2.5)
    assert (first.heard, second.heard) == ([KEEPALIVE], [])
    clock.advance_to(3.5)
    assert (first.heard, second.heard) == ([KEEPALIVE], [KEEPALIVE])
    first.leave()
    second.leave()
