"""Resuming: what a disconnect is, where the stream goes on, and that nothing is lost or comes twice."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import reactivex
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, Disposable
from reactivex.scheduler import ImmediateScheduler
from reactivex.testing import TestScheduler

from orx_rx import operators as ops
from orx_rx.errors import (
    ConnectFailed,
    ConnectionLost,
    FrameDecodeError,
    OrxError,
    SchemaViolation,
    SequenceViolation,
    StatusError,
    StreamInterrupted,
    StreamTimeout,
    TransportError,
    Unauthorized,
)
from orx_rx.models.event_base import DeltaEvent, Event
from orx_rx.models.lifecycle_events import ResponseIncompleteEvent, TerminalEvent
from orx_rx.models.response import Response
from orx_rx.models.stream_events import KeepaliveEvent, StreamEnd
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.channels import CHANNELS, DELTA_CHANNELS
from orx_rx.protocol.completion import completion
from orx_rx.protocol.cursor import Cursor
from orx_rx.protocol.resume import FINAL, Behind, Move, Resumer
from orx_rx.protocol.violations import DEFAULT, QUIET, STRICT, Judge, Profile, Violation
from orx_rx.reporting import Attempt
from orx_rx.simulator import Script, play, request_of, scenario_for
from tests import chain
from tests.marbles import at, cold, draw
from tests.sources import Listener, Source, at_once

STREAM = chain.events(*chain.hello(background=True))
LOST = ConnectionLost("expected the rest of the body, got none")
END = StreamEnd()
TELLING = STRICT.but(missing_done="ignore")


def in_background(model: str) -> list[Event]:
    """Let the simulator write a stream."""
    request = request_of({"model": model, "input": "Tell me about cats", "background": True, "stream": True})
    return list(play(scenario_for(request), Script(request)))


EVERYTHING, REFUSAL = in_background("everything"), in_background("refusal")
STREAMS = {"hello": STREAM, "everything": EVERYTHING, "refusal": REFUSAL}
CUTS = [(name, cut) for name, stream in STREAMS.items() for cut in range(1, len(stream))]


def final_of(stream: Sequence[Event]) -> Response:
    terminal = stream[-1]
    assert isinstance(terminal, TerminalEvent)
    return terminal.response


def status(code: int) -> StatusError:
    return (Unauthorized if code == 401 else StatusError)(code, "no")


# the rules, without Rx


def fed(*events: Event, attempts: int = 5, cursor: Cursor | None = None) -> Resumer:
    resumer = Resumer(attempts, cursor=cursor)
    for event in events:
        for passing in resumer.feed(event):
            resumer.passed(passing)
    return resumer


def made(rest: Sequence[Event] | Move) -> Sequence[Event]:
    assert not isinstance(rest, Move)
    return rest


def hello(**fields: Any) -> list[Event]:
    return chain.events(*chain.hello(**fields))


UNSTORED = hello(background=True, store=False)
UNNUMBERED = chain.events(
    chain.created(background=True) | {"sequence_number": None}, chain.added() | {"sequence_number": None}
)
RUNNING = Response(id="resp_a", status="in_progress")
QUEUED = Response(id="resp_a", status="queued")
REPORTED = chain.events(chain.created(background=True), chain.failing())

ENDINGS: Sequence[tuple[str, Sequence[Event], Exception | None, Move]] = [
    ("lost", STREAM[:3], LOST, Move.REOPEN),
    ("ended without a terminal", STREAM[:3], None, Move.REOPEN),
    ("[DONE] without a terminal", [*STREAM[:3], END], None, Move.REOPEN),
    ("timed out", STREAM[:3], StreamTimeout("idle", 3), Move.REOPEN),
    ("with a keepalive last", [*STREAM[:3], KeepaliveEvent()], LOST, Move.REOPEN),
    ("before any event", [], LOST, Move.END),
    ("in the foreground", hello()[:3], LOST, Move.END),
    ("background false", hello(background=False)[:3], LOST, Move.END),
    ("not stored", UNSTORED[:3], LOST, Move.END),
    ("without numbers", UNNUMBERED, LOST, Move.POLL),
    ("after an error event", REPORTED, LOST, Move.END),
    ("after an error event, cleanly", REPORTED, None, Move.END),
    ("after the terminal", STREAM, None, Move.END),
    ("lost after the terminal", STREAM, LOST, Move.END),
    ("with something behind the terminal", hello(background=True) + chain.events(chain.in_progress()), LOST, Move.END),
    ("a frame that is wrong", STREAM[:3], FrameDecodeError("expected JSON, got text"), Move.END),
    ("a violation", STREAM[:3], SequenceViolation("expected 3, got 5"), Move.END),
    ("a bug", STREAM[:3], TypeError("no"), Move.END),
]


@pytest.mark.parametrize(("events", "error", "move"), [row[1:] for row in ENDINGS], ids=[row[0] for row in ENDINGS])
def test_only_what_ended_too_early_and_goes_on_elsewhere_is_resumed(
    events: Sequence[Event], error: Exception | None, move: Move
) -> None:
    assert fed(*events).disconnected(error) is move


ANSWERS: Sequence[tuple[Exception | None, Move, bool | None]] = [
    (None, Move.POLL, None),  # nothing more to stream
    (LOST, Move.REOPEN, None),
    (ConnectFailed("expected a connection, got none"), Move.REOPEN, None),
    (status(408), Move.REOPEN, True),
    (status(409), Move.REOPEN, True),
    (status(429), Move.REOPEN, True),
    (status(503), Move.REOPEN, True),
    (status(400), Move.POLL, False),
    (status(404), Move.POLL, False),
    (status(405), Move.POLL, False),
    (status(401), Move.END, False),
    (SchemaViolation("expected text/event-stream, got application/json"), Move.POLL, False),
    (TypeError("no"), Move.END, None),
]


@pytest.mark.parametrize(("error", "move", "resumable"), ANSWERS)
def test_a_server_that_does_not_stream_the_rest_is_asked_again_or_polled_or_left(
    error: Exception | None, move: Move, resumable: bool | None
) -> None:
    resumer = fed(*STREAM[:3])
    resumer.reopened()
    assert resumer.disconnected(error) is move
    told = resumer.give_up(error)
    if resumable is None:
        assert told is error
    else:
        assert isinstance(told, StreamInterrupted)
        assert (told.cursor, told.resumable, told.__cause__) == (Cursor("resp_a", 2), resumable, error)
        assert str(told) == f"the stream broke off and could not be resumed: {error}"


def test_a_place_that_was_restored_is_known_before_anything_comes() -> None:
    held = Accumulator()
    held.restore(Cursor("resp_1", 5))
    assert (held.response_id, held.cursor, held.response) == ("resp_1", Cursor("resp_1", 5), None)
    last, terminal = chain.delta("x"), chain.terminal(id="")
    for event in chain.events(last | {"sequence_number": 6}, terminal | {"sequence_number": 7}):
        held.feed(event)
        assert held.cursor == Cursor("resp_1", event.sequence_number or 0)
    assert held.final_response is not None
    assert held.final_response.id == "resp_1"
    held.reset()
    assert (held.response_id, held.cursor) == (None, None)


def test_the_same_answers_mean_nothing_on_the_first_connection() -> None:
    for error in (status(404), SchemaViolation("expected a text, got a number")):
        resumer = fed(*hello()[:3])
        assert resumer.disconnected(error) is Move.END
        assert resumer.give_up(error) is error


def test_a_violation_in_the_middle_of_what_was_resumed_is_no_refusal() -> None:
    resumer = fed(*STREAM[:3])
    resumer.reopened()
    for event in resumer.feed(STREAM[3]):
        resumer.passed(event)
    violation = SchemaViolation("expected a text, got a number")
    assert resumer.disconnected(violation) is Move.END
    assert resumer.give_up(violation) is violation


def test_attempts_are_counted_since_the_last_progress() -> None:
    resumer = fed(*STREAM[:3], attempts=2)
    moves: list[Move] = []
    for events in ([], [], [STREAM[3]], [KeepaliveEvent()], STREAM[:2], []):
        moves.append(resumer.disconnected(LOST))
        resumer.reopened()
        for event in events:
            for passing in resumer.feed(event):
                resumer.passed(passing)
    # a keepalive is no progress, and neither is what was handed on before
    assert moves == [Move.REOPEN, Move.REOPEN, Move.END, Move.REOPEN, Move.REOPEN, Move.END]
    assert fed(*STREAM[:3], attempts=0).disconnected(LOST) is Move.END


def test_polling_counts_attempts_that_failed_in_a_row() -> None:
    running = Response(id="resp_a", status="in_progress")
    resumer = fed(*STREAM[:3], attempts=2)
    resumer.reopened()
    assert resumer.disconnected(status(404)) is Move.POLL
    for _ in range(3):
        assert [resumer.not_polled(LOST), resumer.not_polled(status(503))] == [Move.POLL, Move.POLL]
        assert resumer.polled(running) is Move.POLL
    assert [resumer.not_polled(LOST) for _ in range(3)] == [Move.POLL, Move.POLL, Move.END]


@pytest.mark.parametrize("error", [status(404), status(401), SchemaViolation("expected a, got b"), TypeError("no")])
def test_a_poll_that_is_refused_ends_it(error: Exception) -> None:
    resumer = fed(*STREAM[:3])
    resumer.reopened()
    assert resumer.disconnected(status(400)) is Move.POLL
    assert resumer.not_polled(error) is Move.END


def again(numbers: Sequence[Event], after: int = 3, profile: Profile = DEFAULT) -> list[Event]:
    reported: list[Violation] = []
    resumer = Resumer(judge=Judge(profile, reported.append))
    for event in STREAM[:after]:
        resumer.feed(event)
        resumer.passed(event)
    resumer.reopened()
    passed: list[Event] = []
    for event in numbers:
        for passing in resumer.feed(event):
            passed.append(passing)
            resumer.passed(passing)
    assert [violation.code for violation in reported] in ([], ["resume_gap"])
    return passed


@pytest.mark.parametrize("first", range(4))
def test_what_was_handed_on_is_dropped_when_the_server_ignores_the_cursor(first: int) -> None:
    assert again(STREAM[first:]) == STREAM[3:]


@pytest.mark.parametrize("after", range(1, len(STREAM)))
def test_a_keepalive_that_comes_first_hides_no_gap(after: int) -> None:
    keepalive = KeepaliveEvent()
    assert again([keepalive, *STREAM[after:]], after) == [keepalive, *STREAM[after:]]
    if after < len(STREAM) - 1:
        with pytest.raises(SequenceViolation) as caught:
            again([keepalive, *STREAM[after + 1 :]], after)
        (violation,) = caught.value.violations
        expected = f"expected sequence number {after} after resuming, got {after + 1}"
        assert (violation.code, violation.message) == ("resume_gap", expected)


def test_a_gap_after_what_was_dropped_is_one_too() -> None:
    with pytest.raises(SequenceViolation):
        again([*STREAM[:3], *STREAM[4:]])
    assert again(STREAM[4:], profile=DEFAULT.but(resume_gap="report")) == STREAM[4:]
    assert again(STREAM[4:], profile=QUIET) == STREAM[4:]
    with pytest.raises(SequenceViolation, match="got None"):
        again(UNNUMBERED)


def test_the_end_of_the_stream_is_held_back_until_it_is_the_last() -> None:
    resumer = Resumer()
    for event in STREAM[:3]:
        resumer.passed(*resumer.feed(event))
    assert list(resumer.feed(END)) == []
    assert list(resumer.end()) == [END]
    resumer.reopened()
    assert list(resumer.end()) == []


def test_a_cursor_is_a_place_to_begin_at() -> None:
    resumer = Resumer(cursor=Cursor("resp_a", 2))
    assert resumer.disconnected(LOST) is Move.REOPEN
    assert [list(resumer.feed(event)) for event in STREAM[1:4]] == [[], [], [STREAM[3]]]
    assert resumer.cursor == Cursor("resp_a", 2)  # it goes on when the event was handed on
    resumer.passed(STREAM[3])
    assert resumer.cursor == Cursor("resp_a", 3)
    with pytest.raises(SequenceViolation):
        Resumer(cursor=Cursor("resp_a", 2)).feed(STREAM[4])
    assert Resumer(cursor=Cursor("resp_a", 2)).disconnected(status(404)) is Move.POLL


def test_what_is_made_is_numbered_behind_the_cursor_even_without_a_snapshot() -> None:
    # and only the end is made, because nobody knows what was handed on
    (event,) = made(Resumer(cursor=Cursor("resp_a", 7)).polled(final_of(STREAM)))
    assert (event.sequence_number, event.is_synthetic) == (8, True)
    assert isinstance(event, TerminalEvent)


@pytest.mark.parametrize("state", ["queued", "in_progress", None, "later"])
def test_a_response_that_is_not_final_gives_nothing(state: str | None) -> None:
    assert isinstance(fed(*STREAM[:3]).polled(Response(id="resp_a", status=state)), Move)


def test_what_came_without_numbers_is_completed_without() -> None:
    rest = made(fed(*UNNUMBERED).polled(final_of(STREAM)))
    assert rest
    assert {event.sequence_number for event in rest} == {None}
    assert texts(rest) == texts(STREAM)


def test_a_stream_with_nothing_in_it_is_asked_about_once_each_time() -> None:
    resumer = fed(*STREAM[:3], attempts=2)
    assert resumer.disconnected(None) is Move.REOPEN  # the connection that created it said more than nothing
    resumer.reopened()
    assert resumer.disconnected(None) is Move.POLL
    assert resumer.polled(RUNNING) is Move.REOPEN
    resumer.reopened()
    assert resumer.disconnected(None) is Move.POLL
    assert resumer.not_polled(status(404)) is Move.END
    without = Resumer(2, polls=False, cursor=Cursor("resp_a", 2))
    assert [without.disconnected(None) for _ in range(3)] == [Move.REOPEN, Move.REOPEN, Move.END]


@pytest.mark.parametrize("snapshot", [True, False])
def test_only_what_is_known_to_be_missing_is_made(snapshot: bool) -> None:
    so_far = Accumulator(Judge(QUIET))
    for event in STREAM[:4]:
        so_far.feed(event)
    cursor = Cursor("resp_a", 3, so_far.response if snapshot else None)
    behind, again = Resumer(cursor=cursor), Resumer(cursor=cursor, rebuild=True)
    rest = made(behind.polled(final_of(STREAM)))
    assert len(rest) > 1 if snapshot else [event.sequence_number for event in rest] == [4]
    # while it rebuilds, the subscriber has heard less than what the cursor says it knows
    (end,) = made(again.polled(final_of(STREAM)))
    assert (type(end), end.sequence_number) == (type(STREAM[-1]), 4)


def test_a_stream_that_is_rebuilt_begins_again_until_it_has_begun() -> None:
    resumer = Resumer(cursor=Cursor("resp_a", 2), rebuild=True)
    for refusal, move in ((LOST, Move.REOPEN), (status(503), Move.REOPEN), (status(400), Move.POLL)):
        assert resumer.disconnected(refusal) is move
        assert resumer.cursor is None
        resumer.reopened()
    resumer = Resumer(cursor=Cursor("resp_a", 2), rebuild=True)
    for event in STREAM[:2]:
        resumer.passed(*resumer.feed(event))
    assert (resumer.disconnected(LOST), resumer.cursor) == (Move.REOPEN, Cursor("resp_a", 1))
    for event in STREAM[2:5]:
        resumer.passed(*resumer.feed(event))
    assert texts([*STREAM[:5], *made(resumer.polled(final_of(STREAM)))]) == texts(STREAM)


@pytest.mark.parametrize("ahead", [len(STREAM), 999])
def test_a_cursor_ahead_of_the_stream_is_an_error(ahead: int) -> None:
    cursor = Cursor("resp_a", ahead)
    for step in (Resumer(cursor=cursor), Behind(cursor)):
        assert [list(step.feed(event)) for event in STREAM[:-1]] == [[]] * (len(STREAM) - 1)
        with pytest.raises(
            SequenceViolation, match=f"at most {len(STREAM) - 1}, the last event, got {ahead}"
        ) as caught:
            step.feed(STREAM[-1])
        assert caught.value.violations[-1].code == "cursor_ahead"


def test_who_knows_everything_hears_the_end_again() -> None:
    cursor = Cursor("resp_a", len(STREAM) - 1)
    for step in (Resumer(cursor=cursor), Behind(cursor)):
        assert [event for each in STREAM for event in step.feed(each)] == [STREAM[-1]]


def test_a_stream_of_another_response_behind_a_cursor_is_told() -> None:
    reported: list[Violation] = []
    resumer = Resumer(cursor=Cursor("resp_b", 2), judge=Judge(DEFAULT, reported.append))
    for event in STREAM:
        for passing in resumer.feed(event):
            resumer.passed(passing)
    assert {violation.code for violation in reported} == {"response_id_changed"}
    assert reported[0].message == "expected response 'resp_b', got 'resp_a'"


def test_an_interruption_before_the_cursor_keeps_the_cursor() -> None:
    behind = Behind(Cursor("resp_a", 7))
    for found, kept in ((Cursor("resp_a", 3), 7), (None, 7), (Cursor("resp_a", 9), 9)):
        error = StreamInterrupted("expected more, got nothing", cursor=found, resumable=True)
        with pytest.raises(StreamInterrupted):
            behind.fail(error)
        assert error.cursor == Cursor("resp_a", kept)


def test_a_response_that_stays_queued_is_given_up() -> None:
    resumer = Resumer(cursor=Cursor("resp_a", 2), max_queued=10)
    assert resumer.disconnected(status(400)) is Move.POLL
    answers = [(QUEUED, 100), (QUEUED, 109), (RUNNING, 110), (QUEUED, 120), (QUEUED, 129.9), (RUNNING, 900)]
    assert [resumer.polled(response, now) for response, now in answers] == [Move.POLL] * len(answers)
    resumer.polled(QUEUED, 1_000)
    with pytest.raises(StreamTimeout) as caught:
        resumer.polled(QUEUED, 1_010)
    assert (caught.value.clock, caught.value.seconds) == ("progress", 10)


# completion


def texts(events: Sequence[Event]) -> dict[tuple[object, ...], str]:
    """Join the deltas, for each text that grows and that a whole response tells as it was streamed."""
    joined: dict[tuple[object, ...], str] = {}
    for event in events:
        channel = DELTA_CHANNELS.get(type(event))
        if channel is not None and channel.compared and isinstance(event, DeltaEvent):
            number = getattr(event, channel.index) if channel.index else 0
            key = (channel.name, getattr(event, "output_index"), number)  # noqa: B009
            joined[key] = joined.get(key, "") + str(event.delta)
    return joined


def checked(events: Sequence[Event]) -> Response:
    """Run events through the strict chain, and expect no violation."""
    ran = chain.run([*events, END], TELLING)
    assert (ran.error, ran.codes) == (None, [])
    return ran.final


def test_the_streams_have_every_text_that_a_response_tells() -> None:
    grown = {key[0] for stream in STREAMS.values() for key in texts(stream)}
    assert grown == {channel.name for channel in CHANNELS if channel.items and channel.compared}


@pytest.mark.parametrize(("name", "cut"), [(name, 0) for name in STREAMS] + CUTS)
def test_what_is_missing_completes_what_was_streamed(name: str, cut: int) -> None:
    stream = STREAMS[name]
    so_far = Accumulator(Judge(QUIET))
    for event in stream[:cut]:
        so_far.feed(event)
    made = list(completion(so_far, final_of(stream)))
    assert texts([*stream[:cut], *made]) == texts(stream)
    assert all(event.is_synthetic for event in made)
    assert [event.sequence_number for event in made] == list(range(cut, cut + len(made)))
    if cut:
        assert checked([*stream[:cut], *made]) == final_of(stream)


@pytest.mark.parametrize(("name", "cut"), CUTS)
def test_what_is_missing_is_known_from_a_snapshot_too(name: str, cut: int) -> None:
    stream = STREAMS[name]
    before, after = Accumulator(Judge(QUIET)), Accumulator(Judge(QUIET))
    for event in stream[:cut]:
        before.feed(event)
    after.restore(Cursor(final_of(stream).id, cut - 1, before.response))
    made = list(completion(after, final_of(stream)))
    assert texts([*stream[:cut], *made]) == texts(stream)
    assert made[0].sequence_number == cut


def test_a_text_that_does_not_begin_with_what_was_streamed_is_only_told_as_a_whole() -> None:
    so_far = Accumulator(Judge(QUIET))
    for event in STREAM[:4]:
        so_far.feed(event)
    response = Response.model_validate({"id": "resp_a", "status": "completed", "output": [chain.message("Bye")]})
    made = completion(so_far, response)
    assert [event.type for event in made] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


COMMAND: chain.Payload = {"type": "response.shell_call_command.added", "output_index": 0, "command_index": 0}
SHELL = chain.item("shell_call", "sh_a", call_id="call_a", action={"commands": [""]})
STRANGE: chain.Payload = {"type": "x:part", "x": 1}

BEGUN: dict[str, tuple[list[chain.Payload], chain.Payload]] = {
    "a part": ([chain.added(), chain.part_added()], chain.message("")),
    "a text": ([chain.added(), chain.part_added(), chain.text_done("")], chain.message("")),
    "a part that is done": (
        [chain.added(), chain.part_added(), chain.text_done(""), chain.part_done(chain.output_text())],
        chain.message(""),
    ),
    "a part that nobody knows": (
        [chain.added(), chain.part_added(STRANGE)],
        chain.message() | {"status": "completed", "content": [STRANGE]},
    ),
    "a command": ([chain.added(SHELL | {"action": {"commands": []}}), COMMAND | {"command": ""}], SHELL),
    "nothing": ([chain.added()], chain.message("")),
}


@pytest.mark.parametrize("what", BEGUN)
def test_what_was_begun_is_ended_even_if_it_is_empty(what: str) -> None:
    begun, item = BEGUN[what]
    stream, made = completed(begun, item)
    checked([*stream, *made])
    assert not [event for event in made if isinstance(event, DeltaEvent)]


UNTOLD: Sequence[tuple[list[chain.Payload], chain.Payload]] = [
    ([chain.added(), chain.part_added(), chain.delta("Hel")], chain.message()),
    ([chain.added(), chain.part_added(), chain.delta("Hel")], chain.message("")),
    ([chain.added(), chain.part_added(), chain.delta("Hello"), chain.text_done()], chain.message("")),
    ([chain.added(chain.call()), chain.arguments_delta("{")], chain.call()),
]


@pytest.mark.parametrize(("begun", "item"), UNTOLD)
def test_what_the_response_does_not_tell_is_ended_with_what_was_streamed(
    begun: list[chain.Payload], item: chain.Payload
) -> None:
    stream, made = completed(begun, item)
    ran = chain.run([*stream, *made, END])
    # the server contradicts itself, which is told where it does
    assert ran.error is None
    assert set(ran.codes) <= {"done_mismatch", "terminal_mismatch"}
    assert {violation.event_type for violation in ran.reported} <= {"response.output_item.done", "response.completed"}


def completed(begun: list[chain.Payload], item: chain.Payload) -> tuple[list[Event], Sequence[Event]]:
    """Begin an item, and complete it from a response that has it as it is at the end."""
    stream = chain.events(chain.created(background=True), *begun)
    response = Response.model_validate({"id": "resp_a", "status": "completed", "output": [item]})
    so_far = Accumulator(Judge(QUIET))
    for event in stream:
        so_far.feed(event)
    return stream, completion(so_far, response)


@pytest.mark.parametrize("state", sorted(FINAL))
def test_every_final_status_has_a_terminal(state: str) -> None:
    response = Response(id="resp_a", status=state)
    (made,) = completion(Accumulator(), response)
    assert isinstance(made, TerminalEvent)
    assert made.response == response
    assert made.is_synthetic
    assert isinstance(made, ResponseIncompleteEvent) == (state in ("cancelled", "incomplete"))


@pytest.mark.parametrize("cut", range(1, len(STREAM)))
@pytest.mark.parametrize("told", [True, False], ids=["with its output", "without"])
def test_a_response_that_was_cancelled_keeps_its_text_and_its_status(cut: int, told: bool) -> None:
    so_far = Accumulator(Judge(QUIET))
    for event in STREAM[:cut]:
        so_far.feed(event)
    output = [chain.message("Hello")] if told else []
    response = Response.model_validate({"id": "resp_a", "status": "cancelled", "output": output})
    made = completion(so_far, response)
    ran = chain.run([*STREAM[:cut], *made, END], QUIET)
    assert ran.error is None
    assert ran.final.status == "cancelled"
    assert isinstance(ran.events[-1], ResponseIncompleteEvent)
    if told:
        assert texts(ran.events) == texts(STREAM)
    else:
        assert [event.type for event in made] == ["response.incomplete"]


# the operator, in virtual time


@dataclass(frozen=True)
class Way:
    """How a connection goes.

    Attributes:
        events: How many events it brings, at most.
        error: What it ends with.
        repeats: How many events it repeats.
        skips: How many events it leaves out.
    """

    events: int = 999
    error: Exception | None = None
    repeats: int = 0
    skips: int = 0


@dataclass
class Server:
    """A server in virtual time: an event a second, and a way for each connection; the last one serves all that follow.

    Attributes:
        polls: What a poll gives, one after the other; the last one again and again.
        asked: When it was asked for the rest, and behind which number.
        polled: When it was polled.
        open: How many connections are open.
    """

    stream: Sequence[Event]
    ways: Sequence[Way]
    polls: Sequence[Response | Exception] = ()
    clock: TestScheduler = field(default_factory=TestScheduler)
    asked: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    polled: list[float] = field(default_factory=list[float])
    open: int = 0
    served: int = 0

    def events(self, **options: Any) -> Observable[Event]:
        """Get the stream, resumed."""
        return self.connect(-1).pipe(ops.resume_on_disconnect(self.reopen, poll=self.poll, **options))

    def reopen(self, cursor: Cursor) -> Observable[Event]:
        assert cursor.response_id == final_of(self.stream).id
        self.asked.append((self.now, cursor.sequence_number))
        return self.connect(cursor.sequence_number)

    def poll(self, response_id: str) -> Observable[Response]:
        assert response_id == final_of(self.stream).id
        answer = self.polls[min(len(self.polled), len(self.polls) - 1)]
        self.polled.append(self.now)
        return self._connection([], answer) if isinstance(answer, Exception) else self._connection([answer], None)

    @property
    def now(self) -> float:
        return float(self.clock.clock)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]

    def connect(self, last: int) -> Observable[Event]:
        def make(_: abc.SchedulerBase) -> Observable[Event]:
            way = self.ways[min(self.served, len(self.ways) - 1)]
            self.served += 1
            first = max(0, last + 1 - way.repeats) + way.skips
            return self._connection(self.stream[first:][: way.events], way.error)

        return reactivex.defer(make)

    def _connection(self, elements: Sequence[Any], error: Exception | None) -> Observable[Any]:
        def subscribe(observer: abc.ObserverBase[Any], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            assert self.open == 0, "two connections at once"
            self.open += 1
            closed: list[None] = []

            def close() -> None:
                if not closed:
                    closed.append(None)
                    self.open -= 1

            def end() -> None:
                close()
                observer.on_completed() if error is None else observer.on_error(error)

            timers = [
                at(self.clock, second, partial(observer.on_next, element))
                for second, element in enumerate(elements, start=1)
            ]
            return CompositeDisposable(*timers, at(self.clock, len(elements) + 1, end), Disposable(close))

        return Observable(subscribe)


def listen(server: Server, profile: Profile = DEFAULT, **options: Any) -> tuple[Listener[Event], list[str]]:
    """Run the chain to its end, and get what came and what was reported."""
    reported: list[Violation] = []
    told: dict[str, Any] = {"profile": profile, "on_violation": reported.append}
    chained = server.events(**told, **options).pipe(
        ops.sequence_check(**told), ops.lifecycle_guard(**told), ops.accumulate(**told)
    )
    listener = Listener(chained, scheduler=server.clock)
    server.clock.start()
    assert server.open == 0
    return listener, [violation.code for violation in reported]


def interruption(listener: Listener[Event]) -> StreamInterrupted:
    (error,) = listener.ends
    assert isinstance(error, StreamInterrupted)
    return error


@pytest.mark.parametrize("error", [LOST, None], ids=["lost", "ended"])
@pytest.mark.parametrize(("name", "cut"), CUTS)
def test_a_cut_anywhere_changes_nothing(name: str, cut: int, error: Exception | None) -> None:
    server = Server(STREAMS[name], [Way(cut, error), Way()])
    listener, codes = listen(server, TELLING)
    assert (listener.heard, listener.ends, codes) == (STREAMS[name], [None], [])
    assert server.asked == [(cut + 1 + 0.5, cut - 1)]


@pytest.mark.parametrize("repeats", [0, 1, 999])
def test_a_cut_after_every_event_changes_nothing(repeats: int) -> None:
    for name, stream in STREAMS.items():
        ways = [Way(number + 1 if repeats == 999 else 1 + min(number, repeats), LOST, repeats) for number in range(999)]
        server = Server(stream, ways)
        listener, codes = listen(server, attempts=1)
        assert (listener.heard, listener.ends, codes) == (stream, [None], []), name
        assert [number for _, number in server.asked] == list(range(len(stream) - 1))


def test_a_cut_before_any_event_is_not_resumed() -> None:
    server = Server(STREAM, [Way(0, LOST), Way()])
    listener, _ = listen(server)
    assert (listener.heard, listener.ends, server.asked) == ([], [LOST], [])


def test_a_foreground_stream_ends_as_it_did() -> None:
    stream = hello()
    server = Server(stream, [Way(3, LOST), Way()])
    listener, _ = listen(server)
    error = interruption(listener)
    assert (listener.heard, server.asked) == (stream[:3], [])
    assert (error.cursor, error.resumable, error.__cause__) == (Cursor("resp_a", 2), False, LOST)


def test_a_terminal_that_was_seen_is_the_end_however_the_connection_ends() -> None:
    server = Server(STREAM, [Way(error=LOST)])
    listener, _ = listen(server)
    assert (listener.heard, listener.ends, server.asked) == (STREAM, [None], [])


def test_the_wait_doubles_up_to_the_longest() -> None:
    server = Server(STREAM, [Way(3, LOST), Way(0, LOST)])
    listen(server, attempts=6, wait=1, longest_wait=5)
    times = [4.0, *(time for time, _ in server.asked)]
    # a connection that brings nothing ends after a second
    waits = [later - earlier for earlier, later in pairwise(times)]
    assert waits == [1, 1 + 2, 1 + 4, 1 + 5, 1 + 5, 1 + 5]


@pytest.mark.parametrize(("error", "cause"), [(LOST, LOST), (None, None), (status(503), ...)])
def test_when_attempts_run_out_the_stream_is_interrupted_and_says_where(error: Exception | None, cause: Any) -> None:
    server = Server(STREAM, [Way(3, LOST), Way(0, error)], [RUNNING])
    listener, _ = listen(server, attempts=3)
    interrupted = interruption(listener)
    assert (interrupted.cursor, interrupted.resumable) == (Cursor("resp_a", 2), True)
    assert cause is ... or interrupted.__cause__ is cause
    assert [number for _, number in server.asked] == [2, 2, 2]
    assert listener.heard == STREAM[:3]


def test_a_gap_is_the_error_of_the_stream_and_the_connection_is_closed() -> None:
    server = Server(STREAM, [Way(3, LOST), Way(skips=1)])
    listener, _ = listen(server)
    (error,) = listener.ends
    assert isinstance(error, SequenceViolation)
    assert [violation.code for violation in error.violations] == ["resume_gap"]
    assert listener.heard == STREAM[:3]


def test_dispose_at_any_time_ends_the_connection_and_the_timer() -> None:
    running = Response(id="resp_a", status="in_progress")
    ways = [Way(2, LOST), Way(1, LOST, repeats=1), Way(0, LOST), Way(2), Way(0, status(404))]
    whole = Server(STREAM, ways, [running, LOST, final_of(STREAM)])
    assert listen(whole)[0].ends == [None]
    for tick in range(int(whole.now * 4) + 1):
        server = Server(STREAM, ways, [running, LOST, final_of(STREAM)])
        listener = Listener(server.events(), scheduler=server.clock)
        server.clock.advance_to(tick / 4)
        listener.leave()
        assert server.open == 0, tick
        before = (list(listener.heard), list(server.asked), list(server.polled), list(listener.ends))
        server.clock.start()
        assert (listener.heard, server.asked, server.polled, listener.ends) == before
        assert server.open == 0


def test_dispose_in_the_middle_of_what_was_made_ends_it() -> None:
    server = Server(STREAM, [Way(3, LOST), Way(0, status(404))], [final_of(STREAM)])
    listener = Listener[Event](act=lambda event: listener.leave() if event.is_synthetic else None)
    listener.join(server.events(), server.clock)
    server.clock.start()
    assert [event.is_synthetic for event in listener.heard] == [False, False, False, True]
    assert (listener.ends, server.open) == ([], 0)


# polling


@pytest.mark.parametrize("profile", [DEFAULT, TELLING], ids=lambda profile: profile.name)
@pytest.mark.parametrize(("name", "cut"), CUTS)
def test_a_server_that_refuses_is_polled_and_nothing_is_missing(name: str, cut: int, profile: Profile) -> None:
    stream = STREAMS[name]
    server = Server(stream, [Way(cut, LOST), Way(0, status(400))], [final_of(stream)])
    listener, codes = listen(server, profile)
    assert (listener.ends, codes) == ([None], [])
    assert listener.heard[:cut] == stream[:cut]
    assert all(event.is_synthetic for event in listener.heard[cut:])
    assert texts(listener.heard) == texts(stream)
    assert final_of(listener.heard) == final_of(stream)


def test_a_response_that_runs_is_asked_for_again_after_longer_waits() -> None:
    running = Response(id="resp_a", status="in_progress")
    server = Server(STREAM, [Way(3, LOST), Way(0, status(400))], [running, running, LOST, running, final_of(STREAM)])
    listener, _ = listen(server, wait=1, longest_wait=4)
    assert listener.ends == [None]
    # refused at 6; an answer takes two seconds, or one where there is none; its first element comes after one
    assert server.polled == [7, 7 + 1 + 2, 10 + 1 + 4, 15 + 1 + 4, 20 + 1 + 4]


def test_a_response_may_run_for_days() -> None:
    running = Response(id="resp_a", status="in_progress")
    polls = [*[running] * 1200, final_of(STREAM)]
    for wait in (0, 0.5):
        server = Server(STREAM, [Way(3, LOST), Way(0, status(400))], polls)
        assert listen(server, wait=wait)[0].ends == [None]


@pytest.mark.parametrize("refusal", [status(404), status(401), SchemaViolation("expected JSON, got text")])
def test_a_poll_that_is_refused_interrupts_the_stream(refusal: Exception) -> None:
    server = Server(STREAM, [Way(3, LOST), Way(0, status(400))], [refusal])
    error = interruption(listen(server)[0])
    assert (error.cursor, error.resumable, error.__cause__) == (Cursor("resp_a", 2), False, refusal)
    assert len(server.polled) == 1


def test_without_a_poll_a_refusal_interrupts_the_stream() -> None:
    server = Server(STREAM, [Way(3, LOST), Way(0, status(404))])
    listener = Listener(server.connect(-1).pipe(ops.resume_on_disconnect(server.reopen)), scheduler=server.clock)
    server.clock.start()
    error = interruption(listener)
    assert (error.cursor, error.resumable) == (Cursor("resp_a", 2), False)


def test_a_poll_that_gives_nothing_ends_the_stream() -> None:
    server = Server(STREAM, [Way(3, LOST), Way(0, status(404))])
    resuming = ops.resume_on_disconnect(server.reopen, poll=lambda _: reactivex.empty())
    listener = Listener(server.connect(-1).pipe(resuming), scheduler=server.clock)
    server.clock.start()
    assert len(listener.ends) == 1
    assert isinstance(listener.ends[0], Exception)


def test_unauthorized_is_not_polled() -> None:
    server = Server(STREAM, [Way(3, LOST), Way(0, status(401))], [final_of(STREAM)])
    error = interruption(listen(server)[0])
    assert (error.resumable, server.polled) == (False, [])


@pytest.mark.parametrize(("name", "cut"), CUTS)
def test_a_response_that_was_cancelled_elsewhere_ends_with_what_there_is(name: str, cut: int) -> None:
    stream = STREAMS[name]
    cancelled = final_of(stream).model_copy(update={"status": "cancelled", "output": []})
    server = Server(stream, [Way(cut, None), Way(0, None)], [cancelled])
    listener, _ = listen(server)
    assert (listener.heard[:cut], listener.ends) == (stream[:cut], [None])
    assert (len(server.asked), len(server.polled)) == (1, 1)
    assert isinstance(listener.heard[-1], ResponseIncompleteEvent)
    assert listener.heard[-1].response.status == "cancelled"


def test_a_response_that_runs_on_is_streamed_on_after_an_empty_stream() -> None:
    server = Server(STREAM, [Way(3, None), Way(0, None), Way(2, None), Way(0, None), Way()], [RUNNING])
    listener, codes = listen(server, TELLING, attempts=2)
    assert (listener.heard, listener.ends, codes) == (STREAM, [None], [])
    assert ([number for _, number in server.asked], len(server.polled)) == ([2, 2, 4, 4], 2)


def test_a_response_that_stays_queued_is_an_error_in_the_end() -> None:
    server = Server(STREAM, [Way(1, LOST), Way(0, status(400))], [QUEUED])
    listener, _ = listen(server, max_queued=60)
    error = interruption(listener)
    assert isinstance(error.__cause__, StreamTimeout)
    assert (error.cursor, error.resumable) == (Cursor("resp_a", 0), True)
    assert 60 <= server.polled[-1] - server.polled[0] < 75


def test_a_listener_hears_of_every_attempt() -> None:
    heard: list[Attempt] = []
    refusal = status(400)
    server = Server(STREAM, [Way(3, LOST), Way(0, LOST), Way(0, refusal)], [RUNNING, LOST, final_of(STREAM)])
    listen(server, on_attempt=heard.append)
    assert heard == [
        Attempt("resume", 1, 0.5, LOST),
        Attempt("resume", 2, 1.0, LOST),
        Attempt("poll", 1, 0.5, refusal),
        Attempt("poll", 2, 1.0, None),
        Attempt("poll", 3, 2.0, LOST),
    ]


# options and edges


@pytest.mark.parametrize("name", ["attempts", "wait", "longest_wait", "max_queued"])
@pytest.mark.parametrize("value", [-1, float("nan")])
def test_a_negative_number_is_refused(name: str, value: float) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(ValueError, match=f"^expected {name} of at least 0, got {value}$"):
        ops.resume_on_disconnect(lambda _: reactivex.empty(), **options)


@pytest.mark.parametrize("polls", [False, True])
def test_what_reopen_or_poll_raise_is_the_error_of_the_stream(polls: bool) -> None:
    trouble = TypeError("of the caller")

    def raising(_: object) -> Observable[Any]:
        raise trouble

    server = Server(STREAM, [Way(3, LOST), Way(0, status(404))])
    resuming = ops.resume_on_disconnect(server.reopen if polls else raising, poll=raising)
    listener = Listener(server.connect(-1).pipe(resuming), scheduler=server.clock)
    server.clock.start()
    assert (listener.heard, listener.ends) == (STREAM[:3], [trouble])


def test_a_connection_that_ends_while_it_is_subscribed_to_does_not_end_the_next() -> None:
    rest = Source[Event]()
    lost = at_once(STREAM[:3], LOST)
    resuming = ops.resume_on_disconnect(lambda _: rest.observable, wait=0, scheduler=ImmediateScheduler())
    listener = Listener(lost.pipe(resuming))
    assert (rest.subscribed, rest.disposed) == (1, 0)
    rest.push(*STREAM[3:])
    rest.complete()
    assert (listener.heard, listener.ends) == (STREAM, [None])


def test_a_stream_may_begin_at_a_cursor() -> None:
    for cut in range(1, len(STREAM)):
        server = Server(STREAM, [Way(0, LOST), Way(1, None), Way()])
        resuming = ops.resume_on_disconnect(server.reopen, cursor=Cursor("resp_a", cut - 1))
        listener = Listener(server.connect(cut - 1).pipe(resuming), scheduler=server.clock)
        server.clock.start()
        assert (listener.heard, listener.ends) == (STREAM[cut:], [None])


def test_the_picture_in_the_docstring_is_what_happens() -> None:
    source, rest, result = "---1---2---#", "--2---3---4---|", "---1---2-----------3---4---|"
    values = dict(zip("1234", [*STREAM[:3], STREAM[3].model_copy()], strict=True))
    resuming = ops.resume_on_disconnect(lambda _: cold(rest, values), wait=2, scheduler=None)
    values["4"] = STREAM[-1].model_copy(update={"sequence_number": 3})
    assert draw(resuming, source, values, error=LOST) == result
    doc = inspect.getdoc(ops.resume_on_disconnect) or ""
    rows = [line.strip() for line in doc.splitlines()]
    assert {f"{source}{'-' * 20}", result} <= set(rows)
    assert re.search(rf"reopen: {re.escape(rest)}; wait: 2 columns", doc)


# any course of things

ERRORS: Sequence[Callable[[], Exception | None]] = [
    lambda: ConnectionLost("expected more, got nothing"),
    lambda: None,
    lambda: StreamTimeout("idle", 1),
    *(partial(status, code) for code in (400, 401, 404, 429, 503)),
    lambda: FrameDecodeError("expected JSON, got text"),
]


@st.composite
def ways(draw: st.DrawFn) -> Way:
    error = draw(st.sampled_from(ERRORS))()
    events = 0 if isinstance(error, StatusError) else draw(st.integers(0, 12))
    return Way(events, error, draw(st.integers(0, 12)), draw(st.sampled_from([0, 0, 0, 0, 1, 2])))


def answers() -> Iterator[Response | Exception]:
    yield from (final_of(STREAM), Response(id="resp_a", status="in_progress"))
    yield from (LOST, status(404), status(503))


@given(
    st.lists(ways(), min_size=1, max_size=12),
    st.lists(st.sampled_from(list(answers())), max_size=5),
    st.integers(0, 4),
    st.sampled_from([final_of(STREAM), status(404)]),
)
@settings(deadline=None)
def test_whatever_happens_the_output_is_a_prefix_and_then_the_end_or_one_error(
    courses: list[Way], polls: list[Response | Exception], attempts: int, last: Response | Exception
) -> None:
    # the first connection begins at the beginning; a gap in it is the affair of the sequence check
    first = Way(courses[0].events, courses[0].error)
    server = Server(STREAM, [first, *courses[1:]], [*polls, last])
    listener, codes = listen(server, attempts=attempts)
    assert codes in ([], ["event_after_terminal"])  # the latter where what is wrong came behind the terminal
    streamed = [event for event in listener.heard if not event.is_synthetic]
    assert streamed == STREAM[: len(streamed)]
    made = listener.heard[len(streamed) :]
    assert all(event.is_synthetic for event in made)
    assert [event.sequence_number for event in listener.heard] == list(range(len(listener.heard)))
    (end,) = listener.ends
    if end is None:
        assert isinstance(listener.heard[-1], TerminalEvent)
        assert texts(listener.heard) == texts(STREAM)
    else:
        assert isinstance(end, OrxError)
        assert not made
        if isinstance(end, TransportError):
            assert not streamed
