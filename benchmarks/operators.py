"""What each operator costs alone, beside a bare `map` of Rx.

    python -m benchmarks.operators [--quick] [--json FILE]

What goes into an operator is made beforehand: chunks of 1,460 bytes, frames, events, or events that were checked and
accumulated. Every cost is by event of the stream, and includes the source that pushes and the subscriber that counts,
which are measured alone as well. It is kept fair as `benchmarks.harness` says; every operator is held to the number of
its elements, in every run.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import reactivex
from reactivex import Observable
from reactivex import operators as rx

from benchmarks.harness import Effort, Run, Table, compare, cpu, effort, main
from benchmarks.partial import Entries, made, stream_of
from benchmarks.workload import ARGUMENTS, SUMMARY, Workload, told, words, workload
from orx_rx import Operator
from orx_rx import operators as ops
from orx_rx.models import ResponseTextDeltaEvent

TITLE = "What each operator costs"

RX_MAP, NOTHING = "Rx: map(lambda x: x)", "source and subscriber alone"


Input = tuple[Workload, Mapping[str, Sequence[Any]]]
"""A stream, and its forms."""


@dataclass(frozen=True, slots=True)
class Case:
    """An operator, and what goes into it.

    Attributes:
        make: Makes the operator.
        takes: What goes in: a form of a stream, see `forms`.
        of: The stream, see `streams`.
        gives: How many elements come out of a stream; None for some.
        in_loop: Whether it needs an event loop.
    """

    make: Callable[[], Operator[Any, Any]]
    takes: str = "grown"
    of: str = "text"
    gives: Callable[[Workload], int] | None = lambda stream: stream.events
    in_loop: bool = False


async def _soon(element: Any) -> Any:
    return element


def _nothing(source: Observable[Any]) -> Observable[Any]:
    return source


def _rx_map() -> Operator[Any, Any]:
    return rx.map(lambda element: element)


def _never(_: object) -> Observable[Any]:
    return reactivex.never()


def _one_more(stream: Workload) -> int:
    return stream.events + 1  # the sentinel, or what is known of the end


def _deltas(stream: Workload) -> int:
    return stream.events - 8


def _one(_: Workload) -> int:
    return 1


CASES: Mapping[str, Case] = {
    NOTHING: Case(lambda: _nothing),
    RX_MAP: Case(_rx_map),
    "record": Case(lambda: ops.record(io.StringIO), "chunks", gives=lambda stream: len(stream.chunks)),
    "frame": Case(ops.frame, "chunks", gives=_one_more),
    "repair": Case(ops.repair, "frames", gives=_one_more),
    "decode": Case(ops.decode, "frames", gives=_one_more),
    "sequence_check": Case(ops.sequence_check, "events", gives=_one_more),
    "lifecycle_guard": Case(ops.lifecycle_guard, "events"),
    "resume_on_disconnect": Case(lambda: ops.resume_on_disconnect(_never), "checked", in_loop=True),
    "accumulate": Case(ops.accumulate, "checked"),
    "run_tools": Case(lambda: ops.run_tools(_never, tools=()), in_loop=True),
    "fan_out": Case(ops.fan_out),
    "of_type": Case(lambda: ops.of_type(ResponseTextDeltaEvent), gives=_deltas),
    "text": Case(ops.text, gives=_deltas),
    "refusals": Case(ops.refusals, gives=lambda _: 0),
    "reasoning": Case(ops.reasoning, of="reasoning", gives=_deltas),
    "tool_calls": Case(ops.tool_calls, of="arguments", gives=_one),
    "items": Case(ops.items, gives=_one),
    "partial": Case(lambda: ops.partial(Entries, every=None), of="JSON", gives=None),
    "map_async": Case(lambda: ops.map_async(_soon), in_loop=True),
    "encode_sse": Case(lambda: ops.encode_sse(keepalive=None)),
}
"""Every operator, about in the order in which they stand in a pipeline."""


def streams(deltas: int) -> dict[str, Workload]:
    """Make the streams, of so many deltas."""
    return {
        "text": workload(deltas, 1460),
        "arguments": told(words(deltas), 1460, ARGUMENTS),
        "reasoning": told(words(deltas), 1460, SUMMARY),
        "JSON": stream_of(made(-(-deltas // 40))),
    }


def forms(stream: Workload) -> dict[str, Sequence[Any]]:
    """Bring a stream into the forms that go into operators."""
    steps: Mapping[str, Sequence[Operator[Any, Any]]] = {
        "frames": (ops.frame(),),
        "events": (ops.decode(),),
        "checked": (ops.sequence_check(), ops.lifecycle_guard()),
        "grown": (ops.accumulate(),),
    }
    elements: Sequence[Any] = stream.chunks
    found: dict[str, Sequence[Any]] = {"chunks": elements}
    for form, operators in steps.items():
        made: list[Any] = []
        reactivex.from_iterable(elements).pipe(*operators).subscribe(made.append)
        found[form] = elements = made
    return found


def drive(name: str, elements: Sequence[Any], expected: int | None) -> None:
    """Push elements through an operator and count what comes out.

    Raises:
        ValueError: It was not what was expected.
    """
    seen = 0

    def on_next(_: object) -> None:
        nonlocal seen
        seen += 1

    reactivex.from_iterable(elements).pipe(CASES[name].make()).subscribe(on_next)
    _hold_to(name, seen, expected)


async def drive_in_loop(name: str, elements: Sequence[Any], expected: int | None) -> None:
    """Do as `drive`, and wait for the end."""
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    seen = 0

    def on_next(_: object) -> None:
        nonlocal seen
        seen += 1

    source = reactivex.from_iterable(elements).pipe(CASES[name].make())
    source.subscribe(on_next, over.set_exception, lambda: over.set_result(None))
    await over
    _hold_to(name, seen, expected)


def _hold_to(name: str, seen: int, expected: int | None) -> None:
    if seen != expected and not (expected is None and seen):
        raise ValueError(f"expected {expected} elements behind {name}, got {seen}")


def run_of(
    name: str, runner: asyncio.Runner, inputs: Mapping[str, tuple[Workload, Mapping[str, Sequence[Any]]]]
) -> Run:
    """Make a run of an operator.

    Args:
        name: The operator.
        runner: Has the event loop.
        inputs: The streams and their forms.
    """
    case = CASES[name]
    stream, forms = inputs[case.of]
    arguments = (name, forms[case.takes], case.gives(stream) if case.gives else None)
    if case.in_loop:
        return cpu(lambda: runner.run(drive_in_loop(*arguments)), stream.events)
    return cpu(partial(drive, *arguments), stream.events)


def tables(effort: Effort) -> list[Table]:
    """Measure with a given effort."""
    inputs = {name: (stream, forms(stream)) for name, stream in streams(effort.kept(2000, 5)).items()}
    with asyncio.Runner() as runner:
        runs = {name: run_of(name, runner, inputs) for name in CASES}
        return [compare("An operator alone", "µs an event", RX_MAP, {"alone": runs}, effort.rounds)]


def measure(quick: bool) -> list[Table]:
    """Measure."""
    return tables(effort(quick))


if __name__ == "__main__":
    main(measure, __doc__)
