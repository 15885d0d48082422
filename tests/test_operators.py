"""The operators: what each promises, the pictures of their docstrings, and what their options do."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import reactivex
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from reactivex import Observable, Subject, abc, compose
from reactivex import operators as rx
from reactivex.testing import TestScheduler

from orx_rx import operators as ops
from orx_rx.errors import (
    ConnectionLost,
    FrameDecodeError,
    FrameTooLarge,
    LifecycleViolation,
    OrxError,
    SchemaViolation,
    SequenceViolation,
    ServerError,
    StreamInterrupted,
)
from orx_rx.models.event_base import DeltaEvent, Event
from orx_rx.models.item_base import Item
from orx_rx.models.lifecycle_events import ResponseCompletedEvent, TerminalEvent
from orx_rx.models.stream_events import ResponseErrorEvent, StreamEnd, UnknownEvent
from orx_rx.models.text_events import ResponseTextDeltaEvent, ResponseTextDoneEvent
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.calls import ToolCall, Turn
from orx_rx.protocol.encoding import KEEPALIVE, encode_event, error_event
from orx_rx.protocol.steps import Batched
from orx_rx.protocol.violations import DEFAULT, STRICT, Verdict, Violation
from orx_rx.step import lift
from orx_rx.stream import Operator
from orx_rx.wire import Frame, FrameParser
from tests import chain
from tests.conformance import check_awaiting_operator, check_operator
from tests.marbles import Trouble, draw
from tests.sources import Listener, Source, at_once

CREATED, ADDED, PART, HEL, LO, TEXT_DONE, PART_DONE, ITEM_DONE, COMPLETED = HELLO = chain.events(*chain.hello())
(FAILED,) = chain.events(chain.terminal("failed"))
ERROR = ResponseErrorEvent(code="server_error", message="overloaded")
BODY = chain.sse(*chain.hello())
FRAMES = FrameParser().feed(BODY)
CALLING = chain.events(
    chain.finished(chain.call('{"n": 1}', "a")),
    chain.finished(chain.call('{"n": 2}', "b"), 1),
    chain.terminal(output=[chain.call('{"n": 1}', "a"), chain.call('{"n": 2}', "b")]),
)


def event(payload: chain.Payload) -> Event:
    (decoded,) = chain.events(payload)
    return decoded


def frame_of(payload: chain.Payload) -> Frame:
    return Frame(payload["type"], json.dumps({"sequence_number": 99, **payload}).encode())


def numbered(*numbers: int | None) -> list[Event]:
    return [UnknownEvent(type="x", sequence_number=number) for number in numbers]


def piece(delta: str, part: int = 0, index: int = 0, kind: str = "output_text") -> Event:
    return event(chain.delta(delta, kind, index=index, content=part, id=None))


def summary(delta: str, part: int = 0, index: int = 0) -> Event:
    kind = "reasoning_summary_text"
    return event(chain.delta(delta, kind, index=index, content=None, id=None, summary_index=part))


def done(item: chain.Payload, index: int = 0) -> Event:
    return event(chain.finished(item, index))


def completed(*output: chain.Payload) -> ResponseCompletedEvent:
    decoded = event(chain.terminal(output=list(output)))
    assert isinstance(decoded, ResponseCompletedEvent)
    return decoded


class Note(BaseModel):
    n: int
    s: str = ""


NOTE_TEXT = '{"n": 12, "s": "Hi"}'
NOTE_PIECES = ('{"n": 12', ', "s": "H', 'i"}')
NOTE = [CREATED, *map(piece, NOTE_PIECES), completed(chain.message(NOTE_TEXT))]


def run(operator: Operator[Any, Any], *inputs: object) -> list[Any]:
    """Run an operator on a source that completes, and expect it to complete."""
    listener = Listener(at_once(inputs, None).pipe(operator))
    assert listener.ends == [None]
    return listener.heard


def failure(operator: Operator[Any, Any], *inputs: object, end: Exception | None = None) -> Exception:
    """Run an operator on a source that ends, and expect it to fail."""
    (error,) = Listener(at_once(inputs, end).pipe(operator)).ends
    assert error is not None
    return error


# what every operator promises

CONFORMING: Mapping[str, tuple[Callable[[], Operator[Any, Any]], Sequence[Any], dict[str, Any]]] = {
    "accumulate": (
        lambda: ops.accumulate(profile=STRICT),
        [event(chain.created(output=[chain.message("Hello")])), *HELLO[1:]],
        {"bad": completed()},
    ),
    "decode": (
        ops.decode,
        [Frame(data=line.partition(b"data: ")[2]) for line in BODY.split(b"\n\n")[:-1]],
        {"bad": Frame(data=b"nonsense")},
    ),
    "encode_sse": (ops.encode_sse, HELLO, {"bad": UnknownEvent.model_construct(type="x", x=object()), "tells": True}),
    "fan_out": (ops.fan_out, HELLO, {"shares": True}),
    "frame": (
        lambda: ops.frame(max_frame_bytes=32),
        [b"data: 1\n", b"\ndata: 2\n\nda", b"ta: 3\n\ndata: 4"],
        {"bad": b"x" * 33},
    ),
    "items": (ops.items, HELLO, {}),
    "lifecycle_guard": (
        lambda: ops.lifecycle_guard(profile=DEFAULT.but(created_twice="raise")),
        HELLO,
        {"bad": CREATED, "translates": StreamInterrupted},
    ),
    "of_type": (lambda: ops.of_type(ResponseTextDeltaEvent), HELLO, {}),
    "partial": (lambda: ops.partial(Note, every=None), NOTE, {"bad": event(chain.terminal("incomplete"))}),
    "reasoning": (ops.reasoning, [summary("One"), summary("Two", 1)], {}),
    "record": (lambda: ops.record(io.StringIO), [b"data: 1\n", b"\n"], {}),
    "refusals": (ops.refusals, [piece("I can", kind="refusal"), piece("not", kind="refusal")], {}),
    "repair": (ops.repair, FRAMES, {"bad": frame_of(chain.created("resp_b"))}),
    "resume_on_disconnect": (lambda: ops.resume_on_disconnect(lambda _: reactivex.empty()), HELLO, {}),
    "run_tools": (lambda: ops.run_tools(lambda _: reactivex.empty(), tools=[]), HELLO, {"bad": "no event"}),
    "sequence_check": (ops.sequence_check, HELLO, {"bad": event(chain.terminal())}),
    "text": (ops.text, HELLO, {}),
    "tool_calls": (ops.tool_calls, CALLING, {}),
}


@pytest.mark.parametrize("name", CONFORMING)
def test_an_operator_keeps_the_promises_of_all_operators(name: str) -> None:
    make, inputs, particulars = CONFORMING[name]
    check_operator(make, inputs, **particulars)


async def doubled(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


AWAITING: Mapping[str, tuple[Callable[[], Operator[Any, Any]], Sequence[Any]]] = {
    "map_async": (lambda: ops.map_async(doubled), [1, 2, 3]),
    "map_async, several at a time": (lambda: ops.map_async(doubled, concurrency=2), [1, 2, 3]),
    "map_async, as they are ready": (lambda: ops.map_async(doubled, concurrency=None, ordered=False), [1, 2, 3]),
}


@pytest.mark.parametrize("title", AWAITING)
async def test_an_operator_that_awaits_keeps_the_promises_of_all_such_operators(title: str) -> None:
    await check_awaiting_operator(*AWAITING[title])


def test_no_operator_is_left_out() -> None:
    checked = [*CONFORMING, *{title.partition(",")[0] for title in AWAITING}]
    assert sorted(checked) == sorted(ops.__all__)


@pytest.mark.parametrize("name", ops.__all__)
def test_an_operator_is_keyword_only_after_its_first_argument(name: str) -> None:
    parameters = list(inspect.signature(getattr(ops, name)).parameters.values())
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters[1:])


@pytest.mark.parametrize("name", ops.__all__)
def test_an_operator_file_opens_with_the_definition_that_its_operator_repeats(name: str) -> None:
    module = importlib.import_module(f"orx_rx.operators._{name}")
    lines = inspect.getdoc(getattr(ops, name)) or ""
    assert (module.__doc__ or "").splitlines()[0] == lines.splitlines()[0]


@pytest.mark.parametrize("name", ops.__all__)
def test_an_operator_describes_its_arguments_in_their_order(name: str) -> None:
    function = getattr(ops, name)
    described = re.findall(r"^ {4}\*?(\w+):", (inspect.getdoc(function) or "").partition("Args:")[2], re.M)
    named = [parameter for parameter in inspect.signature(function).parameters]
    assert described[: len(named)] == named


# the pictures

DELTA = piece("Hel")


def snapshot_or_terminal(event: Event) -> str:
    return event.snapshot if isinstance(event, DeltaEvent) else "T"


LETTERS = dict(zip([frame.event for frame in FRAMES[:4] + FRAMES[5:9]], "cipdxyzt", strict=True))


def letter(frame: Frame) -> str:
    return LETTERS[frame.event]


X, Y = (chain.message("Hi", id=f"msg_{name}") for name in "xy")


def x_or_y(call: ToolCall) -> str:
    return "xy"[call.arguments["n"] - 1]


PICTURES: Mapping[str, tuple[Operator[Any, Any], str, str, dict[str, Any]]] = {
    "accumulate": (
        compose(ops.accumulate(), rx.map(snapshot_or_terminal)),
        "---a---b---t---|",
        "---x---y---T---|",
        {"a": HEL, "b": LO, "t": COMPLETED, "x": "Hel", "y": "Hello"},
    ),
    "decode": (
        ops.decode(),
        "---a-----b---",
        "---x-----#FrameDecodeError",
        {"a": Frame(data=b'{"type": "response.created", "response": {}}'), "b": Frame(data=b"nonsense")}
        | {"x": event({"type": "response.created", "response": {}, "sequence_number": None})},
    ),
    "encode_sse": (
        ops.encode_sse(keepalive=5),
        "---a-------------b-------|",
        "---A----k----k---B----k--|",
        {"a": HEL, "b": LO, "A": encode_event(HEL), "B": encode_event(LO), "k": KEEPALIVE},
    ),
    "encode_sse, of what fails": (
        ops.encode_sse(),
        "---a----------#---",
        "---A----------(E|)",
        {"a": HEL, "A": encode_event(HEL), "E": encode_event(error_event(Trouble()))},
    ),
    "frame": (
        ops.frame(),
        "---a-----b-------|",
        "---------(xy)----|",
        {"a": b"data: 1\n", "b": b"\ndata: 2\n\n", "x": Frame(data=b"1"), "y": Frame(data=b"2")},
    ),
    "items": (
        ops.items(),
        "---a-----t----|",
        "---x-----y----|",
        {"a": done(X), "t": completed(X, Y)} | dict(zip("xy", completed(X, Y).response.output or (), strict=True)),
    ),
    "lifecycle_guard": (
        ops.lifecycle_guard(linger=5),
        "---c---d---t----------------",
        "---c---d---t----|",
        {"c": CREATED, "d": DELTA, "t": COMPLETED},
    ),
    "lifecycle_guard, cut off": (
        ops.lifecycle_guard(),
        "---c---d------------|",
        "---c---d------------#StreamInterrupted",
        {"c": CREATED, "d": DELTA},
    ),
    "of_type": (
        ops.of_type(ResponseTextDeltaEvent),
        "---a---c---b----------------------|",
        "---a-------b----------------------|",
        {"a": HEL, "b": LO, "c": CREATED},
    ),
    "partial": (
        ops.partial(Note),
        "---a---b---c---t---|",
        "---o---x---y-------|",
        dict(zip("abct", NOTE[1:], strict=True))
        | {"o": Note.model_construct(set(), s=""), "x": Note(n=12, s="H"), "y": Note(n=12, s="Hi")},
    ),
    "reasoning": (
        ops.reasoning(),
        "---a-----b--------|",
        "---One---(sTwo)---|",
        {"a": summary("One"), "b": summary("Two", 1), "s": "\n\n"},
    ),
    "record": (
        ops.record(io.StringIO),
        "---a-----b-------|",
        "---a-----b-------|",
        {"a": b"data: 1\n", "b": b"\n"},
    ),
    "refusals": (
        ops.refusals(),
        "---a-------b-----d--|",
        "---I can---not------|",
        {"a": piece("I can", kind="refusal"), "b": piece("not", kind="refusal")}
        | {"d": event({"type": "response.refusal.done", "refusal": "I cannot", **chain.at()})},
    ),
    "repair": (
        compose(ops.repair(), rx.map(letter)),
        "---c---d-------t---------|",
        "---c---(ipd)---(xyzt)----|",
        dict(zip("cdt", (FRAMES[0], FRAMES[3], frame_of(chain.terminal(output=[chain.message("Hel")]))), strict=True)),
    ),
    "sequence_check": (
        ops.sequence_check(),
        "---1-----2-----2-----1----",
        "---1-----2-----------#SequenceViolation",
        dict(zip("12", numbered(1, 2), strict=True)),
    ),
    "text": (
        ops.text(),
        "---c---a-----b----|",
        "-------Hel---lo---|",
        {"c": CREATED, "a": HEL, "b": LO},
    ),
    "tool_calls": (
        compose(ops.tool_calls(), rx.map(x_or_y)),
        "---a--b---t----|",
        "---x--y--------|",
        dict(zip("abt", CALLING, strict=True)),
    ),
}


@pytest.mark.parametrize("title", PICTURES)
def test_the_picture_in_the_docstring_is_what_happens(title: str) -> None:
    operator, source, result, values = PICTURES[title]
    assert draw(operator, source, values) == result
    assert {source, re.sub("#.*", "#", result)} <= documented(title)


def test_the_picture_of_fan_out_is_what_happens() -> None:
    source, late = "---a---b---c-------d---|", "            (abc)--d---|"
    assert draw(ops.fan_out(), source, joins=(0, 12)) == f"{source}\n{late}"
    assert {source, late.strip()} <= documented("fan_out")


def test_every_operator_has_a_picture() -> None:
    elsewhere = {"fan_out", "map_async", "resume_on_disconnect", "run_tools"}  # but for the first in tests of their own
    assert {title.partition(",")[0] for title in PICTURES} | elsewhere == set(ops.__all__)


@pytest.mark.parametrize("name", ops.__all__)
def test_the_rows_of_a_picture_are_as_wide_as_its_box(name: str) -> None:
    lines = [line.strip() for line in (getattr(ops, name).__doc__ or "").splitlines()]
    boxes = [number for number, line in enumerate(lines) if line.startswith("[")]
    assert boxes
    for number in boxes:
        assert f" {name}(" in lines[number]
        assert len(lines[number - 1]) == len(lines[number])
        assert len(lines[number + 1].partition("   ")[0]) <= len(lines[number])


def documented(title: str) -> set[str]:
    """Find the lines of the picture in a docstring, without what is said beside them."""
    doc = getattr(ops, title.partition(",")[0]).__doc__ or ""
    return {re.split(r"\s{3,}", line.strip())[0] for line in doc.splitlines()}


# options


def never(_: Turn) -> Observable[Event]:
    return reactivex.never()


WRONG: Sequence[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: ops.frame(max_frame_bytes=0), ValueError, "at least 1, got 0"),
    (lambda: ops.sequence_check(gaps="some"), ValueError, "'allow', 'report' or 'raise', got 'some'"),  # type: ignore[arg-type]
    (lambda: ops.encode_sse(after=-1), ValueError, "None or a number from 0, got -1"),
    (lambda: ops.encode_sse(after=True), ValueError, "None or a number from 0, got True"),
    (lambda: ops.encode_sse(after="7"), ValueError, "None or a number from 0, got '7'"),  # type: ignore[arg-type]
    (lambda: ops.encode_sse(keepalive=0), ValueError, "None or above 0 seconds, got 0"),
    (lambda: ops.encode_sse(keepalive=float("inf")), ValueError, "None or above 0 seconds, got inf"),
    (lambda: ops.encode_sse(keepalive=float("nan")), ValueError, "None or above 0 seconds, got nan"),
    (lambda: ops.lifecycle_guard(linger=-1), ValueError, "at least 0 seconds, got -1"),
    (lambda: ops.lifecycle_guard(linger=float("nan")), ValueError, "at least 0 seconds, got nan"),
    (lambda: ops.reasoning(kind="none"), ValueError, "'all', 'summary' or 'raw', got 'none'"),  # type: ignore[arg-type]
    (lambda: ops.fan_out(history=0), ValueError, "a number from 1, or None, got 0"),
    (lambda: ops.fan_out(history=-1), ValueError, "a number from 1, or None, got -1"),
    (lambda: ops.fan_out(history=True), ValueError, "a number from 1, or None, got True"),
    (lambda: ops.fan_out(history=1.5), ValueError, "a number from 1, or None, got 1.5"),  # type: ignore[arg-type]
    (lambda: ops.fan_out(history="some"), ValueError, "a number from 1, or None, got 'some'"),  # type: ignore[arg-type]
    (lambda: ops.record(3), TypeError, "a path, or a function that opens a file, got int"),  # type: ignore[arg-type]
    (ops.of_type, TypeError, "at least one class of events, got none"),
    (lambda: ops.of_type(str), TypeError, "classes of events, got <class 'str'>"),  # type: ignore[type-var]
    (lambda: ops.of_type(HEL), TypeError, "classes of events, got ResponseTextDeltaEvent"),  # type: ignore[arg-type]
    (lambda: ops.map_async(3), TypeError, "fn to be a coroutine function, got 3"),  # type: ignore[arg-type]
    (lambda: ops.map_async(doubled, concurrency=0), ValueError, "a number from 1, or None, got 0"),
    (lambda: ops.map_async(doubled, concurrency=True), TypeError, "a number from 1, or None, got True"),
    (lambda: ops.map_async(doubled, concurrency=1.5), TypeError, "a number from 1, or None, got 1.5"),  # type: ignore[arg-type]
    (lambda: ops.partial(Note, every=0), ValueError, "every to be None or above 0 seconds, got 0"),
    (lambda: ops.partial(Note, every=float("nan")), ValueError, "every to be None or above 0 seconds, got nan"),
    (lambda: ops.partial(3), TypeError, "a type that pydantic reads from JSON, got 3"),
    (lambda: ops.accumulate(text_format=3), TypeError, "a type that pydantic reads from JSON, got 3"),
    (lambda: ops.run_tools(never, tools=[], max_rounds=0), ValueError, "a number from 1, got 0"),
    (lambda: ops.run_tools(never, tools=[], max_rounds=True), ValueError, "a number from 1, got True"),
    (lambda: ops.run_tools(never, tools=[], concurrency=0), ValueError, "a number from 1, got 0"),
    (lambda: ops.run_tools(never, tools=[], timeout=0), ValueError, "None or above 0 seconds, got 0"),
    (lambda: ops.run_tools(never, tools=[], timeout=float("nan")), ValueError, "above 0 seconds, got nan"),
    (lambda: ops.run_tools(never, tools=[], errors="hide"), ValueError, "'tell' or 'raise', got 'hide'"),  # type: ignore[arg-type]
    (lambda: ops.run_tools(never, tools=[3]), TypeError, "a function, a type or a dict, got 3"),  # type: ignore[list-item]
    (lambda: ops.tool_calls([3]), TypeError, "a function, a type or a dict, got 3"),  # type: ignore[list-item]
    (lambda: ops.decode(profile="STRICT"), TypeError, "a profile, such as DEFAULT, got 'STRICT'"),  # type: ignore[arg-type]
    (lambda: ops.repair(on_repair=3), TypeError, "on_repair to be a function or an observer, got 3"),  # type: ignore[arg-type]
    (lambda: ops.accumulate(on_violation=3), TypeError, "a function or an observer, got 3"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "kind", "message"), WRONG)
def test_a_wrong_option_is_refused_where_it_is_given(
    make: Callable[[], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=f"^expected .*{re.escape(message)}"):
        make()


REPORTING: Mapping[str, tuple[Callable[..., Operator[Any, Any]], list[Any], str]] = {
    "decode": (ops.decode, [Frame("other", b'{"type": "response.created", "response": {}}')], "event_name_mismatch"),
    "sequence_check": (ops.sequence_check, numbered(1, 3), "sequence_gap"),
    "lifecycle_guard": (ops.lifecycle_guard, [COMPLETED], "created_not_first"),
    "accumulate": (ops.accumulate, [*HELLO[:-1], completed()], "terminal_output_empty"),
}


@pytest.mark.parametrize("name", REPORTING)
def test_a_violation_goes_to_the_listener_and_the_stream_goes_on(name: str) -> None:
    make, inputs, code = REPORTING[name]
    told: list[Violation] = []
    assert run(make(on_violation=told.append), *inputs)
    assert [violation.code for violation in told] == [code]


@pytest.mark.parametrize("name", REPORTING)
def test_a_violation_that_the_profile_raises_is_the_error_of_the_stream(name: str) -> None:
    make, inputs, code = REPORTING[name]
    verdicts: dict[str, Verdict] = {code: "raise"}
    error = failure(make(profile=DEFAULT.but(**verdicts)), *inputs)
    assert isinstance(error, OrxError)
    assert [violation.code for violation in error.violations] == [code]


# frame, decode


def test_frames_before_one_that_is_too_large_come_out() -> None:
    listener = Listener(at_once([b"data: 1\n\n" + b"x" * 17, b"x"]).pipe(ops.frame(max_frame_bytes=16)))
    assert listener.heard == [Frame(data=b"1")]
    assert [type(end) for end in listener.ends] == [FrameTooLarge]


def test_the_limit_of_a_frame_is_one_of_bytes() -> None:
    assert run(ops.frame(max_frame_bytes=8), b"data: 1\n\n") == [Frame(data=b"1")]
    assert isinstance(failure(ops.frame(max_frame_bytes=7), b"data: 1\n\n"), FrameTooLarge)


def test_an_unfinished_last_frame_is_taken_if_it_is_whole() -> None:
    whole = BODY.removesuffix(chain.DONE)[:-2]
    assert run(ops.decode(), *run(ops.frame(), whole)) == HELLO


def test_an_unfinished_last_frame_is_dropped_and_told_if_it_is_not() -> None:
    (end,) = run(ops.decode(), *run(ops.frame(), b'event: response.completed\ndata: {"type": "respo'))
    assert (type(end), end.unfinished_type, end.unfinished_bytes > 0) == (StreamEnd, "response.completed", True)


def test_a_sentinel_is_no_event() -> None:
    assert run(ops.decode(), *run(ops.frame(), chain.DONE)) == [StreamEnd(done=True)]


def test_what_cannot_be_decoded_is_an_error_with_the_frame() -> None:
    bad = Frame("x", b'{"delta": 1')
    error = failure(ops.decode(), bad)
    assert isinstance(error, FrameDecodeError)
    assert error.frame == bad


def test_json_that_is_no_event_is_an_error_of_its_own() -> None:
    assert isinstance(failure(ops.decode(), Frame(data=b"[]")), SchemaViolation)


# sequence_check


def test_a_gap_costs_what_the_option_says_whatever_the_profile() -> None:
    told: list[Violation] = []
    events = numbered(1, 3)
    assert run(ops.sequence_check(gaps="allow", profile=STRICT, on_violation=told.append), *events) == events
    assert told == []
    assert run(ops.sequence_check(gaps="report", on_violation=told.append), *events) == events
    assert [violation.code for violation in told] == ["sequence_gap"]
    assert isinstance(failure(ops.sequence_check(gaps="raise"), *events), SequenceViolation)


# lifecycle_guard and its time

STATIONS = {"c": CREATED, "d": HEL, "t": COMPLETED, "e": ERROR, "f": FAILED, "k": event({"type": "keepalive"})}

WAITS: Sequence[tuple[str, str]] = [
    # the terminal, and a connection that stays open
    ("---c---t-------------", "---c---t----|"),
    ("---c---f-------------", "---c---f----|"),
    # one that ends in time
    ("---c---t--|", "---c---t--|"),
    ("---c---(t|)", "---c---(t|)"),
    ("---c---t--#", "---c---t--#Trouble"),
    # what comes after the terminal makes the wait no longer; only out-of-band events pass
    ("---c---t-k-k-k-k-k-k-", "---c---t-k-k|"),
    ("---c---t-d-t-f-------", "---c---t----|"),
    # an error waits for its response.failed
    ("---c---(ef)----------", "---c---(ef)-|"),
    ("---c---e-f-|", "---c---e-f-|"),
    # and alone is the error of the stream
    ("---c---e-------------", "---c---e----#ServerError"),
    ("---c---e--|", "---c---e--#ServerError"),
    ("---c---e--#", "---c---e--#ServerError"),
    ("---c---e-k-k-k-k-----", "---c---e-k-k#ServerError"),
    # but what goes on after an error was not ended by it
    ("---c---e-d------t--|", "---c---e-d------t--|"),
    ("---c---e-d-------------", "---c---e-d-------------"),
    # without a terminal there is no end but that of the connection
    ("---c---d-------------", "---c---d-------------"),
]


@pytest.mark.parametrize(("source", "result"), WAITS)
def test_the_guard_waits_for_the_end_of_the_connection_no_longer_than_linger(source: str, result: str) -> None:
    assert draw(ops.lifecycle_guard(linger=5), source, STATIONS) == result


def test_a_guard_that_does_not_linger_ends_with_the_terminal() -> None:
    assert draw(ops.lifecycle_guard(linger=0), "---c---t---", STATIONS) == "---c---(t|)"


def test_a_broken_connection_does_not_matter_after_the_terminal() -> None:
    lost = ConnectionLost("expected the rest of the body, got none")
    assert draw(ops.lifecycle_guard(), "---c---(t#)", STATIONS, error=lost) == "---c---(t|)"
    assert draw(ops.lifecycle_guard(), "---c---d--#", STATIONS, error=lost) == "---c---d--#StreamInterrupted"
    assert draw(ops.lifecycle_guard(), "----------#", STATIONS, error=lost) == "----------#ConnectionLost"


def test_the_error_of_the_server_carries_what_it_said() -> None:
    error = failure(ops.lifecycle_guard(), CREATED, ERROR)
    assert isinstance(error, ServerError)
    assert (error.code, str(error).endswith("overloaded")) == ("server_error", True)


class Clock(TestScheduler):
    """A clock that knows its timers."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[abc.DisposableBase] = []

    def schedule_relative(
        self, duetime: Any, action: abc.ScheduledAction[Any], state: Any = None
    ) -> abc.DisposableBase:
        timer = super().schedule_relative(duetime, action, state)
        self.timers.append(timer)
        return timer

    @property
    def running(self) -> list[bool]:
        """Whether each timer still runs."""
        return [not vars(timer)["is_disposed"] for timer in self.timers]


def test_dispose_cancels_the_wait() -> None:
    clock, source = Clock(), Source[Event]()
    listener = Listener(source.observable.pipe(ops.lifecycle_guard()), scheduler=clock)
    source.push(CREATED, COMPLETED)
    assert clock.running == [True]
    listener.leave()
    assert clock.running == [False]


@pytest.mark.parametrize("lost", [None, ConnectionLost("expected the rest of the body, got none")])
def test_the_end_of_the_connection_cancels_the_wait(lost: Exception | None) -> None:
    clock, source = Clock(), Source[Event]()
    listener = Listener(source.observable.pipe(ops.lifecycle_guard()), scheduler=clock)
    source.push(CREATED, COMPLETED)
    source.complete() if lost is None else source.fail(lost)
    assert (clock.running, listener.ends) == ([False], [None])


def test_events_after_an_error_cancel_the_wait() -> None:
    clock, source = Clock(), Source[Event]()
    listener = Listener(source.observable.pipe(ops.lifecycle_guard()), scheduler=clock)
    source.push(CREATED, ERROR, HEL)
    assert (clock.running, listener.ends) == ([False], [])


def test_a_subscriber_may_dispose_when_an_error_turns_out_not_to_be_the_end() -> None:
    clock, source = Clock(), Source[Event]()
    listener = Listener[Event](act=lambda event: listener.leave() if event is HEL else None)
    listener.join(source.observable.pipe(ops.lifecycle_guard()), clock)
    source.push(CREATED, ERROR, HEL, LO)
    assert (listener.heard, listener.ends, source.disposed) == ([CREATED, ERROR, HEL], [], 1)


def test_the_end_of_the_wait_disposes_the_source() -> None:
    clock, source = Clock(), Source[Event]()
    listener = Listener(source.observable.pipe(ops.lifecycle_guard()), scheduler=clock)
    source.push(CREATED, COMPLETED)
    assert (source.disposed, listener.ends) == (0, [])
    clock.start()
    assert (source.disposed, listener.ends) == (1, [None])


def test_the_scheduler_of_the_operator_comes_before_that_of_the_subscriber() -> None:
    ours, theirs, source = Clock(), Clock(), Source[Event]()
    listener = Listener(source.observable.pipe(ops.lifecycle_guard(scheduler=ours)), scheduler=theirs)
    source.push(CREATED, COMPLETED)
    assert (ours.running, theirs.running) == ([True], [])
    ours.start()
    assert listener.ends == [None]


def test_without_a_scheduler_and_a_loop_the_guard_waits_for_the_source() -> None:
    source = Source[Event]()
    listener = Listener(source.observable.pipe(ops.lifecycle_guard(linger=0)))
    source.push(CREATED, COMPLETED)
    assert listener.ends == []
    source.complete()
    assert listener.ends == [None]


async def test_without_a_scheduler_the_running_loop_keeps_the_time() -> None:
    source = Source[Event]()
    completed = asyncio.get_running_loop().create_future()
    source.observable.pipe(ops.lifecycle_guard(linger=0.001)).subscribe(on_completed=lambda: completed.set_result(None))
    source.push(CREATED, COMPLETED)
    assert not completed.done()
    await completed
    assert source.disposed == 1


# accumulate


def test_accumulated_events_are_copies_and_the_originals_know_nothing() -> None:
    first, second = (run(ops.accumulate(), *HELLO) for _ in range(2))
    assert [event.snapshot for event in (*first, *second) if isinstance(event, DeltaEvent)] == ["Hel", "Hello"] * 2
    with pytest.raises(AttributeError):
        _ = HEL.snapshot  # type: ignore[attr-defined]


def test_an_accumulator_from_outside_can_be_looked_at_at_any_moment() -> None:
    accumulator, source = Accumulator(), Source[Event]()
    seen: list[str] = []

    def look(_: Event) -> None:
        assert accumulator.response is not None
        seen.append(accumulator.response.output_text)

    Listener(source.observable.pipe(ops.accumulate(into=accumulator)), look)
    assert accumulator.response is None
    source.push(*HELLO[:4])
    assert accumulator.response is not None
    assert (accumulator.response.output_text, accumulator.final_response) == ("Hel", None)
    source.push(*HELLO[4:])
    assert seen == ["", "", "", "Hel", "Hello", "Hello", "Hello", "Hello", "Hello"]
    assert accumulator.final_response is not None
    assert accumulator.final_response.status == "completed"


def test_an_accumulator_from_outside_begins_anew_with_every_subscription() -> None:
    accumulator = Accumulator()
    observable = at_once(HELLO[:4]).pipe(ops.accumulate(into=accumulator))
    for _ in range(2):
        Listener(observable)
        assert accumulator.response is not None
        assert accumulator.response.output_text == "Hel"


def test_errors_that_pass_carry_the_response_so_far() -> None:
    error = failure(ops.accumulate(), *HELLO[:4], end=ConnectionLost("expected the rest of the body, got none"))
    assert isinstance(error, ConnectionLost)
    assert error.snapshot is not None
    assert error.snapshot.output_text == "Hel"


# text, reasoning, refusals

TWO_MESSAGES = [piece("A"), piece("b"), piece("C", 1), piece("D", 0, 1), piece("e", 0, 1)]
TWO_REFUSALS = [piece("No", kind="refusal"), piece("!", kind="refusal"), piece("Never", 1, kind="refusal")]
THOUGHTS = [
    summary("S"),
    summary("s"),
    summary("T", 1),
    piece("R", kind="reasoning_text"),
    piece("r", kind="reasoning"),
]

READINGS: Sequence[tuple[Operator[Event, str], Sequence[Event], list[str]]] = [
    (ops.text(), TWO_MESSAGES, ["A", "b", "C", "D", "e"]),
    (ops.text(separator="/"), TWO_MESSAGES, ["A", "b", "/", "C", "/", "D", "e"]),
    (ops.text(separator="/"), [piece("A"), piece("B", 0, 1)], ["A", "/", "B"]),
    (ops.text(separator="/"), [*TWO_REFUSALS, *THOUGHTS], []),
    (ops.text(separator="/"), [piece("A"), TEXT_DONE, summary("x"), piece("b")], ["A", "b"]),
    (ops.refusals(), [*TWO_MESSAGES, *TWO_REFUSALS], ["No", "!", "Never"]),
    (ops.refusals(separator=" "), [*TWO_REFUSALS, *TWO_MESSAGES], ["No", "!", " ", "Never"]),
    (ops.reasoning(), THOUGHTS, ["S", "s", "\n\n", "T", "\n\n", "R", "r"]),
    (ops.reasoning(), [summary("S"), piece("R", kind="reasoning_text")], ["S", "\n\n", "R"]),
    (ops.reasoning(separator=""), THOUGHTS, ["S", "s", "T", "R", "r"]),
    (ops.reasoning(kind="summary", separator="/"), THOUGHTS, ["S", "s", "/", "T"]),
    (ops.reasoning(kind="raw", separator="/"), THOUGHTS, ["R", "r"]),
    (ops.reasoning(), TWO_MESSAGES, []),
]


@pytest.mark.parametrize(("operator", "events", "pieces"), READINGS)
def test_pieces_are_read_in_order_with_a_separator_between_parts(
    operator: Operator[Event, str], events: Sequence[Event], pieces: list[str]
) -> None:
    assert run(operator, *events) == pieces


def test_the_pieces_of_a_stream_are_its_text_with_and_without_accumulation() -> None:
    assert "".join(run(ops.text(), *HELLO)) == "Hello"
    assert "".join(run(ops.text(), *run(ops.accumulate(), *HELLO))) == "Hello"


# items


CALL, ANSWER = chain.call("{}", "1"), chain.item("function_call_output", "fco_1", call_id="call_1", output="4")
THOUGHT = chain.item("reasoning", "rs_1", summary=[])


def renamed(item: chain.Payload) -> chain.Payload:
    return {**item, "id": f"{item['id']}_again"}


FINISHED: Mapping[str, tuple[list[Event], list[str]]] = {
    "done, and again in the terminal": ([done(X), done(Y, 1), completed(X, Y)], ["msg_x", "msg_y"]),
    "done in another order": ([done(Y, 1), done(X), completed(X, Y)], ["msg_y", "msg_x"]),
    "done twice": ([done(X), done(X), completed(X)], ["msg_x"]),
    "only in the terminal": ([completed(X, Y)], ["msg_x", "msg_y"]),
    "one of two only in the terminal": ([done(Y, 1), completed(X, Y)], ["msg_y", "msg_x"]),
    "only in the terminal, in front of its place": ([done(X), completed(Y, X)], ["msg_x", "msg_y"]),
    "the terminal comes twice": ([completed(X), completed(X)], ["msg_x"]),
    "the terminal lists nothing": ([done(X), completed()], ["msg_x"]),
    "the ids rotate": ([done(X), done(Y, 1), completed(renamed(X), renamed(Y))], ["msg_x", "msg_y"]),
    "the ids rotate, and one item is new": ([done(X), completed(renamed(X), renamed(Y))], ["msg_x", "msg_y_again"]),
    "the ids rotate, and a place moves": ([done(THOUGHT), done(X, 1), completed(renamed(X))], ["rs_1", "msg_x"]),
    "the id of a call rotates": ([done(CALL), completed(renamed(CALL))], ["fc_1"]),
    "there are no ids": ([done(chain.message("Hi") | {"id": None}), completed(chain.message("Hi"))], ["-"]),
    "a call and its output share a call id": ([done(CALL), completed(CALL, ANSWER)], ["fc_1", "fco_1"]),
    "a call id is no text": ([done({**CALL, "call_id": [1]}), completed({**CALL, "call_id": [1]})], ["fc_1"]),
    "the stream fails": ([done(X), event(chain.terminal("failed", output=[X, Y]))], ["msg_x", "msg_y"]),
    "there is no terminal": ([done(X)], ["msg_x"]),
    "nothing is done": ([CREATED, ADDED, HEL], []),
}


@pytest.mark.parametrize("case", FINISHED)
def test_every_item_comes_once(case: str) -> None:
    events, ids = FINISHED[case]
    items: list[Item] = run(ops.items(), *events)
    assert [item.id or "-" for item in items] == ids


def test_items_that_no_server_finished_come_from_the_accumulator() -> None:
    events = run(ops.accumulate(), *HELLO[:5], completed())
    (message,) = run(ops.items(), *events)
    assert (message.id, message.content[0].text) == ("msg_a", "Hello")


# of_type


def test_events_of_several_classes_and_their_subclasses_are_kept_in_order() -> None:
    assert run(ops.of_type(TerminalEvent, ResponseTextDoneEvent), *HELLO) == [TEXT_DONE, COMPLETED]


# the chain


def canonical(source: Source[bytes], told: list[Violation]) -> Observable[Event]:
    return source.observable.pipe(
        ops.frame(),
        ops.decode(on_violation=told.append),
        ops.sequence_check(on_violation=told.append),
        ops.lifecycle_guard(on_violation=told.append),
        ops.accumulate(on_violation=told.append),
        ops.fan_out(),
    )


@settings(deadline=None)
@given(st.lists(st.integers(0, len(BODY)), max_size=20).map(sorted))
def test_the_chain_gives_the_same_wherever_the_chunks_are_cut(cuts: list[int]) -> None:
    chunks = [BODY[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(BODY)], strict=True)]
    told: list[Violation] = []
    source = Source[bytes]()
    shared = canonical(source, told)
    early = Listener(shared)
    source.push(*chunks[: len(chunks) // 2])
    late, text, items = Listener(shared), Listener(shared.pipe(ops.text())), Listener(shared.pipe(ops.items()))
    source.push(*chunks[len(chunks) // 2 :])
    source.complete()
    assert early.heard == late.heard == HELLO
    assert "".join(text.heard) == "Hello"
    assert [item.id for item in items.heard] == ["msg_a"]
    assert early.ends == late.ends == text.ends == items.ends == [None]
    assert (source.subscribed, source.disposed, told) == (1, 1, [])


def test_the_chain_ends_every_subscriber_with_the_same_error() -> None:
    source = Source[bytes]()
    shared = canonical(source, [])
    events, text = Listener(shared), Listener(shared.pipe(ops.text()))
    source.push(BODY[: BODY.index(b"response.output_text.done")])
    source.complete()
    (error,) = {*events.ends, *text.ends}
    assert isinstance(error, StreamInterrupted)
    assert error.snapshot is not None
    assert error.snapshot.output_text == "Hello"


def test_what_decode_knows_of_the_end_reaches_a_strict_guard() -> None:
    frames = run(ops.frame(), BODY)
    strict = compose(ops.decode(), ops.lifecycle_guard(profile=STRICT))
    assert run(strict, *frames) == HELLO
    error = failure(strict, *frames[:-1])
    assert isinstance(error, LifecycleViolation)
    assert error.violations[-1].code == "missing_done"


def test_operators_may_be_left_out_and_reordered() -> None:
    frames = run(ops.frame(), BODY)
    whole = run(compose(ops.decode(), ops.lifecycle_guard(), ops.text()), *frames)
    assert whole == ["Hel", "lo"]
    early = run(compose(ops.decode(), ops.accumulate(), ops.sequence_check(), ops.text()), *frames)
    assert early == ["Hel", "lo"]


def test_a_subject_can_be_the_source_and_the_listener() -> None:
    subject, told = Subject[Event](), Subject[Violation]()
    listener, violations = Listener(subject.pipe(ops.sequence_check(on_violation=told))), Listener(told)
    for numbered_event in numbered(1, 3):
        subject.on_next(numbered_event)
    subject.on_completed()
    assert (len(listener.heard), listener.ends) == (2, [None])
    assert [violation.code for violation in violations.heard] == ["sequence_gap"]
    assert violations.ends == []


def test_two_streams_merge_without_touching_each_other() -> None:
    check = ops.lifecycle_guard()
    merged = reactivex.merge(*(reactivex.of(*HELLO).pipe(check) for _ in range(2)))
    listener = Listener(merged)
    assert (listener.heard.count(COMPLETED), listener.ends) == (2, [None])


# events that know their snapshot: finished in place where nobody else has them, else copies


def test_a_chain_from_bytes_gives_every_delta_its_own_snapshot_however_it_is_cut() -> None:
    pieces = ["Hel", "lo", ", ", "world"]
    body = chain.sse(chain.created(), chain.added(), chain.part_added(), *(chain.delta(piece) for piece in pieces))
    for size in (1, 7, len(body)):
        chunks = [body[start : start + size] for start in range(0, len(body), size)]
        heard = Listener(at_once(chunks, None).pipe(*whole_chain())).heard
        deltas = [event for event in heard if isinstance(event, DeltaEvent)]
        assert [event.snapshot for event in deltas] == ["Hel", "Hello", "Hello, ", "Hello, world"]


def whole_chain() -> list[Operator[Any, Any]]:
    return [ops.frame(), ops.decode(), ops.sequence_check(), ops.lifecycle_guard(), ops.accumulate()]


def test_branches_that_share_decoded_events_do_not_see_each_others_snapshots() -> None:
    body = chain.sse(chain.created(), chain.added(), chain.part_added(), chain.delta("Hel"), chain.delta("lo"))
    decoded = at_once([body], None).pipe(ops.frame(), ops.decode(), ops.fan_out())
    plain = Listener(decoded)
    whole = Listener(decoded.pipe(ops.accumulate()))
    second_half = Listener(decoded.pipe(rx.skip(4), ops.accumulate()))
    assert [texts(listener) for listener in (whole, second_half)] == [["Hel", "Hello"], ["lo"]]
    for event in plain.heard:
        assert not isinstance(event, DeltaEvent) or not hasattr(event, "snapshot")


def test_an_event_that_comes_twice_in_a_batch_has_two_snapshots() -> None:
    class Twice(Batched[Event, Event]):
        def feed(self, event: Event, /) -> Sequence[Event]:
            return (event, event) if isinstance(event, DeltaEvent) else (event,)

        def end(self) -> Sequence[Event]:
            return ()

    body = chain.sse(chain.created(), chain.added(), chain.part_added(), chain.delta("la"))
    listener = Listener(at_once([body], None).pipe(ops.frame(), ops.decode(), lift(Twice), ops.accumulate()))
    assert texts(listener) == ["la", "lala"]


def texts(listener: Listener[Any]) -> list[str]:
    return [event.snapshot for event in listener.heard if isinstance(event, DeltaEvent)]


def test_who_looks_into_an_accumulator_sees_it_as_of_the_event_that_was_handed_on() -> None:
    body = chain.sse(chain.created(), chain.added(), chain.part_added(), chain.delta("Hel"), chain.delta("lo"))
    into = Accumulator()
    seen: list[tuple[int | None, str]] = []

    def look(event: Event) -> None:
        assert into.response is not None
        seen.append((event.sequence_number, into.response.output_text))

    steps = [*whole_chain()[:-1], ops.accumulate(into=into)]
    at_once([body], None).pipe(*steps).subscribe(look, lambda _: None)
    assert seen == [(0, ""), (1, ""), (2, ""), (3, "Hel"), (4, "Hello")]
