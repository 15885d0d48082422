"""What it costs to read a JSON object while it is written, beside the stream alone and the plain way.

    python -m benchmarks.partial [--quick] [--json FILE]

An object of 20 and one of 200 KB, a list of small objects, comes in deltas of four characters and chunks of 16 KiB.
Ways to read it:

- The stream alone: frames, events, checks, accumulated; what everybody else does as well.
- `partial`, with its interval, and looking at every delta, whatever the time.
- pydantic at every delta: the whole text so far is parsed and validated again. It is measured with the small object,
  since what it takes grows with the square.

It is kept fair as `benchmarks.harness` says: everybody in one event loop, which turns between chunks, and held to the
whole object at the end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json
from reactivex import Observable, abc
from reactivex import operators as rx
from reactivex.disposable import Disposable

from benchmarks.harness import Effort, Promise, Run, Table, compare, effort, main, per
from benchmarks.workload import Workload, told
from orx_rx import Operator
from orx_rx import operators as ops
from orx_rx.models import Event, ResponseTextDeltaEvent, ResponseTextDoneEvent

TITLE = "Reading a JSON object while it is written"

SIZES = {"20 KB": 125, "200 KB": 1250}
"""The length of the text, and how many entries that takes."""

PIECE = 4  # characters of a delta


class Entry(BaseModel):
    """One of many."""

    name: str
    text: str
    number: int


class Entries(BaseModel):
    """The object."""

    entries: list[Entry]


def made(count: int) -> Entries:
    """Make an object of so many entries."""
    text = "The quick brown fox jumps over the lazy dog and comes back to look at what it has left. " + 32 * "."
    return Entries(entries=[Entry(name=f"entry {number}", text=text, number=number) for number in range(count)])


def stream_of(entries: Entries) -> Workload:
    """Write the object as a stream."""
    text = entries.model_dump_json()
    return told([text[start : start + PIECE] for start in range(0, len(text), PIECE)], 16 * 1024)


def at_every_delta() -> Operator[Event, Any]:
    """Parse and validate the whole text so far, whenever a piece of it comes."""
    adapter = TypeAdapter(Entries)

    def read(event: Event) -> Any:
        text = event.snapshot if isinstance(event, ResponseTextDeltaEvent) else getattr(event, "text", "")
        try:
            return adapter.validate_python(from_json(text, allow_partial="trailing-strings"))
        except (ValidationError, ValueError):
            return None

    def operator(events: Observable[Event]) -> Observable[Any]:
        return events.pipe(ops.of_type(ResponseTextDeltaEvent, ResponseTextDoneEvent), rx.map(read))

    return operator


def alone() -> Operator[Event, Any]:
    """Read the object out of the last event, and nothing before."""

    def read(event: Event) -> Any:
        return Entries.model_validate_json(event.text) if isinstance(event, ResponseTextDoneEvent) else None

    return rx.map(read)


ALONE, NAIVE = "the stream alone", "pydantic at every delta"

READING: Mapping[str, Callable[[], Operator[Event, Any]]] = {
    ALONE: alone,
    "partial(Model)": lambda: ops.partial(Entries),
    "partial(Model, every=None)": lambda: ops.partial(Entries, every=None),
    NAIVE: at_every_delta,
}
"""Every way to read the object: an operator behind a checked and accumulated stream."""

PROMISES = {name: Promise(3, most=True) for name in READING if name.startswith("partial")}


async def read(name: str, stream: Workload, expected: Entries) -> float:
    """Read a stream to its end, and say what that cost, in seconds of CPU.

    Raises:
        ValueError: The object was never whole.
    """
    observers: list[abc.ObserverBase[bytes]] = []

    def subscribe(observer: abc.ObserverBase[bytes], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        observers.append(observer)
        return Disposable()

    whole: list[Any] = []

    def keep(value: Any) -> None:
        if value is not None:
            whole[:] = [value]

    chain = (ops.frame(), ops.decode(), ops.sequence_check(), ops.lifecycle_guard(), ops.accumulate())
    began = time.process_time()
    Observable(subscribe).pipe(*chain).pipe(READING[name]()).subscribe(keep)
    (observer,) = observers
    for chunk in stream.chunks:
        observer.on_next(chunk)
        await asyncio.sleep(0)
    observer.on_completed()
    cost = time.process_time() - began
    if whole != [expected]:
        raise ValueError(f"expected {name} to read {len(expected.entries)} entries, got something else")
    return cost


def _in_loop(runner: asyncio.Runner, name: str, stream: Workload, entries: Entries) -> float:
    return runner.run(read(name, stream, entries))


def runs_of(runner: asyncio.Runner, count: int, names: Iterable[str]) -> dict[str, Run]:
    """Make a run of every way, with an object of so many entries; they say milliseconds."""
    entries = made(count)
    stream = stream_of(entries)
    return {name: per(1, partial(_in_loop, runner, name, stream, entries), 1e3) for name in names}


def tables(effort: Effort) -> list[Table]:
    """Measure with a given effort."""
    small, large = SIZES
    with asyncio.Runner() as runner:
        cases = {
            small: runs_of(runner, effort.kept(SIZES[small]), READING),
            large: runs_of(runner, effort.kept(SIZES[large]), [name for name in READING if name != NAIVE]),
        }
        return [compare("An object", "ms a stream", ALONE, cases, effort.times(7), PROMISES)]


def measure(quick: bool) -> list[Table]:
    """Measure."""
    return tables(effort(quick))


if __name__ == "__main__":
    main(measure, __doc__)
