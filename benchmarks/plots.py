"""Plots as SVG, drawn by hand: bars for contenders, lines for what grows. They follow the light or dark of the reader.

Nothing is measured here. What comes out depends on the numbers alone, so that a test can hold the files to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import log10

from benchmarks.harness import Cell, figure

WIDTH = 720
_ROW = 26  # the height of a bar and what is around it
_TOP = 52
_LABEL = 250  # where bars begin
_RIGHT = 640  # where the longest bar or line ends

_STYLE = """
svg { color-scheme: light dark; }
.paper { fill: #ffffff; } .text { fill: #1f2328; } .dim { fill: #656d76; } .rule { stroke: #d0d7de; }
.ours { fill: #0969da; } .peer { fill: #a5adb6; } .spread { stroke: #1f2328; }
.line { fill: none; stroke-width: 2.2; }
.c0 { stroke: #0969da; fill: #0969da; } .c1 { stroke: #1a7f37; fill: #1a7f37; }
.c2 { stroke: #8250df; fill: #8250df; } .c3 { stroke: #bc4c00; fill: #bc4c00; }
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; stroke: none !important; }
.title { font-weight: 600; font-size: 15px; }
@media (prefers-color-scheme: dark) {
  .paper { fill: #131416; } .text { fill: #e6edf3; } .dim { fill: #9198a1; } .rule { stroke: #3d444d; }
  .ours { fill: #4493f8; } .peer { fill: #6e7681; } .spread { stroke: #e6edf3; }
  .c0 { stroke: #4493f8; fill: #4493f8; } .c1 { stroke: #3fb950; fill: #3fb950; }
  .c2 { stroke: #ab7df8; fill: #ab7df8; } .c3 { stroke: #f0883e; fill: #f0883e; }
}
"""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a plot.

    Attributes:
        name: What it says at its end.
        points: Its values: where, and how much.
    """

    name: str
    points: list[tuple[float, float]]


def bars(title: str, unit: str, rows: Mapping[str, Cell], is_ours: Callable[[str], bool]) -> str:
    """Draw a bar for each row, with a rule from quartile to quartile; ours stand out.

    Args:
        title: What is measured.
        unit: Of the costs.
        rows: The costs.
        is_ours: Tells which rows those are.
    """
    longest = max(cell.upper for cell in rows.values())
    height = _TOP + _ROW * len(rows) + 12

    def drawn() -> Iterator[str]:
        for number, (name, cell) in enumerate(rows.items()):
            y = _TOP + _ROW * number
            at, lower, upper = (
                _LABEL + (_RIGHT - _LABEL) * value / longest for value in (cell.cost, cell.lower, cell.upper)
            )
            kind = "ours" if is_ours(name) else "peer"
            middle = y + _ROW / 2
            yield _text(_LABEL - 10, middle + 4.5, name, "text", "end")
            yield _rect(kind, y + 4, at - _LABEL)
            yield f'<path class="spread" d="M{lower:.1f} {middle}H{upper:.1f}"/>'
            yield _text(max(at, upper) + 8, middle + 4.5, figure(cell.cost), "text")

    return _svg(title, unit, height, drawn())


def lines(title: str, unit: str, axis: str, series: Sequence[Line]) -> str:
    """Draw lines over a logarithmic axis; every line has its name at its end.

    Args:
        title: What is measured.
        unit: Of the costs.
        axis: What the lines are over.
        series: The lines.
    """
    left, right, bottom = 60, 500, 300
    places = sorted({x for line in series for x, _ in line.points})
    most = _round_up(max(y for line in series for _, y in line.points))
    first, last = log10(places[0]), log10(places[-1])

    def across(x: float) -> float:
        return left + (right - left) * (log10(x) - first) / ((last - first) or 1)

    def up(y: float) -> float:
        return bottom - (bottom - _TOP) * y / most

    def drawn() -> Iterator[str]:
        for step in range(5):
            value = most * step / 4
            yield f'<path class="rule" d="M{left} {up(value):.1f}H{right}"/>'
            yield _text(left - 8, up(value) + 4.5, f"{value:g}", "dim", "end")
        for x in places:
            yield _text(across(x), bottom + 20, f"{x:,.6g}" if x < 1000 else f"{x:,.0f}", "dim", "middle")
        yield _text((left + right) / 2, bottom + 42, axis, "dim", "middle")
        for number, line in enumerate(series):
            path = "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in line.points)
            yield f'<path class="line c{number % 4}" style="fill:none" d="M{path}"/>'
            for x, y in line.points:
                yield f'<circle class="c{number % 4}" cx="{across(x):.1f}" cy="{up(y):.1f}" r="3"/>'
        ends = [up(line.points[-1][1]) for line in series]
        for number, y in enumerate(_apart(ends)):
            x = across(series[number].points[-1][0])
            yield _text(x + 12, y + 4.5, series[number].name, f"c{number % 4}")

    return _svg(title, unit, bottom + 60, drawn())


def _rect(kind: str, y: float, width: float) -> str:
    return f'<rect class="{kind}" x="{_LABEL}" y="{y:g}" width="{width:.1f}" height="{_ROW - 8}" rx="2"/>'


def _apart(places: Sequence[float]) -> list[float]:
    """Move labels up until none is on another one."""
    moved = list(places)
    order = sorted(range(len(places)), key=lambda number: places[number], reverse=True)
    for below, above in pairwise(order):
        moved[above] = min(moved[above], moved[below] - 17)
    return moved


def _round_up(value: float) -> float:
    """Find an end of an axis: a round number that is not below a value."""
    scale = 10.0 ** (len(f"{int(value)}") - 1) if value >= 1 else 0.1
    return next(scale * step for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 5, 6, 8, 10, 100) if scale * step >= value)


def _text(x: float, y: float, said: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(said)}</text>'


def _svg(title: str, unit: str, height: float, drawn: Iterator[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:g}" viewBox="0 0 {WIDTH} {height:g}" '
        f'role="img" aria-label="{escape(title)}">'
    )
    body = [
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height:g}" rx="6"/>',
        _text(16, 28, title, "text title"),
        _text(WIDTH - 16, 28, unit, "dim", "end"),
        *drawn,
    ]
    return "\n".join([head, *body, "</svg>"]) + "\n"
