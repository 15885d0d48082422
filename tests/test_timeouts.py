"""The clocks: which one runs out when, and which events do not count. Most of it in virtual time."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

import aiohttp
import pytest
import reactivex
from aiohttp.abc import AbstractResolver
from reactivex import Observable
from reactivex.testing import TestScheduler

from orx_rx import Client, StreamInterrupted, StreamTimeout, Timeouts, sse_chunks
from orx_rx.http.timeouts import watch_events
from orx_rx.models import Event
from tests.chain import added, created, delta, events, hello, part_added, sse
from tests.marbles import draw
from tests.servers import (
    CHUNKED,
    LAST,
    Ear,
    Peer,
    answer,
    chunk,
    head,
    listening,
    other_tasks,
    pass_time,
    turns,
    until,
)
from tests.servers import (
    clean_environment as clean_environment,
)
from tests.sources import Source

pytestmark = pytest.mark.usefixtures("clean_environment")

HELLO = sse(*hello())
START = sse(created(), added(), part_added(), delta("Hel"), done=False)
KEEPALIVE = b'data: {"type": "keepalive", "sequence_number": 0}\n\n'

NAMES = ["connect", "first_event", "idle", "progress", "duration"]

# settings


def test_a_stream_may_take_hours_by_default() -> None:
    clocks = Timeouts()
    assert (clocks.duration, clocks.progress) == (None, None)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_clock_that_cannot_run_is_refused(name: str, seconds: float) -> None:
    with pytest.raises(ValueError, match=f"^expected {name} to be None or above 0 seconds, got {seconds}$"):
        Timeouts(**{name: seconds})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seconds", [None, 0.001, 1, 86_400])
def test_a_clock_may_be_off_or_set_to_any_time(name: str, seconds: float | None) -> None:
    assert getattr(Timeouts(**{name: seconds}), name) == seconds


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("connect", "a connection"),
        ("first_event", "a first event"),
        ("idle", "bytes"),
        ("progress", "an event that moves the response on"),
        ("duration", "the end of the stream"),
    ],
)
def test_a_timeout_says_which_clock_and_how_long(name: str, expected: str) -> None:
    error = StreamTimeout(name, 2.5)
    assert (error.clock, error.seconds) == (name, 2.5)
    assert str(error) == f"the {name} clock ran out: expected {expected} within 2.5 s, got nothing"


# the clocks of events, in virtual time

VALUES = dict(
    zip(
        "kqicd",
        events(
            {"type": "keepalive"},
            {**created(), "type": "response.queued"},
            {**created(), "type": "response.in_progress"},
            created(),
            delta("Hel"),
        ),
        strict=True,
    )
)


def watched(picture: str, **clocks: float | None) -> str:
    """Draw what becomes of events under these clocks, all others off."""
    off: dict[str, float | None] = dict.fromkeys(NAMES)
    return draw(watch_events(Timeouts(**{**off, **clocks})), picture, VALUES)


def test_the_clock_of_the_first_event_runs_out_without_one() -> None:
    assert (
        watched("----------d--", first_event=4)
        == (     "----#StreamTimeout")
    )  # fmt: skip


def test_the_first_event_stops_its_clock_for_good() -> None:
    assert (
        watched("--c----------d-----------|", first_event=4)
        == (     "--c----------d-----------|")
    )  # fmt: skip


@pytest.mark.parametrize("event", "qicd")
def test_any_event_but_a_keepalive_is_a_first_event(event: str) -> None:
    assert watched(f"--{event}------|", first_event=4) == f"--{event}------|"


def test_keepalives_are_no_first_event() -> None:
    assert (
        watched("-k-k-k-k-d", first_event=4)
        == (     "-k-k#StreamTimeout")
    )  # fmt: skip


def test_the_clock_of_progress_runs_from_the_subscription() -> None:
    assert (
        watched("----------d--", progress=4)
        == (     "----#StreamTimeout")
    )  # fmt: skip


def test_progress_winds_its_clock_up_again() -> None:
    assert (
        watched("---c---d---d---d---------d", progress=4)
        == (     "---c---d---d---d---#StreamTimeout")
    )  # fmt: skip


def test_keepalives_and_states_of_waiting_are_no_progress() -> None:
    assert (
        watched("c-k-q-i-k-d", progress=7)
        == (     "c-k-q-i#StreamTimeout")
    )  # fmt: skip


def test_many_events_in_one_tick_wind_the_clock_up_once() -> None:
    assert (
        watched("-(dddddddd)----------", progress=12)
        == (     "-(dddddddd)--#StreamTimeout")
    )  # fmt: skip


def test_the_clock_of_the_duration_is_wound_up_by_nothing() -> None:
    assert (
        watched("-c-d-d-d-d-d-|", duration=6)
        == (     "-c-d-d#StreamTimeout")
    )  # fmt: skip


@pytest.mark.parametrize("wound", [0.1, 0.3, 0.7, 0.8999999, 1.1, 2.3])
def test_a_clock_that_was_wound_up_at_any_time_runs_out(wound: float) -> None:
    clock, source, ends = TestScheduler(), Source[Event](), list[Exception]()
    source.observable.pipe(watch_events(Timeouts(first_event=None, progress=3.0), clock)).subscribe(
        on_error=ends.append
    )
    for _ in range(7):
        clock.advance_by(wound)
        source.push(*events(created()))
    clock.advance_by(10)
    assert [type(end) for end in ends] == [StreamTimeout]


def test_a_stream_that_ends_in_time_stops_every_clock() -> None:
    assert (
        watched("-c-d-|        ", first_event=3, progress=3, duration=9)
        == (     "-c-d-|")
    )  # fmt: skip


def test_an_error_stops_every_clock() -> None:
    assert (
        watched("-c-d-#        ", first_event=3, progress=3, duration=9)
        == (     "-c-d-#Trouble")
    )  # fmt: skip


def test_whichever_clock_runs_out_first_ends_the_stream() -> None:
    for clocks, expected in {(3, 5, 7): "first_event", (5, 3, 7): "progress", (7, 5, 3): "duration"}.items():
        clock = TestScheduler()
        first_event, progress, duration = clocks
        timeouts = Timeouts(first_event=first_event, progress=progress, duration=duration)
        never: Observable[Event] = reactivex.never()
        ear = Ear(never.pipe(watch_events(timeouts, clock)))
        clock.advance_by(100)
        assert isinstance(ear.error, StreamTimeout)
        assert (ear.error.clock, ear.error.seconds) == (expected, 3)


def test_no_clock_runs_where_all_are_off() -> None:
    source: Observable[Event] = reactivex.never()
    assert watch_events(Timeouts(first_event=None))(source) is source


@pytest.mark.parametrize("name", ["first_event", "progress", "duration"])
def test_disposing_stops_the_clock_and_the_source(name: str) -> None:
    clock, source = TestScheduler(), Source[Event]()
    ear = Ear(source.observable.pipe(watch_events(Timeouts(**{"first_event": None, name: 4}), clock)))
    clock.advance_by(3)
    ear.subscription.dispose()
    assert source.disposed == 1
    clock.advance_by(100)
    assert not ear.has_ended


@pytest.mark.parametrize("name", ["first_event", "progress", "duration"])
@pytest.mark.parametrize("completes", [False, True])
async def test_a_stream_that_is_over_is_not_kept_alive_by_its_clocks(name: str, completes: bool) -> None:
    subject = reactivex.Subject[Event]()
    ear = Ear(subject.pipe(watch_events(Timeouts(**{"first_event": None, name: 1000}))))
    subject.on_completed() if completes else ear.subscription.dispose()
    ref = weakref.ref(ear)
    del ear
    gc.collect()
    assert ref() is None


def test_a_timeout_disposes_the_source() -> None:
    clock, source = TestScheduler(), Source[Event]()
    ear = Ear(source.observable.pipe(watch_events(Timeouts(first_event=4), clock)))
    clock.advance_by(4)
    assert isinstance(ear.error, StreamTimeout)
    assert source.disposed == 1


# the clocks of the connection


class NeverResolves(AbstractResolver):
    """Looks for a host, and goes on looking."""

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> NoReturn:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def close(self) -> None:
        pass


async def test_the_clock_of_the_connection_runs_while_a_host_is_looked_up() -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=NeverResolves())) as session:
        ear = Ear(sse_chunks(session, "POST", "http://host.invalid"))
        await turns()
        pass_time(9)
        await turns()
        assert not ear.has_ended
        pass_time(2)  # aiohttp rounds up to whole seconds
        error = await ear.failed()
        assert isinstance(error, StreamTimeout)
        assert (error.clock, error.seconds) == ("connect", 10)


async def test_the_clock_of_the_connection_runs_while_the_pool_has_none() -> None:
    connector = aiohttp.TCPConnector(limit=1)
    async with listening() as server, aiohttp.ClientSession(connector=connector) as session:
        holding = Ear(sse_chunks(session, "POST", server.url))
        peer, _ = await server.asked()
        waiting = Ear(sse_chunks(session, "POST", server.url, timeouts=Timeouts(connect=3)))
        await turns()
        pass_time(3)
        error = await waiting.failed()
        assert isinstance(error, StreamTimeout)
        assert (error.clock, error.seconds) == ("connect", 3)
        await peer.send(answer(b"a"))
        assert (await holding.ended()).completed


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\n", CHUNKED, CHUNKED + chunk(b"a"), CHUNKED + b"9\r\na"])
async def test_the_idle_clock_runs_out_wherever_the_server_stalls(sent: bytes) -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url, timeouts=Timeouts(idle=40)))
        peer, _ = await server.asked()
        await peer.send(sent)
        await turns()
        pass_time(39)
        await turns()
        assert not ear.has_ended
        pass_time(1)
        error = await ear.failed()
        assert isinstance(error, StreamTimeout)
        assert (error.clock, error.seconds) == ("idle", 40)
        assert ear.elements == [b"a"] * sent.endswith((b"a\r\n", b"a"))
        assert await peer.gone()
        await until(lambda: not other_tasks())


async def test_a_stream_of_hours_with_a_comment_now_and_then_is_healthy() -> None:
    async with listening() as server, aiohttp.ClientSession() as session:
        ear = Ear(sse_chunks(session, "POST", server.url))
        peer, _ = await server.asked()
        await peer.send(CHUNKED)
        for count in range(1, 50):
            await peer.send(chunk(b": ka\n\n"))
            await ear.heard(count)
            pass_time(290)
        await peer.send(LAST)
        assert (await ear.ended()).completed


async def test_clocks_that_are_off_do_not_run() -> None:
    off = Timeouts(connect=None, first_event=None, idle=None)
    async with listening() as server, Client(base_url=server.url, timeouts=off) as client:
        ear = Ear(client.events(model="m"))
        peer, _ = await server.asked()
        for piece in (CHUNKED, chunk(START), chunk(HELLO.removeprefix(START))):
            pass_time(86_400)
            await peer.send(piece)
            await turns()
        await peer.send(LAST)
        await ear.ended()
        assert ear.completed, ear.error


async def test_the_timeouts_of_a_given_session_do_not_count() -> None:
    # aiohttp's default is five minutes for the whole body, which a healthy stream may well take
    at_once = aiohttp.ClientTimeout(total=1e-9, connect=1e-9, sock_connect=1e-9, sock_read=1e-9)
    async with listening() as server, aiohttp.ClientSession(timeout=at_once) as session:
        ear = Ear(sse_chunks(session, "POST", server.url))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(b"a"))
        await ear.heard(1)
        await peer.send(LAST)
        assert (await ear.ended()).completed


# the client: real connections, and a clock in virtual time


async def test_the_clock_of_the_first_event_needs_no_idle_clock() -> None:
    clock = TestScheduler()
    timeouts = Timeouts(connect=None, idle=None, first_event=120)
    async with listening() as server, Client(base_url=server.url, timeouts=timeouts) as client:
        ear = Ear(client.events(model="m", scheduler=clock))
        peer, _ = await server.asked()
        clock.advance_by(119)
        assert not ear.has_ended
        clock.advance_by(1)
        assert isinstance(ear.error, StreamTimeout)
        assert (ear.error.clock, ear.error.seconds) == ("first_event", 120)
        assert await peer.gone()
        await until(lambda: not other_tasks())


async def test_comments_and_keepalives_do_not_hold_the_clock_of_the_first_event() -> None:
    clock = TestScheduler()
    async with listening() as server, Client(base_url=server.url) as client:
        ear = Ear(client.events(model="m", scheduler=clock, timeouts=Timeouts(first_event=10)))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(b": still there\n\n"), chunk(KEEPALIVE))
        await ear.heard(1)
        clock.advance_by(10)
        error = ear.error
        assert isinstance(error, StreamInterrupted)
        assert isinstance(error.__cause__, StreamTimeout)
        assert error.__cause__.clock == "first_event"
        assert await peer.gone()


async def test_the_clock_of_progress_interrupts_a_stream_that_hangs() -> None:
    clock = TestScheduler()
    async with listening() as server, Client(base_url=server.url) as client:
        ear = Ear(client.events(model="m", scheduler=clock, timeouts=Timeouts(progress=30)))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(START))
        await ear.heard(4)
        clock.advance_by(29)
        await peer.send(chunk(KEEPALIVE.replace(b"0}", b"4}")))
        await ear.heard(5)
        clock.advance_by(1)
        error = ear.error
        assert isinstance(error, StreamInterrupted)
        assert isinstance(error.__cause__, StreamTimeout)
        assert (error.__cause__.clock, error.__cause__.seconds) == ("progress", 30)
        assert error.snapshot is not None
        assert error.snapshot.output_text == "Hel"
        assert await peer.gone()


async def test_the_clocks_of_a_call_take_the_place_of_those_of_the_client() -> None:
    clock = TestScheduler()
    timeouts = Timeouts(duration=1)
    async with listening() as server, Client(base_url=server.url, timeouts=timeouts) as client:
        ear = Ear(client.events(model="m", scheduler=clock, timeouts=Timeouts(duration=5)))
        await server.asked()
        clock.advance_by(4)
        assert not ear.has_ended
        clock.advance_by(1)
        assert isinstance(ear.error, StreamTimeout)
        assert (ear.error.clock, ear.error.seconds) == ("duration", 5)


@pytest.mark.parametrize("end", [Peer.finish, Peer.reset, None], ids=["closed", "reset", "held open"])
async def test_no_clock_runs_out_after_the_terminal(end: Callable[[Peer], None] | None) -> None:
    clock = TestScheduler()
    timeouts = Timeouts(first_event=10, progress=10, duration=10)
    async with listening() as server, Client(base_url=server.url) as client:
        ear = Ear(client.events(model="m", scheduler=clock, timeouts=timeouts, linger=60))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(HELLO))
        await ear.heard(9)
        if end is None:
            clock.advance_by(10)
        else:
            end(peer)
        await ear.ended()
        clock.advance_by(1000)
        assert ear.completed


async def test_a_server_that_holds_the_connection_open_after_the_terminal_hangs_nobody() -> None:
    clock = TestScheduler()
    async with listening() as server, Client(base_url=server.url) as client:
        ear = Ear(client.events(model="m", scheduler=clock, linger=5))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(HELLO))
        await ear.heard(9)
        clock.advance_by(4)
        await turns()
        assert not ear.has_ended
        clock.advance_by(1)
        assert ear.completed
        assert await peer.gone()
        await until(lambda: not other_tasks())


async def test_the_idle_clock_of_a_client_interrupts_a_stream_that_stalls() -> None:
    async with listening() as server, Client(base_url=server.url) as client:
        ear = Ear(client.events(model="m"))
        peer, _ = await server.asked()
        await peer.send(head(content_length="9999"), START)
        await ear.heard(4)
        pass_time(300)
        error = await ear.failed()
        assert isinstance(error, StreamInterrupted)
        assert isinstance(error.__cause__, StreamTimeout)
        assert (error.__cause__.clock, error.__cause__.seconds) == ("idle", 300)
        assert await peer.gone()
