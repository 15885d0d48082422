"""Read the finished items of the output, each one once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orx_rx.protocol.reading import ItemReader
from orx_rx.step import lift

if TYPE_CHECKING:
    from orx_rx.models.event_base import Event
    from orx_rx.models.item_base import Item
    from orx_rx.stream import Operator


def items() -> Operator[Event, Item]:
    """Read the finished items of the output, each one once.

    An item comes out when it is done; one that a server never finishes comes out with the terminal.

    ::

        a: response.output_item.done of x   t: response.completed with x and y

        ---a-----t----|
        [   items()   ]
        ---x-----y----|
    """
    return lift(ItemReader)
