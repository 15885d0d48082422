"""Drawing the picture of a stream with characters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orx_rx.cli.picture import Kind, Lane, Picture

# the sign of a mark, in Unicode and in ASCII, and its style; where two marks meet, the later row is seen
_SIGNS: Mapping[Kind, tuple[str, str, str]] = {
    "event": ("·", ".", "dim"),
    "delta": ("o", "o", "cyan"),
    "end": ("|", "|", "bold"),
    "violation": ("!", "!", "bold red"),
    "open": ("[", "[", "bold"),
    "close": ("]", "]", "bold"),
    "completed": ("◆", "*", "bold green"),
    "reconnect": ("↻", "@", "bold blue"),
    "failed": ("✗", "x", "bold red"),
    "broken": ("#", "#", "bold red"),
}
_RANKS = {kind: rank for rank, kind in enumerate(_SIGNS)}
_MOST_LINES = 12  # of violations


def terminal_lines(picture: Picture, width: int, *, ascii: bool = False) -> Iterator[Text]:
    """Draw a picture.

    Args:
        picture: The picture.
        width: How many columns there are.
        ascii: Whether to use ASCII alone.
    """
    most = max(width // 3, 8)
    named = [lane.name for lane in picture.lanes]
    if max(map(len, named)) > most:  # a part stands below its item, whose place it need not repeat
        named = [re.sub(r"^output\[\d+\]\.", "  ", name) for name in named]
    names = min(max(map(len, named)), most)
    columns = max(width - names - 2, 10)
    for name, lane in zip(named, picture.lanes, strict=True):
        shown = name if len(name) <= names else f"{name[: names - 1]}{'.' if ascii else '…'}"
        yield Text.assemble(f"{shown:{names}}  ", _line(lane, picture, columns, ascii))
    yield Text(f"{'':{names}}  {_axis(picture, columns)}", "dim")
    drawn = {mark.kind for lane in picture.lanes for mark in lane.marks}
    told = [f"{signs[ascii]} {kind}" for kind, signs in _SIGNS.items() if kind in drawn]
    for line in _filled([*told, "~ nothing came"] if picture.gaps else told, width):
        yield Text(line, "dim")
    for line in picture.violations[:_MOST_LINES]:
        yield Text(f"! {line}", "red")
    if len(picture.violations) > _MOST_LINES:
        yield Text(f"  and {len(picture.violations) - _MOST_LINES} more", "red")


def _line(lane: Lane, picture: Picture, columns: int, ascii: bool) -> Text:
    def column(at: float) -> int:
        return round(at / picture.length * (columns - 1))

    first, last = (column(lane.marks[end].at) for end in (0, -1)) if lane.marks else (0, -1)
    cells: list[tuple[str, str]] = [(" ", "")] * columns
    cells[first : last + 1] = [("-" if ascii else "─", "dim")] * (last + 1 - first)
    for begin, end in picture.gaps:
        for number in range(max(column(begin) + 1, first), min(column(end), last + 1)):
            cells[number] = ("~", "yellow")
    for mark in sorted(lane.marks, key=lambda mark: _RANKS[mark.kind]):
        *signs, style = _SIGNS[mark.kind]
        beside = mark.kind == "reconnect"  # what broke is at the same place
        cells[min(column(mark.at) + beside, columns - 1)] = (signs[ascii], style)
    return Text.assemble(*cells)


def _filled(words: Sequence[str], width: int) -> list[str]:
    """Put words into lines, without breaking any."""
    lines = [""]
    for word in words:
        longer = f"{lines[-1]}   {word}".strip()
        if len(longer) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _axis(picture: Picture, columns: int) -> str:
    end = f"{picture.length:.2f} s" if picture.timed else f"{picture.length:.0f} events"
    return f"0{end:>{columns - 1}}"
