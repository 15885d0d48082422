"""A client in a thread: subscribed to, disposed of, read and closed by code that has no event loop."""

from __future__ import annotations

import asyncio
import copy
import inspect
import logging
import os
import pickle
import subprocess
import sys
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar

import pytest
import reactivex
from reactivex import Observable, abc
from reactivex import operators as rx
from reactivex.disposable import Disposable
from reactivex.scheduler import NewThreadScheduler

from orx_rx import (
    Accumulator,
    Client,
    ConnectFailed,
    ConnectionLost,
    NotFound,
    Retry,
    StreamInterrupted,
    StreamTimeout,
    ThreadedClient,
    Timeouts,
    operators,
)
from orx_rx.flow import Flow, current_flow
from orx_rx.http import threaded
from orx_rx.http.blocking import BlockingIteration
from orx_rx.inbox import inbox_of
from orx_rx.models import Event, ResponseCompletedEvent, ResponseCreatedEvent, TerminalEvent
from orx_rx.simulator import Fault, Script, Simulator, message
from tests.conftest import ROOT
from tests.servers import PATIENCE
from tests.servers import (
    clean_environment as clean_environment,
)

T = TypeVar("T")

THREAD = "orx_rx client"
ONCE = Retry(attempts=0)


def story(client: ThreadedClient) -> Observable[Event]:
    return client.events(model="story", input="Tell me one")


def threads() -> list[threading.Thread]:
    """Find the threads of clients."""
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


@pytest.fixture(autouse=True)
def every_thread_ends(clean_environment: None) -> Generator[None]:
    before = threading.active_count()
    yield
    assert not threads()
    until(lambda: threading.active_count() == before)  # timers of Rx have threads too, which are about to end


# the other side, in a thread too


class Distant:
    """A simulator that runs in a thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, simulator: Simulator) -> None:
        self._loop = loop
        self.simulator = simulator

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    def wait_for(self, condition: Callable[[Simulator], object]) -> None:
        self.call(self.simulator.wait_for(condition, timeout=PATIENCE))

    def release(self) -> None:
        self._loop.call_soon_threadsafe(self.simulator.release)

    @property
    def posts(self) -> int:
        return sum(request.method == "POST" for request in self.simulator.requests)


@contextmanager
def simulating(**options: Any) -> Generator[Distant]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    distant = Distant(loop, Simulator(**options))
    try:
        distant.call(distant.simulator.__aenter__())
        yield distant
        distant.wait_for(lambda s: s.open_streams == 0)
    finally:
        distant.call(distant.simulator.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


@contextmanager
def both(*, timeouts: Timeouts | None = None, **options: Any) -> Generator[tuple[Distant, ThreadedClient]]:
    with (
        simulating(**options) as distant,
        Client.in_thread(base_url=distant.simulator.base_url, retry=ONCE, timeouts=timeouts) as client,
    ):
        yield distant, client


class Heard(Generic[T]):
    """A subscriber that remembers what it hears, and can be waited for."""

    def __init__(
        self,
        observable: Observable[T],
        then: Callable[[T], object] = lambda _: None,
        scheduler: abc.SchedulerBase | None = None,
    ) -> None:
        self.elements: list[T] = []
        self.threads: set[threading.Thread] = set()
        self.error: Exception | None = None
        self._then = then
        self._begun = threading.Event()
        self._ended = threading.Event()
        self.subscription = observable.subscribe(self._on_next, self._on_error, self._ended.set, scheduler=scheduler)

    def begun(self) -> None:
        assert self._begun.wait(PATIENCE)

    def ended(self) -> Exception | None:
        assert self._ended.wait(PATIENCE)
        return self.error

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def _on_next(self, element: T) -> None:
        self.threads.add(threading.current_thread())
        self.elements.append(element)
        self._begun.set()
        self._then(element)

    def _on_error(self, error: Exception) -> None:
        self.error = error
        self._ended.set()


def until(so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not so():
        assert time.monotonic() < end
        time.sleep(0)


@contextmanager
def busy(client: ThreadedClient) -> Generator[None]:
    """Keep the thread of the loop busy, so that nothing happens in it."""
    at_work, done = threading.Event(), threading.Event()

    def work(*_: object) -> None:
        at_work.set()
        assert done.wait(PATIENCE)

    client.scheduler.schedule(work)
    assert at_work.wait(PATIENCE)
    try:
        yield
    finally:
        done.set()


def in_loop(client: ThreadedClient, work: Callable[[], T]) -> T:
    """Do something in the thread of the loop, and wait for it."""
    done = threading.Event()
    results = list[T]()
    raised = list[BaseException]()

    def act(*_: object) -> None:
        try:
            results.append(work())
        except BaseException as error:
            raised.append(error)
        done.set()

    client.scheduler.schedule(act)
    assert done.wait(PATIENCE)
    if raised:
        raise raised[0]
    return results[0]


# Rx without an event loop


def test_run_waits_for_the_last_event() -> None:
    with both() as (distant, client):
        last = story(client).run()
        assert isinstance(last, ResponseCompletedEvent)
        assert distant.posts == 1


def test_operators_of_rx_and_of_ours_stand_behind_it() -> None:
    with both() as (_, client):
        events: list[Event] = story(client).pipe(rx.to_list()).run()
        pieces = story(client).pipe(operators.text(), rx.to_iterable()).run()
        assert isinstance(events[-1], TerminalEvent)
        assert "".join(pieces) == events[-1].response.output_text


def test_chunks_are_given_as_well() -> None:
    with both() as (_, client):
        body = b"".join(
            client.chunks(model="story", input="Tell me one", headers={"X-Mine": "1"}).pipe(rx.to_list()).run()
        )
        assert body.endswith(b"data: [DONE]\n\n")


def test_elements_arrive_in_the_thread_of_the_loop() -> None:
    with both() as (_, client):
        heard = Heard(story(client), scheduler=NewThreadScheduler())
        assert heard.ended() is None
        assert [thread.name for thread in heard.threads] == [THREAD]
        assert threads() == list(heard.threads)


def test_a_timer_of_the_client_fires_in_the_thread_of_the_loop() -> None:
    with both(hold=2, timeouts=Timeouts(duration=0.01)) as (_, client):
        fired = list[str]()
        error = Heard(
            story(client).pipe(rx.do_action(on_error=lambda _: fired.append(threading.current_thread().name))),
            scheduler=NewThreadScheduler(),
        ).ended()
        assert isinstance(error, StreamInterrupted | StreamTimeout)
        assert fired == [THREAD]


def test_timed_operators_keep_time_in_the_loop_with_the_scheduler_of_the_client() -> None:
    with both() as (_, client):
        groups = Heard(story(client).pipe(operators.text(), rx.buffer_with_time(0.001, scheduler=client.scheduler)))
        assert groups.ended() is None
        assert [thread.name for thread in groups.threads] == [THREAD]


def test_a_request_is_sent_again_from_the_thread_of_the_loop() -> None:
    attempts = list[str]()
    with (
        simulating(
            faults=[Fault("status", connection=0, status=503), Fault("status", connection=1, status=503)]
        ) as far,
        Client.in_thread(base_url=far.simulator.base_url, retry=Retry(first=0.001)) as client,
    ):
        events = client.events(
            model="story", input="Tell me one", on_attempt=lambda _: attempts.append(threading.current_thread().name)
        )
        assert isinstance(events.run(), ResponseCompletedEvent)
        assert attempts == [THREAD, THREAD]
        assert far.posts == 3


def test_a_subscription_within_a_subscription_needs_no_second_hop() -> None:
    with both() as (distant, client):

        def another(_: Event) -> Observable[Event]:
            return story(client)

        again: Observable[Event] = story(client).pipe(rx.take(1), rx.flat_map(another))
        assert isinstance(again.run(), ResponseCompletedEvent)
        assert distant.posts == 2


def test_a_shared_stream_is_subscribed_to_in_the_thread_of_the_loop() -> None:
    with both() as (distant, client):
        shared = client.on_loop(story(client).pipe(operators.fan_out()))
        with ThreadPoolExecutor(8) as pool:
            counts = [pool.submit(shared.pipe(rx.count()).run) for _ in range(40)]
        assert len({count.result(PATIENCE) for count in counts}) == 1
        assert distant.posts == 1


# dispose


def test_disposing_closes_the_socket() -> None:
    with both(hold=3) as (distant, client):
        heard = Heard(story(client))
        heard.begun()
        heard.subscription.dispose()
        distant.wait_for(lambda s: s.disconnects == 1)
        assert not heard.has_ended


def test_disposing_in_the_thread_of_the_loop_closes_the_socket() -> None:
    with both(hold=3) as (distant, client):
        heard = Heard(story(client))
        heard.begun()
        in_loop(client, heard.subscription.dispose)
        distant.wait_for(lambda s: s.disconnects == 1)


def test_what_is_disposed_before_the_loop_hears_of_it_sends_nothing() -> None:
    with both() as (distant, client):
        with busy(client):
            heard = Heard(story(client))
            heard.subscription.dispose()
        story(client).run()
        assert distant.posts == 1
        assert not heard.elements


def test_a_timer_of_rx_in_a_thread_of_its_own_closes_the_socket() -> None:
    with both(hold=2) as (distant, client):
        with pytest.raises(Exception, match="Timeout"):
            story(client).pipe(rx.timeout(0.01)).run()
        distant.wait_for(lambda s: s.open_streams == 0)


def test_disposing_twice_and_after_the_end_is_nothing() -> None:
    with both() as (_, client):
        heard = Heard(story(client))
        assert heard.ended() is None
        heard.subscription.dispose()
        heard.subscription.dispose()
    heard.subscription.dispose()


def test_disposing_when_the_loop_is_closed_is_nothing() -> None:
    with both(hold=3) as (_, client):
        heard = Heard(story(client).pipe(rx.catch(reactivex.never())))
        heard.begun()
    heard.subscription.dispose()


def test_many_threads_subscribe_at_the_same_time() -> None:
    with both() as (distant, client), ThreadPoolExecutor(8) as pool:
        counts = [pool.submit(story(client).pipe(rx.count()).run) for _ in range(200)]
        assert len({count.result(PATIENCE) for count in counts}) == 1
        assert distant.posts == 200


def test_many_threads_subscribe_and_dispose_at_the_same_time() -> None:
    with both(hold=3) as (distant, client), ThreadPoolExecutor(8) as pool:

        def race(number: int) -> Heard[Event]:
            heard = Heard(story(client))
            if number % 3 == 0:
                heard.begun()
            heard.subscription.dispose()
            heard.subscription.dispose()
            return heard

        assert not [heard for heard in pool.map(race, range(100)) if heard.has_ended]
        distant.wait_for(lambda s: s.open_streams == 0)
        assert distant.posts >= 34


# iterate


def test_a_thread_reads_an_observable_with_for() -> None:
    with both() as (distant, client):
        text = "".join(client.iterate(story(client).pipe(operators.text())))
        assert "In a café by the harbour" in text
        assert distant.posts == 1


def test_nothing_is_sent_before_the_reading_begins() -> None:
    with both() as (distant, client):
        with client.iterate(story(client)):
            pass
        reading = client.iterate(story(client))
        iter(reading)
        reading.close()
        assert next(reading, None) is None
        story(client).run()
        assert distant.posts == 1


def reading_into(read: list[T], elements: Iterable[T]) -> None:
    for element in elements:
        read.append(element)  # one by one, so that what came before an error is there


def test_an_error_comes_behind_what_came_before_it() -> None:
    with Client.in_thread(base_url="http://host") as client:
        source = reactivex.concat(reactivex.of(1, 2), reactivex.throw(ValueError("wrong")))
        read = list[int]()
        reading = client.iterate(source)
        with pytest.raises(ValueError, match="wrong"):
            reading_into(read, reading)
        assert read == [1, 2]
        with pytest.raises(RuntimeError, match="got one that has: iterate the observable anew"):
            iter(reading)
        assert next(reading, None) is None


def test_leaving_a_loop_closes_the_socket() -> None:
    with both(hold=3) as (distant, client):
        for _ in client.iterate(story(client)):
            break
        distant.wait_for(lambda s: s.disconnects == 1)


def test_closing_ends_the_wait_of_another_thread() -> None:
    with both(hold=2) as (distant, client), client.iterate(story(client)) as reading:
        assert next(reading).type == "response.created"
        assert next(reading).type == "response.in_progress"
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(next, reading, None)
            reading.close()
            assert waiting.result(PATIENCE) is None
        distant.wait_for(lambda s: s.disconnects == 1)


def test_closing_the_client_ends_the_wait_of_another_thread() -> None:
    with both(hold=2) as (_, client):
        reading = client.iterate(story(client).pipe(rx.catch(reactivex.never())))
        next(reading)
        next(reading)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(next, reading)
            client.close()
            with pytest.raises(ConnectionLost, match="got a client that was closed"):
                waiting.result(PATIENCE)


def test_control_c_interrupts_a_wait_and_closes_the_socket() -> None:
    with both(hold=2) as (distant, client):

        def interrupt(event: Event) -> None:
            if event.type == "response.in_progress":
                interrupt_main()

        with pytest.raises(KeyboardInterrupt):
            list(client.iterate(story(client).pipe(rx.do_action(interrupt))))
        distant.wait_for(lambda s: s.disconnects == 1)


def test_control_c_interrupts_the_wait_for_a_response() -> None:
    with both(hold=2) as (distant, client):

        def interrupt(event: Event) -> None:
            if event.type == "response.in_progress":
                interrupt_main()

        with pytest.raises(KeyboardInterrupt):
            client.final_response(story(client).pipe(rx.do_action(interrupt)))
        distant.wait_for(lambda s: s.disconnects == 1)


class Pushed:
    """A source in the loop that is pushed by hand, and keeps the flow that it found."""

    def __init__(self) -> None:
        self.flow: Flow | None = None
        self.observer: abc.ObserverBase[int] | None = None
        self.observable: Observable[int] = Observable(self._subscribe)

    def _subscribe(self, observer: abc.ObserverBase[int], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        self.flow, self.observer = current_flow(), observer
        observer.on_next(0)
        return Disposable()


def test_a_reader_that_is_slow_pauses_the_source() -> None:
    with Client.in_thread(base_url="http://host") as client:
        pushed = Pushed()
        reading = client.iterate(pushed.observable)
        assert next(reading) == 0
        assert pushed.flow is not None
        assert pushed.observer is not None
        observer = pushed.observer
        for number in range(1, 257):  # the first one came at once, as a history does, and does not count
            in_loop(client, partial(observer.on_next, number))
        assert not pushed.flow.is_paused
        in_loop(client, lambda: observer.on_next(257))
        assert pushed.flow.is_paused
        in_loop(client, lambda: observer.on_next(258))
        assert [next(reading) for _ in range(128)] == list(range(1, 129))
        assert pushed.flow.is_paused
        assert next(reading) == 129
        assert not pushed.flow.is_paused
        in_loop(client, observer.on_completed)
        assert list(reading) == list(range(130, 259))


def test_the_socket_is_not_read_while_the_reader_is_slow() -> None:
    def long(script: Script) -> Iterator[Event]:
        yield from message(script, ["x" * 1000] * 4000)

    with both(scenarios={"long": long}) as (_, client):
        flows, emitted = list[Flow | None](), list[Event]()
        events = client.events(model="long", input="x").pipe(rx.do_action(emitted.append))

        def begin(_: abc.SchedulerBase) -> Observable[Event]:
            flows.append(current_flow())
            return events

        reading = client.iterate(reactivex.defer(begin))
        read = [next(reading)]
        (flow,) = flows
        assert flow is not None
        until(lambda: flow.is_paused)
        with pytest.raises(NotFound):
            client.retrieve("nobody")  # the loop turns meanwhile
        assert len(emitted) < 2000
        read.extend(reading)
        assert read == emitted
        assert len(read) > 4000


@pytest.mark.parametrize("end", [reactivex.empty(), reactivex.throw(ValueError())])
def test_what_comes_when_the_reading_has_ended_is_not_kept(end: Observable[int]) -> None:
    def stop(_: int) -> None:
        reading.close()

    reading = BlockingIteration(
        reactivex.concat(reactivex.of(1, 2), end).pipe(rx.do_action(stop)), inbox_of(256, "pause", None), lambda: None
    )
    assert next(reading, None) is None
    assert next(reading, None) is None


# what waits


def test_the_final_response_is_waited_for() -> None:
    with both() as (_, client):
        assert client.final_response(story(client)).status == "completed"
        assert client.final_response(client.events(model="failed", input="x")).status == "failed"


def test_a_response_is_retrieved_and_cancelled() -> None:
    with both(hold=4) as (distant, client):
        events = client.events(model="story", input="Tell me one", background=True)
        heard = Heard(events)
        heard.begun()
        first = heard.elements[0]
        assert isinstance(first, ResponseCreatedEvent)
        response_id = first.response.id
        assert client.retrieve(response_id).status in ("queued", "in_progress")
        assert client.cancel(response_id).status == "cancelled"
        assert client.retrieve(response_id).status == "cancelled"
        heard.subscription.dispose()
        with pytest.raises(NotFound):
            client.retrieve("nobody")
        distant.release()


def test_a_stream_is_resumed() -> None:
    with both() as (_, client):
        held = Accumulator()
        client.events(model="story", input="Tell me one", background=True, into=held).pipe(rx.take(5)).run()
        cursor = held.cursor
        assert cursor is not None
        rest: list[Event] = client.resume(cursor).pipe(rx.to_list()).run()
        assert rest[0].sequence_number == cursor.sequence_number + 1
        assert isinstance(rest[-1], ResponseCompletedEvent)


def test_a_coroutine_that_times_out_is_not_taken_for_a_wait() -> None:
    with Client.in_thread(base_url="http://host") as client, pytest.raises(TimeoutError, match="mine"):
        client.final_response(reactivex.throw(TimeoutError("mine")))


def test_a_wait_that_looks_up_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threaded, "GLANCE", 0)
    with both() as (_, client):
        assert client.final_response(story(client)).status == "completed"


@pytest.mark.parametrize("wait", ["iterate", "retrieve", "cancel", "final_response"])
def test_the_thread_of_the_loop_does_not_wait_for_itself(wait: str) -> None:
    with both() as (distant, client):
        waits: dict[str, Callable[[], object]] = {
            "iterate": lambda: next(client.iterate(story(client))),
            "retrieve": lambda: client.retrieve("resp_1"),
            "cancel": lambda: client.cancel("resp_1"),
            "final_response": lambda: client.final_response(story(client)),
        }
        with pytest.raises(RuntimeError, match=r"got that of the client's event loop: subscribe instead, or wait in"):
            in_loop(client, waits[wait])
        assert not distant.posts


# errors


def test_a_subscriber_that_raises_harms_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    with both() as (_, client):

        def fail(_: Event) -> None:
            raise ZeroDivisionError("mine")

        heard = Heard(story(client), fail)
        assert isinstance(heard.ended(), ZeroDivisionError)
        story(client).run()
    told = [record for record in caplog.records if record.name == "asyncio"]
    assert [record.exc_info[0] for record in told if record.exc_info] == [ZeroDivisionError]


def test_an_error_that_nobody_takes_goes_to_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    with Client.in_thread(base_url="http://host") as client:
        client.on_loop(reactivex.throw(ZeroDivisionError("mine"))).subscribe()
        in_loop(client, lambda: None)
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [ZeroDivisionError]


def test_a_subscriber_that_exits_closes_the_client() -> None:
    with both(hold=3) as (_, client):
        other = Heard(story(client))
        other.begun()

        def leave(_: Event) -> None:
            raise SystemExit

        heard = Heard(story(client), leave)
        assert isinstance(other.ended(), StreamInterrupted)
        assert isinstance(heard.ended(), StreamInterrupted)
        with pytest.raises(ConnectFailed, match="got one that was closed"):
            story(client).run()


def test_wrong_arguments_are_refused_where_they_are_given() -> None:
    with Client.in_thread(base_url="http://host") as client:
        with pytest.raises(TypeError, match="expected no field 'stream'"):
            client.events(model="story", input="Tell me one", stream=True)
        with pytest.raises(ValueError, match="linger"):
            client.events(model="story", input="Tell me one", linger=-1)
    with pytest.raises(ValueError, match="expected a base URL"):
        Client.in_thread(base_url="host")
    assert not threads()


def test_a_client_without_a_thread_says_what_to_use() -> None:
    with pytest.raises(RuntimeError, match=r"got none: subscribe inside a coroutine, or use Client\.in_thread\(\)$"):
        Client(base_url="http://host").chunks(model="m").run()


def test_a_coroutine_may_wait_for_a_thread() -> None:
    async def wait(client: ThreadedClient) -> None:
        assert isinstance(story(client).run(), ResponseCompletedEvent)
        assert story(client).pipe(operators.text()).run()

    with both() as (_, client):
        asyncio.run(wait(client))
        refused: list[Exception] = []
        story(client).subscribe(lambda _: refused.append(_raised_by(story(client).run)) if not refused else None)
        story(client).run()
        assert "expected a thread that may wait" in str(refused)


def _raised_by(act: Callable[[], object]) -> Exception:
    with pytest.raises(RuntimeError) as raised:
        act()
    return raised.value


def test_the_settings_are_those_of_a_client() -> None:
    with simulating(api_key="a-key") as distant:
        with Client.in_thread(base_url=distant.simulator.base_url, api_key="a-key", headers={"X-Mine": "1"}) as client:
            story(client).run()
            assert client.base_url == distant.simulator.base_url
            assert repr(client) == f"ThreadedClient(base_url={client.base_url!r})"
        assert distant.simulator.requests[0].headers["x-mine"] == "1"


@pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
def test_it_is_neither_pickled_nor_copied(take: Callable[[object], object]) -> None:
    with pytest.raises(TypeError, match="got a client, which holds a key and connections"):
        take(Client.in_thread(base_url="http://host"))


@pytest.mark.parametrize("name", ["chunks", "events", "resume", "run_tools"])
def test_the_signatures_are_those_of_a_client(name: str) -> None:
    assert inspect.signature(getattr(ThreadedClient, name)) == inspect.signature(getattr(Client, name))


# close


def test_closing_ends_the_streams_that_run() -> None:
    with both(hold=3) as (distant, client):
        heard = [Heard(story(client)) for _ in range(3)]
        bytes_heard = Heard(client.chunks(model="story", input="Tell me one"))
        for one in heard:
            one.begun()
        bytes_heard.begun()
        client.close()
        assert {type(one.ended()) for one in heard} == {StreamInterrupted}
        assert isinstance(bytes_heard.ended(), ConnectionLost)
        assert not threads()
        distant.wait_for(lambda s: s.disconnects == 4)


def test_closing_twice_or_before_anything_is_nothing() -> None:
    with both() as (_, client):
        client.close()
        client.close()
        assert not threads()
    with both() as (_, client), ThreadPoolExecutor(4) as pool:
        story(client).run()
        closings = [pool.submit(client.close) for _ in range(8)]
        for closing in closings:
            closing.result(PATIENCE)
        assert not threads()


def test_closing_in_the_thread_of_the_loop_waits_for_nothing() -> None:
    with both(hold=3) as (_, client):
        heard = Heard(story(client))
        heard.begun()

        def close() -> bool:
            client.close()
            return heard.has_ended

        assert not in_loop(client, close)
        assert isinstance(heard.ended(), StreamInterrupted)
        client.close()
        assert not threads()


def test_closing_waits_for_a_subscriber_no_longer_than_it_should(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(threaded, "_PATIENCE", 0.01)
    caplog.set_level(logging.WARNING, "orx_rx")
    client = Client.in_thread(base_url="http://host")
    with busy(client):
        client.close()
        assert "the event loop of a client did not stop" in caplog.text
    for thread in threads():
        thread.join(PATIENCE)


def test_closing_cancels_what_does_not_end_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threaded, "_LAST_TURNS", 0.01)
    tasks = list[asyncio.Task[object]]()
    with Client.in_thread(base_url="http://host") as client:
        in_loop(client, lambda: tasks.append(asyncio.get_running_loop().create_task(asyncio.Event().wait())))
    assert tasks[0].cancelled()


def test_closing_while_somebody_waits_for_a_response_tells_them() -> None:
    with both(hold=3) as (distant, client), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.final_response, story(client))
        distant.wait_for(lambda s: s.open_streams == 1)
        client.close()
        with pytest.raises(StreamInterrupted):
            waiting.result(PATIENCE)


def test_a_closed_client_refuses_clearly() -> None:
    with both() as (distant, client):
        story(client).run()
        client.close()
        uses: list[Callable[[], object]] = [
            story(client).run,
            client.chunks(model="story", input="Tell me one").run,
            lambda: next(client.iterate(story(client))),
            lambda: client.retrieve("resp_1"),
            lambda: client.cancel("resp_1"),
            lambda: client.final_response(story(client)),
            lambda: client.scheduler,
        ]
        for use in uses:
            with pytest.raises(ConnectFailed, match=r"^expected an open client, got one that was closed$"):
                use()
        assert distant.posts == 1


def test_a_client_that_is_dropped_ends_its_thread() -> None:
    with simulating() as distant:
        client = Client.in_thread(base_url=distant.simulator.base_url)
        story(client).run()
        assert len(threads()) == 1
        del client
        until(lambda: not threads())


def test_a_stream_that_runs_keeps_its_client() -> None:
    with simulating(hold=3) as distant:
        heard = Heard(Client.in_thread(base_url=distant.simulator.base_url).events(model="story", input="x"))
        heard.begun()
        distant.release()
        assert heard.ended() is None
        del heard
        until(lambda: not threads())


# the process


def run(program: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::DeprecationWarning", "-c", program],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )


LEAVE = """
import sys, threading
from orx_rx import Client
begun = threading.Event()
client = Client.in_thread()
client.events(model="story", input="x").subscribe(lambda _: begun.set(), lambda e: print(type(e).__name__))
begun.wait()
"""


@pytest.mark.parametrize("last", ["", "client = None", "sys.exit()", "client.close()"])
def test_the_interpreter_exits_while_a_stream_runs(last: str) -> None:
    with simulating(hold=3) as distant:
        ran = run(LEAVE + last, ORX_BASE_URL=distant.simulator.base_url)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "StreamInterrupted\n", "")
        distant.wait_for(lambda s: s.disconnects == 1)


FORK = """
import os, sys
from orx_rx import Client
used, fresh = Client.in_thread(), Client.in_thread()
used.events(model="story", input="x").run()
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
    used.events(model="story", input="x").run()
else:
    heard = used.events(model="story", input="x").subscribe(print, print)
    heard.dispose()
    try:
        used.retrieve("resp_1")
    except RuntimeError as error:
        print(error)
    used.close()
    print(fresh.events(model="story", input="x").run().type, flush=True)
    fresh.close()
print("over", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks on Windows")
def test_a_fork_has_no_part_of_a_client_that_was_used() -> None:
    with simulating() as distant:
        ran = run(FORK, ORX_BASE_URL=distant.simulator.base_url)
        refusal = "expected the process that the client was first used in, got a fork of it: make a client in each"
        assert (ran.returncode, ran.stderr) == (0, "")
        assert ran.stdout.splitlines() == [refusal, refusal, "response.completed", "over", "over"]
        assert distant.posts == 3


def test_another_process_leaves_the_loop_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    with both(hold=3) as (distant, client):
        heard = Heard(story(client))
        heard.begun()
        with monkeypatch.context() as other:
            other.setattr(os, "getpid", lambda: -1)
            with pytest.raises(RuntimeError, match="got a fork of it"):
                story(client).run()
            heard.subscription.dispose()
            client.close()
        assert len(threads()) == 1
        with pytest.raises(NotFound):  # it is still open
            client.retrieve("nobody")
        assert distant.posts == 1
