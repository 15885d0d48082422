"""The active checks of a server: a good one passes, and each fault fails the check that it is the fault of."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import cycle
from typing import Any

import pytest
from aiohttp import web

from orx_rx import Client, Retry
from orx_rx.http.checks import CHECKS, CheckResult, check_server
from orx_rx.http.probing import CUT_AFTER
from orx_rx.simulator import FAULTS, Fault, Simulator
from tests.chain import DONE, Payload, created, failing, hello, keepalive, numbered, sse, terminal
from tests.servers import CHUNKED, answer, chunk, listening, other_tasks, pass_time, turns, until
from tests.servers import clean_environment as clean_environment

pytestmark = pytest.mark.usefixtures("clean_environment")

ONCE = Retry(attempts=0)
KEY = "a-key"
MODEL = "long-5"
EVENTS = 14  # of its stream, with [DONE]
NO_SUCH_MODEL = Fault("status", connection=1, status=404)  # the simulator itself takes any model

STREAM = 0  # the requests for streams, in their order
CREATE, RESUME, REPLAY = 3, 4, 5
RETRIEVE, CANCEL, AGAIN, LATE, FOREGROUND, FIRST, SECOND, LEFT, NEXT = 9, 11, 12, 15, 17, 18, 19, 20, 21  # of all

LOOK_AT_A_STREAM = {check.name for check in CHECKS if check.looks_at == "stream"}
LOOK_AT_ITS_END = {"done", "closing", "usage", "buffering"}
IN_BACKGROUND = {check.name for check in CHECKS if check.looks_at == "background"}
SILENT = {"keepalive"}  # skipped where nothing is silent


async def results(client: Client, model: str = MODEL, **options: Any) -> list[CheckResult]:
    return [result async for result in check_server(client, model=model, **options)]


async def checked(*faults: Fault, key: str | None = KEY, **options: Any) -> list[CheckResult]:
    async with (
        Simulator(faults=[*faults, NO_SUCH_MODEL], api_key=key, **options) as simulator,
        Client(base_url=simulator.base_url, api_key=KEY, retry=ONCE) as client,
    ):
        checking = asyncio.create_task(results(client))
        await pass_stalls(simulator, checking, faults)
        return await checking


async def pass_stalls(simulator: Simulator, checking: asyncio.Task[Any], faults: Sequence[Fault]) -> None:
    """Let time pass while a stream is stalled, and only then."""
    for fault in faults:
        if fault.name in ("stall", "keepalives"):
            number = (fault.connection or 0) + 1
            await until(partial(_asked, simulator, number, checking))
            while asked_streams(simulator) == number and not checking.done():
                await turns()
                pass_time(1)


def _asked(simulator: Simulator, number: int, checking: asyncio.Task[Any]) -> bool:
    return asked_streams(simulator) >= number or checking.done()


def asked_streams(simulator: Simulator) -> int:
    return sum(request.wants_stream for request in simulator.requests)


def names(found: Sequence[CheckResult], outcome: str) -> set[str]:
    return {result.name for result in found if result.outcome == outcome}


async def test_a_server_without_a_fault_passes_every_check() -> None:
    before = other_tasks()
    found = await checked()
    assert [result.name for result in found] == [check.name for check in CHECKS]
    assert names(found, "fail") == set()
    assert names(found, "skip") == SILENT
    assert {result.effect for result in found} == {""}
    assert {result.name: result.paid for result in found if result.paid} == {
        "media_type": 1,
        "unknown_model": 1,
        "missing_input": 1,
        "background": 1,
        "cancel": 1,
        "idempotency": 2,
        "hang_up": 1,
    }
    await until(lambda: other_tasks() <= before)


async def test_the_requests_are_those_that_the_table_of_faults_means() -> None:
    async with (
        Simulator(faults=[NO_SUCH_MODEL], api_key=KEY) as simulator,
        Client(base_url=simulator.base_url, api_key=KEY, retry=ONCE) as client,
    ):
        await results(client)
    requests = simulator.requests
    streams = [request for request in requests if request.wants_stream]
    assert [streams[at].method for at in (STREAM, CREATE, RESUME, REPLAY)] == ["POST", "POST", "GET", "GET"]
    assert "starting_after" in streams[RESUME].query
    assert "starting_after" not in streams[REPLAY].query
    cancels = [at for at, request in enumerate(requests) if request.path.endswith("/cancel")]
    assert cancels == [CANCEL, AGAIN, LATE, FOREGROUND]
    assert requests[RETRIEVE].method == requests[NEXT].method == "GET"
    first, second = requests[FIRST], requests[SECOND]
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert all(request.body is None or request.body.get("model") for request in requests)


TABLE: list[tuple[Fault, set[str], set[str]]] = [
    # the stream
    (Fault("cut", connection=STREAM, after_events=5), {"stream"}, LOOK_AT_ITS_END),
    (Fault("cut", connection=STREAM, after_events=5, kind="eof"), {"stream"}, LOOK_AT_ITS_END),
    (Fault("cut", connection=STREAM, after_events=0), {"media_type"}, LOOK_AT_A_STREAM - {"media_type"}),
    (Fault("stall", connection=STREAM, after_events=5), {"stream", "keepalive"}, LOOK_AT_ITS_END),
    (Fault("stall", connection=STREAM, after_events=EVENTS), {"closing"}, set()),
    (Fault("keepalives", connection=STREAM, after_events=5, count=3), {"stream", "keepalive"}, LOOK_AT_ITS_END),
    (Fault("slow", connection=STREAM, size=7), set(), set()),
    (Fault("status", connection=STREAM, status=500), {"media_type"}, LOOK_AT_A_STREAM - {"media_type"}),
    (Fault("status", connection=STREAM, status=429), set(), LOOK_AT_A_STREAM),
    (Fault("refuse", connection=STREAM), {"media_type"}, LOOK_AT_A_STREAM - {"media_type"}),
    (Fault("json", connection=STREAM), {"media_type"}, LOOK_AT_A_STREAM - {"media_type"}),
    (Fault("no_terminal", connection=STREAM), {"stream"}, LOOK_AT_ITS_END),
    (Fault("gap", connection=STREAM, after_events=5), {"stream"}, set()),
    (Fault("duplicate", connection=STREAM, at=5), {"stream"}, set()),
    (Fault("reorder", connection=STREAM, at=5), {"stream"}, set()),
    # errors
    (Fault("status", request=1, status=500), {"unknown_model"}, set()),
    (Fault("status", request=1, status=404, body="oops"), {"unknown_model"}, set()),
    (Fault("status", request=2, status=500), {"missing_input"}, set()),
    (Fault("status", request=3, status=400, body="oops"), {"malformed_json"}, set()),
    (Fault("status", request=3, status=400, body={"detail": "oops"}), {"malformed_json"}, set()),
    (Fault("status", request=3, status=400, body={"error": {"message": "oops"}}), {"malformed_json"}, set()),
    (Fault("status", request=4, status=500), {"wrong_key"}, set()),
    (Fault("status", request=5, status=500), {"unknown_response"}, set()),
    # the background
    (Fault("status", connection=CREATE, status=400), set(), IN_BACKGROUND),
    (Fault("status", connection=CREATE, status=429), set(), IN_BACKGROUND),
    (Fault("status", connection=CREATE, status=500), {"background"}, IN_BACKGROUND - {"background"}),
    (Fault("json", connection=CREATE), {"background"}, IN_BACKGROUND - {"background"}),
    (Fault("cut", connection=RESUME, after_events=5), {"resume"}, set()),
    (Fault("stall", connection=RESUME, after_events=5), {"resume", "keepalive"}, set()),
    (Fault("ignore_cursor", connection=RESUME), {"resume"}, set()),
    (Fault("expired", connection=RESUME), {"resume"}, set()),
    (Fault("not_found", connection=RESUME), {"resume"}, set()),
    (Fault("json", connection=RESUME), {"resume"}, set()),
    (Fault("gap", connection=RESUME, after_events=5), {"resume"}, set()),
    (Fault("duplicate", connection=RESUME, at=5), {"resume"}, set()),
    (Fault("expired", connection=REPLAY), {"replay"}, set()),
    (Fault("gap", connection=REPLAY, after_events=5), {"replay"}, set()),
    (Fault("gap", connection=REPLAY, after_events=EVENTS - 2), {"replay"}, set()),
    (Fault("no_terminal", connection=REPLAY), {"replay"}, set()),
    (Fault("status", request=RETRIEVE, status=500), {"retrieve"}, set()),
    (Fault("status", request=CANCEL, status=500), {"cancel"}, set()),
    (Fault("status", request=AGAIN, status=404), {"cancel"}, set()),
    (Fault("status", request=LATE, status=500), {"cancel_ended"}, set()),
    (Fault("status", request=FOREGROUND, status=500), {"cancel_foreground"}, set()),
    # clients
    (Fault("status", request=FIRST, status=500), {"idempotency"}, set()),
    (Fault("status", request=SECOND, status=500), {"idempotency"}, set()),
    (Fault("status", request=SECOND, status=409), set(), set()),
    (Fault("cut", request=LEFT, after_events=0), {"hang_up"}, set()),
]


def test_the_table_has_every_fault() -> None:
    assert {fault.name for fault, *_ in TABLE} == set(FAULTS)


@pytest.mark.parametrize(
    ("fault", "failed", "skipped"), TABLE, ids=lambda value: value.name if isinstance(value, Fault) else ""
)
async def test_a_fault_fails_its_check_and_no_other(fault: Fault, failed: set[str], skipped: set[str]) -> None:
    found = await checked(fault)
    assert names(found, "fail") == failed, [str(result) for result in found if result.outcome == "fail"]
    assert names(found, "skip") == skipped | (SILENT - failed)
    assert all(bool(result.effect) == (result.outcome == "fail") for result in found)
    assert all(result.got for result in found)


async def test_a_server_that_is_gone_after_a_client_left_fails_one_check() -> None:
    gone = [Fault("refuse", request=number) for number in (NEXT, NEXT + 1)]  # aiohttp sends a GET again
    assert names(await checked(*gone), "fail") == {"hang_up"}


async def test_frames_without_event_lines_fail_one_check() -> None:
    assert names(await checked(event_lines=False), "fail") == {"event_lines"}


async def test_a_stream_without_done_fails_one_check() -> None:
    assert names(await checked(done=False), "fail") == {"done"}


async def test_a_server_that_takes_any_key_fails_one_check() -> None:
    assert names(await checked(key=None), "fail") == {"wrong_key"}


async def test_without_a_key_and_with_any_model_these_checks_are_skipped() -> None:
    async with Simulator() as simulator, Client(base_url=simulator.base_url) as client:
        found = await results(client)
    assert names(found, "fail") == set()
    assert names(found, "skip") == {"unknown_model", "wrong_key", "keepalive"}


async def passing(simulator: Simulator, seconds: float, check: str) -> CheckResult:
    """Run one check, and let time pass in the middle of its stream."""
    async with Client(base_url=simulator.base_url) as client:
        checking = asyncio.create_task(results(client, only=[check]))
        await until(lambda: simulator.open_streams == 1)
        await turns()
        pass_time(seconds)
        await turns()
        simulator.release()
        (result,) = await checking
    return result


async def test_a_server_that_holds_its_events_back_fails_one_check() -> None:
    async with Simulator(hold=0) as simulator:
        result = await passing(simulator, 50, "buffering")
    assert result.outcome == "fail"
    assert result.got.startswith("expected events as they are made, got all 13 within 0.")


async def test_a_silence_is_long_enough_to_tell_whether_there_are_keepalives() -> None:
    for seconds, outcome, got in ((20, "pass", "no silence above 20 s"), (50, "fail", "nothing for 50 s")):
        async with Simulator(hold=4) as simulator:
            result = await passing(simulator, seconds, "keepalive")
        assert (result.outcome, result.got) == (outcome, got)


async def test_a_key_that_the_server_knows_gives_one_response() -> None:
    async with listening() as server, Client(base_url=server.url) as client:
        checking = asyncio.create_task(results(client, only=["idempotency"]))
        keys: list[str] = []
        for _ in range(2):
            peer = await server.accept()
            keys += (await peer.request()).all("idempotency-key")
            await peer.send(CHUNKED, chunk(sse(created(), done=False)))
        (result,) = await checking
    assert (result.outcome, result.got, result.paid) == ("pass", "one response for both requests", 2)
    assert keys[0] == keys[1]


async def test_an_error_within_a_stream_is_an_error_for_an_unknown_model() -> None:
    body = sse(created(), failing("no such model"), terminal("failed"))
    async with listening() as server, Client(base_url=server.url) as client:
        checking = asyncio.create_task(results(client, only=["unknown_model"]))
        peer = await server.accept()
        await peer.request()
        await peer.send(answer(body))
        (result,) = await checking
    assert (result.outcome, result.got) == ("pass", "an error within a stream")


async def test_a_response_that_runs_is_cancelled() -> None:
    async with Simulator(hold=6) as simulator, Client(base_url=simulator.base_url) as client:
        checking = asyncio.create_task(results(client, only=["cancel"]))
        await pass_stalls(simulator, checking, [Fault("stall", connection=1, after_events=0)])
        (cancelled,) = await checking
    assert cancelled.got == "cancelled, both times and afterwards"


async def test_a_response_that_is_left_in_the_background_is_cancelled() -> None:
    stalled = Fault("stall", connection=1, after_events=1)
    async with Simulator(hold=6, faults=[stalled]) as simulator, Client(base_url=simulator.base_url) as client:
        checks = check_server(client, model=MODEL, only=["background", "resume"])
        checking = asyncio.create_task(anext(checks))
        await pass_stalls(simulator, checking, [stalled])
        assert (await checking).outcome == "pass"
        await checks.aclose()
        assert simulator.requests[-1].path.endswith("/cancel")
        assert simulator.status_of(simulator.requests[-1].path.split("/")[-2]) == "cancelled"


async def test_some_checks_can_be_chosen() -> None:
    async with Simulator() as simulator, Client(base_url=simulator.base_url) as client:
        found = await results(client, only=["usage", "done"])
        assert [result.name for result in found] == ["done", "usage"]
        assert len(simulator.requests) == 1
        with pytest.raises(ValueError, match=r"expected checks among media_type, .*, got 'speed'"):
            await results(client, only=["speed"])
        with pytest.raises(ValueError, match="expected a timeout above 0 seconds, got 0"):
            await results(client, timeout=0)


async def test_the_fields_of_a_request_are_the_callers() -> None:
    async with Simulator() as simulator, Client(base_url=simulator.base_url) as client:
        await results(client, only=["done"], input="Hello", temperature=0)
    (request,) = simulator.requests
    assert request.body is not None
    assert (request.body["input"], request.body["temperature"], request.body["stream"]) == ("Hello", 0, True)


async def test_where_nobody_listens_nothing_raises() -> None:
    async with Simulator() as simulator:
        url = simulator.base_url
    async with Client(base_url=url, retry=ONCE) as client:
        found = await results(client)
    assert names(found, "pass") == set()
    assert "ConnectFailed" in found[0].got


async def test_a_result_reads_as_one_line_and_as_json() -> None:
    (result,) = [result for result in await checked(done=False) if result.name == "done"]
    assert str(result) == (
        "fail: done: expected [DONE] behind the terminal, got the end of the stream. "
        "Clients that wait for [DONE] wait until the connection closes."
    )
    assert CheckResult(**json.loads(json.dumps(result.to_json()))) == result
    assert str(replace(result, outcome="pass", effect="")).endswith("got the end of the stream.")


@asynccontextmanager
async def wrong(stream: Sequence[Payload], again: Sequence[Payload], rest: bytes = DONE) -> AsyncGenerator[str]:
    """Serve the wrong answer to everything: a stream whatever is asked, and a status that changes whenever it is seen.

    Args:
        stream: What every request creates.
        again: What comes when its stream is retrieved.
        rest: What comes behind a cursor.
    """
    statuses = cycle(["cancelled", "failed", "failed"])

    async def answer(request: web.Request) -> web.Response:
        if request.method == "POST" and request.path == "/responses" and (await request.read()).endswith(b"}"):
            return web.Response(body=sse(*stream), content_type="text/event-stream")
        if request.query.get("stream"):
            body = rest if "starting_after" in request.query else sse(*again)
            return web.Response(body=body, content_type="text/event-stream")
        return web.json_response({"id": "resp_a", "status": next(statuses)})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


ENDED = hello(background=True)
ENDED[0]["response"]["status"] = "completed"
WRONG: dict[str, str] = {
    "usage": "none",
    "missing_input": "a stream",
    "malformed_json": "an answer",
    "wrong_key": "an answer",
    "unknown_response": "a response",
    "background": "one that begins as completed",
    "resume": "no event",
    "replay": "another event 1",
    "cancel": "failed, then failed, and cancelled when it was retrieved",
    "cancel_ended": "failed before, failed as the answer, and cancelled afterwards",
    "cancel_foreground": "an answer of 36 bytes",
}


async def test_a_server_that_is_wrong_about_everything_fails_what_can_be_failed() -> None:
    again = [ENDED[0], ENDED[2], ENDED[1], *ENDED[3:]]
    async with wrong(ENDED, again) as url, Client(base_url=url, api_key=KEY, retry=ONCE) as client:
        found = await results(client)
    assert {result.name: result.got for result in found if result.outcome == "fail"} == WRONG


REST = numbered(ENDED)[CUT_AFTER:]


@pytest.mark.parametrize(
    ("stream", "again", "rest", "check", "outcome", "got"),
    [
        (ENDED, ENDED, sse(*REST), "resume", "pass", "events 3 to 8, the last one response.completed"),
        (ENDED, ENDED, sse(*REST), "replay", "pass", "the same 9 events"),
        (ENDED, ENDED[1:], sse(*REST), "replay", "fail", "another event 0"),
        (ENDED, [], sse(*REST), "replay", "fail", "0 events and no terminal"),
        (ENDED, ENDED, sse(*REST), "retrieve", "fail", "cancelled behind response.completed"),
        (ENDED, ENDED, sse(*REST, keepalive(sequence_number=None)), "resume", "pass", "events 3 to 8, the last one re"),
        (ENDED, ENDED, sse(*({**p, "sequence_number": None} for p in REST)), "resume", "fail", "6 events without a"),
        ([{**p, "sequence_number": None} for p in ENDED], ENDED, DONE, "resume", "fail", "events without sequence"),
        (hello(), ENDED, DONE, "background", "skip", "the server answers background=true in the foreground"),
        ([], ENDED, DONE, "background", "fail", "no response with an id"),
        ([], ENDED, DONE, "event_lines", "skip", "no event came"),
        ([], ENDED, DONE, "hang_up", "skip", "no event came"),
        ([], ENDED, DONE, "idempotency", "fail", "no response with an id"),
        ([], ENDED, DONE, "cancel_foreground", "skip", "the response has no id"),
    ],
)
async def test_what_comes_of_a_stream_decides_a_check(
    stream: list[Payload], again: list[Payload], rest: bytes, check: str, outcome: str, got: str
) -> None:
    async with wrong(stream, again, rest) as url, Client(base_url=url, retry=ONCE) as client:
        (result,) = await results(client, only=[check])
    assert result.outcome == outcome
    assert result.got.startswith(got)


@pytest.mark.filterwarnings("ignore::DeprecationWarning:uvicorn", "ignore::DeprecationWarning:websockets")
async def test_a_server_that_is_not_ours_is_told_what_it_lacks() -> None:
    pytest.importorskip("fastresponses", reason="fastresponses is not installed (group peers)")
    pytest.importorskip("uvicorn", reason="uvicorn is not installed (group peers)")
    peer = import_module("tests.test_fastresponses")
    async with peer.served() as base_url, Client(base_url=base_url, retry=ONCE) as client:
        found = await results(client, model="text")
    assert {result.name: result.got.partition(":")[0] for result in found if result.outcome == "fail"} == {
        "missing_input": "a stream",
        "resume": "NotAnEventStream",
        "replay": "NotAnEventStream",
    }
    assert names(found, "skip") == {"unknown_model", "wrong_key", "keepalive"}
