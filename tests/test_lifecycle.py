"""The lifecycle: the table, whole and as the guard walks it; the ends of a stream; streams that begin in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orx_rx.errors import (
    ConnectionLost,
    FrameTooLarge,
    LifecycleViolation,
    OrxError,
    ServerError,
    StreamInterrupted,
)
from orx_rx.models.event_base import Event
from orx_rx.models.events import EVENT_CLASSES
from orx_rx.models.lifecycle_events import TerminalEvent
from orx_rx.models.stream_events import KeepaliveEvent, StreamEnd, UnknownEvent
from orx_rx.protocol.cursor import Cursor
from orx_rx.protocol.lifecycle import LifecycleGuard
from orx_rx.protocol.routes import Route, route
from orx_rx.protocol.states import TABLE, Action, Broken, State
from orx_rx.protocol.violations import DEFAULT, QUIET, RULES, STRICT, Judge, Profile
from tests.chain import (
    DONE,
    Payload,
    added,
    arguments_delta,
    arguments_done,
    at,
    call,
    created,
    delta,
    events,
    failing,
    finished,
    hello,
    in_progress,
    item,
    keepalive,
    least,
    message,
    numbered,
    output_text,
    part_added,
    part_done,
    record,
    run,
    sse,
    terminal,
    text_done,
)

TELLING = Profile("TELLING", dict.fromkeys(RULES, "report"))
TO_THE_LETTER = STRICT.but(field_missing="ignore")  # the payloads of these tests leave out what has no meaning here


# the table


def actions_of(machine: str) -> set[Action]:
    """What the events of the wire can do to a machine."""
    routes = [what for event in EVENT_CLASSES.values() if (what := route(event)) is not None]
    if machine == "response":
        return {what.action for what in routes}
    if machine == "item":
        return {what.item_action for what in routes if what.item_action is not None}
    return {what.part_action for what in routes if what.part_action is not None and what.machine == machine}


@pytest.mark.parametrize("machine", TABLE)
def test_every_state_that_can_be_reached_has_an_entry_for_every_action_that_can_come(machine: str) -> None:
    reached, new = {State.ABSENT}, [State.ABSENT]
    while new:
        entries = TABLE[machine][new.pop()]
        assert set(entries) == actions_of(machine)
        following = {entry.then if isinstance(entry, Broken) else entry for entry in entries.values()}
        new += following - reached
        reached |= following
    assert reached == set(TABLE[machine])  # and no state is there in vain


def test_every_machine_of_a_route_is_in_the_table() -> None:
    machines = {what.machine for event in EVENT_CLASSES.values() if (what := route(event)) is not None}
    assert machines - {""} == set(TABLE) - {"response", "item"}


def test_every_event_takes_part_but_those_out_of_band() -> None:
    assert [name for name, event in EVENT_CLASSES.items() if route(event) is None] == ["keepalive"]
    assert route(UnknownEvent) is route(StreamEnd) is route(KeepaliveEvent) is None


def test_an_event_of_a_class_of_ones_own_moves_the_response_on() -> None:
    class Mine(Event, frozen=True):
        """An event that somebody made."""

        type: str = "x:mine"

    assert route(Mine) == Route(Action.CONTENT)


def rows() -> Iterator[Broken]:
    for machine in TABLE.values():
        for entries in machine.values():
            yield from (entry for entry in entries.values() if isinstance(entry, Broken))


def test_every_rule_of_the_table_is_in_the_catalogue_as_one_of_the_lifecycle() -> None:
    assert {RULES[row.code].error for row in rows()} == {LifecycleViolation}


COMMAND = {"output_index": 0, "command_index": 0}
SHELL = item("shell_call", "sh_a", action={"commands": []})
ANNOTATED: Payload = {"type": "response.output_text.annotation.added", **at(), "annotation_index": 0}

# for each machine, the events that lead to each state, and an event for each action
WALKS: dict[str, tuple[dict[State, list[Payload]], dict[Action, Payload]]] = {
    "response": (
        {
            State.ABSENT: [],
            State.OPEN: [created()],
            State.FAILING: [created(), failing()],
            State.ENDED: [created(), terminal()],
        },
        {
            Action.CREATE: created(),
            Action.UPDATE: in_progress(),
            Action.CONTENT: added(),
            Action.ERROR: failing(),
            Action.TERMINAL: terminal("failed"),
        },
    ),
    "item": (
        {
            State.ABSENT: [created()],
            State.OPEN: [created(), added()],
            State.DONE: [created(), added(), finished(message())],
        },
        {Action.ADD: added(), Action.USE: ANNOTATED, Action.DONE: finished(message())},
    ),
    "part": (
        {
            State.ABSENT: [created(), added()],
            State.OPEN: [created(), added(), part_added()],
            State.FINISHED: [created(), added(), part_added(), text_done("")],
            State.DONE: [created(), added(), part_added(), text_done(""), part_done()],
        },
        {
            Action.ADD: part_added(),
            Action.USE: delta("x"),
            Action.FINISH: text_done(""),
            Action.DONE: part_done(),
        },
    ),
    "command": (
        {
            State.ABSENT: [created(), added(SHELL)],
            State.OPEN: [created(), added(SHELL), least("response.shell_call_command.added")],
            State.DONE: [
                created(),
                added(SHELL),
                least("response.shell_call_command.added"),
                least("response.shell_call_command.done"),
            ],
        },
        {
            Action.ADD: least("response.shell_call_command.added"),
            Action.USE: least("response.shell_call_command.delta"),
            Action.FINISH: least("response.shell_call_command.done"),
        },
    ),
    "field": (
        {
            State.ABSENT: [created(), added(call())],
            State.OPEN: [created(), added(call()), arguments_delta("{")],
            State.DONE: [created(), added(call()), arguments_done("{}")],
        },
        {Action.USE: arguments_delta("}"), Action.FINISH: arguments_done("{}")},
    ),
}
PAIRS = [
    (machine, state, first, second)
    for machine, (states, actions) in WALKS.items()
    for state, first, second in product(states, actions, actions)
]


def test_the_walks_reach_every_row() -> None:
    assert {name: (set(states), set(actions)) for name, (states, actions) in WALKS.items()} == {
        name: (set(machine), actions_of(name)) for name, machine in TABLE.items()
    }


@pytest.mark.parametrize(("machine", "state", "first", "second"), PAIRS)
def test_the_guard_does_what_the_table_says(machine: str, state: State, first: Action, second: Action) -> None:
    states, actions = WALKS[machine]
    mine = {row.code for entries in TABLE[machine].values() for row in entries.values() if isinstance(row, Broken)}
    judge = Judge(TELLING)
    guard = LifecycleGuard(judge)
    expected: list[str] = []
    at = state
    for action in (first, second):
        entry = TABLE[machine][at][action]
        expected += [entry.code] if isinstance(entry, Broken) else []
        at = entry.then if isinstance(entry, Broken) else entry
    if first is second is Action.USE and machine in ("part", "command", "field"):
        expected = expected[:1]  # of deltas at one place only the first is looked at
    for event in events(*states[state]):
        guard.feed(event)
    assert [violation.code for violation in judge.reported if violation.code in mine] == []
    for event in events(actions[first], actions[second]):
        guard.feed(event)
    assert [violation.code for violation in judge.reported if violation.code in mine] == expected


# walks


INDICES = st.integers(0, 2)
IDS = st.sampled_from([None, "", "msg_a", "msg_b", "fc_a"])
KINDS = ["message", "reasoning", "function_call", "mcp_call", "shell_call", "x:note"]
PARTS = ["output_text", "refusal", "reasoning_text", "summary_text", "text", "x:chart"]


@st.composite
def payloads(draw: st.DrawFn) -> Payload:
    """Any event of the wire, at any of a few places, with any of a few names."""
    type_ = draw(st.sampled_from([*EVENT_CLASSES, "x:note"]))
    if type_ not in EVENT_CLASSES:
        return {"type": type_}
    payload = least(type_, part={"type": draw(st.sampled_from(PARTS))})
    for name in payload:
        if name.endswith("_index"):
            payload[name] = draw(INDICES)
    if "item_id" in EVENT_CLASSES[type_].model_fields:
        payload["item_id"] = draw(IDS)
    if "item" in payload:
        payload["item"] = draw(st.none() | st.builds(item, st.sampled_from(KINDS), IDS))
    if "response" in payload:
        ids, statuses = st.sampled_from(["", "resp_a", "resp_b"]), st.sampled_from([None, "failed", "completed"])
        payload["response"] = {"id": draw(ids), "status": draw(statuses), "output": draw(st.sampled_from([None, []]))}
    return payload


def endings(guard: LifecycleGuard, ending: str) -> None:
    if ending == "end":
        guard.end()
    elif ending == "expire" and guard.settling:
        guard.expire()
    elif ending in ("lost", "too large"):
        guard.fail(ConnectionLost("reset") if ending == "lost" else FrameTooLarge(2, 1))


@settings(deadline=None)
@given(
    st.lists(payloads(), max_size=30),
    st.sampled_from([DEFAULT, STRICT, QUIET, TELLING]),
    st.sampled_from(["end", "expire", "lost", "too large"]),
    st.booleans(),
)
def test_whatever_comes_the_guard_raises_nothing_but_errors_of_the_library(
    stream: list[Payload], profile: Profile, ending: str, begins: bool
) -> None:
    guard = LifecycleGuard(Judge(profile))
    out: list[Event] = []
    with suppress(OrxError):
        for event in events(*([created()] if begins else []), *stream):
            out += guard.feed(event)
        endings(guard, ending)
    terminals = [place for place, event in enumerate(out) if isinstance(event, TerminalEvent)]
    assert len(terminals) <= 1
    if terminals:
        assert all(route(type(event)) is None for event in out[terminals[0] + 1 :])


@settings(deadline=None)
@given(st.lists(payloads(), max_size=30), st.sampled_from([QUIET, TELLING]))
def test_a_guard_that_may_not_raise_loses_nothing_before_the_terminal(stream: list[Payload], profile: Profile) -> None:
    guard = LifecycleGuard(Judge(profile))
    ended = False
    for event in events(created(), *stream):
        expected = () if ended and route(type(event)) is not None else (event,)
        assert tuple(guard.feed(event)) == expected
        ended = ended or isinstance(event, TerminalEvent)


# items and parts side by side


def text_at(index: int, content: int) -> list[Payload]:
    place: Payload = {"index": index, "content": content, "id": f"msg_{index}"}
    return [
        part_added(**place),
        delta("ab", **place),
        delta("c", **place),
        text_done("abc", **place),
        part_done(output_text("abc"), **place),
    ]


def message_at(index: int) -> list[list[Payload]]:
    parts = [output_text("abc"), output_text("abc")]
    whole = item("message", f"msg_{index}", role="assistant", status="completed", content=parts)
    return [
        [added(message(id=f"msg_{index}"), at=index)],
        *[[step] for step in text_at(index, 0)],
        *[[step] for step in text_at(index, 1)],
        [finished(whole, at=index)],
    ]


def call_at(index: int) -> list[list[Payload]]:
    name = str(index)
    return [
        [added(call(n=name), at=index)],
        *[[arguments_delta(piece, index, name)] for piece in ('{"n":', name, "}")],
        [arguments_done(f'{{"n":{name}}}', index, name)],
        [finished(call(f'{{"n":{name}}}', name, status="completed"), at=index)],
    ]


@settings(deadline=None)
@given(st.data())
def test_items_and_parallel_calls_may_interleave_in_any_way(data: st.DataObject) -> None:
    threads = [message_at(0), call_at(1), call_at(2), message_at(3)]
    output = [thread[-1][0]["item"] for thread in threads]
    stream = [created()]
    while any(threads):
        thread = data.draw(st.sampled_from([thread for thread in threads if thread]))
        stream += thread.pop(0)
    ran = run(sse(*stream, terminal(output=output)), TO_THE_LETTER)
    assert (ran.error, ran.codes) == (None, [])
    assert [each.id for each in ran.final.output or ()] == ["msg_0", "fc_1", "fc_2", "msg_3"]


def test_parts_may_be_interleaved_and_a_reasoning_has_contents_and_summaries_at_the_same_index() -> None:
    place = {"output_index": 0, "item_id": "rs_a"}
    thought = {"type": "reasoning_text", "text": "because"}
    digest = {"type": "summary_text", "text": "why"}
    whole = item("reasoning", "rs_a", summary=[digest], content=[thought])
    ran = run(
        sse(
            created(),
            added(item("reasoning", "rs_a", summary=[])),
            part_added({"type": "reasoning_text", "text": ""}, id="rs_a"),
            {
                "type": "response.reasoning_summary_part.added",
                **place,
                "summary_index": 0,
                "part": {**digest, "text": ""},
            },
            {"type": "response.reasoning_summary_text.delta", **place, "summary_index": 0, "delta": "why"},
            delta("because", "reasoning_text", id="rs_a"),
            {"type": "response.reasoning_summary_text.done", **place, "summary_index": 0, "text": "why"},
            {"type": "response.reasoning_text.done", **place, "content_index": 0, "text": "because"},
            {"type": "response.reasoning_summary_part.done", **place, "summary_index": 0, "part": digest},
            part_done(thought, id="rs_a"),
            finished(whole),
            terminal(output=[whole]),
        ),
        TO_THE_LETTER,
    )
    assert (ran.error, ran.codes) == (None, [])


@pytest.mark.parametrize("part", [{"type": "x:chart", "data": [1]}, {"type": "input_image", "image_url": "https://x"}])
def test_a_part_without_a_text_has_nothing_to_finish(part: Payload) -> None:
    whole = item("message", "msg_a", content=[part])
    ran = run(
        sse(created(), added(), part_added(part), part_done(part), finished(whole), terminal(output=[whole])),
        TO_THE_LETTER,
    )
    assert (ran.error, ran.codes) == (None, [])


def test_an_item_of_an_unknown_type_may_have_parts_and_texts() -> None:
    whole = item("x:note", "msg_a", content=[output_text("Hello")])
    stream = hello()
    stream[1], stream[7], stream[8] = added(item("x:note", "msg_a")), finished(whole), terminal(output=[whole])
    ran = run(sse(*stream), TO_THE_LETTER)
    assert (ran.error, ran.codes) == (None, [])


# names that rotate, or are not there


def renamed(stream: list[Payload], names: Iterator[str]) -> list[Payload]:
    """Give every event another item id."""
    for payload in stream:
        if "item_id" in payload:
            payload["item_id"] = next(names)
        if "item" in payload:
            payload["item"] = {**payload["item"], "id": next(names)}
    return stream


def test_ids_that_rotate_are_told_once_for_each_item() -> None:
    steps = [step for index in (0, 1) for steps in message_at(index) for step in steps]
    ran = run(sse(created(), *renamed(steps, (f"enc_{n}" for n in range(99))), terminal()))
    assert ran.codes == ["item_id_changed", "item_id_changed", "terminal_output_empty"]
    assert [violation.place for violation in ran.reported] == ["output[0]", "output[1]", "response.output"]
    assert ran.final.output_text == "abcabcabcabc"


def test_an_empty_id_is_a_change_and_never_the_name_of_another_item() -> None:
    steps = [step for index in (0, 1) for steps in message_at(index) for step in steps]
    for payload in steps:
        if "item_id" in payload:
            payload["item_id"] = ""
    ran = run(sse(created(), *steps, terminal()))
    assert ran.codes == ["item_id_changed", "item_id_changed", "terminal_output_empty"]
    assert ran.final.output_text == "abcabcabcabc"


def test_a_missing_id_is_no_change() -> None:
    steps = [step for steps in message_at(0) for step in steps]
    for payload in steps:
        payload.pop("item_id", None)
    ran = run(sse(created(), *steps, terminal(output=[steps[-1]["item"]])), TO_THE_LETTER)
    assert (ran.error, ran.codes) == (None, [])


def test_two_calls_without_ids_at_one_place_are_told_apart_by_their_call_ids() -> None:
    first, second = item("function_call", None, call_id="call_a"), item("function_call", None, call_id="call_b")
    ran = run(sse(created(), added(first), finished(first), added(second)))
    assert ran.raised == "place_taken"
    assert "expected output index 0 to stay with item call_a, got item call_b" in str(ran.error)


def test_an_item_of_another_type_at_a_place_that_is_taken_is_never_let_pass_by_default() -> None:
    ran = run(sse(created(), added(), added(call(), at=0)))
    assert ran.raised == "place_taken"


def test_an_item_that_is_done_as_another_type_is_never_let_pass_by_default() -> None:
    ran = run(sse(created(), added(), finished(call())))
    assert ran.raised == "wrong_item_kind"
    assert "expected the message that was added, got a function_call" in str(ran.error)


def test_an_item_that_is_null_may_be_of_any_type() -> None:
    stream = hello()
    stream[1] = {**added(), "item": None}
    ran = run(sse(*stream), TO_THE_LETTER)
    assert (ran.error, ran.codes) == (None, [])


# streams that begin in the middle


@pytest.mark.parametrize("start", range(1, 9))
def test_a_stream_that_begins_in_the_middle_is_told_once(start: int) -> None:
    ran = run(sse(*numbered(hello())[start:]))
    assert ran.error is None
    assert ran.codes == ["created_not_first"]
    assert ran.reported[0].sequence_number == start
    assert ran.final.output_text == "Hello"


@pytest.mark.parametrize("start", range(1, 9))
def test_a_stream_that_begins_in_the_middle_breaks_a_rule_of_the_letter(start: int) -> None:
    assert run(sse(*numbered(hello())[start:]), STRICT).raised == "created_not_first"


def test_what_is_opened_after_such_a_beginning_is_held_to_every_rule() -> None:
    stream = numbered(hello())[3:8]
    ran = run(sse(*stream, added(message(id="msg_b"), at=1), delta("x", index=1, id="msg_b"), terminal("incomplete")))
    assert ran.codes == ["created_not_first", "part_not_open", "terminal_output_empty"]
    assert ran.reported[1].place == "output[1].content[0]"


def test_a_stream_may_begin_with_an_error() -> None:
    ran = run(sse(failing(), terminal("failed")), TO_THE_LETTER)
    assert (ran.error, ran.codes) == (None, [])
    assert ran.final.status == "failed"


# out of band


@pytest.mark.parametrize("stranger", [keepalive(), {"type": "x:note", "data": [1]}, {"type": "response.new.delta"}])
@pytest.mark.parametrize("place", range(10))
def test_what_is_out_of_band_may_come_anywhere(place: int, stranger: Payload) -> None:
    stream = hello()
    stream.insert(place, stranger)
    ran = run(sse(*stream), TO_THE_LETTER)
    assert (ran.error, ran.codes) == (None, [])
    assert ran.events[place].type == stranger["type"]
    assert len(ran.events) == 10


@pytest.mark.parametrize("stranger", [keepalive(), {"type": "x:note"}])
def test_what_is_out_of_band_may_come_between_an_error_and_its_failure(stranger: Payload) -> None:
    ran = run(sse(created(), failing(), stranger, terminal("failed")), TO_THE_LETTER)
    assert (ran.error, ran.codes) == (None, [])


# errors


def test_an_error_and_its_failure_are_one_failure() -> None:
    ran = run(sse(created(), failing(), terminal("failed", error={"code": "overloaded", "message": "busy"})))
    assert (ran.error, ran.codes) == (None, [])
    assert [event.type for event in ran.events] == ["response.created", "error", "response.failed"]
    assert ran.final.error is not None
    assert ran.final.error.code == "overloaded"


@pytest.mark.parametrize("done", [True, False])
def test_an_error_without_a_failure_is_the_error_of_the_server(done: bool) -> None:
    ran = run(sse(created(), failing("busy", code="overloaded", param="input"), done=done), STRICT)
    assert isinstance(ran.error, ServerError)
    error = ran.error
    assert (error.message, error.code, error.type, error.param) == ("busy", "overloaded", "server_error", "input")
    assert error.sequence_number == 1
    assert error.snapshot is not None
    assert error.snapshot.id == "resp_a"


def test_the_first_error_is_the_one_that_counts() -> None:
    ran = run(sse(created(), failing("first"), failing("second")))
    assert ran.codes == ["error_not_failed"]
    assert isinstance(ran.error, ServerError)
    assert ran.error.message == "first"


def test_a_response_that_completes_after_an_error_is_complete_and_told() -> None:
    ran = run(sse(created(), failing(), *hello()[1:]))
    assert ran.codes == ["error_not_failed"]
    assert ran.error is None
    assert ran.final.output_text == "Hello"


@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_a_terminal_that_is_no_failure_does_not_follow_an_error(status: str) -> None:
    ran = run(sse(created(), failing(), terminal(status)))
    assert ran.codes == ["error_not_failed"]
    assert ran.final.status == status


def test_an_error_after_the_terminal_changes_nothing() -> None:
    ran = run(sse(*hello(), failing()))
    assert ran.codes == ["event_after_terminal"]
    assert ran.error is None
    assert ran.events[-1].type == "response.completed"


# settling


def guard_after(*payloads: Payload, profile: Profile = DEFAULT) -> LifecycleGuard:
    guard = LifecycleGuard(Judge(profile))
    for event in events(*payloads):
        guard.feed(event)
    return guard


def test_a_guard_settles_with_an_error_and_with_the_terminal_and_not_before() -> None:
    assert not guard_after().settling
    assert not guard_after(created(), added()).settling
    assert guard_after(created(), failing()).settling
    assert not guard_after(created(), failing(), added()).settling
    assert guard_after(created(), failing(), added(), terminal()).settling
    assert guard_after(created(), failing(), keepalive()).settling


def test_a_guard_that_waited_in_vain_completes_after_the_terminal() -> None:
    assert guard_after(*hello(), profile=STRICT).expire() == ()  # a sentinel may still be on its way


def test_a_guard_that_waited_in_vain_for_a_failure_raises_the_error() -> None:
    with pytest.raises(ServerError, match="busy"):
        guard_after(created(), failing()).expire()


# the end without a terminal


ENDS = {
    "nothing": (b"", "expected a terminal, got the end of the stream after no event at all"),
    "a comment": (b": ka\n\n", "expected a terminal, got the end of the stream after no event at all"),
    "only the sentinel": (DONE, "expected a terminal, got [DONE] after no event at all"),
    "a sentinel that breaks off": (b"data: [DONE]", "expected a terminal, got [DONE] after no event at all"),
    "created": (
        sse(created(), done=False),
        "expected a terminal, got the end of the stream after 1 event number 0, with 0 of 0 items done",
    ),
    "everything but the terminal": (
        sse(*hello()[:8]),
        "expected a terminal, got [DONE] after 8 events, the last one number 7, with 1 of 1 items done",
    ),
    "an open item": (
        sse(*hello()[:4], done=False),
        "expected a terminal, got the end of the stream after 4 events, the last one number 3, with 0 of 1 items done",
    ),
    "no numbers": (
        sse({**created(), "sequence_number": None}, done=False),
        "expected a terminal, got the end of the stream after 1 event without a number, with 0 of 0 items done",
    ),
    "half a terminal": (
        sse(created(), done=False) + b'event: x\ndata: {"type": "response.completed", "sequence_number": 1, "resp',
        "expected a terminal, got the end of the stream after 1 event number 0, with 0 of 0 items done, "
        "and an unfinished frame of 58 bytes of type response.completed",
    ),
    "half an event whose type is in its name": (
        b'event: response.failed\ndata: {"resp',
        "expected a terminal, got the end of the stream after no event at all, "
        "and an unfinished frame of 6 bytes of type response.failed",
    ),
    "half of something": (
        b'data: {"ty',
        "expected a terminal, got the end of the stream after no event at all, "
        "and an unfinished frame of 4 bytes of type unknown",
    ),
}


@pytest.mark.parametrize("case", ENDS)
@pytest.mark.parametrize("profile", [DEFAULT, STRICT], ids=lambda profile: profile.name)
def test_an_end_without_a_terminal_says_how_far_the_stream_came(profile: Profile, case: str) -> None:
    body, message = ENDS[case]
    ran = run(body, profile.but(field_missing="ignore", sequence_missing="ignore"))
    assert isinstance(ran.error, StreamInterrupted)
    assert str(ran.error) == message
    assert ran.raised == "missing_terminal"


def test_strict_drops_a_whole_terminal_that_no_blank_line_ends() -> None:
    last = record(numbered(hello())[8]).removesuffix(b"\n\n")
    body = sse(created(), done=False) + last
    ran = run(body, STRICT)
    assert isinstance(ran.error, StreamInterrupted)
    size = len(last.partition(b"data: ")[2])
    assert f"an unfinished frame of {size} bytes of type response.completed" in str(ran.error)
    assert run(body).final.output_text == "Hello"


@pytest.mark.parametrize(
    ("first", "cursor", "resumable"),
    [
        (created(), Cursor("resp_a", 3), False),
        (created(background=True), Cursor("resp_a", 3), True),
        (created(background=True, store=True), Cursor("resp_a", 3), True),
        (created(background=True, store=False), Cursor("resp_a", 3), False),
        (created(background=False), Cursor("resp_a", 3), False),
        (created(""), None, False),
        (created("", background=True), None, False),
    ],
)
@pytest.mark.parametrize("broken", [None, ConnectionLost("reset")])
def test_an_interrupted_stream_says_where_it_broke_off(
    first: Payload, cursor: Cursor | None, resumable: bool, broken: Exception | None
) -> None:
    ran = run(sse(first, *hello()[1:4], done=False), broken=broken)
    assert isinstance(ran.error, StreamInterrupted)
    assert (ran.error.cursor, ran.error.resumable) == (cursor, resumable)
    assert ran.accumulator.cursor == cursor
    assert ran.error.__cause__ is broken
    assert ran.error.snapshot is not None
    assert ran.error.snapshot.output_text == "Hel"


def test_the_id_and_the_background_may_come_with_a_later_event() -> None:
    ran = run(sse(created(""), in_progress("resp_b", background=True), done=False))
    assert isinstance(ran.error, StreamInterrupted)
    assert (ran.error.cursor, ran.error.resumable) == (Cursor("resp_b", 1), True)


@pytest.mark.parametrize(
    ("numbers", "sequence_number"),
    [
        ([None, None, None], None),  # never a number
        ([None, 1, 2], 2),  # zero was left out
        ([0, None, 2], 2),  # what came last has one
        ([0, 1, None], None),  # what came last would come again
    ],
)
def test_a_cursor_needs_the_number_of_what_came_last(numbers: list[int | None], sequence_number: int | None) -> None:
    payloads = [created(background=True), in_progress(), in_progress()]
    stream = [{**payload, "sequence_number": number} for payload, number in zip(payloads, numbers, strict=True)]
    ran = run(sse(*stream, done=False))
    cursor = None if sequence_number is None else Cursor("resp_a", sequence_number)
    assert isinstance(ran.error, StreamInterrupted)
    assert (ran.error.cursor, ran.error.resumable) == (cursor, cursor is not None)
    assert ran.accumulator.cursor == cursor


def test_a_keepalive_without_a_number_leaves_the_cursor_where_it_is() -> None:
    ran = run(sse(created(background=True), keepalive(sequence_number=None), done=False))
    assert isinstance(ran.error, StreamInterrupted)
    assert ran.error.cursor == ran.accumulator.cursor == Cursor("resp_a", 0)


# the end by an error of the connection


def test_a_connection_that_breaks_before_the_first_event_is_its_own_error() -> None:
    lost = ConnectionLost("reset")
    ran = run([b": ka\n\n"], broken=lost)
    assert ran.error is lost


def test_a_connection_that_breaks_after_an_error_of_the_server_gives_that_error() -> None:
    lost = ConnectionLost("reset")
    ran = run(sse(created(), failing("busy"), done=False), broken=lost)
    assert isinstance(ran.error, ServerError)
    assert ran.error.message == "busy"
    assert ran.error.__cause__ is lost


@pytest.mark.parametrize("profile", [DEFAULT, STRICT], ids=lambda profile: profile.name)
def test_a_connection_that_breaks_after_the_terminal_does_not_matter(profile: Profile) -> None:
    ran = run(sse(*hello(), done=False), profile.but(field_missing="ignore"), broken=ConnectionLost("reset"))
    assert (ran.error, ran.codes) == (None, [])
    assert ran.final.output_text == "Hello"


def test_what_is_no_error_of_the_connection_passes_before_the_terminal() -> None:
    large = FrameTooLarge(2, 1)
    assert run(sse(*hello()[:4], done=False), broken=large).error is large


def test_what_is_no_error_of_the_connection_is_a_violation_after_the_terminal() -> None:
    large = FrameTooLarge(2, 1)
    ran = run(sse(*hello()), broken=large)
    assert ran.error is None
    assert [str(violation) for violation in ran.reported] == [
        "event_after_terminal: expected nothing after the terminal, got FrameTooLarge (stream)"
    ]
    assert run(sse(*hello()), STRICT, broken=large).error is large


@pytest.mark.parametrize("ended", [True, False])
def test_an_error_that_is_not_ours_is_never_hidden(ended: bool) -> None:
    bug = ValueError("somebody else's")
    assert run(sse(*(hello() if ended else hello()[:4])), broken=bug).error is bug


def test_a_guard_that_ignores_a_missing_terminal_completes() -> None:
    ran = run(sse(*hello()[:4]), DEFAULT.but(missing_terminal="ignore"))
    assert (ran.error, ran.codes) == (None, [])
    assert ran.accumulator.final_response is None
