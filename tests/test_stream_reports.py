"""The report on a stream: what it names of real streams, of broken ones, and of when their bytes came."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orx_rx import Client, iterate
from orx_rx.errors import ConnectionLost
from orx_rx.protocol.conformance import Conformance, Finding, Place, Report, check
from orx_rx.protocol.effects import EFFECTS, OBSERVATIONS
from orx_rx.protocol.timing import BLOCK_EVENTS, BLOCK_PAUSE, BLOCKS, HELD_BACK, SILENCE
from orx_rx.protocol.violations import DEFAULT, RULES, STRICT
from orx_rx.simulator import SCENARIOS, Simulator
from tests.captures import capture_names, read_capture
from tests.chain import DONE, Payload, added, created, delta, failing, hello, numbered, record, run, sse, terminal
from tests.conftest import SHARED
from tests.servers import clean_environment as clean_environment
from tests.test_rules import BROKEN

NAMES = capture_names()
captures = pytest.mark.parametrize("name", NAMES)

# real streams

FOUND: dict[str, set[str]] = {
    "azure/image-generation-partial.sse": {"item_status_open"},
    "azure/web-search-preview.sse": {"item_status_open"},
    "chatgpt-codex/function-call-unicode.sse": {"terminal_output_empty"},
    "chatgpt-codex/parallel-tool-calls.sse": {"terminal_output_empty"},
    "chatgpt-codex/text-short.sse": {"terminal_output_empty"},
    "copilot/id-rotation-reasoning.sse": {"item_id_changed", "response_id_changed"},
    "openai/background-resume-starting-after.sse": {"created_not_first"},
    "openai/no-sequence-number-function-call.sse": {"sequence_missing"},
    "openai/phase-commentary-trimmed.sse": {"done_mismatch", "sequence_gap"},
    "openai/programmatic-function-call.sse": {"item_status_open"},
    "openai/programmatic-program-item.sse": {"item_status_open"},
    "openrouter/gpt-oss-raw-reasoning.sse": {"item_id_changed"},
    "transformers-serve/text-excerpt-no-end.sse": {"item_cut_off", "missing_terminal"},
}
"""What the report names of each capture, besides `[DONE]` and fields that are left out; nothing of the others."""

# those that leave out fields that Open Responses requires
LEFT_OUT = {
    "azure/function-call.sse",
    "azure/image-generation-partial.sse",
    "azure/reasoning-encrypted-turn1.sse",
    "azure/reasoning-encrypted-turn2.sse",
    "azure/text-short.sse",
    "azure/web-search-preview.sse",
    "copilot/id-rotation-reasoning.sse",
    "openai/apply-patch-create-file.sse",
    "openai/code-interpreter-two-calls.sse",
    "openai/code-interpreter-with-files.sse",
    "openai/code-interpreter-with-reasoning.sse",
    "openai/error-insufficient-quota.sse",
    "openai/file-search-gpt4o.sse",
    "openai/file-search-gpt5-mini.sse",
    "openai/function-call-gpt4o-mini.sse",
    "openai/function-call-gpt5-usage.sse",
    "openai/function-call-long-arguments.sse",
    "openai/function-calls-parallel-gpt4o.sse",
    "openai/image-input-text.sse",
    "openai/json-schema-gpt4o-mini.sse",
    "openai/mcp-approval-denied.sse",
    "openai/mcp-approval-request.sse",
    "openai/mcp-call-completed.sse",
    "openai/mcp-call-deepwiki.sse",
    "openai/no-sequence-number-function-call.sse",
    "openai/phase-commentary-trimmed.sse",
    "openai/reasoning-encrypted-turn1.sse",
    "openai/reasoning-function-o3-mini-2025-06.sse",
    "openai/reasoning-summary-function-o4-mini-2025-06.sse",
    "openai/reasoning-summary-o3-mini-long.sse",
    "openai/reasoning-text-o3-mini.sse",
    "openai/refusal-as-plain-text.sse",
    "openai/text-gpt41-nano-story.sse",
    "openai/text-gpt4o-mini-no-obfuscation.sse",
    "openai/web-search-annotations-gpt52.sse",
    "openai/web-search-gpt5-mini.sse",
    "openai/web-search-multi-reasoning.sse",
    "openrouter/gpt-4o-text.sse",
    "openrouter/gpt-oss-raw-reasoning.sse",
    "transformers-serve/text-excerpt-no-end.sse",
    "xai/grok-code-reasoning-store-false.sse",
    "xai/grok-code-text.sse",
    "xai/x-search-parallel-items.sse",
}

EXCERPT = "transformers-serve/text-excerpt-no-end.sse"  # where the terminal is missing, [DONE] is not asked for
WITH_DONE = {"openrouter/gpt-4o-text.sse", "openrouter/gpt-oss-raw-reasoning.sse"}

KNOWN: dict[str, tuple[str, set[str]]] = {
    "rotating ids": (
        "item_id_changed",
        {"copilot/id-rotation-reasoning.sse", "openrouter/gpt-oss-raw-reasoning.sse"},
    ),
    "empty terminal output": (
        "terminal_output_empty",
        {name for name in FOUND if name.startswith("chatgpt-codex/")},
    ),
    "missing numbers": ("sequence_missing", {"openai/no-sequence-number-function-call.sse"}),
    "events that were cut out": ("sequence_gap", {"openai/phase-commentary-trimmed.sse"}),
    "items never closed": ("item_cut_off", {"transformers-serve/text-excerpt-no-end.sse"}),
    "odd statuses": (
        "item_status_open",
        {name for name in FOUND if name.startswith("azure/") or "programmatic" in name},
    ),
}
"""What is known of the captures, in words: the code of it, and the captures that it is known of."""

MANIFEST = {
    ("ends with [DONE]", "n"): "missing_done",
    ("sequence_number strictly increasing", "n/a"): "sequence_missing",
    ("first sequence_number", "1"): "created_not_first",
    ("terminal event type", "none"): "missing_terminal",
}
"""What a column of the manifest says, and the code of it."""

NOTES = {
    "TRIMMED": {"sequence_gap", "done_mismatch"},
    "EXCERPT": {"missing_terminal", "item_cut_off"},
}
"""What a note of the manifest says about the bytes, and the codes of it; the other notes are about placeholders."""


@captures
def test_the_report_on_a_capture_names_what_is_known_of_it(name: str) -> None:
    ends: set[str] = set() if name in WITH_DONE or name == EXCERPT else {"missing_done"}
    left_out: set[str] = {"field_missing"} if name in LEFT_OUT else set()
    assert {*check(read_capture(name)).rules} == FOUND.get(name, set()) | ends | left_out


@pytest.mark.parametrize("words", KNOWN)
def test_what_is_known_in_words_is_found_there_and_nowhere_else(words: str) -> None:
    code, known = KNOWN[words]
    assert {name for name, codes in FOUND.items() if code in codes} == known


@captures
def test_the_report_agrees_with_the_manifest(name: str) -> None:
    with (SHARED / "captures" / "MANIFEST.tsv").open(encoding="utf-8", newline="") as file:
        rows = {row["file"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}
    row, report = rows[name], check(read_capture(name))
    for (column, value), code in MANIFEST.items():
        asked_for = code != "missing_done" or name != EXCERPT
        assert (code in report.rules) == (row[column] == value and asked_for), column
    for word, codes in NOTES.items():
        assert (word in row["note"]) == (codes <= {*report.rules})
    assert report.terminal == (None if row["terminal event type"] == "none" else row["terminal event type"])
    assert (report.events, report.bytes) == (int(row["number of events"]), int(row["bytes"]))
    assert report.done == (row["ends with [DONE]"] == "y")
    assert report.frames == report.events + report.done
    assert report.unnamed_frames == (0 if row["has event: lines"] == "y" else report.events)


@captures
def test_the_verdicts_on_a_capture_are_those_of_the_profiles(name: str) -> None:
    _check_verdicts(read_capture(name))


def _check_verdicts(body: bytes) -> Report:
    report = check(body)
    for profile, said in ((DEFAULT, report.default_error), (STRICT, report.strict_error)):
        error = run(body, profile).error
        assert said == (None if error is None else f"{type(error).__name__}: {error}")
    assert (report.passes_default, report.passes_strict) == (report.default_error is None, report.strict_error is None)
    return report


@pytest.mark.usefixtures("clean_environment")
@pytest.mark.parametrize("model", [*SCENARIOS])
async def test_the_simulator_gets_an_empty_report(model: str) -> None:
    conformance = Conformance()
    async with (
        Simulator() as simulator,
        Client(base_url=simulator.base_url) as client,
        iterate(client.chunks(model=model, input="Hello")) as reading,
    ):
        async for chunk in reading:
            conformance.feed(chunk)
    report = conformance.end()
    assert report.findings == ()
    assert (report.default_error, report.strict_error) == (None, None)
    assert report.lines()[-1] == "nothing was found"
    assert conformance.response is not None
    assert conformance.response.status == (report.terminal or "").removeprefix("response.")


# streams that break a rule


@pytest.mark.parametrize("code", BROKEN)
def test_a_rule_that_is_broken_is_named_with_its_place_and_its_severity(code: str) -> None:
    broken = BROKEN[code]
    report = _check_verdicts(broken.body)
    (finding,) = [finding for finding in report.findings if finding.rule == code]
    place = finding.first
    assert (place.sequence_number, place.event_type) == (broken.sequence_number, broken.event_type)
    assert place.place == broken.place
    assert finding.count >= 1
    rule = RULES[code]
    assert (finding.severity == "error") == (rule.default == "raise")
    assert (finding.severity == "note") == (rule.strict != "raise")
    assert finding.effect == EFFECTS[code]


def test_every_rule_has_an_effect_and_no_code_has_two_rules() -> None:
    assert [*EFFECTS] == [*RULES, *OBSERVATIONS]
    assert all(effect.endswith(".") and len(effect) < 120 for effect in EFFECTS.values())
    assert not {*RULES} & {*OBSERVATIONS}
    assert all(code == rule.code for code, rule in OBSERVATIONS.items())


def test_the_report_goes_on_behind_everything_that_would_end_a_stream() -> None:
    payloads = numbered(hello())
    body = b"".join([b"data: {oops\n\n", b"data: [1]\n\n", *map(record, payloads), b'data: {"sequence_number":9}\n\n'])
    report = check(body)
    assert {"data_not_json", "not_an_object", "type_missing", "missing_done"} <= {*report.rules}
    assert report.events == 9
    assert report.terminal == "response.completed"
    assert report.default_error is not None
    assert report.default_error.startswith("FrameDecodeError: expected JSON in UTF-8")
    assert [finding.severity for finding in report.findings] == sorted(
        (finding.severity for finding in report.findings), key=["error", "warning", "note"].index
    )


def test_what_is_found_again_is_counted_and_placed_where_it_was_first() -> None:
    (finding,) = [f for f in check(b": hello\n\n" + b"data:\n\n" * 3 + DONE).findings if f.rule == "empty_data"]
    assert finding == Finding("empty_data", 3, Place(0), "expected data, got an empty frame")
    assert str(finding).startswith(
        "warning: empty_data (3 times): expected data, got an empty frame (frame 0, stream)."
    )


def test_an_error_without_a_terminal_is_told() -> None:
    report = _check_verdicts(sse(created(), failing("busy")))
    assert "error_without_terminal" in report.rules
    assert "missing_terminal" not in report.rules
    assert report.default_error is not None
    assert report.default_error.startswith("ServerError")


def test_a_frame_that_is_too_large_ends_the_reading() -> None:
    conformance = Conformance(max_frame_bytes=100)
    conformance.feed(b'data: {"type":"x:y","sequence_number":0}\n\ndata: ' + b"x" * 200 + b"\n\n")
    conformance.feed(b"data: more\n\n")
    report = conformance.end()
    assert {*report.rules} == {"frame_too_large"}
    assert (report.frames, report.bytes) == (1, 262)
    assert report.findings[0].first == Place(1)
    assert report.default_error is not None
    assert report.default_error.startswith("FrameTooLarge")
    last = Conformance(max_frame_bytes=10)
    last.feed(b"data: " + b"x" * 20)
    assert last.end().rules == ("frame_too_large",)


@pytest.mark.parametrize("whole", [False, True])
def test_a_connection_that_breaks_matters_before_the_terminal_only(whole: bool) -> None:
    conformance = Conformance()
    conformance.feed(sse(*hello()[: None if whole else 5], done=whole))
    report = conformance.end(ConnectionLost("expected the rest, got a closed connection"))
    assert ("missing_terminal" in report.rules) != whole
    assert ("item_cut_off" in report.rules) != whole
    assert report.passes_default == whole


def test_nothing_at_all_is_a_stream_without_a_terminal() -> None:
    report = check([])
    assert report.rules == ("missing_terminal",)
    assert (report.bytes, report.frames, report.events, report.duration) == (0, 0, 0, None)


def test_a_report_reads_as_lines_and_as_json() -> None:
    report = check(sse(*hello()[:5], done=False))
    value = json.loads(json.dumps(report.to_json()))
    assert value["passes_default"] is False
    assert [finding["rule"] for finding in value["findings"]] == [*report.rules]
    assert {"rule", "severity", "count", "first", "message", "effect"} == {*value["findings"][0]}
    lines = str(report).splitlines()
    assert lines == report.lines()
    assert lines[0] == f"5 events in 5 frames and {report.bytes} bytes; no terminal, no [DONE]"
    assert lines[1].startswith("DEFAULT: StreamInterrupted: expected a terminal")
    assert lines[3].startswith("error: missing_terminal: expected a terminal, got the end of the stream")
    assert lines[3].endswith(EFFECTS["missing_terminal"])


SAMPLES = [
    sse(*hello()),
    sse(created(), added(), delta("x"), failing(), terminal("failed")),
    *(b.body for b in BROKEN.values()),
]


@settings(max_examples=300, deadline=None)
@given(
    body=st.sampled_from(SAMPLES) | st.binary(max_size=200),
    edits=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 20), st.binary(max_size=20)), max_size=4),
    cuts=st.lists(st.floats(0, 1), max_size=4),
)
def test_whatever_comes_nothing_is_raised_and_the_verdicts_are_those_of_the_profiles(
    body: bytes, edits: list[tuple[float, int, bytes]], cuts: list[float]
) -> None:
    for where, gone, put in edits:
        at = int(where * len(body))
        body = body[:at] + put + body[at + gone :]
    report = _check_verdicts(body)
    places = [0, *sorted(int(cut * len(body)) for cut in cuts), len(body)]
    assert check(body[a:b] for a, b in pairwise(places)) == report
    json.dumps(report.to_json())


# times


def timed(
    *arrivals: tuple[float, Sequence[Payload] | bytes], started: float | None = 0.0, end: float | None = None
) -> Report:
    """Feed payloads, or bytes, at their times; the payloads are numbered on."""
    number = 0
    conformance = Conformance(started=started)
    for at, what in arrivals:
        if isinstance(what, bytes):
            conformance.feed(what, at)
            continue
        payloads: list[dict[str, Any]] = [{**payload, "sequence_number": number + n} for n, payload in enumerate(what)]
        number += len(what)
        conformance.feed(b"".join(map(record, payloads)), at)
    return conformance.end(at=end)


def times_of(report: Report) -> set[str]:
    return {*report.rules} & {"held_back", "held_in_blocks", "long_silence"}


WHOLE = hello()
MANY = [*WHOLE[:3], *(delta("x") for _ in range(100)), *WHOLE[5:]]


def evenly(payloads: Sequence[Payload], first: float, pace: float) -> list[tuple[float, Any]]:
    return [(first + number * pace, [payload]) for number, payload in enumerate(payloads)]


def blocks(count: int, pause: float) -> list[tuple[float, Any]]:
    size = len(MANY) // count + 1
    return [(number * pause, MANY[number * size : (number + 1) * size]) for number in range(count)]


ARRIVALS: list[tuple[list[tuple[float, Any]], set[str]]] = [
    (evenly(MANY, 0.5, 0.02), set()),
    (evenly(MANY, 5.0, 0.02), set()),  # a queue
    ([(0.3, WHOLE)], set()),  # a short answer
    ([(HELD_BACK * 5, WHOLE)], {"held_back"}),
    ([(0.0, b": hello\n\n"), (20.0, WHOLE)], {"held_back"}),
    ([(0.3, WHOLE[:2]), (20.0, WHOLE[2:])], set()),  # thinking, and then a short answer
    ([(20.0, WHOLE[:5])], set()),  # without an end it is not known
    ([(20.0, WHOLE[1:])], set()),  # what goes on behind a cursor comes at once
    (blocks(6, BLOCK_PAUSE * 2), {"held_in_blocks"}),
    (blocks(6, BLOCK_PAUSE / 2), set()),
    (blocks(BLOCKS, 1.0), set()),  # the first block has no silence before it
    (blocks(len(MANY) // BLOCK_EVENTS + 2, 1.0), set()),  # too small for blocks
    ([(0.1, WHOLE[:3]), (SILENCE + 1, WHOLE[3:])], {"long_silence"}),
    ([(0.1, WHOLE[:3]), (SILENCE / 2, b": still here\n\n"), (SILENCE + 1, WHOLE[3:])], set()),
]


@pytest.mark.parametrize(("arrivals", "found"), ARRIVALS)
def test_what_lies_between_shows_in_the_times(arrivals: list[tuple[float, Any]], found: set[str]) -> None:
    assert times_of(timed(*arrivals)) == found


def test_without_times_nothing_is_said_of_them() -> None:
    report = check(sse(*MANY))
    assert (report.duration, report.first_event, report.longest_silence, report.longest_wait) == (None,) * 4
    assert times_of(report) == set()


def test_times_are_told_from_the_request_on() -> None:
    report = timed((101.0, b": hello\n\n"), (102.0, WHOLE[:4]), (105.0, WHOLE[4:]), started=100.0)
    assert (report.first_event, report.duration) == (2.0, 5.0)
    assert (report.longest_silence, report.longest_wait) == (3.0, 3.0)
    assert report.lines()[0].endswith("no [DONE]; 5.00 s; the first event after 2.00 s")
    report = timed((101.0, WHOLE[:4]), (105.0, WHOLE[4:]), started=None)
    assert (report.first_event, report.duration) == (0.0, 4.0)


def test_the_silence_at_the_end_counts_where_something_is_missing() -> None:
    assert timed((0.0, WHOLE[:4]), end=60.0).longest_silence == 60.0
    assert timed((0.0, WHOLE), end=60.0).longest_silence == 0.0
