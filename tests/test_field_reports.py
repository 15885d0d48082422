"""What goes wrong in the wild, by the numbers of the field reports: their inputs are read, the answers are here.

Each report has a strict line and often a lenient one. Both were weighed against the design: `STRICT` here is Open
Responses to the letter, `DEFAULT` takes what is unambiguous and reports it. Where an answer differs from the report, a
comment says why. What needs repair, resuming or a network is tested where that is.

The last part is about the reports on Rx under asyncio and on streams that many share.
"""

from __future__ import annotations

import ast
import asyncio
import json
import re
import threading
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from reactivex import Observable, abc
from reactivex.subject import Subject
from reactivex.testing import TestScheduler

from orx_rx import Client, QueueEnd, Retry, from_async_iterable, iterate, to_queue
from orx_rx import operators as ops
from orx_rx.errors import (
    ConnectionLost,
    ConsumerTooSlow,
    FrameDecodeError,
    FrameTooLarge,
    LifecycleViolation,
    OrxError,
    SchemaViolation,
    SequenceViolation,
    ServerError,
    StreamInterrupted,
)
from orx_rx.inbox import Overflow
from orx_rx.models import TerminalEvent
from orx_rx.models.event_base import DeltaEvent, Event
from orx_rx.models.stream_events import UnknownEvent
from orx_rx.protocol import holding
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.cursor import Cursor
from orx_rx.protocol.decoding import Decoder
from orx_rx.protocol.lifecycle import LifecycleGuard
from orx_rx.protocol.violations import DEFAULT, STRICT, Judge, Profile, Violation
from orx_rx.simulator import Simulator
from orx_rx.wire import Frame, FrameParser
from tests.chain import (
    DONE,
    CountingText,
    added,
    created,
    delta,
    events,
    hello,
    keepalive,
    part_added,
    report_sse,
    run,
    sse,
)
from tests.conftest import ROOT
from tests.conftest import shared as find
from tests.servers import PATIENCE, Ear, turns
from tests.servers import clean_environment as clean_environment
from tests.sources import Listener, Source

REPORTS = find("cases/field-reports.md").read_text(encoding="utf-8")  # where they are absent, all of this is skipped
LETTER = STRICT.but(field_missing="ignore")  # the inputs leave out what has nothing to do with the fault

ELSEWHERE = {
    "B27": "a matter of time: the clocks of the source",
    "B36": "tests/test_models.py",
    "B37": "the source",
    "B38": "the source",
    "B39": "the source",
    "B48": "resuming",
}
"""The reports that are about something else than frames, order, lifecycle and accumulation."""

SHARING = ["B56", "B58", "B59", "B61", "B64", "B65", "B68", "B69"]
SHARING_ELSEWHERE = {"B62": "tests/test_fan_out.py", "B66": "tests/test_fan_out.py"}
"""The reports on Rx under asyncio and on sharing: those that have tests below, and those that have them elsewhere."""


@cache
def block(report: str) -> str:
    """The input of a report."""
    text = re.search(rf"^### {report} .*?^```\w+\n(.*?)^```", REPORTS, re.DOTALL | re.MULTILINE)
    assert text is not None, f"expected an input in {report}, found none"
    return text[1]


def body(report: str, stream: int = 0, *, done: bool = False) -> bytes:
    return report_sse(block(report), done=done)[stream]


def literals(report: str) -> list[bytes]:
    """The bytes literals of a report."""
    found = re.findall(r"""b'(?:\\.|[^'\\])*'|b"(?:\\.|[^"\\])*\"""", block(report))
    return [ast.literal_eval(literal) for literal in found]


@dataclass(frozen=True)
class Answer:
    """What becomes of a stream under one profile.

    Attributes:
        reported: The code, number and place of what is reported.
        raised: The same of what ends the stream.
        error: The class of the error that ends it.
    """

    reported: list[tuple[str, int | None, str]] = field(default_factory=list[tuple[str, int | None, str]])
    raised: tuple[str, int | None, str] | None = None
    error: type[OrxError] | None = None


@dataclass(frozen=True)
class Report:
    """The answers of a report, and what the response is at the end: its text or, for tools, their arguments."""

    strict: Answer
    default: Answer
    status: str | None = None
    text: str = ""
    arguments: list[str] = field(default_factory=list[str])


def breaks(error: type[OrxError], code: str, number: int | None = None, place: str = "") -> Answer:
    return Answer([], (code, number, place), error)


def tells(*reported: tuple[str, int | None, str]) -> Answer:
    return Answer(list(reported))


CUT = breaks(StreamInterrupted, "missing_terminal")
OUTPUT, ITEM, PART = "response.output", "output[0]", "output[0].content[0]"

TABLE: dict[tuple[str, int], Report] = {
    ("B01", 0): Report(
        breaks(LifecycleViolation, "part_not_open", 2, PART), tells(("part_not_open", 2, PART)), "completed", "Hello"
    ),
    # without an output index nothing is unambiguous any more, so this is for repair
    ("B03", 0): Report(breaks(SchemaViolation, "wrong_shape", 1), breaks(SchemaViolation, "wrong_shape", 1)),
    # the failure is the terminal; it surfaces as the response, whose error says why
    ("B04", 0): Report(
        breaks(SequenceViolation, "sequence_missing"), tells(("sequence_missing", None, "")), "failed", "ok"
    ),
    ("B06", 0): Report(
        tells(("sequence_gap", 24, ""), ("sequence_gap", 54, "")),
        tells(("sequence_gap", 24, ""), ("sequence_gap", 54, "")),
        "completed",
        "Call [hidden]",
    ),
    ("B08", 0): Report(CUT, CUT),
    ("B09", 0): Report(CUT, CUT),
    ("B10", 0): Report(
        breaks(LifecycleViolation, "terminal_output_empty", 7, OUTPUT),
        tells(("terminal_output_empty", 7, OUTPUT)),
        "completed",
        "kept",
    ),
    ("B11", 0): Report(
        breaks(LifecycleViolation, "terminal_order", 5, OUTPUT),
        tells(("terminal_order", 5, OUTPUT)),
        "completed",
        "x",
    ),
    # one record for the item; the terminal, which renames it once more, is told by whoever matches it
    ("B13", 0): Report(
        breaks(LifecycleViolation, "item_id_changed", 2, ITEM),
        tells(("item_id_changed", 2, ITEM), ("part_not_closed", 5, PART), ("item_id_changed", 6, f"{OUTPUT}[0]")),
        "completed",
        "Hey",
    ),
    ("B15", 0): Report(
        breaks(LifecycleViolation, "done_mismatch", 4, PART),
        tells(("done_mismatch", 4, PART), ("part_not_closed", 5, PART)),
        "completed",
        "abc",
    ),
    ("B16", 0): Report(tells(), tells(), "completed", "ok!"),
    ("B18", 0): Report(Answer(error=ServerError), Answer(error=ServerError)),
    ("B18", 1): Report(Answer(error=ServerError), Answer(error=ServerError)),
    ("B18", 2): Report(Answer(error=ServerError), Answer(error=ServerError)),
    ("B19", 0): Report(tells(), tells(), "failed"),
    ("B21", 0): Report(
        breaks(LifecycleViolation, "second_terminal", 8), tells(("second_terminal", 8, "")), "completed", "ok"
    ),
    # the report lets unknown types pass, Open Responses demands a number of extensions too, and STRICT is its letter
    ("B22", 0): Report(
        breaks(SequenceViolation, "sequence_missing"), tells(("sequence_missing", None, "")), "completed", "ok"
    ),
    ("B24", 0): Report(
        breaks(LifecycleViolation, "done_mismatch", 4, "output[0].arguments"),
        tells(("done_mismatch", 4, "output[0].arguments")),
        "completed",
        arguments=['{"p":1}'],
    ),
    ("B41", 0): Report(CUT, CUT),
    ("B41", 1): Report(tells(), tells(), "completed", "The plan is"),
    ("B42", 0): Report(tells(), tells(), "incomplete", '{"a":[1,'),
    ("B44", 0): Report(tells(), tells(), "completed", arguments=['{"f":1}', '{"f":2}']),
    ("B45", 0): Report(
        breaks(LifecycleViolation, "part_not_open", 4, "output[0].summary[1]"),
        tells(
            ("part_not_open", 4, "output[0].summary[1]"),
            ("part_not_closed", 5, "output[0].summary[0]"),
            ("part_not_closed", 5, "output[0].summary[1]"),
        ),
        "completed",
    ),
    ("B46", 0): Report(tells(), tells(), "failed", "parti"),
    # a suffix alone; with what came before, see below
    ("B49", 0): Report(
        breaks(LifecycleViolation, "created_not_first", 6), tells(("created_not_first", 6, "")), "completed", "Hello"
    ),
    ("B53", 0): Report(Answer(error=ServerError), Answer(error=ServerError)),
    ("B54", 0): Report(tells(), tells(), "completed", "word"),
}
BYTES = [
    "B26",
    "B28",
    "B29",
    "B30",
    "B31",
    "B32",
    "B33",
    "B34",
]  # the inputs that are not frames have tests of their own

CASES = pytest.mark.parametrize(("report", "stream"), TABLE, ids=lambda value: str(value))


def where(violation: Violation) -> tuple[str, int | None, str]:
    return violation.code, violation.sequence_number, violation.place


def test_every_report_about_rx_and_sharing_has_a_test() -> None:
    due = {report for report in re.findall(r"^### (B\d\d) ", REPORTS, re.MULTILINE) if "B56" <= report < "B71"}
    assert due == {*SHARING, *SHARING_ELSEWHERE}
    here = set(re.findall(r"^(?:async )?def test_(b\d\d)_", Path(__file__).read_text(encoding="utf-8"), re.MULTILINE))
    assert {report.lower() for report in SHARING} <= here
    for report, file in SHARING_ELSEWHERE.items():
        assert f"# {report}\n" in (ROOT / file).read_text(encoding="utf-8")


def test_every_report_about_a_stream_has_an_answer() -> None:
    reports = re.findall(r"^### (B\d\d) ", REPORTS, re.MULTILINE)
    due = {report for report in reports if report < "B50"}
    assert due == ({report for report, _ in TABLE} | {*BYTES, *ELSEWHERE}) - {"B53", "B54"}
    assert {report for report in due if len(report_sse(block(report))) > 1} == {"B18", "B41"}


@CASES
def test_the_letter_of_the_protocol(report: str, stream: int) -> None:
    answer = TABLE[report, stream].strict
    ran = run(body(report, stream, done=b"[DONE]" not in body(report, stream)), LETTER)
    assert type(ran.error) is (answer.error or type(None))
    assert [where(violation) for violation in ran.reported] == answer.reported
    if answer.raised is not None:
        assert where(ran.failure.violations[-1]) == answer.raised


@CASES
def test_the_letter_of_the_protocol_demands_the_sentinel(report: str, stream: int) -> None:
    # the reports say that its absence is fine; DESIGN says that STRICT requires both it and the terminal
    answer = TABLE[report, stream].strict
    ran = run(body(report, stream), LETTER)
    assert type(ran.error) is (answer.error or LifecycleViolation)
    if answer.error is None:
        assert ran.raised == "missing_done"


@CASES
def test_the_default_takes_what_is_unambiguous(report: str, stream: int) -> None:
    expected = TABLE[report, stream]
    answer = expected.default
    ran = run(body(report, stream))
    assert type(ran.error) is (answer.error or type(None))
    assert [where(violation) for violation in ran.reported] == answer.reported
    if answer.raised is not None:
        assert where(ran.failure.violations[-1]) == answer.raised
    final = ran.accumulator.final_response
    assert (final.status if final else None) == expected.status
    if final is not None:
        assert final.output_text == expected.text
        found = [getattr(item, "arguments", None) for item in final.output or ()]
        assert [arguments for arguments in found if arguments is not None] == expected.arguments


@CASES
def test_no_answer_depends_on_how_the_bytes_were_cut(report: str, stream: int) -> None:
    data = body(report, stream)
    for profile in (DEFAULT, LETTER):
        whole = run(data, profile)
        bytewise = run([data[at : at + 1] for at in range(len(data))], profile)
        assert bytewise.events == whole.events
        assert bytewise.reported == whole.reported
        assert str(bytewise.error) == str(whole.error)


# what the table has no column for


def test_b01_the_place_is_named() -> None:
    error = run(body("B01"), LETTER).failure
    assert str(error) == (
        "part_not_open: expected the part to be added first, got response.output_text.delta "
        "(response.output_text.delta #2 at output[0].content[0])"
    )


def test_b03_the_missing_field_is_named_and_the_event_is_not_dropped() -> None:
    error = run(body("B03")).failure
    assert isinstance(error, SchemaViolation)
    assert error.problems == ("output_index: Field required",)
    assert (error.event_type, error.sequence_number) == ("response.output_item.added", 1)


def test_b04_the_failure_surfaces_and_the_cursor_is_no_good_for_resuming() -> None:
    ran = run(body("B04"))
    assert ran.final.error is not None
    assert (ran.final.error.code, ran.final.error.message) == ("rate_limit", "slow down")
    assert ran.accumulator.last_sequence_number == 3
    assert ran.accumulator.cursor is None


@pytest.mark.parametrize("profile", [DEFAULT, STRICT], ids=lambda profile: profile.name)
def test_b08_the_partial_snapshot_is_on_the_error(profile: Profile) -> None:
    error = run(body("B08"), profile).failure
    assert isinstance(error, StreamInterrupted)
    assert str(error) == (
        "expected a terminal, got the end of the stream after 7 events, the last one number 6, with 1 of 1 items done"
    )
    assert error.snapshot is not None
    assert error.snapshot.output_text == "done"
    assert error.cursor == Cursor("resp_a", 6)


@pytest.mark.parametrize("profile", [DEFAULT, STRICT], ids=lambda profile: profile.name)
def test_b09_the_sentinel_is_never_a_terminal(profile: Profile) -> None:
    error = run(body("B09"), profile).failure
    assert "expected a terminal, got [DONE] after 4 events" in str(error)
    assert error.snapshot is not None
    assert error.snapshot.output_text == "half a sent"


def test_b10_a_null_output_is_a_matter_of_shape() -> None:
    data = body("B10", done=True).replace(b'"completed", "output": []', b'"completed", "output": null')
    strict = run(data, STRICT)
    assert type(strict.error) is SchemaViolation
    assert strict.raised == "output_null"
    ran = run(data)
    assert ran.codes == ["output_null", "terminal_output_empty"]
    assert ran.final.output_text == "kept"
    assert ran.final.usage is not None
    assert ran.final.usage.total_tokens == 2


def test_b11_the_order_of_the_terminal_is_final_and_the_index_stays_known() -> None:
    ran = run(body("B11"))
    assert [item.id for item in ran.final.output or ()] == ["rs_a", "msg_a"]
    assert {index: item.id for index, item in ran.accumulator.items.items()} == {0: "msg_a", 1: "rs_a"}


def test_b13_the_id_to_send_back_is_that_of_the_terminal() -> None:
    assert [item.id for item in run(body("B13")).final.output or ()] == ["enc_FFF"]


def test_b15_an_item_that_is_never_done_is_told() -> None:
    stream = hello()
    del stream[7]
    assert run(sse(*stream)).codes == ["item_not_closed"]
    assert run(sse(*stream), LETTER).raised == "item_not_closed"


def test_b16_what_has_no_meaning_for_the_lifecycle_is_a_warning_to_the_letter() -> None:
    ran = run(body("B16", done=True), STRICT)
    assert ran.error is None
    assert ran.final.output_text == "ok!"
    assert set(ran.codes) == {"field_missing"}
    places = {violation.place for violation in ran.reported if not violation.place.startswith("response")}
    assert places == {"part.annotations", "logprobs"}


@pytest.mark.parametrize(
    ("stream", "message", "code", "category"),
    [
        (0, "bad tool schema", None, None),
        (1, "try later", None, "server_error"),
        (2, "upstream 529", None, "overloaded"),
    ],
)
@pytest.mark.parametrize("profile", [DEFAULT, STRICT], ids=lambda profile: profile.name)
@pytest.mark.parametrize("broken", [None, ConnectionLost("reset")])
def test_b18_every_shape_of_an_error_is_one_error(
    stream: int, message: str, code: str | None, category: str | None, profile: Profile, broken: Exception | None
) -> None:
    ran = run(body("B18", stream), profile, broken=broken)
    assert isinstance(ran.error, ServerError)
    assert (ran.error.message, ran.error.code, ran.error.param, ran.error.type) == (message, code, None, category)


@pytest.mark.parametrize("profile", [DEFAULT, STRICT], ids=lambda profile: profile.name)
def test_b19_a_failure_settles_the_stream_though_the_connection_stays_open(profile: Profile) -> None:
    guard, accumulator = LifecycleGuard(Judge(profile)), Accumulator(Judge(profile))
    decoder = Decoder(Judge(profile.but(field_missing="ignore")))
    settled: list[bool] = []
    for frame in FrameParser().feed(body("B19")):
        for event in decoder.feed(frame):
            for passed in guard.feed(event):
                accumulator.feed(passed)
                settled.append(guard.settling)
    assert settled == [False, True, True]
    assert guard.expire() == ()
    assert accumulator.final_response is not None
    assert accumulator.final_response.error is not None
    assert accumulator.final_response.error.code == "overloaded"


def test_b21_the_first_terminal_is_final() -> None:
    ran = run(body("B21"))
    assert [event.type for event in ran.events][-1] == "response.completed"
    assert ran.final.error is None


@pytest.mark.parametrize("name", ["response.done", "response.cancelled"])
def test_b21_a_terminal_by_another_name_is_unknown_and_the_end_is_missing(name: str) -> None:
    stream = hello()
    stream[8] = {**stream[8], "type": name}
    ran = run(sse(*stream))
    assert isinstance(ran.events[-1], UnknownEvent)
    assert ran.raised == "missing_terminal"


def test_b22_what_is_out_of_band_passes_anywhere_and_counts() -> None:
    ran = run(body("B22", done=True), LETTER.but(sequence_missing="report"))
    assert (ran.error, ran.codes) == (None, ["sequence_missing"])
    assert len(ran.events) == 13
    unknown = [event.type for event in ran.events if isinstance(event, UnknownEvent)]
    assert unknown == ["codex.rate_limits", "response.brand_new.delta", "response.rate_limits.updated"]
    assert ran.events[-1].type == "response.rate_limits.updated"  # after the terminal


def test_b24_nothing_is_no_arguments() -> None:
    until_done = "\n".join(block("B24").splitlines()[:4])
    snapshot = run(report_sse(until_done)[0]).failure.snapshot
    assert snapshot is not None
    assert [getattr(item, "arguments", None) for item in snapshot.output or ()] == [""]  # and never {}


def test_b26_a_body_of_zero_bytes_is_no_success() -> None:
    for profile in (DEFAULT, STRICT):
        error = run(b"", profile).failure
        assert isinstance(error, StreamInterrupted)
        assert str(error) == "expected a terminal, got the end of the stream after no event at all"
        assert (error.snapshot, error.cursor, error.resumable) == (None, None, False)


@pytest.mark.parametrize("profile", [DEFAULT, LETTER], ids=lambda profile: profile.name)
def test_b28_neither_an_event_line_nor_a_space_is_needed(profile: Profile) -> None:
    ran = run(block("B28").encode() + DONE, profile)
    assert (ran.error, ran.codes) == (None, [])
    assert [event.type for event in ran.events] == ["response.created", "response.completed"]


def test_b28_an_event_line_that_differs_loses() -> None:
    data = b"event: response.failed\n" + block("B28").encode() + DONE
    ran = run(data)
    assert ran.codes == ["event_name_mismatch"]  # the report stays silent here; in this library nothing is
    assert ran.events[0].type == "response.created"
    assert run(data, LETTER).raised == "event_name_mismatch"


def frames(*chunks: bytes) -> list[Frame]:
    parser = FrameParser()
    return [frame for chunk in chunks for frame in parser.feed(chunk)]


def placed(data: bytes) -> bytes:
    """Give a delta the place that the report left out."""
    return data.replace(b'"delta":', b'"output_index":0,"content_index":0,"delta":')


def deltas(data: bytes) -> list[str]:
    decoder = Decoder()
    return [event.delta for frame in frames(data) for event in decoder.feed(frame) if isinstance(event, DeltaEvent)]


def test_b29_a_character_cut_between_chunks_is_whole() -> None:
    first, second = literals("B29")
    (frame,) = frames(first, second)
    assert json.loads(frame.data)["delta"] == "\u5317"
    assert deltas(placed(first + second)) == ["\u5317"]


def test_b29_bytes_that_are_no_utf8_are_refused() -> None:
    first, second = literals("B29")
    for profile in (DEFAULT, STRICT):
        assert type(run(first + second[1:], profile).error) is FrameDecodeError


def test_b30_only_lf_cr_and_crlf_end_a_line() -> None:
    (data,) = literals("B30")
    for profile in (DEFAULT, STRICT):
        ran = run(placed(data), profile)
        assert type(ran.error) is FrameDecodeError  # the raw VT is no JSON; the frame itself is whole
        assert ran.error.frame == frames(placed(data))[0]
    assert deltas(placed(data.replace(b"\x0b", b""))) == ["a\u2028b\u0085cd"]


def test_b31_a_crlf_between_chunks_is_one_line_end() -> None:
    chunks = literals("B31")
    assert [frame.data for frame in frames(*chunks)] == [b'{"a":\n1}']
    whole = b"".join(chunks)
    for at in range(len(whole)):
        for then in range(at, len(whole)):
            assert [frame.data for frame in frames(whole[:at], whole[at:then], whole[then:])] == [b'{"a":\n1}']


def test_b32_a_last_frame_without_a_blank_line_is_taken_if_it_is_whole() -> None:
    (data,) = literals("B32")
    ran = run(data)
    assert ran.error is None
    assert ran.codes == ["unfinished_frame", "created_not_first"]
    assert ran.final.status == "completed"
    for cut in range(len(data)):
        assert isinstance(run(data[:cut]).error, StreamInterrupted)


def test_b32_the_letter_drops_it_and_says_what_it_was() -> None:
    (data,) = literals("B32")
    error = run(data, STRICT).failure
    assert isinstance(error, StreamInterrupted)
    size = len(data) - len(b"data: ")
    assert f"and an unfinished frame of {size} bytes of type response.completed" in str(error)


def test_b32_nothing_is_taken_after_the_connection_broke() -> None:
    (data,) = literals("B32")
    lost = ConnectionLost("reset")
    assert run(data, broken=lost).error is lost
    ran = run(sse(created(), done=False) + data, broken=lost)
    assert isinstance(ran.error, StreamInterrupted)
    assert ran.accumulator.final_response is None


def test_b33_a_large_frame_is_read_and_one_above_the_limit_is_an_error() -> None:
    head, letter, tail = literals("B33")
    data = head + letter * 2_000_000 + tail
    chunks = [data[at : at + 4_096] for at in range(0, len(data), 4_096)]
    (frame,) = frames(*chunks)
    assert len(json.loads(frame.data)["partial_image_b64"]) == 2_000_000
    parser = FrameParser(max_frame_bytes=1 << 20)
    with pytest.raises(FrameTooLarge) as caught:
        _ = [parser.feed(chunk) for chunk in chunks]
    assert caught.value.limit == 1 << 20
    assert caught.value.limit < caught.value.seen <= (1 << 20) + 4_096


def test_b34_accumulation_is_linear_however_many_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "Text", CountingText)
    monkeypatch.setattr(CountingText, "joined", 0)
    monkeypatch.setattr(CountingText, "joins", 0)
    (piece,) = events(delta("12 letters.."))
    accumulator = Accumulator()
    for event in events(created(), added(), part_added()):
        accumulator.feed(event)
    for number in range(1, 50_001):
        (out,) = accumulator.feed(piece)
        assert isinstance(out, DeltaEvent)
        for _ in range(3 if number % 500 == 0 else 0):  # three subscribers
            assert out.snapshot == "12 letters.." * number
        for _ in range(3 if number % 10 == 0 else 0):
            assert out.snapshot_tail(12) == "12 letters.."
    assert (CountingText.joins, CountingText.joined) == (100, 50_000)


def test_b41_a_broken_first_attempt_is_an_interruption_with_what_came() -> None:
    error = run(body("B41"), broken=ConnectionLost("reset")).failure
    assert isinstance(error, StreamInterrupted)
    assert error.snapshot is not None
    assert (error.snapshot.output_text, error.resumable) == ("The plan", False)


def test_b42_an_incomplete_response_says_why() -> None:
    final = run(body("B42")).final
    assert final.incomplete_details is not None
    assert final.incomplete_details.reason == "max_output_tokens"


def test_b44_parallel_calls_keep_their_arguments_apart_at_every_moment() -> None:
    ran = run(body("B44"))
    snapshots = [event.snapshot for event in ran.events if isinstance(event, DeltaEvent)]
    assert snapshots == ['{"f":', '{"f":', '{"f":1}', '{"f":2}']


def test_b45_the_parts_of_a_summary_stay_apart() -> None:
    (reasoning,) = list(run(body("B45")).final.output or ())
    assert [part.text for part in getattr(reasoning, "summary", [])] == ["**One**", "**Two**"]


def test_b46_a_failure_keeps_its_reason_and_what_came_before() -> None:
    final = run(body("B46")).final
    assert final.error is not None
    assert (final.error.code, final.error.message) == ("server_error", "boom")


BEFORE = [created(), keepalive(), keepalive(), added(), part_added(), delta("Hel")]  # 0 to 5


def test_b49_a_suffix_goes_on_from_the_snapshot() -> None:
    accumulator = Accumulator(Judge(STRICT))
    for event in events(*BEFORE):
        accumulator.feed(event)
    assert accumulator.cursor == Cursor("resp_a", 5)
    ran = run(body("B49"), accumulator=accumulator)
    assert ran.codes == ["created_not_first"]  # of the guard, which is a new one
    first: Event = ran.events[0]
    assert isinstance(first, DeltaEvent)
    assert first.snapshot == "Hello"
    assert ran.final.output_text == "Hello"


def test_b49_steps_that_go_on_see_one_stream() -> None:
    prefix = sse(*BEFORE, done=False)
    ran = run(prefix + body("B49", done=True), LETTER)
    assert (ran.error, ran.codes) == (None, [])
    assert ran.final.output_text == "Hello"


def test_b49_a_suffix_alone_is_settled_by_the_terminal() -> None:
    ran = run(body("B49"))
    first: Event = ran.events[0]
    assert isinstance(first, DeltaEvent)
    assert first.snapshot == "lo"  # what it brought, and no guess at what came before
    assert ran.final.output_text == "Hello"
    assert ran.accumulator.cursor == Cursor("resp_a", 10)


def test_b53_queued_may_come_after_created_and_again() -> None:
    queued = {"type": "response.queued", "response": {"id": "resp_a", "status": "queued"}}
    ran = run(sse(created(), queued, queued, *hello()[1:]), LETTER)
    assert (ran.error, ran.codes) == (None, [])


# Rx under asyncio, and streams that many share


async def test_b56_a_subscriber_that_raises_is_told_its_own_exception_and_the_source_never_sees_it() -> None:
    # the report wraps it in a SubscriberError and lets it fail the stream if asked to; here it is told as it is
    subject, trouble = Subject[int](), ValueError("of the subscriber")
    told_to_a: list[Exception] = []
    a: list[int] = []

    def raise_it(number: int) -> None:
        a.append(number)
        raise trouble

    shared = subject.pipe(ops.fan_out())
    shared.subscribe(raise_it, told_to_a.append)
    b = Listener(shared)
    for number in (1, 2, 3):
        subject.on_next(number)  # which raises nothing
    assert (a, told_to_a, b.heard, b.ends) == ([1], [trouble], [1, 2, 3], [])


DELTAS = 20_000


def flood() -> list[Event]:
    return events(*[delta("x") for _ in range(DELTAS)])


@pytest.mark.parametrize("overflow", ["pause", "conflate", "drop_oldest", "latest", "fail"])
async def test_b58_what_waits_for_a_slow_reader_is_bounded_by_a_policy(overflow: Overflow) -> None:
    # A subscriber that is a function runs inline and is not timed: asyncio's debug mode warns of slow callbacks. The
    # default is a pause of the socket, which a source that is pushed by hand does not have, and says so in the log.
    source, buffer = Source[Event](), 100
    read: list[Event] = []
    async with iterate(source.observable, buffer=buffer, overflow=overflow) as reading:
        first = asyncio.ensure_future(anext(reading))
        await asyncio.sleep(0)
        source.push(*flood())  # in one tick
        waiting = reading.waiting
        source.complete()
        read.append(await first)
        try:
            async for event in reading:
                read.append(event)
        except ConsumerTooSlow:
            assert overflow == "fail"
    numbers = [event.sequence_number for event in read]
    bounds = {"pause": DELTAS, "conflate": 1, "drop_oldest": buffer, "latest": 1, "fail": buffer}
    assert waiting == bounds[overflow]
    if overflow in ("pause", "conflate"):
        assert "".join(event.delta for event in read if isinstance(event, DeltaEvent)) == "x" * DELTAS
    elif overflow == "fail":
        assert numbers == list(range(buffer))
    else:
        assert numbers == list(range(DELTAS - bounds[overflow], DELTAS))
        assert reading.dropped == DELTAS - bounds[overflow]


async def test_b59_a_break_disposes_at_once_and_closing_has_disposed() -> None:
    source = Source[int]()

    def subscribe(observer: abc.ObserverBase[int], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        observer.on_next(0)
        return source.observable.subscribe(observer)

    numbers = Observable(subscribe)
    async for _ in iterate(numbers):
        break
    assert source.disposed == 1
    reading = iterate(numbers)
    async for _ in reading:
        break
    assert source.disposed == 1  # somebody may go on with it
    await reading.aclose()
    assert source.disposed == 2


async def test_b59_the_end_is_never_lost_when_a_queue_is_full_and_an_error_comes_in_its_place() -> None:
    source, queue = Source[int](), asyncio.Queue[int | QueueEnd](maxsize=1)
    feeding = asyncio.ensure_future(to_queue(source.observable, queue))
    await turns()
    error = ConnectionLost("reset")
    source.push(1, 2, 3)
    source.fail(error)
    await turns()
    assert queue.full()
    assert [await queue.get() for _ in range(4)] == [1, 2, 3, QueueEnd(error)]
    await feeding


async def test_b61_an_event_of_another_thread_wakes_an_idle_loop() -> None:
    # there is no assertion on threads: elements may come from any, and a reader is woken with call_soon_threadsafe
    source = Source[int]()
    shared = source.observable.pipe(ops.fan_out())
    queue = asyncio.Queue[int | QueueEnd]()
    async with iterate(shared) as reading, iterate(shared) as other:
        readers = [asyncio.ensure_future(anext(one)) for one in (reading, other)]
        feeding = asyncio.ensure_future(to_queue(shared, queue))
        got = asyncio.ensure_future(queue.get())
        await turns()
        thread = threading.Thread(target=source.push, args=(1,))
        thread.start()
        async with asyncio.timeout(PATIENCE):  # the loop has nothing else to wake for
            assert [await reader for reader in (*readers, got)] == [1, 1, 1]
        thread.join(PATIENCE)
        feeding.cancel()
        await turns()
    assert source.disposed == 1


async def test_b64_a_reader_that_is_too_slow_is_woken_and_told_and_another_gets_everything() -> None:
    count, source = 10_000, Source[int]()
    shared = source.observable.pipe(ops.fan_out())
    slow, brisk = iterate(shared, buffer=100, overflow="fail"), iterate(shared, buffer=100)
    waiting, read = asyncio.ensure_future(anext(slow)), list[int]()

    async def read_all() -> None:
        async for number in brisk:
            read.append(number)

    reading = asyncio.ensure_future(read_all())
    await turns()
    for number in range(count):
        source.push(number)
        if number % 50 == 0:
            await turns(60)
    source.complete()
    await reading
    assert read == list(range(count))
    got = [await waiting]
    got += [await anext(slow) for _ in range(100)]
    assert got == list(range(101))  # the one it waited for, and what it had room for
    with pytest.raises(ConsumerTooSlow):
        await anext(slow)
    assert slow.waiting == 0


async def test_b64_a_reader_that_is_cancelled_is_deregistered() -> None:
    source = Source[int]()
    reader = asyncio.ensure_future(anext(iterate(source.observable.pipe(ops.fan_out()))))
    await turns()
    reader.cancel()
    await turns()
    assert source.disposed == 1


@pytest.mark.parametrize("overflow", ["pause", "drop_oldest", "latest", "fail", "conflate"])
async def test_b65_a_stalled_tab_slows_the_others_only_if_it_was_asked_to(overflow: Overflow) -> None:
    # with "pause", the default, the slowest reader decides on purpose: nothing is lost, and nothing piles up
    produced = list[int]()

    async def produce() -> AsyncGenerator[Event]:
        for event in streamed:
            produced.append(1)
            yield event
            await asyncio.sleep(0)

    streamed = events(*hello()[:3], *[delta("x"), keepalive()] * 200, *hello()[5:])
    shared = from_async_iterable(produce).pipe(ops.fan_out())
    tabs = [shared.pipe(ops.encode_sse(keepalive=None)) for _ in range(2)]
    stalled = iterate(tabs[0], buffer=10, overflow=overflow)
    await anext(stalled)  # and then it stops reading its socket
    async with iterate(tabs[1]) as running:
        sent = [await anext(running) for _ in range(5)]
        if overflow in ("pause", "conflate"):
            await turns(len(streamed) + 100)
            assert len(produced) < 20
            await stalled.aclose()  # such as at the timeout of its write
        sent += [frame async for frame in running]
    assert len(sent) == len(streamed)
    await stalled.aclose()


async def test_b68_a_producer_that_dies_is_told_to_every_reader_now_and_later() -> None:
    source = Source[Event]()
    shared = source.observable.pipe(ops.lifecycle_guard(), ops.accumulate(), ops.fan_out())
    early, tab = Listener(shared), Listener(shared.pipe(ops.encode_sse()))
    source.push(*events(created(), added(), part_added(), *[delta("x")] * 3))
    reading = iterate(shared)
    for _ in range(6):
        await anext(reading)
    waiting = asyncio.ensure_future(anext(reading))
    await turns()
    source.fail(ConnectionLost("reset"))
    with pytest.raises(StreamInterrupted):
        await waiting
    late = Listener(shared)
    assert [type(end) for end in (*early.ends, *late.ends)] == [StreamInterrupted] * 2
    assert late.heard == early.heard
    # which a page can tell from a terminal of the server
    assert tab.heard[-1].startswith(b"event: error\n")
    assert b'"code":"stream_interrupted"' in tab.heard[-1]
    assert tab.ends == [None]


def test_b68_a_terminal_settles_a_stream_whose_end_is_lost() -> None:
    clock = TestScheduler()
    source = Source[Event]()
    shared = source.observable.pipe(ops.lifecycle_guard(linger=1), ops.fan_out())
    listener = Listener(shared, scheduler=clock)
    source.push(*events(*hello()))
    assert listener.ends == []
    clock.advance_by(1)
    assert listener.ends == Listener(shared).ends == [None]
    assert source.disposed == 1


@pytest.mark.usefixtures("clean_environment")
async def test_b69_a_tab_that_closes_stops_nothing_and_the_stop_button_stops_it_for_all() -> None:
    async with (
        Simulator(hold=20) as simulator,
        Client(base_url=simulator.base_url, retry=Retry(first=0, most=0)) as client,
    ):
        shared = client.events(model="everything", input="x", background=True).pipe(ops.fan_out())
        tabs = [await Ear(shared).heard(20) for _ in range(3)]
        tabs[0].subscription.dispose()  # a closed tab
        await turns()
        assert simulator.status_of("resp_0001") == "in_progress"
        await client.cancel("resp_0001")  # the stop button of another
        for tab in tabs[1:]:
            await tab.ended()
            assert tab.completed
            terminals = [event for event in tab.elements if isinstance(event, TerminalEvent)]
            assert [event.response.status for event in terminals] == ["cancelled"]
        assert simulator.status_of("resp_0001") == "cancelled"
        # a second resume supersedes nothing: each is a subscription of its own, and here both share one
        assert [r.path for r in simulator.requests if r.method == "POST"] == [
            "/v1/responses",
            "/v1/responses/resp_0001/cancel",
        ]
        assert not tabs[0].has_ended
