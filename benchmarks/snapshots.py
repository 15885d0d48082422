"""What it costs to accumulate, and to read the text so far: never, now and then, and at every delta.

    python -m benchmarks.snapshots [--quick] [--json FILE]

Events that were decoded beforehand go through `accumulate`, or through the state that the helper of openai keeps, which
builds the whole text at every delta whether it is read or not. Its raw events are of its own classes. It is kept fair
as `benchmarks.harness` says; everybody is held to the length of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import reactivex

from benchmarks.harness import Effort, Run, Table, compare, cpu, effort, main, tell
from benchmarks.peers import HELPER, openai_client
from benchmarks.pipeline import KIB64
from benchmarks.workload import TEXT, Workload, workload
from orx_rx import operators as ops

TITLE = "Reading the text so far"

EVERY = {"read never": 0, "read at every 50th delta": 50, "read at every delta": 1}
"""At which deltas the text is read."""

BASELINE = next(iter(EVERY))


def accumulated(events: Sequence[Any], every: int, length: int) -> None:
    """Accumulate with our operator, and read the text at every so many deltas.

    Raises:
        ValueError: The text was not whole in the end.
    """
    deltas = 0
    last: Any = None

    def on_next(event: Any) -> None:
        nonlocal deltas, last
        if event.type == TEXT:
            last = event
            deltas += 1
            if every and deltas % every == 0:
                _ = event.snapshot

    reactivex.from_iterable(events).pipe(ops.accumulate()).subscribe(on_next)
    _hold_to(length, last.snapshot)


def helped(events: Sequence[Any], length: int) -> None:
    """Accumulate with the state of openai's helper; otherwise as `accumulated`."""
    from openai import omit
    from openai.lib.streaming.responses._responses import ResponseStreamState

    state = ResponseStreamState[Any](input_tools=omit, text_format=omit)
    last: Any = None
    for event in events:
        for told in state.handle_event(event):
            if told.type == TEXT:
                last = told
    _hold_to(length, last.snapshot)


def _hold_to(length: int, text: str) -> None:
    if len(text) != length:
        raise ValueError(f"expected a text of {length} characters, got {len(text)}")


def decoded(stream: Workload) -> list[Any]:
    """Decode the events of a stream to ours."""
    events: list[Any] = []
    reactivex.from_iterable(stream.chunks).pipe(ops.frame(), ops.decode()).subscribe(events.append)
    return events


def decoded_by_openai(stream: Workload) -> list[Any]:
    """Decode the events of a stream to those of openai."""
    chunks_of, client = openai_client()
    chunks_of[:] = stream.chunks
    return list(client.responses.create(model="story", input="Tell me one", stream=True))


def runs(deltas: int) -> dict[str, Run]:
    """Make a run of everybody, with a stream of so many deltas."""
    stream = workload(deltas, KIB64)
    length, events = len(stream.text), decoded(stream)
    works: dict[str, Callable[[], object]] = {
        name: partial(accumulated, events, every, length) for name, every in EVERY.items()
    }
    try:
        works[HELPER] = partial(helped, decoded_by_openai(stream), length)
    except ImportError as error:
        tell(f"left out: {HELPER} ({error})")
    return {name: cpu(work, stream.events) for name, work in works.items()}


def tables(effort: Effort) -> list[Table]:
    """Measure with a given effort."""
    lengths = [effort.kept(2000, 2), effort.of(20_000, 3), effort.of(120_000, 4)]
    cases = {f"{length:,} deltas": runs(length) for length in dict.fromkeys(lengths)}
    return [compare("Accumulating, by the length of the answer", "µs an event", BASELINE, cases, effort.times(5))]


def measure(quick: bool) -> list[Table]:
    """Measure."""
    return tables(effort(quick))


if __name__ == "__main__":
    main(measure, __doc__)
