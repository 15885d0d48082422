"""What all events have, and what an accumulated delta knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

from orx_rx.models.base import Index, Int, Model

if TYPE_CHECKING:
    from collections.abc import Callable

SERVER_NUMBER = "server_sequence_number"
"""The field that keeps the number of the server, or null, where `repair` gave an event another one."""


class Growth(Protocol):
    """What grows by deltas; `end` is a length, and reading at an older one gives what was there then."""

    def read(self, end: int, /) -> Any:
        """Everything until `end`."""
        ...

    def tail(self, end: int, size: int, /) -> Any:
        """The last `size` of what was there until `end`, without touching the rest."""
        ...


class Event(Model, frozen=True):
    """Base of all events of a stream.

    Events are frozen and shared by every subscriber; so are the lists in them, which nobody should change.

    Attributes:
        type: The type on the wire, such as `response.output_text.delta`.
        sequence_number: Its place in the stream, from 0; None where a server does not number its events.
    """

    __slots__ = ("_end", "_growth")

    type: str
    sequence_number: Int | None = None

    @property
    def is_synthetic(self) -> bool:
        """Whether the library made it, out of a response that it could only get as a whole."""
        return bool((self.__pydantic_extra__ or {}).get("synthetic"))

    @property
    def is_renumbered(self) -> bool:
        """Whether its number is one that `repair` gave to it: no cursor for the server can be made of it."""
        return SERVER_NUMBER in (self.__pydantic_extra__ or {})

    def growing(self, growth: Growth, end: int) -> Self:
        """Make a copy that knows what its delta was added to; this event stays as it is.

        Args:
            growth: What the delta was added to.
            end: Its length after the delta was added.
        """
        copy: Any = _new(_Blank)
        # The fields are shared, since neither of the two can change; copying them would cost more than decoding does.
        copy.__dict__ = self.__dict__
        copy.__pydantic_fields_set__ = self.__pydantic_fields_set__
        copy.__pydantic_extra__ = self.__pydantic_extra__
        copy.__pydantic_private__ = None
        copy._growth = growth
        copy._end = end
        copy.__class__ = type(self)
        grown: Self = copy
        return grown

    def __copy__(self) -> Self:
        """Copy with the snapshot, which is shared: it only grows."""
        return self._with_growth_of(super().__copy__())

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Copy with the snapshot, which is shared: it only grows."""
        return self._with_growth_of(super().__deepcopy__(memo))

    def __getstate__(self) -> dict[Any, Any]:
        """Pickle with the snapshot."""
        return {**super().__getstate__(), "grown": self._growth_and_end()}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        """Unpickle with the snapshot."""
        super().__setstate__(state)
        for slot, value in zip(("_growth", "_end"), state.get("grown") or (), strict=False):
            object.__setattr__(self, slot, value)

    def _growth_and_end(self) -> tuple[Growth, int] | None:
        try:
            return self._growth, self._end  # type: ignore[attr-defined]
        except AttributeError:
            return None

    def _with_growth_of(self, copy: Self) -> Self:
        grown = self._growth_and_end()
        return copy if grown is None else copy.growing(*grown)

    def _grown(self) -> tuple[Growth, int]:
        grown = self._growth_and_end()
        if grown is None:
            raise AttributeError(f"expected an event that went through accumulate(), got a {self.type} that did not")
        return grown


class _Blank(Event, frozen=True):
    """An event that can still be written to, as fast as any object; it is frozen once it gets its class."""

    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__  # CPython goes the slow way for both if one of them is written in Python


_new = object.__new__

set_growth: Callable[[Event, Growth], None] = Event.__dict__["_growth"].__set__
"""Let an event know what its delta was added to; only for who made it, before anybody else has it."""

set_end: Callable[[Event, int], None] = Event.__dict__["_end"].__set__
"""Let it know the length after its delta was added."""


class DeltaEvent(Event, frozen=True):
    """Base of the events that add a piece of text.

    Attributes:
        delta: The piece.
    """

    delta: str

    @property
    def snapshot(self) -> str:
        """The text as of this event, the delta included; built when it is read.

        Reading it costs as much as the text is long. Who looks at every delta of a long text reads `delta`,
        `snapshot_length` or `snapshot_tail` instead.

        Raises:
            AttributeError: The event did not go through `accumulate`.
        """
        growth, end = self._grown()
        text: str = growth.read(end)
        return text

    @property
    def snapshot_length(self) -> int:
        """The length of the text as of this event, in characters, without building it.

        Raises:
            AttributeError: The event did not go through `accumulate`.
        """
        return self._grown()[1]

    def snapshot_tail(self, size: int) -> str:
        """The end of the text as of this event, without building the rest.

        Args:
            size: How many characters, at most.

        Raises:
            AttributeError: The event did not go through `accumulate`.
        """
        growth, end = self._grown()
        text: str = growth.tail(end, size)
        return text


class ItemEvent(Event, frozen=True):
    """Base of the events that belong to an output item.

    Attributes:
        output_index: The place of the item in the output of the response, from 0.
        item_id: The id of the item; None where a server leaves it out.
    """

    output_index: Index
    item_id: str | None = None


class ContentEvent(ItemEvent, frozen=True):
    """Base of the events that belong to a content part of an item.

    Attributes:
        content_index: The place of the part in the content of the item, from 0.
    """

    content_index: Index


class SummaryEvent(ItemEvent, frozen=True):
    """Base of the events that belong to a part of a reasoning summary.

    Attributes:
        summary_index: The place of the part in the summary of the item, from 0.
    """

    summary_index: Index


class CommandEvent(Event, frozen=True):
    """Base of the events that belong to one command of a shell call.

    Attributes:
        output_index: The place of the item in the output of the response, from 0.
        command_index: The place of the command in the item, from 0.
    """

    output_index: Index
    command_index: Index
