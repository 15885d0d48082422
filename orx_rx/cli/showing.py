"""Showing a stream of events as it comes, and telling how it ended."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Literal

from orx_rx.aio import iterate
from orx_rx.cli.meter import Meter
from orx_rx.cli.outcomes import INTERRUPTED, TERMINALS
from orx_rx.cli.output import complain, note, obeys, progress, write, write_text
from orx_rx.errors import OrxError
from orx_rx.models.lifecycle_events import TerminalEvent
from orx_rx.models.stream_events import StreamEnd
from orx_rx.protocol.encoding import json_bytes
from orx_rx.protocol.reading import PieceReader

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reactivex import Observable

    from orx_rx.models.event_base import Event
    from orx_rx.models.response import Response
    from orx_rx.protocol.accumulator import Accumulator

Form = Literal["text", "json", "nothing"]
"""What is written to stdout."""

_OFTEN = 0.1  # seconds between two looks at the pace


async def show(events: Observable[Event], accumulator: Accumulator, screen: Screen) -> int:
    """Write events as they come.

    Args:
        events: The stream; it leads through the accumulator.
        accumulator: Holds the response.
        screen: Where to write.

    Returns:
        The exit code of its terminal.

    Raises:
        OrxError: Whatever the stream ended with.
        BrokenPipeError: Nobody reads what is written.
    """
    terminal: TerminalEvent | None = None
    try:
        async with iterate(events) as reading:
            async for event in reading:
                screen.take(event)
                if isinstance(event, TerminalEvent):
                    terminal = event
    except (asyncio.CancelledError, OrxError, OSError):
        with suppress(OSError):  # perhaps nobody reads stdout any more
            screen.end()
        _tell_cursor(accumulator)
        raise
    screen.end()
    if terminal is None:
        complain("expected a terminal, got the end of the stream")
        return INTERRUPTED
    _tell_response(terminal.response)
    screen.tell_pace(terminal.response)
    return TERMINALS.get(terminal.type, INTERRUPTED)


class Screen:
    """Writes what a stream says: answers to stdout, thoughts dimmed to a terminal, the pace to one as well.

    Args:
        form: What to write to stdout.
    """

    def __init__(self, form: Form) -> None:
        self._form: Callable[[Event], None] = {"text": self._text, "json": _json, "nothing": _nothing}[form]
        self._answers = PieceReader("text", "refusal", separator="\n\n")
        self._thoughts = PieceReader("reasoning", "summary", separator="\n\n")
        self._pieces = PieceReader("text", "refusal", "reasoning", "summary", "arguments", "input", "code")
        self._watched = sys.stderr.isatty()
        # where answers may go to the same terminal, a line of the pace would be in their way
        self._moving = obeys(sys.stderr) and (form == "nothing" or _is_kept())
        self._thinks = self._watched and form == "text" and sys.stdout.isatty()
        self._meter = Meter(monotonic())
        self._looked = 0.0
        self._waits = False  # a line says that there is nothing yet, and why
        self._open = ""  # the last thing that was written, unless it ended its line

    def wait(self, delay: float, error: Exception | None) -> None:
        """Say that the request is sent once more, before anything was written."""
        if obeys(sys.stderr):
            progress(f"once more in {delay:.1f} s: {' '.join(str(error).split())}")
            self._waits = True

    def take(self, event: Event) -> None:
        """Write what an event says."""
        self._come()
        now = monotonic()
        for _ in self._pieces.feed(event):
            self._meter.piece(now)
        self._form(event)
        if self._moving and now - self._looked >= _OFTEN:
            self._looked = now
            progress(self._meter.line(now))

    def end(self) -> None:
        """End the line that is open."""
        self._come()
        if self._moving:
            progress()
        self._turn("")

    def _come(self) -> None:
        if self._waits:
            progress()
            self._waits = False

    def tell_pace(self, response: Response) -> None:
        """Write the pace of the whole."""
        if self._watched:
            tokens = None if response.usage is None else response.usage.output_tokens
            note(self._meter.line(monotonic(), tokens), dim=True)

    def _text(self, event: Event) -> None:
        if self._thinks:
            for piece in self._thoughts.feed(event):
                self._turn("thought")
                note(piece, dim=True, end="")
        for piece in self._answers.feed(event):
            self._turn("answer")
            write_text(piece)

    def _turn(self, to: str) -> None:
        """End what was written before, when something else follows."""
        if self._open != to:
            if self._open == "thought":
                note("\n" if to else "")
            elif self._open == "answer":
                write_text("\n\n" if to else "\n")
            self._open = to


def _is_kept() -> bool:
    """Tell whether stdout is a file or nothing; a pipe may end in the terminal."""
    try:
        mode = os.fstat(sys.stdout.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(mode) or (stat.S_ISCHR(mode) and not sys.stdout.isatty())


def _json(event: Event) -> None:
    if not isinstance(event, StreamEnd):  # which came off no wire
        write(json_bytes(event) + b"\n")


def _nothing(_: Event) -> None:
    pass


def _tell_cursor(accumulator: Accumulator) -> None:
    """Write where the stream broke off, for whoever resumes it; a response in the foreground nobody can."""
    cursor, response = accumulator.cursor, accumulator.response
    if cursor is not None and (response is None or response.background is not False):
        note(cursor.to_json())


def _tell_response(response: Response) -> None:
    """Write what the text does not say: calls of tools, tokens, and why a response is not whole."""
    for item in response.output or ():
        if item.type.endswith("_call") and (name := getattr(item, "name", None)):
            given = getattr(item, "arguments", None) or getattr(item, "input", None) or ""
            note(f"call: {name} {given}".rstrip())
        elif item.type.endswith("_call"):
            note(f"call: {item.type.removesuffix('_call')}")
    usage = response.usage
    if usage is not None:
        note(f"tokens: {usage.input_tokens or 0} in, {usage.output_tokens or 0} out")
    if response.status in _NOT_WHOLE:
        complain(f"expected a completed response, got {response.status}: {_NOT_WHOLE[response.status](response)}")


def _failure(response: Response) -> str:
    error = response.error
    told = () if error is None else (error.code, error.message)
    return ": ".join(text for text in told if text) or "no reason"


def _cut(response: Response) -> str:
    details = response.incomplete_details
    return (details.reason if details is not None else None) or "no reason"


_NOT_WHOLE: Mapping[str | None, Callable[[Response], str]] = {"failed": _failure, "incomplete": _cut}
