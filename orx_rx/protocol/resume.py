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
    StreamTimeout,
    TransportError,
    Unauthorized,
    may_pass,
)
from orx_rx.models.event_base import Event
from orx_rx.models.lifecycle_events import ResponseEvent, TerminalEvent
from orx_rx.models.stream_events import KeepaliveEvent, ResponseErrorEvent, StreamEnd
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.completion import completion, ending
from orx_rx.protocol.cursor import REPEATABLE, Bookmark, Cursor
from orx_rx.protocol.violations import QUIET, Judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orx_rx.models.response import Response

FINAL = frozenset({"completed", "failed", "incomplete", "cancelled"})
"""The statuses that a response does not leave again."""

MAX_QUEUED = 3600.0
"""How long a response that is polled may stay queued by default, in seconds."""

_DOUBLINGS = 64  # how often a wait doubles at most, so that it stays a number

_PASSING = (TransportError, StatusError)
"""Errors that another attempt may not meet again."""


def doubled(first: float, longest: float, before: int) -> float:
    """Double a wait for every attempt before, up to the longest; in seconds."""
    return min(first * 2.0 ** min(before, _DOUBLINGS), longest)


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
        cursor: Up to where the response was handed on before the first connection; None where that creates it.
        rebuild: Whether the first connection begins at the beginning all the same, and not behind the cursor.
        polls: Whether the response can be had as a whole.
        max_queued: How long a response that is polled may stay queued, in seconds.

    Attributes:
        tries: How often it was tried since the last progress.
        response_id: The id of the response; the empty string until it is known.
    """

    def __init__(
        self,
        attempts: int = 5,
        judge: Judge | None = None,
        cursor: Cursor | None = None,
        *,
        rebuild: bool = False,
        polls: bool = True,
        max_queued: float = MAX_QUEUED,
    ) -> None:
        self.tries: int = 0
        self.response_id: str = "" if cursor is None else cursor.response_id
        self._attempts = attempts
        self._judge = judge or Judge()
        self._known = cursor
        self._rebuild = rebuild
        self._polls = polls
        self._max_queued = max_queued
        self._bookmark = Bookmark()
        self._so_far = Accumulator(Judge(QUIET))  # only fed where the response outlives the connection
        self._outlives = cursor is not None
        self._begun = False  # an event was handed on
        self._reported = False  # the stream reported an error
        self._ended = False
        self._again = cursor is not None  # the connection is not the one that created the response
        self._joined = cursor is None  # what comes goes on where the last connection broke off
        self._streams = True  # the server did not refuse to stream the rest
        self._queued_since: float | None = None
        self._stream_end: StreamEnd | None = None
        if cursor is not None and not rebuild:
            self._bookmark.place(cursor)
            self._so_far.restore(cursor)

    @property
    def cursor(self) -> Cursor | None:
        """Where to go on; None where the response or the place in it is not known, or at its beginning."""
        return self._bookmark.cursor

    def feed(self, event: Event) -> Sequence[Event]:
        """Take an event of the connection, and return it unless it was handed on before.

        Raises:
            SequenceViolation: It leaves a gap behind the place where the last connection broke off, or the stream ends
                before that place.
        """
        if isinstance(event, StreamEnd):
            self._stream_end = event
            return ()
        last, number = self._bookmark.sequence_number, event.sequence_number
        if not self._again or last is None or isinstance(event, REPEATABLE):
            return (event,)
        if self._known and isinstance(event, ResponseEvent) and event.response.id not in ("", self.response_id):
            message = f"expected response {self.response_id!r}, got {event.response.id!r}"
            self._judge.found("response_id_changed", message, event=event)
        if number is not None and number <= last:
            return _repeated(self._judge, event, number, last)
        if not self._joined and number != last + 1:
            message = f"expected sequence number {last + 1} after resuming, got {number}"
            self._judge.found("resume_gap", message, event=event)
        return (event,)

    def passed(self, event: Event) -> None:
        """Note that an event was handed on."""
        self._bookmark.turn(event)
        if isinstance(event, ResponseEvent):
            response = event.response
            self.response_id = self.response_id or response.id
            self._outlives = self._outlives or (response.background is True and response.store is not False)
            self._ended = self._ended or isinstance(event, TerminalEvent)
        self._reported = self._reported or isinstance(event, ResponseErrorEvent)
        if not isinstance(event, KeepaliveEvent):
            self.tries = 0
        if not isinstance(event, REPEATABLE):
            self._begun = self._joined = True
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
        if self._ended or self._reported or not self._outlives or not self.response_id:
            return Move.END
        if self._refused(error):
            self._streams = False
            return Move.END if isinstance(error, Unauthorized | Forbidden) else self._poll()
        if not (error is None or isinstance(error, _PASSING)):
            return Move.END
        if self._begun and self.cursor is None:  # without numbers there is no place to go on from
            self._streams = False
            return self._poll()
        if error is None and self._again and not self._joined and self._polls:
            return Move.POLL  # a server with nothing more to stream, perhaps because somebody cancelled the response
        return Move.REOPEN if self._try_again() else Move.END

    def polled(self, response: Response, now: float = 0.0) -> Sequence[Event] | Move:
        """Take the response as a whole: what is left of its stream, or what to do while it is not final.

        Args:
            response: The response.
            now: The time, in seconds.

        Raises:
            StreamTimeout: The response has been queued for too long.
        """
        if response.status in FINAL:
            self._ended = True
            return self._rest(response)
        if response.status != "queued":
            self._queued_since = None
        elif self._queued_since is None:
            self._queued_since = now
        elif now - self._queued_since >= self._max_queued:
            raise StreamTimeout("progress", self._max_queued)
        if self._streams:
            return Move.REOPEN if self._try_again() else Move.END
        self.tries = 0
        return Move.POLL

    def not_polled(self, error: Exception) -> Move:
        """Decide what to do when the server did not give the response as a whole."""
        if self._streams and isinstance(error, OrxError):  # it was asked only because the stream had nothing to say
            return Move.REOPEN if self._try_again() else Move.END
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
        told = f"the stream broke off and could not be resumed: {error}"
        cursor = self.cursor or self._known
        interrupted = StreamInterrupted(told, cursor=cursor, resumable=not self._refused(error))
        interrupted.__cause__ = error
        interrupted.violations = error.violations
        return interrupted

    def _rest(self, response: Response) -> Sequence[Event]:
        """Make what is left of the stream: every event that is missing, where it is known what was handed on."""
        last, known = self._bookmark.sequence_number, self._known
        place = -1 if last is None else last
        if known is None or (place >= known.sequence_number if self._rebuild else known.snapshot is not None):
            return completion(self._so_far, response)
        return ending(response, max(known.sequence_number, place) + 1)

    def _refused(self, error: Exception | None) -> bool:
        """Say whether the server said that it will not stream: expired, not stored, not in the background."""
        if not self._again or not isinstance(error, OrxError):
            return False
        if isinstance(error, StatusError):
            return not may_pass(error.status)
        return isinstance(error, ProtocolError) and not self._joined  # once it goes on, it is a stream that is wrong

    def _poll(self) -> Move:
        return Move.POLL if self._polls else Move.END

    def _try_again(self) -> bool:
        self.tries += 1
        return self.tries <= self._attempts


class Behind:
    """Leaves out what was handed on before a cursor, of a stream that was read from its beginning.

    Args:
        cursor: The place.
        judge: Decides about a stream that ends before it.
    """

    takes = Event

    def __init__(self, cursor: Cursor, judge: Judge | None = None) -> None:
        self._cursor = cursor
        self._judge = judge or Judge()

    def feed(self, event: Event) -> Sequence[Event]:
        """Take an event, and return it if it comes behind the cursor or is the end.

        Raises:
            SequenceViolation: The stream ends before the cursor.
        """
        number, last = event.sequence_number, self._cursor.sequence_number
        if number is None or number > last:
            return (event,)
        return _repeated(self._judge, event, number, last)

    def end(self) -> Sequence[Event]:
        """Do nothing: what was read was handed on."""
        return ()

    def fail(self, error: Exception) -> Sequence[Event]:
        """Raise the error, with a cursor that is not before this one."""
        if isinstance(error, StreamInterrupted):
            found = error.cursor
            if found is None or found.sequence_number < self._cursor.sequence_number:
                error.cursor = self._cursor
        raise error


def _repeated(judge: Judge, event: Event, number: int, last: int) -> Sequence[Event]:
    """Leave out an event that was handed on before, unless it is the end, which everybody has to hear of."""
    if not isinstance(event, TerminalEvent):
        return ()
    if number < last:
        judge.found("cursor_ahead", f"expected a cursor of at most {number}, the last event, got {last}", event=event)
    return (event,)
