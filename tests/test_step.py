"""The bridge between steps and Rx: what is fed, what is handed on, and who gets which error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import pytest
from reactivex import Observable, abc
from reactivex.disposable import Disposable
from reactivex.scheduler.eventloop import AsyncIOScheduler
from reactivex.testing import TestScheduler

from orx_rx import operators as ops
from orx_rx.loops import stopwatch
from orx_rx.protocol.steps import Batched, Settling
from orx_rx.step import lift, lift_settling
from orx_rx.wire import Frame
from tests.marbles import Trouble, draw
from tests.sources import Listener, Source, at_once


class Teller:
    """A step that repeats what it is fed, tells how much that was, and raises at the letters that it is given."""

    made = 0

    def __init__(self, raises_at: str = "") -> None:
        Teller.made += 1
        self.fed: list[str] = []
        self._raises_at = raises_at

    def feed(self, item: str, /) -> Sequence[str]:
        self.fed.append(item)
        if item in self._raises_at:
            raise ValueError(f"expected another letter, got {item}")
        return item.split("+")

    def end(self) -> Sequence[str]:
        if "|" in self._raises_at:
            raise LookupError("expected more, got the end")
        return (str(len(self.fed)), ".")


class Mender(Teller):
    """A step that takes errors: one that it knows becomes an end, another one a better error."""

    def fail(self, error: Exception) -> Sequence[str]:
        if isinstance(error, Trouble):
            return ("!", ".")
        raise KeyError("better") from error


class Settler(Batched[str, str], Settling, Mender):
    """A step that settles at `s` until something else comes."""

    def feed(self, item: str, /) -> Sequence[str]:
        self.settle(item in "st")
        return Mender.feed(self, item)

    def expire(self) -> Sequence[str]:
        if "t" in self.fed:
            raise TimeoutError("expected the end, got nothing")
        return ("?",)


# lift


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("--a--b-------|", "--a--b-------(2.|)"),
        ("--a--b-------#", "--a--b-------#Trouble"),
        ("--a--x--b--|", "--a--#ValueError"),
        ("-------------|", "-------------(0.|)"),
        ("--a----------", "--a----------"),
        ("--p------b---|", "--(xy)---b---(2.|)"),
    ],
)
def test_what_a_step_returns_is_handed_on_and_what_it_raises_ends_the_stream(source: str, result: str) -> None:
    assert draw(lift(lambda: Teller("x")), source, {"p": "x+y"}) == result


def test_what_the_end_raises_is_the_error_of_the_stream() -> None:
    assert draw(lift(lambda: Teller("|")), "--a--|") == "--a--#LookupError"


def test_a_failing_step_decides_what_an_error_of_the_source_means() -> None:
    assert draw(lift(Mender), "--a--#") == "--a--(!.|)"
    assert draw(lift(Mender), "--a--#", error=OSError()) == "--a--#KeyError"


def test_the_error_of_a_step_does_not_come_back_to_it_as_one_of_the_source() -> None:
    assert draw(lift(lambda: Mender("x")), "--a--x--#") == "--a--#ValueError"


def test_a_step_is_not_fed_on_after_it_raised() -> None:
    step = Teller("x")
    listener = Listener(at_once("axbx", None).pipe(lift(lambda: step)))
    assert step.fed == ["a", "x"]
    assert (listener.heard, [type(end) for end in listener.ends]) == (["a"], [ValueError])


def test_a_step_is_not_fed_on_after_the_end() -> None:
    steps: list[Mender] = []

    def make() -> Mender:
        steps.append(Mender())
        return steps[-1]

    for end in (None, Trouble("of the source")):
        source = Source[str]()
        Listener(source.observable.pipe(lift(make)))
        source.push("a", "b")
        source.complete() if end is None else source.fail(end)
        source.push("c")
        source.complete()
    assert [step.fed for step in steps] == [["a", "b"]] * 2


def test_every_subscription_gets_a_step_of_its_own_and_none_before() -> None:
    made = Teller.made
    observable = at_once("ab", None).pipe(lift(Teller))
    assert Teller.made == made
    assert [Listener(observable).heard for _ in range(2)] == [["a", "b", "2", "."]] * 2
    assert Teller.made == made + 2


def test_a_step_that_cannot_be_made_is_an_error_of_the_stream_and_nothing_is_subscribed_to() -> None:
    source = Source[str]()

    def make() -> Teller:
        raise Trouble("of the maker")

    listener = Listener(source.observable.pipe(lift(make)))
    assert [type(end) for end in listener.ends] == [Trouble]
    assert source.subscribed == 0


def test_a_step_in_front_of_another_that_cannot_be_made_is_an_error_of_the_stream_too() -> None:
    def make() -> Teller:
        raise Trouble("of the maker")

    source = Source[str]()
    listener = Listener(source.observable.pipe(lift(make), lift(Teller), lift(Teller)))
    assert [type(end) for end in listener.ends] == [Trouble]
    assert source.subscribed == 0


def test_what_is_raised_while_a_chain_that_ended_is_subscribed_to_reaches_the_caller() -> None:
    def subscribe(observer: abc.ObserverBase[str], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        observer.on_completed()
        raise Trouble("after the end")

    with pytest.raises(Trouble, match="after the end"):
        Listener(Observable(subscribe).pipe(lift(Teller), lift(Teller)))


def test_the_error_of_a_step_disposes_the_source() -> None:
    source = Source[str]()
    Listener(source.observable.pipe(lift(lambda: Teller("x"))))
    source.push("a")
    assert source.disposed == 0
    source.push("x")
    assert source.disposed == 1


def test_outputs_after_a_dispose_are_dropped_even_those_of_the_same_item() -> None:
    source = Source[str]()
    listener = Listener[str](act=lambda letter: listener.leave() if letter == "b" else None)
    listener.join(source.observable.pipe(lift(Teller)))
    source.push("a+b+c", "d")
    assert (listener.heard, listener.ends, source.disposed) == (["a", "b"], [], 1)


@pytest.mark.parametrize("step", [Teller, Mender])
def test_what_a_subscriber_raises_reaches_who_pushes_and_is_not_taken_for_an_error_of_the_stream(
    step: type[Teller],
) -> None:
    def act(letter: str) -> None:
        if letter in "a.":
            raise ValueError(f"I do not like {letter}")

    source = Source[str]()
    listener = Listener(source.observable.pipe(lift(step)), act)
    with pytest.raises(ValueError, match="I do not like a"):
        source.push("a")
    source.push("b")
    with pytest.raises(ValueError, match=r"I do not like \."):
        source.complete()
    assert listener.heard == ["a", "b", "2", "."]
    assert [type(end) for end in listener.ends] == [ValueError]  # the source has ended; nobody else would tell it


def test_what_is_no_exception_of_a_program_goes_through() -> None:
    class Interrupting(Teller):
        def feed(self, item: str) -> Sequence[str]:
            raise KeyboardInterrupt

    source = Source[str]()
    listener = Listener(source.observable.pipe(lift(Interrupting)))
    with pytest.raises(KeyboardInterrupt):
        source.push("a")
    assert listener.ends == []


def test_the_scheduler_of_the_subscriber_reaches_the_source() -> None:
    # the source of a picture needs one
    assert draw(lift(Teller), "-a|") == "-a(1.|)"


# batches


class Batcher(Batched[str, str], Mender):
    """A step that is fed in batches, and says which."""

    def __init__(self, raises_at: str = "") -> None:
        super().__init__(raises_at)
        self.batches: list[list[str]] = []

    def feed_all(self, items: Sequence[str], outputs: list[str], /) -> None:
        self.batches.append(list(items))
        for item in items:
            outputs += Mender.feed(self, item)


class Splitter(Teller):
    """A step that makes several items of one."""

    def end(self) -> Sequence[str]:
        return ()


def test_what_a_step_returns_at_once_goes_through_the_batched_steps_behind_it_side_by_side() -> None:
    first, second = Batcher(), Batcher()
    source = Source[str]()
    listener = Listener(source.observable.pipe(lift(Splitter), lift(lambda: first), lift(lambda: second)))
    source.push("a+b+c", "d")
    assert first.batches == second.batches == [["a", "b", "c"], ["d"]]
    assert listener.heard == ["a", "b", "c", "d"]
    source.complete()
    assert listener.heard[4:] == ["4", ".", "6", "."]  # what the first one says at its end is fed to the second
    assert listener.ends == [None]


def test_a_step_that_is_not_batched_is_fed_one_by_one_and_so_is_what_comes_behind_it() -> None:
    plain, behind, watched = Teller(), Batcher(), Batcher()
    together: list[tuple[int, int]] = []
    source = Source[str]()
    steps = lift(Splitter), lift(lambda: plain), lift(lambda: behind), lift(lambda: watched, one_by_one=True)
    listener = Listener(source.observable.pipe(*steps), lambda _: together.append((len(plain.fed), len(watched.fed))))
    source.push("a+b+c")
    assert behind.batches == watched.batches == [["a"], ["b"], ["c"]]
    assert together == [(1, 1), (2, 2), (3, 3)]
    assert listener.heard == ["a", "b", "c"]


def test_large_batches_are_cut_so_that_little_is_alive_at_a_time() -> None:
    step = Batcher()
    source = Source[str]()
    listener = Listener(source.observable.pipe(lift(Splitter), lift(lambda: step)))
    letters = ["a"] * 1000
    source.push("+".join(letters))
    assert listener.heard == letters
    assert max(map(len, step.batches)) <= 64 < len(letters) == sum(map(len, step.batches))


@pytest.mark.parametrize("raising", [0, 1, 2])
def test_what_came_before_an_error_in_a_batch_is_handed_on_before_it(raising: int) -> None:
    steps = [Batcher("x" if number == raising else "") for number in range(3)]
    source = Source[str]()
    pipeline = (lift(Splitter), *(lift(partial(next, repeat(step))) for step in steps))
    pushed = Listener(source.observable.pipe(*pipeline))
    source.push("a+b", "c+x+d", "e")
    assert (pushed.heard, source.disposed) == (["a", "b", "c"], 1)
    assert [step.fed[-1] for step in steps] == ["d"] * raising + ["x"] + ["c"] * (2 - raising)
    sent = Listener(at_once(["a+b", "c+x+d", "e"], None).pipe(*pipeline))
    assert sent.heard[:3] == ["a", "b", "c"]
    for listener in (pushed, sent):
        assert [type(end) for end in listener.ends] == [KeyError if raising < 2 else ValueError]  # a Mender is behind
    assert "e" not in [letter for step in steps for letter in step.fed]


def test_an_error_that_a_step_behind_it_turns_into_an_end_is_one() -> None:
    class Raiser(Batcher):
        def feed_all(self, items: Sequence[str], outputs: list[str], /) -> None:
            raise Trouble("in a batch")

    source = Source[str]()
    listener = Listener(source.observable.pipe(lift(Splitter), lift(Raiser), lift(Batcher)))
    source.push("a+b")
    assert (listener.heard, listener.ends, source.disposed) == (["!", "."], [None], 1)


def test_a_subscriber_may_leave_or_raise_in_the_middle_of_a_batch() -> None:
    source = Source[str]()
    leaving = Listener[str](act=lambda letter: leaving.leave() if letter == "b" else None)
    leaving.join(source.observable.pipe(lift(Splitter), lift(Batcher), lift(Batcher)))
    source.push("a+b+c", "d")
    assert (leaving.heard, leaving.ends, source.disposed) == (["a", "b"], [], 1)

    def act(letter: str) -> None:
        if letter == "b":
            raise ValueError("I do not like b")

    source = Source[str]()
    raising = Listener(source.observable.pipe(lift(Splitter), lift(Batcher), lift(Batcher)), act)
    with pytest.raises(ValueError, match="I do not like b") as raised:
        source.push("a+b+c")
    source.fail(raised.value)  # as a source does that takes it for its own
    assert raising.heard == ["a", "b"]
    assert raising.ends in ([raised.value], [])  # but never a better error, or an end


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("failing", [0, 1, 2])
def test_what_a_subscriber_raises_in_front_of_an_error_in_its_batch_leaves_nobody_without_an_end(
    failing: int, kind: type[BaseException]
) -> None:
    def act(letter: str) -> None:
        if letter == "b":
            raise kind("I do not like b")

    source = Source[str]()
    steps = [partial(Batcher, "x" if number == failing else "") for number in range(3)]
    raising = Listener(source.observable.pipe(lift(Splitter), *map(lift, steps)), act)
    with pytest.raises(kind, match="I do not like b") as raised:
        source.push("a+b+x")
    source.fail(RuntimeError("as a source does that heard of it"))
    assert (raising.heard, source.disposed) == (["a", "b"], 1)
    # what is no exception cannot be told, and so the error behind it is
    assert [type(end) for end in raising.ends] == [
        kind if kind is ValueError else KeyError if failing < 2 else ValueError
    ]
    assert raising.ends == [raised.value] or kind is not ValueError


def test_a_batched_step_defines_either_method_and_has_both() -> None:
    class Doubling(Batched[str, str]):
        def feed(self, item: str, /) -> Sequence[str]:
            return (item, item)

    class Tripling(Batched[str, str]):
        def feed_all(self, items: Sequence[str], outputs: list[str], /) -> None:
            outputs += [item for item in items for _ in range(3)]

    outputs: list[str] = []
    Doubling().feed_all(["a", "b"], outputs)
    assert outputs == ["a", "a", "b", "b"]
    assert Tripling().feed("c") == ("c", "c", "c")


# lift_settling


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("--a--s----------", "--a--s---(?|)"),
        ("--a--s--|", "--a--s--(2.|)"),
        ("--a--s--#", "--a--s--(!.|)"),
        ("--a--s-b--------|", "--a--s-b--------(3.|)"),
        ("--a--s-b-s-----------|", "--a--s-b-s---(?|)"),
        ("--a--s-s--------|", "--a--s-s-(?|)"),
        ("--a--t----------|", "--a--t---#TimeoutError"),
        ("--a--s-x-------|", "--a--s-#ValueError"),
        ("--a------------|", "--a------------(1.|)"),
    ],
)
def test_a_step_that_settled_waits_for_the_end_no_longer_than_its_patience(source: str, result: str) -> None:
    assert draw(lift_settling(lambda: Settler("x"), 4), source) == result


def test_a_settled_step_is_not_fed_on_after_its_patience() -> None:
    step = Settler()
    assert draw(lift_settling(lambda: step, 4), "--s--------b--|") == "--s---(?|)"
    assert step.fed == ["s"]


def test_a_settled_step_is_not_fed_in_the_middle_of_its_last_output() -> None:
    clock, source, step = TestScheduler(), Source[str](), Settler()

    def act(letter: str) -> None:
        if letter == "?":
            source.push("b")

    listener = Listener(source.observable.pipe(lift_settling(lambda: step, 4)), act, clock)
    source.push("s")
    clock.start()
    assert (step.fed, listener.heard, listener.ends) == (["s"], ["s", "?"], [None])


def test_the_patience_begins_when_everything_in_front_of_the_settling_was_handed_on() -> None:
    clock, source = TestScheduler(), Source[str]()
    # a subscriber that is slow, while the time runs elsewhere
    listener = Listener(
        source.observable.pipe(lift(Splitter), lift(Batcher), lift_settling(Settler, 4), lift(Batcher)),
        lambda _: clock.advance_by(5),
        clock,
    )
    source.push("a+b+s")
    assert (listener.heard, listener.ends) == (["a", "b", "s"], [])
    clock.start()
    assert (listener.heard, listener.ends) == (["a", "b", "s", "?", "4", "."], [None])


class Unstoppable(TestScheduler):
    """A clock whose timers cannot be cancelled, as those of threads sometimes cannot."""

    def schedule_relative(
        self, duetime: Any, action: abc.ScheduledAction[Any], state: Any = None
    ) -> abc.DisposableBase:
        super().schedule_relative(duetime, action, state)
        return Disposable()


def test_a_timer_that_comes_too_late_changes_nothing() -> None:
    class Expiring(Settler):
        expired = False

        def expire(self) -> Sequence[str]:
            self.expired = True
            return super().expire()

    clock, source, step = Unstoppable(), Source[str](), Expiring()
    listener = Listener(source.observable.pipe(lift_settling(lambda: step, 4)), scheduler=clock)
    source.push("s")
    source.complete()
    clock.start()
    assert (listener.heard, listener.ends, step.expired) == (["s", "1", "."], [None], False)


def test_a_source_that_settles_and_ends_while_it_is_subscribed_to_leaves_no_timer() -> None:
    clock = TestScheduler()
    listener = Listener(at_once("as", None).pipe(lift_settling(Settler, 4)), scheduler=clock)
    clock.start()
    assert (listener.heard, listener.ends) == (["a", "s", "2", "."], [None])


def test_a_subscriber_that_disposes_when_a_step_settles_leaves_no_timer() -> None:
    clock, source = TestScheduler(), Source[str]()
    listener = Listener[str](act=lambda letter: listener.leave() if letter == "s" else None)
    step = Settler()
    listener.join(source.observable.pipe(lift_settling(lambda: step, 4)), clock)
    source.push("a", "s")
    clock.start()
    assert (listener.heard, listener.ends, source.disposed) == (["a", "s"], [], 1)


def test_a_subscriber_that_disposes_when_a_step_goes_on_again_harms_nobody() -> None:
    clock, source = TestScheduler(), Source[str]()
    listener = Listener[str](act=lambda letter: listener.leave() if letter == "b" else None)
    listener.join(source.observable.pipe(lift_settling(Settler, 4)), clock)
    source.push("s", "b")
    assert (listener.heard, listener.ends, source.disposed) == (["s", "b"], [], 1)


def test_what_a_subscriber_raises_at_the_item_that_settles_does_not_stop_the_clock() -> None:
    def act(letter: str) -> None:
        if letter == "s":
            raise Trouble("of the subscriber")

    clock, source = TestScheduler(), Source[str]()
    listener = Listener(source.observable.pipe(lift_settling(Settler, 4)), act, clock)
    with pytest.raises(Trouble):
        source.push("s")
    clock.start()
    assert (listener.heard, listener.ends) == (["s", "?"], [None])


def test_an_error_of_ours_that_a_subscriber_raises_is_not_judged_as_one_of_the_stream() -> None:
    raised = Trouble("of the subscriber")

    def act(letter: str) -> None:
        if letter == "a":
            raise raised

    source = Source[str]()
    listener = Listener(source.observable.pipe(lift(Mender), lift(Teller)), act)
    with pytest.raises(Trouble):
        source.push("a")
    source.fail(raised)  # as a source does that ends the stream with what its subscriber raised
    assert listener.ends == [raised]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: at_once([b"x"], None).pipe(ops.decode()), "expected a source of Frame elements, got one of bytes"),
        (lambda: at_once([b"x"], None).pipe(ops.text()), "expected a source of Event elements, got one of bytes"),
        (lambda: at_once(["x"], None).pipe(ops.accumulate()), "expected a source of Event elements, got one of str"),
        (lambda: at_once([Frame()], None).pipe(ops.items()), "expected a source of Event elements, got one of Frame"),
    ],
)
def test_operators_in_a_wrong_order_are_told_what_they_take(wrong: Callable[[], Any], message: str) -> None:
    (error,) = Listener[Any](wrong()).ends
    assert isinstance(error, TypeError)
    assert str(error) == message


async def test_the_time_of_an_event_loop_is_not_that_of_the_wall() -> None:
    loop = asyncio.get_running_loop()
    assert stopwatch(AsyncIOScheduler(loop)) == loop.time


def test_the_time_of_any_other_scheduler_is_its_own() -> None:
    scheduler = TestScheduler()
    now = stopwatch(scheduler)
    before = now()
    scheduler.advance_to(7.5)
    assert now() - before == 7.5
