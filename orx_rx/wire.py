"""The wire format of server-sent events: chunks to frames, and back.

The rules are those of WHATWG HTML, section 9.2.6 "Interpreting an event stream", with two additions: a frame also
carries the `retry` of its record, and the unfinished record that the standard discards at the end of the stream comes
out of `end()` marked `complete=False`, so that the reader can judge it.

Theory: the three line ends become LF, chunk by chunk, so a record ends where two LF meet. Only the new chunk is
searched for that, never what is carried over from the chunks before; hence linear time whatever the chunking. All of
it is done on bytes, where a character cut in two is no special case. Nearly every record of a stream is one data line
behind one of a few event lines; what stands in front of the data is looked up, and only the others are read by line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from orx_rx.errors import FrameTooLarge

DEFAULT_MAX_FRAME_BYTES = 64 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"
_NUL, _LF, _CR = b"\0\n\r"  # `number in bytes` is several times faster than `bytes in bytes`
_BLANK_LINE = re.compile(rb"\n\n")  # which splits twice as fast as `bytes.split` does
_RETRY_DIGITS = 18  # more is no waiting time, and CPython may refuse to make an int of it
_MOST_LINES = 256  # bounds of the table of event lines
_LONGEST_LINE = 128


@dataclass(slots=True)
class Frame:
    """One record of an event stream.

    Attributes:
        event: The event name; empty when the record named none.
        data: The data lines, joined with LF.
        id: The last event id of the stream as of this record: it persists from record to record.
        retry: The reconnection time that this record set, in milliseconds, or None.
        complete: False when the stream ended before the blank line that ends a record.
    """

    event: str = ""
    data: bytes = b""
    id: str = ""
    retry: int | None = None
    complete: bool = True


class FrameParser:
    """Cut chunks into frames.

    Args:
        max_frame_bytes: The most bytes that one record may have. All its lines count, a line end as one byte; comment
            lines in front of its first field do not, so keepalives alone never add up to a frame too large.

    Raises:
        ValueError: max_frame_bytes is not positive.
    """

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        if max_frame_bytes <= 0:
            raise ValueError(f"expected max_frame_bytes of at least 1, got {max_frame_bytes}")
        self._limit = max_frame_bytes
        self._events = {b"": ""}  # event lines that came, LF included, and the names in them
        self.reset()

    @property
    def last_event_id(self) -> str:
        """The id that a reconnection sends; after `end()` that of the ended stream, until a next one begins."""
        return self._id

    @property
    def retry(self) -> int | None:
        """The last valid reconnection time of the stream in milliseconds, kept as long as `last_event_id`."""
        return self._retry

    def reset(self) -> None:
        """Forget everything, an error too: the next chunk begins a new stream."""
        self._id = ""
        self._retry: int | None = None
        self._oversize = 0  # of the record that outgrew the limit
        self._begin()

    def feed(self, chunk: bytes | bytearray | memoryview) -> list[Frame]:
        """Take the next bytes of the stream and return the frames that they complete.

        Raises:
            FrameTooLarge: A record outgrew max_frame_bytes. Frames that the same chunk completed before it are returned
                first, and the error is raised by the next call. Every call raises it again until `reset()`.
            TypeError: The chunk is not bytes.
        """
        if self._oversize:
            raise self._too_large()
        if not isinstance(chunk, bytes) or self._head is not None or self._after_cr or _CR in chunk:
            chunk = self._normalise(chunk)
        carry = self._carry
        if carry and chunk.startswith(b"\n") and carry.endswith(b"\n"):  # the two LF lie on both sides of the seam
            del carry[-1:]
            chunk = b"\n" + chunk
        tight = len(carry) + len(chunk) >= self._limit  # else no record can be too large
        records: list[bytes] = _BLANK_LINE.split(chunk)
        rest = records.pop()
        if carry and records:
            carry += records[0]
            records[0] = bytes(carry)
            carry.clear()
        frames: list[Frame] = []
        events = self._events
        event: str | None = None
        last: bytes | None = None
        for record in records:
            if tight and not self._fits(record):
                break
            head, found, data = record.partition(b"data: ")
            if head != last:  # nearly every record has the event line of the one before it
                last = head
                event = events.get(head)
                if event is None and head.startswith(b"event: "):
                    event = self._event_line(head)
            if event is not None and found and _LF not in data:
                frames.append(Frame(event, data, self._id))
            else:
                frames += self._read(record)
        else:
            if rest:
                self._keep(rest)
        if self._oversize and not frames:
            raise self._too_large()
        return frames

    def end(self) -> list[Frame]:
        """Take the end of the stream and return its unfinished record, if that has data.

        An unfinished last line counts as a line. `last_event_id` and `retry` ignore the unfinished record, because a
        stream that goes on from there has to repeat it. The next chunk begins a new stream.

        Raises:
            FrameTooLarge: As `feed()` does.
        """
        if self._oversize:
            raise self._too_large()
        event, data, last_id, retry = _fields(bytes(self._carry), self._id)
        self._begin()
        return [] if data is None else [Frame(event, data, last_id, retry, complete=False)]

    def _begin(self) -> None:
        self._head: bytes | None = b""  # what may become the byte order mark; None once that is settled
        self._after_cr = False  # an LF that comes first in the next chunk belongs to that CR
        self._carry = bytearray()  # the unfinished record: never begins with LF, never holds two in a row

    def _too_large(self) -> FrameTooLarge:
        return FrameTooLarge(self._oversize, self._limit)

    def _normalise(self, chunk: bytes | bytearray | memoryview) -> bytes:
        """Make bytes whose line ends are all LF, without the byte order mark in front of a stream."""
        if not isinstance(chunk, bytes):
            try:
                chunk = bytes(memoryview(chunk))
            except TypeError:
                raise TypeError(f"expected bytes, got {type(chunk).__name__}") from None
        if self._head is not None:
            chunk = self._without_bom(self._head + chunk)
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if _CR in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return chunk

    def _without_bom(self, head: bytes) -> bytes:
        """Begin a stream: its first bytes without a byte order mark, or none of them while they may be half of one."""
        self._id = ""
        self._retry = None
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._head = head
            return b""
        self._head = None
        return head.removeprefix(_BOM)

    def _keep(self, rest: bytes) -> None:
        """Carry an unfinished record over to the next chunk, without a blank line and comments in front of it."""
        carry = self._carry
        carry += rest if carry else rest.removeprefix(b"\n")
        if carry.startswith(b":") and _LF in rest:
            del carry[: _comments(carry, self._limit)]
        if len(carry) > self._limit:
            self._oversize = len(carry)
            carry.clear()

    def _fits(self, record: bytes) -> bool:
        """Measure a whole record as `_keep` would have, had it come byte by byte."""
        text = record.removeprefix(b"\n") + b"\n"
        size = len(text) - _comments(text, self._limit)
        if size > self._limit:
            self._oversize = size
        return size <= self._limit

    def _event_line(self, head: bytes) -> str | None:
        """Read and remember the event name, if what stands in front of the data is one event line."""
        if head.find(b"\n") != len(head) - 1:
            return None
        event = _text(head[7:-1])
        if len(head) <= _LONGEST_LINE and len(self._events) < _MOST_LINES:
            self._events[head] = event
        return event

    def _read(self, record: bytes) -> list[Frame]:
        """Read a whole record line by line."""
        event, data, self._id, retry = _fields(record, self._id)
        if retry is not None:
            self._retry = retry
        return [] if data is None else [Frame(event, data, self._id, retry)]


def encode_frame(frame: Frame) -> bytes:
    """Write a frame as the record that `FrameParser` reads it from.

    An empty id gets no line: read in a stream, such a record inherits the id of the records before it. A frame that is
    not complete gets no blank line at its end.

    Raises:
        ValueError: A field holds what the format cannot carry: CR or LF in the event name or id, NUL in the id, CR in
            the data, a retry that is negative or has more than 18 digits, a lone surrogate.
    """
    event, last_id = frame.event.encode(), frame.id.encode()
    for name, value, forbidden in (("event", event, b"\r\n"), ("id", last_id, b"\r\n\0"), ("data", frame.data, b"\r")):
        for byte in forbidden:
            if byte in value:
                raise ValueError(f"expected {name} without any of {forbidden.decode()!r}, got {chr(byte)!r}")
    if frame.retry is not None and not 0 <= frame.retry < 10**_RETRY_DIGITS:
        raise ValueError(f"expected retry of 0 to {_RETRY_DIGITS} digits, got {frame.retry}")
    lines: list[bytes] = []
    if event:
        lines.append(b"event: %b\n" % event)
    if last_id:
        lines.append(b"id: %b\n" % last_id)
    if frame.retry is not None:
        lines.append(b"retry: %d\n" % frame.retry)
    lines.append(b"data: %b\n" % frame.data.replace(b"\n", b"\ndata: "))
    if frame.complete:
        lines.append(b"\n")
    return b"".join(lines)


def _fields(record: bytes, last_id: str) -> tuple[str, bytes | None, str, int | None]:
    """Read the lines of a record: event name, data (None without a data line), last event id, retry."""
    event = b""
    data: list[bytes] = []
    retry: int | None = None
    for line in record.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            event = value
        elif name == b"id" and _NUL not in value:
            last_id = _text(value)
        elif name == b"retry" and value.isdigit() and len(value) <= _RETRY_DIGITS:
            retry = int(value)
    return _text(event), b"\n".join(data) if data else None, last_id, retry


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")


def _comments(record: bytes | bytearray, limit: int) -> int:
    """Find where the whole comment lines in front of a record end; one longer than the limit is left to be counted."""
    start = 0
    while record.startswith(b":", start) and (end := record.find(b"\n", start, start + limit + 1)) >= 0:
        start = end + 1
    return start
