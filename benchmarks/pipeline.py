"""What an event costs in our composed pipeline, beside other clients of the same stream.

    python -m benchmarks.pipeline [--deltas N] [--rounds N] [--quick] [--json FILE]

How it is kept fair:

- Everybody reads the same chunks in the same process, from memory: no socket, no server, no event loop. Where a client
  takes an HTTP response, a mock transport of its own HTTP library hands out the chunks. Its one request for a stream is
  counted, as is our subscription; over 2,000 deltas it costs a quarter of a microsecond an event. Synchronous clients
  are cheaper than asynchronous ones, so everybody is measured in the synchronous form.
- Everybody does the same with an event (see `peers.py`), and is held to the number of events and the whole text, in
  every run: nobody may skip work.
- CPU time of the process, not time on the clock. One round runs everybody once, each round in another order, so what
  disturbs the machine disturbs all. Costs are medians over the rounds, with the lower and upper quartile; ratios are
  medians of what was measured within one round.
- The garbage collector has its usual settings for everybody. Everybody runs once before the first round, which builds
  what is built lazily; what lives then is frozen, so that no collection walks through all imported packages, and every
  run begins after a collection.
- The last two contenders do less: with httpx-sse there are no types and no checks, and the limit does not even know all
  forms of frames.

The floors are promises about ratios. A busy machine can break one, so a floor that is missed is printed and no error.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import json
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median, quantiles

from benchmarks.peers import CONTENDERS, OURS, Read
from benchmarks.workload import Workload, workload

PACKAGES = ("orx-rx", "reactivex", "pydantic", "openai", "openresponses-py", "httpx-sse", "orjson")
LONG = 10  # times the deltas of the other streams


@dataclass(frozen=True, slots=True)
class Floor:
    """What is promised about a contender.

    Attributes:
        least: How many times our cost it costs, at least.
        goal: How many times we would like.
    """

    least: float
    goal: float


FLOORS = {
    "openai raw": Floor(12, 20),
    "openai helper": Floor(18, 30),
    "openai raw, if discriminated": Floor(2.5, 4),
    "openresponses-py strict": Floor(2, 4),
    "httpx-sse + json.loads": Floor(1, 1.3),
    "limit: split + orjson": Floor(1 / 5, 1 / 3),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """What one contender costs with one stream.

    Attributes:
        rounds: Microseconds of CPU for each event, round by round.
        ratios: The same as multiples of what we cost in that round.
    """

    rounds: list[float]
    ratios: list[float]

    @property
    def cost(self) -> float:
        """The median cost."""
        return median(self.rounds)

    @property
    def ratio(self) -> float:
        """The median ratio."""
        return median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The lower and the upper quartile of the cost."""
        lower, _, upper = quantiles(self.rounds, n=4, method="inclusive")
        return lower, upper


Results = Sequence[tuple[Workload, Mapping[str, Measured]]]
"""Of each stream, what each contender costs."""


def installed() -> tuple[dict[str, Read], dict[str, str]]:
    """Make every contender that can be made, and say why the others cannot."""
    readers: dict[str, Read] = {}
    missing: dict[str, str] = {}
    for name, make in CONTENDERS.items():
        try:
            readers[name] = make()
        except ImportError as error:
            missing[name] = str(error)
    return readers, missing


def check(name: str, read: Read, stream: Workload) -> None:
    """Let a contender read a stream, and hold it to what is in there.

    Raises:
        ValueError: It read something else.
    """
    events, text = read(stream.chunks)
    if events != stream.events or text != stream.text:
        expected = f"{stream.events} events and their {len(stream.text)} characters"
        raise ValueError(f"expected {name} to read {expected}, got {events} events and {len(text)} characters")


def measure(readers: Mapping[str, Read], stream: Workload, rounds: int) -> dict[str, Measured]:
    """Measure every contender with one stream, in interleaved rounds."""
    for name, read in readers.items():
        check(name, read, stream)
    costs: dict[str, list[float]] = {name: [] for name in readers}
    gc.collect()
    gc.freeze()
    for number in range(rounds):
        for name in Random(number).sample(list(readers), len(readers)):
            gc.collect()
            began = time.process_time()
            check(name, readers[name], stream)
            costs[name].append((time.process_time() - began) / stream.events * 1e6)
    gc.unfreeze()
    ours = costs[OURS]
    return {
        name: Measured(cost, [one / own for one, own in zip(cost, ours, strict=True)]) for name, cost in costs.items()
    }


def table(results: Results) -> str:
    """Draw what was measured: a column for each stream, a row for each contender; costs, then ratios and floors."""
    streams = [stream.name for stream, _ in results]
    rows = {name: [measured[name] for _, measured in results] for name in results[0][1]}
    lines = [_line("CPU, us an event (quartiles)", "", streams)]
    for name, row in rows.items():
        lines.append(_line(name, "", [f"{one.cost:.2f} ({one.spread[0]:.2f}-{one.spread[1]:.2f})" for one in row]))
    lines += ["", _line("times our cost", "floor (goal)", streams)]
    for name, row in rows.items():
        if floor := FLOORS.get(name):
            promise = f"{_times(floor.least, 'g')} ({_times(floor.goal, 'g')})"
            lines.append(_line(name, promise, [f"{_times(one.ratio, '.2f')} {_verdict(floor, one)}" for one in row]))
    return "\n".join(lines)


def _verdict(floor: Floor, measured: Measured) -> str:
    if measured.ratio < floor.least:
        return "MISSED"
    return "OK" if measured.ratio < floor.goal else "OK, goal"


def _times(ratio: float, form: str) -> str:
    return format(ratio, form) if ratio >= 1 else f"1/{format(1 / ratio, form)}"


def _line(title: str, promise: str, cells: Sequence[str]) -> str:
    return f"{title:<30}{promise:>12}" + "".join(f"{cell:>24}" for cell in cells)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _report(results: Results) -> dict[str, object]:
    return {
        "versions": _versions(),
        "floors": {name: {"least": floor.least, "goal": floor.goal} for name, floor in FLOORS.items()},
        "streams": [
            {
                "name": stream.name,
                "events": stream.events,
                "bytes": stream.size,
                "chunks": len(stream.chunks),
                "contenders": {
                    name: {
                        "microseconds_per_event": one.cost,
                        "quartiles": one.spread,
                        "times_ours": one.ratio,
                        "floor": _verdict(FLOORS[name], one) if name in FLOORS else None,
                        "rounds": one.rounds,
                    }
                    for name, one in measured.items()
                },
            }
            for stream, measured in results
        ],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pipeline", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--deltas", type=int, default=2000, metavar="N", help="text deltas of a stream (2000)")
    parser.add_argument("--rounds", type=int, default=11, metavar="N", help="rounds of the short streams (11)")
    parser.add_argument("--quick", action="store_true", help="three rounds, and no stream that is ten times as long")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured to a file")
    options = parser.parse_args()
    if options.deltas < 1 or options.rounds < 2:
        parser.error(f"expected at least 1 delta and 2 rounds, got {options.deltas} and {options.rounds}")

    rounds: int = 3 if options.quick else options.rounds
    work = [(workload(options.deltas, size), rounds) for size in (None, 1460, 64 * 1024)]
    if not options.quick:
        work.append((workload(options.deltas * LONG, 64 * 1024), max(3, rounds // 3)))

    readers, missing = installed()
    print(", ".join(f"{package} {version}" for package, version in _versions().items()))
    for name, why in missing.items():
        print(f"left out: {name} ({why})")
    print()
    results: list[tuple[Workload, Mapping[str, Measured]]] = []
    for stream, times in work:
        size = f"{stream.events:,} events, {stream.size:,} bytes, {len(stream.chunks):,} chunks"
        print(f"{stream.name}: {size}, {times} rounds", file=sys.stderr)
        results.append((stream, measure(readers, stream, times)))
    print(table(results))
    if options.json is not None:
        options.json.write_text(json.dumps(_report(results), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
