"""Responses that go on without a connection."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from orx_rx.models.event_base import Event
from orx_rx.models.lifecycle_events import ResponseEvent, TerminalEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from orx_rx.models.response import Response
    from orx_rx.simulator.failing import Pause
    from orx_rx.simulator.script import Script

T = TypeVar("T")


def paced(things: Iterable[T], *, pace: float, hold: int | None, gate: asyncio.Event) -> Iterator[T | Pause]:
    """Put pauses between things.

    Args:
        things: The things.
        pace: How long to wait after each, in seconds.
        hold: After how many to wait at the gate; None for never.
        gate: The gate.
    """
    number = 0
    for thing in things:
        if number and pace:
            yield partial(asyncio.sleep, pace)
        if number == hold:
            yield gate.wait
        yield thing
        number += 1
    if number == hold:
        yield gate.wait


class Run:
    """A background response: what has happened so far, for whoever follows it.

    Args:
        script: The script of the response; it is played by others.
        changed: Called after every change.

    Attributes:
        response: The response as it stands; its output has the items that are done.
        streams: Whether its events may be streamed, which its request decides.
        expired: Whether its events are kept no more.
        ended: Whether nothing more happens.
        whole: Whether its terminal event has come; a cancelled response has none.
        gate: Where a hold waits.
    """

    def __init__(self, script: Script, changed: Callable[[], None]) -> None:
        self.response: Response = script.response("queued")
        self.streams: bool = script.request.stream
        self.expired = False
        self.ended: bool = False
        self.whole: bool = False
        self.gate: asyncio.Event = asyncio.Event()
        self._script = script
        self._events: list[Event] = []
        self._tell_others = changed
        self._more = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, events: Iterator[Event | Pause]) -> asyncio.Task[None]:
        """Begin to play.

        Args:
            events: The events, and the pauses between them.
        """
        self._task = asyncio.create_task(self._play(events))
        return self._task

    def cancel(self) -> None:
        """Stop, unless the response is finished; without a terminal event."""
        if self._task is not None and not self.whole:
            self.response = self.response.model_copy(update={"status": "cancelled"})
            self._task.cancel()
            self._end()

    def follow(self, after: int) -> Iterator[Event | Pause]:
        """Repeat the events from one on, and wait for those that are still to come.

        Args:
            after: The number of the event behind which to begin.
        """
        at = after + 1
        while True:
            if at < len(self._events):
                yield self._events[at]
                at += 1
            elif self.ended:
                return
            else:
                yield self._more.wait

    async def _play(self, events: Iterator[Event | Pause]) -> None:
        try:
            for step in events:
                if isinstance(step, Event):
                    self._add(step)
                    await asyncio.sleep(0)  # let the others keep up
                else:
                    await step()
        finally:
            self._end()

    def _add(self, event: Event) -> None:
        self._events.append(event)
        status = event.response.status if isinstance(event, ResponseEvent) else self.response.status
        self.whole = isinstance(event, TerminalEvent)
        self.response = event.response if isinstance(event, TerminalEvent) else self._script.response(status or "")
        self._tell()

    def _end(self) -> None:
        self.ended = True
        self._tell()

    def _tell(self) -> None:
        self._more.set()
        self._more = asyncio.Event()
        self._tell_others()
