"""The simulator in the background: responses that go on without a connection, and come back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from orx_rx.models import Event, TerminalEvent, to_wire
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.simulator import SCENARIOS, ApiError, Script, Simulator, message, play, request_of, scenario_for
from orx_rx.simulator.frames import DONE, frame_of
from tests.test_simulator import asking, read_strictly

Body = Mapping[str, Any]


def in_background(model: str = "story", **fields: Any) -> dict[str, Any]:
    return asking(model, background=True, **fields)


def frames(body: Body) -> list[bytes]:
    request = request_of(body)
    return [*map(frame_of, play(scenario_for(request), Script(request))), DONE]


@asynccontextmanager
async def asked(simulator: Simulator, method: str, path: str, body: object = None) -> AsyncGenerator[Any]:
    url = simulator.base_url + path
    async with aiohttp.ClientSession() as session, session.request(method, url, json=body) as response:
        yield response


async def read(simulator: Simulator, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    async with asked(simulator, method, path, body) as response:
        return response.status, await response.read()


async def json_of(simulator: Simulator, method: str, path: str, body: object = None) -> dict[str, Any]:
    status, data = await read(simulator, method, path, body)
    assert status == 200, data
    return dict(json.loads(data))


async def refused(simulator: Simulator, method: str, path: str, body: object = None) -> tuple[int, str]:
    status, data = await read(simulator, method, path, body)
    error = json.loads(data)["error"]
    assert error["type"] == "invalid_request_error"
    return status, str(error["message"])


async def completed(simulator: Simulator, *, stream: bool = True) -> str:
    """Make a background response, and wait until it is completed."""
    await read(simulator, "POST", "/responses", in_background("long-3", stream=stream))
    response_id = f"resp_{len(simulator.requests):04d}"
    await simulator.wait_for(lambda s: s.status_of(response_id) == "completed")
    return response_id


# what a background response says


@pytest.mark.parametrize("model", list(SCENARIOS))
def test_a_background_stream_conforms_to_open_responses(model: str) -> None:
    events, _, found = read_strictly(frames(in_background(model)))
    assert found == []
    assert [event.type for event in events[:3]] == ["response.created", "response.queued", "response.in_progress"]
    assert [to_wire(event)["response"]["status"] for event in events[:3]] == ["queued", "queued", "in_progress"]
    assert isinstance(events[-1], TerminalEvent)
    assert (events[-1].response.background, to_wire(events[-1].response)["store"]) == (True, True)


def test_a_background_response_has_to_be_stored() -> None:
    with pytest.raises(ApiError, match="store=true") as caught:
        request_of(in_background(store=False))
    assert (caught.value.status, caught.value.param) == (400, "store")


def test_background_is_a_boolean() -> None:
    with pytest.raises(ApiError, match="expected a boolean"):
        request_of(asking(background="yes"))


# running


async def test_a_background_stream_is_what_was_played() -> None:
    async with Simulator() as simulator:
        body = in_background("everything", stream=True)
        assert await read(simulator, "POST", "/responses", body) == (200, b"".join(frames(body)))
    assert simulator.disconnects == 0


async def test_without_a_stream_the_answer_comes_at_once() -> None:
    async with Simulator(hold=0) as simulator:
        response = await json_of(simulator, "POST", "/responses", in_background())
        assert (response["status"], response["background"], response["output"]) == ("queued", True, [])
        simulator.release()
        await simulator.wait_for(lambda s: s.status_of("resp_0001") == "completed")
        final = await json_of(simulator, "GET", "/responses/resp_0001")
    assert final["output"][0]["content"][0]["text"].startswith("You said")


@pytest.mark.parametrize(("held", "status"), [(0, "queued"), (2, "queued"), (3, "in_progress"), (99, "completed")])
async def test_a_response_is_retrieved_as_it_stands(held: int, status: str) -> None:
    async with Simulator(hold=held) as simulator:
        await read(simulator, "POST", "/responses", in_background("long-3"))
        await simulator.wait_for(lambda s: s.status_of("resp_0001") == status)
        assert (await json_of(simulator, "GET", "/responses/resp_0001"))["status"] == status


async def test_what_is_done_is_in_the_output_of_a_response_in_progress() -> None:
    def two(script: Script) -> Iterator[Event]:
        yield from message(script, ["One"])
        yield from message(script, ["Two"])

    body = in_background("two", stream=True)
    two_items = Simulator(scenarios={"two": two}, hold=10)
    async with two_items as simulator, asked(simulator, "POST", "/responses", body) as stream:
        await stream.content.readuntil(b"response.output_item.done")
        response = await json_of(simulator, "GET", "/responses/resp_0001")
    assert response["status"] == "in_progress"
    assert [item["content"][0]["text"] for item in response["output"]] == ["One"]


async def test_a_background_response_goes_on_without_its_connection() -> None:
    async with Simulator(hold=4) as simulator:
        async with asked(simulator, "POST", "/responses", in_background("long-3", stream=True)) as response:
            await response.content.readuntil(b"\n\n")
            response.close()
        await simulator.wait_for(lambda s: s.disconnects == 1)
        assert simulator.status_of("resp_0001") == "in_progress"
        simulator.release()
        await simulator.wait_for(lambda s: s.status_of("resp_0001") == "completed")


async def test_a_foreground_response_ends_with_its_connection() -> None:
    async with Simulator(hold=4) as simulator:
        async with asked(simulator, "POST", "/responses", asking("long-3", stream=True)) as response:
            await response.content.readuntil(b"\n\n")
            response.close()
        await simulator.wait_for(lambda s: s.disconnects == 1)
        assert simulator.status_of("resp_0001") is None
        assert (await refused(simulator, "GET", "/responses/resp_0001?stream=true"))[0] == 404


async def test_the_pace_is_that_of_the_response() -> None:
    async with Simulator(pace=1e-6) as simulator:
        body = in_background("long-3", stream=True)
        assert await read(simulator, "POST", "/responses", body) == (200, b"".join(frames(body)))


async def test_a_conversation_goes_on_from_a_background_response() -> None:
    async with Simulator() as simulator:
        response_id = await completed(simulator)
        second = await json_of(simulator, "POST", "/responses", asking(previous_response_id=response_id))
    assert second["previous_response_id"] == response_id


async def test_a_scenario_that_raises_ends_its_streams() -> None:
    def broken(script: Script) -> Iterator[Event]:
        yield from message(script, ["One"])
        raise ZeroDivisionError

    seen: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context.get("exception")))
    async with Simulator(scenarios={"broken": broken}) as simulator:
        _, data = await read(simulator, "POST", "/responses", in_background("broken", stream=True))
    assert data.count(b"\n\n") == 9
    assert DONE not in data


async def test_stopping_ends_what_runs_in_the_background() -> None:
    async with Simulator(hold=3) as simulator:
        await read(simulator, "POST", "/responses", in_background())
        await simulator.wait_for(lambda s: s.status_of("resp_0001") == "in_progress")
    assert len(asyncio.all_tasks()) == 1


# streaming it again


@pytest.mark.parametrize("after", [None, 0, 1, 5, 10, 11, 99])
async def test_a_finished_stream_is_repeated_behind_the_cursor(after: int | None) -> None:
    body = in_background("long-3", stream=True)
    async with Simulator() as simulator:
        response_id = await completed(simulator)
        cursor = "" if after is None else f"&starting_after={after}"
        status, data = await read(simulator, "GET", f"/responses/{response_id}?stream=true{cursor}")
    *events, done = frames(body)
    assert len(events) == 12
    assert (status, data) == (200, b"".join([*events[0 if after is None else after + 1 :], done]))


@pytest.mark.parametrize("held", range(12))
async def test_a_running_stream_is_repeated_and_followed(held: int) -> None:
    body = in_background("long-3", stream=True)
    async with Simulator(hold=held) as simulator:
        async with asked(simulator, "POST", "/responses", body) as first:
            seen = b"".join(frames(body)[:held])
            assert await first.content.readexactly(len(seen)) == seen
            first.close()
        await simulator.wait_for(lambda s: s.disconnects == 1)
        cursor = max(held - 2, 0)
        async with asked(simulator, "GET", f"/responses/resp_0001?stream=true&starting_after={cursor}") as rest:
            simulator.release()
            assert await rest.read() == b"".join(frames(body)[cursor + 1 :])
    assert (simulator.overlaps, simulator.disconnects) == (0, 1)


async def test_several_may_follow_at_once_and_that_is_an_overlap() -> None:
    body = in_background("long-3", stream=True)
    async with Simulator(hold=5) as simulator:
        async with (
            asked(simulator, "POST", "/responses", body) as first,
            asked(simulator, "GET", "/responses/resp_0001?stream=true") as second,
        ):
            simulator.release()
            assert await first.read() == await second.read() == b"".join(frames(body))
        assert (simulator.overlaps, simulator.most_connections, simulator.disconnects) == (1, 2, 0)
        await simulator.wait_for(lambda s: s.connections == 0)


async def test_streams_of_two_responses_do_not_overlap() -> None:
    async with Simulator(hold=5) as simulator:
        body = in_background(stream=True)
        async with asked(simulator, "POST", "/responses", body), asked(simulator, "POST", "/responses", body):
            assert simulator.open_streams == 2
        assert simulator.overlaps == 0


async def test_a_stream_begins_where_the_cursor_of_a_rebuilt_response_is() -> None:
    async with Simulator() as simulator:
        response_id = await completed(simulator)
        _, data = await read(simulator, "GET", f"/responses/{response_id}?stream=true")
        _, accumulator, found = read_strictly([data])
        retrieved = await json_of(simulator, "GET", f"/responses/{response_id}")
    assert found == []
    assert isinstance(accumulator, Accumulator)
    assert json.loads(json.dumps(to_wire(accumulator.final_response))) == retrieved


# what cannot be had


@pytest.mark.parametrize("query", ["", "?stream=true", "?stream=true&starting_after=3"])
async def test_an_unknown_response_is_not_found(query: str) -> None:
    async with Simulator() as simulator:
        assert await refused(simulator, "GET", f"/responses/none{query}") == (404, "Response with id 'none' not found.")
        assert await refused(simulator, "POST", "/responses/none/cancel") == (404, "Response with id 'none' not found.")


@pytest.mark.parametrize("cursor", ["-1", "x", "", "1.5", "9" * 5_000, "٣"])
async def test_a_cursor_is_a_whole_number(cursor: str) -> None:
    async with Simulator() as simulator:
        response_id = await completed(simulator)
        status, said = await refused(simulator, "GET", f"/responses/{response_id}?stream=true&starting_after={cursor}")
    assert status == 400
    assert "whole number of at least 0" in said


async def test_stream_is_true_or_false() -> None:
    async with Simulator() as simulator:
        response_id = await completed(simulator)
        assert (await json_of(simulator, "GET", f"/responses/{response_id}?stream=false"))["id"] == response_id
        assert (await refused(simulator, "GET", f"/responses/{response_id}?stream=1"))[0] == 400


@pytest.mark.parametrize("fields", [{"stream": True}, {"background": True}, {}])
async def test_only_background_streams_can_be_streamed_again(fields: Body) -> None:
    async with Simulator() as simulator:
        await read(simulator, "POST", "/responses", asking("long-3", **fields))
        await simulator.wait_for(lambda s: s.status_of("resp_0001") == "completed")
        status, said = await refused(simulator, "GET", "/responses/resp_0001?stream=true")
        assert (await json_of(simulator, "GET", "/responses/resp_0001"))["status"] == "completed"
    assert status == 400
    assert "background=true" in said


async def test_an_expired_response_cannot_be_streamed_but_retrieved() -> None:
    async with Simulator() as simulator:
        response_id = await completed(simulator)
        simulator.expire(response_id)
        status, said = await refused(simulator, "GET", f"/responses/{response_id}?stream=true&starting_after=3")
        assert (await json_of(simulator, "GET", f"/responses/{response_id}"))["status"] == "completed"
    assert status == 400
    assert "can no longer be streamed because it is more than 5 minutes old" in said


async def test_a_forgotten_response_is_not_found() -> None:
    async with Simulator() as simulator:
        response_id = await completed(simulator)
        simulator.forget(response_id)
        assert simulator.status_of(response_id) is None
        assert (await refused(simulator, "GET", f"/responses/{response_id}"))[0] == 404
        assert (await refused(simulator, "POST", f"/responses/{response_id}/cancel"))[0] == 404


def test_what_is_not_there_cannot_be_expired_or_forgotten() -> None:
    simulator = Simulator()
    with pytest.raises(LookupError, match="expected a background response among none, got 'x'"):
        simulator.expire("x")
    with pytest.raises(LookupError, match="expected a response among none, got 'x'"):
        simulator.forget("x")


# cancelling


async def test_a_cancelled_stream_ends_without_a_terminal_event() -> None:
    body = in_background("long-3", stream=True)
    async with Simulator(hold=5) as simulator:
        async with asked(simulator, "POST", "/responses", body) as stream:
            seen = b"".join(frames(body)[:5])
            assert await stream.content.readexactly(len(seen)) == seen
            response = await json_of(simulator, "POST", "/responses/resp_0001/cancel")
            assert await stream.read() == b""
        assert response["status"] == "cancelled"
        assert await json_of(simulator, "POST", "/responses/resp_0001/cancel") == response
        assert await json_of(simulator, "GET", "/responses/resp_0001") == response
        assert await read(simulator, "GET", "/responses/resp_0001?stream=true") == (200, seen)
    assert simulator.disconnects == 0


async def test_a_finished_response_is_not_cancelled() -> None:
    async with Simulator() as simulator:
        response_id = await completed(simulator)
        cancelled = await json_of(simulator, "POST", f"/responses/{response_id}/cancel")
        assert cancelled == await json_of(simulator, "GET", f"/responses/{response_id}")
    assert cancelled["status"] == "completed"


async def test_a_terminal_that_was_sent_wins_over_a_cancel() -> None:
    body = in_background("long-3", stream=True)
    async with Simulator(hold=12) as simulator, asked(simulator, "POST", "/responses", body) as stream:
        await simulator.wait_for(lambda s: s.status_of("resp_0001") == "completed")
        assert (await json_of(simulator, "POST", "/responses/resp_0001/cancel"))["status"] == "completed"
        simulator.release()
        assert await stream.read() == b"".join(frames(body))


async def test_a_foreground_response_cannot_be_cancelled() -> None:
    async with Simulator(hold=3) as simulator, asked(simulator, "POST", "/responses", asking(stream=True)):
        expected = (400, "Cannot cancel a synchronous response.")
        assert await refused(simulator, "POST", "/responses/resp_0001/cancel") == expected


# the openai package


@pytest.mark.parametrize("seen", [1, 5, 12])
async def test_openai_resumes_where_it_stopped(seen: int) -> None:
    openai = pytest.importorskip("openai", reason="expected the package `openai`, found none")
    expected = [event.type for event in play(SCENARIOS["story"], Script(request_of(in_background())))]
    async with (
        Simulator(hold=seen) as simulator,
        openai.AsyncOpenAI(base_url=simulator.base_url, api_key="k", max_retries=0) as client,
    ):
        first: list[Any] = []
        async with await client.responses.create(
            model="story", input="Tell me about cats", background=True, stream=True
        ) as stream:
            async for event in stream:
                first.append(event)
                if len(first) == seen:
                    break
        await simulator.wait_for(lambda s: s.disconnects == 1)
        simulator.release()
        response_id, cursor = first[0].response.id, first[-1].sequence_number
        async with await client.responses.retrieve(response_id, stream=True, starting_after=cursor) as stream:
            rest = [event async for event in stream]
        retrieved = await client.responses.retrieve(response_id)
        cancelled = await client.responses.cancel(response_id)
    assert [event.sequence_number for event in (*first, *rest)] == list(range(len(expected)))
    assert [event.type for event in (*first, *rest)] == expected
    assert rest[-1].response.output_text == retrieved.output_text == cancelled.output_text
    assert [request.method for request in simulator.requests].count("POST") == 2
    assert simulator.overlaps == 0
