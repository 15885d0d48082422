"""What all items have."""

from __future__ import annotations

from orx_rx.models.base import Model, Tolerant


class Item(Model, frozen=True):
    """Base of the output items of a response.

    Attributes:
        type: The kind of the item.
        id: The id of the item; None where a server leaves it out (functions are then known by their `call_id`).
    """

    type: str
    id: str | None = None


class StatusItem(Item, frozen=True):
    """Base of the items that have a status.

    Attributes:
        status: `in_progress`, `completed`, `incomplete`, or a word of the kind's own, such as `searching`.
    """

    status: Tolerant[str | None] = None
