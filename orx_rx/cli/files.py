"""Reading what a command is given: a prompt, or a recorded stream."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

from cyclopts import Parameter

from orx_rx.cli.outcomes import UnknownOption, UsageError
from orx_rx.protocol.cassette import Cassette, Chunk, parse_cassette
from orx_rx.protocol.cursor import Cursor

STDIN = "-"

Word: TypeAlias = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""An argument that may be `-`, which is stdin."""

_HEAD = 64 * 1024  # bytes in which the first line of a stream has to be
_FIELD = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n])(?:(?:data|event|id|retry)?:|data[\r\n])")
_CASSETTE = re.compile(rb'\A\{"line":|\A\{[^\r\n]*"orx_cassette"')


class Taped(NamedTuple):
    """A stream that was read from a file.

    Attributes:
        cassette: The stream; a file of bytes is one chunk.
        timed: Whether its times are known.
    """

    cassette: Cassette
    timed: bool


def read_taped(file: str) -> Taped:
    """Read a cassette, or a file of the bytes that a server sent; `-` is stdin.

    Raises:
        UsageError: It is neither.
        CassetteError: It is a cassette that is damaged or cut off.
        OSError: It cannot be read.
    """
    data = sys.stdin.buffer.read() if _checked(file) == STDIN else Path(file).read_bytes()
    if _CASSETTE.match(data[:_HEAD]):
        try:
            return Taped(parse_cassette(data), timed=True)
        except Exception as error:
            error.add_note(f"in {file}")
            raise
    if not _FIELD.search(data[:_HEAD]):
        raise UsageError(f"expected an event stream or a cassette, got {_kind(data)} ({file})")
    return Taped(Cassette((Chunk(0.0, data),)), timed=False)


def read_prompt(prompt: str | None) -> str:
    """Take the prompt of the command, or read it from stdin where it is `-`, or where stdin is no terminal.

    Raises:
        UsageError: There is none.
    """
    if prompt is None and sys.stdin.isatty():
        raise UsageError("expected a prompt, got none: orx-rx stream PROMPT, or a prompt on stdin")
    asked = STDIN if prompt is None else _checked(prompt)
    if asked == STDIN:
        try:
            asked = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"expected a prompt in UTF-8, got something else at byte {error.start}") from None
    if not asked.strip():
        raise UsageError("expected a prompt, got an empty one")
    return asked


def read_cursor(given: str) -> Cursor:
    """Read a cursor as JSON; `-` is stdin, and whatever else was written to stderr may stand around it.

    Raises:
        ValueError: It is none.
    """
    if given == STDIN:
        given = sys.stdin.buffer.read().decode(errors="replace")
        given = next((line for line in reversed(given.splitlines()) if line.startswith('{"response_id"')), given)
    return Cursor.from_json(given)


def _checked(word: str) -> str:
    """Refuse an option that does not exist, before it is taken for a prompt that is paid for."""
    if word.startswith("-") and word != STDIN and len(word.split()) == 1:
        raise UnknownOption(word)
    return word


def _kind(data: bytes) -> str:
    if not data.strip():
        return "an empty file"
    if data.lstrip()[:1] in (b"{", b"["):
        return "JSON without 'data:' in front of it"
    return f"{len(data)} bytes of something else"
