"""What an event costs in our composed pipeline, beside other clients of the same stream.

    python -m benchmarks.pipeline [--quick] [--json FILE]

It is kept fair as `benchmarks.harness` says, and:

- Everybody reads the same chunks in the same process, from memory: no socket, no server, no event loop. Where a client
  takes an HTTP response, a mock transport of its own HTTP library hands out the chunks. Its one request for a stream is
  counted, as is our subscription; over 2,000 deltas it costs a quarter of a microsecond an event. Synchronous clients
  are cheaper than asynchronous ones, so everybody is measured in the synchronous form.
- Everybody does the same with an event (see `peers.py`), and is held to the number of events and the whole text, in
  every run: nobody may skip work.
- The last two contenders do less: with httpx-sse there are no types and no checks, and the limit does not even know all
  forms of frames.
"""

from __future__ import annotations

from functools import partial

from benchmarks.harness import Effort, Promise, Table, compare, cpu, effort, main, tell
from benchmarks.peers import CONTENDERS, OURS, Read
from benchmarks.workload import Workload, workload

TITLE = "What an event costs"

FLOORS = {
    "openai raw": Promise(12, 20),
    "openai helper": Promise(18, 30),
    "openai raw, if discriminated": Promise(2.5, 4),
    "openresponses-py strict": Promise(2, 4),
    "httpx-sse + json.loads": Promise(1, 1.3),
    "limit: split + orjson": Promise(1 / 5, 1 / 3),
}
"""How many times our cost a contender costs, at least."""


def installed() -> dict[str, Read]:
    """Make every contender that can be made, and tell why the others cannot."""
    readers: dict[str, Read] = {}
    for name, make in CONTENDERS.items():
        try:
            readers[name] = make()
        except ImportError as error:
            tell(f"left out: {name} ({error})")
    return readers


def check(name: str, read: Read, stream: Workload) -> None:
    """Let a contender read a stream, and hold it to what is in there.

    Raises:
        ValueError: It read something else.
    """
    events, text = read(stream.chunks)
    if events != stream.events or text != stream.text:
        expected = f"{stream.events} events and their {len(stream.text)} characters"
        raise ValueError(f"expected {name} to read {expected}, got {events} events and {len(text)} characters")


def tables(effort: Effort) -> list[Table]:
    """Measure with a given effort."""
    deltas = effort.kept(2000, 5)
    streams = [workload(deltas, None), workload(deltas, 1460), workload(deltas, 64 * 1024)]
    readers = installed()
    cases = {
        stream.name: {name: cpu(partial(check, name, read, stream), stream.events) for name, read in readers.items()}
        for stream in streams
    }
    return [compare("An event", "us an event", OURS, cases, effort.rounds, FLOORS)]


def measure(quick: bool) -> list[Table]:
    """Measure."""
    return tables(effort(quick))


if __name__ == "__main__":
    main(measure, __doc__)
