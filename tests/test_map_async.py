"""A coroutine for each element: how many run, in which order they are told, and what is left of them."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from typing import Any

import pytest
import reactivex
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import Observable, abc
from reactivex import operators as rx
from reactivex.disposable import Disposable

from orx_rx import iterate
from orx_rx import operators as ops
from orx_rx.flow import Flow, current_flow, subscribing
from orx_rx.stream import Operator
from tests.marbles import Trouble, marks_of, picture
from tests.servers import other_tasks, told, turns, until
from tests.sources import Listener, Source, at_once


class Calls:
    """A coroutine function whose calls end when the test says so; the result of an element is ten times as much."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.cancelled: list[int] = []
        self._open: dict[int, asyncio.Future[None]] = {}

    async def __call__(self, element: int) -> int:
        self.begun.append(element)
        self._open[element] = asyncio.get_running_loop().create_future()
        try:
            await self._open[element]
        except asyncio.CancelledError:
            self.cancelled.append(element)
            raise
        finally:
            del self._open[element]
        return 10 * element

    @property
    def running(self) -> list[int]:
        """Tell which elements are being awaited."""
        return list(self._open)

    async def end(self, *elements: int, error: BaseException | None = None) -> None:
        """End calls, one after the other, with a result or an error."""
        for element in elements:
            ending = self._open[element]
            ending.set_result(None) if error is None else ending.set_exception(error)
            await turns(5)


async def mapping(
    *elements: int, end: bool = True, concurrency: int | None = 1, ordered: bool = True
) -> tuple[Calls, Source[int], Listener[int]]:
    """Subscribe, and push elements."""
    calls, source = Calls(), Source[int]()
    listener = Listener(source.observable.pipe(ops.map_async(calls, concurrency=concurrency, ordered=ordered)))
    source.push(*elements)
    if end:
        source.complete()
    await turns(5)
    return calls, source, listener


# how many run, and the order


async def test_one_runs_at_a_time_by_default() -> None:
    calls, _, listener = await mapping(1, 2, 3)
    for element in (1, 2, 3):
        assert calls.running == [element]
        await calls.end(element)
    assert (listener.heard, listener.ends) == ([10, 20, 30], [None])


async def test_as_many_run_as_are_allowed_and_the_next_begins_when_one_ends() -> None:
    calls, *_ = await mapping(1, 2, 3, 4, concurrency=2)
    assert calls.running == [1, 2]
    await calls.end(2)
    assert calls.running == [1, 3]
    await calls.end(1, 3, 4)
    assert calls.begun == [1, 2, 3, 4]


async def test_without_a_limit_all_run() -> None:
    calls, _, listener = await mapping(*range(100), concurrency=None)
    assert calls.running == list(range(100))
    await calls.end(*range(100))
    assert listener.heard == [10 * element for element in range(100)]


async def test_results_come_in_the_order_of_their_elements() -> None:
    calls, _, listener = await mapping(1, 2, 3, concurrency=3)
    await calls.end(3, 2)
    assert listener.heard == []
    await calls.end(1)
    assert (listener.heard, listener.ends) == ([10, 20, 30], [None])


async def test_or_as_they_are_ready() -> None:
    calls, _, listener = await mapping(1, 2, 3, concurrency=3, ordered=False)
    await calls.end(3)
    assert listener.heard == [30]
    await calls.end(1, 2)
    assert (listener.heard, listener.ends) == ([30, 10, 20], [None])


@pytest.mark.parametrize("ordered", [True, False])
async def test_ten_thousand_elements_of_a_source_that_emits_at_once(ordered: bool) -> None:
    running, most = 0, 0

    async def fn(element: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(1 + element % 3):
            await asyncio.sleep(0)
        running -= 1
        return element

    elements = range(10_000)
    mapped = at_once(elements, None).pipe(ops.map_async(fn, concurrency=8, ordered=ordered))
    heard = [element async for element in iterate(mapped)]
    assert (heard if ordered else sorted(heard)) == list(elements)
    assert most == 8


@settings(max_examples=50, deadline=None)
@given(waits=st.lists(st.integers(0, 6), max_size=12), concurrency=st.integers(1, 5), ordered=st.booleans())
def test_nothing_is_lost_however_long_each_takes(waits: list[int], concurrency: int, ordered: bool) -> None:
    async def fn(element: int) -> int:
        for _ in range(waits[element]):
            await asyncio.sleep(0)
        return element

    async def run() -> list[int]:
        source = reactivex.of(*range(len(waits)))
        mapped = source.pipe(ops.map_async(fn, concurrency=concurrency, ordered=ordered))
        return [element async for element in iterate(mapped)]

    heard = asyncio.run(run())
    assert (heard if ordered else sorted(heard)) == list(range(len(waits)))


async def draw(operator: Callable[[Calls], Operator[Any, Any]], source: str, spans: Callable[[str], int]) -> str:
    """Draw what it does: a column is some turns of the event loop, and a call takes so many columns."""
    due: dict[int, list[asyncio.Future[None]]] = {}
    tick, marks, pushed = 0, list[tuple[int, str]](), Source[str]()

    async def fn(element: str) -> str:
        due.setdefault(tick + spans(element), []).append(ended := asyncio.get_running_loop().create_future())
        await ended
        return element

    pushed.observable.pipe(operator(fn)).subscribe(  # type: ignore[arg-type]
        lambda element: marks.append((tick, element)), None, lambda: marks.append((tick, "|"))
    )
    happens = dict(marks_of(source))
    for tick in range(len(source)):
        for ended in due.pop(tick, ()):
            ended.set_result(None)
        await turns(5)
        sign = happens.get(tick)
        if sign is not None:
            pushed.complete() if sign == "|" else pushed.push(sign)
        await turns(5)
    return picture(marks, 0, len(source))


async def test_the_picture_in_the_docstring_is_what_happens() -> None:
    source, ordered, ready = (
        "---a--b--c----------d--------------------------|",
        "---------------(ab)---c-----d------------------|",
        "--------------ba------c-----d------------------|",
    )
    documented = {line.strip() for line in (ops.map_async.__doc__ or "").splitlines()}
    assert {source, ordered, ready} <= documented

    def spans(element: str) -> int:
        return 12 if element == "a" else 8

    assert await draw(lambda fn: ops.map_async(fn, concurrency=2), source, spans) == ordered
    assert await draw(lambda fn: ops.map_async(fn, concurrency=2, ordered=False), source, spans) == ready


# how it ends


async def test_it_completes_when_all_are_done() -> None:
    calls, source, listener = await mapping(1, 2, end=False)
    await calls.end(1, 2)
    assert listener.ends == []
    source.complete()
    assert listener.ends == [None]


async def test_a_source_without_elements_completes_at_once() -> None:
    _, _, listener = await mapping()
    assert (listener.heard, listener.ends) == ([], [None])


@pytest.mark.parametrize("ordered", [True, False])
async def test_an_error_of_the_source_comes_after_all_that_came_before_it(ordered: bool) -> None:
    trouble = Trouble("of the source")
    calls, source, listener = await mapping(1, 2, 3, end=False, concurrency=2, ordered=ordered)
    source.fail(trouble)
    await calls.end(1, 2)
    assert (listener.heard, listener.ends) == ([10, 20], [])
    await calls.end(3)
    assert (listener.heard, listener.ends) == ([10, 20, 30], [trouble])


async def test_an_error_comes_after_the_results_before_it_and_cancels_what_is_behind() -> None:
    trouble = Trouble("of fn")
    async with told() as contexts:
        calls, source, listener = await mapping(1, 2, 3, 4, end=False, concurrency=3)
        await calls.end(2, error=trouble)
        assert (calls.running, calls.cancelled) == ([1], [3])
        assert source.disposed == 1
        assert listener.ends == []
        source.push(5)
        await calls.end(1)
        assert (listener.heard, listener.ends) == ([10], [trouble])
        assert calls.begun == [1, 2, 3]
    assert not contexts
    assert not other_tasks()


async def test_an_error_comes_at_once_where_order_does_not_matter() -> None:
    trouble = Trouble("of fn")
    async with told() as contexts:
        calls, source, listener = await mapping(1, 2, 3, 4, end=False, concurrency=3, ordered=False)
        await calls.end(2, error=trouble)
        assert (listener.heard, listener.ends) == ([], [trouble])
        assert (calls.cancelled, calls.begun) == ([1, 3], [1, 2, 3])
        assert source.disposed == 1
    assert not contexts
    assert not other_tasks()


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
async def test_of_two_errors_the_first_in_order_is_told(order: tuple[int, int]) -> None:
    troubles = {element: Trouble(f"of {element}") for element in order}
    async with told() as contexts:
        calls, _, listener = await mapping(1, 2, concurrency=2)
        for element in order:
            if element in calls.running:
                await calls.end(element, error=troubles[element])
        assert (listener.heard, listener.ends) == ([], [troubles[1]])
    assert not contexts


async def test_calls_that_fail_in_the_same_turn_are_told_once() -> None:
    async def fail(element: int) -> int:
        raise Trouble(str(element))

    async with told() as contexts:
        listener = Listener(at_once(range(9), None).pipe(ops.map_async(fail, concurrency=None)))
        await turns()
        assert [str(end) for end in listener.ends] == ["0"]
    assert not contexts


async def test_dispose_cancels_what_runs_and_nothing_is_told_any_more() -> None:
    async with told() as contexts:
        calls, source, listener = await mapping(1, 2, 3, end=False, concurrency=2)
        listener.leave()
        await turns(5)
        assert (calls.cancelled, calls.begun, source.disposed) == ([1, 2], [1, 2], 1)
        assert (listener.heard, listener.ends) == ([], [])
    assert not contexts
    assert not other_tasks()


async def test_dispose_before_a_call_has_begun_begins_none() -> None:
    calls, source = Calls(), Source[int]()
    listener = Listener(source.observable.pipe(ops.map_async(calls)))
    source.push(1)
    listener.leave()
    await turns()
    assert calls.begun == []
    assert not other_tasks()


async def test_what_is_raised_after_a_cancellation_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def stubborn(_: int) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise Trouble("while it tidied up")

    async with told() as contexts:
        source = Source[int]()
        listener = Listener(source.observable.pipe(ops.map_async(stubborn)))
        source.push(1)
        await turns(5)
        with caplog.at_level(logging.ERROR, "orx_rx"):
            listener.leave()
            await turns(5)
    assert [record.message for record in caplog.records] == ["a coroutine raised after it was cancelled error=Trouble"]
    assert not contexts


async def test_a_call_that_disposes_its_own_subscription_is_cancelled_with_it() -> None:
    ended = list[str]()

    async def fn(_: int) -> None:
        listener.leave()
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    source = Source[int]()
    listener = Listener(source.observable.pipe(ops.map_async(fn)))
    source.push(1)
    await turns()
    assert (ended, listener.heard, listener.ends) == (["cancelled"], [], [])
    assert not other_tasks()


async def test_a_thousand_subscriptions_that_leave_early_leave_no_task() -> None:
    async def fn(element: int) -> int:
        await asyncio.sleep(0)
        return element

    before = other_tasks()
    async with told() as contexts:
        for number in range(1000):
            source = Source[int]()
            listener = Listener(source.observable.pipe(ops.map_async(fn, concurrency=4), rx.take(3)))
            source.push(*range(9))
            await turns(number % 6)
            listener.leave()
            assert listener.heard in ([], [0, 1, 2])
        await turns()
        assert other_tasks() == before
    assert not contexts


def test_a_loop_that_shuts_down_ends_it_without_a_word() -> None:
    contexts, ends = list[dict[str, Any]](), list[Exception]()

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: contexts.append(context))
        for on_error in (None, ends.append):
            reactivex.of(1, 2, 3).pipe(ops.map_async(Calls(), concurrency=2)).subscribe(None, on_error)
        await turns(5)

    asyncio.run(run())
    assert [type(end) for end in ends] == [RuntimeError]
    assert not contexts


# calls that are cancelled, and functions that are none


async def test_a_call_that_raises_a_cancellation_of_its_own_is_an_error() -> None:
    async def fn(element: int) -> int:
        other = asyncio.get_running_loop().create_future()
        other.cancel()
        await other
        return element

    listener = Listener(reactivex.of(1, 2).pipe(ops.map_async(fn)))
    await turns()
    (error,) = listener.ends
    assert isinstance(error, RuntimeError)
    assert str(error) == "expected fn to return, or to raise an Exception, got CancelledError"
    assert isinstance(error.__cause__, asyncio.CancelledError)


async def test_a_call_that_somebody_else_cancels_is_an_error() -> None:
    calls, _, listener = await mapping(1, 2)
    (task,) = other_tasks()
    task.cancel()
    await turns(5)
    assert [type(end) for end in listener.ends] == [RuntimeError]
    assert calls.begun == [1]


async def test_what_cannot_be_awaited_is_an_error_that_says_what_it_is() -> None:
    async def generate(_: int) -> AsyncIterator[int]:
        yield 1

    wrong: list[tuple[Callable[[int], Any], str]] = [(abs, "int"), (generate, "async_generator")]
    for fn, kind in wrong:
        listener = Listener(reactivex.of(1).pipe(ops.map_async(fn)))
        await turns()
        (error,) = listener.ends
        assert isinstance(error, TypeError)
        assert str(error) == f"expected an awaitable, got {kind}"


async def test_whatever_can_be_awaited_is() -> None:
    def later(element: int) -> asyncio.Future[int]:
        future = asyncio.get_running_loop().create_future()
        future.get_loop().call_soon(future.set_result, element)
        return future

    listener = Listener(reactivex.of(1, 2).pipe(ops.map_async(later)))
    await turns()
    assert (listener.heard, listener.ends) == ([1, 2], [None])


async def test_what_fn_raises_before_it_returns_an_awaitable_is_its_error() -> None:
    trouble = Trouble("of fn")

    def fn(_: int) -> asyncio.Future[int]:
        raise trouble

    listener = Listener(reactivex.of(1).pipe(ops.map_async(fn)))
    await turns()
    assert listener.ends == [trouble]


def test_without_a_running_loop_a_subscriber_is_told_so() -> None:
    (error,) = Listener(reactivex.of(1).pipe(ops.map_async(Calls()))).ends
    assert isinstance(error, RuntimeError)
    assert re.match("expected a running event loop to await coroutines in, got none: subscribe inside", str(error))


# subscribers that raise, and that interfere


async def test_what_a_subscriber_raises_ends_the_stream_and_the_loop_is_told() -> None:
    trouble = Trouble("of the subscriber")

    def on_next(_: int) -> None:
        raise trouble

    ends, calls, source = list[Exception](), Calls(), Source[int]()
    async with told() as contexts:
        source.observable.pipe(ops.map_async(calls, concurrency=2)).subscribe(on_next, ends.append)
        source.push(1, 2, 3)
        await turns(5)
        await calls.end(1)
        assert (ends, calls.cancelled, calls.begun) == ([trouble], [2], [1, 2])
        assert source.disposed == 1
    (context,) = contexts
    assert context["message"] == "a subscriber of orx_rx.operators.map_async raised"
    assert context["exception"] is trouble
    assert not other_tasks()


async def test_a_subscriber_that_raises_and_takes_no_errors_is_told_of_once() -> None:
    async with told() as contexts:
        calls, source = Calls(), Source[int]()
        source.observable.pipe(ops.map_async(calls)).subscribe(lambda element: element // 0)  # type: ignore[arg-type]
        source.push(1)
        await turns(5)
        await calls.end(1)
    assert [type(context["exception"]) for context in contexts] == [ZeroDivisionError]


async def test_an_error_that_nobody_takes_goes_to_the_loop() -> None:
    trouble = Trouble("of fn")
    async with told() as contexts:
        calls, source = Calls(), Source[int]()
        source.observable.pipe(ops.map_async(calls)).subscribe()
        source.push(1)
        await turns(5)
        await calls.end(1, error=trouble)
    assert [context["exception"] for context in contexts] == [trouble]
    assert contexts[0]["message"] == "a subscriber of orx_rx did not take an error"


async def test_a_subscriber_that_raises_a_cancellation_cancels_nobody() -> None:
    def on_next(_: int) -> None:
        raise asyncio.CancelledError

    ends = list[Exception]()
    async with told() as contexts:
        calls, source = Calls(), Source[int]()
        source.observable.pipe(ops.map_async(calls)).subscribe(on_next, ends.append)
        source.push(1)
        await turns(5)
        await calls.end(1)
    assert [str(end) for end in ends] == ["a subscriber raised CancelledError"]
    assert [context["exception"] for context in contexts] == ends


async def test_a_step_behind_it_does_not_take_what_a_subscriber_raised_for_an_error_of_the_source() -> None:
    trouble = Trouble("of the subscriber")

    def on_next(_: object) -> None:
        raise trouble

    async def same(frame: object) -> Any:
        return frame

    ends = list[Exception]()
    async with told() as contexts:
        chunks = reactivex.of(b"data: 1\n\n").pipe(ops.map_async(same), ops.frame())
        chunks.subscribe(on_next, ends.append)
        await turns()
    assert ends == [trouble]
    assert [context["exception"] for context in contexts] == [trouble]


async def test_a_subscriber_may_push_and_complete_in_the_middle_of_an_element() -> None:
    source = Source[int]()
    told_in_the_middle = list[int]()

    def act(element: int) -> None:
        if element == 10:
            source.push(2, 3)
            source.complete()
            told_in_the_middle.append(len(listener.heard) + len(listener.ends))

    calls, listener = Calls(), Listener[int](act=act)
    listener.join(source.observable.pipe(ops.map_async(calls)))
    source.push(1)
    await turns(5)
    await calls.end(1, 2, 3)
    assert (listener.heard, listener.ends) == ([10, 20, 30], [None])
    assert told_in_the_middle == [1]


async def test_a_call_may_push_into_its_own_source() -> None:
    source = Source[int]()

    async def fn(element: int) -> int:
        if element < 5:
            source.push(element + 1)
        else:
            source.complete()
        return element

    listener = Listener(source.observable.pipe(ops.map_async(fn)))
    source.push(0)
    await turns()
    assert (listener.heard, listener.ends) == ([0, 1, 2, 3, 4, 5], [None])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks are new in Python 3.12")
@pytest.mark.parametrize("ordered", [True, False])
async def test_eager_tasks_do_the_same(ordered: bool) -> None:
    async def fn(element: int) -> int:
        if element % 2:
            await asyncio.sleep(0)
        return element

    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined,unused-ignore]
    listener = Listener(at_once(range(20), None).pipe(ops.map_async(fn, concurrency=3, ordered=ordered)))
    await until(lambda: bool(listener.ends))
    assert sorted(listener.heard) == list(range(20))
    leaving = Listener[None]()

    async def leave(_: int) -> None:
        leaving.leave()
        await asyncio.get_running_loop().create_future()

    source = Source[int]()
    leaving.join(source.observable.pipe(ops.map_async(leave)))
    source.push(1, 2)
    await turns()
    assert not other_tasks()


# threads


async def test_a_source_in_another_thread_is_awaited_in_the_loop() -> None:
    here = threading.get_ident()
    threads = set[int]()

    async def fn(element: int) -> int:
        threads.add(threading.get_ident())
        return element

    source = Source[int]()
    listener = Listener(source.observable.pipe(ops.map_async(fn, concurrency=3)))

    def emit() -> None:
        source.push(*range(1000))
        source.complete()

    await asyncio.to_thread(emit)
    await until(lambda: bool(listener.ends))
    assert (listener.heard, listener.ends, threads) == (list(range(1000)), [None], {here})


async def test_dispose_in_another_thread_cancels_what_runs() -> None:
    calls, _, listener = await mapping(1, end=False)
    await asyncio.to_thread(listener.leave)
    await until(lambda: calls.cancelled == [1])
    assert not other_tasks()


# what is paused


def paused(flow: Flow | None) -> bool:
    """Tell whether a source finds its subscriber paused."""
    assert flow is not None
    return flow.is_paused


def finding(source: Source[int], found: list[Flow | None]) -> Observable[int]:
    """Make a source tell the flow that it finds."""

    def subscribe(observer: abc.ObserverBase[int], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        found.append(current_flow())
        return source.observable.subscribe(observer)

    return Observable(subscribe)


async def test_the_source_is_paused_while_many_wait() -> None:
    source, calls, found = Source[int](), Calls(), list[Flow | None]()
    listener = Listener(finding(source, found).pipe(ops.map_async(calls)))
    source.push(*range(17))
    assert not paused(found[0])  # one runs, sixteen wait
    source.push(17)
    assert paused(found[0])
    await turns(5)
    await calls.end(*range(8))
    assert paused(found[0])
    await calls.end(8)
    assert not paused(found[0])
    source.push(*range(18, 40))
    assert paused(found[0])
    listener.leave()
    assert not paused(found[0])


async def test_results_that_wait_for_their_turn_pause_the_source_too() -> None:
    source, calls, found = Source[int](), Calls(), list[Flow | None]()
    listener = Listener(finding(source, found).pipe(ops.map_async(calls, concurrency=None)))
    source.push(*range(30))
    await turns(5)
    await calls.end(*range(1, 17))
    assert not paused(found[0])
    await calls.end(17)
    assert paused(found[0])
    await calls.end(0)
    assert not paused(found[0])
    assert len(listener.heard) == 18


async def test_while_the_subscriber_is_paused_the_source_is_too_and_nothing_is_begun() -> None:
    source, calls, found, flow = Source[int](), Calls(), list[Flow | None](), Flow()
    with subscribing(flow):
        listener = Listener(finding(source, found).pipe(ops.map_async(calls, concurrency=2)))
    assert flow.is_heeded
    source.push(1)
    await turns(5)
    flow.pause()
    assert paused(found[0])
    source.push(2, 3)
    await turns(5)
    assert calls.begun == [1]
    await calls.end(1)
    assert (listener.heard, calls.begun) == ([10], [1])
    flow.resume()
    assert not paused(found[0])
    await turns(5)
    assert calls.running == [2, 3]
    flow.pause()
    source.push(4)
    await calls.end(2)
    assert calls.running == [3]
    listener.leave()
    await turns(5)
    assert not paused(found[0])
    assert not other_tasks()


async def test_a_stream_that_a_call_reads_is_not_paused_along() -> None:
    found, flow = list[Flow | None](), Flow()

    async def fn(element: int) -> int:
        found.append(current_flow())
        return element

    with subscribing(flow):
        Listener(reactivex.of(1).pipe(ops.map_async(fn)))
    await turns()
    assert found == [None]


variable: ContextVar[str] = ContextVar("variable")


async def test_every_call_has_a_copy_of_the_context_of_the_subscription() -> None:
    seen = list[str]()

    async def fn(element: int) -> None:
        seen.append(variable.get())
        variable.set(str(element))

    source = Source[int]()
    variable.set("of the subscription")
    Listener(source.observable.pipe(ops.map_async(fn)))
    variable.set("later")
    source.push(1, 2)
    await turns()
    assert seen == ["of the subscription"] * 2
    assert variable.get() == "later"


async def test_a_source_that_fails_to_be_subscribed_to_is_an_error() -> None:
    trouble = Trouble("of the source")

    def refuse(*_: object) -> Disposable:
        raise trouble

    refused: Observable[int] = Observable(refuse)
    assert Listener(refused.pipe(ops.map_async(Calls()))).ends == [trouble]


async def test_it_works_between_other_operators() -> None:
    async def fn(element: int) -> int:
        await asyncio.sleep(0)
        return element * element

    squares = reactivex.of(1, 2, 3, 4).pipe(rx.skip(1), ops.map_async(fn), ops.map_async(fn), rx.take(2))
    assert [element async for element in iterate(squares)] == [16, 81]


async def test_nothing_of_it_stays_with_the_flow_of_the_subscriber() -> None:
    calls, flow, found = Calls(), Flow(), list[Flow | None]()
    with subscribing(flow):
        listener = Listener(finding(source := Source[int](), found).pipe(ops.map_async(calls)))
    source.push(1)
    source.complete()
    await turns(5)
    await calls.end(1)
    assert listener.ends == [None]
    flow.pause()
    assert not paused(found[0])
