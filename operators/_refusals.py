"""Read the refusal of the model, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orx_rx.protocol.reading import PieceReader
from orx_rx.step import lift

if TYPE_CHECKING:
    from orx_rx.models.event_base import Event
    from orx_rx.stream import Operator


def refusals(*, separator: str = "") -> Operator[Event, str]:
    """Read the refusal of the model, piece by piece.

    ::

        a: refusal delta "I can"   b: refusal delta "not"   d: refusal done

        ---a-------b-----d--|
        [    refusals()     ]
        ---I can---not------|

    Args:
        separator: What comes between two parts; by default nothing.
    """
    return lift(lambda: PieceReader("refusal", separator=separator))
