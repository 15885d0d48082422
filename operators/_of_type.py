"""Keep the events of some classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from orx_rx.models.event_base import Event
from orx_rx.protocol.steps import Batched
from orx_rx.step import lift

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orx_rx.stream import Operator

E = TypeVar("E", bound=Event)


class _Sieve(Batched[Event, E]):
    takes = Event

    def __init__(self, classes: tuple[type[E], ...]) -> None:
        self._classes = classes

    def feed_all(self, events: Sequence[Event], kept: list[E], /) -> None:
        kept += [event for event in events if isinstance(event, self._classes)]

    def end(self) -> Sequence[E]:
        return ()


def of_type(*classes: type[E]) -> Operator[Event, E]:
    """Keep the events of some classes.

    ::

        a, b: ResponseTextDeltaEvent   c: another event

        ---a---c---b----------------------|
        [ of_type(ResponseTextDeltaEvent) ]
        ---a-------b----------------------|

    Args:
        *classes: The classes; those of a subclass are kept too.

    Raises:
        TypeError: No class, or one that is not of events.
    """
    if not classes:
        raise TypeError("expected at least one class of events, got none")
    for kept in classes:
        if not (isinstance(kept, type) and issubclass(kept, Event)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected classes of events, got {kept!r}")
    return lift(lambda: _Sieve(classes))
