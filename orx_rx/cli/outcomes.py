"""Exit codes, and the one line that goes with each that is not 0."""

from __future__ import annotations

import errno
import socket
from collections.abc import Mapping, Sequence

from orx_rx.errors import CassetteError, ConnectionLost, OrxError, StreamInterrupted

COMPLETED, ERROR, USAGE, FAILED, INCOMPLETE, INTERRUPTED = range(6)
CTRL_C = 130
CLOSED = 141
"""Whoever read our output went away; the same code that a shell shows for it."""

TERMINALS: Mapping[str, int] = {
    "response.completed": COMPLETED,
    "response.failed": FAILED,
    "response.incomplete": INCOMPLETE,
}
"""The exit code of a stream by its terminal."""


class UsageError(Exception):
    """Raised when an argument or a file is not what a command needs."""


class UnknownOption(UsageError):
    """Raised when a word looks like an option, and the command has none of that name.

    Args:
        word: The word.
    """

    def __init__(self, word: str) -> None:
        super().__init__(f"expected an option of the command, got {word!r}: see --help")
        self.word = word


# the first that fits; whatever is not here is a bug of ours, and shown as one
_ERRORS: Sequence[tuple[type[Exception], int]] = (
    (UsageError, USAGE),
    (CassetteError, USAGE),
    (StreamInterrupted, INTERRUPTED),
    (ConnectionLost, INTERRUPTED),
    (OrxError, ERROR),
    (OSError, USAGE),  # of files and ports; those of connections are ours by now
    (ValueError, USAGE),  # of settings, such as a base URL or a plan of faults
)

EXPECTED_ERRORS: tuple[type[Exception], ...] = tuple(kind for kind, _ in _ERRORS)
"""What a command may end with."""


def code_of(error: Exception) -> int:
    """Find the exit code of an error."""
    return next(code for kind, code in _ERRORS if isinstance(error, kind))


def line_of(error: Exception) -> str:
    """Say an error in one line."""
    if isinstance(error, OSError) and error.strerror:
        what, name = _thing_of(error)
        return f"expected {what}, got: {error.strerror}{name}"
    said, where = str(error), [*getattr(error, "__notes__", ())]
    if isinstance(error, CassetteError):
        line, _, said = said.partition(": ")
        where = [line, *where]
    return f"{said} ({', '.join(where)})" if where else said


def _thing_of(error: OSError) -> tuple[str, str]:
    """Find what the system refused: a file that it names, an address, or to take what is written."""
    if error.filename:
        return "a file to use", f" ({error.filename})"
    if isinstance(error, socket.gaierror) or error.errno in _OF_ADDRESSES:
        return "an address to listen at", ""
    return "an output to write to", ""


_OF_ADDRESSES = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM)
