"""What it costs to share a stream, and to hand it to a consumer, beside the plain ways of Python and Rx.

    python -m benchmarks.fan_out [--quick] [--json FILE]

Three tables:

- Sharing: every element goes to 1, 10, 100 and 1,000 subscribers. The plain loop calls functions from a list, each call
  in a `try` of its own: the least that keeps one subscriber from harming another. A `Subject` does not do that, and
  keeps nothing for who comes late; a `ReplaySubject` keeps everything.
- A late join: somebody comes when all elements of a long history are there, and gets them.
- Handing over: elements come in chunks of 100, as from a socket, and a consumer in another task reads them: out of an
  `asyncio.Queue`, or with `iterate` under each policy. The elements are text deltas, since `"conflate"` merges those;
  `"latest"` and `"conflate"` hand over fewer elements than came, which is what they are for. Costs are by element that
  came.

It is kept fair as `benchmarks.harness` says. Subscribers append to a list, and everybody is held to what they should
have got, in every run. What subscribes is not counted, except in a late join.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import reactivex
from reactivex import Observable, abc
from reactivex.disposable import Disposable
from reactivex.subject import ReplaySubject, Subject

from benchmarks.harness import Effort, Table, compare, effort, main, per
from benchmarks.workload import TEXT, workload
from orx_rx import iterate
from orx_rx import operators as ops
from orx_rx.flow import current_flow
from orx_rx.inbox import Overflow

TITLE = "Sharing a stream, and handing it to a consumer"

SUBSCRIBERS = (1, 10, 100, 1000)
CHUNK = 100  # elements that come at once
BUFFER = 256  # elements that may wait, the default of `iterate`

Push = Callable[[Sequence[Any]], None]
Subscriber = Callable[[Any], None]
Join = Callable[[Subscriber], object]


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
    return [event for event in made if event.type == TEXT]


def _hold_to(expected: int, got: int) -> None:
    if got != expected:
        raise ValueError(f"expected a subscriber to get {expected} elements, got {got}")


# measuring


def sharing(effort: Effort) -> Table:
    """Measure to share with more and more subscribers."""
    deliveries, most = effort.of(50_000), effort.of(max(SUBSCRIBERS) * 5)
    cases = {
        f"{subscribers:,}": {
            name: per(max(1, deliveries // subscribers) * subscribers, partial(share, make, subscribers, elements))
            for name, make in SHARING.items()
        }
        for subscribers in SUBSCRIBERS
        if subscribers <= most
        for elements in (range(max(1, deliveries // subscribers)),)
    }
    return compare("Sharing, by the number of subscribers", "µs a delivery", LOOP, cases, effort.times(7))


def joining(effort: Effort) -> Table:
    """Measure to join late."""
    elements = range(effort.of(20_000))
    runs = {name: per(len(elements), partial(join_late, make, elements)) for name, make in JOINING.items()}
    return compare("A late join", "µs an element", LOOP, {f"{len(elements):,} elements": runs}, effort.times(7))


def handing(effort: Effort) -> Table:
    """Measure to hand over to another task."""
    elements = deltas(effort.of(20_000))
    with asyncio.Runner() as runner:
        runs = {name: per(len(elements), partial(_in_loop, runner, name, elements)) for name in HANDING}
        case = f"{len(elements):,} elements, {CHUNK} at a time"
        return compare("Handing over to another task", "µs an element", QUEUE, {case: runs}, effort.times(7))


def _in_loop(runner: asyncio.Runner, name: str, elements: Sequence[Any]) -> float:
    return runner.run(hand_over(name, elements))


def tables(effort: Effort) -> list[Table]:
    """Measure with a given effort."""
    return [sharing(effort), joining(effort), handing(effort)]


def measure(quick: bool) -> list[Table]:
    """Measure."""
    return tables(effort(quick))


if __name__ == "__main__":
    main(measure, __doc__)
