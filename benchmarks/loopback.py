"""What clients cost that read streams from a socket: an event, a stream, and a thousand streams at a time.

    python -m benchmarks.loopback [--quick] [--json FILE]

The server is a process of its own and is not counted; see `benchmarks.server` for its ways to write. Every client is a
process of its own as well, on one core, measured there once its lazy work is done; see `benchmarks.reading`. A round
runs every client once, in another order each time, and ratios are those of one round. CPU is that of the process,
whoever spends it: the event loop, the HTTP library, the garbage collector.

- One stream of 2,000 text deltas. Written as one frame at a time, it is the cheaper for an event the slower a client
  is, because more has come when it looks again.
- A shorter one that comes slowly enough for everybody, and wakes everybody for every frame. What that costs, the system
  and the event loop take nearly all of, so nothing is promised there.
- 200 streams at a time, of fewer deltas, so that the request counts for more.
- 1,000 streams at a time, on one core, for those that take seconds for them. Ours must get through without an error.
  Others may fail, or take longer than they are given; then they have no figures there, and why is told beside.

Two rows read bytes alone: what our source costs without operators, and what aiohttp costs without us.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.clients import CLIENTS, OURS
from benchmarks.harness import Effort, Measured, Promise, Table, effort, main, tabulate, tell
from benchmarks.reading import Reading
from benchmarks.server import serving

TITLE = "Reading from a socket"

PROMISES = {
    "openai raw": Promise(10, 14),
    "openai helper": Promise(15, 20),
    "openresponses-py strict": Promise(2.5, 4),
}

PATIENCE = 120.0  # seconds that a client may take, everything included


@dataclass(frozen=True, slots=True)
class Case:
    """What everybody reads.

    Attributes:
        mode: How the server writes.
        deltas: How many text deltas a stream has.
        streams: How many streams are read at a time.
        rounds: How many rounds at most.
        quick: Whether a quick look looks at it.
        clients: Who reads.
    """

    mode: str
    deltas: int
    streams: int = 1
    rounds: int = 5
    quick: bool = True
    clients: Sequence[str] = tuple(CLIENTS)


SINGLE = {
    "coalesced": Case("coalesced", 2000),
    "64 KiB writes": Case("64k", 2000, quick=False),
    "a write a frame": Case("frame", 2000),
}

SLOW = {"a frame in 2 ms": Case("paced", 300)}

CHEAP = tuple(client for client in CLIENTS if not client.startswith("open"))  # the others take minutes for a thousand

MANY = {
    "200, coalesced": Case("coalesced", 200, 200, 3, quick=False),
    "200, a write a frame": Case("frame", 200, 200, 3),
    "1,000, coalesced": Case("coalesced", 100, 1000, 3, quick=False, clients=CHEAP),
    "1,000, a write a frame": Case("frame", 100, 1000, 3, quick=False, clients=CHEAP),
}


def read(client: str, address: str, case: Case, patience: float = PATIENCE) -> Reading | str:
    """Let a client read in a process of its own; or say what became of it.

    Args:
        client: Its name.
        address: Of the server.
        case: What it reads.
        patience: How many seconds it may take.
    """
    command = [sys.executable, "-m", "benchmarks.reading", client]
    where = [f"{address}/{case.mode}/{case.deltas}/v1", str(case.deltas), str(case.streams)]
    try:
        done = subprocess.run([*command, *where], capture_output=True, text=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return f"did not get through in {patience:g} seconds"
    if done.returncode:
        return (done.stderr.splitlines() or ["failed"])[-1]
    found = Reading(**json.loads(done.stdout))
    return ", ".join(f"{count} x {name}" for name, count in found.errors.items()) or found


def interleaved(address: str, title: str, case: Case, clients: Sequence[str], rounds: int) -> dict[str, list[Reading]]:
    """Let clients read in interleaved rounds; who fails once takes no part any more.

    Raises:
        RuntimeError: It was ours that failed.
    """
    readings: dict[str, list[Reading]] = {client: [] for client in clients}
    for number in range(rounds):
        tell(f"{TITLE}: {title}, round {number + 1} of {rounds}")
        for client in Random(number).sample(list(readings), len(readings)):
            reading = read(client, address, case)
            if not isinstance(reading, str):
                readings[client].append(reading)
                continue
            if client == OURS:
                raise RuntimeError(f"expected {OURS} to read everything, got: {reading}")
            tell(f"{client}: {reading}")
            del readings[client]
    return readings


def tables(effort: Effort) -> list[Table]:
    """Measure."""
    quick = effort.scale < 1
    cases = {title: case for title, case in (SINGLE | SLOW | MANY).items() if case.quick or not quick}
    with serving() as address:
        readings = {
            title: interleaved(address, title, case, case.clients, effort.times(case.rounds))
            for title, case in cases.items()
        }
    one = {title: its for title, its in readings.items() if title in SINGLE}
    slow = {title: its for title, its in readings.items() if title in SLOW}
    many = {title: its for title, its in readings.items() if title in MANY}
    return [
        _table("CPU, one stream", "µs an event", one, lambda reading: reading.cpu, PROMISES),
        _table("CPU, one slow stream", "µs an event", slow, lambda reading: reading.cpu),
        _table("CPU, many streams at a time", "µs an event", many, lambda reading: reading.cpu, PROMISES),
        _table("Time on the clock, many streams", "s", many, lambda reading: reading.wall),
        _table("Time to the first event", "ms", readings, lambda reading: reading.first * 1e3),
        _table("Memory at its peak", "MB", readings, lambda reading: reading.peak / 1e6),
        _table("Memory of a stream, of many", "KB a stream", many, lambda reading: reading.grown / 1e3),
    ]


def _table(
    title: str,
    unit: str,
    cases: Mapping[str, Mapping[str, Sequence[Reading]]],
    figure: Callable[[Reading], float],
    promises: Mapping[str, Promise] | None = None,
) -> Table:
    measured: dict[str, dict[str, Measured]] = {}
    for case, readings in cases.items():
        figures = {client: [figure(reading) for reading in its] for client, its in readings.items()}
        base = figures[OURS]
        measured[case] = {
            client: Measured(its, [one / ours if ours else 1.0 for one, ours in zip(its, base, strict=True)])
            for client, its in figures.items()
        }
    return tabulate(title, unit, OURS, measured, promises)


def measure(quick: bool) -> list[Table]:
    """Measure."""
    return tables(effort(quick))


if __name__ == "__main__":
    main(measure, __doc__)
