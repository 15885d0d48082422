"""What a process pays once: to import, to make a client, and for its first event.

    python -m benchmarks.startup [--quick] [--json FILE]

Every run is a fresh interpreter, and its cost is all the CPU time it took, its own start included; each column includes
what the columns to the left of it cost. The dependencies are imported alone too, which shows what is our own. The first
event is a `response.created`, read as `benchmarks.peers` reads. It is kept fair as `benchmarks.harness` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from benchmarks.harness import Effort, Run, Table, child, compare, effort, main, tell

TITLE = "Starting"

OURS = "orx_rx"

_FRAME = "from benchmarks.workload import workload; stream = workload(1, None); chunks = stream.chunks[:1]\n"

STEPS: Mapping[str, tuple[str, ...]] = {
    "python alone": ("pass",),
    "dependencies of orx_rx": ("import aiohttp, pydantic, reactivex, structlog",),
    OURS: (
        "import orx_rx",
        "client = orx_rx.Client(api_key='none')",
        _FRAME + "import reactivex; from benchmarks.peers import chain\n"
        "source = reactivex.concat(reactivex.from_iterable(chunks), reactivex.never())\n"
        "seen = []; chain(source).subscribe(seen.append)\n"
        "assert len(seen) == 1",
    ),
    "openai": (
        "import openai",
        "client = openai.OpenAI(api_key='none')",
        _FRAME + "from benchmarks.peers import openai_client\n"
        "chunks_of, client = openai_client(); chunks_of[:] = chunks\n"
        "assert next(iter(client.responses.create(model='story', input='Tell me one', stream=True)))",
    ),
    "openresponses-py": (
        "import openresponses",
        "client = openresponses.OpenResponses(api_key='none')",
        _FRAME + "from benchmarks.peers import openresponses_client\n"
        "chunks_of, client = openresponses_client(); chunks_of[:] = chunks\n"
        "assert next(iter(client.responses.create({'model': 'story', 'input': 'Tell me one', 'stream': True})))",
    ),
}
"""What each does, step by step."""

PACKAGES = {"openai": "openai", "openresponses-py": "openresponses"}

COLUMNS = ("importing", "and a client", "and the first event")

_TIME = "\nimport time; print(time.process_time() * 1e3)"


def run(name: str, steps: int) -> Run:
    """Make a run of the first steps; it says milliseconds."""
    return child("\n".join(STEPS[name][:steps]) + _TIME)


def tables(effort: Effort) -> list[Table]:
    """Measure with a given effort."""
    missing = {name for name, package in PACKAGES.items() if find_spec(package) is None}
    for name in missing:
        tell(f"left out: {name} (not installed)")
    cases = {
        column: {name: run(name, steps) for name in STEPS if len(STEPS[name]) >= steps and name not in missing}
        for steps, column in enumerate(COLUMNS, 1)
    }
    return [compare("A process", "ms", OURS, cases, effort.times(7))]


def measure(quick: bool) -> list[Table]:
    """Measure."""
    return tables(effort(quick))


if __name__ == "__main__":
    main(measure, __doc__)
