"""Resuming: what a disconnect is, where to go on, and when to give up; without Rx and without I/O.

Only a background response outlives its connection. Its stream goes on after the last event that was handed on: what
comes must begin exactly there. Events that were handed on already are dropped, since a server may ignore the cursor; a
gap never passes. Attempts are counted since the last progress.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from orx_rx.errors import (
    Forbidden,
    OrxError,
    ProtocolError,
    StatusError,
    StreamInterrupted,
    TransportError,
    Unauthorized,
    may_pass,
)
from orx_rx.models.lifecycle_events import ResponseEvent, TerminalEvent
from orx_rx.models.stream_events import KeepaliveEvent, ResponseErrorEvent, StreamEnd
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.completion import completion
from orx_rx.protocol.cursor import REPEATABLE, Bookmark, Cursor
from orx_rx.protocol.violations import QUIET, Judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orx_rx.models.event_base import Event
    from orx_rx.models.response import Response

FINAL = frozenset({"completed", "failed", "incomplete", "cancelled"})
"""The statuses that a response does not leave again."""


_PASSING = (TransportError, StatusError)
"""Errors that another attempt may not meet again."""


class Move(Enum):
    """What to do when a connection has ended."""

    END = "end"
    REOPEN = "reopen"
    POLL = "poll"


class Resumer:
    """Keeps the place in a stream, and decides what to do when a connection ends.

    Args:
        attempts: How often to try again without progress, at most.
        judge: Decides about a stream that does not go on where it broke off.
        cursor: Where the first connection goes on; None where it begins at the beginning.

    Attributes:
        tries: How often it was tried since the last progress.
    """

    def __init__(self, attempts: int = 5, judge: Judge | None = None, cursor: Cursor | None = None) -> None:
        self.tries: int = 0
        self._attempts = attempts
        self._judge = judge or Judge()
        self._bookmark = Bookmark()
        self._so_far = Accumulator(Judge(QUIET))  # only fed where the response outlives the connection
        self._outlives = cursor is not None
        self._reported = False  # the stream reported an error
        self._ended = False
        self._again = cursor is not None  # the connection is not the first one of the response
        self._joined = cursor is None  # what comes goes on where the last connection broke off
        self._stream_end: StreamEnd | None = None
        if cursor is not None:
            self._bookmark.place(cursor)
            self._so_far.restore(cursor)

    @property
    def cursor(self) -> Cursor | None:
        """Where to go on; None where the response or the place in it is not known."""
        return self._bookmark.cursor

    def feed(self, event: Event) -> Sequence[Event]:
        """Take an event of the connection, and return it unless it was handed on before.

        Raises:
            SequenceViolation: It leaves a gap behind the place where the last connection broke off.
        """
        if isinstance(event, StreamEnd):
            self._stream_end = event
            return ()
        if self._again and not isinstance(event, REPEATABLE):
            last, number = self._bookmark.sequence_number or 0, event.sequence_number
            if number is not None and number <= last:
                return ()
            if not self._joined and number != last + 1:
                message = f"expected sequence number {last + 1} after resuming, got {number}"
                self._judge.found("resume_gap", message, event=event)
            self._joined = True
        return (event,)

    def passed(self, event: Event) -> None:
        """Note that an event was handed on."""
        self._bookmark.turn(event)
        if isinstance(event, ResponseEvent):
            response = event.response
            self._outlives = self._outlives or (response.background is True and response.store is not False)
            self._ended = self._ended or isinstance(event, TerminalEvent)
        self._reported = self._reported or isinstance(event, ResponseErrorEvent)
        if not isinstance(event, KeepaliveEvent):
            self.tries = 0
        if self._outlives:
            self._so_far.feed(event)

    def end(self) -> Sequence[Event]:
        """Return what is left when the stream ends as it did."""
        return () if self._stream_end is None else (self._stream_end,)

    def disconnected(self, error: Exception | None) -> Move:
        """Decide what to do when a connection has ended.

        Args:
            error: What it ended with; None where it completed.
        """
        if self._ended or self._reported or not self._outlives or self.cursor is None:
            return Move.END
        if self._refused(error):
            return Move.END if isinstance(error, Unauthorized | Forbidden) else Move.POLL
        passes = error is None or isinstance(error, _PASSING)
        return Move.REOPEN if passes and self._try_again() else Move.END

    def polled(self, response: Response) -> Sequence[Event] | None:
        """Take the response as a whole: what is left of its stream, or None while it is not final."""
        if response.status not in FINAL:
            self.tries = 0
            return None
        self._ended = True
        return completion(self._so_far, response)

    def not_polled(self, error: Exception) -> Move:
        """Decide what to do when the server did not give the response as a whole."""
        passes = isinstance(error, _PASSING) and not self._refused(error)
        return Move.POLL if passes and self._try_again() else Move.END

    def reopened(self) -> None:
        """Begin with another connection."""
        self._again, self._joined, self._stream_end = True, False, None

    def give_up(self, error: Exception | None) -> Exception | None:
        """Say what the subscriber is told when the stream ends as it did.

        The guard makes an interruption of a transport error; a refusal to resume is one already.
        """
        if self._ended or not self._again or not isinstance(error, StatusError | ProtocolError):
            return error
        if isinstance(error, ProtocolError) and self._joined:
            return error
        told = f"expected the rest of the stream, got {error}"
        interrupted = StreamInterrupted(told, cursor=self.cursor, resumable=not self._refused(error))
        interrupted.__cause__ = error
        interrupted.violations = error.violations
        return interrupted

    def _refused(self, error: Exception | None) -> bool:
        """Say whether the server said that it will not stream: expired, not stored, not in the background."""
        if not self._again or not isinstance(error, OrxError):
            return False
        if isinstance(error, StatusError):
            return not may_pass(error.status)
        return isinstance(error, ProtocolError) and not self._joined  # once it goes on, it is a stream that is wrong

    def _try_again(self) -> bool:
        self.tries += 1
        return self.tries <= self._attempts
