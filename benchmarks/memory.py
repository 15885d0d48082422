"""How much memory an event takes that is kept.

    python -m benchmarks.memory [--quick] [--json FILE]

Everybody reads a stream in a fresh process and keeps all events in a list. What Python has allocated then and had not
before, divided by the number of events, is what an event takes; a short stream is read first, so that what is built
lazily does not count. That is the same at every time, and measured once. The helper of openai puts the whole text so
far in every event, so what it keeps grows with the square: it is spared the longer stream.
"""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.harness import Effort, Promise, Run, Table, child, effort, main, once, tabulate, tell
from benchmarks.peers import HELPER, OURS, RAW, STRICT, chain, openai_client, openresponses_client
from benchmarks.pipeline import KIB64
from benchmarks.workload import Workload, workload

TITLE = "What an event takes that is kept"

Keep = Callable[[Workload], list[Any]]
"""Reads a stream and returns its events."""


def ours(stream: Workload) -> list[Any]:
    """Keep our events, which know their snapshots."""
    import reactivex

    kept: list[Any] = []
    chain(reactivex.from_iterable(stream.chunks)).subscribe(kept.append)
    return kept


def raw(stream: Workload) -> list[Any]:
    """Keep the raw events of openai."""
    chunks_of, client = openai_client()
    chunks_of[:] = stream.chunks
    return list(client.responses.create(model="story", input="Tell me one", stream=True))


def helper(stream: Workload) -> list[Any]:
    """Keep the events of openai's helper, which have their snapshots in them."""
    chunks_of, client = openai_client()
    chunks_of[:] = stream.chunks
    with client.responses.stream(model="story", input="Tell me one") as events:
        return list(events)


def strict(stream: Workload) -> list[Any]:
    """Keep the events of openresponses-py."""
    chunks_of, client = openresponses_client()
    chunks_of[:] = stream.chunks
    return list(client.responses.create({"model": "story", "input": "Tell me one", "stream": True}))


def untyped(stream: Workload) -> list[Any]:
    """Keep the dicts that json makes."""
    return [json.loads(data) for data in _data(stream)]


def wire(stream: Workload) -> list[Any]:
    """Keep the bytes of the frames."""
    return list(_data(stream))


def _data(stream: Workload) -> Iterator[bytes]:
    frames = b"".join(stream.chunks).split(b"\n\n")
    return (data for frame in frames if (data := frame.partition(b"data: ")[2]) not in (b"", b"[DONE]"))


KEEPING: Mapping[str, Keep] = {
    OURS: ours,
    RAW: raw,
    HELPER: helper,
    STRICT: strict,
    "json.loads: dicts": untyped,
    "the bytes alone": wire,
}

LEAST = Promise(2048, most=True, about="cost")


def taken(name: str, deltas: int) -> float:
    """Measure how many bytes an event takes.

    Args:
        name: Who keeps it.
        deltas: How many deltas the stream has.

    Raises:
        ValueError: Not all events were kept.
    """
    keep, stream = KEEPING[name], workload(deltas, KIB64)
    keep(workload(5, KIB64))
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    kept = keep(stream)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    if len(kept) != stream.events:
        raise ValueError(f"expected {name} to keep {stream.events} events, got {len(kept)}")
    return (after - before) / len(kept)


CODE = "import sys; from benchmarks.memory import taken; print(taken(sys.argv[1], int(sys.argv[2])))"


def runs(deltas: int, *but: str) -> dict[str, Run]:
    """Make a run of everybody who is installed."""
    found: dict[str, Run] = {}
    for name in KEEPING:
        if name in but:
            continue
        try:
            KEEPING[name](workload(1, None))
        except ImportError as error:
            tell(f"left out: {name} ({error})")
        else:
            found[name] = child(CODE, name, str(deltas))
    return found


def tables(effort: Effort) -> list[Table]:
    """Measure with a given effort."""
    short, long = effort.kept(2000, 2), effort.of(20_000, 3)
    cases = {f"{short:,} deltas": runs(short), f"{long:,} deltas": runs(long, HELPER)}
    measured = {case: once(runs, OURS) for case, runs in cases.items()}
    return [tabulate("An event that is kept", "bytes", OURS, measured, {OURS: LEAST})]


def measure(quick: bool) -> list[Table]:
    """Measure."""
    return tables(effort(quick))


if __name__ == "__main__":
    main(measure, __doc__)
