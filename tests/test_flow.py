"""Slow consumers: the socket is paused, whatever stands between, and what the other policies do instead."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, TypeVar

import aiohttp
import pytest
import reactivex
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import Observable
from reactivex import operators as rx
from reactivex.scheduler import NewThreadScheduler
from reactivex.scheduler.eventloop import AsyncIOScheduler
from reactivex.subject import Subject
from reactivex.testing import TestScheduler

from orx_rx import (
    Client,
    ConnectionLost,
    ConsumerTooSlow,
    StreamInterrupted,
    StreamTimeout,
    Timeouts,
    final_response,
    iterate,
)
from orx_rx import operators as ops
from orx_rx.aio import Iteration
from orx_rx.flow import Flow, current_flow, subscribing
from orx_rx.http.timeouts import watch_events
from orx_rx.inbox import Overflow
from orx_rx.models import Event, ResponseCompletedEvent, ResponseTextDeltaEvent, ResponseTextDoneEvent, TerminalEvent
from orx_rx.protocol.channels import DELTA_CHANNELS
from orx_rx.protocol.conflation import merged, where_of
from orx_rx.simulator import Script, Simulator, message, play, request_of, scenario_for
from tests import chain
from tests.servers import Ear, other_tasks, turns, until
from tests.servers import clean_environment as clean_environment
from tests.sources import Source, at_once

pytestmark = pytest.mark.usefixtures("clean_environment")

WIDE = "wide"
DELTAS = 500  # of four kilobytes: two megabytes, which is more than all the buffers between hold
EVENTS = DELTAS + 8
MARK = 256
E = TypeVar("E", bound=Exception)


@asynccontextmanager
async def running(**options: Any) -> AsyncGenerator[tuple[Simulator, Client]]:
    """Run a simulator and a client whose sockets hold little, and check that nothing is left."""
    before = other_tasks()
    async with Simulator(scenarios={WIDE: wide}, **options) as simulator:
        connector = aiohttp.TCPConnector(limit=0, socket_factory=_small_socket)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            Client(base_url=simulator.base_url, session=session) as client,
        ):
            yield simulator, client
        await simulator.wait_for(lambda s: s.connections == 0, timeout=60)
    await until(lambda: other_tasks() <= before)


def _small_socket(info: Any) -> socket.socket:
    family, kind, protocol, _, _ = info
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
    made.setblocking(False)
    return made


def wide(script: Script) -> Iterator[Event]:
    yield from message(script, ["x" * 4_000] * DELTAS)
    yield ResponseCompletedEvent(response=script.response("completed"))


def long(client: Client, **options: Any) -> Observable[Event]:
    return client.events(model=WIDE, input="x", **options)


class Chunks:
    """Counts the events of every chunk, where they pass."""

    def __init__(self) -> None:
        self.most = 0

    def counted(self, client: Client, model: str = WIDE) -> Observable[Event]:
        """Read a stream, and count."""
        count = 0

        def passed(_: Event) -> None:
            nonlocal count
            count += 1
            self.most = max(self.most, count)

        def chunk(_: bytes) -> None:
            nonlocal count
            count = 0

        return client.chunks(model=model, input="x").pipe(
            rx.do_action(chunk),
            ops.frame(),
            ops.decode(),
            ops.sequence_check(),
            ops.lifecycle_guard(),
            ops.accumulate(),
            rx.do_action(passed),
        )


async def read_slowly(
    reading: Iteration[Event], most: Callable[[], int], every: int = 100
) -> tuple[list[int | None], int]:
    """Read to the end, let others run now and then, and say how much waited at most beyond what may."""
    numbers: list[int | None] = []
    beyond = 0
    async with reading:
        async for event in reading:
            numbers.append(event.sequence_number)
            beyond = max(beyond, reading.waiting + 1 - most())
            if len(numbers) % every == 0:
                await turns(20)
    return numbers, beyond


# the source pauses


async def test_a_slow_reader_pauses_the_socket_and_gets_everything() -> None:
    async with running() as (simulator, client):
        chunks = Chunks()
        reading = iterate(chunks.counted(client, "long-20000"))
        first = await anext(reading)
        await simulator.wait_for(lambda s: s.blocked_streams == 1, timeout=60)
        held = reading.waiting
        await turns(50)
        assert reading.waiting == held < MARK + chunks.most + 1
        assert simulator.blocked_streams == 1  # the server waits; it is not we who keep what it sends
        numbers, beyond = await read_slowly(reading, lambda: MARK + chunks.most)
        assert [first.sequence_number, *numbers] == list(range(20_008))
        assert beyond <= 0
        assert (reading.dropped, reading.merged) == (0, 0)


@pytest.mark.parametrize(("buffer", "resume_at"), [(1, None), (2, None), (10, 9), (10, 0), (400, None)])
async def test_the_marks_of_a_pause_can_be_chosen(buffer: int, resume_at: int | None) -> None:
    async with running() as (simulator, client):
        chunks = Chunks()
        reading = iterate(chunks.counted(client), buffer=buffer, resume_at=resume_at)
        await anext(reading)
        await simulator.wait_for(lambda s: s.blocked_streams == 1, timeout=60)
        numbers, beyond = await read_slowly(reading, lambda: buffer + chunks.most, 1_000)
        assert numbers == list(range(1, EVENTS))
        assert beyond <= 0


async def test_memory_is_flat_while_a_reader_is_slow() -> None:
    async with running() as (_, client):
        events = client.events(model="long-10000", input="x").pipe(rx.do_action(lambda _: None))
        read = 0
        gc.collect()
        tracemalloc.start()
        try:
            async with iterate(events, buffer=64) as reading:
                async for _ in reading:
                    read += 1
                    if read == 2_000:
                        tracemalloc.reset_peak()
                        early = tracemalloc.get_traced_memory()[0]
                    if read % 500 == 0:
                        await turns(20)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert read == 10_008
    # the text itself, its pieces and the terminal, and not 8,000 events
    assert peak - early < 2_000_000  # pyright: ignore[reportPossiblyUnboundVariable]


async def test_a_reader_that_leaves_in_a_pause_leaves_nothing() -> None:
    async with running() as (simulator, client):
        for _ in range(20):
            async with iterate(long(client), buffer=10) as reading:
                await anext(reading)
                await until(lambda: reading.waiting >= 10)
        await simulator.wait_for(lambda s: s.open_streams == 0, timeout=60)


async def test_a_reader_that_is_dropped_in_a_pause_lets_the_others_go_on() -> None:
    async with running() as (simulator, client):
        shared = long(client).pipe(ops.fan_out())
        ear = Ear(shared)
        reading = iterate(shared, buffer=10)
        async for _event in reading:
            break
        await simulator.wait_for(lambda s: s.blocked_streams == 1, timeout=60)
        del reading
        gc.collect()
        assert (await ear.ended()).completed
        assert len(ear.elements) == EVENTS


async def test_a_connection_that_is_closed_in_a_pause_is_an_error_after_what_waits() -> None:
    async with running() as (_, client):
        reading = iterate(long(client), buffer=10)
        await anext(reading)
        await until(lambda: reading.waiting >= 10)
        await client.aclose()
        numbers: list[int | None] = []
        error = await _read_until(StreamInterrupted, reading, numbers)
        assert isinstance(error.__cause__, ConnectionLost)
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= 10


async def test_the_clocks_of_the_server_do_not_run_while_the_reader_pauses() -> None:
    clock = TestScheduler()
    async with running() as (simulator, client):
        reading = iterate(long(client, timeouts=Timeouts(progress=10, first_event=None), scheduler=clock), buffer=10)
        await anext(reading)
        await simulator.wait_for(lambda s: s.blocked_streams == 1, timeout=60)
        for _ in range(100):
            clock.advance_by(9)
        numbers, _ = await read_slowly(reading, lambda: 0, 3_000)
        assert numbers == list(range(1, EVENTS))


async def test_a_pause_that_is_over_is_remembered_by_the_clock_for_one_round() -> None:
    clock, source, flow = TestScheduler(), Source[Event](), Flow()
    errors: list[Exception] = []
    with subscribing(flow):
        watch_events(Timeouts(progress=10, first_event=None), clock)(source.observable).subscribe(
            on_error=errors.append, scheduler=clock
        )
    clock.advance_by(8)
    flow.pause()
    flow.resume()
    clock.advance_by(11)
    assert errors == []
    clock.advance_by(2)
    assert [type(error) for error in errors] == [StreamTimeout]


# through what stands between


def _each(events: Sequence[Event]) -> Observable[Event]:
    return reactivex.from_iterable(events)


def _group(events: Observable[Event]) -> Observable[Event]:
    return events


def _same(event: Event) -> Event:
    return event


CARRIES: dict[str, Callable[[Observable[Event]], Observable[Event]]] = {
    "map": lambda events: events.pipe(rx.map(_same)),
    "filter": lambda events: events.pipe(rx.filter(lambda _: True)),
    "scan": lambda events: events.pipe(rx.scan(lambda _, event: event)),
    "do_action": lambda events: events.pipe(rx.do_action(lambda _: None)),
    "take_while": lambda events: events.pipe(rx.take_while(lambda _: True)),
    "publish, ref_count": lambda events: events.pipe(rx.publish(), rx.ref_count()),
    "share": lambda events: events.pipe(rx.share()),
    "replay": lambda events: events.pipe(rx.replay(buffer_size=1), rx.ref_count()),
    "flat_map": lambda events: reactivex.just(0).pipe(rx.flat_map(lambda _: events)),
    "flat_map of each": lambda events: events.pipe(rx.flat_map(reactivex.just)),
    "concat_map": lambda events: reactivex.just(0).pipe(rx.concat_map(lambda _: events)),
    "switch_latest": lambda events: reactivex.just(events).pipe(rx.switch_latest()),
    "concat": lambda events: reactivex.concat(reactivex.empty(), events),
    "merge": lambda events: reactivex.merge(events, reactivex.empty()),
    "amb": lambda events: reactivex.amb(events, reactivex.never()),
    "catch": lambda events: reactivex.throw(ValueError()).pipe(rx.catch(events)),
    "retry": lambda events: _failing_once(events).pipe(rx.retry(2)),
    "repeat": lambda events: events.pipe(rx.repeat(1)),
    "defer": lambda events: reactivex.defer(lambda _: events),
    "observe_on the loop": lambda events: events.pipe(rx.observe_on(AsyncIOScheduler(asyncio.get_running_loop()))),
    "delay": lambda events: events.pipe(rx.delay(0.0)),
    "delay_subscription": lambda events: events.pipe(rx.delay_subscription(0.0)),
    "timeout": lambda events: events.pipe(rx.timeout(60)),
    "buffer_with_count": lambda events: events.pipe(rx.buffer_with_count(3), rx.flat_map(_each)),
    "window_with_count": lambda events: events.pipe(rx.window_with_count(3), rx.merge_all()),
    "group_by": lambda events: events.pipe(rx.group_by(lambda event: event.type), rx.flat_map(_group)),  # pyright: ignore[reportUnknownArgumentType]
    "fan_out": lambda events: events.pipe(ops.fan_out()),
    "fan_out of fan_out": lambda events: events.pipe(ops.fan_out(), rx.map(_same), ops.fan_out(history=None)),
    "of_type": lambda events: events.pipe(ops.of_type(Event)),
}
"""The operators that carry the flow; docs/fan-out.md names them."""

BLIND: dict[str, Callable[[Observable[Event]], Observable[Event]]] = {
    "subscribe_on a thread": lambda events: events.pipe(rx.subscribe_on(_OnLoop(asyncio.get_running_loop()))),
    "Subject": lambda events: _through_subject(events),
}
"""What does not: it subscribes elsewhere, or has subscribed before."""


class _OnLoop(NewThreadScheduler):
    """Subscribes in the loop, from a thread that knows nothing of who subscribes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop

    def schedule(self, action: Any, state: Any = None) -> Any:
        def in_loop(*_: object) -> None:
            self._loop.call_soon_threadsafe(action, self, state)

        return super().schedule(in_loop, state)


def _through_subject(events: Observable[Event]) -> Observable[Event]:
    subject = Subject[Event]()
    events.subscribe(subject)
    return subject


def _failing_once(events: Observable[Event]) -> Observable[Event]:
    tries = iter([reactivex.throw(ValueError()), events])
    return reactivex.defer(lambda _: next(tries))


@pytest.mark.parametrize("name", CARRIES)
async def test_the_flow_is_carried(name: str) -> None:
    async with running() as (simulator, client):
        reading = iterate(CARRIES[name](long(client)))
        await anext(reading)
        await simulator.wait_for(lambda s: s.blocked_streams == 1, timeout=60)
        held = reading.waiting
        await turns(50)
        assert reading.waiting == held < MARK + 128  # within what a few chunks bring
        numbers, _ = await read_slowly(reading, lambda: 0, 1_000)
        assert sorted(n for n in numbers if n is not None) == list(range(1, EVENTS))
        if name != "group_by":
            assert all(a is not None and b == a + 1 for a, b in pairwise(numbers))


@pytest.mark.parametrize("name", BLIND)
async def test_where_the_flow_is_not_carried_nothing_pauses_and_nothing_is_lost(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "orx_rx")
    async with running() as (simulator, client):
        reading = iterate(BLIND[name](long(client)))
        await anext(reading)
        await simulator.wait_for(lambda s: s.open_streams == 0, timeout=60)
        await until(lambda: reading.waiting == EVENTS - 1)
        numbers, _ = await read_slowly(reading, lambda: 0, 3_000)
        assert numbers == list(range(1, EVENTS))
        assert "nothing to pause waiting=256" in caplog.text


def continues(event: object, last: object) -> bool:
    where = where_of(type(event)) if type(event) is type(last) else None
    return where is not None and where(event.__dict__) == where(last.__dict__)


def test_the_docs_name_every_operator_that_was_tried(request: pytest.FixtureRequest) -> None:
    text = (request.config.rootpath / "docs" / "fan-out.md").read_text(encoding="utf-8")
    for name in (*CARRIES, *BLIND):
        assert re.search(rf"`(rx\.)?{re.escape(name.split(',')[0].split(' ')[0])}", text), name


# several readers


@pytest.mark.parametrize("join", ["first", "last"])
@pytest.mark.parametrize("overflow", ["pause", "conflate", "drop_oldest", "latest", "fail"])
async def test_the_slowest_of_those_who_pause_decides(overflow: Overflow, join: str) -> None:
    async with running() as (simulator, client):
        shared = long(client).pipe(ops.fan_out())
        fast: list[Ear[Event]] = []
        if join == "last":
            fast += [Ear(shared), Ear(shared)]
        reading = iterate(shared, overflow=overflow)
        await anext(reading)
        if join == "first":
            fast += [Ear(shared), Ear(shared)]
        if overflow in ("pause", "conflate"):
            if overflow == "pause":
                await simulator.wait_for(lambda s: s.blocked_streams == 1, timeout=60)
                assert not fast[0].has_ended
        else:
            assert [(await ear.ended()).completed for ear in fast] == [True, True]
        if overflow == "fail":
            with pytest.raises(ConsumerTooSlow):
                await read_slowly(reading, lambda: 0)
        else:
            numbers, _ = await read_slowly(reading, lambda: 0, 1_000)
            assert numbers[-1] == EVENTS - 1
            assert (numbers == list(range(1, EVENTS))) == (overflow == "pause")
        for ear in fast:
            assert (await ear.ended()).completed
            assert [event.sequence_number for event in ear.elements] == list(range(EVENTS))
        assert [request.method for request in simulator.requests] == ["POST"]


async def test_a_pausing_reader_and_a_dropping_one_share_a_stream() -> None:
    async with running() as (_, client):
        shared = long(client).pipe(ops.fan_out())
        pausing, dropping = iterate(shared), iterate(shared, overflow="drop_oldest", buffer=10)
        await anext(pausing)
        await anext(dropping)
        first, _ = await read_slowly(pausing, lambda: 0, 1_000)
        second, _ = await read_slowly(dropping, lambda: 0)
        assert first == list(range(1, EVENTS))
        assert second == list(range(EVENTS - len(second), EVENTS))
        assert 10 <= len(second) < 125  # and what it found when it came
        assert dropping.dropped == EVENTS - 1 - len(second)


async def test_who_joins_late_gets_the_history_whatever_its_policy() -> None:
    policies: tuple[Overflow, ...] = ("pause", "drop_oldest", "fail", "conflate")
    async with running(hold=250) as (simulator, client):
        shared = long(client).pipe(ops.fan_out())
        ear = await Ear(shared).heard(250)
        readings = [iterate(shared, overflow=overflow, buffer=10) for overflow in policies]
        firsts = [await anext(reading) for reading in readings]
        for reading in readings[:3]:
            assert reading.waiting == 249
        simulator.release()
        for reading, first in zip(readings, firsts, strict=True):
            if reading is readings[2]:
                numbers = await _until_too_slow(reading)
            else:
                numbers, _ = await read_slowly(reading, lambda: 0, 3_000)
            assert first.sequence_number == 0
            if reading is readings[0]:
                assert numbers == list(range(1, EVENTS))
        assert (await ear.ended()).completed


async def _read_until(expected: type[E], reading: Iteration[Event], numbers: list[int | None]) -> E:
    try:
        async for event in reading:
            numbers.append(event.sequence_number)
    except expected as error:
        return error
    raise AssertionError("it was read to its end")


async def _until_too_slow(reading: Iteration[Event]) -> list[int | None]:
    numbers: list[int | None] = []
    await _read_until(ConsumerTooSlow, reading, numbers)
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 249
    return numbers


# the other policies, without a socket


async def held(
    elements: Sequence[Any], reader: Callable[[Observable[Any]], Iteration[Any]]
) -> tuple[Iteration[Any], list[Any]]:
    """Let a reader take one element, hold it, push the rest, and read what is left."""
    source = Source[Any]()
    reading = reader(source.observable)
    first = asyncio.ensure_future(anext(reading))
    await turns(2)
    source.push(elements[0])
    got = [await first]
    source.push(*elements[1:])
    source.complete()
    async for element in reading:
        got.append(element)
    return reading, got


@pytest.mark.parametrize("buffer", [1, 2, 7, 99, 100])
async def test_drop_oldest_keeps_the_newest(buffer: int) -> None:
    reading, got = await held(range(100), lambda o: iterate(o, buffer=buffer, overflow="drop_oldest"))
    assert got == [0, *range(max(1, 100 - buffer), 100)]
    assert reading.dropped == 100 - len(got)


async def test_latest_keeps_one() -> None:
    reading, got = await held(range(100), lambda o: iterate(o, overflow="latest"))
    assert (got, reading.dropped) == ([0, 99], 98)


@pytest.mark.parametrize("buffer", [1, 7, 98])
async def test_fail_gives_what_waited_and_then_the_error(buffer: int) -> None:
    source = Source[int]()
    reading = iterate(source.observable, buffer=buffer, overflow="fail")
    first = asyncio.ensure_future(anext(reading))
    await turns(2)
    source.push(*range(100))
    assert source.disposed == 1
    got = [await first]
    message = f"^expected a consumer at most {buffer} elements behind, got one more$"
    with pytest.raises(ConsumerTooSlow, match=message):  # noqa: PT012
        async for element in reading:
            got.append(element)
    assert got == list(range(buffer))


async def test_fail_does_not_fail_at_its_mark() -> None:
    _, got = await held(range(8), lambda o: iterate(o, buffer=7, overflow="fail"))
    assert got == list(range(8))


@pytest.mark.parametrize("overflow", ["pause", "drop_oldest", "latest", "fail", "conflate"])
@pytest.mark.parametrize("count", [0, 1, 2, 500])
async def test_what_comes_while_it_is_subscribed_to_is_a_history_and_never_too_much(
    overflow: Overflow, count: int
) -> None:
    assert [n async for n in iterate(at_once(range(count), None), buffer=3, overflow=overflow)] == list(range(count))


@pytest.mark.parametrize("buffer", [0, -1, 1.5, True, "many", None])
async def test_a_buffer_that_holds_nothing_is_refused(buffer: Any) -> None:
    with pytest.raises(ValueError, match=f"^expected a buffer of at least 1 element, got {buffer!r}$"):
        iterate(reactivex.never(), buffer=buffer)


@pytest.mark.parametrize("resume_at", [-1, 256, 300, 1.5])
async def test_marks_in_the_wrong_order_are_refused(resume_at: Any) -> None:
    with pytest.raises(ValueError, match=f"^expected resume_at to be from 0 to 255, got {resume_at}$"):
        iterate(reactivex.never(), resume_at=resume_at)


async def test_an_unknown_policy_is_refused() -> None:
    message = "^expected overflow to be one of pause, drop_oldest, latest, fail, conflate, got 'block'$"
    with pytest.raises(ValueError, match=message):
        iterate(reactivex.never(), overflow="block")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# merging


def written(model: str) -> list[Event]:
    request = request_of({"model": model, "input": "x", "stream": True})
    accumulated: list[Event] = []
    events = at_once(list(play(scenario_for(request), Script(request))), None)
    events.pipe(ops.accumulate()).subscribe(accumulated.append)
    return accumulated


EVERYTHING = written("everything")


def runs_of(events: Sequence[Event]) -> list[list[Event]]:
    runs: list[list[Event]] = []
    for event in events:
        if runs and continues(event, runs[-1][-1]):
            runs[-1].append(event)
        else:
            runs.append([event])
    return runs


def test_every_kind_of_delta_is_merged_and_its_snapshot_is_right() -> None:
    several = [run for run in runs_of(EVERYTHING) if len(run) > 1]
    kinds = {type(run[0]) for run in several}
    for run in several:
        one: Any = merged(run)
        last: Any = run[-1]
        assert type(one) is type(last)
        assert one.sequence_number == last.sequence_number
        assert one.snapshot == last.snapshot
        assert last.delta != one.delta
        first: Any = run[0]
        assert first.delta in ("", first.delta)
        assert one.model_fields_set >= last.model_fields_set - {"delta"}
    assert kinds <= set(DELTA_CHANNELS)
    assert len(kinds) >= 6, kinds


@pytest.mark.parametrize("kind", DELTA_CHANNELS, ids=lambda kind: kind.__name__)
def test_a_merged_stream_accumulates_to_the_same(kind: type[Event]) -> None:
    pieces: list[Any] = ["ab", "", "cd"]
    if "Output" in kind.__name__ and "Shell" in kind.__name__:
        pieces = [{"stdout": "a"}, {"stderr": "e"}, {"stdout": "b", "stderr": None}]
    elif kind.__name__ == "ResponseAudioDeltaEvent":
        pieces = ["YQ==", "Yg==", "Y2Rl"]
    place = {
        name: 0
        for name in ("output_index", "content_index", "summary_index", "command_index")
        if name in kind.model_fields
    }
    ids = {"item_id": "a"} if "item_id" in kind.model_fields else {}
    run = [
        kind.model_validate({"delta": piece, "sequence_number": n, **place, **ids}) for n, piece in enumerate(pieces)
    ]
    accumulated: list[Any] = []
    at_once(run, None).pipe(ops.accumulate()).subscribe(accumulated.append)
    again: list[Any] = []
    assert all(continues(b, a) for a, b in pairwise(run))
    at_once([merged(run)], None).pipe(ops.accumulate()).subscribe(again.append)
    assert again[-1].snapshot == accumulated[-1].snapshot == merged(accumulated).snapshot  # type: ignore[attr-defined]


@pytest.mark.parametrize("field", ["output_index", "content_index", "item_id"])
def test_nothing_is_merged_across_places(field: str) -> None:
    here = {"delta": "a", "output_index": 0, "content_index": 0, "item_id": "a"}
    there = here | {field: "b" if field == "item_id" else 1}
    assert continues(*(ResponseTextDeltaEvent.model_validate(here) for _ in range(2)))
    assert not continues(ResponseTextDeltaEvent.model_validate(there), ResponseTextDeltaEvent.model_validate(here))


def test_nothing_else_is_merged() -> None:
    done = ResponseTextDoneEvent(text="a", output_index=0, content_index=0)
    assert not continues(done, done)
    assert not continues(1, 1)
    assert not continues(None, None)


async def test_conflate_merges_what_waits_and_never_across_a_done() -> None:
    reading, got = await held(EVERYTHING, lambda o: iterate(o, overflow="conflate"))
    runs = runs_of(EVERYTHING[1:])
    assert [event.sequence_number for event in got[1:]] == [run[-1].sequence_number for run in runs]
    assert reading.merged == sum(len(run) - 1 for run in runs) == len(EVERYTHING) - len(got)
    assert [type(event) for event in got[1:]] == [type(run[0]) for run in runs]


async def test_conflate_leaves_a_fast_reader_alone() -> None:
    source = Source[Event]()
    async with iterate(source.observable, overflow="conflate") as reading:
        for event in EVERYTHING:
            task = asyncio.ensure_future(anext(reading))
            await turns(2)
            source.push(event)
            assert await task is event
        assert reading.merged == 0


async def test_conflate_of_a_long_stream_is_a_handful_of_events() -> None:
    async with running() as (_, client):
        reading = iterate(long(client), overflow="conflate")
        await anext(reading)
        await until(lambda: reading.merged > 375)
        texts = 0
        count = 0
        async for event in reading:
            count += 1
            texts += len(event.delta) if isinstance(event, ResponseTextDeltaEvent) else 0
            if isinstance(event, TerminalEvent):
                assert texts == len(event.response.output_text)
        assert count < 250


@given(st.lists(st.integers(1, 60), min_size=1), st.integers(1, 20))
@settings(deadline=None, max_examples=50)
def test_conflating_at_any_moments_loses_no_piece(takes: list[int], buffer: int) -> None:
    async def run() -> None:
        source = Source[Event]()
        reading = iterate(source.observable, overflow="conflate", buffer=buffer)
        first = asyncio.ensure_future(anext(reading))
        await turns(2)
        got: list[Event] = []
        rest = list(EVERYTHING)
        for take in takes:
            source.push(*rest[:take])
            del rest[:take]
            await turns(1)
            if not got:
                got.append(await first)
            elif reading.waiting:
                got.append(await anext(reading))
        source.push(*rest)
        source.complete()
        if not got:
            got.append(await first)
        got += [event async for event in reading]
        texts = [[e.delta for e in events if isinstance(e, ResponseTextDeltaEvent)] for events in (EVERYTHING, got)]
        assert "".join(texts[0]) == "".join(texts[1])
        numbers = [event.sequence_number for event in got if event.sequence_number is not None]
        assert numbers == sorted(numbers)
        assert got[-1] == EVERYTHING[-1]

    asyncio.run(run())


# the flow itself


def test_a_flow_is_paused_while_anybody_pauses_it() -> None:
    flow = Flow()
    flow.pause()
    flow.pause()
    flow.resume()
    assert flow.is_paused
    flow.resume()
    assert not flow.is_paused
    assert flow.times_paused == 1


def test_joined_flows_pause_together_and_part() -> None:
    upstream, slow, quick = Flow(), Flow(), Flow()
    slow.pause()
    parts = [upstream.join(slow), upstream.join(quick)]
    assert upstream.is_paused
    slow.resume()
    assert not upstream.is_paused
    quick.pause()
    slow.pause()
    parts[1].dispose()
    assert upstream.is_paused
    parts[0].dispose()
    parts[0].dispose()
    assert not upstream.is_paused
    assert [flow.is_heeded for flow in (upstream, slow, quick)] == [False] * 3
    upstream.heed()
    assert [flow.is_heeded for flow in (upstream, slow, quick)] == [True, False, False]


def test_a_flow_is_found_only_while_somebody_subscribes() -> None:
    flow = Flow()
    assert current_flow() is None
    with subscribing(flow):
        assert current_flow() is flow
        with subscribing(None):
            assert current_flow() is None
    assert current_flow() is None


async def test_a_source_waits_until_a_flow_is_ready_in_another_thread_too() -> None:
    flow = Flow()
    flow.pause()
    waiting = asyncio.ensure_future(flow.ready())
    await turns(3)
    assert not waiting.done()
    await asyncio.to_thread(flow.resume)
    await waiting
    await flow.ready()


async def test_a_stream_that_another_reader_begins_in_a_callback_is_its_own_affair() -> None:
    """A stream begun in the middle of another one by a reader of its own is not paused by the other."""
    async with running() as (_, client):
        begun: list[asyncio.Task[Any]] = []

        def begin(event: Event) -> None:
            if event.sequence_number == 5:
                begun.append(asyncio.ensure_future(final_response(long(client))))

        reading = iterate(long(client).pipe(rx.do_action(begin)), buffer=5)
        await anext(reading)
        await until(lambda: bool(begun))
        assert (await begun[0]).status == "completed"
        await reading.aclose()


def readings() -> list[object]:
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, Flow | Iteration)]


async def test_nothing_is_left_after_a_thousand_early_ends() -> None:
    before = other_tasks()
    others = readings()  # of other tests; kept, so that no new one gets the place of an old one
    known = set(map(id, others))
    async with Simulator() as simulator:
        serving = other_tasks()
        async with Client(base_url=simulator.base_url) as client:
            few = asyncio.Semaphore(8)

            async def three() -> None:
                async with few, iterate(client.events(model="story", input="x").pipe(rx.take(3))) as reading:
                    assert len([event async for event in reading]) == 3
                async with few, iterate(client.events(model="story", input="x"), buffer=2) as reading:
                    async for event in reading:
                        if event.sequence_number == 2:
                            break

            await asyncio.gather(*(three() for _ in range(500)))
            assert current_flow() is None
            await simulator.wait_for(lambda s: s.open_streams == 0, timeout=60)
            await until(lambda: not [t for t in other_tasks() - serving if t.get_name().startswith("orx_rx")])
        await simulator.wait_for(lambda s: s.connections == 0, timeout=60)
        assert not [each for each in readings() if id(each) not in known]
    await until(lambda: other_tasks() <= before)


async def test_a_slow_reader_of_a_stream_that_ended_still_reads_all() -> None:
    chained = at_once(chain.events(*chain.hello()), None)
    assert len([event async for event in iterate(chained, buffer=1)]) == len(chain.hello())
