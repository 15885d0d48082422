"""Rx and asyncio: what a loop reads, how it may end, and what is left then."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import reactivex
from reactivex import Observable

from orx_rx import (
    Accumulator,
    Client,
    ConnectFailed,
    ConnectionLost,
    Cursor,
    LifecycleViolation,
    Retry,
    ServerError,
    StreamInterrupted,
    final_response,
    iterate,
    operators,
)
from orx_rx.aio import Iteration
from orx_rx.models import Event
from tests.chain import added, created, delta, events, hello, message, part_added, sse, terminal
from tests.servers import CHUNKED, LAST, Ear, Peer, answer, chunk, listening, other_tasks, told, turns, until
from tests.servers import clean_environment as clean_environment
from tests.sources import Source, at_once

pytestmark = pytest.mark.usefixtures("clean_environment")

HELLO = sse(*hello())
START = sse(created(), added(), part_added(), delta("Hel"), done=False)


ONCE = Retry(attempts=0)


async def read(observable: Observable[int]) -> list[int]:
    """Read an observable to its end."""
    return [element async for element in iterate(observable)]


# what a loop reads


@pytest.mark.parametrize("count", [0, 1, 2, 100_000])
async def test_a_loop_reads_what_a_source_emits_at_once_in_order(count: int) -> None:
    assert await read(at_once(range(count), None)) == list(range(count))


async def test_a_loop_reads_a_source_of_rx() -> None:
    assert await read(reactivex.of(1, 2, 3)) == [1, 2, 3]


async def test_a_loop_reads_what_comes_while_it_waits() -> None:
    source = Source[int]()
    reading = asyncio.ensure_future(read(source.observable))
    for number in range(5):
        await turns()
        source.push(number)
    source.push(5, 6)
    source.complete()
    assert await reading == [0, 1, 2, 3, 4, 5, 6]
    assert not other_tasks()


async def test_a_loop_may_await_while_elements_come() -> None:
    source, found = Source[int](), list[int]()

    async def slowly() -> None:
        async for number in iterate(source.observable):
            await turns()
            found.append(number)

    reading = asyncio.ensure_future(slowly())
    await turns(1)
    for number in range(20):
        source.push(number)
        await turns(7)
    source.complete()
    await reading
    assert found == list(range(20))


async def test_nothing_is_subscribed_before_the_reading_begins() -> None:
    source = Source[int]()
    async with iterate(source.observable) as reading:
        reading.__aiter__()
        await turns()
        assert source.subscribed == 0


async def test_every_iteration_is_a_subscription_of_its_own() -> None:
    source = at_once([1], None)
    assert await read(source) == [1]
    assert await read(source) == [1]


async def test_an_error_is_raised_after_the_elements_before_it() -> None:
    found, boom = list[int](), ZeroDivisionError("boom")

    async def collect() -> None:
        async for number in iterate(at_once([1, 2, 3], boom)):
            found.append(number)

    with pytest.raises(ZeroDivisionError) as caught:
        await collect()
    assert found == [1, 2, 3]
    assert caught.value is boom


async def test_an_error_reaches_a_loop_that_waits() -> None:
    source = Source[int]()
    reading = asyncio.ensure_future(read(source.observable))
    await turns()
    source.fail(ZeroDivisionError("boom"))
    with pytest.raises(ZeroDivisionError):
        await reading


async def test_a_source_that_cannot_be_subscribed_to_is_an_error_of_the_loop() -> None:
    def refuse(*_: object) -> reactivex.abc.DisposableBase:
        raise ZeroDivisionError("boom")

    with pytest.raises(ZeroDivisionError):
        await read(Observable(refuse))


# how a loop may end


async def test_a_loop_that_reads_to_the_end_disposes_the_source() -> None:
    source = Source[int]()
    reading = asyncio.ensure_future(read(source.observable))
    await turns()
    source.complete()
    await reading
    assert source.disposed == 1


async def test_a_loop_that_breaks_disposes_the_source() -> None:
    source = _emitting()
    async for _ in iterate(source.observable):
        break
    assert source.disposed == 1


async def test_a_loop_whose_body_raises_disposes_the_source() -> None:
    source = _emitting()

    async def fail() -> None:
        async for _ in iterate(source.observable):
            raise ZeroDivisionError("of the body")

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert source.disposed == 1


async def test_a_return_out_of_the_loop_disposes_the_source() -> None:
    source = _emitting()

    async def first() -> int:
        async for number in iterate(source.observable):
            return number
        raise AssertionError

    assert await first() == 1
    assert source.disposed == 1


async def test_closing_disposes_the_source_and_forgets_what_was_not_read() -> None:
    source = _emitting()
    reading = iterate(source.observable)
    assert await anext(reading) == 1
    await reading.aclose()
    assert source.disposed == 1
    with pytest.raises(StopAsyncIteration):
        await anext(reading)
    await reading.aclose()
    assert source.disposed == 1


class Thing:
    """Something that can be seen to go away."""


async def test_closing_lets_go_of_what_was_not_read() -> None:
    source = Source[Thing]()
    reading = iterate(source.observable)
    waiting = asyncio.ensure_future(anext(reading))
    await turns()
    source.push(Thing(), thing := Thing())
    await waiting
    ref = weakref.ref(thing)
    del thing
    assert ref() is not None
    await reading.aclose()
    gc.collect()
    assert ref() is None


async def test_leaving_the_context_disposes_the_source_in_whatever_way() -> None:
    source = _emitting()

    async def fail() -> None:
        async with iterate(source.observable) as reading:
            assert await anext(reading) == 1
            raise ZeroDivisionError("of the body")

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert source.disposed == 1


async def test_closing_before_the_reading_begins_subscribes_to_nothing() -> None:
    source = Source[int]()
    async with iterate(source.observable):
        pass
    assert source.subscribed == 0


async def test_closing_wakes_a_loop_that_waits() -> None:
    source = Source[int]()
    reading = iterate(source.observable)
    waiting = asyncio.ensure_future(_listed(reading))
    await turns()
    await reading.aclose()
    assert await waiting == []


async def test_cancelling_a_loop_that_waits_disposes_the_source() -> None:
    source = Source[int]()
    reading = asyncio.ensure_future(read(source.observable))
    await turns()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert source.disposed == 1


async def test_cancelling_a_loop_whose_body_waits_disposes_the_source() -> None:
    source = _emitting()

    async def hang() -> None:
        async for _ in iterate(source.observable):
            await asyncio.get_running_loop().create_future()

    reading = asyncio.ensure_future(hang())
    await turns()
    assert source.disposed == 0
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert source.disposed == 1


async def test_a_timeout_around_the_reading_disposes_the_source() -> None:
    source = Source[int]()
    reading = iterate(source.observable)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(reading), 0.01)
    assert source.disposed == 1
    with pytest.raises(RuntimeError, match="expected an iteration that has not ended"):
        await _listed(reading)


def _emitting() -> Source[int]:
    """Make a source that emits 1 and 2 when it is subscribed to, and goes on."""
    source = Source[int]()
    endless = source.observable
    source.observable = reactivex.merge(endless, reactivex.of(1, 2))
    return source


async def _listed(reading: Iteration[int]) -> list[int]:
    return [element async for element in reading]


# reading again, and by two at once


async def test_a_loop_may_go_on_where_another_left_off() -> None:
    source = Source[int]()
    async with iterate(reactivex.concat(reactivex.of(1, 2), source.observable)) as reading:
        async for number in reading:
            assert number == 1
            break
        async for number in reading:
            assert number == 2
            break
        await turns()
        assert source.subscribed == 1


@pytest.mark.parametrize("end", [None, ZeroDivisionError("boom")], ids=["completed", "failed"])
async def test_an_iteration_that_has_ended_cannot_be_iterated_again(end: Exception | None) -> None:
    reading = iterate(at_once([1], end))
    assert await anext(reading) == 1
    with pytest.raises((StopAsyncIteration, ZeroDivisionError)):
        await anext(reading)
    with pytest.raises(RuntimeError, match="expected an iteration that has not ended, got one that has"):
        await _listed(reading)
    with pytest.raises(StopAsyncIteration):
        await anext(reading)


async def test_an_iteration_that_was_closed_cannot_be_iterated() -> None:
    reading = iterate(reactivex.of(1))
    await reading.aclose()
    with pytest.raises(RuntimeError, match="expected an iteration that has not ended, got one that has"):
        await _listed(reading)


async def test_what_a_source_that_has_ended_emitted_can_still_be_read() -> None:
    reading = iterate(reactivex.of(1, 2, 3))
    assert await anext(reading) == 1
    assert await _listed(reading) == [2, 3]


async def test_a_second_task_is_refused_and_the_first_is_not_harmed() -> None:
    source = Source[int]()
    reading = iterate(source.observable)
    first = asyncio.ensure_future(_listed(reading))
    await turns()
    with pytest.raises(RuntimeError, match="expected one task to read an iteration, got a second one"):
        await anext(reading)
    source.push(1)
    # the element is there, and the first task, which waits for it, has not run yet
    with pytest.raises(RuntimeError, match="expected one task to read an iteration, got a second one"):
        await anext(reading)
    source.complete()
    assert await first == [1]


# real connections


@asynccontextmanager
async def streaming() -> AsyncGenerator[tuple[Observable[Event], Callable[[], Awaitable[Peer]]]]:
    """Make a client, and a server that sends the start of a stream, when it is asked to, and then stalls."""
    async with (
        listening() as server,
        Client(retry=ONCE, base_url=server.url) as client,
        told() as contexts,
    ):

        async def serve() -> Peer:
            peer, _ = await server.asked()
            await peer.send(CHUNKED, chunk(START))
            return peer

        yield client.events(model="m"), serve
        await until(lambda: not other_tasks())
        assert not server.knocks()
    assert not contexts


async def test_leaving_the_context_has_closed_the_connection() -> None:
    async with streaming() as (stream, serve):
        async with iterate(stream) as reading:
            serving = asyncio.ensure_future(serve())
            await anext(reading)
            peer = await serving
        assert peer.is_gone()
        assert not other_tasks()


async def test_closing_has_closed_the_connection_even_before_the_answer() -> None:
    async with (
        listening() as server,
        Client(retry=ONCE, base_url=server.url) as client,
        told() as contexts,
    ):
        reading = iterate(client.events(model="m"))
        waiting = asyncio.ensure_future(anext(reading, None))
        peer, _ = await server.asked()
        await reading.aclose()
        assert peer.is_gone()
        assert await waiting is None
        assert not other_tasks()
    assert not contexts


async def test_a_break_closes_the_connection() -> None:
    async with streaming() as (stream, serve):
        serving = asyncio.ensure_future(serve())
        async for _ in iterate(stream):
            break
        peer = await serving
        assert await peer.gone()


async def test_cancelling_a_task_that_reads_leaves_nothing() -> None:
    found = list[Event]()

    async def collect() -> None:
        async for event in iterate(stream):
            found.append(event)

    async with streaming() as (stream, serve):
        reading = asyncio.ensure_future(collect())
        peer = await serve()
        await until(lambda: len(found) == 4)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert await peer.gone()


async def test_cancelling_who_awaits_the_final_response_has_closed_the_connection() -> None:
    async with streaming() as (stream, serve):
        accumulator = Accumulator()
        waiting = asyncio.ensure_future(final_response(stream.pipe(operators.accumulate(into=accumulator))))
        peer = await serve()
        await until(lambda: accumulator.last_sequence_number == 3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert peer.is_gone()
        assert not other_tasks()


async def test_a_loop_reads_a_stream_to_its_end() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:

        async def collect() -> list[str]:
            return [event.type async for event in iterate(client.events(model="m"))]

        reading = asyncio.ensure_future(collect())
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(HELLO), LAST)
        assert await reading == [payload["type"] for payload in hello()]


# the final response


@pytest.mark.parametrize("status", ["completed", "failed", "incomplete"])
@pytest.mark.parametrize("by_hand", [False, True], ids=["client.events", "by hand"])
async def test_the_response_of_every_terminal_is_returned(status: str, by_hand: bool) -> None:
    last = terminal(status, incomplete_details={"reason": "max_output_tokens"}, error={"code": "c", "message": "Boom"})
    body = sse(created(), added(), part_added(), delta("Hel"), last)
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        chain = client.chunks(model="m").pipe(operators.frame(), operators.decode())
        waiting = asyncio.ensure_future(final_response(chain if by_hand else client.events(model="m")))
        peer, _ = await server.asked()
        await peer.send(answer(body))
        response = await waiting
        assert response.status == status
        assert response.output_text == "Hel"  # the terminal lists no item, and nothing that was streamed is lost
        assert response.incomplete_details is not None
        assert response.error is not None
        assert (response.incomplete_details.reason, response.error.message) == ("max_output_tokens", "Boom")


async def test_the_first_terminal_wins() -> None:
    two = events(created(), terminal(id="resp_a"), terminal("failed", id="resp_b"))
    response = await final_response(at_once(two, None))
    assert (response.id, response.status) == ("resp_a", "completed")


@pytest.mark.parametrize("reset", [False, True])
async def test_an_interruption_carries_cursor_and_snapshot(reset: bool) -> None:
    async with streaming() as (stream, serve):
        accumulator = Accumulator()
        waiting = asyncio.ensure_future(final_response(stream.pipe(operators.accumulate(into=accumulator))))
        peer = await serve()
        await until(lambda: accumulator.last_sequence_number == 3)
        peer.reset() if reset else peer.finish()
        with pytest.raises(StreamInterrupted, match=r"^expected a terminal, got ") as caught:
            await waiting
        assert caught.value.cursor == Cursor("resp_a", 3)
        assert caught.value.snapshot is not None
        assert caught.value.snapshot.output_text == "Hel"


async def test_a_connection_that_fails_before_the_first_event_is_no_interruption() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        waiting = asyncio.ensure_future(final_response(client.events(model="m")))
        peer, _ = await server.asked()
        peer.reset()
        with pytest.raises(ConnectFailed):
            await waiting


async def test_an_error_of_the_server_carries_the_snapshot() -> None:
    error = {"type": "error", "sequence_number": 4, "error": {"code": "c", "message": "Boom"}}
    stream = at_once(events(created(), added(), part_added(), delta("Hel"), error), None)
    with pytest.raises(ServerError, match="Boom") as caught:
        await final_response(stream.pipe(operators.lifecycle_guard()))
    assert caught.value.snapshot is not None
    assert caught.value.snapshot.output_text == "Hel"


@pytest.mark.parametrize("background", [False, True])
async def test_a_stream_without_a_terminal_that_nobody_guards_is_an_interruption(background: bool) -> None:
    start = events(created(background=background), added(), part_added(), delta("Hel"))
    with pytest.raises(StreamInterrupted, match=r"^expected a terminal, got the end of the stream$") as caught:
        await final_response(at_once(start, None))
    assert caught.value.cursor == Cursor("resp_a", 3)
    assert caught.value.resumable is background
    assert caught.value.snapshot is not None
    assert caught.value.snapshot.output_text == "Hel"


async def test_a_stream_without_any_event_is_an_interruption_without_a_cursor() -> None:
    with pytest.raises(StreamInterrupted) as caught:
        await final_response(reactivex.empty())
    assert (caught.value.cursor, caught.value.snapshot, caught.value.resumable) == (None, None, False)


async def test_a_connection_that_breaks_after_the_terminal_does_not_matter() -> None:
    whole = events(created(), terminal(output=[message("Hello")]))
    response = await final_response(at_once(whole, ConnectionLost("reset")))
    assert response.output_text == "Hello"


@pytest.mark.parametrize("error", [LifecycleViolation("second terminal"), ZeroDivisionError("of an operator")])
async def test_any_other_error_after_the_terminal_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        await final_response(at_once(events(created(), terminal()), error))


async def test_final_response_takes_a_stream_that_is_shared() -> None:
    async with listening() as server, Client(retry=ONCE, base_url=server.url) as client:
        shared = client.events(model="m").pipe(operators.fan_out())
        ear = Ear(shared.pipe(operators.text()))
        peer, _ = await server.asked()
        await peer.send(CHUNKED, chunk(START))
        await ear.heard(1)
        waiting = asyncio.ensure_future(final_response(shared))
        await peer.send(chunk(HELLO.removeprefix(START)), LAST)
        assert (await waiting).output_text == "Hello"
        assert ear.elements == ["Hel", "lo"]
        assert not server.knocks()


async def test_a_loop_reads_what_comes_from_another_thread() -> None:
    source = Source[int]()

    def emit() -> None:
        source.push(1, 2)
        source.complete()

    async with iterate(source.observable) as reading:
        first = asyncio.create_task(anext(reading))
        await turns()
        await asyncio.to_thread(emit)  # as the timers of Rx do
        assert await first == 1
        assert await _listed(reading) == [2]
