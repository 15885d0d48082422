"""Connections that break everywhere: nothing is lost, nothing comes twice, and nothing is bought twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import pytest

from orx_rx import Accumulator, Client, StreamInterrupted, iterate
from orx_rx.http.retry import Retry
from orx_rx.models import to_wire
from orx_rx.simulator import Fault, FaultPlan, Script, Simulator, play, request_of, scenario_for
from orx_rx.simulator.frames import DONE, frame_of
from tests.servers import (
    clean_environment as clean_environment,
)
from tests.servers import other_tasks, until

pytestmark = pytest.mark.usefixtures("clean_environment")

AT_ONCE = Retry(first=0, most=0)
EVENTS = 101  # of the stream with every kind of item
SHORT = "long-1"
AT_A_TIME = 8


@cache
def frames(model: str) -> Sequence[bytes]:
    """Write what an unbroken stream sends, `[DONE]` included."""
    request = request_of({"model": model, "input": "x", "background": True, "stream": True})
    return [*map(frame_of, play(scenario_for(request), Script(request))), DONE]


@cache
def unbroken(model: str) -> Sequence[Any]:
    request = request_of({"model": model, "input": "x", "background": True, "stream": True})
    return [to_wire(event) for event in play(scenario_for(request), Script(request))]


async def survive(model: str, *faults: Fault) -> int:
    """Read a background stream that breaks, hold it against the unbroken one, and count the connections."""
    seen = Accumulator()
    async with Simulator(faults=faults) as simulator:
        async with Client(base_url=simulator.base_url, retry=AT_ONCE) as client:
            stream = client.events(model=model, input="x", background=True, into=seen)
            async with iterate(stream) as reading:
                got = [to_wire(event) async for event in reading]
        methods = [request.method for request in simulator.requests]
        assert got == unbroken(model), faults
        assert seen.response is not None
        assert to_wire(seen.response) == got[-1]["response"], faults
        assert methods == ["POST", *["GET"] * (len(methods) - 1)], faults
        assert simulator.overlaps == 0, faults
        await simulator.wait_for(lambda s: s.connections == 0)
    return len(methods)


async def survive_all(model: str, plans: Sequence[Sequence[Fault]]) -> list[int]:
    """Read a stream for every plan of faults, some at a time."""
    few = asyncio.Semaphore(AT_A_TIME)

    async def one(plan: Sequence[Fault]) -> int:
        async with few:
            return await survive(model, *plan)

    before = other_tasks()
    counts = await asyncio.gather(*map(one, plans))
    await until(lambda: other_tasks() <= before)
    return counts


def test_the_stream_with_every_kind_of_item_has_so_many_events() -> None:
    assert len(unbroken("everything")) == EVENTS


@pytest.mark.parametrize("kind", ["fin", "rst", "eof"])
async def test_a_cut_after_any_event_is_not_seen(kind: str) -> None:
    cuts = range(1, EVENTS + 1)
    counts = await survive_all(
        "everything", [[Fault("cut", connection=0, after_events=cut, kind=kind)] for cut in cuts]
    )
    assert counts == [2] * (EVENTS - 1) + [1]  # behind the terminal there is nothing to go on with


@pytest.mark.parametrize("kind", ["fin", "rst"])
async def test_a_cut_after_any_byte_is_not_seen(kind: str) -> None:
    lengths = [len(frame) for frame in frames(SHORT)]
    ends = list(accumulate(lengths))
    # from the first byte of the second event on, since before that nobody knows the response
    cuts = sorted({*range(ends[0], ends[-1], 7), *(end + by for end in ends for by in (-2, -1, 0, 1) if end > ends[0])})
    await survive_all(SHORT, [[Fault("cut", connection=0, after_bytes=cut, kind=kind)] for cut in cuts])


@pytest.mark.parametrize("kind", ["fin", "rst", "eof"])
async def test_connections_that_bring_one_event_each_are_enough(kind: str) -> None:
    assert await survive("everything", Fault("cut", after_events=1, kind=kind)) == EVENTS


@pytest.mark.parametrize("kind", ["fin", "rst"])
@pytest.mark.parametrize("cut", [2, 3, 5, 8, 13, 21, 34, 55, 89])
async def test_connections_that_bring_some_events_each_are_enough(kind: str, cut: int) -> None:
    assert await survive("everything", Fault("cut", after_events=cut, kind=kind)) == -(-EVENTS // cut)


@pytest.mark.parametrize(
    "between",
    [
        [Fault("refuse", connection=1, kind="rst"), Fault("refuse", connection=2)],
        [Fault("status", connection=1, status=503), Fault("status", connection=2, status=429)],
        [Fault("cut", connection=1, after_events=0), Fault("cut", connection=2, after_bytes=10, kind="rst")],
        [Fault("ignore_cursor", connection=1)],
        [Fault("duplicate", connection=1, at=0)],
        [Fault("slow", connection=1, size=50)],
    ],
    ids=lambda plan: "+".join(fault.name for fault in plan),
)
@pytest.mark.parametrize("cut", [1, 2, 3, 4, 17, 50, 99, 100])
async def test_what_goes_wrong_while_resuming_is_not_seen(cut: int, between: list[Fault]) -> None:
    await survive("everything", Fault("cut", connection=0, after_events=cut), *between)


async def test_300_interrupted_streams_leave_nothing() -> None:
    few = asyncio.Semaphore(AT_A_TIME)
    before = other_tasks()
    async with Simulator() as simulator:
        serving = other_tasks()
        async with Client(base_url=simulator.base_url, retry=AT_ONCE) as client:

            async def interrupted(number: int) -> Exception | None:
                background = number % 3 == 0
                try:
                    async with few, iterate(client.events(model=SHORT, input="x", background=background)) as reading:
                        got = [event async for event in reading]
                except StreamInterrupted as error:
                    return error
                assert len(got) == len(unbroken(SHORT))
                return None

            kinds = ("fin", "rst", "eof")
            simulator.faults = FaultPlan.of(
                Fault("cut", method="POST", connection=number, after_events=1 + number % 5, kind=kinds[number % 3])
                for number in range(600)
            )
            ends = await asyncio.gather(*map(interrupted, range(300)))
            await until(lambda: other_tasks() - serving <= _of_connections(simulator))
        assert sum(end is not None for end in ends) >= 200  # those in the foreground
        await simulator.wait_for(lambda s: s.connections == 0 and s.open_streams == 0)
        assert len([request for request in simulator.requests if request.method == "POST"]) == 300
    await until(lambda: other_tasks() <= before)


def _of_connections(_: Simulator) -> set[asyncio.Task[Any]]:
    """Find the tasks of the server's side."""
    return {task for task in other_tasks() if not task.get_name().startswith("orx_rx")}
