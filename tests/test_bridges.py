"""Bridges to asyncio: what a subscription does to an async iterable, and what a queue gets."""

from __future__ import annotations

import asyncio
import queue as threads
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import reactivex
from reactivex import Observable, Observer, abc
from reactivex import operators as rx

from orx_rx import Client, QueueEnd, from_async_iterable, iterate, sse_chunks, to_queue
from orx_rx import operators as ops
from orx_rx.flow import Flow, current_flow, subscribing
from orx_rx.protocol.steps import Batched, Settling
from orx_rx.step import lift, lift_settling
from tests.marbles import Trouble
from tests.servers import other_tasks, told, turns, until
from tests.sources import Listener, Source, at_once


class Numbers:
    """An async generator function that can be seen: it counts from 0, and awaits before each number."""

    def __init__(self, count: int = 1_000_000, error: Exception | None = None) -> None:
        self.begun = 0
        self.asked = 0
        self.closed = 0
        self._count = count
        self._error = error

    async def __call__(self) -> AsyncGenerator[int]:
        self.begun += 1
        try:
            for number in range(self._count):
                self.asked += 1
                await asyncio.sleep(0)
                yield number
            if self._error is not None:
                raise self._error
        finally:
            await asyncio.sleep(0)  # which a cancellation in the wrong place would cut short
            self.closed += 1


async def ended(listener: Listener[Any]) -> list[Exception | None]:
    """Wait for the end."""
    await until(lambda: bool(listener.ends))
    return listener.ends


# out of an async iterable


async def test_the_elements_of_an_async_iterable_are_emitted_in_order() -> None:
    numbers = Numbers(5)
    listener = Listener(from_async_iterable(numbers))
    assert await ended(listener) == [None]
    assert listener.heard == [0, 1, 2, 3, 4]
    assert numbers.closed == 1
    await turns()
    assert not other_tasks()


async def test_nothing_is_iterated_before_somebody_subscribes() -> None:
    numbers = Numbers()
    from_async_iterable(numbers)
    await turns()
    assert numbers.begun == 0


async def test_every_subscription_iterates_anew() -> None:
    numbers = Numbers(2)
    observable = from_async_iterable(numbers)
    listeners = [Listener(observable), Listener(observable)]
    for listener in listeners:
        assert await ended(listener) == [None]
        assert listener.heard == [0, 1]
    assert numbers.begun == 2


class Twice:
    """An async iterable that is neither a generator nor an iterator, whose iterator cannot be closed."""

    def __aiter__(self) -> AsyncIterator[int]:
        return Once()


class Once:
    """Its iterator."""

    def __init__(self) -> None:
        self._left = [2, 1]

    def __aiter__(self) -> Once:
        return self

    async def __anext__(self) -> int:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


@pytest.mark.parametrize("make", [Twice, lambda: Twice, lambda: Once])
async def test_whatever_is_an_async_iterable_or_makes_one_will_do(make: Callable[[], Any]) -> None:
    observable: Observable[int] = from_async_iterable(make())
    for _ in range(2):
        listener = Listener(observable)
        assert await ended(listener) == [None]
        assert listener.heard == [1, 2]


async def test_a_coroutine_function_may_make_the_iterable() -> None:
    async def open_stream() -> Twice:
        await asyncio.sleep(0)
        return Twice()

    listener = Listener(from_async_iterable(open_stream))
    assert await ended(listener) == [None]
    assert listener.heard == [1, 2]


async def test_a_generator_object_is_refused_a_second_time() -> None:
    observable = from_async_iterable(Numbers(2)())
    listeners = [Listener(observable), Listener(observable)]
    for listener in listeners:
        await ended(listener)
    assert (listeners[0].heard, listeners[0].ends) == ([0, 1], [None])
    (error,) = listeners[1].ends
    assert isinstance(error, RuntimeError)
    assert str(error) == (
        "expected an async iterable that can be iterated again, got one of async_generator that was:"
        " hand over the function that makes it"
    )


async def test_a_generator_object_that_is_used_up_is_refused_and_not_taken_for_an_empty_one() -> None:
    generator = Numbers(1)()
    assert [number async for number in generator] == [0]
    (error,) = await ended(Listener(from_async_iterable(generator)))
    assert isinstance(error, RuntimeError)


async def test_a_generator_object_that_was_never_begun_can_be_subscribed_to_again() -> None:
    observable = from_async_iterable(Numbers(2)())
    Listener(observable).leave()
    await turns()
    listener = Listener(observable)
    assert await ended(listener) == [None]
    assert listener.heard == [0, 1]


async def test_an_error_comes_after_the_elements_before_it() -> None:
    trouble = Trouble("of the iterable")
    numbers = Numbers(2, trouble)
    listener = Listener(from_async_iterable(numbers))
    assert await ended(listener) == [trouble]
    assert (listener.heard, numbers.closed) == ([0, 1], 1)


async def test_what_the_function_raises_is_the_error() -> None:
    trouble = Trouble("of the function")

    def make() -> AsyncIterator[int]:
        raise trouble

    assert await ended(Listener(from_async_iterable(make))) == [trouble]


def test_what_is_no_async_iterable_is_refused_where_it_is_given() -> None:
    with pytest.raises(TypeError, match="expected an async iterable, or a function that makes one, got list"):
        from_async_iterable([1])  # type: ignore[arg-type]


async def test_what_makes_something_else_is_an_error_that_says_what() -> None:
    (error,) = await ended(Listener(from_async_iterable(list)))  # type: ignore[arg-type]
    assert (type(error), str(error)) == (TypeError, "expected an async iterable, got list")


def test_without_a_running_loop_a_subscriber_is_told_so() -> None:
    (error,) = Listener(from_async_iterable(Numbers())).ends
    assert isinstance(error, RuntimeError)
    assert str(error).startswith("expected a running event loop to iterate in, got none: subscribe inside")


@pytest.mark.parametrize("while_opening", [True, False])
async def test_a_cancellation_that_is_none_of_ours_is_an_error(while_opening: bool) -> None:
    async def cancelled() -> None:
        other = asyncio.get_running_loop().create_future()
        other.cancel()
        await other

    async def generate() -> AsyncIterator[int]:
        await cancelled()
        yield 1

    async def open_stream() -> AsyncIterator[int]:
        await cancelled()
        return generate()

    (error,) = await ended(Listener(from_async_iterable(open_stream if while_opening else generate)))
    assert isinstance(error, RuntimeError)
    assert str(error) == "expected an async iterable to end or to raise an Exception, got CancelledError"


# dispose


@pytest.mark.parametrize("count", range(8))
async def test_dispose_after_any_turn_closes_the_iterator(count: int) -> None:
    numbers = Numbers()
    async with told() as contexts:
        listener = Listener(from_async_iterable(numbers))
        await turns(count)
        listener.leave()
        heard = list(listener.heard)
        await turns()
        assert (listener.heard, listener.ends) == (heard, [])
        assert numbers.closed == numbers.begun
        assert not other_tasks()
    assert not contexts


async def test_dispose_in_the_middle_of_an_element_closes_the_iterator_and_asks_for_no_more() -> None:
    numbers = Numbers()
    listener = Listener(from_async_iterable(numbers).pipe(rx.take(3)))
    assert await ended(listener) == [None]
    await turns()
    assert (listener.heard, numbers.asked, numbers.closed) == ([0, 1, 2], 3, 1)
    assert not other_tasks()


async def test_dispose_ends_a_generator_that_never_awaits() -> None:
    async def generate() -> AsyncIterator[int]:
        number = 0
        while True:
            yield number
            number += 1

    listener = Listener(from_async_iterable(generate).pipe(rx.take(3)))
    assert await ended(listener) == [None]
    await turns()
    assert not other_tasks()


async def test_a_generator_that_goes_on_after_it_was_cancelled_is_not_heard() -> None:
    ends = list[str]()

    async def stubborn() -> AsyncIterator[int]:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            yield 1
        finally:
            ends.append("closed")

    listener = Listener(from_async_iterable(stubborn))
    await turns()
    listener.leave()
    await turns()
    assert (listener.heard, listener.ends, ends) == ([], [], ["closed"])
    assert not other_tasks()


async def test_dispose_in_another_thread_closes_the_iterator() -> None:
    numbers = Numbers()
    listener = Listener(from_async_iterable(numbers))
    await turns()
    await asyncio.to_thread(listener.leave)
    await until(lambda: numbers.closed == 1)
    await turns()
    assert not other_tasks()


async def test_a_thousand_subscriptions_that_take_three_leave_no_task() -> None:
    before, numbers = other_tasks(), Numbers()
    async with told() as contexts:
        for _ in range(1000):
            listener = Listener(from_async_iterable(numbers).pipe(rx.take(3)))
            await until(lambda: bool(listener.ends))  # noqa: B023
            listener.leave()
        await turns()
        assert numbers.begun == numbers.closed == 1000
        assert other_tasks() == before
    assert not contexts


async def test_an_iterator_that_fails_to_close_is_told_of() -> None:
    trouble = Trouble("while it was closed")

    async def generate() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise trouble

    async with told() as contexts:
        listener = Listener(from_async_iterable(generate).pipe(rx.take(1)))
        assert await ended(listener) == [None]
    (context,) = contexts
    assert context["message"] == "an iterator of orx_rx.from_async_iterable failed to close"
    assert context["exception"] is trouble


async def test_a_break_out_of_a_loop_over_it_closes_the_iterator() -> None:  # B59
    numbers = Numbers()
    async with iterate(from_async_iterable(numbers)) as reading:
        async for _ in reading:
            break
    await turns()
    assert numbers.closed == 1
    assert not other_tasks()


# subscribers that raise


async def test_what_a_subscriber_raises_goes_to_on_error_and_to_the_loop() -> None:
    trouble = Trouble("of the subscriber")

    def on_next(_: int) -> None:
        raise trouble

    numbers, ends = Numbers(), list[Exception]()
    async with told() as contexts:
        from_async_iterable(numbers).subscribe(on_next, ends.append)
        await turns()
        assert (ends, numbers.asked, numbers.closed) == ([trouble], 1, 1)
    (context,) = contexts
    assert context["message"] == "a subscriber of orx_rx.from_async_iterable raised"
    assert context["exception"] is trouble
    assert not other_tasks()


# while nobody can take more


async def test_a_paused_subscriber_is_waited_for() -> None:
    numbers, flow = Numbers(), Flow()
    flow.pause()
    with subscribing(flow):
        listener = Listener(from_async_iterable(numbers))
    assert flow.is_heeded
    await turns()
    assert numbers.begun == 0
    flow.resume()
    await until(lambda: len(listener.heard) > 2)
    flow.pause()
    asked = numbers.asked
    await turns()
    assert numbers.asked <= asked + 1
    listener.leave()
    await turns()
    assert numbers.closed == 1
    assert not other_tasks()


async def test_what_the_iterable_reads_itself_is_not_paused_along() -> None:
    found, flow = list[Flow | None](), Flow()

    async def generate() -> AsyncIterator[int]:
        found.append(current_flow())
        yield 1

    with subscribing(flow):
        listener = Listener(from_async_iterable(generate))
    await ended(listener)
    assert found == [None]


# into a queue


async def drained(queue: asyncio.Queue[Any]) -> list[Any]:
    """Take all out of a queue, up to the end."""
    taken = [await queue.get()]
    while not isinstance(taken[-1], QueueEnd):
        taken.append(await queue.get())
    return taken


@pytest.mark.parametrize("size", [0, 1, 2, 1000])
@pytest.mark.parametrize("error", [None, Trouble("of the source")])
async def test_a_queue_gets_everything_and_the_end_whatever_its_size(size: int, error: Exception | None) -> None:
    queue = asyncio.Queue[int | QueueEnd](size)
    feeding = asyncio.ensure_future(to_queue(at_once(range(1000), error), queue))
    assert await drained(queue) == [*range(1000), QueueEnd(error)]
    await feeding
    assert not other_tasks()


async def test_a_queue_that_is_full_gets_the_end_when_there_is_room() -> None:
    queue = asyncio.Queue[int | QueueEnd](2)
    feeding = asyncio.ensure_future(to_queue(reactivex.of(1, 2), queue))
    await turns()
    assert (queue.full(), feeding.done()) == (True, False)
    assert queue.get_nowait() == 1
    await feeding
    assert await drained(queue) == [2, QueueEnd(None)]


async def test_readers_that_expect_something_else_at_the_end_get_it() -> None:
    queue = asyncio.Queue[int | None]()
    await to_queue(reactivex.of(1), queue, end=lambda error: None)
    assert [queue.get_nowait(), queue.get_nowait()] == [1, None]


async def test_without_an_end_the_error_is_raised() -> None:
    trouble, queue = Trouble("of the source"), asyncio.Queue[int]()
    with pytest.raises(Trouble) as caught:
        await to_queue(at_once([1], trouble), queue, end=None)
    assert caught.value is trouble
    assert (queue.get_nowait(), queue.empty()) == (1, True)


async def test_without_an_end_nothing_is_put_behind_the_last_element() -> None:
    queue = asyncio.Queue[int]()
    await to_queue(reactivex.of(1), queue, end=None)
    assert (queue.get_nowait(), queue.empty()) == (1, True)


async def test_what_comes_while_a_reader_waits_is_there_at_once() -> None:
    queue, source = asyncio.Queue[int | QueueEnd](1), Source[int]()
    feeding = asyncio.ensure_future(to_queue(source.observable, queue))
    await turns()
    for number in range(5):
        reading = asyncio.ensure_future(queue.get())
        source.push(number)
        assert await reading == number
    source.complete()
    await feeding
    assert source.disposed == 1


async def test_cancelling_it_disposes_and_puts_nothing_more() -> None:
    queue, source = asyncio.Queue[int | QueueEnd](1), Source[int]()
    feeding = asyncio.ensure_future(to_queue(source.observable, queue))
    await turns()
    source.push(1, 2, 3)
    await turns()
    feeding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await feeding
    assert source.disposed == 1
    assert queue.get_nowait() == 1
    await turns()
    assert queue.empty()


async def test_a_source_in_another_thread_feeds_a_queue() -> None:
    queue, source = asyncio.Queue[int | QueueEnd](10), Source[int]()
    feeding = asyncio.ensure_future(to_queue(source.observable, queue))
    await turns()

    def emit() -> None:
        source.push(*range(1000))
        source.complete()

    emitting = asyncio.ensure_future(asyncio.to_thread(emit))
    assert await drained(queue) == [*range(1000), QueueEnd(None)]
    await asyncio.gather(feeding, emitting)


async def test_the_source_is_paused_while_there_is_no_room() -> None:
    found, source, queue = list[Flow | None](), Source[int](), asyncio.Queue[int | QueueEnd](3)

    def subscribe(observer: abc.ObserverBase[int], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        found.append(current_flow())
        return source.observable.subscribe(observer)

    feeding = asyncio.ensure_future(to_queue(Observable(subscribe), queue))
    await turns()
    (flow,) = found
    assert flow is not None
    source.push(1, 2, 3)
    assert not flow.is_paused
    source.push(4)
    assert flow.is_paused
    await turns()
    assert flow.is_paused
    assert queue.get_nowait() == 1
    await turns()
    assert not flow.is_paused
    source.push(5, 6)
    assert flow.is_paused
    feeding.cancel()
    await turns()
    assert not flow.is_paused


async def test_a_slow_reader_of_a_queue_slows_an_iterable_down() -> None:
    numbers, queue = Numbers(100), asyncio.Queue[int | QueueEnd](5)
    ahead = list[int]()
    feeding = asyncio.ensure_future(to_queue(from_async_iterable(numbers), queue))
    for number in range(100):
        await turns(10)
        assert await queue.get() == number
        ahead.append(numbers.asked - number)
    await feeding
    assert max(ahead) <= 8


async def test_what_is_no_queue_of_asyncio_is_refused() -> None:
    with pytest.raises(TypeError, match=r"expected an asyncio.Queue, got queue\.Queue"):
        await to_queue(reactivex.of(1), threads.Queue[int](), end=None)  # type: ignore[call-overload]


@pytest.mark.skipif(not hasattr(asyncio.Queue, "shutdown"), reason="queues can be shut down since Python 3.13")
async def test_a_queue_that_is_shut_down_ends_the_subscription() -> None:
    queue: Any = asyncio.Queue[int | QueueEnd](1)
    source = Source[int]()
    feeding = asyncio.ensure_future(to_queue(source.observable, queue))
    await turns()
    source.push(1, 2)
    await turns()
    queue.shutdown()
    with pytest.raises(Exception) as caught:  # noqa: PT011
        await feeding
    assert type(caught.value).__name__ == "QueueShutDown"
    assert source.disposed == 1


# what nobody would await


class Same(Batched[int, int], Settling):
    """A step that hands on what it is fed, and never settles."""

    def feed(self, item: int, /) -> tuple[int, ...]:
        return (item,)

    def end(self) -> tuple[int, ...]:
        return ()

    def fail(self, error: Exception) -> tuple[int, ...]:
        raise error

    def expire(self) -> tuple[int, ...]:
        return ()


async def on_anything(_: object = None) -> None:
    """Be a coroutine function."""


class Asynchronous:
    """What is a coroutine function in other ways."""

    def __init__(self, *_: object) -> None: ...

    async def __call__(self, _: object = None) -> None: ...

    async def method(self, _: object = None) -> None: ...


class AsynchronousObserver(Observer[int]):
    """An observer that nobody would await."""

    async def on_next(self, value: int) -> None:  # type: ignore[override]
        raise AssertionError(value)


@asynccontextmanager
async def observables() -> AsyncGenerator[dict[str, Observable[Any]]]:
    """Make an observable in every way in which the library makes one."""
    source = reactivex.of(1)
    async with Client(base_url="http://127.0.0.1:9/v1", api_key="none") as client:
        yield {
            "lift": source.pipe(lift(Same)),
            "lift_settling": source.pipe(lift_settling(Same, 1.0)),
            "fan_out": source.pipe(ops.fan_out()),
            "map_async": source.pipe(ops.map_async(on_anything)),
            "resume_on_disconnect": reactivex.never().pipe(ops.resume_on_disconnect(lambda _: reactivex.never())),
            "from_async_iterable": from_async_iterable(Numbers()),
            "sse_chunks": sse_chunks(client._session, "GET", "http://127.0.0.1:9"),  # pyright: ignore[reportPrivateUsage]
            "client.chunks": client.chunks(model="m"),
            "client.events": client.events(model="m"),
        }


async def test_a_coroutine_function_is_refused_by_every_observable_of_the_library() -> None:
    async with observables() as made:
        for name, observable in made.items():
            for place in range(3):
                functions: list[Any] = [None] * 3
                functions[place] = on_anything
                called = ("on_next", "on_error", "on_completed")[place]
                with pytest.raises(TypeError) as caught:
                    observable.subscribe(*functions)
                assert str(caught.value) == (
                    f"expected a function for {called}, got a coroutine function, which nobody would await:"
                    " use map_async, or read with iterate"
                ), name
    assert not other_tasks()


@pytest.mark.parametrize(
    "function",
    [
        on_anything,
        partial(on_anything),
        partial(partial(Asynchronous()), 1),
        Asynchronous(),
        Asynchronous().method,
        AsynchronousObserver(),
    ],
)
def test_whatever_would_have_to_be_awaited_is_refused(function: Any) -> None:
    with pytest.raises(TypeError, match="expected a function for on_next, got a coroutine function"):
        reactivex.of(1).pipe(ops.fan_out()).subscribe(function)


TAKEN: list[Any] = [None, print, list[int]().append, partial(print, end=""), Asynchronous, Observer[int]()]


@pytest.mark.parametrize("function", TAKEN)
def test_whatever_need_not_be_is_taken(function: Any) -> None:
    reactivex.of(1).pipe(lift(Same)).subscribe(function).dispose()


def test_what_a_plain_operator_returns_cannot_be_told() -> None:
    taken: list[Awaitable[None]] = []
    reactivex.of(1).pipe(lift(Same), rx.map(lambda number: number)).subscribe(lambda _: taken.append(on_anything()))
    (coroutine,) = taken
    coroutine.close()  # type: ignore[attr-defined]
