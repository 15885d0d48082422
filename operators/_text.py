"""Read the text of the answer, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orx_rx.protocol.reading import PieceReader
from orx_rx.step import lift

if TYPE_CHECKING:
    from orx_rx.models.event_base import Event
    from orx_rx.stream import Operator


def text(*, separator: str = "") -> Operator[Event, str]:
    """Read the text of the answer, piece by piece.

    ::

        c: response.created   a: text delta "Hel"   b: text delta "lo"

        ---c---a-----b----|
        [     text()      ]
        -------Hel---lo---|

    Args:
        separator: What comes between two parts or messages; by default nothing, as in `Response.output_text`.
    """
    return lift(lambda: PieceReader("text", separator=separator))
