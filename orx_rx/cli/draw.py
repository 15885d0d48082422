"""`orx-rx draw`: a picture of a stream."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console

from orx_rx.cli.files import STDIN, Word, read_taped
from orx_rx.cli.outcomes import UsageError
from orx_rx.cli.output import note, write
from orx_rx.cli.picture import picture_of
from orx_rx.cli.svg_picture import svg as svg_of
from orx_rx.cli.terminal_picture import terminal_lines
from orx_rx.protocol.cassette import path_of

_WIDTH = 100  # columns where there is no terminal


def draw(
    *files: Word,
    by: Literal["time", "order"] | None = None,
    svg: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
    width: int | None = None,
) -> int:
    """Draw a stream: a lane for the response, one for each item and each part, and a mark for each event.

    Args:
        files: A cassette, or a file of the bytes that a server sent, - for stdin; one for each connection that the
            stream took, in their order; what one --save wrote is put into it.
        by: What goes across: time, or the order of the events; by default time where it is known.
        svg: Draw it as SVG into this file instead; - is stdout.
        width: How many columns to use; by default those of the terminal, and 100 elsewhere.
    """
    if not files:
        raise UsageError("expected a file to draw, got none")
    if svg is not None and svg.name.startswith("-") and svg != Path(STDIN):
        raise UsageError(f"expected a file with --svg, got {str(svg)!r}")
    if width is not None and width < 20:
        raise UsageError(f"expected a width of at least 20 columns, got {width}")
    taped = [read_taped(file) for file in _in_order(files)]
    timed = all(one.timed for one in taped)
    if by == "time" and not timed:
        raise UsageError("expected a cassette with --by time, got a file without times")
    picture = picture_of([one.cassette for one in taped], timed=timed if by is None else by == "time")
    if svg == Path(STDIN):
        write(svg_of(picture).encode())
        return 0
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


def _in_order(files: Sequence[str]) -> Sequence[str]:
    """Put the cassettes of one recording in their order, in which no shell has them: tape-2.jsonl comes before tape."""
    given = {Path(file) for file in files}
    for first in files:
        numbered = [path_of(Path(first), number) for number in range(1, len(files) + 1)]
        if set(numbered) == given:
            return [str(file) for file in numbered]
    return files
