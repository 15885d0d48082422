"""One client in a process of its own: what reading streams costs it.

    python -m benchmarks.reading CLIENT BASE_URL DELTAS STREAMS

It prints what it measured as JSON. Before it is measured, a client reads two streams, one after the other, so that its
lazy work is done and a connection is there; and garbage is collected, and what lives then is frozen.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks.clients import CLIENTS, Heard
from benchmarks.workload import Workload, workload

WARM_UP = 2  # streams


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading cost.

    Attributes:
        cpu: CPU time, in microseconds an event.
        wall: The time on the clock from the first request to the last end, in seconds.
        first: How long the first event of a stream took, in seconds; the median over the streams.
        peak: The most memory that the process held at a time, in bytes; 0 where the system does not say.
        grown: How much of that came while it was measured, in bytes a stream.
        errors: How many streams failed, by the name of the error.
    """

    cpu: float
    wall: float
    first: float
    peak: int
    grown: float
    errors: dict[str, int]


async def read_streams(name: str, base_url: str, deltas: int, streams: int) -> Reading:
    """Let a client read streams at a time, and hold it to what is in there.

    Args:
        name: The client.
        base_url: Where the streams are.
        deltas: How many text deltas each of them has.
        streams: How many.
    """
    expected = workload(deltas, None)
    async with CLIENTS[name](base_url) as read:
        for heard in [Heard() for _ in range(WARM_UP)]:
            await read(heard)
            check(heard, expected)
        gc.collect()
        gc.freeze()
        before = peak_memory()
        all_heard = [Heard() for _ in range(streams)]
        wall, cpu = time.perf_counter(), time.process_time()
        ends = await asyncio.gather(*(read(heard) for heard in all_heard), return_exceptions=True)
        spent, took = time.process_time() - cpu, time.perf_counter() - wall
        gc.unfreeze()
    errors = Counter(type(end).__name__ for end in ends if end is not None)
    for heard, end in zip(all_heard, ends, strict=True):
        if end is None:
            check(heard, expected)
    firsts = [heard.first - wall for heard in all_heard if heard.first]
    peak = peak_memory()
    return Reading(
        cpu=spent / streams / expected.events * 1e6,
        wall=took,
        first=median(firsts) if firsts else 0.0,
        peak=peak,
        grown=(peak - before) / streams,
        errors=dict(errors),
    )


def check(heard: Heard, expected: Workload) -> None:
    """Hold a client to what is in a stream.

    Raises:
        ValueError: It heard something else.
    """
    if heard.size:
        if heard.size != expected.size:
            raise ValueError(f"expected {expected.size} bytes, got {heard.size}")
        return
    text = "".join(heard.pieces)
    if (heard.events, text, heard.final or text) != (expected.events, expected.text, expected.text):
        raise ValueError(
            f"expected {expected.events} events and their {len(expected.text)} characters, got {heard.events} and"
            f" {len(text)}"
        )


def peak_memory() -> int:
    """Tell the most memory that this process held at a time, in bytes; 0 where the system does not say."""
    with suppress(OSError):  # Linux; what getrusage says there begins with the parent's
        found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
        return int(found[1]) * 1024 if found else 0
    with suppress(ImportError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return 0


def allow_connections(count: int) -> None:
    """Raise the limit of open files as far as it goes.

    Raises:
        RuntimeError: It does not go far enough.
    """
    try:
        import resource
    except ImportError:  # Windows counts no sockets as files
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + 100
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise RuntimeError(f"expected {needed} open files to be allowed, got {hard}: see `ulimit -Hn`")
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def keep_to_one_core() -> None:
    """Run on one core from now on, where the system lets us choose."""
    if sys.platform == "linux":
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def main() -> None:
    """Read, and print what it cost."""
    name, base_url, deltas, streams = sys.argv[1:]
    keep_to_one_core()
    allow_connections(int(streams))
    print(json.dumps(asdict(asyncio.run(read_streams(name, base_url, int(deltas), int(streams))))))


if __name__ == "__main__":
    main()
