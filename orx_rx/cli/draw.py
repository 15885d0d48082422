"""`orx-rx draw`: a picture of a stream."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from rich.console import Console

from orx_rx.cli.files import Word, read_taped
from orx_rx.cli.outcomes import UsageError
from orx_rx.cli.output import note
from orx_rx.cli.picture import picture_of
from orx_rx.cli.svg_picture import svg as svg_of
from orx_rx.cli.terminal_picture import terminal_lines

_WIDTH = 100  # columns where there is no terminal


def draw(
    *files: Word, by: Literal["time", "order"] | None = None, svg: Path | None = None, width: int | None = None
) -> int:
    """Draw a stream: a lane for the response, one for each item and each part, and a mark for each event.

    Args:
        files: A cassette, or a file of the bytes that a server sent, - for stdin; one for each connection that the
            stream took.
        by: What goes across: time, or the order of the events; by default time where it is known.
        svg: Draw it as SVG into this file instead.
        width: How many columns to use; by default those of the terminal, and 100 elsewhere.
    """
    if not files:
        raise UsageError("expected a file to draw, got none")
    if width is not None and width < 20:
        raise UsageError(f"expected a width of at least 20 columns, got {width}")
    taped = [read_taped(file) for file in files]
    timed = all(one.timed for one in taped)
    if by == "time" and not timed:
        raise UsageError("expected a cassette with --by time, got a file without times")
    picture = picture_of([one.cassette for one in taped], timed=timed if by is None else by == "time")
    if svg is not None:
        svg.write_text(svg_of(picture), encoding="utf-8")
        note(f"wrote {svg}")
        return 0
    console = Console(file=sys.stdout, highlight=False, markup=False)
    columns = width or (console.width if sys.stdout.isatty() else _WIDTH)
    ascii = not (sys.stdout.encoding or "").lower().startswith("utf")
    for line in terminal_lines(picture, columns, ascii=ascii):
        console.print(line, soft_wrap=True)
    return 0
