"""What the simulator remembers: responses, those in the background, and the conversations that led to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from orx_rx.models.base import to_wire
from orx_rx.simulator.errors import ApiError, expired, not_found

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orx_rx.models.response import Response
    from orx_rx.simulator.background import Run
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
    """Keeps responses in memory."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}
        self._runs: dict[str, Run] = {}
        self._foreground: set[str] = set()

    def begin(self, request: Request, response_id: str) -> None:
        """Take notice of a response that ends with its connection, unless its request forbids it."""
        if request.stored:
            self._foreground.add(response_id)

    def run(self, run: Run) -> None:
        """Keep a background response."""
        self._runs[run.response.id] = run

    def keep(self, request: Request, response: Response) -> None:
        """Keep a finished response, unless its request forbids it.

        Args:
            request: What it answers.
            response: The response.
        """
        if request.stored:
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

    def response(self, response_id: str) -> Response:
        """Find a response as it stands: one in the background, or one that is finished.

        Args:
            response_id: The id of the response.

        Raises:
            ApiError: No such response is kept.
        """
        found = self._runs.get(response_id) or self._kept.get(response_id)
        if found is None:
            raise not_found(response_id)
        return found.response

    def streamed(self, response_id: str) -> Run:
        """Find a response whose events can be streamed.

        Args:
            response_id: The id of the response.

        Raises:
            ApiError: No such response is kept, or its events cannot be streamed, or no more.
        """
        self.response(response_id)
        run = self._runs.get(response_id)
        if run is None or not run.streams:
            message = (
                "This response cannot be streamed because it was not created with background=true and stream=true."
            )
            raise ApiError(400, message, param="stream")
        if run.expired:
            raise expired(response_id)
        return run

    def cancelled(self, response_id: str) -> Response:
        """Cancel a background response, unless it is finished.

        Args:
            response_id: The id of the response.

        Returns:
            The response as it is then.

        Raises:
            ApiError: No such response is kept, or it does not run in the background.
        """
        run = self._runs.get(response_id)
        if run is None:
            known = response_id in self._foreground
            raise ApiError(400, "Cannot cancel a synchronous response.") if known else not_found(response_id)
        run.cancel()
        return run.response

    def release(self) -> None:
        """Let the background responses go on past their hold."""
        for run in self._runs.values():
            run.gate.set()

    def expire(self, response_id: str) -> None:
        """Make a background response too old to be streamed.

        Raises:
            LookupError: No such response is kept.
        """
        if response_id not in self._runs:
            raise _unknown("background response", self._runs, response_id)
        self._runs[response_id].expired = True

    def forget(self, response_id: str) -> None:
        """Forget a response.

        Raises:
            LookupError: No such response is kept.
        """
        known = {**self._kept, **self._runs, **dict.fromkeys(self._foreground)}
        if response_id not in known:
            raise _unknown("response", known, response_id)
        self._kept.pop(response_id, None)
        self._runs.pop(response_id, None)
        self._foreground.discard(response_id)


def _unknown(what: str, known: Mapping[str, object], response_id: str) -> LookupError:
    return LookupError(f"expected a {what} among {', '.join(known) or 'none'}, got {response_id!r}")
