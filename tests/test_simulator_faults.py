"""The simulator when things go wrong: each fault does what it says, to the requests that it is for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from orx_rx.simulator import FAULTS, Fault, FaultPlan, Simulator
from orx_rx.simulator.__main__ import main
from orx_rx.simulator.failing import BEFORE, WITHIN
from orx_rx.simulator.faults import OPTIONS
from orx_rx.simulator.frames import DONE
from tests.test_simulator import asking, read_strictly
from tests.test_simulator_background import asked, completed, frames, in_background, json_of, read, refused

Options = Mapping[str, Any]

PLAIN = asking("long-3", stream=True)
WHOLE = frames(PLAIN)
STREAMED = b"".join(WHOLE)


async def broken(simulator: Simulator, body: Options = PLAIN) -> tuple[bytes, Exception | None]:
    """Read a stream until it ends or breaks off: what came, and what broke it."""
    got = b""
    async with asked(simulator, "POST", "/responses", body) as response:
        try:
            async for data in response.content.iter_any():
                got += data
        except (aiohttp.ClientError, ConnectionError) as error:
            return got, error
    return got, None


async def streamed(*faults: Fault) -> bytes:
    async with Simulator(faults=faults) as simulator:
        status, data = await read(simulator, "POST", "/responses", PLAIN)
    assert status == 200
    assert simulator.disconnects == 0
    return data


# faults as data

ALL = [
    Fault("cut", connection=0, after_events=5, kind="rst"),
    Fault("cut", after_bytes=0),
    Fault("stall", request=2, after_bytes=7),
    Fault("keepalives", count=3, after_events=1, form="event", pace=0.5),
    Fault("slow", size=2, pace=1),
    Fault(
        "status", status=429, retry_after="1", retry_after_ms="10", headers={"x-should-retry": "false"}, body={"a": 1}
    ),
    Fault("expired", method="GET"),
    Fault("not_found"),
    Fault("refuse", kind="rst"),
    Fault("json", connection=1),
    Fault("ignore_cursor"),
    Fault("gap", count=2),
    Fault("no_terminal"),
    Fault("duplicate", at=0),
    Fault("reorder", at=3),
]


def test_a_plan_is_written_and_read_as_json() -> None:
    plan = FaultPlan(tuple(ALL))
    assert FaultPlan.from_json(plan.to_json()) == plan
    assert FaultPlan.from_json('{"faults": []}').to_json() == '{"faults": []}'
    assert json.loads(FaultPlan((ALL[0],)).to_json()) == {
        "faults": [{"name": "cut", "connection": 0, "after_events": 5, "kind": "rst"}]
    }


def test_every_fault_is_known_by_its_options_and_its_function() -> None:
    assert set(OPTIONS) == set(FAULTS) == {fault.name for fault in ALL}
    assert not set(BEFORE) & set(WITHIN)
    assert all(f"`{name}`" in (Fault.__doc__ or "") for name in FAULTS)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("cutt", {}, "expected a fault among cut, stall, .*, reorder, got 'cutt'"),
        ("cut", {}, "expected after_events or after_bytes for 'cut', got none"),
        ("cut", {"after_events": 1, "after_bytes": 1}, "for 'cut', got after_events and after_bytes"),
        ("cut", {"after_events": -1}, "expected after_events of 'cut' to be a whole number of at least 0, got -1"),
        ("cut", {"after_events": True}, "whole number of at least 0, got True"),
        ("cut", {"after_events": 1, "kind": "bang"}, "expected kind of 'cut' to be one of fin, rst, eof, got 'bang'"),
        ("cut", {"after_events": 1, "status": 400}, "expected options of 'cut' among .*, got 'status'"),
        ("refuse", {"kind": "eof"}, "expected kind of 'refuse' to be one of fin, rst, got 'eof'"),
        ("stall", {}, "expected after_events or after_bytes for 'stall', got none"),
        ("keepalives", {}, "expected count for 'keepalives', got none"),
        ("keepalives", {"count": 1, "form": "x"}, "one of comment, event, got 'x'"),
        ("slow", {"pace": float("nan")}, "seconds of at least 0, got nan"),
        ("slow", {"size": 0}, "a whole number of at least 1, got 0"),
        ("status", {}, "expected status for 'status', got none"),
        ("status", {"status": 200}, "a whole number from 400 to 599, got 200"),
        ("status", {"status": 429, "retry_after": 1}, "expected retry_after of 'status' to be text in one line, got 1"),
        ("status", {"status": 429, "headers": {"a": "b\r\nc: d"}}, "texts in one line by their names"),
        ("status", {"status": 429, "headers": []}, "texts in one line by their names, got \\[\\]"),
        ("json", {"method": "DELETE"}, "one of GET, POST, got 'DELETE'"),
        ("json", {"connection": "0"}, "whole number of at least 0, got '0'"),
        ("duplicate", {}, "expected at for 'duplicate', got none"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(name: str, options: Options, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Fault(name, **options)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "expected a fault plan in JSON, got what is not"),
        (b"\xff", "expected a fault plan in JSON, got what is not"),
        ("[" * 100_000, "expected a fault plan in JSON, got what is not"),
        ("[]", r'of the form {"faults": \[...\]}, got \[\]'),
        ('{"faults": {}}', "of the form"),
        ('{"faults": [], "more": 1}', "of the form"),
        (json.dumps({"fault": ["x" * 1_000]}), r"x\.\.\.$"),
        ('{"faults": [3]}', r"faults\[0\]: expected an object with the name of a fault, got 3"),
        ('{"faults": [{"name": []}]}', r"faults\[0\]: expected an object with the name of a fault"),
        ('{"faults": [{"name": "json"}, {"name": "cut", "when": 1}]}', r"faults\[1\]: .* got 'when'"),
        ('{"faults": [{"name": "gone"}]}', r"faults\[0\]: expected a fault among .*, got 'gone'"),
    ],
)
def test_what_is_no_plan_is_refused(text: str | bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FaultPlan.from_json(text)


def test_the_command_takes_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"faults": [{"name": "gone"}]}')
    assert main(["--faults", str(plan)]) == 1
    assert "faults[0]: expected a fault among cut" in capsys.readouterr().err
    assert main(["--faults", str(tmp_path / "none.json")]) == 1
    assert "none.json" in capsys.readouterr().err


# which requests


async def test_faults_are_set_as_a_list_or_as_a_plan() -> None:
    cut = Fault("cut", after_events=1)
    async with Simulator() as simulator:
        for given in ([cut], (cut,), FaultPlan((cut,)), iter([cut])):
            simulator.faults = given
            assert simulator.faults == FaultPlan((cut,))
        body, _ = await broken(simulator)
        assert body.count(b"data:") == 1


async def test_a_fault_is_for_one_connection() -> None:
    async with Simulator(faults=[Fault("status", connection=1, status=500)]) as simulator:
        statuses: list[int] = []
        for stream in (True, False, True, True):
            statuses.append((await read(simulator, "POST", "/responses", asking(stream=stream)))[0])
    assert statuses == [200, 200, 500, 200]


async def test_a_fault_is_for_one_request() -> None:
    async with Simulator(faults=[Fault("status", request=1, status=500)]) as simulator:
        assert [(await read(simulator, "POST", "/responses", asking()))[0] for _ in range(3)] == [200, 500, 200]


async def test_a_fault_is_for_one_method_or_for_all() -> None:
    async with Simulator(faults=[Fault("not_found", method="GET")]) as simulator:
        response_id = await completed(simulator)
        assert await refused(simulator, "GET", f"/responses/{response_id}") == (
            404,
            "Response with id 'resp_0001' not found.",
        )
        simulator.faults = FaultPlan((Fault("status", status=503),))
        assert (await read(simulator, "GET", f"/responses/{response_id}"))[0] == 503
        assert (await read(simulator, "POST", f"/responses/{response_id}/cancel"))[0] == 503


# instead of an answer


@pytest.mark.parametrize("date", ["1", "0.5", "Fri, 31 Dec 2027 23:59:59 GMT"])
async def test_a_status_comes_with_what_it_says_about_retries(date: str) -> None:
    fault = Fault("status", status=429, retry_after=date, retry_after_ms="20", headers={"X-Should-Retry": "true"})
    async with Simulator(faults=[fault]) as simulator, asked(simulator, "POST", "/responses", PLAIN) as response:
        assert response.status == 429
        assert response.headers["Retry-After"] == date
        assert response.headers["retry-after-ms"] == "20"
        assert response.headers["x-should-retry"] == "true"
        assert response.headers["x-request-id"] == "req_0001"
        assert response.content_type == "application/json"
        assert (await response.json())["error"]["type"] == "rate_limit_error"


async def test_a_status_can_have_any_body() -> None:
    sse = 'data: {"error": {"message": "boom"}}\n\ndata: [DONE]\n\n'
    faults = [
        Fault("status", request=0, status=500, body=sse, headers={"Content-Type": "text/event-stream"}),
        Fault("status", request=1, status=502, body="<html>"),
        Fault("status", request=2, status=400, body=["detail"]),
    ]
    async with Simulator(faults=faults) as simulator:
        seen: list[tuple[int, str, bytes]] = []
        for _ in faults:
            async with asked(simulator, "POST", "/responses", PLAIN) as response:
                seen.append((response.status, response.content_type, await response.read()))
    assert seen == [
        (500, "text/event-stream", sse.encode()),
        (502, "text/plain", b"<html>"),
        (400, "application/json", b'["detail"]'),
    ]


async def test_a_stream_can_be_expired() -> None:
    async with Simulator(faults=[Fault("expired", connection=1)]) as simulator:
        response_id = await completed(simulator)
        status, said = await refused(simulator, "GET", f"/responses/{response_id}?stream=true")
    assert status == 400
    assert "resp_0001' can no longer be streamed" in said


@pytest.mark.parametrize("kind", [None, "fin", "rst"])
async def test_a_connection_is_closed_before_an_answer(kind: str | None) -> None:
    async with Simulator(faults=[Fault("refuse", kind=kind, request=0)]) as simulator:
        with pytest.raises(aiohttp.ClientConnectionError):
            await read(simulator, "POST", "/responses", PLAIN)
        assert await read(simulator, "POST", "/responses", PLAIN) == (200, STREAMED)
        await simulator.wait_for(lambda s: s.connections == 0)
    assert [request.method for request in simulator.requests] == ["POST", "POST"]


@pytest.mark.parametrize("body", [PLAIN, in_background("long-3", stream=True)])
async def test_json_comes_where_a_stream_was_asked_for(body: Options) -> None:
    async with Simulator(faults=[Fault("json")]) as simulator:
        response = await json_of(simulator, "POST", "/responses", body)
        assert response["status"] == ("queued" if "background" in body else "completed")


async def test_a_streaming_retrieve_of_a_finished_response_can_answer_json() -> None:
    async with Simulator(faults=[Fault("json", connection=1)]) as simulator:
        response_id = await completed(simulator)
        response = await json_of(simulator, "GET", f"/responses/{response_id}?stream=true&starting_after=9")
    assert (response["id"], response["status"]) == (response_id, "completed")


# within a stream


@pytest.mark.parametrize("after", range(len(WHOLE) + 1))
@pytest.mark.parametrize("kind", ["fin", "rst", "eof"])
async def test_a_stream_is_cut_after_any_event(kind: str, after: int) -> None:
    async with Simulator(faults=[Fault("cut", after_events=after, kind=kind)]) as simulator:
        got, error = await broken(simulator)
        assert got == b"".join(WHOLE[:after])
        assert (error is None) == (kind == "eof")
        await simulator.wait_for(lambda s: s.open_streams == 0 and s.connections == 0)
    assert simulator.disconnects == 0


@pytest.mark.parametrize("after", [0, 1, 7, len(WHOLE[0]), len(WHOLE[0]) + 1, len(STREAMED) - 1, len(STREAMED)])
@pytest.mark.parametrize("kind", ["fin", "rst", "eof", None])
@pytest.mark.parametrize("chunk_bytes", [None, 5])
async def test_a_stream_is_cut_after_any_byte(kind: str | None, after: int, chunk_bytes: int | None) -> None:
    async with Simulator(faults=[Fault("cut", after_bytes=after, kind=kind)], chunk_bytes=chunk_bytes) as simulator:
        got, error = await broken(simulator)
    assert got == STREAMED[:after]
    assert (error is None) == (kind == "eof")


async def test_a_cut_behind_the_end_never_comes() -> None:
    assert await streamed(Fault("cut", after_events=99), Fault("cut", after_bytes=1_000_000)) == STREAMED


async def test_a_clean_cut_loses_nothing_that_was_sent_before() -> None:
    body = asking("long-9999", stream=True)
    whole = b"".join(frames(body))
    cutting = Simulator(faults=[Fault("cut", after_bytes=len(whole) - 1)])
    async with cutting as simulator, asked(simulator, "POST", "/responses", body) as response:
        assert await response.content.readexactly(len(whole) - 1) == whole[:-1]


@pytest.mark.parametrize("where", [{"after_events": 0}, {"after_events": 5}, {"after_bytes": 100}])
async def test_a_stream_stalls_until_it_is_released(where: Options) -> None:
    before = STREAMED[: where.get("after_bytes", len(b"".join(WHOLE[: where.get("after_events", 0)])))]
    async with (
        Simulator(faults=[Fault("stall", **where)]) as simulator,
        asked(simulator, "POST", "/responses", PLAIN) as response,
    ):
        assert await response.content.readexactly(len(before)) == before
        assert simulator.open_streams == 1
        simulator.release()
        assert before + await response.read() == STREAMED


async def test_a_stalled_stream_ends_when_its_client_goes_away() -> None:
    async with Simulator(faults=[Fault("stall", after_events=1)]) as simulator:
        async with asked(simulator, "POST", "/responses", PLAIN) as response:
            await response.content.readuntil(b"\n\n")
            response.close()
        await simulator.wait_for(lambda s: s.disconnects == 1 and s.connections == 0)


@pytest.mark.parametrize(("form", "told"), [(None, b": keepalive\n\n"), ("event", b'{"type":"keepalive"}\n\n')])
async def test_only_keepalives_come(form: str | None, told: bytes) -> None:
    fault = Fault("keepalives", count=3, after_events=2, form=form)
    async with Simulator(faults=[fault]) as simulator, asked(simulator, "POST", "/responses", PLAIN) as response:
        before = b"".join(WHOLE[:2])
        assert await response.content.readexactly(len(before)) == before
        seen = b"".join([await response.content.readuntil(b"\n\n") for _ in range(3)])
        assert seen.count(told) == 3
        simulator.release()
        assert before + await response.read() == STREAMED


@pytest.mark.parametrize("fault", [Fault("slow"), Fault("slow", size=7, pace=1e-9)])
async def test_bytes_come_slowly(fault: Fault) -> None:
    assert await streamed(fault) == STREAMED


async def test_slow_bytes_hold_nothing_back_while_a_response_runs() -> None:
    body = in_background("long-3", stream=True)
    slow = Simulator(hold=3, faults=[Fault("slow", size=1_000_000)])
    async with slow as simulator, asked(simulator, "POST", "/responses", body) as response:
        before = b"".join(frames(body)[:3])
        assert await response.content.readexactly(len(before)) == before
        simulator.release()
        assert before + await response.read() == b"".join(frames(body))


async def test_a_gap_leaves_events_out() -> None:
    assert await streamed(Fault("gap")) == b"".join(WHOLE[1:])
    assert await streamed(Fault("gap", after_events=4, count=2)) == b"".join([*WHOLE[:4], *WHOLE[6:]])


async def test_the_terminal_can_be_missing() -> None:
    assert await streamed(Fault("no_terminal")) == b"".join([*WHOLE[:-2], DONE])


@pytest.mark.parametrize("at", [0, 4, len(WHOLE) - 1])
async def test_an_event_can_come_twice(at: int) -> None:
    assert await streamed(Fault("duplicate", at=at)) == b"".join([*WHOLE[: at + 1], *WHOLE[at:]])


@pytest.mark.parametrize("at", [0, 4, len(WHOLE) - 2, len(WHOLE) - 1])
async def test_two_events_can_change_places(at: int) -> None:
    assert await streamed(Fault("reorder", at=at)) == b"".join(
        [*WHOLE[:at], *WHOLE[at + 1 : at + 2], WHOLE[at], *WHOLE[at + 2 :]]
    )


async def test_events_change_places_whatever_pauses_there_are() -> None:
    async with Simulator(pace=1e-9, faults=[Fault("reorder", at=4)]) as simulator:
        _, data = await read(simulator, "POST", "/responses", PLAIN)
    assert data == b"".join([*WHOLE[:4], WHOLE[5], WHOLE[4], *WHOLE[6:]])


async def test_faults_happen_one_after_the_other() -> None:
    assert await streamed(Fault("duplicate", at=0), Fault("cut", after_events=3, kind="eof")) == b"".join(
        [WHOLE[0], WHOLE[0], WHOLE[1]]
    )


# resuming


@pytest.mark.parametrize("kind", ["fin", "rst", "eof"])
async def test_a_cut_background_stream_can_be_resumed_after_every_event(kind: str) -> None:
    whole = frames(in_background("long-3", stream=True))
    for after in range(1, len(whole)):
        async with Simulator(faults=[Fault("cut", connection=0, after_events=after, kind=kind)]) as simulator:
            got, error = await broken(simulator, in_background("long-3", stream=True))
            assert got == b"".join(whole[:after])
            assert (error is None) == (kind == "eof")
            path = f"/responses/resp_0001?stream=true&starting_after={after - 1}"
            assert await read(simulator, "GET", path) == (200, b"".join(whole[after:]))
        assert (simulator.overlaps, simulator.disconnects) == (0, 0)


async def test_a_cursor_can_be_ignored() -> None:
    async with Simulator(faults=[Fault("ignore_cursor")]) as simulator:
        response_id = await completed(simulator)
        _, data = await read(simulator, "GET", f"/responses/{response_id}?stream=true&starting_after=5")
    assert len(read_strictly([data])[0]) == 12


async def test_a_resumed_stream_can_have_a_gap() -> None:
    whole = frames(in_background("long-3", stream=True))
    async with Simulator(faults=[Fault("gap", connection=1, count=2)]) as simulator:
        response_id = await completed(simulator)
        _, data = await read(simulator, "GET", f"/responses/{response_id}?stream=true&starting_after=5")
    assert data == b"".join(whole[8:])


async def test_a_stalled_stream_and_the_one_that_resumes_it_overlap() -> None:
    body = in_background("long-3", stream=True)
    stalling = Simulator(faults=[Fault("stall", connection=0, after_events=2)])
    async with stalling as simulator, asked(simulator, "POST", "/responses", body) as first:
        await first.content.readuntil(b"response.queued")
        await read(simulator, "GET", "/responses/resp_0001?stream=true&starting_after=1")
        assert simulator.overlaps == 1
        simulator.release()
        assert (await first.read()).endswith(DONE)
