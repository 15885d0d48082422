"""Draw what an operator does in virtual time: a column of the picture is a tick, and a tick is a second.

    assert draw(
        rx.map(str.upper),
        "--a--(bc)--|") == (
        "--A--(BC)--|")

The alphabet, the same as in the docstrings of the operators:

    -      nothing happens          |      it completes
    a      an element               #      it fails; drawn with the class of the error behind it
    (ab)   two in the same tick     space  nobody has subscribed yet

An element longer than a letter, and a group, take up the columns behind their own, in which nothing else may happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable
from reactivex.testing import TestScheduler

In = TypeVar("In")
Out = TypeVar("Out")
Mark = tuple[int, str]


class Trouble(Exception):
    """The error that a source fails with, if no other is asked for."""


def draw(
    operator: Callable[[Observable[In]], Observable[Out]],
    source: str,
    values: Mapping[str, Any] | None = None,
    *,
    error: Exception | None = None,
    joins: Sequence[int] = (0,),
    leave: int | None = None,
    spell: Callable[[Any], str] | None = None,
) -> str:
    """Run an operator on a source, and draw what comes out; one line for each subscriber.

    Args:
        operator: The operator, or a pipeline of several.
        source: The picture of the source. Every subscription to it starts it anew.
        values: What the letters stand for, in the source and in what comes out; by default for themselves.
        error: What `#` in the source stands for.
        joins: The ticks in which somebody subscribes.
        leave: The tick in which they dispose, if they do.
        spell: Spells an element that `values` does not name; by default with `str`.
    """
    names = dict(values or {})
    clock = TestScheduler()
    observable = cold(source, names, error).pipe(operator)
    lines: list[list[Mark]] = []
    for join in joins:
        marks: list[Mark] = []
        lines.append(marks)
        at(clock, join, partial(_watch, observable, clock, marks, names, spell or str, leave))
    clock.start()
    ends = [len(source) if leave is None else leave] * len(joins)
    return "\n".join(picture(marks, join, end) for marks, join, end in zip(lines, joins, ends, strict=True))


def cold(source: str, values: Mapping[str, Any] | None = None, error: Exception | None = None) -> Observable[Any]:
    """Make an observable out of its picture; it keeps time with the scheduler of the subscriber."""

    def subscribe(observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        assert scheduler is not None, "a picture needs a clock: subscribe with a scheduler"
        timers = CompositeDisposable()
        for tick, sign in marks_of(source):
            if sign == "|":
                timers.add(at(scheduler, tick, observer.on_completed))
            elif sign == "#":
                timers.add(at(scheduler, tick, partial(observer.on_error, error or Trouble("as drawn"))))
            else:
                timers.add(at(scheduler, tick, partial(observer.on_next, (values or {}).get(sign, sign))))
        return timers

    return Observable(subscribe)


def at(clock: abc.SchedulerBase, tick: float, act: Callable[[], object]) -> abc.DisposableBase:
    """Do something so many ticks from now."""

    def action(_: abc.SchedulerBase, __: object = None) -> None:
        act()

    return clock.schedule_relative(float(tick), action)


def marks_of(source: str) -> Iterator[Mark]:
    """Read a picture: what happens, and in which tick."""
    group: int | None = None
    for column, sign in enumerate(source):
        if sign == "(":
            group = column
        elif sign == ")":
            group = None
        elif sign not in "- ":
            yield column if group is None else group, sign


def picture(marks: Sequence[Mark], begin: int, end: int) -> str:
    """Draw what happened from the tick `begin` until it ended, or else until the tick `end`."""
    line = " " * begin
    for tick, group in groupby(marks, key=itemgetter(0)):
        words = [word for _, word in group]
        drawn = words[0] if len(words) == 1 else f"({''.join(words)})"
        assert len(line) <= tick, f"no room for {drawn} in column {tick} of {line}: stretch the source"
        line = line.ljust(tick, "-") + drawn
    ended = bool(marks) and marks[-1][1].startswith(("|", "#"))
    return line if ended else line.ljust(end, "-")


def now(clock: TestScheduler) -> int:
    """Read the tick."""
    tick = float(clock.clock)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    assert tick.is_integer(), f"expected things to happen in whole ticks, got {tick}"
    return int(tick)


def _watch(
    observable: Observable[Any],
    clock: TestScheduler,
    marks: list[Mark],
    names: Mapping[str, Any],
    spell: Callable[[Any], str],
    leave: int | None,
) -> None:
    def mark(word: str) -> None:
        marks.append((now(clock), word))

    def name(element: object) -> str:
        known = [letter for letter, value in names.items() if value is element]
        known += [letter for letter, value in names.items() if value == element]
        return known[0] if known else spell(element)

    subscription = observable.subscribe(
        lambda element: mark(name(element)),
        lambda error: mark(f"#{type(error).__name__}"),
        lambda: mark("|"),
        scheduler=clock,
    )
    if leave is not None:
        at(clock, leave - now(clock), subscription.dispose)
