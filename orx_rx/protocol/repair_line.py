"""The line of frames that is handed on: what number each gets, and what is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from orx_rx.errors import LifecycleViolation, SchemaViolation
from orx_rx.models.event_base import SERVER_NUMBER
from orx_rx.protocol.repair_kinds import Repair
from orx_rx.protocol.repair_payloads import (
    Payload,
    number_in,
    text_in,
    write,
)
from orx_rx.protocol.repair_places import Item, Part
from orx_rx.wire import Frame

if TYPE_CHECKING:
    from collections.abc import Callable


_REMEMBERED = 4096  # numbers whose events are known again


class Draft:
    """An event on its way through the repair."""

    __slots__ = ("changed", "fields", "frame", "type")

    def __init__(self, frame: Frame, fields: Payload, *, changed: bool = False) -> None:
        self.frame: Frame = frame
        self.fields: Payload = fields
        self.type: str = text_in(fields, "type")
        self.changed: bool = changed

    def put(self, **fields: Any) -> None:
        """Change some fields."""
        self.fields = {**self.fields, **fields}
        self.type = text_in(self.fields, "type")
        self.changed = True


class Line:
    """Hands on events of the server and events that it never sent, with numbers that increase.

    Args:
        tell: Called with every repair.

    Attributes:
        repaired: Whether anything was repaired.
        out: What the frame of now becomes.
        now: The event that came last, and shows the need of what is done.
        last: The last number that was handed on.
        server_last: The last number that came.
    """

    def __init__(self, tell: Callable[[Repair], None] | None = None) -> None:
        self.repaired: bool = False
        self.out: list[Frame] = []
        self.now: Draft | None = None
        self.last: int = -1
        self.server_last: int = -1
        self._tell = tell
        self._told: set[tuple[str, str]] = set()  # what was recorded, of what is recorded once a place
        self._restarts = False  # a number came again with something else
        self._seen: dict[int, int] = {}  # the number of an event, and a hash of it

    def remember(self, number: int, frame: Frame) -> None:
        """Take note of what came with a number."""
        seen = self._seen
        seen[number] = hash(frame.data)
        if len(seen) > _REMEMBERED:
            del seen[next(iter(seen))]

    def is_repeat(self, draft: Draft) -> bool:
        """Say whether an event came before: with the same number, and the same in all it says."""
        number = number_in(draft.fields, "sequence_number")
        if number is None:
            return False
        if number <= self.server_last and not self._restarts:
            if self._seen.get(number) == hash(draft.frame.data):
                return True
            self._restarts = True  # from now on, equal numbers say nothing
        self.server_last = number
        self.remember(number, draft.frame)
        return False

    def emit(self, draft: Draft) -> None:
        """Hand on an event of the server, with a number that increases."""
        sent = draft.fields.get("sequence_number")
        number = number_in(draft.fields, "sequence_number")
        if sent is None and draft.type == "error":  # whose reason must not hide behind its form
            pass
        elif number is None:
            self.last += 1
            self.record("number_added", "expected a sequence number, got none", once=True)
            draft.put(**{"sequence_number": self.last, SERVER_NUMBER: sent})
        elif number <= self.last:
            self.last += 1
            message = f"expected a number of at least {self.last}, got {number}: what follows has other numbers"
            self.record("renumbered", message, once=True)
            draft.put(**{"sequence_number": self.last, SERVER_NUMBER: number})
        else:
            self.last = number
        if not draft.changed:
            self.out.append(draft.frame)
            return
        event = draft.type if draft.frame.event else ""
        self.out.append(Frame(event, write(draft.fields), draft.frame.id, draft.frame.retry))

    def add(self, payload: Payload) -> None:
        """Hand on an event that the server did not send."""
        self.last += 1
        made: Payload = {**payload, "sequence_number": self.last, SERVER_NUMBER: None, "synthetic": True}
        self.out.append(Frame(text_in(made, "type"), write(made), self.now.frame.id if self.now else ""))

    def record(self, code: str, message: str, place: str = "", *, once: bool = False) -> None:
        """Tell of a repair.

        Args:
            code: The code of its kind.
            message: What was expected and what came.
            place: Where in the output.
            once: Whether it is told once for each place.
        """
        if once and (code, place) in self._told:
            return
        self._told.add((code, place))
        self.repaired = True
        if self._tell is not None:
            now: Payload = {} if self.now is None else self.now.fields
            number = number_in(now, SERVER_NUMBER if SERVER_NUMBER in now else "sequence_number")
            self._tell(Repair(code, message, number, text_in(now, "type") or None, place))

    def refuse(self, draft: Draft, message: str) -> NoReturn:
        """Refuse an event that may mean two things."""
        number = number_in(draft.fields, "sequence_number")
        raise SchemaViolation(message, frame=draft.frame, event_type=draft.type, sequence_number=number)

    def contradict(self, draft: Draft, message: str) -> NoReturn:
        """Refuse an event that contradicts what came."""
        number = number_in(draft.fields, "sequence_number")
        raise LifecycleViolation(f"{message} ({draft.type}{'' if number is None else f' #{number}'})")


def at(item: Item, part: Part | None = None) -> str:
    """Name a place for those who read of it."""
    if part is None:
        return f"output[{item.index}]"
    number = "" if part.machine == "field" else f"[{part.number}]"
    return f"output[{item.index}].{part.place}{number}"
