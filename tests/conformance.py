"""What every operator promises, as one function that is called for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import reactivex
from reactivex import Observable, abc
from reactivex import operators as rx
from reactivex.disposable import Disposable
from reactivex.testing import TestScheduler

from orx_rx.errors import ConnectionLost
from orx_rx.stream import Operator
from tests.marbles import Trouble, at
from tests.servers import other_tasks, told, turns
from tests.sources import Listener, Source, at_once

Make = Callable[[], Operator[Any, Any]]


def check_operator(
    make: Make,
    inputs: Sequence[Any],
    *,
    bad: object = None,
    translates: type[Exception] | None = None,
    shares: bool = False,
    tells: bool = False,
) -> None:
    """Check what every operator promises.

    Args:
        make: Makes the operator.
        inputs: A whole stream that it takes without error, and makes something of.
        bad: What it fails on when it comes after the first input; None where there is no such thing.
        translates: What an operator that documents it makes of a `TransportError` after the first input.
        shares: Whether all subscribers share one subscription, and are isolated from each other.
        tells: Whether an error of the source becomes a last element, and then completion, for those behind a wire.
    """
    _state_is_fresh_for_every_subscription(make, inputs)
    if tells:
        _errors_of_the_source_are_told(make, inputs)
    else:
        _errors_of_the_source_pass(make, inputs, translates)
    _it_is_silent_after_the_end(make, inputs, tells=tells)
    if bad is not None:
        _its_own_error_ends_it(make, inputs, bad)
    _dispose_reaches_the_source(make, inputs)
    _a_subscriber_may_dispose_in_the_middle_of_an_element(make, inputs)
    _what_a_subscriber_raises_is_its_own(make, inputs, shares=shares)
    _it_works_in_virtual_time(make, inputs)
    _it_works_between_other_operators(make, inputs)
    if not tells:  # behind which there is nothing to try again
        _it_works_in_a_retry(make, inputs, shares=shares)


def _outputs(make: Make, inputs: Sequence[Any]) -> list[Any]:
    listener = Listener(at_once(inputs, None).pipe(make()))
    assert listener.ends == [None], "inputs are to be a stream that the operator takes without error"
    assert listener.heard, "inputs are to be a stream that the operator makes something of"
    return listener.heard


def _state_is_fresh_for_every_subscription(make: Make, inputs: Sequence[Any]) -> None:
    expected = _outputs(make, inputs)
    operator = make()
    for _ in range(2):
        observable = at_once(inputs, None).pipe(operator)
        for _ in range(2):
            listener = Listener(observable)
            assert (listener.heard, listener.ends) == (expected, [None]), "state leaks between subscriptions"


def _errors_of_the_source_pass(make: Make, inputs: Sequence[Any], translates: type[Exception] | None) -> None:
    for before in (0, 1, len(inputs)):
        trouble = Trouble("of the source")
        listener = Listener(at_once(inputs[:before], trouble).pipe(make()))
        assert listener.ends == [trouble], f"the error is not passed as it is after {before} inputs"
    lost = ConnectionLost("expected the rest of the body, got none")
    error = Listener(at_once(inputs[:1], lost).pipe(make())).ends[0]
    if translates is None:
        assert error is lost
    else:
        assert error is not None
        assert (type(error), error.__cause__) == (translates, lost)


def _errors_of_the_source_are_told(make: Make, inputs: Sequence[Any]) -> None:
    for before in (0, 1, len(inputs)):
        partly = Listener(at_once(inputs[:before], None).pipe(make())).heard
        listener = Listener(at_once(inputs[:before], Trouble("of the source")).pipe(make()))
        assert listener.ends == [None], f"the error does not become completion after {before} inputs"
        assert listener.heard[:-1] == partly, f"the error is not told in one element after {before} inputs"


def _it_is_silent_after_the_end(make: Make, inputs: Sequence[Any], *, tells: bool) -> None:
    trouble = Trouble("of the source")
    for end in (None, trouble):
        source = Source[Any]()
        listener = Listener(source.observable.pipe(make()))
        source.push(*inputs)
        source.complete() if end is None else source.fail(end)
        heard = list(listener.heard)
        source.push(*inputs)
        source.complete()
        source.fail(Trouble("a second one"))
        assert (listener.heard, listener.ends) == (heard, [None if tells else end]), "it goes on after the end"
        assert source.disposed == 1, "the end does not give back what the source holds"
    listener = Listener(at_once(inputs, trouble, None, Trouble("a second one")).pipe(make()))
    assert listener.ends == [None if tells else trouble], "it ends more than once"


def _its_own_error_ends_it(make: Make, inputs: Sequence[Any], bad: object) -> None:
    source = Source[Any]()
    pushed = Listener(source.observable.pipe(make()))
    source.push(inputs[0], bad)
    assert pushed.ends != [], "it does not fail on what it is to fail on"
    error = pushed.ends[0]
    assert source.disposed == 1, "its error does not dispose the source"
    source.push(*inputs)
    source.complete()
    sent = Listener(at_once([inputs[0], bad, *inputs], None).pipe(make()))
    for listener in (pushed, sent):
        assert [type(end) for end in listener.ends] == [type(error)], "it ends more than once"
    assert pushed.heard == sent.heard, "a source that emits while it is subscribed to is fed on after the error"


def _dispose_reaches_the_source(make: Make, inputs: Sequence[Any]) -> None:
    source = Source[Any]()
    listener = Listener(source.observable.pipe(make()))
    assert (source.subscribed, source.disposed) == (1, 0)
    source.push(inputs[0])
    heard = list(listener.heard)
    listener.leave()
    listener.leave()
    assert source.disposed == 1, "dispose does not reach the source"
    source.push(*inputs[1:])
    source.complete()
    assert (listener.heard, listener.ends) == (heard, []), "it goes on after dispose"


def _a_subscriber_may_dispose_in_the_middle_of_an_element(make: Make, inputs: Sequence[Any]) -> None:
    source = Source[Any]()
    listener = Listener[Any](act=lambda _: listener.leave())
    listener.join(source.observable.pipe(make()))
    source.push(*inputs)
    source.complete()
    assert listener.heard == _outputs(make, inputs)[:1], "dispose in the middle of an element does not end it"
    assert source.disposed == 1


def _what_a_subscriber_raises_is_its_own(make: Make, inputs: Sequence[Any], *, shares: bool) -> None:
    trouble = Trouble("of the subscriber")

    def act(_: object) -> None:
        raise trouble

    source = Source[Any]()
    listener = Listener(source.observable.pipe(make()), act)
    raised: list[Exception] = []
    pushes: list[Callable[[], None]] = [partial(source.push, element) for element in inputs]
    for push in (*pushes, source.complete):
        try:
            push()
        except Trouble as error:
            raised.append(error)
            break
    if shares:
        assert (raised, listener.ends) == ([], [trouble]), "what one subscriber raises is not kept from the others"
    else:
        assert raised == [trouble], "what a subscriber raises does not reach who pushes"
        assert listener.ends == [], "what a subscriber raises is mistaken for an error of the stream"


def _it_works_in_virtual_time(make: Make, inputs: Sequence[Any]) -> None:
    clock = TestScheduler()
    source = Source[Any]()
    listener = Listener(source.observable.pipe(make()), scheduler=clock)
    for tick, element in enumerate(inputs):
        at(clock, tick / 100, partial(source.push, element))
    at(clock, len(inputs) / 100, source.complete)
    clock.start()
    assert (listener.heard, listener.ends) == (_outputs(make, inputs), [None])


def _it_works_between_other_operators(make: Make, inputs: Sequence[Any]) -> None:
    expected = _outputs(make, inputs)
    places = reactivex.of(*range(len(inputs)))
    whole = places.pipe(rx.map(inputs.__getitem__), make(), rx.filter(lambda _: True), rx.to_list())
    assert Listener(whole).heard == [expected]
    merged = reactivex.merge(reactivex.of(*inputs).pipe(make()), reactivex.empty())
    assert Listener(merged).heard == expected
    first = Listener(reactivex.of(*inputs).pipe(make(), rx.take(1)))
    assert (first.heard, first.ends) == (expected[:1], [None])


def _it_works_in_a_retry(make: Make, inputs: Sequence[Any], *, shares: bool) -> None:
    trouble = Trouble("the first time")
    subscribed: list[None] = []

    def subscribe(observer: abc.ObserverBase[Any], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        subscribed.append(None)
        again = len(subscribed) > 1
        (at_once(inputs, None) if again else at_once(inputs[:1], trouble)).subscribe(observer)
        return Disposable()

    partly = Listener(at_once(inputs[:1], trouble).pipe(make())).heard
    listener = Listener(Observable(subscribe).pipe(make(), rx.retry(2)))
    if shares:
        assert len(subscribed) == 1, "the source is subscribed to again"
        assert (listener.heard, listener.ends) == (partly * 2, [trouble])
    else:
        assert len(subscribed) == 2
        assert (listener.heard, listener.ends) == (partly + _outputs(make, inputs), [None])


async def check_awaiting_operator(make: Make, inputs: Sequence[Any]) -> None:
    """Check what every operator promises that awaits in the event loop before it hands on.

    What differs: who pushes has gone on when a subscriber raises, so that the loop is told instead. Such an operator
    keeps no time, so that there is nothing to say about virtual time.

    Args:
        make: Makes the operator.
        inputs: A whole stream that it takes without error, and makes something of.
    """
    before = other_tasks()
    operator = make()
    expected = await _awaited(at_once(inputs, None).pipe(operator))
    assert expected.heard, "inputs are to be a stream that the operator makes something of"
    assert expected.ends == [None], "inputs are to be a stream that the operator takes without error"
    again = await _awaited(at_once(inputs, None).pipe(operator), at_once(inputs, None).pipe(operator, rx.take(1)))
    assert again.heard == expected.heard + expected.heard[:1], "state leaks between subscriptions"
    for end in (None, Trouble("of the source")):
        source = Source[Any]()
        listener = Listener(source.observable.pipe(make()))
        source.push(*inputs)
        source.complete() if end is None else source.fail(end)
        await turns()
        source.push(*inputs)
        source.fail(Trouble("a second one"))
        await turns()
        assert (listener.heard, listener.ends) == (expected.heard, [end]), "something is lost, or it goes on"
        assert source.disposed == 1, "the end does not give back what the source holds"
    await _dispose_reaches_the_source_of_what_awaits(make, inputs)
    await _the_loop_is_told_what_a_subscriber_raises(make, inputs)
    merged = reactivex.merge(reactivex.of(*inputs).pipe(make(), rx.filter(lambda _: True)), reactivex.empty())
    assert (await _awaited(merged)).heard == expected.heard
    assert other_tasks() == before, "it leaves tasks"


async def _awaited(*observables: Observable[Any]) -> Listener[Any]:
    listener = Listener(reactivex.concat(*observables))
    await turns(100)
    return listener


async def _dispose_reaches_the_source_of_what_awaits(make: Make, inputs: Sequence[Any]) -> None:
    source = Source[Any]()
    listener = Listener(source.observable.pipe(make()))
    source.push(*inputs)
    listener.leave()
    listener.leave()
    assert source.disposed == 1, "dispose does not reach the source"
    await turns()
    assert (listener.heard, listener.ends) == ([], []), "it goes on after dispose"
    leaving = Listener[Any](act=lambda _: leaving.leave())
    leaving.join(source.observable.pipe(make()))
    source.push(*inputs)
    await turns()
    assert (len(leaving.heard), leaving.ends) == (1, []), "dispose in the middle of an element does not end it"


async def _the_loop_is_told_what_a_subscriber_raises(make: Make, inputs: Sequence[Any]) -> None:
    trouble = Trouble("of the subscriber")

    def act(_: object) -> None:
        raise trouble

    async with told() as contexts:
        source = Source[Any]()
        listener = Listener(source.observable.pipe(make()), act)
        source.push(*inputs)
        await turns()
    assert (len(listener.heard), listener.ends) == (1, [trouble])
    assert source.disposed == 1
    assert [context["exception"] for context in contexts] == [trouble], "what a subscriber raises is swallowed"
