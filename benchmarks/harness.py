"""What all benchmarks share: how they measure, what they hand over, and how it is drawn.

A benchmark is a module with a `TITLE`, and with

    def tables(effort: Effort) -> list[Table]: ...  # what the tests call, with a TINY effort

    def measure(quick: bool) -> list[Table]:
        return tables(effort(quick))

    if __name__ == "__main__":
        main(measure, __doc__)

How it is kept fair:

- Whoever is compared runs in the same process, or each in a fresh one; CPU time, not time on the clock. One round runs
  everybody once, each round in another order, so what disturbs the machine disturbs all.
- Costs are medians over the rounds, with the lower and upper quartile; ratios are medians of what was measured within
  one round. Trust the ratios, and no figure across tables.
- The garbage collector has its usual settings for everybody. Everybody runs once before the first round, which builds
  what is built lazily; what lives then is frozen, so that no collection walks through all imported packages, and every
  run begins after a collection.
- Everybody is held to the result, in every run: nobody may skip work.

A promise is about a ratio or a cost. A busy machine can break one, so a promise that is missed is printed and no error.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from random import Random
from statistics import median, quantiles
from typing import Literal, TypeAlias

from pydantic import TypeAdapter

PACKAGES = (
    "orx-rx",
    "reactivex",
    "aiohttp",
    "pydantic",
    "openai",
    "openresponses-py",
    "httpx-sse",
    "orjson",
    "msgspec",
)
"""Whose versions are told."""

Run: TypeAlias = Callable[[], float]
"""Does the work once, checks it, and says what it cost, in the unit of its table."""

Verdict: TypeAlias = Literal["missed", "kept", "goal"]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done to measure.

    Attributes:
        rounds: How many rounds.
        scale: What the sizes of the workloads are multiplied with.
    """

    rounds: int
    scale: float

    def of(self, count: int, least: int = 1) -> int:
        """Scale a size.

        Args:
            count: The size of a full run.
            least: The smallest that makes sense.
        """
        return max(least, round(count * self.scale))

    def kept(self, count: int, least: int = 1) -> int:
        """Scale a size that a quick look keeps as it is; otherwise as `of`."""
        return count if self.scale >= QUICK.scale else self.of(count, least)

    def times(self, rounds: int) -> int:
        """Limit the rounds of something that takes long."""
        return min(rounds, self.rounds)


FULL, QUICK, TINY = Effort(11, 1.0), Effort(3, 0.2), Effort(2, 0.001)
"""To publish, to look, and to see that it runs."""


def effort(quick: bool) -> Effort:
    """Choose how much is done."""
    return QUICK if quick else FULL


@dataclass(frozen=True, slots=True)
class Promise:
    """What is promised about a row.

    Attributes:
        floor: What it must reach.
        goal: What we would like; None for nothing more.
        about: The ratio to the baseline, or the cost itself.
        most: The floor is a ceiling: less is better.
    """

    floor: float
    goal: float | None = None
    about: Literal["ratio", "cost"] = "ratio"
    most: bool = False

    def verdict(self, ratio: float, cost: float) -> Verdict:
        """Judge what was measured."""
        value = ratio if self.about == "ratio" else cost
        sign = -1 if self.most else 1
        if value * sign < self.floor * sign:
            return "missed"
        return "goal" if self.goal is not None and value * sign >= self.goal * sign else "kept"

    def __str__(self) -> str:
        shown = times if self.about == "ratio" else figure
        goal = "" if self.goal is None else f", goal {shown(self.goal)}"
        return f"{'at most' if self.most else 'at least'} {shown(self.floor)}{goal}"


@dataclass(frozen=True, slots=True)
class Measured:
    """What one contender costs in one case.

    Attributes:
        rounds: The cost, round by round.
        ratios: The same as multiples of what the baseline cost in that round.
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
        if len(self.rounds) == 1:
            return self.cost, self.cost
        lower, _, upper = quantiles(self.rounds, n=4, method="inclusive")
        return lower, upper


@dataclass(frozen=True, slots=True)
class Cell:
    """What is kept of a measurement, to four digits, which is more than it is worth.

    Attributes:
        cost: The median cost.
        lower: The lower quartile.
        upper: The upper quartile.
        ratio: The median ratio to the baseline.
        verdict: What became of the promise; None where there is none.
    """

    cost: float
    lower: float
    upper: float
    ratio: float
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """What a benchmark hands over.

    Attributes:
        title: What is measured.
        unit: Of the costs, as "µs an event".
        baseline: The row that the ratios are about.
        columns: The cases.
        rows: The contenders, each with a cell for every case; None where it takes no part.
        promises: What is promised about rows.
    """

    title: str
    unit: str
    baseline: str
    columns: list[str]
    rows: dict[str, list[Cell | None]]
    promises: dict[str, Promise] = field(default_factory=dict[str, Promise])


@dataclass(frozen=True, slots=True)
class Suite:
    """What one benchmark module measured.

    Attributes:
        title: What the module is about.
        day: When it was measured, as 2026-01-31.
        quick: Whether it was a quick look.
        tables: What was measured.
    """

    title: str
    day: str
    quick: bool
    tables: list[Table]


@dataclass(frozen=True, slots=True)
class Results:
    """What is written as JSON.

    Attributes:
        machine: The model of the processor.
        cores: How many there are.
        versions: Of Python and the packages.
        suites: What was measured, by the name of the module.
    """

    machine: str
    cores: int
    versions: dict[str, str]
    suites: dict[str, Suite]


RESULTS = TypeAdapter(Results)


# measuring


def cpu(work: Callable[[], object], count: float = 1, unit: float = 1e6) -> Run:
    """Make a run out of a function: its CPU time by element.

    Args:
        work: What is measured; it checks what it did.
        count: By how many elements the cost is divided.
        unit: How many of the unit a second has; microseconds by default.
    """

    def run() -> float:
        began = time.process_time()
        work()
        return (time.process_time() - began) / count * unit

    return run


def per(count: float, run: Run, unit: float = 1e6) -> Run:
    """Make a run by element out of one that says seconds itself; otherwise as `cpu`."""
    return lambda: run() / count * unit


def child(code: str, *args: str) -> Run:
    """Make a run out of Python code for a fresh interpreter, which prints the cost as its last line.

    Raises:
        subprocess.CalledProcessError: The code failed; what it said is on stderr.
    """
    command = [sys.executable, "-c", code, *args]
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]))

    def run() -> float:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path})
        return float(done.stdout.split()[-1])

    return run


def interleaved(runs: Mapping[str, Run], baseline: str, rounds: int) -> dict[str, Measured]:
    """Measure in interleaved rounds.

    Args:
        runs: Who is measured.
        baseline: Whom the ratios are about.
        rounds: How many rounds.
    """
    for run in runs.values():
        run()
    costs: dict[str, list[float]] = {name: [] for name in runs}
    gc.collect()
    frozen = gc.get_freeze_count()
    gc.freeze()
    for number in range(rounds):
        for name in Random(number).sample(list(runs), len(runs)):
            gc.collect()
            costs[name].append(runs[name]())
    if not frozen:  # else somebody else has frozen more than this, and wants it to stay
        gc.unfreeze()
    base = costs[baseline]
    return {
        name: Measured(cost, [one / its for one, its in zip(cost, base, strict=True)]) for name, cost in costs.items()
    }


def once(runs: Mapping[str, Run], baseline: str) -> dict[str, Measured]:
    """Measure what is the same at every time; otherwise as `interleaved`."""
    costs = {name: run() for name, run in runs.items()}
    return {name: Measured([cost], [cost / costs[baseline]]) for name, cost in costs.items()}


def compare(
    title: str,
    unit: str,
    baseline: str,
    cases: Mapping[str, Mapping[str, Run]],
    rounds: int | Mapping[str, int],
    promises: Mapping[str, Promise] | None = None,
    within: Collection[str] | None = None,
) -> Table:
    """Measure cases, one after the other, each in interleaved rounds.

    Args:
        title: What is measured.
        unit: Of what the runs say.
        baseline: Who takes part in every case, and whom the ratios are about.
        cases: The columns: for each who takes part.
        rounds: How many rounds; or how many for each case.
        promises: What is promised about rows.
        within: The cases in which that holds; all by default.
    """
    return tabulate(title, unit, baseline, measured(title, baseline, cases, rounds), promises, within)


def measured(
    title: str, baseline: str, cases: Mapping[str, Mapping[str, Run]], rounds: int | Mapping[str, int]
) -> dict[str, dict[str, Measured]]:
    """Measure cases without making a table of them; otherwise as `compare`."""
    found: dict[str, dict[str, Measured]] = {}
    for case, runs in cases.items():
        many = rounds if isinstance(rounds, int) else rounds[case]
        tell(f"{title}: {case}, {many} rounds")
        found[case] = interleaved(runs, baseline, many)
    return found


def beside(other: str, cases: Mapping[str, Mapping[str, Measured]]) -> dict[str, dict[str, Measured]]:
    """Take another baseline, in the cases in which that takes part."""
    return {
        case: {
            name: Measured(its.rounds, [one / base for one, base in zip(its.rounds, found[other].rounds, strict=True)])
            for name, its in found.items()
        }
        for case, found in cases.items()
        if other in found
    }


def tabulate(
    title: str,
    unit: str,
    baseline: str,
    cases: Mapping[str, Mapping[str, Measured]],
    promises: Mapping[str, Promise] | None = None,
    within: Collection[str] | None = None,
) -> Table:
    """Make a table of what was measured; otherwise as `compare`."""
    promised = dict(promises or {})
    names = dict.fromkeys(name for found in cases.values() for name in found)  # in order, each once
    return Table(
        title,
        unit,
        baseline,
        list(cases),
        {
            name: [
                _cell(found.get(name), promised.get(name) if within is None or case in within else None)
                for case, found in cases.items()
            ]
            for name in names
        },
        {name: promise for name, promise in promised.items() if name in names},
    )


def _cell(measured: Measured | None, promise: Promise | None) -> Cell | None:
    if measured is None:
        return None
    verdict = promise.verdict(measured.ratio, measured.cost) if promise else None
    cost, lower, upper, ratio = (float(f"{value:.4g}") for value in (measured.cost, *measured.spread, measured.ratio))
    return Cell(cost, lower, upper, ratio, verdict)


def tell(what: str) -> None:
    """Tell how far it is, beside the results."""
    print(what, file=sys.stderr, flush=True)


# about


def versions() -> dict[str, str]:
    """Find the versions of Python and of every package that is there."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def machine() -> str:
    """Name the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or platform.processor() or platform.machine()


def results(suites: Mapping[str, Suite]) -> Results:
    """Put together what was measured here."""
    return Results(machine(), os.cpu_count() or 1, versions(), dict(suites))


def save(path: Path, measured: Results) -> None:
    """Write results."""
    path.write_bytes(RESULTS.dump_json(measured, indent=1) + b"\n")


def load(path: Path) -> Results:
    """Read results."""
    return RESULTS.validate_json(path.read_bytes())


# drawing


def figure(value: float) -> str:
    """Write a number with three digits or so."""
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}"


def times(ratio: float) -> str:
    """Write a ratio, of less than a half as a fraction."""
    if ratio >= 100:
        return f"{ratio:,.0f}"
    return f"1/{1 / ratio:.3g}" if 0 < ratio < 0.5 else f"{ratio:.3g}"


def draw(table: Table) -> str:
    """Draw a table for a terminal: costs with quartiles, then ratios with what became of promises."""
    width = max(map(len, (*table.rows, table.title))) + 2
    lines = [table.title, _line(table.unit, width, table.columns)]
    for name, cells in table.rows.items():
        lines.append(_line(name, width, [_cost(cell) for cell in cells]))
    lines += ["", _line(f"times {table.baseline}", width, table.columns)]
    for name, cells in table.rows.items():
        promise = f"   {table.promises[name]}" if name in table.promises else ""
        lines.append(_line(name, width, [_ratio(cell) for cell in cells]) + promise)
    return "\n".join(lines)


def _line(title: str, width: int, cells: Sequence[str]) -> str:
    return f"{title:<{width}}" + "".join(f"{cell:>24}" for cell in cells)


def _cost(cell: Cell | None) -> str:
    return "-" if cell is None else f"{figure(cell.cost)} ({figure(cell.lower)} to {figure(cell.upper)})"


def _ratio(cell: Cell | None) -> str:
    return "-" if cell is None else f"{times(cell.ratio)} {'' if cell.verdict is None else cell.verdict}".rstrip()


# running


def main(measure: Callable[[bool], list[Table]], doc: str | None) -> None:
    """Run a benchmark module: measure, print, and write what was measured.

    Args:
        measure: Measures, quickly or in full. Its module says its `TITLE`.
        doc: What the module says about itself.
    """
    module = sys.modules[measure.__module__]
    name = module.__spec__.name if module.__spec__ else Path(str(module.__file__)).stem
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=(doc or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller workloads: to have a look")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all that was measured to a file")
    options = parser.parse_args()
    quick: bool = options.quick
    warnings.simplefilter("ignore")  # those of peers; ours are errors in the tests
    print(", ".join(f"{package} {number}" for package, number in versions().items()), end="\n\n", flush=True)
    tables = measure(quick)
    for table in tables:
        print(draw(table), end="\n\n")
    if options.json is not None:
        suite = Suite(str(module.__dict__["TITLE"]), date.today().isoformat(), quick, tables)
        save(options.json, results({name.rpartition(".")[2]: suite}))
