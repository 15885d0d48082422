"""The real streams of real servers: what becomes of each of them, and what there is to say about it.

The tables below were checked against the bytes. `wire_events` reads a capture a second time, without the library, so
that what is compared with it does not come from the same code.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest

from orx_rx.errors import LifecycleViolation, StreamInterrupted
from orx_rx.models import (
    DeltaEvent,
    Event,
    ResponseOutputItemDoneEvent,
    ResponseShellCallOutputContentDeltaEvent,
    StreamEnd,
    TerminalEvent,
    UnknownEvent,
    to_wire,
)
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.cursor import Cursor
from orx_rx.protocol.decoding import Decoder
from orx_rx.protocol.violations import QUIET, RULES, STRICT, Verdict
from orx_rx.wire import FrameParser
from tests.captures import capture_names, read_capture
from tests.chain import Ran, run
from tests.conftest import shared

MANIFEST = shared("captures") / "MANIFEST.tsv"  # where they are absent, all of this is skipped
NAMES = capture_names()
EXCERPT = "transformers-serve/text-excerpt-no-end.sse"

# What DEFAULT reports: code, sequence number, place. Nothing for the captures that are not named.
REPORTED: dict[str, list[tuple[str, int | None, str]]] = {
    # the backend of Codex streams its items and leaves them out of the terminal
    "chatgpt-codex/function-call-unicode.sse": [("terminal_output_empty", 24, "response.output")],
    "chatgpt-codex/parallel-tool-calls.sse": [("terminal_output_empty", 10, "response.output")],
    "chatgpt-codex/text-short.sse": [("terminal_output_empty", 13, "response.output")],
    # every event has ids of its own; each thing whose id changes is told once, and once more by the terminal
    "copilot/id-rotation-reasoning.sse": [
        ("response_id_changed", 1, ""),
        ("item_id_changed", 3, "output[0]"),
        ("item_id_changed", 9, "output[1]"),
        ("item_id_changed", 68, "response.output[0]"),
        ("item_id_changed", 68, "response.output[1]"),
    ],
    # a GET with starting_after=0 begins with response.queued
    "openai/background-resume-starting-after.sse": [("created_not_first", 1, "")],
    "openai/no-sequence-number-function-call.sse": [("sequence_missing", None, "")],
    # the author of the fixture cut out 35 + 5 + 73 events: most deltas of two texts, and an item between them
    "openai/phase-commentary-trimmed.sse": [
        ("sequence_gap", 41, ""),
        ("done_mismatch", 41, "output[0].content[0]"),
        ("sequence_gap", 49, ""),
        ("sequence_gap", 126, ""),
        ("done_mismatch", 126, "output[2].content[0]"),
    ],
    # the terminal has a new id for the reasoning
    "openrouter/gpt-oss-raw-reasoning.sse": [("item_id_changed", 39, "response.output[0]")],
}

# What STRICT raises; `missing_done` for the captures that are not named, since OpenAI sends no [DONE].
RAISED: dict[str, str | None] = {
    "chatgpt-codex/function-call-unicode.sse": "terminal_output_empty",
    "chatgpt-codex/parallel-tool-calls.sse": "terminal_output_empty",
    "chatgpt-codex/text-short.sse": "terminal_output_empty",
    "copilot/id-rotation-reasoning.sse": "response_id_changed",
    "openai/background-resume-starting-after.sse": "created_not_first",
    "openai/no-sequence-number-function-call.sse": "sequence_missing",
    "openai/phase-commentary-trimmed.sse": "done_mismatch",
    "openrouter/gpt-4o-text.sse": None,
    "openrouter/gpt-oss-raw-reasoning.sse": "item_id_changed",
    EXCERPT: "missing_terminal",
}

# Items that are done in a status that is not final, by number and place; only told to who asks for it.
STATUS_OPEN: dict[str, tuple[int, str]] = {
    "azure/image-generation-partial.sse": (6, "output[0]"),  # generating
    "azure/web-search-preview.sse": (5, "output[0]"),  # searching
    "openai/programmatic-function-call.sse": (5, "output[0]"),  # in_progress
    "openai/programmatic-program-item.sse": (9, "output[2]"),  # in_progress
}

# What STRICT reports and never raises, besides missing fields.
ONLY_REPORTED = ("sequence_gap", "item_status_open")

_NO_PENALTIES = {"response.frequency_penalty", "response.presence_penalty"}
_OLDER = _NO_PENALTIES | {"response.completed_at"}
_NO_KEY = {"response.prompt_cache_key"}

# The required fields that a server leaves out, by the type of the event.
LEFT_OUT: dict[str, dict[str, set[str]]] = {
    "openai/phase-final-answer.sse": {},
    "bedrock-mantle/reasoning-function-call.sse": {},
    "lmstudio/text-gemma.sse": {},
    "openai/programmatic-function-call.sse": {},  # the caller of the call is a `program`, which is no program item
    "azure/text-short.sse": {
        "response.created": _NO_PENALTIES,
        "response.in_progress": _NO_PENALTIES,
        "response.completed": _NO_PENALTIES,
    },
    "azure/image-generation-partial.sse": {
        "response.created": _OLDER,
        "response.in_progress": _OLDER,
        "response.output_item.added": {"item.result"},
        "response.completed": _OLDER,
    },
    "openai/error-insufficient-quota.sse": {
        "response.created": _OLDER,
        "response.in_progress": _OLDER,
        "response.failed": _OLDER,
    },
    "copilot/id-rotation-reasoning.sse": dict.fromkeys(
        ("response.created", "response.in_progress", "response.completed"), _NO_KEY
    ),
    "openai/web-search-annotations-gpt52.sse": {"response.output_item.added": {"item.action"}},
    "openai/no-sequence-number-function-call.sse": dict.fromkeys(
        ("response.created", "response.in_progress", "response.completed"),
        _OLDER
        | {
            "response.background",
            "response.max_tool_calls",
            "response.prompt_cache_key",
            "response.safety_identifier",
            "response.service_tier",
            "response.top_logprobs",
        },
    ),
    "openrouter/gpt-4o-text.sse": {
        "response.created": _OLDER
        | {"response.text", "response.top_logprobs", "response.truncation", "response.usage"},
        "response.in_progress": _OLDER
        | {"response.text", "response.top_logprobs", "response.truncation", "response.usage"},
        "response.completed": _OLDER | {"response.text", "response.top_logprobs", "response.truncation"},
    },
}

# Where the final output is not that of the terminal.
NOT_THE_TERMINAL: dict[str, str] = dict.fromkeys(
    (
        "chatgpt-codex/function-call-unicode.sse",
        "chatgpt-codex/parallel-tool-calls.sse",
        "chatgpt-codex/text-short.sse",
    ),
    "the terminal lists nothing, so the items count as they were done",
)

# What cannot be put together without the items that `response.output_item.done` and the terminal carry.
NOT_STREAMED: dict[str, dict[int, str]] = {
    "openai/programmatic-program-item.sse": {1: "the code of a program comes with its item alone"},
}

# What cannot be put together out of deltas alone.
NOT_IN_DELTAS: dict[str, dict[int, str]] = {
    **NOT_STREAMED,
    "openai/phase-commentary-trimmed.sse": dict.fromkeys((0, 1), "the author of the fixture cut deltas out"),
}


def found(ran: Ran) -> list[tuple[str, int | None, str]]:
    """What was reported, without missing fields."""
    return [(v.code, v.sequence_number, v.place) for v in ran.reported if v.code != "field_missing"]


@cache
def default_run(name: str) -> Ran:
    return run(read_capture(name))


@cache
def wire_events(name: str) -> list[dict[str, Any]]:
    """Read the JSON of a capture without the library: every record of it has one data line."""
    lines = [line for line in read_capture(name).decode().split("\n") if line.startswith("data:")]
    return [json.loads(line[5:]) for line in lines if line[5:].strip() != "[DONE]"]


@cache
def manifest() -> dict[str, dict[str, str]]:
    with MANIFEST.open(encoding="utf-8", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)}


def terminal_of(name: str) -> dict[str, Any]:
    return next(event for event in reversed(wire_events(name)) if event["type"].split(".")[1] in _TERMINALS)


_TERMINALS = ("completed", "failed", "incomplete")


def same(one: object, other: object) -> bool:
    """Compare JSON values more closely than Python does: true is not 1, and 1 is not 1.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


captures = pytest.mark.parametrize("name", NAMES)
whole_captures = pytest.mark.parametrize("name", [name for name in NAMES if name != EXCERPT])


# the chain


@whole_captures
def test_default_runs_a_capture_to_its_end(name: str) -> None:
    result = default_run(name)
    assert result.error is None
    assert found(result) == REPORTED.get(name, [])
    assert result.accumulator.final_response is not None


def test_the_excerpt_is_an_interrupted_stream() -> None:
    error = default_run(EXCERPT).error
    assert isinstance(error, StreamInterrupted)
    assert [violation.code for violation in error.violations] == ["missing_terminal"]
    assert error.cursor == Cursor("resp_req_0", 7)
    assert not error.resumable
    assert default_run(EXCERPT).codes == []  # raised, so not reported as well


@captures
def test_every_event_of_a_capture_is_handed_on(name: str) -> None:
    came = [event["type"] for event in wire_events(name)]
    assert [event.type for event in default_run(name).events] == came


@captures
def test_strict_raises_the_first_violation(name: str) -> None:
    assert run(read_capture(name), STRICT).raised == RAISED.get(name, "missing_done")


@captures
def test_strict_has_nothing_else_against_a_capture_without_done(name: str) -> None:
    result = run(read_capture(name), STRICT.but(missing_done="ignore"))
    assert result.raised == RAISED.get(name)
    assert [row for row in found(result) if row[0] not in ONLY_REPORTED] == []
    assert [row[1:] for row in found(result) if row[0] == "item_status_open"] == _status_open(name)


def _status_open(name: str) -> list[tuple[int, str]]:
    return [STATUS_OPEN[name]] if name in STATUS_OPEN else []


@captures
def test_a_profile_that_only_reports_ends_no_capture(name: str) -> None:
    verdicts: dict[str, Verdict] = {code: "report" for code in RULES if STRICT.verdicts[code] == "raise"}
    result = run(read_capture(name), STRICT.but(**verdicts))
    assert result.error is None
    ends = [("missing_terminal", None, "")] if name == EXCERPT else [("missing_done", None, "")]
    ends = [] if manifest()[name]["ends with [DONE]"] == "y" else ends
    # the end of the stream comes last, behind what the terminal was found to break
    status_open = [("item_status_open", *place) for place in _status_open(name)]
    assert found(result) == REPORTED.get(name, []) + status_open + ends


@pytest.mark.parametrize("name", LEFT_OUT)
def test_strict_names_the_fields_that_are_left_out(name: str) -> None:
    result = run(read_capture(name), QUIET.but(field_missing=STRICT.verdicts["field_missing"]))
    left_out: defaultdict[str, set[str]] = defaultdict(set)
    for violation in result.reported:
        left_out[violation.event_type or ""].add(violation.place)
    assert dict(left_out) == LEFT_OUT[name]
    assert result.error is None


@captures
def test_a_missing_field_never_ends_a_capture(name: str) -> None:
    assert run(read_capture(name), QUIET.but(field_missing=STRICT.verdicts["field_missing"])).error is None


def test_the_tables_name_captures_that_are_there() -> None:
    assert {*REPORTED, *RAISED, *LEFT_OUT, *STATUS_OPEN, *NOT_THE_TERMINAL, *NOT_IN_DELTAS} <= {*NAMES}
    assert len(NAMES) == 87


# the manifest


@captures
def test_a_capture_is_what_the_manifest_says(name: str) -> None:
    row = manifest()[name]
    body = read_capture(name)
    parser = FrameParser()
    frames = parser.feed(body) + parser.end()
    decoder = Decoder()
    events = [event for frame in frames for event in decoder.feed(frame)]
    done = [event for event in decoder.end() if isinstance(event, StreamEnd) and event.done]
    numbers = [event.sequence_number for event in events if event.sequence_number is not None]
    items = [item for event in wire_events(name) for item in [event.get("item"), *_listed(event)] if item]
    terminals = [event.type for event in events if isinstance(event, TerminalEvent)]
    assert len(body) == int(row["bytes"])
    assert all(frame.complete for frame in frames)
    assert len(events) == int(row["number of events"])
    assert len(frames) == len(events) + len(done)
    assert list(dict.fromkeys(event.type for event in events)) == row["event types seen"].split(",")
    assert {bool(frame.event) for frame in frames} == {row["has event: lines"] == "y"}
    assert len(done) == (row["ends with [DONE]"] == "y")
    assert (str(numbers[0]) if numbers else "") == row["first sequence_number"]
    assert (len(numbers) == len(events) and numbers == sorted({*numbers})) == (
        row["sequence_number strictly increasing"] == "y"
    )
    assert terminals == ([] if row["terminal event type"] == "none" else [row["terminal event type"]])
    assert sorted({item["type"] for item in items}) == [kind for kind in row["item types"].split(",") if kind]


def _listed(event: dict[str, Any]) -> list[dict[str, Any]]:
    output: list[dict[str, Any]] = event.get("response", {}).get("output", [])
    return output


def test_only_the_patches_of_openai_are_events_of_an_unknown_type() -> None:
    unknown = {
        (name, event.type) for name in NAMES for event in default_run(name).events if isinstance(event, UnknownEvent)
    }
    assert unknown == {
        ("openai/apply-patch-create-file.sse", f"response.apply_patch_call_operation_diff.{kind}")
        for kind in ("delta", "done")
    }


# the response


@whole_captures
def test_the_final_response_is_that_of_the_terminal(name: str) -> None:
    final: dict[str, Any] = to_wire(default_run(name).accumulator.final_response)
    response: dict[str, Any] = terminal_of(name)["response"]
    if name in NOT_THE_TERMINAL:
        assert response["output"] == []
        response = response | {"output": _done_items(name)}
        assert response["output"]
    assert same(final, response)


@whole_captures
def test_the_terminal_event_carries_the_final_response(name: str) -> None:
    (event,) = [event for event in default_run(name).events if isinstance(event, TerminalEvent)]
    assert event.response is default_run(name).accumulator.final_response
    assert event.type == terminal_of(name)["type"]


@whole_captures
def test_without_a_terminal_the_items_are_as_they_were_done(name: str) -> None:
    accumulator = accumulate(name, lambda event: not isinstance(event, TerminalEvent))
    assert accumulator.final_response is None
    assert same(_output(accumulator), _done_items(name))
    assert [said(item) for item in _output(accumulator)] == _said_by_the_terminal(name)


@whole_captures
def test_without_finished_items_the_texts_are_those_of_the_terminal(name: str) -> None:
    accumulator = accumulate(name, lambda event: not isinstance(event, TerminalEvent | ResponseOutputItemDoneEvent))
    _compare(name, accumulator, NOT_STREAMED.get(name, {}))


@whole_captures
def test_deltas_alone_give_the_texts_of_the_terminal(name: str) -> None:
    accumulator = accumulate(name, lambda event: event.type.rpartition(".")[2] in ("added", "delta"))
    _compare(name, accumulator, NOT_IN_DELTAS.get(name, {}))


def _compare(name: str, accumulator: Accumulator, exceptions: Iterable[int]) -> None:
    """Compare what the items say with the terminal; the exceptions have to differ."""
    found = [said(item) for item in _output(accumulator)]
    terminal = _said_by_the_terminal(name)
    assert len(found) == len(terminal)
    assert {place for place, text in enumerate(found) if text != terminal[place]} == set(exceptions)


def accumulate(name: str, wanted: Callable[[Event], bool]) -> Accumulator:
    """Accumulate some events of a capture, on DEFAULT and without anybody to complain to."""
    accumulator = Accumulator()
    for event in default_run(name).events:
        if wanted(event):
            accumulator.feed(event)
    return accumulator


def _output(accumulator: Accumulator) -> list[dict[str, Any]]:
    """The items so far, as JSON."""
    return [to_wire(item) for _, item in sorted(accumulator.items.items())]


def _done_items(name: str) -> list[dict[str, Any]]:
    done = {event["output_index"]: event["item"] for event in wire_events(name) if event["type"].endswith("item.done")}
    return [done[index] for index in sorted(done)]


def _said_by_the_terminal(name: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = terminal_of(name)["response"]["output"]
    return [said(item) for item in (_done_items(name) if name in NOT_THE_TERMINAL else items)]


def said(item: dict[str, Any]) -> dict[str, Any]:
    """What an item says that can be streamed."""
    fields = {name: item.get(name) for name in ("arguments", "input", "code")}
    return {
        "type": item["type"],
        "parts": [
            (place, part.get("text", part.get("refusal")), part.get("annotations") or [], _logprobs(part))
            for place in ("content", "summary")
            for part in item.get(place) or ()
        ],
        "commands": item.get("action", {}).get("commands"),
        "printed": [(out["stdout"], out["stderr"]) for out in item.get("output") or () if isinstance(out, dict)],
        **{name: value for name, value in fields.items() if isinstance(value, str)},
    }


def _logprobs(part: dict[str, Any]) -> list[tuple[str, float]]:
    """The log probabilities of a part; OpenAI rounds them in finished items."""
    tokens = [token for chosen in part.get("logprobs") or () for token in (chosen, *chosen["top_logprobs"])]
    return [(token["token"], round(token["logprob"], 6)) for token in tokens]


# the snapshots


@captures
def test_a_snapshot_is_what_was_streamed_so_far(name: str) -> None:
    accumulator = Accumulator()
    streamed: defaultdict[tuple[object, ...], str] = defaultdict(str)
    printed: defaultdict[tuple[object, ...], list[dict[str, str]]] = defaultdict(list)
    for sent, event in zip(wire_events(name), default_run(name).events, strict=True):
        (grown,) = accumulator.feed(event)
        place = (sent["type"], *(sent.get(f"{kind}_index") for kind in ("output", "content", "summary", "command")))
        if isinstance(grown, DeltaEvent):
            streamed[place] += sent["delta"]
            assert grown.snapshot == streamed[place]
            assert grown.snapshot_length == len(streamed[place])
            assert grown.snapshot_tail(5) == streamed[place][-5:]
        elif isinstance(grown, ResponseShellCallOutputContentDeltaEvent):
            printed[place].append(sent["delta"])
            for stream in ("stdout", "stderr"):
                whole = "".join(piece.get(stream) or "" for piece in printed[place])
                assert getattr(grown.snapshot, stream) == whole


@captures
def test_a_snapshot_that_is_read_late_is_the_one_of_its_event(name: str) -> None:
    accumulator = Accumulator()
    deltas = [
        event
        for event in default_run(name).events
        for event in accumulator.feed(event)
        if isinstance(event, DeltaEvent)
    ]
    lengths: defaultdict[tuple[object, ...], int] = defaultdict(int)
    wholes = {_place(event): event.snapshot for event in deltas}
    for event in deltas:
        lengths[_place(event)] += len(event.delta)
        assert event.snapshot == wholes[_place(event)][: lengths[_place(event)]]


def _place(event: Event) -> tuple[object, ...]:
    indices = ("output_index", "content_index", "summary_index", "command_index")
    return (event.type, *(getattr(event, index, None) for index in indices))


def test_an_error_of_a_capture_carries_the_response_so_far() -> None:
    error = run(read_capture("openai/phase-commentary-trimmed.sse"), STRICT).error
    assert isinstance(error, LifecycleViolation)
    assert error.snapshot is not None
    assert error.snapshot.output_text.startswith("Got it")
