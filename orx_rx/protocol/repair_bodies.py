"""Bodies that may be an event stream or a whole response as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orx_rx.errors import FrameTooLarge
from orx_rx.wire import DEFAULT_MAX_FRAME_BYTES, Frame, FrameParser

if TYPE_CHECKING:
    from collections.abc import Sequence

_BLANK = b" \t\r\n\xef\xbb\xbf"  # and the byte order mark


class BodyParser:
    """Cuts an event stream into frames, and takes a JSON object as a single frame.

    They are told apart by the first byte: no line of an event stream that means anything begins with a brace.

    Args:
        max_frame_bytes: The most bytes that one record, or the object, may have.
    """

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._limit = max_frame_bytes
        self._parser = FrameParser(max_frame_bytes)
        self._body: bytearray | None = None  # of an object
        self._settled = False

    def feed(self, chunk: bytes) -> Sequence[Frame]:
        """Take the next bytes, and return the frames that they complete.

        Raises:
            FrameTooLarge: A record or the object outgrew max_frame_bytes.
        """
        if not self._settled and (start := chunk.lstrip(_BLANK)):
            self._settled = True
            self._body = bytearray() if start.startswith(b"{") else None
        if self._body is None:
            return self._parser.feed(chunk)
        self._body += chunk
        if len(self._body) > self._limit:
            raise FrameTooLarge(len(self._body), self._limit)
        return ()

    def end(self) -> Sequence[Frame]:
        """Take the end of the body, and return the object or the unfinished record."""
        return self._parser.end() if self._body is None else (Frame(data=bytes(self._body.lstrip(_BLANK))),)
