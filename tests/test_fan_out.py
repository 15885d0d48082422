"""One upstream subscription, any number of subscribers: who hears what, whoever comes, goes or raises."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import pytest
import reactivex
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import Observable, abc
from reactivex import operators as rx
from reactivex.disposable import Disposable

from orx_rx.errors import StreamInterrupted
from orx_rx.operators import fan_out
from orx_rx.step import Operator, lift
from tests.marbles import Trouble, draw
from tests.sources import Listener, Source, at_once

History = Literal["all"] | int | None


def share(history: History = "all", *, keep_alive: bool = False) -> tuple[Source[int], Observable[int]]:
    """Make a source and its fan-out."""
    source = Source[int]()
    return source, source.observable.pipe(fan_out(history=history, keep_alive=keep_alive))


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
    source, shared = share(history)
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
    raiser = Raiser(ValueError("of the subscriber"))
    shared = at_once([1, 2], None).pipe(fan_out())
    raiser.join(shared)
    assert (raiser.heard, len(raiser.ends)) == ([1], 1)
    assert Listener(shared).heard == [1, 2]


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
        self.source, self.shared = share(history)
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
