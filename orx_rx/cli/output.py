"""Writing: bytes and text to stdout, notes to stderr.

What a server sends is never written to a terminal as it is: a control character could move the cursor or rename the
window. Pipes and files get every byte.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

PROGRAM = "orx-rx"

_CONTROLS = {code: "\N{REPLACEMENT CHARACTER}" for code in (*range(32), *range(127, 160))}
_CONTROLS_IN_TEXT = {code: text for code, text in _CONTROLS.items() if code not in (9, 10)}


def open_missing() -> None:
    """Put nothing where a standard stream was closed before we began, as by `2>&-`."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 it stays open as long as we run


def write(data: bytes) -> None:
    """Write bytes to stdout, now.

    Raises:
        BrokenPipeError: Nobody reads them.
    """
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_text(text: str) -> None:
    """Write text to stdout, now; characters that its encoding lacks become question marks.

    Raises:
        BrokenPipeError: Nobody reads it.
    """
    shown = text.translate(_CONTROLS_IN_TEXT) if sys.stdout.isatty() else text
    write(shown.encode(sys.stdout.encoding or "utf-8", "replace"))


def obeys(stream: TextIO) -> bool:
    """Tell whether a stream is a terminal that obeys control sequences."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def note(text: str, *, dim: bool = False, end: str = "\n") -> None:
    """Write to stderr, where a reader of stdout is not disturbed."""
    known = text.translate(_CONTROLS_IN_TEXT)
    dimmed = f"\x1b[2m{known}\x1b[0m" if dim and obeys(sys.stderr) and known.strip() else known
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write(dimmed.encode(encoding, "replace").decode(encoding) + end)
    sys.stderr.flush()


def progress(text: str = "") -> None:
    """Write a line to a terminal that the next one replaces; nothing takes it away."""
    if obeys(sys.stderr):
        columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
        sys.stderr.write(f"\r\x1b[K{text.translate(_CONTROLS)[: columns - 1]}")  # what wraps could not be taken away
        sys.stderr.flush()


def complain(text: str) -> None:
    """Write the one line that says why a command failed."""
    note(f"{PROGRAM}: {' '.join(text.split()).translate(_CONTROLS)}")


def let_go() -> None:
    """Forget about stdout, so that the interpreter does not flush it once more and complain."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
