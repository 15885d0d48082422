"""From events back to the wire: the frames of a stream that others read, browsers above all."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, cast

from orx_rx.errors import (
    CassetteError,
    ConnectFailed,
    ConsumerTooSlow,
    JoinedTooLate,
    OutputError,
    ProtocolError,
    RateLimited,
    ServerError,
    StatusError,
    StreamInterrupted,
    StreamTimeout,
    ToolFailed,
    TransportError,
)
from orx_rx.models.base import to_wire
from orx_rx.models.event_base import Event
from orx_rx.models.lifecycle_events import TerminalEvent
from orx_rx.models.stream_events import ResponseErrorEvent, StreamEnd
from orx_rx.wire import Frame, encode_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

DONE = encode_frame(Frame(data=b"[DONE]"))
"""The sentinel at the end of a stream."""

KEEPALIVE = b": keepalive\n\n"
"""A comment: bytes that every reader of an event stream skips."""

# What a reader is told of an error, the first that fits: a code and a sentence. The sentences are ours, because the
# text of an error may repeat what a server said, and that may repeat a key.
_TOLD: Sequence[tuple[type[Exception], str, str]] = [
    (StreamTimeout, "stream_timeout", "The model did not answer in time."),
    (ConnectFailed, "connect_failed", "The model could not be reached."),
    (TransportError, "connection_lost", "The connection to the model broke."),
    (RateLimited, "rate_limited", "The model is asked too often at the moment."),
    (StatusError, "request_refused", "The request to the model was refused."),
    (ProtocolError, "protocol_error", "The model sent what makes no sense."),
    (ServerError, "server_error", "The model reported an error."),
    (StreamInterrupted, "stream_interrupted", "The answer broke off."),
    (OutputError, "output_error", "The answer is not what was asked for."),
    (ToolFailed, "tool_failed", "A tool failed."),
    (CassetteError, "cassette_error", "The recording cannot be played."),
    (JoinedTooLate, "joined_too_late", "The beginning of the answer is not kept any more."),
    (ConsumerTooSlow, "consumer_too_slow", "The stream was read too slowly."),
    (Exception, "internal_error", "Something went wrong."),
]

_JSON = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_DIGITS = re.compile("[0-9]{1,18}")


class EventEncoder:
    """Writes events as frames: the type as event name, the number as id, the whole event as compact JSON.

    What it writes is read back by `FrameParser` and `Decoder` as equal events. A number that JSON does not have, such
    as NaN, becomes null.

    Args:
        after: The number of the last event that the reader has; None for a reader that has nothing.
        done: Whether the sentinel `[DONE]` ends a stream that completes.
    """

    takes = Event

    def __init__(self, after: int | None = None, *, done: bool = False) -> None:
        self._after = after
        self._done = done
        self._finished = False
        self._told = False

    def feed(self, event: Event) -> Sequence[bytes]:
        """Write one event, unless the reader has it."""
        if isinstance(event, StreamEnd):  # which came off no wire
            return ()
        self._finished = self._finished or isinstance(event, TerminalEvent)
        self._told = self._told or isinstance(event, ResponseErrorEvent)
        number = event.sequence_number
        if self._after is not None and number is not None and number <= self._after:
            return ()
        return (encode_event(event),)

    def end(self) -> Sequence[bytes]:
        """Write what marks the end."""
        return (DONE,) if self._done else ()

    def fail(self, error: Exception) -> Sequence[bytes]:
        """Write what the reader is told of an error, unless the stream has said it all."""
        if self._finished and isinstance(error, TransportError):  # the connection broke when nothing more was to come
            return self.end()
        if self._told and isinstance(error, ServerError):  # which says what an event of the stream said
            return ()
        return (encode_event(error_event(error)),)


def encode_event(event: Event) -> bytes:
    """Write an event as a frame.

    A type that no event line can carry, because it has line ends for instance, is in the data alone.

    Raises:
        TypeError: The event holds a value that JSON cannot carry; none that was decoded does.
    """
    number = event.sequence_number
    id_, data = "" if number is None else str(number), json_bytes(event)
    try:
        return encode_frame(Frame(event.type, data, id_))
    except ValueError:
        return encode_frame(Frame("", data, id_))


def error_event(error: Exception) -> ResponseErrorEvent:
    """Make the event that tells a reader of an error, in the protocol's own shape, without a word of the error's text.

    Args:
        error: What the stream ended with.
    """
    code, message = next((code, message) for kind, code, message in _TOLD if isinstance(error, kind))
    return ResponseErrorEvent(code=code, message=message, param=None)


def last_event_id(text: str | None) -> int | None:
    """Read the header `Last-Event-ID` of a reader that comes back; None where there is no number in it.

    Args:
        text: The value of the header, or None where it is missing.
    """
    found = _DIGITS.fullmatch((text or "").strip())
    return int(found[0]) if found else None


def json_bytes(value: object) -> bytes:
    """Write a value as compact JSON in UTF-8; models are written the way a server sends them.

    Raises:
        TypeError: There is something in it that JSON cannot carry.
    """
    sent = to_wire(value)
    try:
        text = _JSON.encode(sent)
    except ValueError:
        text = _JSON.encode(_finite(sent))
    return text.encode("utf-8", "backslashreplace")  # a lone surrogate becomes its JSON escape


def _finite(value: object) -> Any:
    """Replace the numbers that JSON does not have, which Python reads and browsers refuse."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [_finite(item) for item in cast("list[object]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value
