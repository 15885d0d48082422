"""Read the reasoning, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from orx_rx.protocol.reading import PieceReader
from orx_rx.step import lift

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orx_rx.models.event_base import Event
    from orx_rx.stream import Operator

_CHANNELS: Mapping[str, tuple[str, ...]] = {
    "all": ("summary", "reasoning"),
    "summary": ("summary",),
    "raw": ("reasoning",),
}


def reasoning(*, kind: Literal["all", "summary", "raw"] = "all", separator: str = "\n\n") -> Operator[Event, str]:
    r"""Read the reasoning, piece by piece.

    ::

        a: summary delta "One" of part 0   b: summary delta "Two" of part 1   s: the separator

        ---a-----b--------|
        [   reasoning()   ]
        ---One---(sTwo)---|

    Args:
        kind: `summary` for what the provider shows of it, `raw` for the reasoning itself, `all` for both.
        separator: What comes between two parts; by default a blank line, since parts begin with headings.

    Raises:
        ValueError: `kind` is none of its words.
    """
    if kind not in _CHANNELS:
        raise ValueError(f"expected kind to be 'all', 'summary' or 'raw', got {kind!r}")
    return lift(lambda: PieceReader(*_CHANNELS[kind], separator=separator))
