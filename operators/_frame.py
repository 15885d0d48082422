"""Cut chunks into frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orx_rx.step import lift
from orx_rx.wire import DEFAULT_MAX_FRAME_BYTES, Frame, FrameParser

if TYPE_CHECKING:
    from orx_rx.stream import Operator


def frame(*, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> Operator[bytes, Frame]:
    r"""Cut chunks into frames.

    The rules are those of WHATWG HTML, section 9.2.6, on bytes: line ends are LF, CR or CRLF, and nothing depends on
    where the chunks are cut. When the source completes inside a frame, that frame comes out with `complete=False`.

    ::

        a: b"data: 1\n"   b: b"\ndata: 2\n\n"   x: data b"1"   y: data b"2"

        ---a-----b-------|
        [   frame()      ]
        ---------(xy)----|

    Args:
        max_frame_bytes: The most bytes that a frame may have.

    Raises:
        ValueError: The limit is not positive.
        FrameTooLarge: To the subscriber, when a frame outgrows the limit; frames before it came out.
    """
    FrameParser(max_frame_bytes)
    return lift(lambda: FrameParser(max_frame_bytes))
