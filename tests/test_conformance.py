"""The conformance function itself: it fails whoever breaks one of the promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import reactivex
from reactivex import Observable, abc
from reactivex import operators as rx
from reactivex.disposable import Disposable

from orx_rx.step import lift
from tests.conformance import check_operator
from tests.sources import at_once

Numbers = Callable[[Observable[int]], Observable[int]]


class Doubler:
    """A step without a fault."""

    def __init__(self) -> None:
        self.fed = 0

    def feed(self, item: int) -> Sequence[int]:
        self.fed += 1
        if item < 0:
            raise ValueError(f"expected a number from 0, got {item}")
        return (item, item)

    def end(self) -> Sequence[int]:
        return (self.fed,)


class Telling(Doubler):
    """A step that turns errors into an element."""

    def end(self) -> Sequence[int]:
        return ()

    def fail(self, error: Exception) -> Sequence[int]:
        return (0,)


class Forgiving(Doubler):
    def fail(self, error: Exception) -> Sequence[int]:
        return ()


def raw(subscribe: Callable[[Observable[int], abc.ObserverBase[int]], abc.DisposableBase]) -> Callable[[], Numbers]:
    """Make an operator out of what it does when somebody subscribes."""

    def operator(source: Observable[int]) -> Observable[int]:
        def subscribed(observer: abc.ObserverBase[int], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
            return subscribe(source, observer)

        return Observable(subscribed)

    return lambda: operator


def swallows(source: Observable[int], observer: abc.ObserverBase[int]) -> abc.DisposableBase:
    def on_next(item: int) -> None:
        try:
            observer.on_next(item)
        except Exception as error:
            observer.on_error(error)

    return source.subscribe(on_next, observer.on_error, observer.on_completed)


def throws(source: Observable[int], observer: abc.ObserverBase[int]) -> abc.DisposableBase:
    def on_next(item: int) -> None:
        if item < 0:
            raise ValueError(f"expected a number from 0, got {item}")
        observer.on_next(item)

    return source.subscribe(on_next, observer.on_error, observer.on_completed)


def wraps(source: Observable[int], observer: abc.ObserverBase[int]) -> abc.DisposableBase:
    return source.subscribe(observer.on_next, lambda error: observer.on_error(ValueError(error)), observer.on_completed)


def clings(source: Observable[int], observer: abc.ObserverBase[int]) -> abc.DisposableBase:
    source.subscribe(observer)
    return Disposable()


shared_step = Doubler()

FAULTY: dict[str, tuple[Callable[[], Numbers], int | None, str]] = {
    "one step for all": (lambda: lift(lambda: shared_step), -1, "state leaks"),
    "errors become completion": (lambda: lift(Forgiving), -1, "not passed as it is"),
    "errors are wrapped": (raw(wraps), None, "not passed as it is"),
    "dispose goes nowhere": (raw(clings), None, "does not reach the source"),
    "what subscribers raise is told": (raw(swallows), None, "does not reach who pushes"),
    "its own error is thrown at who pushes": (raw(throws), -1, "got -1"),
    "it does not end": (lambda: rx.concat(reactivex.never()), None, "without error"),
    "it makes nothing": (lambda: rx.filter(lambda _: False), None, "makes something"),
    "it takes what it should fail on": (lambda: rx.map(abs), -1, "does not fail"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_faulty_operator_does_not_pass(fault: str) -> None:
    make, bad, complaint = FAULTY[fault]
    with pytest.raises((AssertionError, ValueError), match=complaint):
        check_operator(make, [1, 2, 3], bad=bad)


def test_an_operator_that_shares_is_not_one_that_does_not() -> None:
    with pytest.raises(AssertionError, match="is not kept from the others"):
        check_operator(lambda: lift(Doubler), [1, 2, 3], shares=True)


def test_an_operator_that_passes_errors_or_swallows_them_is_not_one_that_tells() -> None:
    with pytest.raises(AssertionError, match="does not become completion"):
        check_operator(lambda: lift(Doubler), [1, 2, 3], tells=True)
    with pytest.raises(AssertionError, match="is not told in one element"):
        check_operator(lambda: lift(Forgiving), [1, 2, 3], tells=True)
    check_operator(lambda: lift(Telling), [1, 2, 3], bad=-1, tells=True)


def test_a_sound_operator_passes() -> None:
    check_operator(lambda: lift(Doubler), [1, 2, 3], bad=-1)


def test_at_once_emits_while_it_is_subscribed_to() -> None:
    heard: list[object] = []
    at_once([1, 2], None).subscribe(heard.append, None, lambda: heard.append("completed"))
    assert heard == [1, 2, "completed"]
