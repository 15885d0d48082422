"""One upstream subscription, any number of subscribers: who hears what, whoever comes, goes or raises."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import random
import sys
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from operator import is_
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest
import reactivex
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import Observable, abc
from reactivex import operators as rx
from reactivex.disposable import Disposable

from orx_rx.aio import Iteration, iterate
from orx_rx.bridges import from_async_iterable
from orx_rx.errors import JoinedTooLate, StreamInterrupted
from orx_rx.flow import Flow, current_flow, subscribing
from orx_rx.models import Event
from orx_rx.operators import accumulate, fan_out
from orx_rx.protocol.decoding import Decoder
from orx_rx.step import lift
from orx_rx.stream import Operator
from orx_rx.wire import FrameParser
from tests.captures import capture_names, read_capture
from tests.marbles import Trouble, draw
from tests.servers import PATIENCE
from tests.sources import Listener, Source, at_once

if TYPE_CHECKING:
    from _typeshed import TraceFunction

History = Literal["all"] | int | None


def share(
    history: History = "all", *, gaps: Literal["raise", "allow"] = "raise", keep_alive: bool = False
) -> tuple[Source[int], Observable[int]]:
    """Make a source and its fan-out."""
    source = Source[int]()
    return source, source.observable.pipe(fan_out(history=history, gaps=gaps, keep_alive=keep_alive))


def kinds(listener: Listener[Any]) -> list[type[object]]:
    """Tell how it ended: with errors of which classes, or with completion, which is NoneType."""
    return [type(end) for end in listener.ends]


# one subscription


def test_nobody_subscribes_upstream_before_the_first_subscriber_and_nobody_after() -> None:
    source, shared = share()
    assert source.subscribed == 0
    listeners = [Listener(shared) for _ in range(3)]
    source.push(1)
    listeners.append(Listener(shared))
    source.complete()
    listeners.append(Listener(shared))
    assert source.subscribed == 1
    assert [listener.heard for listener in listeners] == [[1]] * 5


def test_a_subscriber_after_the_first_one_ran_to_completion_sends_no_second_request() -> None:  # B62
    requests: list[None] = []

    def post(*_: object) -> Observable[int]:
        requests.append(None)
        return reactivex.of(1, 2)

    shared = reactivex.defer(post).pipe(fan_out())
    first, second = Listener(shared), Listener(shared)
    assert (first.heard, second.heard, len(requests)) == ([1, 2], [1, 2], 1)
    assert (first.ends, second.ends) == ([None], [None])


def test_every_application_of_the_operator_has_a_hub_of_its_own() -> None:
    operator: Operator[int, int] = fan_out()
    sources = [Source[int](), Source[int]()]
    listeners = [Listener(source.observable.pipe(operator)) for source in sources]
    sources[0].push(1)
    sources[1].push(2)
    assert [listener.heard for listener in listeners] == [[1], [2]]


def test_the_scheduler_of_the_first_subscriber_reaches_the_source() -> None:
    assert draw(fan_out(), "-a-|") == "-a-|"


# history


@pytest.mark.parametrize("history", ["all", 1, 3, 100, None])
@pytest.mark.parametrize("joined", range(6))
@pytest.mark.parametrize("end", [None, Trouble("of the source")])
def test_who_joins_late_gets_the_history_then_what_is_live_then_the_end(
    history: History, joined: int, end: Exception | None
) -> None:
    elements = list(range(5))
    source, shared = share(history, gaps="allow")
    first = Listener(shared)
    source.push(*elements[:joined])
    late = Listener(shared)
    source.push(*elements[joined:])
    source.complete() if end is None else source.fail(end)
    after = Listener(shared)
    kept = 5 if history == "all" else history or 0
    assert (first.heard, first.ends) == (elements, [end])
    assert (late.heard, late.ends) == (elements[max(0, joined - kept) :], [end])
    assert (after.heard, after.ends) == (elements[max(0, 5 - kept) :], [end])


def test_fifty_before_and_one_while_they_are_replayed_are_heard_once_and_in_order() -> None:  # B66
    source, shared = share()
    first = Listener(shared)
    source.push(*range(1, 51))
    late = Listener[int](act=lambda element: source.push(51) if element == 25 else None)
    late.join(shared)
    assert first.heard == late.heard == list(range(1, 52))


# a history without its beginning


@pytest.mark.parametrize("history", [1, 3])
@pytest.mark.parametrize("pushed", range(6))
@pytest.mark.parametrize("ends", [[], [None], [Trouble("of the source")]], ids=["open", "completed", "failed"])
def test_who_comes_when_the_beginning_is_lost_gets_nothing_but_an_error(
    history: int, pushed: int, ends: list[Exception | None]
) -> None:
    source, shared = share(history)
    first = Listener(shared)
    source.push(*range(pushed))
    for end in ends:
        source.complete() if end is None else source.fail(end)
    late = Listener(shared)
    if pushed <= history:
        assert (late.heard, late.ends) == (list(range(pushed)), ends)
    else:
        (error,) = late.ends
        assert isinstance(error, JoinedTooLate)
        assert error.missed == pushed - history
        assert late.heard == []
    source.push(6)
    assert (first.heard, first.ends) == ([*range(pushed), *([] if ends else [6])], ends)
    assert late.heard == [] or late.heard == first.heard


def test_it_says_how_much_was_lost() -> None:
    source, shared = share(2)
    Listener(shared)
    source.push(*range(7))
    late = [Listener(shared), Listener(shared)]
    assert [str(listener.ends[0]) for listener in late] == [
        "expected a history from the first element on, got one without its first 5"
    ] * 2
    assert late[0].ends[0] is not late[1].ends[0]  # an error knows through its traceback who raised it again


def test_who_comes_too_late_after_the_last_one_left_is_told_that() -> None:
    source, shared = share(1)
    first = Listener(shared)
    source.push(1)
    first.leave()
    assert kinds(Listener(shared)) == [StreamInterrupted]
    source, shared = share(1)
    first = Listener(shared)
    source.push(1, 2)
    first.leave()
    assert kinds(Listener(shared)) == [JoinedTooLate]


def test_who_keeps_nothing_promises_nothing() -> None:
    source, shared = share(None)
    listeners = [Listener(shared)]
    for number in range(3):
        source.push(number)
        listeners.append(Listener(shared))
    source.complete()
    assert [listener.heard for listener in listeners] == [[0, 1, 2], [1, 2], [2], []]
    assert [listener.ends for listener in listeners] == [[None]] * 4


def test_who_comes_too_late_was_never_there(caplog: pytest.LogCaptureFixture) -> None:
    source, shared = share(1)
    first = Listener(shared)
    source.push(1, 2)
    late = Listener(shared)
    late.leave()
    source.push(3)
    assert (first.heard, first.ends, source.disposed) == ([1, 2, 3], [], 0)
    first.leave()
    assert (source.subscribed, source.disposed, kinds(late), caplog.records) == (1, 1, [JoinedTooLate], [])


def test_the_element_that_one_joins_in_the_middle_of_may_be_the_one_too_many() -> None:
    source, shared = share(2)
    in_time, too_late = Listener[int](), Listener[int]()
    guests = {2: in_time, 3: too_late}
    Listener(shared, lambda element: guests[element].join(shared) if element in guests else None)
    source.push(1, 2, 3, 4)
    assert (in_time.heard, in_time.ends) == ([1, 2, 3, 4], [])
    assert (too_late.heard, kinds(too_late)) == ([], [JoinedTooLate])


def test_that_one_came_too_late_is_not_silent_without_an_error_handler(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    source, shared = share(1)
    Listener(shared)
    source.push(1, 2)
    shared.subscribe()
    assert messages(caplog) == ["a subscriber raised at the end"]
    assert "JoinedTooLate" in capsys.readouterr().err


@pytest.mark.parametrize("gaps", ["", "report", None, True])
def test_other_gaps_are_refused(gaps: Any) -> None:
    with pytest.raises(ValueError, match=f"expected gaps to be 'raise' or 'allow', got {gaps!r}"):
        fan_out(gaps=gaps)


# the end


def test_an_error_is_the_same_object_for_everybody() -> None:
    source, shared = share()
    early, trouble = Listener(shared), Trouble("of the source")
    source.fail(trouble)
    late = Listener(shared)
    assert early.ends[0] is trouble
    assert late.ends[0] is trouble


def test_a_source_that_goes_on_after_its_end_is_not_heard() -> None:
    source, shared = share()
    early = Listener(shared)
    source.push(1)
    source.complete()
    source.push(2)
    source.fail(Trouble("of the source"))
    late = Listener(shared)
    assert (early.heard, early.ends) == (late.heard, late.ends) == ([1], [None])


# subscribers that raise


@dataclass
class Raiser:
    """A subscriber that raises; it counts what it is told.

    Attributes:
        at_next: What to raise for an element.
        at_end: What to raise at the end.
    """

    at_next: BaseException | None = None
    at_end: BaseException | None = None
    heard: list[int] = field(default_factory=list[int])
    ends: list[Exception | None] = field(default_factory=list[Exception | None])

    def on_next(self, element: int) -> None:
        self.heard.append(element)
        if self.at_next is not None:
            raise self.at_next

    def on_error(self, error: Exception) -> None:
        self.ends.append(error)
        if self.at_end is not None:
            raise self.at_end

    def on_completed(self) -> None:
        self.ends.append(None)
        if self.at_end is not None:
            raise self.at_end

    def join(self, shared: Observable[int]) -> None:
        shared.subscribe(self.on_next, self.on_error, self.on_completed)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().partition(" error=")[0] for record in caplog.records]


def test_a_subscriber_that_raises_is_detached_told_and_logged_and_harms_nobody(  # B56
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, shared = share()
    trouble = ValueError("of the subscriber")
    raiser, other = Raiser(trouble), Listener[int]()
    raiser.join(shared)
    other.join(shared)
    source.push(1, 2, 3)
    source.complete()
    assert (raiser.heard, raiser.ends) == ([1], [trouble])
    assert (other.heard, other.ends) == ([1, 2, 3], [None])
    assert messages(caplog) == ["a subscriber raised and was detached"]
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("orx_rx", logging.ERROR)
    assert record.exc_info is not None
    assert record.exc_info[1] is trouble


def test_one_among_a_thousand_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    source, shared = share()
    raiser = Raiser(ValueError("of the subscriber"))
    before = [Listener(shared) for _ in range(500)]
    raiser.join(shared)
    after = [Listener(shared) for _ in range(499)]
    source.push(1, 2)
    source.complete()
    assert raiser.heard == [1]
    assert all((listener.heard, listener.ends) == ([1, 2], [None]) for listener in (*before, *after))
    assert len(caplog.records) == 1


@pytest.mark.parametrize("end", [None, Trouble("of the source")])
def test_a_subscriber_that_raises_at_the_end_is_logged_and_harms_nobody(
    caplog: pytest.LogCaptureFixture, end: Exception | None
) -> None:
    source, shared = share()
    raiser, other = Raiser(at_end=ValueError("of the subscriber")), Listener[int]()
    raiser.join(shared)
    other.join(shared)
    source.push(1)
    source.complete() if end is None else source.fail(end)
    assert (raiser.ends, other.ends) == ([end], [end])
    assert messages(caplog) == ["a subscriber raised at the end"]


def test_a_subscriber_that_raises_again_when_it_is_told_is_logged_twice(caplog: pytest.LogCaptureFixture) -> None:
    source, shared = share()
    raiser, other = Raiser(ValueError("of the subscriber"), LookupError("again")), Listener[int]()
    raiser.join(shared)
    other.join(shared)
    source.push(1, 2)
    assert (raiser.heard, len(raiser.ends), other.heard) == ([1], 1, [1, 2])
    assert messages(caplog) == ["a subscriber raised and was detached", "a subscriber raised at the end"]


def test_a_subscriber_without_an_error_handler_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    source, shared = share()
    shared.subscribe()
    other, trouble = Listener(shared), Trouble("of the source")
    source.fail(trouble)
    assert other.ends == [trouble]
    assert messages(caplog) == ["a subscriber raised at the end"]


def test_a_subscriber_that_raises_and_has_no_error_handler_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    source, shared = share()
    shared.subscribe(Raiser(ValueError("of the subscriber")).on_next)
    other = Listener(shared)
    source.push(1, 2)
    assert other.heard == [1, 2]
    assert messages(caplog) == ["a subscriber raised and was detached"]


def test_a_subscriber_that_raises_in_the_history_is_detached_before_it_listens(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, shared = share()
    first, raiser = Listener(shared), Raiser(ValueError("of the subscriber"))
    source.push(1, 2)
    raiser.join(shared)
    source.push(3)
    assert (raiser.heard, len(raiser.ends), first.heard) == ([1], 1, [1, 2, 3])
    assert messages(caplog) == ["a subscriber raised and was detached"]
    first.leave()
    assert source.disposed == 1


def test_the_last_subscriber_leaves_when_it_raises() -> None:
    source, shared = share()
    Raiser(ValueError("of the subscriber")).join(shared)
    source.push(1)
    assert source.disposed == 1


def test_an_error_of_a_step_behind_the_fan_out_is_an_end_and_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing:
        def feed(self, item: int) -> Sequence[int]:
            raise Trouble("of the step")

        def end(self) -> Sequence[int]:
            return ()

    source, shared = share()
    behind, beside = Listener(shared.pipe(lift(Refusing))), Listener(shared)
    source.push(1, 2)
    assert (kinds(behind), beside.heard, caplog.records) == ([Trouble], [1, 2], [])


@pytest.mark.parametrize("at_end", [False, True])
def test_a_cancelled_error_of_a_subscriber_is_its_own_failure(at_end: bool) -> None:  # B38
    cancelled = asyncio.CancelledError()
    source, shared = share()
    raiser, other = Raiser(*((None, cancelled) if at_end else (cancelled, None))), Listener[int]()
    raiser.join(shared)
    other.join(shared)
    source.push(1, 2)
    source.complete()
    assert (other.heard, other.ends) == ([1, 2], [None])
    if not at_end:
        (told,) = raiser.ends
        assert isinstance(told, RuntimeError)
        assert told.__cause__ is cancelled


def test_a_cancelled_error_in_the_history_is_a_failure_of_the_subscriber_as_well() -> None:
    source, shared = share()
    first, raiser = Listener(shared), Raiser(asyncio.CancelledError())
    source.push(1)
    raiser.join(shared)
    source.push(2)
    assert (first.heard, raiser.heard, [type(end) for end in raiser.ends]) == ([1, 2], [1], [RuntimeError])


async def test_a_cancelled_error_of_a_subscriber_does_not_cancel_the_reader() -> None:  # B38
    source, shared = share()
    Raiser(asyncio.CancelledError()).join(shared)
    other = Listener(shared)
    task = asyncio.current_task()
    assert task is not None
    source.push(1, 2)
    assert (other.heard, task.cancelling()) == ([1, 2], 0)


async def test_a_reader_that_is_really_cancelled_hands_its_element_to_all_and_is_cancelled() -> None:  # B38
    source, shared = share()
    Raiser(asyncio.CancelledError()).join(shared)
    other = Listener(shared)

    async def read() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        source.push(1)
        await asyncio.sleep(0)
        source.push(2)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(read())
    assert other.heard == [1]


def test_an_interrupt_of_the_program_is_no_failure_of_a_subscriber() -> None:
    source, shared = share()
    raiser = Raiser(KeyboardInterrupt())
    raiser.join(shared)
    with pytest.raises(KeyboardInterrupt):
        source.push(1)
    raiser.at_next = None
    source.push(2)
    assert (raiser.heard, raiser.ends) == ([1, 2], [])


# in the middle of an element


def test_who_joins_in_the_middle_of_an_element_misses_nothing_and_hears_nothing_twice() -> None:
    source, shared = share()
    late = Listener[int]()
    first = Listener(shared, lambda element: late.join(shared) if element == 2 else None)
    other = Listener(shared)
    source.push(1, 2, 3)
    source.complete()
    assert first.heard == other.heard == late.heard == [1, 2, 3]
    assert first.ends == other.ends == late.ends == [None]


def test_who_joins_without_history_in_the_middle_of_an_element_hears_the_next_one() -> None:
    source, shared = share(None)
    late = Listener[int]()
    Listener(shared, lambda element: late.join(shared) if element == 2 else None)
    source.push(1, 2, 3)
    assert late.heard == [3]


class Digits:
    """A step that hands on several elements at once."""

    def feed(self, item: str, /) -> Sequence[int]:
        return [int(digit) for digit in item]

    def end(self) -> Sequence[int]:
        return ()


@pytest.mark.parametrize(
    ("history", "gaps", "heard"), [(None, "raise", [3, 4]), (2, "raise", [1, 2, 3, 4]), (1, "allow", [2, 3, 4])]
)
def test_who_joins_in_the_middle_of_a_batch_comes_between_two_elements(
    history: History, gaps: Literal["raise", "allow"], heard: list[int]
) -> None:
    source = Source[str]()
    shared = source.observable.pipe(lift(Digits), fan_out(history=history, gaps=gaps))
    late = Listener[int]()
    first = Listener(shared, lambda element: late.join(shared) if element == 2 else None)
    source.push("1234")
    assert (first.heard, late.heard, late.ends) == ([1, 2, 3, 4], heard, [])


def test_the_last_one_that_leaves_in_the_middle_of_a_batch_leaves_a_history_that_ends_there() -> None:
    source = Source[str]()
    shared = source.observable.pipe(lift(Digits), fan_out())
    first = Listener[int](act=lambda element: first.leave() if element == 2 else None)
    first.join(shared)
    source.push("1234", "5")
    later = Listener(shared)
    assert (later.heard, kinds(later), source.disposed) == ([1, 2], [StreamInterrupted], 1)


def test_what_is_emitted_and_ends_in_the_middle_of_a_batch_comes_behind_it() -> None:
    source = Source[str]()
    shared = source.observable.pipe(lift(Digits), fan_out())
    late = Listener[int]()

    def go_on(element: int) -> None:
        if element == 2:
            late.join(shared)
            source.push("56")
            source.complete()

    first = Listener(shared, go_on)
    source.push("1234")
    assert first.heard == late.heard == [1, 2, 3, 4, 5, 6]
    assert first.ends == late.ends == [None]


def test_who_is_made_to_leave_in_the_middle_of_an_element_does_not_hear_it() -> None:
    source, shared = share()
    second = Listener[int]()
    first = Listener(shared, lambda element: second.leave() if element == 2 else None)
    second.join(shared)
    third = Listener(shared)
    source.push(1, 2, 3)
    assert (first.heard, second.heard, third.heard) == ([1, 2, 3], [1], [1, 2, 3])


def test_an_element_in_the_middle_of_an_element_comes_after_it_for_everybody() -> None:
    source, shared = share()

    def push_twice_as_much(element: int) -> None:
        if element < 8:
            source.push(2 * element)

    listeners = [Listener(shared), Listener(shared, push_twice_as_much), Listener(shared)]
    source.push(1)
    assert [listener.heard for listener in listeners] == [[1, 2, 4, 8]] * 3


def test_an_end_in_the_middle_of_an_element_comes_after_it_for_everybody() -> None:
    source, shared = share()
    listeners = [Listener(shared), Listener(shared, lambda _: source.complete()), Listener(shared)]
    source.push(1, 2)
    assert [(listener.heard, listener.ends) for listener in listeners] == [([1], [None])] * 3


def test_who_joins_in_the_middle_of_the_end_gets_all_of_it() -> None:
    source, shared = share()
    late = Listener[int]()
    shared.subscribe(on_completed=lambda: late.join(shared))
    source.push(1, 2)
    source.complete()
    assert (late.heard, late.ends) == ([1, 2], [None])


def test_who_joins_before_the_last_one_leaves_keeps_the_stream_alive() -> None:
    source, shared = share()
    second = Listener[int]()

    def hand_over(_: int) -> None:
        second.join(shared)
        first.leave()

    first = Listener[int](act=hand_over)
    first.join(shared)
    source.push(1, 2)
    assert (first.heard, second.heard, second.ends, source.disposed) == ([1], [1, 2], [], 0)


def test_who_makes_the_last_one_leave_while_the_history_is_replayed_keeps_the_stream_alive() -> None:
    source, shared = share()
    first = Listener(shared)
    source.push(1)
    second = Listener[int](act=lambda _: first.leave())
    second.join(shared)
    source.push(2)
    assert (first.heard, second.heard, second.ends, source.disposed) == ([1], [1, 2], [], 0)


def test_who_joins_and_leaves_in_the_middle_of_an_element_hears_nothing() -> None:
    source, shared = share()
    guest = Listener[int]()

    def visit(_: int) -> None:
        guest.join(shared)
        guest.leave()

    Listener(shared, visit)
    source.push(1)
    source.push(2)
    assert (guest.heard, guest.ends, source.disposed) == ([], [], 0)


# leaving


def test_when_the_last_one_leaves_the_upstream_is_disposed() -> None:
    source, shared = share()
    first, second = Listener(shared), Listener(shared)
    source.push(1)
    first.leave()
    assert source.disposed == 0
    second.leave()
    second.leave()
    assert source.disposed == 1
    assert first.ends == second.ends == []


def test_who_comes_after_the_last_one_left_gets_the_history_and_is_told() -> None:
    source, shared = share()
    first = Listener(shared)
    source.push(1)
    first.leave()
    source.push(2)
    source.complete()
    later = [Listener(shared), Listener(shared)]
    assert [(listener.heard, kinds(listener)) for listener in later] == [([1], [StreamInterrupted])] * 2
    assert (source.subscribed, source.disposed) == (1, 1)


def test_what_comes_after_the_last_one_left_is_dropped_even_in_the_middle_of_an_element() -> None:
    source, shared = share()

    def leave_and_go_on(_: int) -> None:
        first.leave()
        source.push(2)
        source.complete()

    first = Listener[int](act=leave_and_go_on)
    first.join(shared)
    source.push(1)
    later = Listener(shared)
    assert (first.heard, later.heard, kinds(later)) == ([1], [1], [StreamInterrupted])


def test_who_leaves_while_the_history_is_replayed_does_not_count() -> None:
    source, shared = share()
    first = Listener(shared)
    source.push(1, 2, 3)
    assert Listener(shared.pipe(rx.take(1))).heard == [1]
    assert source.disposed == 0
    first.leave()
    assert source.disposed == 1


def test_who_leaves_last_while_its_history_is_replayed_disposes_the_upstream() -> None:
    source, shared = share()
    first = Listener(shared)
    source.push(1, 2)

    def leave_both(_: int) -> None:
        first.leave()
        second.leave()

    second = Listener[int](act=leave_both)
    second.join(shared)
    assert (second.heard, second.ends, source.disposed) == ([1, 2], [], 1)


def test_keep_alive_goes_on_without_anybody() -> None:
    source, shared = share(keep_alive=True)
    first = Listener(shared)
    source.push(1)
    first.leave()
    source.push(2)
    assert source.disposed == 0
    second = Listener(shared)
    source.push(3)
    source.complete()
    assert (second.heard, second.ends, source.subscribed) == ([1, 2, 3], [None], 1)


def test_leaving_after_the_end_changes_nothing() -> None:
    source, shared = share()
    first = Listener(shared)
    source.push(1)
    source.complete()
    first.leave()
    late = Listener(shared)
    assert (late.heard, late.ends) == ([1], [None])


# sources that emit while they are subscribed to


def test_a_source_that_emits_at_once_is_heard_by_all() -> None:
    shared = at_once([1, 2], None).pipe(fan_out())
    listeners = [Listener(shared), Listener(shared)]
    assert [(listener.heard, listener.ends) for listener in listeners] == [([1, 2], [None])] * 2


def test_who_joins_while_the_first_one_is_still_subscribing_shares_its_subscription() -> None:
    shared = at_once([1, 2, 3], None).pipe(fan_out())
    second = Listener[int]()
    first = Listener(shared, lambda element: second.join(shared) if element == 2 else None)
    assert (first.heard, first.ends) == (second.heard, second.ends) == ([1, 2, 3], [None])


def test_who_leaves_while_it_is_still_subscribing_is_gone_and_leaves_the_history() -> None:
    shared = at_once([1, 2, 3], None).pipe(fan_out())
    assert Listener(shared.pipe(rx.take(1))).heard == [1]
    late = Listener(shared)
    assert (late.heard, late.ends) == ([1, 2, 3], [None])


def test_who_leaves_while_it_is_still_subscribing_to_an_open_source_disposes_it() -> None:
    disposed: list[None] = []

    def subscribe(observer: abc.ObserverBase[int], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        observer.on_next(1)
        return Disposable(lambda: disposed.append(None))

    assert Listener(Observable(subscribe).pipe(fan_out(), rx.take(1))).heard == [1]
    assert len(disposed) == 1


def test_who_raises_while_it_is_still_subscribing_is_detached() -> None:
    for keep_alive, heard, end in ((True, [1, 2], type(None)), (False, [1], StreamInterrupted)):
        raiser = Raiser(ValueError("of the subscriber"))
        shared = at_once([1, 2], None).pipe(fan_out(keep_alive=keep_alive))
        raiser.join(shared)
        assert (raiser.heard, len(raiser.ends)) == ([1], 1)
        late = Listener(shared)
        assert (late.heard, [type(one) for one in late.ends]) == (heard, [end])  # it was the only one


def test_a_source_that_cannot_be_subscribed_to_is_an_error_for_everybody() -> None:
    def subscribe(*_: object) -> Any:
        raise Trouble("of the source")

    shared = Observable[int](subscribe).pipe(fan_out())
    assert [kinds(Listener(shared)) for _ in range(2)] == [[Trouble]] * 2


# memory


def left(shared: Observable[int], act: Callable[[int], object] | None = None) -> weakref.ref[Listener[int]]:
    """Join, leave, and drop all references but a weak one."""
    listener = Listener(shared, act)
    listener.leave()
    return weakref.ref(listener)


def test_who_left_is_not_remembered() -> None:
    source, shared = share(keep_alive=True)
    references = [left(shared)]
    source.push(1)
    references.append(left(shared))
    source.push(2)
    gc.collect()
    assert [reference() for reference in references] == [None, None]


@pytest.mark.parametrize("end", [None, Trouble("of the source")])
def test_who_was_told_the_end_is_not_remembered(end: Exception | None) -> None:
    source, shared = share()
    references = [weakref.ref(Listener(shared))]
    source.complete() if end is None else source.fail(end)
    references.append(weakref.ref(Listener(shared)))
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_who_raised_is_not_remembered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "orx_rx")  # pytest remembers what is logged
    source, shared = share(keep_alive=True)

    def join() -> weakref.ref[Raiser]:
        raiser = Raiser(ValueError("of the subscriber"))
        raiser.join(shared)
        source.push(1)
        return weakref.ref(raiser)

    reference = join()
    gc.collect()
    assert reference() is None


def test_who_raises_the_error_of_the_stream_again_is_not_remembered_by_it(caplog: pytest.LogCaptureFixture) -> None:
    # an exception that is raised again remembers every frame that it went through, and those their variables
    caplog.set_level(logging.CRITICAL, "orx_rx")
    source, shared = share()
    Listener(shared)
    trouble = Trouble("of the source")
    source.fail(trouble)

    def join() -> weakref.ref[Raiser]:
        raiser = Raiser(at_end=trouble)
        raiser.join(shared)
        assert raiser.ends == [trouble]
        return weakref.ref(raiser)

    reference = join()
    gc.collect()
    assert reference() is None
    assert trouble.__traceback__ is None


def test_without_history_nothing_is_kept() -> None:
    class Element:
        pass

    source = Source[Element]()
    listener = Listener(source.observable.pipe(fan_out(history=None)))
    element = Element()
    reference = weakref.ref(element)
    source.push(element)
    del element
    listener.heard.clear()
    gc.collect()
    assert reference() is None


# threads


@contextmanager
def restless(*, at_every_line: bool = True) -> Generator[None]:
    """Let threads that begin here take turns often; also at every line where a hub hands its work over."""

    def pause(frame: FrameType, event: str, _: object) -> TraceFunction | None:
        code = frame.f_code
        if code.co_filename != fan_out.__code__.co_filename or code.co_name not in ("join", "_do", "_took"):
            return None
        if event == "line" and dice.random() < 0.3:
            time.sleep(0)
        return pause

    dice = random.Random(1)
    interval, trace = sys.getswitchinterval(), threading.gettrace()
    sys.setswitchinterval(1e-6)
    if at_every_line:
        threading.settrace(pause)
    try:
        yield
    finally:
        threading.settrace(cast("TraceFunction", trace))
        sys.setswitchinterval(interval)


def until(so: Callable[[], bool]) -> None:
    """Let other threads run until something is so."""
    end = time.monotonic() + PATIENCE
    while not so():
        assert time.monotonic() < end
        time.sleep(0)


def at_once_in_threads(*works: Callable[[], object]) -> None:
    """Do all of it at the same time, and wait until it is done."""
    barrier = threading.Barrier(len(works))

    def begin(work: Callable[[], object]) -> None:
        barrier.wait(PATIENCE)
        work()

    with ThreadPoolExecutor(len(works)) as pool:
        for done in [pool.submit(begin, work) for work in works]:
            done.result(PATIENCE)


class Guest(Listener[int]):
    """A listener that may leave by itself, and notes when two threads call it at the same time.

    Args:
        shared: Where to listen.
        stays: How many elements it takes before it leaves, or a few more if it is called before it has subscribed;
            None to stay.
    """

    def __init__(self, shared: Observable[int], stays: int | None = None) -> None:
        self.stays = stays
        self.crowded = False
        self._called = False
        super().__init__(shared, self._take)

    def _take(self, element: int) -> None:
        self.crowded |= self._called
        self._called = True
        if element + 1 == self.stays:
            self.leave()
        self._called = False


def test_threads_that_come_at_the_same_moment_share_one_subscription() -> None:
    for _ in range(100):
        source, shared = share()
        listeners = [Listener[int]() for _ in range(4)]
        with restless():
            at_once_in_threads(*(partial(listener.join, shared) for listener in listeners))
        source.push(1)
        assert (source.subscribed, [listener.heard for listener in listeners]) == (1, [[1]] * 4)


def test_who_comes_while_another_thread_still_subscribes_does_not_wait_for_it() -> None:
    begun, go_on = threading.Event(), threading.Event()
    source = Source[int]()

    def subscribe(observer: abc.ObserverBase[int], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        begun.set()
        assert go_on.wait(PATIENCE)
        return source.observable.subscribe(observer)

    shared = Observable(subscribe).pipe(fan_out())
    first = Listener[int]()
    with ThreadPoolExecutor(1) as pool:
        joining = pool.submit(first.join, shared)
        assert begun.wait(PATIENCE)
        second = Listener(shared)
        go_on.set()
        joining.result(PATIENCE)
    source.push(1)
    assert (first.heard, second.heard, source.subscribed) == ([1], [1], 1)


def test_no_work_is_left_where_two_threads_meet() -> None:
    source, shared = share()
    listener = Listener(shared)
    barrier = threading.Barrier(2)
    left: list[int] = []

    def push(number: int) -> None:
        for _ in range(500):
            barrier.wait(PATIENCE)
            source.push(number)
            barrier.wait(PATIENCE)
            if number == 1:
                left.append(len(listener.heard) % 2)

    with restless():
        at_once_in_threads(partial(push, 0), partial(push, 1))
    assert sum(left) == 0
    assert sorted(listener.heard) == [0] * 500 + [1] * 500


@pytest.mark.parametrize(("count", "at_every_line"), [(10_000, False), (400, True)])
def test_threads_come_and_go_while_another_pushes_and_nobody_misses_anything(count: int, at_every_line: bool) -> None:
    elements = list(range(count))
    source, shared = share()
    whole = Guest(shared)
    guests: list[Guest] = []

    def push() -> None:
        source.push(*elements)
        source.complete()

    def has_come_to(at: int) -> bool:
        return len(whole.heard) >= at

    def visit(number: int) -> None:
        for at in range(0, count, count // 20):  # spread over the whole stream
            until(partial(has_come_to, at))
            guests.append(Guest(shared, stays=at + 100 if number % 2 else None))
            leaver = Guest(shared)
            leaver.leave()
            leaver.stays = 0
            guests.append(leaver)

    with restless(at_every_line=at_every_line):
        at_once_in_threads(push, *(partial(visit, number) for number in range(4)))
    assert (whole.heard, whole.ends) == (elements, [None])
    assert len(guests) == 4 * 20 * 2
    for guest in guests:
        if guest.stays is None:
            assert (guest.heard, guest.ends) == (elements, [None])
        else:
            assert guest.heard == elements[: len(guest.heard)]
            assert guest.ends == [] or guest.heard == elements
    assert not any(guest.crowded for guest in [whole, *guests])
    assert source.subscribed == 1


def test_the_last_ones_to_leave_in_several_threads_dispose_the_upstream_once() -> None:
    for _ in range(100):
        source, shared = share()
        listeners = [Listener(shared) for _ in range(4)]
        with restless():
            at_once_in_threads(*(listener.leave for listener in listeners), partial(source.push, 1))
        assert source.disposed == 1
        assert kinds(Listener(shared)) == [StreamInterrupted]


def test_a_subscriber_that_blocks_its_thread_blocks_no_other_and_nobody_misses_anything() -> None:
    at_work, go_on = threading.Event(), threading.Event()
    called_by: list[threading.Thread] = []

    def block(_: int) -> None:
        called_by.append(threading.current_thread())
        if not go_on.is_set():
            at_work.set()
            assert go_on.wait(PATIENCE)

    source, shared = share()
    before, blocker, behind = Listener(shared), Listener(shared, block), Listener(shared)
    leaver = Listener(shared)
    with ThreadPoolExecutor(1) as pool:
        pushing = pool.submit(source.push, 1)
        assert at_work.wait(PATIENCE)
        source.push(2)  # none of this waits
        late = Listener(shared)
        leaver.leave()
        source.push(3)
        source.complete()
        assert (before.heard, blocker.heard, behind.heard, late.heard) == ([1], [1], [], [])
        go_on.set()
        pushing.result(PATIENCE)
    everybody = [before, blocker, behind, late]
    assert [(listener.heard, listener.ends) for listener in everybody] == [([1, 2, 3], [None])] * 4
    assert leaver.heard == []
    assert called_by == [called_by[0]] * 3  # the thread that was at work did it all
    assert called_by[0] is not threading.current_thread()


# many of them


@pytest.mark.parametrize("who", ["first", "middle", "last", "all"])
@pytest.mark.parametrize("when", [1, 2, 3])
def test_who_leaves_in_the_middle_of_an_element_disturbs_nobody(who: str, when: int) -> None:
    source, shared = share()
    numbers = {"first": [0], "middle": [1], "last": [2], "all": [0, 1, 2]}[who]

    def leave_at(number: int, element: int) -> None:
        if element == when and number in numbers:
            listeners[number].leave()

    listeners = [Listener[int](act=partial(leave_at, number)) for number in range(3)]
    for listener in listeners:
        listener.join(shared)
    source.push(1, 2, 3)
    source.complete()
    for number, listener in enumerate(listeners):
        left = number in numbers
        assert listener.heard == [1, 2, 3][: when if left else 3]
        assert listener.ends == ([] if left else [None])
    assert source.disposed == 1


def test_ten_thousand_come_hear_everything_and_go() -> None:
    source, shared = share()
    flows = [Flow() for _ in range(10_000)]
    listeners: list[Listener[int]] = []
    for flow in flows:
        with subscribing(flow):
            listeners.append(Listener(shared))
    source.push(1, 2, 3)
    stayed = listeners[::2]
    for listener in listeners[1::2]:
        listener.leave()
    source.push(4)
    source.complete()
    assert all((listener.heard, listener.ends) == ([1, 2, 3, 4], [None]) for listener in stayed)
    assert all((listener.heard, listener.ends) == ([1, 2, 3], []) for listener in listeners[1::2])
    assert source.subscribed == source.disposed == 1


def test_a_thousand_that_take_three_leave_nothing() -> None:
    source, shared = share(keep_alive=True)

    def visit() -> list[weakref.ref[Any]]:
        listener, flow = Listener[int](), Flow()
        with subscribing(flow):
            listener.join(shared.pipe(rx.take(3)))
        source.push(1, 2, 3)
        assert (listener.heard[:1], len(listener.heard), listener.ends) == ([1], 3, [None])
        return [weakref.ref(listener), weakref.ref(flow)]

    references = [reference for _ in range(1_000) for reference in visit()]
    gc.collect()
    assert [reference for reference in references if reference() is not None] == []
    assert (source.subscribed, source.disposed) == (1, 0)


# a pause


def test_the_source_is_paused_while_any_subscriber_is_and_no_longer_than_it_listens(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found: list[Flow | None] = []
    source = Source[int]()

    def subscribe(observer: abc.ObserverBase[int], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        found.append(current_flow())
        return source.observable.subscribe(observer)

    shared = Observable(subscribe).pipe(fan_out(history=1))
    flows = [Flow() for _ in range(3)]
    listeners: list[Listener[int]] = []
    for flow in flows[:2]:
        with subscribing(flow):
            listeners.append(Listener(shared))
    (upstream,) = found
    assert upstream is not None
    flows[0].pause()
    flows[1].pause()
    assert upstream.is_paused
    flows[0].resume()
    assert upstream.is_paused
    listeners[1].leave()  # in its pause
    assert not upstream.is_paused
    source.push(1, 2)
    flows[2].pause()
    with subscribing(flows[2]):
        too_late = Listener(shared)
    assert (kinds(too_late), upstream.is_paused) == ([JoinedTooLate], False)
    flows[0].pause()
    source.complete()
    assert not upstream.is_paused


# an event loop that is closed


def test_a_loop_that_ends_with_its_source_in_the_middle_harms_nobody() -> None:
    closed: list[None] = []

    async def numbers() -> AsyncGenerator[int]:
        try:
            for number in itertools.count():
                yield number
                await asyncio.sleep(0)
        finally:
            closed.append(None)

    shared = from_async_iterable(numbers).pipe(fan_out())
    listener = Listener[int]()

    async def main() -> None:
        listener.join(shared)
        await heard(listener, 3)

    asyncio.run(main())
    # The loop cancelled the task that owned the source, which is the end of no stream: there is nobody left to tell it.
    assert (listener.heard[:3], listener.ends, len(closed)) == ([0, 1, 2], [], 1)
    late = Listener(shared)
    assert (late.heard, late.ends) == (listener.heard, [])
    listener.leave()
    late.leave()
    assert kinds(Listener(shared)) == [StreamInterrupted]


def test_a_reader_whose_loop_was_closed_under_it_harms_nobody() -> None:
    source, shared = share()
    beside = Listener(shared)
    reading = iterate(shared, buffer=2)

    async def read(reading: Iteration[int]) -> int:
        return await anext(reading)

    loop = asyncio.new_event_loop()
    first = loop.create_task(read(reading))
    loop.run_until_complete(asyncio.sleep(0))
    source.push(1)
    assert loop.run_until_complete(first) == 1
    loop.close()
    source.push(*range(2, 10))
    assert reading.waiting == 8
    del reading
    gc.collect()
    source.push(10)
    source.complete()
    assert (beside.heard, beside.ends) == (list(range(1, 11)), [None])


def test_a_reader_that_waits_in_a_loop_that_was_closed_harms_nobody() -> None:
    source, shared = share()
    beside = Listener(shared)
    reading = iterate(shared)

    async def main() -> None:
        task = asyncio.ensure_future(anext(reading))
        await asyncio.sleep(0)
        assert not task.done()

    asyncio.run(main())  # which cancels the reader
    source.push(1)
    source.complete()
    assert (beside.heard, beside.ends, reading.waiting) == ([1], [None], 0)


async def heard(listener: Listener[Any], count: int) -> None:
    """Wait for so many elements."""
    async with asyncio.timeout(PATIENCE):
        while len(listener.heard) < count:
            await asyncio.sleep(0)


# real streams


@pytest.mark.parametrize("name", capture_names())
def test_who_joins_at_any_event_of_a_real_stream_gets_the_same_as_the_first(name: str) -> None:
    decoder = Decoder()
    events = [event for frame in FrameParser().feed(read_capture(name)) for event in decoder.feed(frame)]
    source = Source[Event]()
    shared = source.observable.pipe(accumulate(), fan_out())
    first = Listener(shared)
    late: list[Listener[Event]] = []
    for event in events:
        late.append(Listener(shared))
        source.push(event)
    late.append(Listener(shared))
    source.complete()
    late.append(Listener(shared))
    assert [event.type for event in first.heard] == [event.type for event in events]
    for listener in late:
        assert len(listener.heard) == len(events)
        assert all(map(is_, listener.heard, first.heard))
        assert listener.ends == [None]
    assert (first.ends, source.subscribed) == ([None], 1)


# any order of it all

PushJoinLeaveRaise = Literal["push", "join", "leave", "push in", "join in", "leave in", "raise in"]

plans: st.SearchStrategy[list[tuple[PushJoinLeaveRaise, int]]] = st.lists(
    st.tuples(
        st.sampled_from(["push", "push", "join", "leave", "push in", "join in", "leave in", "raise in"]),
        st.integers(0, 3),
    ),
    max_size=40,
)


class Party:
    """Subscribers that come, go, raise, and make the source emit, some of it in the middle of an element.

    Attributes:
        whole: A first subscriber that never leaves, and hears all there is.
        guests: The others, with what they should hear if they stay.
        gone: The numbers of those who left or raised.
    """

    def __init__(self, history: History) -> None:
        self.source, self.shared = share(history, gaps="allow")
        self.whole = Listener(self.shared)
        self.guests: list[tuple[Listener[int], range]] = []
        self.gone: set[int] = set()
        self.pushed = 0
        self.later: list[tuple[str, int]] = []  # what is to be done in the middle of the next elements
        self._kept = 10_000 if history == "all" else history or 0

    def act(self, what: str, number: int) -> None:
        if what.endswith(" in"):
            self.later.append((what.removesuffix(" in"), number))
        elif what == "push":
            self.pushed += 1
            self.source.push(self.pushed)
        elif what == "join":
            kept = min(self.pushed, self._kept)
            guest = Listener[int](act=partial(self._in_the_middle, len(self.guests)))
            self.guests.append((guest, range(self.pushed - kept + 1, 10_000)))
            guest.join(self.shared)
        elif self.guests:
            number %= len(self.guests)
            self.gone.add(number)
            self.guests[number][0].leave()

    def _in_the_middle(self, number: int, _: int) -> None:
        if not self.later:
            return
        what, whom = self.later.pop()
        if what == "raise":
            self.gone.add(number)
            raise Trouble("of the subscriber")
        self.act(what, whom)


@settings(deadline=None)
@given(plans, st.sampled_from(["all", 1, 3, None]))
def test_everybody_hears_one_run_of_the_stream_whoever_pushes_joins_leaves_and_raises(
    plan: list[tuple[PushJoinLeaveRaise, int]], history: History
) -> None:
    party = Party(history)
    for what, number in plan:
        party.act(what, number)
    party.later.clear()
    party.act("push", 0)
    party.source.complete()
    assert party.whole.heard == list(range(1, party.pushed + 1))
    for number, (guest, expected) in enumerate(party.guests):
        assert guest.heard == list(expected[: len(guest.heard)])
        if number not in party.gone:
            assert guest.heard[-1:] == [party.pushed]
            assert guest.ends == [None]
    assert (party.source.subscribed, party.source.disposed, party.whole.ends) == (1, 1, [None])


async def test_an_error_that_no_subscriber_takes_reaches_the_event_loop() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    source = Source[int]()
    shared = source.observable.pipe(fan_out())
    shared.subscribe(lambda number: print(1 // 0))
    shared.subscribe(lambda number: None)
    heard = Listener(shared)
    source.push(1)
    assert [type(context["exception"]) for context in told] == [ZeroDivisionError]
    trouble = Trouble("upstream")
    source.fail(trouble)
    assert [context["exception"] for context in told[1:]] == [trouble]
    assert (heard.heard, heard.ends) == ([1], [trouble])


def test_without_an_event_loop_it_reaches_whoever_hears_of_uncaught_exceptions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = Source[int]()
    source.observable.pipe(fan_out()).subscribe(lambda number: print(1 // 0))
    source.push(1)
    assert "ZeroDivisionError" in capsys.readouterr().err
