"""What an event costs in our composed pipeline, beside other clients of the same stream.

    python -m benchmarks.pipeline [--quick] [--json FILE]

It is kept fair as `benchmarks.harness` says, and:

- Everybody reads the same chunks in the same process, from memory: no socket and no server. Where a client takes an
  HTTP response, a mock transport of its own HTTP library hands out the chunks. Its request for each stream is counted,
  as is our subscription; the short answers show what that comes to. Synchronous clients are cheaper than asynchronous
  ones, so everybody is measured in the synchronous form, except for our `iterate`.
- Everybody does the same with an event (see `peers.py`), and is held to the number of events and the whole text.
- The last three contenders do less: with httpx-sse there are no types and no checks, and the limits do not even know
  all forms of frames.

What is promised is promised of the composed operators, and of `iterate` for chunks of 64 KiB: with one frame a chunk
the event loop turns for every event, which costs more than the event.

A contender that cannot read a stream takes no part in it: the limits know neither CRLF nor all events of real servers,
and openresponses-py asks for a `[DONE]` that real servers do not send. The slow ones are spared the longest stream. Of
the captures, those are read that everybody reads who takes part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

from benchmarks.harness import (
    Effort,
    Promise,
    Run,
    Table,
    beside,
    compare,
    cpu,
    effort,
    main,
    measured,
    tabulate,
    tell,
)
from benchmarks.peers import (
    CONTENDERS,
    HELPER,
    ITERATE,
    LIMIT,
    OURS,
    RAW,
    STRICT,
    TYPED_LIMIT,
    UNTYPED,
    WHAT_IF,
    Read,
)
from benchmarks.workload import ARGUMENTS, SUMMARY, Workload, calls, captures, told, words, workload

TITLE = "What an event costs"

FLOORS = {
    RAW: Promise(12, 20),
    HELPER: Promise(18, 30),
    WHAT_IF: Promise(2.5, 4),
    STRICT: Promise(2, 4),
    UNTYPED: Promise(1, 1.3),
    LIMIT: Promise(1 / 5, 1 / 3),
}
"""How many times our cost a contender costs, at least."""

KIB64 = 64 * 1024

LONG = (OURS, STRICT, UNTYPED, LIMIT, TYPED_LIMIT)
"""Who reads the longest stream."""


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
    events, text = read(stream)
    if events != stream.events or text != stream.text:
        expected = f"{stream.events} events and their {len(stream.text)} characters"
        raise ValueError(f"expected {name} to read {expected}, got {events} events and {len(text)} characters")


def check_all(name: str, read: Read, streams: Sequence[Workload]) -> None:
    """Let a contender read streams, one after the other; otherwise as `check`."""
    for stream in streams:
        check(name, read, stream)


def runs(readers: Mapping[str, Read], *streams: Workload) -> dict[str, Run]:
    """Make a run of every contender, which reads all the streams."""
    events = sum(stream.events for stream in streams)
    return {name: cpu(partial(check_all, name, read, streams), events) for name, read in readers.items()}


def readable(readers: Mapping[str, Read], streams: Sequence[Workload]) -> list[Workload]:
    """Choose the streams that everybody reads to the end."""
    chosen: list[Workload] = []
    for stream in streams:
        with suppress(Exception):  # whatever they raise: a refusal is no failure here
            for name, read in readers.items():
                check(name, read, stream)
            chosen.append(stream)
    return chosen


def but(readers: Mapping[str, Read], *names: str) -> dict[str, Read]:
    """Leave contenders out."""
    return {name: read for name, read in readers.items() if name not in names}


def cuttings(effort: Effort, readers: Mapping[str, Read]) -> list[Table]:
    """Measure one text in different cuttings and lengths."""
    deltas = effort.kept(2000, 5)
    streams = [workload(deltas, None), workload(deltas, 1460), workload(deltas, KIB64)]
    chunked = streams[-1].name
    streams.append(workload(effort.of(20_000), KIB64))
    longest = workload(effort.of(400_000), KIB64)
    cases = {stream.name: runs(readers, stream) for stream in streams}
    cases[longest.name] = runs({name: readers[name] for name in LONG if name in readers}, longest)
    rounds = {case: effort.times(3 if case in (streams[-1].name, longest.name) else 11) for case in cases}
    title = "Text, by deltas and chunks"
    found = measured(title, OURS, cases, rounds)
    through = {
        case: {name: its for name, its in among.items() if name in FLOORS or name == ITERATE}
        for case, among in found.items()
    }
    return [
        tabulate(title, "µs an event", OURS, found, FLOORS),
        tabulate("The same beside iterate", "µs an event", ITERATE, beside(ITERATE, through), FLOORS, {chunked}),
    ]


def kinds(effort: Effort, readers: Mapping[str, Read]) -> Table:
    """Measure other streams."""
    deltas = effort.kept(2000, 5)
    text = workload(deltas, 1460)
    cases = {
        "arguments": runs(readers, told(words(deltas), 1460, ARGUMENTS)),
        "reasoning": runs(readers, told(words(deltas), 1460, SUMMARY)),
        "CRLF": runs(but(readers, LIMIT, TYPED_LIMIT), text.with_crlf()),
        "20 calls": runs(readers, calls(20, 1460)),
        "short answers": runs(readers, *[workload(20, 1460)] * effort.kept(50)),
    }
    tolerant = but(readers, STRICT, TYPED_LIMIT)
    real = readable(tolerant, captures()[:: max(1, round(1 / effort.scale))])
    if real:
        cases[f"{len(real)} captures"] = runs(tolerant, *real)
    rounds = {case: effort.times(5 if case.endswith("captures") else 11) for case in cases}
    return compare("Other streams", "µs an event", OURS, cases, rounds)


def tables(effort: Effort) -> list[Table]:
    """Measure with a given effort."""
    readers = installed()
    return [*cuttings(effort, readers), kinds(effort, readers)]


def measure(quick: bool) -> list[Table]:
    """Measure."""
    return tables(effort(quick))


if __name__ == "__main__":
    main(measure, __doc__)
