"""What `repair` costs where there is nothing to repair.

    python -m benchmarks.repair [--quick] [--json FILE]

Our five operators read clean streams, with and without `repair` among them. It is kept fair as `benchmarks.harness`
says.
"""

from __future__ import annotations

from functools import partial

import reactivex

from benchmarks.harness import Effort, Table, compare, cpu, effort, main
from benchmarks.peers import OURS, Read, Tally, chain, orx_rx
from benchmarks.pipeline import KIB64, check
from benchmarks.workload import ARGUMENTS, SUMMARY, Workload, calls, told, words, workload
from orx_rx import operators as ops

TITLE = "Repair on a clean stream"


def repaired() -> Read:
    """Make our chain with `repair` behind `frame`."""

    def read(stream: Workload) -> tuple[int, str]:
        tally = Tally(stream)
        chain(reactivex.from_iterable(stream.chunks), ops.repair()).subscribe(tally.take)
        return tally.told()

    return read


def tables(effort: Effort) -> list[Table]:
    """Measure with a given effort."""
    deltas = effort.kept(2000, 5)
    streams = {
        "text": workload(deltas, 1460),
        "text, 64 KiB": workload(deltas, KIB64),
        "arguments": told(words(deltas), 1460, ARGUMENTS),
        "reasoning": told(words(deltas), 1460, SUMMARY),
        "20 calls": calls(20, 1460),
    }
    readers = {OURS: orx_rx(), "with repair": repaired()}
    cases = {
        case: {name: cpu(partial(check, name, read, stream), stream.events) for name, read in readers.items()}
        for case, stream in streams.items()
    }
    return [compare("A clean stream", "µs an event", OURS, cases, effort.times(11))]


def measure(quick: bool) -> list[Table]:
    """Measure."""
    return tables(effort(quick))


if __name__ == "__main__":
    main(measure, __doc__)
