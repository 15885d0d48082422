"""Our client and our simulator over a real socket, from the first byte to the last."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from orx_rx import Client, final_response, iterate
from orx_rx import operators as ops
from orx_rx.models import ResponseTextDeltaEvent
from orx_rx.simulator import Simulator
from tests.servers import clean_environment as clean_environment
from tests.servers import other_tasks, turns


@pytest.mark.parametrize("chunk_bytes", [None, 1, 7, 1_460])
async def test_however_the_network_cuts_it_the_answer_is_the_same(chunk_bytes: int | None) -> None:
    async with Simulator(chunk_bytes=chunk_bytes) as simulator, Client(base_url=simulator.base_url) as client:
        events = client.events(model="reasoning", input="How far is the moon?").pipe(ops.fan_out())
        pieces: list[str] = []
        events.pipe(ops.text()).subscribe(pieces.append)
        response = await final_response(events)
    assert response.status == "completed"
    assert "".join(pieces) == response.output_text == "After some thought: forty-two."
    assert len(simulator.requests) == 1


async def test_disposing_in_mid_stream_is_seen_by_the_server_and_leaves_nothing() -> None:
    async with aiohttp.ClientSession() as session, Simulator(hold=10) as simulator:
        client = Client(base_url=simulator.base_url, session=session)
        before = other_tasks()
        async with iterate(client.events(model="story", input="Tell me one")) as reading:
            async for event in reading:
                if isinstance(event, ResponseTextDeltaEvent):
                    break
        await simulator.wait_for(lambda s: s.disconnects == 1)
        await turns()
        assert simulator.open_streams == 0
        assert session.connector is not None
        assert not session.connector._acquired  # pyright: ignore[reportPrivateUsage] - there is no public way to ask
        assert not [task for task in other_tasks() if task not in before and "orx_rx" in task.get_name()]
        # the client goes on working
        simulator.release()
        async with iterate(client.events(model="json", input="x")) as reading:
            first = await anext(reading)
        assert first.type == "response.created"


async def test_cancelling_the_task_that_reads_closes_the_socket() -> None:
    async with Simulator(hold=10) as simulator, Client(base_url=simulator.base_url) as client:
        task = asyncio.create_task(final_response(client.events(model="story", input="Tell me one")))
        await simulator.wait_for(lambda s: s.open_streams == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await simulator.wait_for(lambda s: s.disconnects == 1 and s.open_streams == 0)
