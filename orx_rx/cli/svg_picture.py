"""Drawing the picture of a stream as SVG."""

from __future__ import annotations

from math import floor, log10, sqrt
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from orx_rx.cli.picture import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from orx_rx.cli.picture import Kind, Picture

_WIDTH, _MARGIN, _TOP, _LANE = 1100, 24, 34, 34
_LETTER = 7.3  # pixels of a letter of a name
_LINE = 18
_MOST_LINES = 12  # of violations

_COLORS: Mapping[Kind, str] = {
    "event": "#9aa0a6",
    "delta": "#1a73e8",
    "open": "#202124",
    "close": "#202124",
    "end": "#202124",
    "completed": "#188038",
    "failed": "#c5221f",
    "broken": "#c5221f",
    "reconnect": "#1a73e8",
    "violation": "#c5221f",
}


def _dot(x: float, y: float, mark: Mark) -> str:
    return f'<circle cx="{x:.1f}" cy="{y}" r="2.2"/>'


def _marble(x: float, y: float, mark: Mark) -> str:
    radius = min(3 + sqrt(mark.size) / 2, 8)
    return f'<circle cx="{x:.1f}" cy="{y}" r="{radius:.1f}" fill-opacity=".55" stroke="#fff" stroke-width=".7"/>'


def _bar(x: float, y: float, mark: Mark) -> str:
    return f'<rect x="{x - 1.2:.1f}" y="{y - 8}" width="2.4" height="16"/>'


def _diamond(x: float, y: float, mark: Mark) -> str:
    return f'<path d="M{x:.1f} {y - 8}l8 8-8 8-8-8z"/>'


def _cross(x: float, y: float, mark: Mark) -> str:
    return f'<path d="M{x - 6:.1f} {y - 6}l12 12m0-12l-12 12" fill="none" stroke="#c5221f" stroke-width="2.6"/>'


def _arrow(x: float, y: float, mark: Mark) -> str:
    beside = x + 16  # since what broke is at the same place
    arc = f"M{beside + 4:.1f} {y - 4.6:.1f}a6 6 0 1 0 2 4.6"  # most of a circle, which ends in a tip
    tip = f"M{beside + 2.2:.1f} {y}h7.6l-3.8-5z"
    return f'<path d="{arc}" fill="none" stroke="#1a73e8" stroke-width="2"/><path d="{tip}"/>'


def _warning(x: float, y: float, mark: Mark) -> str:
    return f'<path d="M{x - 6:.1f} {y - 7}h12l-6-9z" transform="rotate(180 {x:.1f} {y - 11.5})"/>'


_SHAPES: Mapping[Kind, Callable[[float, float, Mark], str]] = {
    "event": _dot,
    "delta": _marble,
    "open": _bar,
    "close": _bar,
    "end": _bar,
    "reconnect": _arrow,
    "completed": _diamond,
    "failed": _cross,
    "broken": _cross,
    "violation": _warning,
}
_RANKS = {kind: rank for rank, kind in enumerate(_SHAPES)}
_TOLD: Sequence[Kind] = ("delta", "completed", "failed", "broken", "reconnect", "violation")
"""The kinds that a legend explains; the others speak for themselves."""
_OFFSETS: Mapping[Kind, tuple[int, int]] = {"reconnect": (16, 0), "violation": (0, 12)}
"""How far to the left and down a shape has to be put to stand at its place."""


def svg(picture: Picture) -> str:
    """Draw a picture; what each mark is stands in its tooltip."""
    left = _MARGIN + max(len(lane.name) for lane in picture.lanes) * _LETTER + 16
    right = _WIDTH - _MARGIN - 8
    bottom = _TOP + _LANE * len(picture.lanes)
    lines = _shortened(picture)
    drawn: list[Kind] = [
        kind for kind in _TOLD if any(mark.kind == kind for lane in picture.lanes for mark in lane.marks)
    ]
    height = bottom + 68 + _LINE * (len(lines) + (1 if lines else 0))

    def x(at: float) -> float:
        return left + at / picture.length * (right - left)

    def parts() -> Iterator[str]:
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">'
        )
        yield f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>'
        for begin, end in picture.gaps:
            width = x(end) - x(begin)
            size = f'width="{width:.1f}" height="{bottom - _TOP}"'
            yield f'<rect x="{x(begin):.1f}" y="{_TOP - 8}" {size} fill="#fef7e0"/>'
            if width > 40:
                middle = (x(begin) + x(end)) / 2
                yield f'<text x="{middle:.1f}" y="{_TOP - 14}" {_MIDDLE} fill="#b06000">{end - begin:.1f} s</text>'
        for tick in _ticks(picture.length):
            yield f'<path d="M{x(tick):.1f} {_TOP - 8}V{bottom - 4}" stroke="#eceff1"/>'
            yield f'<text x="{x(tick):.1f}" y="{bottom + 14}" {_MIDDLE} fill="#5f6368">{tick:g}</text>'
        unit = "seconds" if picture.timed else "events"
        yield f'<text x="{_MARGIN}" y="{bottom + 14}" fill="#5f6368">{unit}</text>'
        for number, lane in enumerate(picture.lanes):
            y = _TOP + _LANE * number + _LANE // 2 - 4
            yield f'<text x="{_MARGIN}" y="{y + 4}" fill="#202124">{escape(lane.name)}</text>'
            if not lane.marks:
                continue
            first, last = x(lane.marks[0].at), x(lane.marks[-1].at)
            yield f'<path d="M{first:.1f} {y}H{last:.1f}" stroke="#bdc1c6" stroke-width="1.5"/>'
            for mark in sorted(lane.marks, key=lambda mark: _RANKS[mark.kind]):
                shape = _SHAPES[mark.kind](x(mark.at), y, mark)
                yield f'<g fill="{_COLORS[mark.kind]}"><title>{escape(_legal(mark.text))}</title>{shape}</g>'
        for number, kind in enumerate(drawn):
            at, y = left + number * 112, bottom + 40
            aside, below = _OFFSETS.get(kind, (0, 0))
            shape = _SHAPES[kind](at - aside, y + below, Mark(0, kind, "", 16))
            yield f'<g fill="{_COLORS[kind]}">{shape}</g>'
            yield f'<text x="{at + 14:.1f}" y="{y + 4}" fill="#5f6368">{kind}</text>'
        for number, line in enumerate(lines):
            y = bottom + 76 + _LINE * number
            yield f'<text x="{_MARGIN}" y="{y}" fill="#c5221f">{escape(_legal(line))}</text>'
        yield "</svg>\n"

    return "\n".join(parts())


_MIDDLE = 'text-anchor="middle"'


def _shortened(picture: Picture) -> list[str]:
    """Choose the lines of text below the picture, as long as it is wide."""
    most = int((_WIDTH - 2 * _MARGIN) / _LETTER)
    lines = [line if len(line) <= most else f"{line[: most - 1]}…" for line in picture.violations[:_MOST_LINES]]
    more = len(picture.violations) - _MOST_LINES
    return [*lines, f"and {more} more"] if more > 0 else lines


def _ticks(length: float) -> list[float]:
    """Choose some five to ten round numbers."""
    rough = length / 6
    power = 10 ** floor(log10(rough))
    step = next(step * power for step in (1, 2, 5, 10) if step * power >= rough)
    return [round(number * step, 9) for number in range(int(length / step + 1e-9) + 1)]


def _legal(text: str) -> str:
    """Replace what XML cannot hold."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
