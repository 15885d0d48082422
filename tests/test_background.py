"""Responses in the background, read with the client: resumed, retrieved, cancelled, polled, and given up clearly."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from reactivex import Observable

from orx_rx import (
    DEFAULT,
    STRICT,
    Accumulator,
    Attempt,
    BadRequest,
    Client,
    ConnectionLost,
    Cursor,
    NotFound,
    OrxError,
    Profile,
    SequenceViolation,
    StreamInterrupted,
    Unauthorized,
    Violation,
    final_response,
    iterate,
)
from orx_rx import operators as ops
from orx_rx.http.retry import Retry
from orx_rx.models import Event, Response, TerminalEvent, to_wire
from orx_rx.simulator import Fault, FaultPlan, Simulator
from tests.servers import (
    Ear,
    listening,
    other_tasks,
    turns,
    until,
)
from tests.servers import (
    clean_environment as clean_environment,
)
from tests.test_chaos import EVENTS, unbroken

pytestmark = pytest.mark.usefixtures("clean_environment")

AT_ONCE = Retry(first=0, most=0)
ALL = "everything"
GONE = Fault("status", method="GET", status=500)  # no GET is answered


@asynccontextmanager
async def running(*faults: Fault, **options: Any) -> AsyncGenerator[tuple[Simulator, Client]]:
    """Run a simulator and a client of it, and check that both leave nothing."""
    before = other_tasks()
    async with Simulator(faults=faults, **options) as simulator:
        async with client_of(simulator) as client:
            yield simulator, client
        await simulator.wait_for(lambda s: s.connections == 0)
        assert [task for task in other_tasks() if task.get_name().startswith("orx_rx")] == []
    await until(lambda: other_tasks() <= before)


def client_of(simulator: Simulator) -> Client:
    return Client(base_url=simulator.base_url, retry=AT_ONCE)


def begin(client: Client, model: str = ALL, **options: Any) -> Observable[Event]:
    return client.events(model=model, input="x", background=True, **options)


async def read(events: Observable[Event]) -> tuple[list[Event], Exception | None]:
    """Read events to their end, and say how they ended."""
    got: list[Event] = []
    try:
        async with iterate(events) as reading:
            async for event in reading:
                got.append(event)
    except OrxError as error:
        return got, error
    return got, None


async def interrupted(events: Observable[Event]) -> tuple[list[Event], StreamInterrupted]:
    got, error = await read(events)
    assert isinstance(error, StreamInterrupted), error
    return got, error


def asked(simulator: Simulator) -> list[str]:
    """List what was asked for: `POST`, `stream` or `whole`."""
    named = {True: "stream", False: "whole"}
    return [r.method if r.method == "POST" else named[r.wants_stream] for r in simulator.requests]


def posts(simulator: Simulator) -> list[str]:
    return [request.path for request in simulator.requests if request.method == "POST"]


def wires(events: list[Event]) -> list[Any]:
    return [to_wire(event) for event in events]


def cursor_of(error: StreamInterrupted) -> Cursor:
    assert error.cursor is not None
    return error.cursor


async def broken_off(client: Client, simulator: Simulator, after: int, model: str = ALL) -> tuple[list[Any], Cursor]:
    """Begin a response whose stream breaks and cannot be resumed for now; the server is well afterwards."""
    simulator.faults = FaultPlan((Fault("cut", method="POST", after_events=after), GONE))
    got, error = await interrupted(begin(client, model))
    simulator.faults = FaultPlan()
    simulator.requests.clear()
    return wires(got), cursor_of(error)


def told_apart(events: list[Event]) -> list[bool]:
    """Say which events were made by the library, in runs."""
    made = [event.is_synthetic for event in events]
    return [value for number, value in enumerate(made) if number == 0 or made[number - 1] != value]


# resuming by itself


@pytest.mark.parametrize("cut", [{"after_events": 1}, {"after_events": 40}, {"after_bytes": 9_999}])
@pytest.mark.parametrize("kind", ["fin", "rst", "eof"])
async def test_a_background_stream_survives_its_connection(kind: str, cut: dict[str, int]) -> None:
    async with running(Fault("cut", connection=0, kind=kind, **cut)) as (simulator, client):  # type: ignore[arg-type]
        got, error = await read(begin(client))
        assert error is None
        assert wires(got) == unbroken(ALL)
        assert asked(simulator) == ["POST", "stream"]
        assert simulator.overlaps == 0


async def test_a_request_that_resumes_asks_behind_the_last_event() -> None:
    async with running(Fault("cut", connection=0, after_events=40)) as (simulator, client):
        await read(begin(client))
        assert simulator.requests[1].query == {"stream": "true", "starting_after": "39"}


async def test_a_stream_that_says_nothing_of_its_response_cannot_be_resumed() -> None:
    async with running(Fault("cut", connection=0, after_events=0)) as (simulator, client):
        got, error = await read(begin(client))
        assert isinstance(error, ConnectionLost)
        assert (got, asked(simulator)) == ([], ["POST"])


async def test_a_run_is_followed_while_it_goes_on() -> None:
    async with running(Fault("cut", connection=0, after_events=20), hold=30) as (simulator, client):
        ear = await Ear(begin(client)).heard(30)
        assert simulator.status_of("resp_0001") == "in_progress"
        simulator.release()
        assert (await ear.ended()).completed
        assert wires(ear.elements) == unbroken(ALL)


async def test_snapshots_are_whole_across_connections() -> None:
    into = Accumulator()
    async with running(Fault("cut", after_events=9)) as (_, client):
        response = await final_response(begin(client, into=into))
    assert to_wire(response) == unbroken(ALL)[-1]["response"]
    assert into.response is not None
    assert to_wire(into.response) == unbroken(ALL)[-1]["response"]


async def test_a_server_that_stays_away_is_given_up_with_a_cursor() -> None:
    async with running(Fault("cut", method="POST", after_events=30), GONE) as (simulator, client):
        got, error = await interrupted(begin(client))
        assert wires(got) == unbroken(ALL)[: len(got)]
        assert cursor_of(error).sequence_number == len(got) - 1
        assert error.resumable
        assert error.snapshot is not None
        assert asked(simulator) == ["POST", *["stream"] * 5]


async def test_closing_the_client_ends_a_stream_instead_of_resuming_it() -> None:
    async with running(Fault("stall", connection=0, after_events=20)) as (simulator, client):
        ear = await Ear(begin(client)).heard(19)
        await client.aclose()
        assert isinstance(ear.error, StreamInterrupted)
        assert ear.error.cursor is not None
        await turns()
        assert asked(simulator) == ["POST"]
        simulator.release()


async def test_closing_the_client_ends_a_wait_before_resuming() -> None:
    async with running(Fault("cut", connection=0, after_events=20)) as (simulator, _):
        client = Client(base_url=simulator.base_url, retry=Retry(first=1_000, most=1_000))
        ear = await Ear(begin(client)).heard(19)
        await simulator.wait_for(lambda s: s.connections == 0)
        await turns()
        await client.aclose()
        assert isinstance(ear.error, StreamInterrupted)
        assert asked(simulator) == ["POST"]


async def test_leaving_ends_a_resumed_stream() -> None:
    async with running(Fault("cut", connection=0, after_events=20), hold=30) as (simulator, client):
        ear = await Ear(begin(client)).heard(29)
        ear.subscription.dispose()
        await simulator.wait_for(lambda s: s.open_streams == 0)
        simulator.release()
        await turns()
        assert not ear.has_ended
        assert asked(simulator) == ["POST", "stream"]


# what servers do instead of going on


@pytest.mark.parametrize("after", [1, 2, 5, 30, 60, 99])
@pytest.mark.parametrize("fault", [Fault("expired", connection=1), Fault("json", connection=1)], ids=lambda f: f.name)
async def test_a_response_that_is_not_streamed_any_more_is_polled(fault: Fault, after: int) -> None:
    async with running(Fault("cut", connection=0, after_events=after, kind="eof"), fault) as (simulator, client):
        got, error = await read(begin(client))
        assert error is None
        assert wires(got)[:after] == unbroken(ALL)[:after]
        assert told_apart(got) == [False, True]
        assert isinstance(got[-1], TerminalEvent)
        assert to_wire(got[-1].response) == unbroken(ALL)[-1]["response"]
        assert asked(simulator).count("POST") == 1
        assert asked(simulator)[1:3] == ["stream", "whole"]
    numbers = [event.sequence_number for event in got]
    assert all(b == a + 1 for a, b in pairwise(number for number in numbers if number is not None))


async def test_a_response_that_expires_while_it_runs_is_polled_until_it_is_final() -> None:
    async with running(Fault("cut", connection=0, after_events=20), hold=30) as (simulator, client):
        ear = Ear(begin(client), _at(10, lambda: simulator.expire("resp_0001")))
        await simulator.wait_for(lambda s: asked(s).count("whole") >= 3)
        assert simulator.status_of("resp_0001") == "in_progress"
        assert not ear.has_ended
        simulator.release()
        assert (await ear.ended()).completed
        assert asked(simulator)[:3] == ["POST", "stream", "whole"]
    assert isinstance(ear.elements[-1], TerminalEvent)
    assert ear.elements[-1].is_synthetic
    assert to_wire(ear.elements[-1].response) == unbroken(ALL)[-1]["response"]


async def test_the_headers_of_a_stream_are_sent_with_every_request_for_it() -> None:
    cut, expired = Fault("cut", connection=0, after_events=9, kind="eof"), Fault("expired", connection=1)
    async with running(cut, expired) as (simulator, client):
        await read(begin(client, headers={"X-Team": "cats"}))
        assert [request.headers.get("x-team") for request in simulator.requests] == ["cats"] * len(simulator.requests)
        assert simulator.requests[-1].headers["accept"] == "application/json"


async def test_a_response_that_is_forgotten_is_given_up_with_a_cursor() -> None:
    async with running(Fault("cut", connection=0, after_events=20, kind="eof")) as (simulator, client):
        got, error = await interrupted(begin(client).pipe(_each(_at(19, lambda: simulator.forget("resp_0001")))))
        assert wires(got) == unbroken(ALL)[:20]
        assert (cursor_of(error).response_id, cursor_of(error).sequence_number) == ("resp_0001", 19)
        assert not error.resumable
        assert isinstance(error.__cause__, NotFound)
        assert error.snapshot is not None
        assert error.snapshot.id == "resp_0001"
        assert asked(simulator) == ["POST", "stream", "whole"]


async def test_a_cursor_that_is_ignored_repeats_nothing() -> None:
    cut, ignored = Fault("cut", connection=0, after_events=40), Fault("ignore_cursor")
    async with running(cut, ignored) as (simulator, client):
        got, error = await read(begin(client))
        assert (wires(got), error) == (unbroken(ALL), None)
        assert asked(simulator) == ["POST", "stream"]


async def test_a_gap_behind_the_cursor_never_passes() -> None:
    cut, gap = Fault("cut", connection=0, after_events=40), Fault("gap", connection=1, count=2)
    async with running(cut, gap) as (simulator, client):
        got, error = await read(begin(client))
        assert isinstance(error, SequenceViolation)
        assert "expected sequence number 40 after resuming, got 42" in str(error)
        assert wires(got) == unbroken(ALL)[:40]
        assert asked(simulator) == ["POST", "stream"]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_ends_a_resume_at_once(status: int) -> None:
    cut, refusal = Fault("cut", connection=0, after_events=40), Fault("status", method="GET", status=status)
    async with running(cut, refusal) as (simulator, client):
        got, error = await interrupted(begin(client))
        assert wires(got) == unbroken(ALL)[: len(got)]
        assert cursor_of(error).sequence_number == len(got) - 1
        assert asked(simulator) == ["POST", "stream"]


# in the foreground


@pytest.mark.parametrize("kind", ["fin", "rst", "eof"])
@pytest.mark.parametrize("after", [1, 20, 60])
async def test_a_foreground_stream_that_breaks_is_not_sent_again(kind: str, after: int) -> None:
    async with running(Fault("cut", after_events=after, kind=kind)) as (simulator, client):
        got, error = await interrupted(client.events(model=ALL, input="x"))
        assert cursor_of(error) == Cursor("resp_0001", after - 1, cursor_of(error).snapshot)
        assert not error.resumable
        assert error.snapshot is not None
        assert error.snapshot.id == "resp_0001"
        assert len(got) == after
        await turns()
        assert asked(simulator) == ["POST"]


# retrieving and cancelling


async def test_a_response_is_retrieved_as_it_stands() -> None:
    async with running(hold=20) as (simulator, client):
        ear = await Ear(begin(client)).heard(20)
        assert (await client.retrieve("resp_0001")).status == "in_progress"
        simulator.release()
        await ear.ended()
        assert to_wire(await client.retrieve("resp_0001")) == unbroken(ALL)[-1]["response"]


async def test_what_is_not_kept_cannot_be_retrieved() -> None:
    async with running() as (_, client):
        for ask in (client.retrieve, client.cancel):
            with pytest.raises(NotFound):
                await ask("resp_9")


@pytest.mark.parametrize("response_id", ["a/../b", "a?stream=true", "a#b", "a b", "ä"])
async def test_an_id_is_never_read_as_more_of_a_path(response_id: str) -> None:
    async with running() as (simulator, client):
        with pytest.raises(NotFound):
            await client.retrieve(response_id)
        (request,) = simulator.requests
        assert request.query == {}


async def test_a_cancelled_response_stays_cancelled() -> None:
    async with running(hold=20) as (simulator, client):
        ear = await Ear(begin(client)).heard(20)
        for _ in range(3):
            response = await client.cancel("resp_0001")
            assert (response.id, response.status) == ("resp_0001", "cancelled")
        await ear.ended()
        assert (await client.retrieve("resp_0001")).status == "cancelled"
        assert [r.path for r in simulator.requests if r.method == "POST"][1:] == ["/v1/responses/resp_0001/cancel"] * 3
    # OpenAI has no event for it, so that the stream just ends; and so does the one that is opened again
    assert [what for what in asked(simulator) if what != "POST"] == ["stream", "whole", "whole"]
    assert ear.completed
    assert isinstance(ear.elements[-1], TerminalEvent)
    assert ear.elements[-1].is_synthetic
    assert ear.elements[-1].response.status == "cancelled"


async def test_a_terminal_that_came_first_wins_over_a_cancel() -> None:
    async with running() as (_, client):
        final = await final_response(begin(client))
        assert to_wire(await client.cancel(final.id)) == to_wire(final)


@pytest.mark.parametrize("status", [400, 409])
async def test_a_server_that_refuses_to_cancel_what_has_ended_is_understood(status: int) -> None:
    async with running(Fault("status", method="POST", status=status)) as (simulator, client):
        simulator.faults, faults = FaultPlan(), simulator.faults
        final = await final_response(begin(client))
        simulator.faults = faults
        assert to_wire(await client.cancel(final.id)) == to_wire(final)


@pytest.mark.parametrize("while_it_runs", [True, False])
async def test_a_foreground_response_cannot_be_cancelled(while_it_runs: bool) -> None:
    async with running(hold=5) as (simulator, client):
        ear = await Ear(client.events(model="story", input="x")).heard(5)
        if not while_it_runs:
            simulator.release()
            await ear.ended()
        with pytest.raises(BadRequest, match="synchronous"):
            await client.cancel("resp_0001")
        simulator.release()
        await ear.ended()


# leaving


async def test_who_leaves_cancels_if_asked_to() -> None:
    async with running(hold=20) as (simulator, client):
        async with iterate(begin(client, cancel_on_dispose=True)) as reading:
            async for event in reading:
                if event.sequence_number == 15:
                    break
        await simulator.wait_for(lambda s: s.status_of("resp_0001") == "cancelled")
        assert posts(simulator) == ["/v1/responses", "/v1/responses/resp_0001/cancel"]


async def test_who_leaves_does_not_cancel_otherwise() -> None:
    async with running(hold=20) as (simulator, client):
        ear = await Ear(begin(client)).heard(10)
        ear.subscription.dispose()
        await simulator.wait_for(lambda s: s.open_streams == 0)
        await client.aclose()
        assert simulator.status_of("resp_0001") == "in_progress"
        assert posts(simulator) == ["/v1/responses"]
        simulator.release()


async def test_closing_the_client_waits_until_what_was_left_is_cancelled() -> None:
    async with running(hold=20) as (simulator, client):
        ear = await Ear(begin(client, cancel_on_dispose=True)).heard(10)
        ear.subscription.dispose()
        ear.subscription.dispose()
        await client.aclose()
        assert simulator.status_of("resp_0001") == "cancelled"
        assert posts(simulator) == ["/v1/responses", "/v1/responses/resp_0001/cancel"]


@pytest.mark.parametrize("faults", [(), (Fault("cut", connection=0, after_events=4),)], ids=["created", "resumed"])
async def test_closing_the_client_is_no_disconnect_to_resume_after(faults: tuple[Fault, ...]) -> None:
    attempts: list[Attempt] = []
    async with running(*faults, hold=20) as (simulator, client):
        ear = await Ear(begin(client, on_attempt=attempts.append)).heard(10)
        assert len(attempts) == len(faults)
        await client.aclose()
        assert isinstance(ear.error, StreamInterrupted)
        assert len(attempts) == len(faults)
        simulator.release()


async def test_who_leaves_before_the_first_event_cancels_too() -> None:
    async with running(hold=20) as (simulator, client):
        Ear(begin(client, cancel_on_dispose=True)).subscription.dispose()
        await simulator.wait_for(lambda s: bool(s.requests) and s.status_of("resp_0001") == "cancelled")
        await simulator.wait_for(lambda s: s.open_streams == 0)
        assert posts(simulator) == ["/v1/responses", "/v1/responses/resp_0001/cancel"]


async def test_a_response_that_ended_is_not_cancelled() -> None:
    async with running() as (simulator, client):
        async with iterate(begin(client, cancel_on_dispose=True)) as reading:
            async for event in reading:
                if isinstance(event, TerminalEvent):
                    break
        assert (await read(begin(client, cancel_on_dispose=True)))[1] is None
        await client.aclose()
        assert posts(simulator) == ["/v1/responses"] * 2


async def test_the_last_of_many_cancels() -> None:
    async with running(hold=20) as (simulator, client):
        shared = begin(client, cancel_on_dispose=True).pipe(ops.fan_out())
        ears = [await Ear(shared).heard(10) for _ in range(3)]
        for ear in ears:
            assert posts(simulator) == ["/v1/responses"]
            ear.subscription.dispose()
        await client.aclose()
        assert simulator.status_of("resp_0001") == "cancelled"


async def test_a_resumed_response_is_cancelled_too() -> None:
    async with running(hold=20) as (simulator, client):
        (await Ear(begin(client)).heard(10)).subscription.dispose()
        Ear(client.resume(Cursor("resp_0001", 9), cancel_on_dispose=True)).subscription.dispose()
        await client.aclose()
        assert simulator.status_of("resp_0001") == "cancelled"


async def test_a_server_that_does_not_cancel_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async with running(Fault("status", request=1, status=404), hold=20) as (simulator, client):
        (await Ear(begin(client, cancel_on_dispose=True)).heard(10)).subscription.dispose()
        await client.aclose()
        assert "not cancelled response_id=resp_0001 error=NotFound" in caplog.text
        simulator.release()


async def test_a_foreground_response_is_not_cancelled_but_closed() -> None:
    async with Client(base_url="http://127.0.0.1:9/v1") as client:
        with pytest.raises(ValueError, match=r"^expected background=True with cancel_on_dispose"):
            client.events(model="story", input="x", cancel_on_dispose=True)


# with a cursor, elsewhere


@pytest.mark.parametrize("after", [1, 2, 30, 60, 100])
@pytest.mark.parametrize("rebuild", [False, True])
async def test_a_cursor_goes_on_in_another_client(rebuild: bool, after: int) -> None:
    async with running() as (simulator, client):
        before, cursor = await broken_off(client, simulator, after)
        cursor = Cursor.from_json(cursor.to_json())
        into = Accumulator()
        async with client_of(simulator) as other:
            rest, error = await read(other.resume(cursor, rebuild=rebuild, into=into))
        assert error is None
        assert before + wires(rest) == unbroken(ALL)
        (request,) = simulator.requests
        assert request.query == {"stream": "true"} | (
            {} if rebuild else {"starting_after": str(cursor.sequence_number)}
        )
        assert into.response is not None
        assert to_wire(into.response) == unbroken(ALL)[-1]["response"]


@pytest.mark.parametrize("profile", [DEFAULT, STRICT], ids=lambda profile: profile.name)
@pytest.mark.parametrize("rebuild", [False, True])
async def test_a_stream_behind_any_cursor_breaks_no_rules(rebuild: bool, profile: Profile) -> None:
    async with running() as (_, client):
        await final_response(begin(client))
        for number in range(EVENTS - 1):
            violations: list[Violation] = []
            cursor = Cursor("resp_0001", number)
            resumed = client.resume(cursor, rebuild=rebuild, profile=profile, on_violation=violations.append)
            rest, error = await read(resumed)
            assert (error, violations) == (None, [])
            assert wires(rest) == unbroken(ALL)[number + 1 :]


async def test_snapshots_are_whole_with_rebuild() -> None:
    async with running() as (_, client):
        whole, pictures = Accumulator(), dict[int, Any]()
        await read(begin(client, into=whole).pipe(_each(lambda event: _picture(pictures, event, whole))))
        again, seen = Accumulator(), dict[int, Any]()
        resumed = client.resume(Cursor("resp_0001", 59), rebuild=True, into=again)
        await read(resumed.pipe(_each(lambda event: _picture(seen, event, again))))
    assert list(seen) == list(range(60, EVENTS))
    assert seen == {number: pictures[number] for number in seen}


async def test_a_resumed_stream_survives_its_connections_too() -> None:
    async with running() as (simulator, client):
        before, cursor = await broken_off(client, simulator, 30)
        simulator.faults = FaultPlan((Fault("cut", after_events=10),))
        rest, error = await read(client.resume(cursor))
        assert (before + wires(rest), error) == (unbroken(ALL), None)
        assert set(asked(simulator)) == {"stream"}
        assert simulator.overlaps == 0


@pytest.mark.parametrize("fault", [Fault("status", request=1, status=503), Fault("refuse", request=1)])
@pytest.mark.parametrize("rebuild", [False, True])
async def test_a_resume_that_is_not_answered_is_tried_again(rebuild: bool, fault: Fault) -> None:
    async with running(fault) as (simulator, client):
        await final_response(begin(client))
        rest, error = await read(client.resume(Cursor("resp_0001", 29), rebuild=rebuild))
        assert (wires(rest), error) == (unbroken(ALL)[30:], None)
        assert asked(simulator) == ["POST", "stream", "stream"]


async def test_a_resumed_stream_that_has_expired_is_polled() -> None:
    async with running() as (simulator, client):
        before, cursor = await broken_off(client, simulator, 30)
        await simulator.wait_for(lambda s: s.status_of(cursor.response_id) == "completed")
        simulator.expire(cursor.response_id)
        rest, error = await read(client.resume(cursor))
        assert error is None
        assert isinstance(rest[-1], TerminalEvent)
        assert rest[-1].is_synthetic
        assert rest[0].sequence_number == len(before)
        assert asked(simulator) == ["stream", "whole"]


@pytest.mark.parametrize("snapshot", [True, False])
async def test_what_was_handed_on_does_not_come_twice_when_an_expired_response_is_rebuilt(snapshot: bool) -> None:
    async with running() as (simulator, client):
        before, cursor = await broken_off(client, simulator, 30)
        await simulator.wait_for(lambda s: s.status_of(cursor.response_id) == "completed")
        simulator.expire(cursor.response_id)
        cursor = cursor if snapshot else Cursor(cursor.response_id, cursor.sequence_number)
        into = Accumulator()
        rest, error = await read(client.resume(cursor, rebuild=True, into=into))
        assert error is None
        assert asked(simulator) == ["stream", "whole"]
        (terminal,) = rest
        assert (terminal.sequence_number, terminal.is_synthetic) == (len(before), True)
        assert into.response is not None
        assert to_wire(into.response) == unbroken(ALL)[-1]["response"]


async def test_a_rebuilt_stream_that_breaks_before_the_cursor_keeps_the_cursor() -> None:
    async with running() as (simulator, client):
        _, cursor = await broken_off(client, simulator, 50)
        simulator.faults = FaultPlan(
            (Fault("cut", request=0, after_events=10), *(Fault("status", request=n, status=500) for n in range(1, 9)))
        )
        got, error = await interrupted(client.resume(cursor, rebuild=True))
        assert got == []
        assert cursor_of(error) == cursor


@pytest.mark.parametrize("ignored", [True, False])
@pytest.mark.parametrize("rebuild", [True, False])
async def test_a_cursor_ahead_of_the_stream_loses_nothing_and_is_told(rebuild: bool, ignored: bool) -> None:
    faults = [Fault("ignore_cursor", method="GET")] if ignored else []
    async with running(*faults) as (simulator, client):
        await final_response(begin(client))
        got, error = await read(client.resume(Cursor("resp_0001", 5_000), rebuild=rebuild))
        if rebuild or ignored:
            assert isinstance(error, SequenceViolation)
            assert f"expected a cursor of at most {EVENTS - 1}, the last event, got 5000" in str(error)
        else:  # the server has nothing to stream behind it, as behind the cursor of the last event
            assert error is None
            assert [type(event) for event in got] == [type(event) for event in got if event.is_synthetic]
            assert asked(simulator)[1:] == ["stream", "whole"]


@pytest.mark.parametrize("rebuild", [True, False])
async def test_a_cursor_of_the_last_event_brings_the_end(rebuild: bool) -> None:
    async with running() as (_, client):
        final = await final_response(begin(client))
        got, error = await read(client.resume(Cursor("resp_0001", EVENTS - 1), rebuild=rebuild))
        assert error is None
        (terminal,) = got
        assert isinstance(terminal, TerminalEvent)
        assert to_wire(terminal.response) == to_wire(final)


async def test_a_cursor_at_the_end_of_a_finished_response_brings_the_rest_only() -> None:
    async with running() as (_, client):
        await final_response(begin(client))
        rest, error = await read(client.resume(Cursor("resp_0001", EVENTS - 2)))
        assert (wires(rest), error) == (unbroken(ALL)[-1:], None)


async def test_a_response_that_nobody_knows_cannot_be_resumed() -> None:
    async with running() as (simulator, client):
        got, error = await interrupted(client.resume(Cursor("resp_9", 3)))
        assert (got, error.resumable) == ([], False)
        assert asked(simulator) == ["stream", "whole"]


async def test_a_refused_key_ends_a_resume_with_a_cursor() -> None:
    async with running(Fault("status", status=401)) as (simulator, client):
        got, error = await interrupted(client.resume(Cursor("resp_0001", 3)))
        assert (got, cursor_of(error).sequence_number, error.resumable) == ([], 3, False)
        assert isinstance(error.__cause__, Unauthorized)
        assert asked(simulator) == ["stream"]


@pytest.mark.parametrize("fields", [{"background": False}, {"background": True, "store": False}])
async def test_a_cursor_of_the_foreground_is_refused_before_anything_is_sent(fields: dict[str, bool]) -> None:
    snapshot = Response.model_validate({**unbroken(ALL)[0]["response"], **fields})
    async with listening() as server, Client(base_url=server.url) as client:
        with pytest.raises(ValueError, match="created in the background and stored"):
            client.resume(Cursor(snapshot.id, 3, snapshot))
        await turns()
        assert not server.knocks()


async def test_what_is_no_cursor_is_refused() -> None:
    async with Client(base_url="http://127.0.0.1:9/v1") as client:
        with pytest.raises(TypeError, match=r"^expected a cursor, got str: see Cursor\.from_json$"):
            client.resume("resp_1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


PROCESS = """
import asyncio, json, sys
from pathlib import Path
from orx_rx import Accumulator, Client, Cursor, iterate
from orx_rx.models import to_wire

async def main():
    into = Accumulator()
    async with Client(base_url=sys.argv[1]) as client:
        cursor = Cursor.from_json(Path(sys.argv[2]).read_text())
        async with iterate(client.resume(cursor, rebuild=sys.argv[3] == "True", into=into)) as reading:
            rest = [to_wire(event) async for event in reading]
    print(json.dumps([rest, to_wire(into.response)]))

asyncio.run(main())
"""


@pytest.mark.parametrize("rebuild", [False, True])
async def test_a_cursor_in_a_file_goes_on_in_another_process(rebuild: bool, tmp_path: Path) -> None:
    async with running() as (simulator, client):
        before, cursor = await broken_off(client, simulator, 50)
        file = tmp_path / "cursor.json"
        file.write_text(cursor.to_json())
        command = [sys.executable, "-W", "error", "-c", PROCESS, simulator.base_url, str(file), str(rebuild)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        rest, response = json.loads(done.stdout)
        assert before + rest == unbroken(ALL)
        assert response == unbroken(ALL)[-1]["response"]
        assert asked(simulator) == ["stream"]


# a server that is not ours: fastresponses streams the rest at /responses/{id}/events, which no other server does; at
# /responses/{id} it always answers JSON


@asynccontextmanager
async def cutting(base_url: str, after: int) -> AsyncGenerator[tuple[str, list[bytes]]]:
    """Stand in front of a server, and cut the first connection after so many events."""
    port = int(base_url.rpartition(":")[2].partition("/")[0])
    asked_for: list[bytes] = []
    tasks: set[asyncio.Task[Any]] = set()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        first = not asked_for
        head = await reader.readuntil(b"\r\n\r\n")
        asked_for.append(head.partition(b" HTTP/")[0])
        upper = head.lower()
        length = int(upper.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        body = await reader.readexactly(length)
        there, away = await asyncio.open_connection("127.0.0.1", port)
        away.write(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + body)
        seen = 0
        while line := await there.readline():
            writer.write(line)
            seen += line.startswith(b"data:")
            if first and seen == after:
                break
        for end in (writer, away):
            end.close()
            await end.wait_closed()

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", asked_for
    finally:
        server.close()
        await server.wait_closed()
        await asyncio.gather(*tasks)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:uvicorn", "ignore::DeprecationWarning:websockets")
@pytest.mark.parametrize("after", [3, 5, 7])
async def test_a_server_that_answers_json_is_polled_to_the_same_text(after: int) -> None:
    peer = import_module("tests.test_fastresponses")
    async with (
        peer.served() as base_url,
        cutting(base_url, after) as (url, asked_for),
        Client(base_url=url, retry=AT_ONCE) as client,
    ):
        response = await final_response(client.events(model="text", input="x", background=True))
    assert (response.status, response.output_text) == ("completed", "".join(peer.TEXT))
    assert [head.partition(b" ")[0] for head in asked_for].count(b"POST") == 1
    assert len(asked_for) >= 3


def _each(act: Callable[[Event], object]) -> Callable[[Observable[Event]], Observable[Event]]:
    """Do something with every event."""

    def operator(source: Observable[Event]) -> Observable[Event]:
        def subscribe(observer: Any, scheduler: Any = None) -> Any:
            def on_next(event: Event) -> None:
                act(event)
                observer.on_next(event)

            return source.subscribe(on_next, observer.on_error, observer.on_completed, scheduler=scheduler)

        return Observable(subscribe)

    return operator


def _at(number: int, act: Callable[[], None]) -> Callable[[Event], None]:
    """Do something when an event comes."""

    def on_event(event: Event) -> None:
        if event.sequence_number == number:
            act()

    return on_event


def _picture(pictures: dict[int, Any], event: Event, accumulator: Accumulator) -> None:
    if event.sequence_number is not None and accumulator.response is not None:
        pictures[event.sequence_number] = to_wire(accumulator.response)
