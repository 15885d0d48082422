"""From events to the pieces that go onto the wire."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from orx_rx.models.base import to_wire
from orx_rx.wire import Frame, encode_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orx_rx.models.event_base import Event

DONE = encode_frame(Frame(data=b"[DONE]"))
"""The sentinel at the end of a stream."""


def json_bytes(value: object) -> bytes:
    """Write a value as compact JSON in UTF-8; models are written the way a server sends them."""
    text = json.dumps(to_wire(value), ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")  # a lone surrogate becomes its JSON escape


def frame_of(event: Event, *, event_line: bool = True) -> bytes:
    """Write an event as a frame.

    Args:
        event: The event.
        event_line: Whether the type is in an event line, too.
    """
    return encode_frame(Frame(event.type if event_line else "", json_bytes(event)))


class Cutter:
    """Cuts a stream of bytes into pieces of one size.

    Args:
        size: The bytes of a piece; None leaves everything as it comes.
    """

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._rest = b""

    def feed(self, data: bytes) -> Sequence[bytes]:
        """Take more bytes, and return the pieces that they complete."""
        size = self._size
        if size is None:
            return (data,)
        data = self._rest + data
        whole = len(data) - len(data) % size
        self._rest = data[whole:]
        return [data[start : start + size] for start in range(0, whole, size)]

    def end(self) -> Sequence[bytes]:
        """Return what is left over, in a piece of its own."""
        rest, self._rest = self._rest, b""
        return (rest,) if rest else ()
