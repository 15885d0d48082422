"""What it costs to go on with a stream that breaks off, once or a hundred times.

    python -m benchmarks.resume [--quick] [--json FILE]

A response in the background, of 2,000 text deltas, is read with `Client.events(background=True)` from a server in a
process of its own, whose connections break off after an equal share of the frames each. No waits: the library would let
half a second pass before it asks again, which costs nothing but time. Beside it, the same stream in the foreground,
which nobody could go on with, and which is not prepared for it.

Every run is held to every event and the whole text, and to its requests: one POST, since nothing may be created or
billed twice, and a GET for each time that the stream broke off.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from urllib.request import urlopen

from benchmarks.clients import REQUEST, Heard, taker
from benchmarks.harness import Effort, Measured, Run, Table, effort, interleaved, main, tabulate, tell
from benchmarks.reading import check
from benchmarks.server import serving
from benchmarks.workload import Workload, workload
from orx_rx import Client, Retry

TITLE = "Going on with a stream that broke off"

DELTAS = 2000  # which makes 2,009 frames, the end marker included

FOREGROUND = "in the foreground"
UNBROKEN = "in the background"

SOMETIMES, OFTEN = "broken off 10 times", "broken off 100 times"

BREAKS: Mapping[str, int] = {FOREGROUND: 0, UNBROKEN: 0, "broken off once": 1, SOMETIMES: 10, OFTEN: 100}
"""How often the stream breaks off."""

MODES = {"coalesced": "coalesced", "a write a frame": "frame"}


async def read(base_url: str, expected: Workload, background: bool) -> float:
    """Read a stream, and say what it cost, in seconds of CPU."""
    heard, done = Heard(), asyncio.get_running_loop().create_future()
    # in the end it is closed, since connections that broke off are not to be collected in the run of somebody else
    async with Client(base_url=base_url, api_key="none", retry=Retry(first=0)) as client:
        began = time.process_time()
        events = client.events(**REQUEST, background=background)
        events.subscribe(taker(heard), done.set_exception, lambda: done.set_result(None))
        await done
        cost = time.process_time() - began
    check(heard, expected)
    return cost


def reader(address: str, mode: str, name: str) -> Run:
    """Make a run, which says microseconds an event.

    Args:
        address: Of the server.
        mode: How it writes.
        name: How often it breaks off, as `BREAKS` says.

    Raises:
        ValueError: When it runs: there were other requests than there should be.
    """
    expected, breaks = workload(DELTAS, None), BREAKS[name]
    share = -(-len(expected.chunks) // (breaks + 1))  # frames of a connection
    meant = {"POST": 1} | ({"GET": breaks} if breaks else {})

    def run() -> float:
        requests(address)
        cost = asyncio.run(read(f"{address}/{mode}/{DELTAS}/{share}/v1", expected, name != FOREGROUND))
        if (made := requests(address)) != meant:
            raise ValueError(f"expected the requests {meant}, got {made}")
        return cost / expected.events * 1e6

    return run


def requests(address: str) -> dict[str, int]:
    """Ask the server how many requests there were, by method, since it was asked the last time."""
    with urlopen(f"{address}/counts") as answer:
        counts: dict[str, int] = json.load(answer)
    return counts


def tables(effort: Effort) -> list[Table]:
    """Measure."""
    rounds, events = effort.times(9), workload(DELTAS, None).events
    with serving() as address:
        measured: dict[str, dict[str, Measured]] = {}
        for title, mode in MODES.items():
            tell(f"{TITLE}: {title}, {rounds} rounds")
            runs = {name: reader(address, mode, name) for name in BREAKS}
            measured[title] = interleaved(runs, FOREGROUND, rounds)
    broken = {title: by_break(rows, events) for title, rows in measured.items()}
    return [
        tabulate(f"A stream of {events:,} events", "µs an event", FOREGROUND, measured),
        tabulate("What it costs more for each time that it broke off", "µs a time", OFTEN, broken),
    ]


def by_break(rows: Mapping[str, Measured], events: int) -> dict[str, Measured]:
    """Divide what a stream that broke off cost more than one that did not."""
    costs = {
        name: [
            (one - unbroken) * events / BREAKS[name]
            for one, unbroken in zip(rows[name].rounds, rows[UNBROKEN].rounds, strict=True)
        ]
        for name in (SOMETIMES, OFTEN)
    }
    base = costs[OFTEN]
    return {
        name: Measured(its, [one / often for one, often in zip(its, base, strict=True)]) for name, its in costs.items()
    }


def measure(quick: bool) -> list[Table]:
    """Measure."""
    return tables(effort(quick))


if __name__ == "__main__":
    main(measure, __doc__)
