"""Connections that break everywhere: nothing is lost, nothing comes twice, and nothing is bought twice."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, pairwise, product
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from orx_rx import Accumulator, Client, ConnectionLost, StreamInterrupted, iterate
from orx_rx.http.retry import Retry
from orx_rx.models import Event, Response, ResponseIncompleteEvent, to_wire
from orx_rx.simulator import Fault, FaultPlan, Request, Script, Simulator, message, play, request_of, scenario_for
from orx_rx.simulator.frames import DONE, frame_of
from tests.servers import Ear, other_tasks, until
from tests.servers import (
    clean_environment as clean_environment,
)

pytestmark = pytest.mark.usefixtures("clean_environment")

# So many streams that measuring their coverage doubles the time, of lines that the other tests reach as well.
MANY = pytest.mark.no_cover

AT_ONCE = Retry(first=0, most=0)
EVENTS = 101  # of the stream with every kind of item
SMALL = "small"
AT_A_TIME = 8


@cache
def unbroken(model: str) -> Sequence[Any]:
    request = request_of({"model": model, "input": "x", "background": True, "stream": True})
    return [to_wire(event) for event in play(scenario_for(request), Script(request))]


def tiny(script: Script) -> Iterator[Event]:
    """Begin a message, and break off."""
    yield from message(script, ["x"], status="in_progress")
    yield ResponseIncompleteEvent(response=script.response("incomplete"))


def small(number: int) -> Sequence[Event]:
    """Play the smallest stream that there is: it is the `number`th response."""
    request = request_of({"model": SMALL, "input": "x", "background": True, "stream": True})
    return list(play(tiny, Script(request, number)))


@pytest.fixture
def small_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the simulator leave out the fields of a response that nobody needs."""

    def blank(_: Request, *, id: str, number: int) -> Response:
        return Response(id=id, status="in_progress", output=[], background=True)

    monkeypatch.setattr("orx_rx.simulator.script.blank_response", blank)


@dataclass(frozen=True)
class OneEach(FaultPlan):
    """A fault for every response, in the order in which they are asked for.

    Attributes:
        left: The faults of those that are to come.
    """

    left: Iterator[Fault] = field(default_factory=lambda: iter(()))

    def concerning(self, connection: int | None, request: int, method: str) -> list[Fault]:
        """Take the next fault for every POST."""
        return [next(self.left)] if method == "POST" else []


def client_of(simulator: Simulator, session: aiohttp.ClientSession | None = None) -> Client:
    return Client(base_url=simulator.base_url, retry=AT_ONCE, session=session)


async def survive(model: str, *faults: Fault) -> int:
    """Read a background stream that breaks, hold it against the unbroken one, and count the connections."""
    seen = Accumulator()
    async with Simulator(faults=faults) as simulator:
        async with client_of(simulator) as client:
            stream = client.events(model=model, input="x", background=True, into=seen)
            async with iterate(stream) as reading:
                got = [to_wire(event) async for event in reading]
        methods = [request.method for request in simulator.requests]
        assert got == unbroken(model), faults
        assert seen.response is not None
        assert to_wire(seen.response) == got[-1]["response"], faults
        assert methods == ["POST", *["GET"] * (len(methods) - 1)], faults
        assert simulator.overlaps == 0, faults
        await until(lambda: simulator.connections == 0)
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


@MANY
@pytest.mark.parametrize("kind", ["fin", "rst", "eof"])
async def test_a_cut_after_any_event_is_not_seen(kind: str) -> None:
    cuts = range(1, EVENTS + 1)
    counts = await survive_all(
        "everything", [[Fault("cut", connection=0, after_events=cut, kind=kind)] for cut in cuts]
    )
    assert counts == [2] * (EVENTS - 1) + [1]  # behind the terminal there is nothing to go on with


@MANY
@pytest.mark.usefixtures("small_responses")
@pytest.mark.parametrize("kind", ["fin", "rst"])
async def test_a_cut_after_any_byte_is_not_seen(kind: str) -> None:
    frames = [*map(frame_of, small(1)), DONE]
    *_, terminal, end = ends = list(accumulate(map(len, frames)))
    cuts = range(end + 1)
    before = other_tasks()
    async with Simulator(scenarios={SMALL: tiny}) as simulator:
        simulator.faults = OneEach(left=iter([Fault("cut", after_bytes=cut, kind=kind) for cut in cuts]))
        # a session of the test's own, since a client that has none looks for proxies at every request
        async with aiohttp.ClientSession() as session, client_of(simulator, session) as client:
            few = asyncio.Semaphore(AT_A_TIME)

            async def read(name: str) -> tuple[list[Any], Exception | None]:
                stream = client.events(model=SMALL, input="x", background=True, headers={"X-Name": name})
                got: list[Any] = []
                try:
                    async with few, iterate(stream) as reading:
                        async for event in reading:
                            got.append(to_wire(event))
                except ConnectionLost as error:
                    return got, error
                return got, None

            names = list(map(str, cuts))
            read_by = dict(zip(names, await asyncio.gather(*map(read, names)), strict=True))
        assert simulator.overlaps == 0
        asked_by: dict[str, list[str]] = {}
        for request in simulator.requests:
            asked_by.setdefault(request.headers["x-name"], []).append(f"{request.method} {request.path}")
        await simulator.wait_for(lambda s: s.connections == 0)
    await until(lambda: other_tasks() <= before)
    # the streams were asked for in the order of `asked_by`, and cut and numbered in that
    assert len(asked_by) == len(cuts)
    for number, (cut, name) in enumerate(zip(cuts, asked_by, strict=True), 1):
        got, error = read_by[name]
        rest = [f"GET /v1/responses/resp_{number:04d}"] if ends[0] <= cut < terminal else []
        assert asked_by[name] == ["POST /v1/responses", *rest], cut
        if cut < ends[0]:  # nobody knows the response
            assert (got, type(error)) == ([], ConnectionLost), cut
        else:
            assert (got, error) == ([to_wire(event) for event in small(number)], None), cut


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


@MANY
@pytest.mark.usefixtures("small_responses")
async def test_1000_interrupted_streams_leave_nothing() -> None:
    tasks, sockets = other_tasks(), open_sockets()
    blocks: list[int] = []
    async with Simulator(scenarios={SMALL: tiny}) as simulator:
        serving = other_tasks()
        async with client_of(simulator) as client:
            for first in range(1, 1_001, 200):
                for number, (kind, after) in enumerate(product(("fin", "rst", "eof", "stall"), range(1, 6))):
                    await interrupt_ten(simulator, client, kind, after, first + 10 * number)
                await simulator.wait_for(lambda s: s.open_streams == 0)
                # although the client is still open
                await until(lambda: not any(task.get_name().startswith("orx_rx") for task in other_tasks() - serving))
                gc.collect()
                blocks.append(sys.getallocatedblocks())
        await simulator.wait_for(lambda s: s.connections == 0)
    await until(lambda: other_tasks() <= tasks and open_sockets() == sockets)
    # what a stream leaves, it leaves in every round, and half of the 200 are enough; caches grow in some
    assert min(after - before for before, after in pairwise(blocks)) < 100, blocks


async def interrupt_ten(simulator: Simulator, client: Client, kind: str, after: int, first: int) -> None:
    """Interrupt ten streams, half of them in the background, after some events; the simulator forgets them."""
    stalls = kind == "stall"
    fault = Fault("stall", after_events=after) if stalls else Fault("cut", method="POST", after_events=after, kind=kind)
    simulator.faults = FaultPlan((fault,))

    async def one(number: int) -> tuple[int, type[Exception] | None]:
        background = number % 2 == 0
        events = client.events(model=SMALL, input="x", background=background)
        if stalls and number % 4 < 2:
            ear = await Ear(events).heard(after)
            ear.subscription.dispose()
            return len(ear.elements), None
        count = 0
        try:
            async with iterate(events) as reading:
                async for _ in reading:
                    count += 1
                    if stalls and count == after:
                        break
        except StreamInterrupted as error:
            return count, type(error)
        return count, None

    ends = await asyncio.gather(*map(one, range(10)))
    whole = len(small(1))
    assert ends == [(after, None)] * 10 if stalls else [(whole, None), (after, StreamInterrupted)] * 5
    for number in range(first, first + 10):
        simulator.forget(f"resp_{number:04d}")
    simulator.requests.clear()


def open_sockets() -> int | None:
    """Count the sockets of this process, where the system tells."""
    descriptors = Path("/proc/self/fd")
    if not descriptors.is_dir():
        return None
    links = [path.readlink().name for path in descriptors.iterdir() if path.is_symlink()]
    return sum(link.startswith("socket:") for link in links)
