"""What it costs to share a stream, and to hand it to a consumer, beside the plain ways of Python and Rx.

    python -m benchmarks.fan_out [--deliveries N] [--events N] [--rounds N] [--quick] [--json FILE]

Three tables:

- Sharing: every element goes to 1, 10, 100 and 1,000 subscribers. The plain loop calls functions from a list, each call
  in a `try` of its own: the least that keeps one subscriber from harming another. A `Subject` does not do that, and
  keeps nothing for who comes late; a `ReplaySubject` keeps everything.
- A late join: somebody comes when all elements of a long history are there, and gets them.
- Handing over: elements come in chunks of 100, as from a socket, and a consumer in another task reads them: out of an
  `asyncio.Queue`, or with `iterate` under each policy. The elements are text deltas, since `"conflate"` merges those;
  `"latest"` and `"conflate"` hand over fewer elements than came, which is what they are for. Costs are by element that
  came.

It is kept fair as in `benchmarks.pipeline`: everybody in one process, CPU time, interleaved rounds in another order
each time, a collection before every run; costs are medians over the rounds, ratios medians of what was measured within
one round. Subscribers append to a list, and everybody is held to what they should have got, in every run. What
subscribes is not counted, except in a late join. Trust the ratios, and no figure across tables.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

import reactivex
from reactivex import Observable, abc
from reactivex.disposable import Disposable
from reactivex.subject import ReplaySubject, Subject

from benchmarks.pipeline import Measured
from benchmarks.workload import workload
from orx_rx import iterate
from orx_rx import operators as ops
from orx_rx.flow import current_flow
from orx_rx.inbox import Overflow

SUBSCRIBERS = (1, 10, 100, 1000)
CHUNK = 100  # elements that come at once
BUFFER = 256  # elements that may wait, the default of `iterate`

Push = Callable[[Sequence[Any]], None]
Subscriber = Callable[[Any], None]
Join = Callable[[Subscriber], object]
Run = Callable[[], float]
"""Does the work once, checks it, and says what it cost, in seconds of CPU."""


# sharing


def plain_loop(subscribers: Sequence[Subscriber]) -> Push:
    """Call functions from a list, one after the other, each on its own risk."""
    listeners = list(subscribers)

    def push(elements: Sequence[Any]) -> None:
        for element in elements:
            for listener in listeners:
                try:
                    listener(element)
                except Exception as error:
                    print(error, file=sys.stderr)

    return push


def through_subject(make: Callable[[], Subject[Any]], subscribers: Sequence[Subscriber]) -> Push:
    """Push into a subject."""
    subject = make()
    for subscriber in subscribers:
        subject.subscribe(subscriber)

    def push(elements: Sequence[Any]) -> None:
        for element in elements:
            subject.on_next(element)

    return push


def through_fan_out(history: Any, subscribers: Sequence[Subscriber]) -> Push:
    """Push into what `fan_out` subscribed to."""
    source = _Pushed()
    shared = source.observable.pipe(ops.fan_out(history=history))
    for subscriber in subscribers:
        shared.subscribe(subscriber)
    return source.push


class _Pushed:
    """A source that is pushed by hand."""

    def __init__(self) -> None:
        self.observable: Observable[Any] = Observable(self._subscribe)
        self._observer: abc.ObserverBase[Any] | None = None

    def push(self, elements: Iterable[Any]) -> None:
        assert self._observer is not None
        on_next = self._observer.on_next
        for element in elements:
            on_next(element)

    def complete(self) -> None:
        assert self._observer is not None
        self._observer.on_completed()

    def _subscribe(self, observer: abc.ObserverBase[Any], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        flow = current_flow()
        if flow is not None:
            flow.heed()  # it is never paused here: a chunk is read before the next one comes
        self._observer = observer
        return Disposable()


LOOP = "plain loop, try/except"

SHARING: Mapping[str, Callable[[Sequence[Subscriber]], Push]] = {
    LOOP: plain_loop,
    "Subject": partial(through_subject, Subject[Any]),
    "ReplaySubject": partial(through_subject, ReplaySubject[Any]),
    "fan_out(history=None)": partial(through_fan_out, None),
    'fan_out(history="all")': partial(through_fan_out, "all"),
}
"""Every way to share: a function that takes the subscribers, and returns one that pushes elements to them."""


def share(make: Callable[[Sequence[Subscriber]], Push], subscribers: int, elements: Sequence[Any]) -> float:
    """Push elements to so many subscribers.

    Raises:
        ValueError: Somebody did not get them all.
    """
    heard: list[list[Any]] = [[] for _ in range(subscribers)]
    push = make([one.append for one in heard])
    began = time.process_time()
    push(elements)
    cost = time.process_time() - began
    for one in heard:
        _hold_to(len(elements), len(one))
    return cost


# a late join


def late_loop(elements: Sequence[Any]) -> Join:
    """Keep elements in a list."""

    def join(subscriber: Subscriber) -> None:
        for element in elements:
            try:
                subscriber(element)
            except Exception as error:
                print(error, file=sys.stderr)

    return join


def late_replay(elements: Sequence[Any]) -> Join:
    """Keep elements in a `ReplaySubject`."""
    subject = ReplaySubject[Any]()
    for element in elements:
        subject.on_next(element)
    return subject.subscribe


def late_fan_out(elements: Sequence[Any]) -> Join:
    """Keep elements in a `fan_out`."""
    source = _Pushed()
    shared = source.observable.pipe(ops.fan_out(keep_alive=True))
    shared.subscribe().dispose()
    source.push(elements)
    return shared.subscribe


JOINING: Mapping[str, Callable[[Sequence[Any]], Join]] = {
    LOOP: late_loop,
    "ReplaySubject": late_replay,
    'fan_out(history="all")': late_fan_out,
}
"""Every way to keep a history: a function that takes the elements, and returns one that lets a subscriber join."""


def join_late(make: Callable[[Sequence[Any]], Join], elements: Sequence[Any]) -> float:
    """Join behind elements, and get them.

    Raises:
        ValueError: They were not all there.
    """
    join = make(elements)
    heard: list[Any] = []
    began = time.process_time()
    join(heard.append)
    cost = time.process_time() - began
    _hold_to(len(elements), len(heard))
    return cost


# handing over


async def _queue(source: _Pushed, read: Subscriber) -> None:
    """Read out of a queue, which None ends."""
    queue = asyncio.Queue[Any]()
    source.observable.subscribe(queue.put_nowait, None, partial(queue.put_nowait, None))
    while (element := await queue.get()) is not None:
        read(element)


async def _iterate(overflow: Overflow, source: _Pushed, read: Subscriber) -> None:
    async with iterate(source.observable, buffer=BUFFER, overflow=overflow) as reading:
        async for element in reading:
            read(element)


QUEUE = "asyncio.Queue"

Consume = Callable[[_Pushed, Subscriber], Coroutine[Any, Any, None]]

POLICIES: tuple[Overflow, ...] = ("pause", "drop_oldest", "fail", "conflate", "latest")

HANDING: Mapping[str, Consume] = {
    QUEUE: _queue,
    **{f'iterate("{overflow}")': partial(_iterate, overflow) for overflow in POLICIES},
}
"""Every way to read in another task: a coroutine function that takes the source, and what to do with an element."""

FEWER = {'iterate("conflate")', 'iterate("latest")'}
"""Those that hand over one element for a chunk."""


async def hand_over(name: str, elements: Sequence[Any]) -> float:
    """Push elements in chunks to a consumer in another task, and let it read each chunk before the next one comes.

    Raises:
        ValueError: The consumer did not get what it should.
    """
    source, heard = _Pushed(), list[Any]()
    consumer = asyncio.create_task(HANDING[name](source, heard.append))
    await asyncio.sleep(0)  # it subscribes
    began = time.process_time()
    for start in range(0, len(elements), CHUNK):
        source.push(elements[start : start + CHUNK])
        await asyncio.sleep(0)
    source.complete()
    await consumer
    cost = time.process_time() - began
    _hold_to(-(-len(elements) // CHUNK) if name in FEWER else len(elements), len(heard))
    return cost


def deltas(count: int) -> list[Any]:
    """Make text deltas, decoded and accumulated."""
    stream = workload(count, 64 * 1024)
    made: list[Any] = []
    reactivex.from_iterable(stream.chunks).pipe(ops.frame(), ops.decode(), ops.accumulate()).subscribe(made.append)
    return [event for event in made if event.type == "response.output_text.delta"]


# measuring


def interleaved(runs: Mapping[str, Run], baseline: str, elements: int, rounds: int) -> dict[str, Measured]:
    """Measure in interleaved rounds.

    Args:
        runs: Who is measured.
        baseline: Whom the ratios are about.
        elements: By how many the cost of a run is divided.
        rounds: How many rounds.
    """
    for run in runs.values():
        run()
    costs: dict[str, list[float]] = {name: [] for name in runs}
    gc.collect()
    gc.freeze()
    for number in range(rounds):
        for name in Random(number).sample(list(runs), len(runs)):
            gc.collect()
            costs[name].append(runs[name]() / elements * 1e6)
    gc.unfreeze()
    base = costs[baseline]
    return {
        name: Measured(cost, [one / its for one, its in zip(cost, base, strict=True)]) for name, cost in costs.items()
    }


def table(title: str, columns: Mapping[str, Mapping[str, Measured]]) -> str:
    """Draw costs and ratios: a row for each contender, a column for each case."""
    names = list(next(iter(columns.values())))
    lines = [f"{title:<42}" + "".join(f"{column:>20}" for column in columns)]
    for name in names:
        cells = (f"{measured[name].cost:.3f} ({measured[name].ratio:.2f})" for measured in columns.values())
        lines.append(f"{name:<42}" + "".join(f"{cell:>20}" for cell in cells))
    return "\n".join(lines)


def _hold_to(expected: int, got: int) -> None:
    if got != expected:
        raise ValueError(f"expected a subscriber to get {expected} elements, got {got}")


def _report(tables: Mapping[str, Mapping[str, Mapping[str, Measured]]]) -> dict[str, object]:
    return {
        "versions": _versions(),
        "tables": {
            title: {
                column: {
                    name: {"microseconds": one.cost, "quartiles": one.spread, "ratio": one.ratio, "rounds": one.rounds}
                    for name, one in measured.items()
                }
                for column, measured in columns.items()
            }
            for title, columns in tables.items()
        },
    }


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in ("orx-rx", "reactivex")}}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fan_out", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--deliveries", type=int, default=50_000, metavar="N", help="elements times subscribers (50000)"
    )
    parser.add_argument("--events", type=int, default=20_000, metavar="N", help="of a history, and handed over (20000)")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="rounds (7)")
    parser.add_argument("--quick", action="store_true", help="three rounds, and a fifth of the elements")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured to a file")
    options = parser.parse_args()
    least: int = max(SUBSCRIBERS) * (5 if options.quick else 1)
    if options.deliveries < least or options.events < CHUNK * 5 or options.rounds < 2:
        parser.error(
            f"expected at least {least} deliveries, {CHUNK * 5} events and 2 rounds, "
            f"got {options.deliveries}, {options.events} and {options.rounds}"
        )
    scale = 5 if options.quick else 1
    rounds: int = 3 if options.quick else options.rounds
    deliveries: int = options.deliveries // scale
    events: int = options.events // scale
    print(", ".join(f"{package} {number}" for package, number in _versions().items()), end="\n\n")

    tables: dict[str, dict[str, dict[str, Measured]]] = {}
    sharing: dict[str, dict[str, Measured]] = {}
    for subscribers in SUBSCRIBERS:
        elements = range(deliveries // subscribers)
        print(f"sharing: {len(elements):,} elements, {subscribers:,} subscribers, {rounds} rounds", file=sys.stderr)
        runs = {name: partial(share, make, subscribers, elements) for name, make in SHARING.items()}
        sharing[f"{subscribers:,}"] = interleaved(runs, LOOP, len(elements) * subscribers, rounds)
    title = "us a delivery (times the loop), subscribers"
    tables["sharing"] = sharing
    print(table(title, sharing), end="\n\n")

    print(f"a late join: {events:,} elements, {rounds} rounds", file=sys.stderr)
    runs = {name: partial(join_late, make, range(events)) for name, make in JOINING.items()}
    tables["late join"] = {f"{events:,} elements": interleaved(runs, LOOP, events, rounds)}
    print(table("late join, us an element (times the loop)", tables["late join"]), end="\n\n")

    handed = deltas(events)
    print(f"handing over: {events:,} elements, {CHUNK} at a time, {rounds} rounds", file=sys.stderr)
    with asyncio.Runner() as runner:
        runs = {name: partial(_in_loop, runner, name, handed) for name in HANDING}
        tables["handing over"] = {f"{events:,} elements": interleaved(runs, QUEUE, events, rounds)}
    print(table("hand-over, us an element (times the queue)", tables["handing over"]))
    if options.json is not None:
        options.json.write_text(json.dumps(_report(tables), indent=2) + "\n", encoding="utf-8")


def _in_loop(runner: asyncio.Runner, name: str, elements: Sequence[Any]) -> float:
    return runner.run(hand_over(name, elements))


if __name__ == "__main__":
    main()
