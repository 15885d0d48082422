"""Drawing the picture of a stream with characters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orx_rx.cli.picture import Kind, Lane, Picture

# the sign of a mark, in Unicode and in ASCII, and its style; where two marks meet, the later row is seen
_SIGNS: Mapping[Kind, tuple[str, str, str]] = {
    "event": ("·", ".", "dim"),
    "delta": ("o", "o", "cyan"),
    "open": ("[", "[", "bold"),
    "close": ("]", "]", "bold"),
    "end": ("|", "|", "bold"),
    "completed": ("◆", "*", "bold green"),
    "reconnect": ("↻", "@", "bold blue"),
    "failed": ("✗", "x", "bold red"),
    "broken": ("#", "#", "bold red"),
    "violation": ("!", "!", "bold red"),
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
    names = min(max(len(lane.name) for lane in picture.lanes), max(width // 3, 8))
    columns = max(width - names - 2, 10)
    for lane in picture.lanes:
        yield Text.assemble(f"{lane.name[:names]:{names}}  ", _line(lane, picture, columns, ascii))
    yield Text(f"{'':{names}}  {_axis(picture, columns)}", "dim")
    drawn = {mark.kind for lane in picture.lanes for mark in lane.marks}
    yield Text(
        "   ".join(f"{signs[ascii]} {kind}" for kind, signs in _SIGNS.items() if kind in drawn)
        + ("   ~ nothing came" if picture.gaps else ""),
        "dim",
    )
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


def _axis(picture: Picture, columns: int) -> str:
    end = f"{picture.length:.2f} s" if picture.timed else f"{picture.length:.0f} events"
    return f"0{end:>{columns - 1}}"
