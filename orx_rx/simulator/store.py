"""What the simulator remembers: finished responses, and the conversations that led to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orx_rx.models.base import to_wire
from orx_rx.simulator.requests import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orx_rx.models.response import Response
    from orx_rx.simulator.requests import Request


@dataclass(frozen=True, slots=True)
class Kept:
    """One finished response.

    Attributes:
        response: The response.
        items: The conversation so far as input items, the output of the response included.
    """

    response: Response
    items: Sequence[Mapping[str, Any]]


class Store:
    """Keeps finished responses in memory."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}

    def keep(self, request: Request, response: Response) -> None:
        """Keep a finished response, unless its request forbids it.

        Args:
            request: What it answers.
            response: The response.
        """
        if request.body.get("store") is not False:
            output = [to_wire(item) for item in response.output or ()]
            self._kept[response.id] = Kept(response, (*request.items, *output))

    def earlier(self, response_id: str) -> Sequence[Mapping[str, Any]]:
        """Find the conversation that led to a response, the response included.

        Args:
            response_id: The id of the response.

        Raises:
            ApiError: No such response is kept.
        """
        if response_id not in self._kept:
            message = f"Previous response with id '{response_id}' not found."
            raise ApiError(400, message, param="previous_response_id", code="previous_response_not_found")
        return self._kept[response_id].items
