"""Every rule of the catalogue: the smallest stream that breaks it, and what each verdict makes of that."""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass

import pytest

from orx_rx.errors import OrxError, ProtocolError, ServerError, StreamInterrupted
from orx_rx.protocol.violations import DEFAULT, QUIET, RULES, STRICT, Claim, Judge, Profile, Violation
from tests.chain import (
    DONE,
    Payload,
    added,
    arguments_delta,
    created,
    delta,
    finished,
    hello,
    item,
    message,
    numbered,
    only,
    part_added,
    record,
    run,
    sse,
    terminal,
    text_done,
)


@dataclass(frozen=True)
class Broken:
    """A stream that breaks one rule, and where."""

    body: bytes
    sequence_number: int | None
    event_type: str | None
    place: str = ""


def changed(place: int, *payloads: Payload) -> bytes:
    """The stream that breaks no rule, with one of its events replaced."""
    stream = hello()
    stream[place : place + 1] = payloads
    return sse(*stream)


def with_raw(place: int, raw: bytes) -> bytes:
    """The stream that breaks no rule, with a record of one's own in front of one of its events."""
    records = [record(payload) for payload in numbered(hello())]
    return b"".join([*records[:place], raw, *records[place:], DONE])


IN_PROGRESS: Payload = {"type": "response.in_progress", "response": {"id": "resp_a", "status": "in_progress"}}
FAILED: Payload = {"type": "error", "error": {"type": "server_error", "code": None, "message": "busy", "param": None}}
THOUGHT = item("reasoning", "rs_a", summary=[])
TWO_ITEMS = [added(), added(message(id="msg_b"), at=1)]

BROKEN: dict[str, Broken] = {
    "data_not_json": Broken(with_raw(1, b"event: x\ndata: {oops\n\n"), None, "x"),
    "empty_data": Broken(with_raw(1, b"event: x\ndata:\n\n"), None, "x"),
    "unfinished_frame": Broken(sse(*hello()) + b'event: response.x\ndata: {"type":"response.x', None, "response.x"),
    "event_name_mismatch": Broken(
        with_raw(0, b'event: message\ndata: {"type":"x:note","sequence_number":0}\n\n'), 0, "x:note"
    ),
    "missing_done": Broken(sse(*hello(), done=False), None, None),
    "not_an_object": Broken(with_raw(1, b"event: x\ndata: [1]\n\n"), None, "x"),
    "type_missing": Broken(with_raw(8, b'data: {"sequence_number":8}\n\n'), 8, None),
    "type_only_in_name": Broken(with_raw(8, b'event: x:note\ndata: {"sequence_number":8}\n\n'), 8, "x:note"),
    "wrong_shape": Broken(
        with_raw(8, b'data: {"type":"response.refusal.delta","sequence_number":8,"output_index":"0"}\n\n'),
        8,
        "response.refusal.delta",
    ),
    "output_null": Broken(changed(0, created(output=None)), 0, "response.created", "response.output"),
    "field_missing": Broken(sse(*hello()), 0, "response.created", "response.background"),
    "sequence_missing": Broken(
        changed(3, {**delta("Hel"), "sequence_number": None}), None, "response.output_text.delta"
    ),
    "sequence_gap": Broken(changed(3, {**delta("Hel"), "sequence_number": 7}), 7, "response.output_text.delta"),
    "sequence_repeated": Broken(
        changed(3, delta("Hel"), {**delta("Hel"), "sequence_number": 3}), 3, "response.output_text.delta"
    ),
    "sequence_backward": Broken(changed(4, {**delta("lo"), "sequence_number": 2}), 2, "response.output_text.delta"),
    "created_not_first": Broken(changed(0, IN_PROGRESS), 0, "response.in_progress"),
    "created_twice": Broken(changed(0, created(), created()), 1, "response.created"),
    "response_id_changed": Broken(changed(0, created("resp_b"), IN_PROGRESS), 1, "response.in_progress"),
    "error_not_failed": Broken(changed(0, created(), FAILED, IN_PROGRESS), 2, "response.in_progress"),
    "status_mismatch": Broken(
        changed(8, {**terminal("failed", [message("Hello")]), "type": "response.completed"}),
        8,
        "response.completed",
        "response.status",
    ),
    "second_terminal": Broken(changed(8, hello()[8], terminal("failed")), 9, "response.failed"),
    "event_after_terminal": Broken(changed(8, hello()[8], delta("!")), 9, "response.output_text.delta"),
    "missing_terminal": Broken(sse(*hello()[:8]), None, None),
    "item_not_open": Broken(changed(1), 1, "response.content_part.added", "output[0]"),
    "item_added_twice": Broken(changed(1, added(), added()), 2, "response.output_item.added", "output[0]"),
    "place_taken": Broken(
        changed(1, added(), added(message(id="msg_b"))), 2, "response.output_item.added", "output[0]"
    ),
    "item_already_done": Broken(changed(7, finished(), finished()), 8, "response.output_item.done", "output[0]"),
    "item_not_closed": Broken(changed(7), 7, "response.completed", "output[0]"),
    "item_status_open": Broken(
        changed(7, finished(message("Hello") | {"status": "in_progress"})), 7, "response.output_item.done", "output[0]"
    ),
    "item_id_changed": Broken(changed(2, part_added(id="msg_b")), 2, "response.content_part.added", "output[0]"),
    "item_id_conflict": Broken(
        changed(1, *TWO_ITEMS, part_added(index=1, id="msg_a")), 3, "response.content_part.added", "output[1]"
    ),
    "wrong_item_kind": Broken(
        changed(2, arguments_delta("{", n="a") | {"item_id": "msg_a"}),
        2,
        "response.function_call_arguments.delta",
        "output[0]",
    ),
    "part_not_open": Broken(changed(2), 2, "response.output_text.delta", "output[0].content[0]"),
    "part_already_open": Broken(
        changed(2, part_added(), part_added()), 3, "response.content_part.added", "output[0].content[0]"
    ),
    "part_already_done": Broken(
        changed(5, text_done(), delta("!")), 6, "response.output_text.delta", "output[0].content[0]"
    ),
    "part_not_finished": Broken(changed(5), 5, "response.content_part.done", "output[0].content[0]"),
    "part_not_closed": Broken(changed(6), 6, "response.output_item.done", "output[0].content[0]"),
    "wrong_part_kind": Broken(
        changed(2, part_added(), delta("no", "refusal")), 3, "response.refusal.delta", "output[0].content[0]"
    ),
    "done_mismatch": Broken(changed(5, text_done("Hel")), 5, "response.output_text.done", "output[0].content[0]"),
    "terminal_output_empty": Broken(changed(8, terminal()), 8, "response.completed", "response.output"),
    "terminal_mismatch": Broken(
        changed(8, terminal(output=[message("Help")])), 8, "response.completed", "response.output[0].content[0]"
    ),
    "terminal_order": Broken(
        sse(*hello()[:8], added(THOUGHT, at=1), finished(THOUGHT, at=1), terminal(output=[THOUGHT, message("Hello")])),
        10,
        "response.completed",
        "response.output",
    ),
}
"""Each body is the stream that breaks no rule with one change, so STRICT ends it at that change and nowhere else."""


ELSEWHERE = {"resume_gap", "cursor_ahead"}
"""What takes a second connection to break, see `test_resume.py`."""


def test_the_table_has_a_stream_for_every_rule() -> None:
    assert list(BROKEN) == [code for code in RULES if code not in ELSEWHERE]


def test_the_stream_that_the_table_changes_breaks_no_rule() -> None:
    ran = run(sse(*hello()), STRICT.but(field_missing="ignore"))
    assert (ran.error, ran.codes) == (None, [])


@pytest.mark.parametrize("code", BROKEN)
def test_a_rule_that_is_raised_ends_the_stream_with_the_error_of_its_class(code: str) -> None:
    broken = BROKEN[code]
    ran = run(broken.body, only(code))
    assert type(ran.error) is RULES[code].error
    violation = ran.failure.violations[-1]
    assert violation == Violation(code, violation.message, broken.sequence_number, broken.event_type, broken.place)
    assert violation.message.startswith("expected ")
    assert ", got " in violation.message
    assert violation.message in str(ran.error)
    assert ran.codes == []  # what is raised is not reported as well


@pytest.mark.parametrize("code", BROKEN)
def test_a_rule_that_is_reported_is_told_and_the_stream_goes_on_to_its_end(code: str) -> None:
    raised = run(BROKEN[code].body, only(code))
    ran = run(BROKEN[code].body, only(code, "report"))
    assert ran.error is None
    assert ran.reported[0] == raised.failure.violations[-1]
    assert set(ran.codes) == {code}
    assert (ran.accumulator.final_response is None) == (code == "missing_terminal")
    assert len(ran.events) >= len(raised.events)


@pytest.mark.parametrize("code", BROKEN)
def test_a_rule_that_is_ignored_goes_nowhere(code: str) -> None:
    ran = run(BROKEN[code].body, QUIET)
    assert (ran.error, ran.codes) == (None, [])
    assert len(ran.events) == len(run(BROKEN[code].body, only(code, "report")).events)


@pytest.mark.parametrize("code", [code for code in BROKEN if RULES[code].strict == "raise"])
def test_strict_ends_a_stream_at_the_rule_that_it_breaks(code: str) -> None:
    ran = run(BROKEN[code].body, STRICT)
    assert type(ran.error) is RULES[code].error
    assert ran.raised == code


@pytest.mark.parametrize("code", BROKEN)
def test_default_does_with_a_rule_what_the_catalogue_says(code: str) -> None:
    ran = run(BROKEN[code].body, DEFAULT)
    if RULES[code].default == "raise":
        assert ran.raised == code
    elif code == "unfinished_frame":  # it is not JSON and the terminal has come: nothing is lost
        assert (ran.error, ran.codes) == (None, [code])
    else:
        assert (code in ran.codes) == (RULES[code].default == "report")


@pytest.mark.parametrize("code", RULES)
def test_a_rule_says_what_it_demands_and_who_made_it(code: str) -> None:
    rule = RULES[code]
    assert rule.code == code
    assert rule.sentence
    assert rule.source in ("Open Responses", "OpenAI", "WHATWG", "orx_rx")
    assert issubclass(rule.error, ProtocolError | StreamInterrupted)


def test_no_rule_costs_more_in_default_than_in_strict() -> None:
    order = ["ignore", "report", "raise"]
    assert not [code for code in RULES if order.index(DEFAULT.verdicts[code]) > order.index(STRICT.verdicts[code])]


@pytest.mark.parametrize("profile", [STRICT, DEFAULT, QUIET], ids=lambda profile: profile.name)
def test_a_profile_has_a_verdict_for_every_rule(profile: Profile) -> None:
    assert list(profile.verdicts) == list(RULES)


def test_a_profile_can_differ_in_some_rules() -> None:
    profile = STRICT.but(missing_done="ignore", field_missing="raise")
    differing = {code for code in RULES if profile.verdicts[code] != STRICT.verdicts[code]}
    assert differing == {"missing_done", "field_missing"}
    assert (profile.verdicts["missing_done"], profile.verdicts["field_missing"]) == ("ignore", "raise")
    assert profile.name == "STRICT but missing_done=ignore, field_missing=raise"
    assert STRICT.verdicts["missing_done"] == "raise"


def test_a_profile_refuses_a_rule_that_does_not_exist() -> None:
    with pytest.raises(
        ValueError, match=r"expected the code of a rule, got 'part_missing'; the codes are data_not_json"
    ):
        DEFAULT.but(part_missing="raise")


def test_a_profile_refuses_a_verdict_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match=r"expected 'raise', 'report' or 'ignore' for missing_done, got 'warn'"):
        DEFAULT.but(missing_done="warn")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_a_violation_reads_as_one_line() -> None:
    violation = Violation("part_not_open", "expected a part, got none", 7, "response.output_text.delta", "output[0]")
    assert str(violation) == ("part_not_open: expected a part, got none (response.output_text.delta #7 at output[0])")
    assert str(Violation("missing_done", "expected a, got b")) == "missing_done: expected a, got b (stream)"


def test_a_judge_keeps_what_it_found_and_tells_only_what_is_reported() -> None:
    told: list[Violation] = []
    judge = Judge(QUIET.but(empty_data="report", missing_done="raise"), told.append)
    judge.found("sequence_gap", "ignored")
    judge.found("empty_data", "reported", event=Claim("x", 3), place="output[0]")
    with pytest.raises(OrxError):
        judge.found("missing_done", "raised")
    reported = Violation("empty_data", "reported", 3, "x", "output[0]")
    assert told == [reported]
    assert judge.reported == [reported, Violation("missing_done", "raised")]


def test_an_error_of_ones_own_carries_the_violations_too() -> None:
    judge = Judge(QUIET.but(missing_terminal="raise"))
    error = StreamInterrupted("cut", resumable=True)
    with pytest.raises(StreamInterrupted) as caught:
        judge.found("missing_terminal", "expected a terminal, got none", error=error)
    assert caught.value is error
    assert [violation.code for violation in error.violations] == ["missing_terminal"]


def test_violations_merge_in_order_with_the_deciding_one_last() -> None:
    upstream, downstream = Judge(QUIET.but(empty_data="report")), Judge(QUIET.but(part_not_open="report"))
    upstream.found("empty_data", "one")
    downstream.found("part_not_open", "two")
    error = ServerError("busy")
    for judge in (upstream, downstream, downstream):  # passing twice adds nothing
        with pytest.raises(ServerError) as caught:
            judge.throw(error)
        assert caught.value is error
    assert [violation.message for violation in error.violations] == ["two", "one"]


def test_an_error_that_is_not_ours_passes_a_judge_as_it_is() -> None:
    judge = Judge(QUIET.but(empty_data="report"))
    judge.found("empty_data", "one")
    error = ValueError("somebody else's")
    with pytest.raises(ValueError, match="somebody") as caught:
        judge.throw(error)
    assert caught.value is error
    assert not hasattr(error, "violations")


def test_an_error_carries_what_the_steps_behind_it_reported() -> None:
    stream = hello()[:7]
    del stream[2]  # a part that is not opened, and texts that differ
    stream[4] = text_done("Help")
    ran = run(sse(*stream, done=False) + b"data: {oops\n\n")
    assert ran.codes == ["part_not_open", "done_mismatch", "done_mismatch"]
    assert [violation.code for violation in ran.failure.violations] == [
        "done_mismatch",
        "done_mismatch",
        "part_not_open",
        "data_not_json",
    ]


def test_a_profile_is_a_value_that_reads_as_its_name() -> None:
    mine = STRICT.but(missing_done="ignore")
    assert repr(STRICT) == "STRICT"
    assert repr(mine) == "STRICT but missing_done=ignore"
    for profile in (STRICT, DEFAULT, mine):
        assert pickle.loads(pickle.dumps(profile)) == copy.deepcopy(profile) == profile
        assert {profile: 1}[copy.copy(profile)] == 1
