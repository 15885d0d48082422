"""Whether the cost stays the same as streams grow: with the deltas of an answer, byte by byte, and with one long frame.

    python -m benchmarks.scaling [--quick] [--json FILE]

Linear is promised, within 15 %. It is kept fair as `benchmarks.harness` says; a short stream is read as often as makes
up for its length. The process keeps memory that was freed. Else whatever takes more than 32 MB at once gets fresh pages
from the kernel each time, which costs everybody more than to read what is in them, and says nothing about who reads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from benchmarks.harness import Effort, Promise, Run, Table, compare, cpu, effort, main
from benchmarks.peers import OURS, RAW, UNTYPED, Read
from benchmarks.pipeline import KIB64, check_all, installed
from benchmarks.workload import Workload, heavy, workload

TITLE = "Whether the cost grows with the stream"

FLAT = Promise(1.15, most=True)

CUTTINGS = {"1,460 B": 1460, "64 KiB": KIB64}

MEGABYTE = 1_000_000


def keep_pages() -> None:
    """Let the C library keep memory that was freed, where it is the one of GNU."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for setting, value in _MALLOC.items():
            mallopt(setting, value)


_MALLOC = {-1: 2**31 - 1, -4: 0}  # M_TRIM_THRESHOLD, M_MMAP_MAX


def row(name: str, read: Read, stream: Workload, times: int, count: int, unit: float) -> Run:
    """Make a run that reads a stream several times.

    Args:
        name: Who reads.
        read: Reads.
        stream: What is read.
        times: How often.
        count: By what the cost of one reading is divided.
        unit: How many of the unit a second has.
    """
    return cpu(partial(check_all, name, read, [stream] * times), count * times, unit)


def answers(effort: Effort, readers: Mapping[str, Read]) -> Table:
    """Measure longer and longer answers."""
    lengths = [effort.kept(2000), effort.of(20_000, 2), effort.of(400_000, 3)]
    cases = {
        column: {
            f"{length:,} deltas": row(OURS, readers[OURS], stream, max(1, lengths[1] // length), stream.events, 1e6)
            for length in lengths
            for stream in (workload(length, size),)
        }
        for column, size in CUTTINGS.items()
    }
    return _flat("An event, by the length of the answer", "µs an event", cases, effort.times(5))


def byte_by_byte(effort: Effort, readers: Mapping[str, Read]) -> Table:
    """Measure chunks of one byte."""
    streams = [workload(effort.of(deltas), 1) for deltas in (250, 1000, 4000)]
    cases = {
        name: {
            f"{stream.size // 1000:,} KB": row(name, readers[name], stream, 1, stream.size, 1e9) for stream in streams
        }
        for name in (OURS, UNTYPED)
        if name in readers
    }
    return _flat("A byte that comes alone, by the length of the stream", "ns a byte", cases, effort.times(5))


def frames(effort: Effort, readers: Mapping[str, Read]) -> Table:
    """Measure one long frame, in chunks of 64 KiB."""
    sizes = [effort.of(size) for size in (1 * MEGABYTE, 4 * MEGABYTE, 16 * MEGABYTE, 64 * MEGABYTE)]
    streams = {f"{size / MEGABYTE:g} MB": heavy(size, KIB64) for size in sizes}
    cases = {
        name: {
            size: row(name, readers[name], stream, max(1, 2 * sizes[1] // stream.size), stream.size, 1e3 * MEGABYTE)
            for size, stream in list(streams.items())[:most]
        }
        for name, most in _MOST.items()
        if name in readers
    }
    return _flat("One frame, by its length", "ms a MB", cases, effort.times(5))


_MOST = {OURS: 4, UNTYPED: 4, RAW: 3}
"""How many of the frames somebody reads; what grows with the square is spared the longest."""


def _flat(title: str, unit: str, cases: Mapping[str, Mapping[str, Run]], rounds: int) -> Table:
    """Compare with the shortest; ours are held to the promise."""
    names = list(next(iter(cases.values())))
    return compare(title, unit, names[0], cases, rounds, dict.fromkeys(names[1:], FLAT), within=(*CUTTINGS, OURS))


def tables(effort: Effort) -> list[Table]:
    """Measure with a given effort."""
    readers = installed()
    return [answers(effort, readers), byte_by_byte(effort, readers), frames(effort, readers)]


def measure(quick: bool) -> list[Table]:
    """Measure."""
    keep_pages()
    return tables(effort(quick))


if __name__ == "__main__":
    main(measure, __doc__)
