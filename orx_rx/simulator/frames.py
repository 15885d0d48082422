"""From events to the pieces that go onto the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orx_rx.protocol.encoding import DONE as DONE
from orx_rx.protocol.encoding import json_bytes as json_bytes
from orx_rx.wire import Frame, encode_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orx_rx.models.event_base import Event


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
