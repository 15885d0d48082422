"""Repair: what comes out is what `STRICT` accepts, it says the same as what came, and nothing is done in silence."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import Observer

from orx_rx import DEFAULT, REPAIRS, STRICT, Client, Repair, Retry
from orx_rx import operators as ops
from orx_rx.errors import (
    FrameTooLarge,
    LifecycleViolation,
    NotAnEventStream,
    OrxError,
    SchemaViolation,
    ServerError,
    StreamInterrupted,
)
from orx_rx.models import DeltaEvent, Event, Response, to_wire
from orx_rx.protocol.repair import Repairer
from orx_rx.protocol.repair_bodies import BodyParser
from orx_rx.simulator import SCENARIOS, Script, play, request_of, scenario_for
from orx_rx.wire import Frame, FrameParser, encode_frame
from tests import chain
from tests.captures import capture_names, read_capture
from tests.chain import Payload, Ran
from tests.servers import Ear, answer, listening
from tests.servers import clean_environment as clean_environment
from tests.sources import Listener, at_once

# [DONE], fields without meaning for the lifecycle, and statuses that only OpenAI gives are no affair of repair
LETTER = STRICT.but(missing_done="ignore", field_missing="ignore", item_status_open="ignore")


def frames(*payloads: Payload | str | None, named: bool = True) -> list[Frame]:
    """Write numbered payloads as frames; text stands for itself."""
    known = chain.numbered([payload for payload in payloads if isinstance(payload, dict)])
    numbered = iter(known)
    records = [next(numbered) if isinstance(payload, dict) else str(payload) for payload in payloads]
    return FrameParser().feed(b"".join(chain.record(record, named=named) for record in records))


def repair(source: Iterable[Frame]) -> tuple[list[Frame], list[Repair]]:
    told: list[Repair] = []
    repairer = Repairer(told.append)
    out = [made for frame in source for made in repairer.feed(frame)]
    out += repairer.end()
    assert repairer.repaired == bool(told)
    return out, told


def run(source: Iterable[Frame], profile: Any = LETTER) -> Ran:
    return chain.run(b"".join(map(encode_frame, source)), profile)


def accepted(source: Iterable[Frame]) -> Ran:
    """Run frames through the chain, which has to have nothing against them."""
    ran = run(source)
    assert ran.error is None, ran.error
    assert [code for code in ran.codes if code != "sequence_gap"] == []
    return ran


def payloads(source: Iterable[Frame]) -> list[Payload]:
    return [json.loads(frame.data) for frame in source if frame.data.strip() != b"[DONE]"]


def types(source: Iterable[Frame]) -> list[str]:
    """Name the events without their family; a star marks those that the server never sent."""
    return [
        payload["type"].removeprefix("response.") + ("*" if payload.get("synthetic") else "")
        for payload in payloads(source)
    ]


def codes(told: Iterable[Repair]) -> list[str]:
    return [repair.code for repair in told]


def said(response: Response) -> list[tuple[str, object]]:
    """What the items of a response say that can be streamed."""
    fields = ("content", "summary", "arguments", "input", "code")
    return [(item.type, [_texts(getattr(item, field, None)) for field in fields]) for item in response.output or ()]


def _texts(value: object) -> object:
    if not isinstance(value, list):
        return value
    return [getattr(part, "text", getattr(part, "refusal", None)) for part in cast("list[object]", value)]


def without(payload: Payload, *names: str) -> Payload:
    return {name: value for name, value in payload.items() if name not in names}


# what fits


def test_a_conforming_stream_passes_as_the_same_objects() -> None:
    came = frames(*chain.hello(), "[DONE]")
    out, told = repair(came)
    assert [id(frame) for frame in out] == [id(frame) for frame in came]
    assert told == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_stream_of_the_simulator_passes_as_the_same_objects(name: str) -> None:
    came = simulated(name)
    out, told = repair(came)
    assert told == []
    assert [id(frame) for frame in out] == [id(frame) for frame in came]


@cache
def simulated(name: str) -> list[Frame]:
    request = request_of({"model": name, "input": "x", "stream": True})
    return frames(*[to_wire(event) for event in play(scenario_for(request), Script(request))])


@cache
def capture(name: str) -> list[Frame]:
    parser = FrameParser()
    return parser.feed(read_capture(name)) + parser.end()


# What is repaired in captures; nothing in those that are not named.
BENT: Mapping[str, set[str]] = {
    # the backend of Codex streams its items and leaves them out of the terminal
    "chatgpt-codex/function-call-unicode.sse": {"output_filled"},
    "chatgpt-codex/parallel-tool-calls.sse": {"output_filled"},
    "chatgpt-codex/text-short.sse": {"output_filled"},
    # every event has ids of its own
    "copilot/id-rotation-reasoning.sse": {"response_id_kept", "item_id_kept"},
    # a GET with starting_after=0 begins with response.queued
    "openai/background-resume-starting-after.sse": {"created_added"},
    "openai/no-sequence-number-function-call.sse": {"number_added"},
    # the author of the fixture cut most deltas out, from the end of what is streamed
    "openai/phase-commentary-trimmed.sse": {"delta_added"},
    # the terminal has a new id for the reasoning
    "openrouter/gpt-oss-raw-reasoning.sse": {"item_id_kept"},
}

# What is not accepted even then.
NOT_REPAIRED: Mapping[str, type[OrxError]] = {
    "transformers-serve/text-excerpt-no-end.sse": StreamInterrupted,  # it has no terminal, and none is invented
}


@pytest.mark.parametrize("name", capture_names())
def test_a_capture_comes_out_accepted(name: str) -> None:
    came = capture(name)
    out, told = repair(came)
    assert set(codes(told)) == BENT.get(name, set())
    if name not in BENT:
        assert [id(frame) for frame in out] == [id(frame) for frame in came]
    if name in NOT_REPAIRED:
        assert type(run(out).error) is NOT_REPAIRED[name]
    else:
        ran = accepted(out)
        assert said(ran.final) == said(run(came, DEFAULT).final)


# the field reports


def message(*texts: str) -> tuple[str, object]:
    return "message", [[*texts], None, None, None, None]


def reasoning(*summaries: str) -> tuple[str, object]:
    return "reasoning", [None, [*summaries], None, None, None]


def call(arguments: str) -> tuple[str, object]:
    return "function_call", [None, None, arguments, None, None]


# the report, what is repaired and at which number, and what the response says at the end
ANSWERS: Sequence[tuple[str, list[tuple[str, int | None, str]], str, list[tuple[str, object]]]] = [
    ("B01", [("part_added", 2, "output[0].content[0]"), ("renumbered", 2, "")], "completed", [message("Hello")]),
    (
        "B03",
        [
            ("output_index_added", 1, "output[0]"),
            ("text_done", 3, "output[0].arguments"),
            ("renumbered", 3, ""),
            ("output_index_added", 4, "output[1]"),
            ("text_done", 6, "output[1].arguments"),
        ],
        "completed",
        [call('{"x":1}'), call('{"x":2}')],
    ),
    ("B04", [("number_added", None, "")], "failed", [message("ok")]),
    ("B06", [], "completed", [message("Call [hidden]")]),
    ("B10", [("output_filled", 7, "response.output")], "completed", [message("kept")]),
    (
        "B13",
        [
            ("item_id_kept", 2, "output[0]"),
            ("text_done", 5, "output[0].content[0]"),
            ("part_done", 5, "output[0].content[0]"),
            ("renumbered", 5, ""),
        ],
        "completed",
        [message("Hey")],
    ),
    (
        "B15",
        [
            ("text_filled", 4, "output[0].content[0]"),
            ("part_done", 5, "output[0].content[0]"),
            ("renumbered", 5, ""),
        ],
        "completed",
        [message("abc")],
    ),
    ("B16", [], "completed", [message("ok!")]),  # a matter of the models, where it has no meaning
    ("B19", [], "failed", []),
    ("B21", [("terminal_dropped", 8, "")], "completed", [message("ok")]),
    ("B22", [("number_added", None, ""), ("renumbered", 0, "")], "completed", [message("ok")]),
    (
        "B24",
        [
            ("delta_added", 4, "output[0].arguments"),
            ("text_filled", 4, "output[0].arguments"),
            ("renumbered", 4, ""),
        ],
        "completed",
        [call('{"p":1}')],
    ),
    ("B44", [], "completed", [call('{"f":1}'), call('{"f":2}')]),
    (
        "B45",
        [
            ("part_added", 4, "output[0].summary[1]"),
            ("renumbered", 4, ""),
            *((code, 5, f"output[0].summary[{n}]") for n in (0, 1) for code in ("text_done", "part_done")),
        ],
        "completed",
        [reasoning("**One**", "**Two**")],
    ),
    ("B46", [], "failed", [message("parti")]),
]


def reported(report: str, stream: int = 0) -> list[Frame]:
    from tests.test_field_reports import block  # which skips where the reports are absent

    return FrameParser().feed(chain.report_sse(block(report))[stream])


@pytest.mark.parametrize(("report", "repairs", "status", "output"), ANSWERS, ids=[row[0] for row in ANSWERS])
def test_a_field_report_has_its_answer(
    report: str, repairs: list[tuple[str, int | None, str]], status: str, output: list[tuple[str, object]]
) -> None:
    came = reported(report)
    out, told = repair(came)
    ran = accepted(out)
    assert [(repair.code, repair.sequence_number, repair.place) for repair in told] == repairs
    assert (ran.final.status, said(ran.final)) == (status, output)
    if not repairs:
        assert [id(frame) for frame in out] == [id(frame) for frame in came]


@pytest.mark.parametrize("report", ["B08", "B09"])
def test_a_terminal_is_never_invented(report: str) -> None:
    came = reported(report)
    out, told = repair(came)
    assert (out, told) == (came, [])
    assert isinstance(run(out).error, StreamInterrupted)


def test_the_order_of_the_terminal_is_kept() -> None:  # B11
    out, told = repair(reported("B11"))
    assert [item["type"] for item in payloads(out)[-1]["response"]["output"]] == ["reasoning", "message"]
    ran = run(out, DEFAULT)
    assert ran.codes == ["terminal_order"]
    assert {repair.place for repair in told if repair.place} == {"output[0].content[0]"}  # whose text only its item has


def test_the_last_id_of_an_item_and_of_a_response_is_kept_beside_the_first() -> None:  # B13
    terminal = accepted(repair(reported("B13"))[0]).final
    assert terminal.output is not None
    (item,) = terminal.output
    assert (item.id, (item.model_extra or {})["server_id"]) == ("enc_AAA", "enc_FFF")
    came = frames(chain.created("resp_a"), chain.terminal(id="resp_b"))
    final = accepted(repair(came)[0]).final
    assert (final.id, (final.model_extra or {})["server_id"]) == ("resp_a", "resp_b")


@pytest.mark.parametrize(
    ("stream", "repairs", "message"),
    [(0, [], "bad tool schema"), (1, [], "try later"), (2, ["error_typed"], "upstream 529")],
)
def test_an_error_is_that_of_the_server_in_all_its_forms(stream: int, repairs: list[str], message: str) -> None:  # B18
    out, told = repair(reported("B18", stream))
    assert codes(told) == repairs
    error = run(out).error
    assert isinstance(error, ServerError)
    assert error.message == message


# what is repaired, one by one

MSG = chain.message()
GIVEN = chain.message("Hello")
BARE = [chain.added(), chain.part_added(), chain.delta("Hello"), chain.text_done(), chain.part_done(), chain.finished()]
END = chain.terminal(output=[GIVEN])
ARGS = '{"a":1}'
CALL_A, CALL_B = (chain.added(chain.call(n=n), index) for index, n in enumerate("ab"))
PRINTED = chain.item("shell_call_output", "out_a", call_id="call_a", status="completed", output=[])
CALLED = chain.call(ARGS, status="completed")
OTHER = chain.call(ARGS, "b", status="completed")

# title: what comes, the codes of what is done, the types of what comes out (None: as came), what it says at the end
CASES: Mapping[str, tuple[list[Any], set[str], list[str] | None, list[tuple[str, object]]]] = {
    "an item that was never added": (
        [chain.created(), *BARE[1:], END],
        {"item_added", "renumbered"},
        [
            "created",
            "output_item.added*",
            "content_part.added",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ],
        [message("Hello")],
    ),
    "an item of which only the end comes": (
        [chain.created(), chain.finished(), END],
        {"item_added", "part_added", "delta_added", "text_done", "part_done", "renumbered"},
        [
            "created",
            "output_item.added*",
            "content_part.added*",
            "output_text.delta*",
            "output_text.done*",
            "content_part.done*",
            "output_item.done",
            "completed",
        ],
        [message("Hello")],
    ),
    "an item that only the terminal has": (  # B24
        [chain.created(), END],
        {"item_added", "part_added", "delta_added", "text_done", "part_done", "item_done", "renumbered"},
        None,
        [message("Hello")],
    ),
    "an item that is never done": (
        [chain.created(), *BARE[:-1], END],
        {"item_done", "renumbered"},
        None,
        [message("Hello")],
    ),
    "an item that is never done, and that the terminal leaves out": (
        [chain.created(), *BARE[:3], chain.terminal()],
        {"text_done", "part_done", "item_done", "output_filled", "renumbered"},
        None,
        [message("Hello")],
    ),
    "an item that is added twice": (
        [chain.created(), BARE[0], *BARE, END],
        {"item_dropped"},
        None,
        [message("Hello")],
    ),
    "an item that is done twice": ([chain.created(), *BARE, BARE[-1], END], {"item_dropped"}, None, [message("Hello")]),
    "an item that is done without its text": (
        [chain.created(), *BARE[:-1], chain.finished(chain.message()), END],
        {"item_filled"},
        None,
        [message("Hello")],
    ),
    "a terminal whose item lacks its text": (
        [chain.created(), *BARE, chain.terminal(output=[chain.message()])],
        {"output_completed"},
        None,
        [message("Hello")],
    ),
    "a terminal that lacks one of two items": (
        [chain.created(), *BARE, chain.added(chain.call(), 1), chain.finished(CALLED, 1), END],
        {"delta_added", "text_done", "output_extended", "renumbered"},
        None,
        [message("Hello"), call(ARGS)],
    ),
    "a terminal whose output is null": (
        [chain.created(), *BARE, chain.terminal(output=None)],
        {"output_filled"},
        None,
        [message("Hello")],
    ),
    "a beginning and an end whose output is null": (
        [chain.created(output=None), chain.terminal(output=None)],
        {"output_listed"},
        None,
        [],
    ),
    "a terminal without a response": (
        [chain.created(), *BARE, {"type": "response.completed"}],
        {"response_filled", "output_filled"},
        None,
        [message("Hello")],
    ),
    "a part that is added twice": (
        [chain.created(), *BARE[:2], *BARE[1:], END],
        {"part_dropped"},
        None,
        [message("Hello")],
    ),
    "a part and its text that are done twice": (
        [chain.created(), *BARE[:4], BARE[3], BARE[4], BARE[4], BARE[5], END],
        {"part_dropped"},
        None,
        [message("Hello")],
    ),
    "a part that begins with text": (
        [chain.created(), BARE[0], chain.part_added(chain.output_text("Hel")), chain.delta("lo"), *BARE[3:], END],
        {"part_emptied", "renumbered"},
        [
            "created",
            "output_item.added",
            "content_part.added",
            "output_text.delta*",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ],
        [message("Hello")],
    ),
    "a text that comes with its end": (
        [chain.created(), *BARE[:2], *BARE[3:], END],
        {"delta_added", "renumbered"},
        None,
        [message("Hello")],
    ),
    "a text whose last piece is missing": (  # B06
        [chain.created(), *BARE[:2], chain.delta("Hel"), *BARE[3:], END],
        {"delta_added", "renumbered"},
        None,
        [message("Hello")],
    ),
    "an end without text, and the text with the end of the part": (
        [chain.created(), *BARE[:2], chain.text_done(""), *BARE[4:], END],
        {"delta_added", "text_filled", "renumbered"},
        None,
        [message("Hello")],
    ),
    "a part whose end lacks the text": (
        [chain.created(), *BARE[:4], chain.part_done(chain.output_text("")), BARE[5], END],
        {"text_filled"},
        None,
        [message("Hello")],
    ),
    "arguments that come with the item": (
        [chain.created(), chain.added(chain.call()), chain.finished(CALLED), chain.terminal(output=[CALLED])],
        {"delta_added", "text_done", "renumbered"},
        [
            "created",
            "output_item.added",
            "function_call_arguments.delta*",
            "function_call_arguments.done*",
            "output_item.done",
            "completed",
        ],
        [call(ARGS)],
    ),
    "arguments that come with the terminal": (  # B24
        [
            chain.created(),
            chain.added(chain.call()),
            chain.arguments_done(""),
            chain.finished(chain.call()),
            chain.terminal(output=[CALLED]),
        ],
        {"delta_added", "text_filled", "item_filled", "renumbered"},
        None,
        [call(ARGS)],
    ),
    "arguments that come with the terminal, and no end before": (
        [chain.created(), chain.added(chain.call()), chain.finished(chain.call()), chain.terminal(output=[CALLED])],
        {"delta_added", "text_done", "item_filled", "renumbered"},
        None,
        [call(ARGS)],
    ),
    "a call without arguments": (
        [
            chain.created(),
            chain.added(chain.call()),
            chain.arguments_done(""),
            chain.finished(chain.call()),
            chain.terminal(output=[chain.call()]),
        ],
        set(),
        None,
        [call("")],
    ),
    "a command that was never added": (
        [
            chain.created(),
            chain.added(chain.item("shell_call", "sh_a", action={"commands": []}, status="in_progress")),
            {"type": "response.shell_call_command.delta", "output_index": 0, "command_index": 0, "delta": "ls"},
            chain.finished(chain.item("shell_call", "sh_a", action={"commands": ["ls"]}, status="completed")),
            chain.terminal(output=[chain.item("shell_call", "sh_a", action={"commands": ["ls"]}, status="completed")]),
        ],
        {"part_added", "text_done", "renumbered"},
        None,
        [("shell_call", [None] * 5)],
    ),
    "an item that is done as null": (
        [chain.created(), *BARE[:-1], {**chain.finished(), "item": None}, END],
        {"item_dropped", "item_done"},
        None,
        [message("Hello")],
    ),
    "an item that is added as null": (
        [chain.created(), {**chain.added(), "item": None}, *BARE[1:-1], END],
        {"item_done", "renumbered"},
        None,
        [message("Hello")],
    ),
    "an item that is added as null and done": (
        [chain.created(), {**chain.added(), "item": None}, chain.finished(), END],
        {"part_added", "delta_added", "text_done", "part_done", "renumbered"},
        None,
        [message("Hello")],
    ),
    "a part of an unknown kind that was never added": (
        [
            chain.created(),
            BARE[0],
            chain.part_done({"type": "hologram", "size": 3}),
            chain.finished(chain.item("message", content=[{"type": "hologram", "size": 3}], status="completed")),
            chain.terminal(
                output=[chain.item("message", content=[{"type": "hologram", "size": 3}], status="completed")]
            ),
        ],
        {"part_added", "renumbered"},
        None,
        [("message", [[None], None, None, None, None])],
    ),
    "a finished item without its id": (
        [chain.created(), *BARE[:-1], chain.finished(without(GIVEN, "id")), END],
        {"item_id_added"},
        None,
        [message("Hello")],
    ),
    "an output of a command that was never done": (
        [
            chain.created(),
            chain.added(PRINTED),
            {"type": "response.shell_call_output_content.delta", **chain.at(content=None, id="out_a", command_index=0)}
            | {"delta": {"stdout": "x"}},
            chain.finished({**PRINTED, "output": [{"stdout": "x", "stderr": ""}]}),
            chain.terminal(output=[{**PRINTED, "output": [{"stdout": "x", "stderr": ""}]}]),
        ],
        {"text_done", "renumbered"},
        None,
        [("shell_call_output", [None] * 5)],
    ),
    "no positions at all": (
        [
            chain.created(),
            *(without(payload, "output_index", "content_index", "item_id") for payload in BARE),
            END,
        ],
        {"output_index_added", "part_index_added", "item_id_added"},
        None,
        [message("Hello")],
    ),
    "every output index 0": (  # B44
        [
            chain.created(),
            chain.added(chain.call()),
            chain.added(chain.call(n="b"), 0),
            chain.arguments_delta(ARGS, 0, "b"),
            chain.arguments_delta(ARGS, 0, "a"),
            chain.arguments_done(ARGS, 0, "b"),
            chain.arguments_done(ARGS, 0, "a"),
            chain.finished(OTHER, 0),
            chain.finished(CALLED, 0),
            chain.terminal(output=[CALLED, OTHER]),
        ],
        {"output_index_changed"},
        None,
        [call(ARGS), call(ARGS)],
    ),
    "calls told apart by call_id alone": (
        [
            chain.created(),
            chain.added(without(chain.call(), "id")),
            chain.added(without(chain.call(n="b"), "id"), 1),
            *(
                {"type": f"response.function_call_arguments.{kind}", "call_id": f"call_{n}", field: ARGS}
                for kind, field in (("delta", "delta"), ("done", "arguments"))
                for n in "ba"
            ),
            chain.finished(without(OTHER, "id"), 1),
            chain.finished(without(CALLED, "id"), 0),
            chain.terminal(output=[CALLED, OTHER]),
        ],
        {"output_index_added"},
        None,
        [call(ARGS), call(ARGS)],
    ),
    "an annotation without the place of its part": (
        [
            chain.created(),
            *BARE[:4],
            {
                "type": "response.output_text.annotation.added",
                "item_id": "msg_a",
                "output_index": 0,
                "annotation_index": 0,
                "annotation": {"type": "file_path"},
            },
            *BARE[4:],
            END,
        ],
        {"part_index_added"},
        None,
        [message("Hello")],
    ),
    "no created": ([*BARE, END], {"created_added", "renumbered"}, None, [message("Hello")]),
    "created twice": ([chain.created(), chain.created(), *BARE, END], {"created_dropped"}, None, [message("Hello")]),
    "no numbers": (
        [{**payload, "sequence_number": None} for payload in (chain.created(), *BARE, END)],
        {"number_added"},
        None,
        [message("Hello")],
    ),
    "the same number everywhere": (
        [{**payload, "sequence_number": 0} for payload in (chain.created(), *BARE, END)],
        {"renumbered"},
        None,
        [message("Hello")],
    ),
    "numbers that begin again": (
        [{**payload, "sequence_number": n % 3} for n, payload in enumerate((chain.created(), *BARE, END))],
        {"renumbered"},
        None,
        [message("Hello")],
    ),
    "events that come again with their numbers": (
        [p for n, p in enumerate((chain.created(), *BARE, END)) for p in [{**p, "sequence_number": n}] * 2],
        {"repeat_dropped"},
        None,
        [message("Hello")],
    ),
    "equal pieces with numbers of their own": (
        [
            chain.created(),
            *BARE[:2],
            chain.delta("la"),
            chain.delta("la"),
            chain.text_done("lala"),
            chain.part_done(chain.output_text("lala")),
            chain.finished(chain.message("lala")),
            chain.terminal(output=[chain.message("lala")]),
        ],
        set(),
        None,
        [message("lala")],
    ),
    "counts of tokens under other names": (
        [chain.created(), *BARE, chain.terminal(output=[GIVEN], usage={"prompt_tokens": 1, "completion_tokens": 2})],
        {"usage_renamed"},
        None,
        [message("Hello")],
    ),
    "content behind the terminal": (
        [chain.created(), *BARE, END, chain.delta("more")],
        {"late_dropped"},
        None,
        [message("Hello")],
    ),
    "a frame without data": ([chain.created(), "", *BARE, END], {"frame_dropped"}, None, [message("Hello")]),
}


@pytest.mark.parametrize("title", CASES)
def test_what_is_bent_comes_out_conforming(title: str) -> None:
    came, repairs, sequence, output = CASES[title]
    out, told = repair(frames(*came))
    ran = accepted(out)
    assert set(codes(told)) == repairs
    assert said(ran.final) == output
    if sequence is not None:
        assert types(out) == sequence
    again, nothing = repair(out)
    assert (again, nothing) == (out, []), "what was repaired needs another repair"


def test_every_kind_of_repair_has_a_sentence_and_is_shown_here() -> None:
    shown = {code for _, repairs, _, _ in CASES.values() for code in repairs}
    shown |= {code for _, repairs, _, _ in ANSWERS for code, _, _ in repairs}
    shown |= {code for repairs in BENT.values() for code in repairs} | ELSEWHERE
    assert shown == {*REPAIRS}
    assert all(kind.sentence and kind.reports for kind in REPAIRS.values())


ELSEWHERE = {
    "error_typed",
    "frame_finished",
    "json_mended",
    "name_settled",
    "response_unfolded",
    "status_settled",
    "terminal_renamed",
    "type_added",
}


# what events are called


def test_a_type_that_only_the_event_name_has_is_taken() -> None:  # B28
    came = [
        Frame(payload["type"], json.dumps(without(payload, "type")).encode())
        for payload in chain.numbered(chain.hello())
    ]
    out, told = repair(came)
    assert set(codes(told)) == {"type_added"}
    assert accepted(out).final.output_text == "Hello"


def test_the_type_in_the_data_wins_over_the_event_name() -> None:  # B28
    came = [Frame("message", frame.data) for frame in frames(*chain.hello())]
    out, told = repair(came)
    assert set(codes(told)) == {"name_settled"}
    assert [frame.event for frame in out] == [payload["type"] for payload in payloads(out)]
    accepted(out)


@pytest.mark.parametrize(
    "frame",
    [
        Frame(data=b'{"error": {"message": "upstream 529", "type": "overloaded"}}'),
        Frame("error", b'{"message": "upstream 529", "type": "overloaded"}'),
        Frame("error", b'{"error": {"message": "upstream 529", "type": "overloaded"}}'),
    ],
)
def test_a_bare_error_becomes_an_error_event(frame: Frame) -> None:  # B18
    out, told = repair([*frames(chain.created()), frame])
    assert codes(told) == ["error_typed"]
    error = run(out).error
    assert isinstance(error, ServerError)
    assert (error.message, error.type) == ("upstream 529", "overloaded")


def test_the_reason_of_an_error_does_not_hide_behind_its_number() -> None:  # B04
    for number in (None, 7.5, -1):
        out, _ = repair(frames(chain.created(), {**chain.failing("busy"), "sequence_number": number}))
        error = run(out).error
        assert isinstance(error, ServerError)
        assert error.message == "busy"


# how it ends


@pytest.mark.parametrize(
    ("name", "status", "type_", "counts", "code"),
    [
        ("completed", "failed", "response.failed", "failed", "status_settled"),
        ("completed", "incomplete", "response.incomplete", "incomplete", "status_settled"),
        ("failed", "completed", "response.failed", "failed", "status_settled"),
        ("completed", "in_progress", "response.completed", "completed", "status_settled"),
        ("completed", "cancelled", "response.incomplete", "cancelled", "status_settled"),
        ("done", "completed", "response.completed", "completed", "terminal_renamed"),
        ("done", "failed", "response.failed", "failed", "terminal_renamed"),
        ("cancelled", "cancelled", "response.incomplete", "cancelled", "terminal_renamed"),
    ],
)
def test_the_worse_of_event_name_and_status_counts(  # B21, B46
    name: str, status: str, type_: str, counts: str, code: str
) -> None:
    end = {**chain.terminal(status), "type": f"response.{name}"}
    out, told = repair(frames(chain.created(), end))
    assert codes(told) == [code]
    final = accepted(out).final
    assert (payloads(out)[-1]["type"], final.status) == (type_, counts)


def test_the_first_terminal_wins() -> None:  # B21
    out, told = repair(frames(*chain.hello(), chain.terminal("failed"), chain.keepalive()))
    assert codes(told) == ["terminal_dropped"]
    assert types(out)[-2:] == ["completed", "keepalive"]
    assert accepted(out).final.status == "completed"


def test_an_item_that_is_open_when_the_response_fails_stays_open() -> None:  # B46
    out, told = repair(frames(chain.created(), *BARE[:3], chain.terminal("failed")))
    assert told == []
    assert accepted(out).final.output_text == "Hello"


def test_what_is_done_is_no_addition() -> None:
    out, _ = repair(frames(chain.created(), *BARE, END))
    assert "".join(p["delta"] for p in payloads(out) if p["type"].endswith(".delta")) == "Hello"


def test_a_text_that_is_contradicted_is_left_to_the_guard() -> None:  # B06
    came = frames(chain.created(), *BARE[:2], chain.delta("Hi"), *BARE[3:], END)
    out, told = repair(came)
    assert (out, told) == (came, [])
    assert run(out).raised == "done_mismatch"
    assert run(out, DEFAULT).final.output_text == "Hello"


def test_text_behind_its_end_is_left_to_the_guard() -> None:
    out, told = repair(frames(chain.created(), *BARE[:4], chain.delta("!"), *BARE[4:], END))
    assert told == []
    assert run(out).raised == "part_already_done"


LEFT: Mapping[str, tuple[list[Payload], str]] = {
    "text for an item that is done": ([chain.created(), *BARE, chain.delta("!"), END], "item_already_done"),
    "text for an item of another kind": ([chain.created(), CALL_A, chain.delta("x", id=None), END], "wrong_item_kind"),
    "a part that is added when it is done": ([chain.created(), *BARE[:5], BARE[1], END], "part_already_open"),
    "a text that is done again, and another": (
        [chain.created(), *BARE[:4], chain.text_done("Hi"), END],
        "part_already_done",
    ),
    "a beginning without a response": ([{"type": "response.created"}], "wrong_shape"),
    "an end of which nothing is known": ([{"type": "response.done"}], "missing_terminal"),
}


@pytest.mark.parametrize("title", LEFT)
def test_what_nobody_can_put_right_is_left_to_the_guard(title: str) -> None:
    came, code = LEFT[title]
    sent = frames(*came)
    out, _ = repair(sent)
    assert [frame for frame in out if any(frame is one for one in sent)]
    assert run(out).raised == code


# where it is unclear

PLACELESS: Payload = {"type": "response.function_call_arguments.delta", "delta": "1"}
UNCLEAR: Mapping[str, tuple[list[Payload], type[OrxError], str]] = {
    "a delta that may belong to two calls": (  # B03
        [chain.created(), CALL_A, CALL_B, PLACELESS],
        SchemaViolation,
        "expected an event that says which open function_call it means, got one that may mean output[0], output[1]",
    ),
    "a text that may belong to two parts": (
        [
            chain.created(),
            chain.added(),
            chain.part_added(),
            chain.part_added(content=1),
            without(chain.delta("x"), "content_index"),
        ],
        SchemaViolation,
        "expected an event with content_index, got none, and it may mean content[0], content[1]",
    ),
    "an annotation that may belong to two parts": (
        [
            chain.created(),
            chain.added(),
            chain.part_added(),
            chain.part_added(content=1),
            {"type": "response.output_text.annotation.added", "output_index": 0, "annotation_index": 0},
        ],
        SchemaViolation,
        "expected an annotation with content_index, got none, and there are 2 parts",
    ),
    "another message at the place of an open one": (
        [chain.created(), chain.added(), chain.added(chain.message(id="msg_b"))],
        LifecycleViolation,
        "expected output index 0 to stay with item msg_a, got msg_b",
    ),
    "another response": (
        [chain.created(), *BARE, chain.created("resp_b")],
        LifecycleViolation,
        "expected response.created once, got that of another response",
    ),
}


@pytest.mark.parametrize("title", UNCLEAR)
def test_what_has_two_readings_is_an_error(title: str) -> None:
    came, kind, text = UNCLEAR[title]
    with pytest.raises(kind) as caught:
        repair(frames(*came))
    assert str(caught.value).startswith(text)
    if isinstance(caught.value, SchemaViolation):
        assert (caught.value.event_type, caught.value.sequence_number) == (came[-1]["type"], len(came) - 1)


# the place of an event, in the order of what names it


@pytest.mark.parametrize(
    ("names", "index"),
    [
        ({"item_id": "fc_a", "output_index": 1, "call_id": "call_b"}, 0),
        ({"output_index": 1, "call_id": "call_a"}, 1),
        ({"item_id": "gone", "output_index": 1}, 1),
        ({"call_id": "call_a"}, 0),
        ({"item_id": "gone", "call_id": "call_b"}, 1),
    ],
)
def test_an_item_is_named_by_its_id_then_its_place_then_its_call(names: Payload, index: int) -> None:
    out, _ = repair(frames(chain.created(), CALL_A, CALL_B, {**PLACELESS, **names}))
    assert payloads(out)[-1]["output_index"] == index


def test_the_place_of_an_event_without_names_is_the_open_item_of_its_kind() -> None:  # B03
    out, _ = repair(frames(chain.created(), chain.added(), chain.added(chain.call(), 1), PLACELESS))
    assert payloads(out)[-1]["output_index"] == 1


# numbers


def test_what_is_added_moves_the_numbers_behind_it_and_keeps_those_of_the_server() -> None:
    out, told = repair(frames(chain.created(), chain.added(), chain.delta("Hel"), chain.delta("lo")))
    numbers = [(p["sequence_number"], p.get("server_sequence_number", "same")) for p in payloads(out)]
    assert numbers == [(0, "same"), (1, "same"), (2, None), (3, 2), (4, 3)]
    assert codes(told).count("renumbered") == 1


def test_a_first_event_without_a_number_has_0_when_the_next_has_1() -> None:  # B04
    out, told = repair(reported("B04"))
    assert [p["sequence_number"] for p in payloads(out)] == [0, 1, 2, 3, 4]
    assert codes(told) == ["number_added"]


def test_a_gap_takes_up_what_is_added() -> None:  # B06
    out, told = repair(frames(chain.created(), chain.added(), {**chain.delta("Hel"), "sequence_number": 9}))
    assert [p["sequence_number"] for p in payloads(out)] == [0, 1, 2, 9]
    assert codes(told) == ["part_added"]


def test_there_is_no_cursor_where_the_numbers_are_not_those_of_the_server() -> None:
    came = frames(chain.created(background=True), chain.added(), chain.delta("Hel"))
    bent = run(repair(came)[0], DEFAULT)
    fits = run(repair(frames(chain.created(background=True), chain.added(), chain.part_added()))[0], DEFAULT)
    for ran, number in ((bent, None), (fits, 2)):
        error = ran.error
        assert isinstance(error, StreamInterrupted)
        for cursor in (error.cursor, ran.accumulator.cursor):
            assert (cursor and cursor.sequence_number) == number
        assert error.resumable == (number is not None)


def test_an_event_that_was_added_says_so() -> None:
    ran = run(repair(frames(chain.created(), chain.added(), chain.delta("Hel")))[0], DEFAULT)
    assert [event.is_synthetic for event in ran.events] == [False, False, True, False]
    assert [event.is_renumbered for event in ran.events] == [False, False, True, True]


def test_a_stream_that_begins_in_the_middle_is_passed_on_as_it_is() -> None:  # B49
    came = frames(*[{**payload, "sequence_number": n + 50} for n, payload in enumerate([*BARE[2:], END])])
    assert repair(came) == (came, [])


# frames


def test_a_whole_last_event_counts_without_a_blank_line() -> None:  # B32
    *first, last = frames(*chain.hello())
    out, told = repair([*first, Frame(last.event, last.data, complete=False)])
    assert codes(told) == ["frame_finished"]
    accepted(out)


@pytest.mark.parametrize("frame", [Frame(data=b"nonsense"), Frame(data=b"[1]"), Frame(data=b'{"type', complete=False)])
def test_what_cannot_be_read_is_left_to_decode(frame: Frame) -> None:
    assert repair([frame]) == ([frame], [])


def test_bytes_that_are_not_utf8_and_raw_control_characters_are_read() -> None:  # B29, B30
    odd = Frame(data=b'{"type": "keepalive", "sequence_number": 0, "x": "a\x0b\xff"}')
    out, told = repair([odd])
    assert codes(told) == ["json_mended"]
    assert payloads(out)[0]["x"] == "a\x0b\ufffd"


def test_a_whole_response_becomes_a_stream() -> None:  # B26
    response = {**END["response"], "object": "response", "output": [GIVEN, CALLED]}
    out, told = repair([Frame(data=json.dumps(response).encode())])
    assert codes(told) == ["response_unfolded"]
    assert said(accepted(out).final) == [message("Hello"), call(ARGS)]
    assert all(payload["synthetic"] for payload in payloads(out))


def test_a_whole_response_that_has_not_ended_has_only_a_beginning() -> None:
    response = {**chain.created()["response"], "object": "response"}
    out, _ = repair([Frame(data=json.dumps(response).encode())])
    assert types(out) == ["created*"]
    assert isinstance(run(out).error, StreamInterrupted)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_body_is_a_stream_or_one_object_however_it_is_cut(size: int) -> None:
    stream, whole = chain.sse(*chain.hello()), b'\xef\xbb\xbf\r\n {"object": "response"}'
    for body, expected in ((stream, FrameParser().feed(stream)), (whole, [Frame(data=whole[6:])])):
        parser = BodyParser()
        found = [frame for at in range(0, len(body), size) for frame in parser.feed(body[at : at + size])]
        assert [*found, *parser.end()] == expected


def test_an_object_may_not_be_larger_than_a_frame() -> None:
    with pytest.raises(FrameTooLarge):
        BodyParser(8).feed(b'{"object": 1}')


# any stream, bent in any way


STRUCTURE = (".added", ".done", ".created", ".in_progress")
PLACES = ("output_index", "content_index", "summary_index", "command_index", "item_id", "sequence_number")
STREAMS: dict[str, Callable[[], list[Frame]]] = {
    **{f"simulator: {name}": (lambda name=name: simulated(name)) for name in SCENARIOS if name != "long"},  # type: ignore[misc]
    **{name: (lambda name=name: capture(name)) for name in capture_names() if name not in NOT_REPAIRED},  # type: ignore[misc]
}


def changed(frame: Frame, payload: Payload) -> Frame:
    return Frame(frame.event, json.dumps(payload).encode(), frame.id)


def deleted(came: list[Frame], at: int) -> list[Frame]:
    return came[:at] + came[at + 1 :]


def displaced(came: list[Frame], at: int, name: str) -> list[Frame]:
    return [*came[:at], changed(came[at], without(json.loads(came[at].data), name)), *came[at + 1 :]]


def everywhere(came: list[Frame], change: Callable[[int, Payload], Payload]) -> list[Frame]:
    return [
        frame if frame.data.strip() == b"[DONE]" else changed(frame, change(at, json.loads(frame.data)))
        for at, frame in enumerate(came)
    ]


def rotated(at: int, payload: Payload) -> Payload:
    if "item_id" in payload:
        payload["item_id"] = f"item_{at}"
    if isinstance(payload.get("item"), dict):
        payload["item"]["id"] = f"added_{at}"
    if "response" in payload:
        payload["response"]["id"] = f"resp_{at}"
        for number, item in enumerate(payload["response"].get("output") or ()):
            item["id"] = f"final_{at}_{number}"
    return payload


BENDS: Mapping[str, Callable[[list[Frame], st.DataObject], list[Frame]]] = {
    "a frame of the structure is deleted": lambda came, data: deleted(
        came, data.draw(st.sampled_from([n for n, f in enumerate(came) if _is_structure(f)]), label="at")
    ),
    "a position is removed": lambda came, data: displaced(
        came,
        *data.draw(
            st.sampled_from(
                [(n, name) for n, f in enumerate(came) for name in PLACES if f'"{name}"'.encode() in f.data]
            ),
            label="at",
        ),
    ),
    "one kind of position is removed everywhere": lambda came, data: (
        lambda name: everywhere(came, lambda _, payload: without(payload, name))
    )(data.draw(st.sampled_from(("item_id", "content_index", "summary_index", "sequence_number")))),
    "all positions are removed": lambda came, _: everywhere(came, lambda _, payload: without(payload, *PLACES[:-1])),
    "ids rotate": lambda came, _: everywhere(came, rotated),
    "numbers are dropped": lambda came, _: everywhere(came, lambda _, payload: without(payload, "sequence_number")),
    "numbers begin again": lambda came, data: (
        lambda every: everywhere(came, lambda at, payload: {**payload, "sequence_number": at % every})
    )(data.draw(st.integers(1, 9))),
    "no delta comes": lambda came, _: [frame for frame in came if b".delta" not in frame.data[:200]],
    "nothing but items and their ends comes": lambda came, _: [
        frame
        for frame in came
        if not _is_structure(frame) or b"output_item.done" in frame.data or b"created" in frame.data
    ],
}


def _is_structure(frame: Frame) -> bool:
    type_ = "" if frame.data.strip() == b"[DONE]" else json.loads(frame.data)["type"]
    return type_.endswith(STRUCTURE) and "annotation" not in type_


@cache
def straight(name: str) -> list[Frame]:
    return repair(STREAMS[name]())[0]


@cache
def expected(name: str) -> list[tuple[str, object]]:
    return said(accepted(straight(name)).final)


@pytest.mark.parametrize("bend", BENDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_however_a_stream_is_bent_it_comes_out_conforming_and_says_the_same_or_is_unclear(
    bend: str, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from([*STREAMS]), label="stream")
    came = BENDS[bend](list(straight(name)), data)
    try:
        out, _ = repair(came)
    except SchemaViolation:
        assert bend == "all positions are removed"
        return
    assert said(accepted(out).final) == expected(name)
    numbers = [payload["sequence_number"] for payload in payloads(out) if payload.get("sequence_number") is not None]
    assert numbers == sorted({*numbers})
    again, nothing = repair(out)
    assert [id(frame) for frame in again] == [id(frame) for frame in out]
    assert nothing == []


# who hears of it

BENT_FRAMES = frames(chain.created(), chain.added(), chain.delta("Hel"))


def test_repairs_go_to_a_function_or_an_observer_and_to_the_log_without_content(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[Repair] = []
    heard: list[Repair] = []
    with caplog.at_level(logging.WARNING, "orx_rx"):
        at_once(BENT_FRAMES, None).pipe(ops.repair(on_repair=told.append)).subscribe()
    assert codes(told) == ["part_added", "renumbered"]
    logged = [getattr(record, "orx_rx", {}) for record in caplog.records]
    assert [(fields["code"], fields["place"]) for fields in logged] == [(repair.code, repair.place) for repair in told]
    assert "Hel" not in caplog.text
    at_once(BENT_FRAMES, None).pipe(ops.repair(on_repair=Observer(heard.append))).subscribe()
    assert heard == told


def test_what_a_listener_raises_is_logged_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: Repair) -> None:
        raise ValueError("of the listener")

    listener = Listener(at_once(BENT_FRAMES, None).pipe(ops.repair(on_repair=refuse)))
    assert listener.ends == [None]
    assert len(listener.heard) == 4
    assert "a repair listener raised" in caplog.text


def test_a_repair_reads_as_one_line() -> None:
    _, told = repair(BENT_FRAMES)
    assert str(told[0]) == (
        "part_added: expected the part to be added first, got what belongs in it"
        " (response.output_text.delta #2 at output[0].content[0])"
    )


# the client

pytestmark = pytest.mark.usefixtures("clean_environment")
ONCE = Retry(attempts=0)


async def hear(body: bytes, content_type: str = "text/event-stream", **options: Any) -> Ear[Event]:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        ear: Ear[Event] = Ear(client.events(model="m", **options))
        peer, _ = await server.asked()
        await peer.send(answer(body, content_type=content_type))
        peer.finish()
        return await ear.ended()


async def test_a_client_repairs_when_it_is_asked_to() -> None:
    body = chain.sse(chain.created(), chain.added(), chain.delta("Hello"), chain.text_done(), chain.finished(), END)
    told: list[Repair] = []
    ear = await hear(body, profile=LETTER, repair=True, on_repair=told.append)
    assert ear.completed, ear.error
    assert codes(told) == ["part_added", "renumbered", "part_done"]
    assert isinstance((await hear(body, profile=LETTER)).error, LifecycleViolation)


async def test_a_client_that_repairs_takes_a_whole_response() -> None:  # B26
    body = json.dumps({**END["response"], "object": "response"}).encode()
    ear = await hear(body, "application/json; charset=utf-8", repair=True, profile=LETTER)
    assert ear.completed, ear.error
    assert [event.type for event in ear.elements][-1] == "response.completed"
    assert isinstance((await hear(body, "application/json")).error, NotAnEventStream)


@pytest.mark.parametrize(
    ("body", "content_type", "kind"),
    [
        (b"<html>", "text/html", NotAnEventStream),  # B26
        (b"", "text/event-stream", StreamInterrupted),
        (b'{"error": {"message": "no"}}', "application/json", ServerError),
    ],
)
async def test_what_is_no_answer_stays_an_error(body: bytes, content_type: str, kind: type[OrxError]) -> None:
    assert isinstance((await hear(body, content_type, repair=True)).error, kind)


BACKGROUND: Sequence[tuple[list[Payload], str]] = [
    ([chain.created(background=True), chain.added(), chain.delta("Hel")], "/responses/resp_a"),
    (
        [chain.created(background=True), chain.added(), chain.part_added(id="rotates"), chain.delta("Hel")],
        "/responses/resp_a",
    ),
    (
        [chain.created(background=True), chain.added(), chain.part_added(), chain.delta("Hel")],
        "/responses/resp_a?stream=true&starting_after=3",
    ),
]


@pytest.mark.parametrize(
    ("came", "target"), BACKGROUND, ids=["renumbered, and polled", "repaired, and polled", "not repaired, and resumed"]
)
async def test_a_stream_that_was_repaired_is_not_resumed_but_polled(came: list[Payload], target: str) -> None:
    rest = chain.numbered([{**chain.delta("lo"), "sequence_number": 4}, *BARE[3:], END])
    async with listening() as server, Client(retry=Retry(first=0, most=0), base_url=server.url) as client:
        ear: Ear[Event] = Ear(client.events(model="m", background=True, repair=True))
        peer, _ = await server.asked()
        await peer.send(answer(chain.sse(*came, done=False)))
        peer.finish()
        peer, request = await server.asked()
        assert request.target == target
        if "stream" in target:
            await peer.send(answer(chain.sse(*rest)))
        else:
            whole = {**END["response"], "object": "response", "background": True}
            await peer.send(answer(json.dumps(whole).encode(), content_type="application/json"))
        peer.finish()
        await ear.ended()
    assert ear.completed, ear.error
    pieces = [event.delta for event in ear.elements if isinstance(event, DeltaEvent)]
    assert pieces == ["Hel", "lo"]


async def test_a_whole_response_that_has_not_ended_is_polled() -> None:  # B26
    begun, whole = ({**end["response"], "object": "response", "background": True} for end in (chain.created(), END))
    async with listening() as server, Client(retry=Retry(first=0, most=0), base_url=server.url) as client:
        ear: Ear[Event] = Ear(client.events(model="m", background=True, repair=True, profile=LETTER))
        for body in (begun, whole):
            peer, request = await server.asked()
            await peer.send(answer(json.dumps(body).encode(), content_type="application/json"))
            peer.finish()
        await ear.ended()
        assert request.target == "/responses/resp_a"
    assert ear.completed, ear.error
    assert [event.delta for event in ear.elements if isinstance(event, DeltaEvent)] == ["Hello"]


async def test_a_listener_without_repair_is_refused() -> None:
    async with Client(base_url="http://127.0.0.1:1") as client:
        with pytest.raises(ValueError, match=r"^expected repair=True with on_repair"):
            client.events(model="m", on_repair=print)
        with pytest.raises(TypeError, match=r"^expected on_repair to be a function or an observer, got 3"):
            client.events(model="m", repair=True, on_repair=3)  # type: ignore[arg-type]
