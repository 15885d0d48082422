"""Bring what was measured into the documentation: the tables and sentences of docs/performance.md, and its plots.

    python -m benchmarks.report

The page has a pair of comments for each part that is written here, `<!-- measured: NAME -->` and `<!-- end -->`; the
rest of it is written by hand, and has no figures. All figures come from benchmarks/results.json.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from textwrap import fill

from benchmarks.__main__ import RESULTS
from benchmarks.harness import Cell, Results, Suite, Table, figure, load, times
from benchmarks.plots import Line, bars, lines

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "performance.md"

_PART = re.compile(r"(<!-- measured: ([a-z_]+) -->\n).*?(<!-- end -->)", re.DOTALL)

Plot = Callable[[Suite], str]


# plots


def _is_ours(name: str) -> bool:
    return name.startswith("orx_rx")


def _bars(table: int, column: int, is_ours: Callable[[str], bool] = _is_ours, left_out: str = "") -> Plot:
    def draw(suite: Suite) -> str:
        shown = suite.tables[table]
        rows = {name: cell for name, cells in shown.rows.items() if (cell := cells[column]) and name != left_out}
        title = shown.title if len(shown.columns) == 1 else f"{shown.title}: {shown.columns[column]}"
        return bars(title, shown.unit, rows, is_ours)

    return draw


def _over_columns(table: int, axis: str) -> Plot:
    def draw(suite: Suite) -> str:
        shown = suite.tables[table]
        series = [
            Line(name, [(_number(shown.columns[at]), cell.cost) for at, cell in enumerate(cells) if cell])
            for name, cells in shown.rows.items()
        ]
        return lines(shown.title, shown.unit, axis, series)

    return draw


def _over_rows(table: int, axis: str) -> Plot:
    def draw(suite: Suite) -> str:
        shown = suite.tables[table]
        series = [
            Line(column, [(_number(name), cell.cost) for name, cells in shown.rows.items() if (cell := cells[at])])
            for at, column in enumerate(shown.columns)
        ]
        return lines(shown.title, shown.unit, axis, series)

    return draw


def _number(name: str) -> float:
    """Read the number that the name of a row or column begins with."""
    return float(name.split()[0].replace(",", ""))


PLOTS: Mapping[str, Mapping[str, Plot]] = {
    "pipeline": {"event": _bars(0, 1)},
    "operators": {"operators": _bars(0, 0, str.isidentifier)},
    "scaling": {"length": _over_rows(0, "deltas of the answer"), "frame": _over_rows(2, "MB of one frame")},
    "snapshots": {"snapshots": _over_columns(0, "deltas of the answer")},
    "memory": {"memory": _bars(0, 0)},
    "startup": {"startup": _bars(0, 0)},
    "loopback": {"socket": _bars(0, 1)},
    "fan_out": {"sharing": _bars(0, 2, lambda name: name.startswith("fan_out"), "ReplaySubject")},  # off the scale
}
"""The plots of each benchmark, by the ends of their names."""


def plots(results: Results) -> dict[str, str]:
    """Draw every plot of what was measured, by the name of its file."""
    return {
        f"performance-{name}.svg": draw(results.suites[suite])
        for suite, drawn in PLOTS.items()
        if suite in results.suites
        for name, draw in drawn.items()
    }


# the page


def part(name: str, results: Results) -> str:
    """Write what was measured by one benchmark: plots, tables, promises."""
    suite = results.suites.get(name)
    if suite is None:
        return f"Not measured: `python -m benchmarks {name}`\n"
    images = [f"![{suite.title}](_static/performance-{plot}.svg)" for plot in PLOTS.get(name, {})]
    tables = [_table(table) for table in suite.tables]
    promises = [_promises(table) for table in suite.tables if table.promises]
    return "\n\n".join([*images, *tables, *promises, f"`python -m benchmarks {name}`, {_day(suite)}"]) + "\n"


def about(results: Results) -> str:
    """Say where it was measured, and with what."""
    versions = ", ".join(f"{package} {number}" for package, number in results.versions.items() if package != "orx-rx")
    return fill(f"Measured on {results.cores} cores of {results.machine}, with {versions}.", 120) + "\n"


def expect(results: Results) -> str:
    """Say in sentences what the figures mean, as far as they are there."""
    said: list[str] = []
    for suite, table, row, column, sentence in SENTENCES:
        if cell := _cell(results, suite, table, row, column):
            said.append(fill("- " + sentence(cell), 120, subsequent_indent="  "))
    return "\n".join(said) + "\n"


SENTENCES: tuple[tuple[str, int, int, int, Callable[[Cell], str]], ...] = (
    (
        "pipeline",
        0,
        0,
        1,
        lambda cell: (
            f"A text delta costs {figure(cell.cost)} µs of CPU, from bytes to a checked event that knows its snapshot: "
            f"{float(f'{1e6 / cell.cost:.2g}'):,.0f} of them fill one core for a second."
        ),
    ),
    (
        "scaling",
        0,
        -1,
        1,
        lambda cell: f"In the longest answer a delta costs {cell.ratio:.2f} times what it costs in the shortest.",
    ),
    (
        "scaling",
        2,
        -1,
        0,
        lambda cell: f"The longest frame takes {figure(cell.cost)} ms of CPU a MB.",
    ),
    (
        "snapshots",
        0,
        2,
        -1,
        lambda cell: (
            f"Who reads `snapshot` at every delta of the longest answer pays {times(cell.ratio)} times as much to "
            "accumulate: a whole text cannot be handed out in proportion to a delta. `delta`, `snapshot_length` and "
            "`snapshot_tail` can."
        ),
    ),
    (
        "memory",
        0,
        0,
        0,
        lambda cell: f"An event that is kept takes {cell.cost:,.0f} bytes.",
    ),
    (
        "startup",
        0,
        2,
        2,
        lambda cell: f"A process pays {cell.cost:,.0f} ms of CPU once, from its start to its first event.",
    ),
)
"""What the figures mean: of a suite, a table, a row and a column, the sentence about that cell."""


def _cell(results: Results, suite: str, table: int, row: int, column: int) -> Cell | None:
    if suite not in results.suites:
        return None
    return list(results.suites[suite].tables[table].rows.values())[row][column]


def _day(suite: Suite) -> str:
    day = date.fromisoformat(suite.day)
    quick = "; only a quick look, with few rounds" if suite.quick else ""
    return f"{day.day} {day:%B %Y}{quick}."


def _table(table: Table) -> str:
    """Write the costs, each with its ratio to the baseline."""
    lines = [
        f"**{table.title}**: {table.unit}, and times *{table.baseline}*",
        "",
        _row("", table.columns),
        _row("---", ["--:"] * len(table.columns)),
    ]
    for name, cells in table.rows.items():
        bold = f"**{name}**" if name == table.baseline else name
        lines.append(_row(bold, [_cost(cell, name == table.baseline) for cell in cells]))
    return "\n".join(lines)


def _cost(cell: Cell | None, is_baseline: bool) -> str:
    if cell is None:
        return "-"
    return figure(cell.cost) if is_baseline else f"{figure(cell.cost)} ({times(cell.ratio)})"


def _promises(table: Table) -> str:
    """Write what became of promises."""
    lines = [_row("promised", ["", *table.columns]), _row("---", ["---"] * (len(table.columns) + 1))]
    for name, promise in table.promises.items():
        lines.append(_row(name, [str(promise), *(_verdict(cell) for cell in table.rows[name])]))
    return "\n".join(lines)


def _verdict(cell: Cell | None) -> str:
    return "-" if cell is None or cell.verdict is None else cell.verdict


def _row(first: str, cells: list[str]) -> str:
    return f"| {' | '.join([first, *cells])} |"


def page(text: str, results: Results) -> str:
    """Write every part of the page anew, and leave the rest.

    Args:
        text: The page as it is.
        results: What was measured.
    """
    parts: Mapping[str, Callable[[Results], str]] = {"about": about, "expect": expect}

    def anew(found: re.Match[str]) -> str:
        name = found[2]
        written = parts[name](results) if name in parts else part(name, results)
        return f"{found[1]}\n{written}\n{found[3]}"

    return _PART.sub(anew, text)


def parts_of(text: str) -> list[str]:
    """Name the parts of the page that are written here."""
    return [found[2] for found in _PART.finditer(text)]


def main() -> None:
    """Write the page and the plots."""
    results = load(RESULTS)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    for name, drawn in plots(results).items():
        (DOCS / "_static" / name).write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
