"""Draw the marble pictures of docstrings as SVG: strings in, a string out.

The notation is that of the tests, which run the same pictures in virtual time:

    -      nothing happens          |      it completes
    a      an element               #      it fails
    (ab)   two in the same tick     space  nobody has subscribed yet
    [ x ]  an operator              3 spaces, and what follows: a remark

A line in another form is a legend, such as `a: delta "Hel"   b: delta "lo"`. What it has in double quotes is one
element where it occurs in a row; everything else is an element a letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

CELL = 16  # pixels of a column, and of a marble
LINE = 34  # of a row or an operator
NOTE = 20  # of a line of a legend
GAP = 14  # between two pictures of one text
LETTER = 7.3  # of a letter of a legend or a remark
WIDEST = 640  # of a legend, before it goes on in the next line

_ROW = re.compile(r" *[-(]")
_BOX = re.compile(r" *\[(.*)\] *$")
_REMARK = re.compile(r" {3,}")
_QUOTED = re.compile(r'"([^"]*)"')


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happens.

    Attributes:
        column: Where it is drawn.
        name: What is written on it; `|` and `#` are ends.
    """

    column: int
    name: str


@dataclass(frozen=True, slots=True)
class Row:
    """An observable.

    Attributes:
        begin: The column in which somebody subscribes.
        end: The column behind the last one.
        marks: What happens, in its order.
        groups: From and to which columns things happen in the same tick.
        remark: What is said beside it.
    """

    begin: int
    end: int
    marks: Sequence[Mark]
    groups: Sequence[tuple[int, int]]
    remark: str


@dataclass(frozen=True, slots=True)
class Box:
    """An operator, drawn as a box between what comes in and what goes out."""

    label: str
    width: int


@dataclass(slots=True)
class Picture:
    """A legend, and rows with boxes between them."""

    legend: list[str] = field(default_factory=list[str])
    lines: list[Row | Box] = field(default_factory=list[Row | Box])


def parse(text: str) -> list[Picture]:
    """Read the pictures of a text; an empty line, or a legend, behind rows begins another one.

    Raises:
        ValueError: There is none in it.
    """
    quoted: list[str] = _QUOTED.findall(text)
    words = sorted({word for word in quoted if word}, key=len, reverse=True)
    pictures = [Picture()]
    for line in text.splitlines():
        box = _BOX.match(line)
        is_row = _ROW.match(line) is not None
        if pictures[-1].lines and not (box or is_row):
            pictures.append(Picture())
        if box:
            pictures[-1].lines.append(Box(box[1].strip(), len(line.rstrip())))
        elif is_row:
            pictures[-1].lines.append(_row(line.rstrip(), words))
        elif line.strip():
            pictures[-1].legend += _REMARK.split(line.strip())
    found = [picture for picture in pictures if picture.lines or picture.legend]
    if not any(picture.lines for picture in found):
        raise ValueError("expected a marble picture, got a text without rows")
    return found


def _row(line: str, words: Sequence[str]) -> Row:
    begin = len(line) - len(line.lstrip())
    drawn, _, remark = line.lstrip().partition("   ")
    sign = re.compile("|".join([*map(re.escape, words), "."]))
    marks, groups, opened = list[Mark](), list[tuple[int, int]](), begin
    for found in sign.finditer(drawn):
        column, name = begin + found.start(), found[0]
        if name == "(":
            opened = column
        elif name == ")":
            groups.append((opened, column + 1))
        elif name not in "- ":
            marks.append(Mark(column, name))
    return Row(begin, begin + len(drawn), marks, groups, remark.strip())


def svg(text: str) -> str:
    """Draw the pictures of a text, with the text as what is read aloud in their place.

    Raises:
        ValueError: There is none in it.
    """
    parts, top, right = list[str](), 2.0, 0.0
    for number, picture in enumerate(parse(text)):
        top += GAP if number else 0
        for note in _wrapped(picture.legend):
            parts.append(_text(1, top + 13, note, "note"))
            top, right = top + NOTE, max(right, len(note) * LETTER)
        for line in picture.lines:
            middle = top + LINE / 2
            if isinstance(line, Box):
                parts += _box(line, top)
                right = max(right, line.width * CELL)
            else:
                parts += _observable(line, middle)
                right = max(right, line.end * CELL + (26 + len(line.remark) * LETTER if line.remark else 10))
            top += LINE
    width, height = round(right + 4), round(top + 2)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="marbles" role="img" width="{width}" height="{height}" '
        f'viewBox="-2 0 {width} {height}" aria-label={quoteattr(text.strip(), {chr(10): "&#10;"})}>'
        f"{''.join(parts)}</svg>"
    )


def _wrapped(legend: Sequence[str]) -> Iterator[str]:
    """Put the explanations side by side while there is room."""
    line = ""
    for note in legend:
        longer = f"{line}    {note}" if line else note
        if line and len(longer) * LETTER > WIDEST:
            yield line
            longer = note
        line = longer
    if line:
        yield line


def _box(box: Box, top: float) -> Iterator[str]:
    width = box.width * CELL
    yield f'<rect class="operator" x="0" y="{top + 3}" width="{width}" height="{LINE - 6}" rx="5"/>'
    yield _text(width / 2, top + LINE / 2 + 4, box.label, "call")


def _observable(row: Row, middle: float) -> Iterator[str]:
    ends = [mark for mark in row.marks if mark.name in "|#"]
    stop = (ends[-1].column + 0.5 if ends else row.end) * CELL
    yield _line(row.begin * CELL, middle, stop, middle, "time")
    if not ends:
        yield f'<path class="time" d="M{stop - 6} {middle - 4}L{stop} {middle}L{stop - 6} {middle + 4}"/>'
    for first, behind in row.groups:
        x, width = first * CELL + 3, (behind - first) * CELL - 6
        yield f'<rect class="tick" x="{x}" y="{middle - 12}" width="{width}" height="24" rx="12"/>'
    for mark in row.marks:
        yield from _mark(mark, middle)
    if row.remark:
        yield _text(row.end * CELL + 24, middle + 4, row.remark, "note")


def _mark(mark: Mark, middle: float) -> Iterator[str]:
    x = (mark.column + 0.5) * CELL
    if mark.name == "|":
        yield _line(x, middle - 10, x, middle + 10, "completion")
    elif mark.name == "#":
        yield f'<path class="error" d="M{x - 6} {middle - 6}l12 12m0 -12l-12 12"/>'
    else:
        width = len(mark.name) * CELL
        left = mark.column * CELL
        # a plain ground first, so that the line of time does not run through what is written
        shape = f'x="{left}" y="{middle - 8}" width="{width}" height="{CELL}" rx="8"'
        yield f'<rect class="ground" {shape}/>'
        yield f'<rect class="marble" {shape} style="fill:hsl({_hue(mark.name)} 70% 50% / .28)"/>'
        yield _text(left + width / 2, middle + 4, mark.name, "letter")


def _hue(name: str) -> int:
    """Give every letter a colour, in capitals the same one: A is often what became of a."""
    return (ord(name[0].lower()) - ord("a")) * 67 % 360


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>'
