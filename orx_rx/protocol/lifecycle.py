"""The guard that holds a stream to the lifecycle of a response.

`states` has the lifecycle as a table, and `routes` what each class of event does there. Events of an unknown type and
keepalives take no part in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from orx_rx.errors import OrxError, ServerError, StreamInterrupted, TransportError
from orx_rx.models import lifecycle_events as lifecycle
from orx_rx.models.event_base import Event, ItemEvent
from orx_rx.models.item_base import StatusItem
from orx_rx.models.items import ITEM_CLASSES
from orx_rx.models.parts import PART_CLASSES
from orx_rx.models.stream_events import ResponseErrorEvent, StreamEnd
from orx_rx.protocol.channels import CHANNELS, apart
from orx_rx.protocol.cursor import REPEATABLE, Cursor
from orx_rx.protocol.routes import ROUTES, Route
from orx_rx.protocol.states import TABLE, Action, Broken, State
from orx_rx.protocol.steps import Batched, Completes, Settling
from orx_rx.protocol.violations import Claim, Judge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from orx_rx.models.item_base import Item


class _Part:
    __slots__ = ("kind", "machine", "state")

    def __init__(self, machine: str, kind: str, state: State = State.ABSENT) -> None:
        self.machine = machine
        self.kind = kind
        self.state = state


class _Item:
    __slots__ = ("call_id", "id", "implicit", "kind", "parts", "rotates", "state")

    def __init__(self, *, implicit: bool) -> None:
        self.state = State.ABSENT
        self.kind = ""
        self.id: str | None = None
        self.call_id: object = None
        self.rotates = False  # its id was seen to change
        self.implicit = implicit  # it began before this stream did
        self.parts: dict[tuple[str, int], _Part] = {}


class LifecycleGuard(Batched[Event, Event], Settling):
    """Holds a stream to the lifecycle, and ends it with one terminal or one error.

    A stream that begins in the middle, as a resumed one does, is reported once; items and parts that were opened before
    it began are taken as open. The first terminal wins; what follows it is dropped, except for out-of-band events.

    Args:
        judge: Decides what a violation costs.

    Attributes:
        settling: Whether the stream has said how it ends, and only the end of the connection is missing.
    """

    takes = Event
    completes: ClassVar[Completes] = "same"

    def __init__(self, judge: Judge | None = None) -> None:
        self._judge = judge or Judge()
        self._state = State.ABSENT
        self._items: dict[int, _Item] = {}
        self._places: dict[str, int] = {}  # item id -> output index
        self._begun_late = False
        self._events = 0
        self._response_id = ""
        self._id_rotates = False
        self._resumable = False
        self._numbered: Event | None = None  # the last event with a number
        self._ahead = False  # what came last had no number, so that resuming would bring it again
        self._error: ResponseErrorEvent | None = None
        self._stream_end = StreamEnd()
        self._last_class: type[Event] | None = None
        self._last_place: object = None
        self._where: Callable[[Mapping[str, object]], object] = apart  # reads the place of such an event

    def feed_all(self, events: Sequence[Event], passing: list[Event], /) -> None:
        """Check events.

        Raises:
            LifecycleViolation: The profile does not let one pass.
        """
        for event in events:
            fields = event.__dict__
            # one more delta at the place of the last event changes no state
            more = type(event) is self._last_class and self._where(fields) == self._last_place
            if not more and not self._admit(event):
                continue
            self._events += 1
            if fields["sequence_number"] is not None:
                self._numbered = event
                self._ahead = False
            elif not isinstance(event, REPEATABLE):
                self._ahead = True
            passing.append(event)

    def end(self) -> Sequence[Event]:
        """Take the end of the connection.

        Raises:
            StreamInterrupted: There was no terminal.
            ServerError: There was none, but an error of the server.
        """
        return self._end()

    def fail(self, error: Exception) -> Sequence[Event]:
        """Take an error of the connection; after the terminal it does not matter any more.

        Raises:
            StreamInterrupted: The connection broke before a terminal.
            ServerError: It broke after an error of the server.
        """
        if self._state is State.ENDED and isinstance(error, OrxError):
            if not isinstance(error, TransportError):
                message = f"expected nothing after the terminal, got {type(error).__name__}"
                self._judge.found("event_after_terminal", message, error=error)
            return ()
        if self._error is not None:
            told = self._server_error(self._error)
            told.__cause__ = error
            self._judge.throw(told)
        if isinstance(error, TransportError) and self._events:
            interrupted = self._interrupted(
                f"expected a terminal, got {type(error).__name__} after {self._progress()}: {error}"
            )
            interrupted.__cause__ = error
            self._judge.throw(interrupted)
        self._judge.throw(error)

    def expire(self) -> Sequence[Event]:
        """Stop waiting for the end of the connection; only called while `settling`.

        Raises:
            ServerError: The server reported an error, and no terminal followed.
        """
        return () if self._state is State.ENDED else self._end()

    def _end(self) -> Sequence[Event]:
        end = self._stream_end
        if self._state is State.ENDED:
            if end.unfinished_bytes:
                message = f"expected a blank line after the last frame, got the end after {end.unfinished_bytes} bytes"
                self._judge.found("unfinished_frame", message, event=Claim(end.unfinished_type))
            if not end.done:
                self._judge.found("missing_done", "expected [DONE] after the terminal, got the end of the stream")
            return ()
        if self._error is not None:
            self._judge.throw(self._server_error(self._error))
        unfinished = (
            f", and an unfinished frame of {end.unfinished_bytes} bytes of type {end.unfinished_type or 'unknown'}"
            if end.unfinished_bytes
            else ""
        )
        what = "[DONE]" if end.done else "the end of the stream"
        message = f"expected a terminal, got {what} after {self._progress()}{unfinished}"
        self._judge.found("missing_terminal", message, error=self._interrupted(message))
        return ()

    def _admit(self, event: Event) -> bool:
        """Move the machines; False when the event is to be dropped."""
        what = ROUTES[type(event)]
        if what is None:
            if isinstance(event, StreamEnd):
                self._stream_end = event
                return False
            return True
        if not self._respond(event, what.action):
            return False
        if what.item_action is not None:
            self._use_item(event, what)
        self._last_class, self._where = type(event), what.where
        self._last_place = what.where(event.__dict__)
        return True

    def _respond(self, event: Event, action: Action) -> bool:
        """Move the machine of the response; False when the event is to be dropped."""
        before = self._state
        step = TABLE["response"][before][action]
        if isinstance(step, Broken):
            self._judge.found(step.code, self._response_message(step.code, event), event=event)
            step = step.then
            self._begun_late = self._begun_late or before is State.ABSENT
        self._state = step
        if before is State.ENDED:
            return False
        self.settle(step in (State.FAILING, State.ENDED))
        if isinstance(event, lifecycle.ResponseEvent):
            self._take_response(event, before)
        elif isinstance(event, ResponseErrorEvent):
            self._error = self._error or event
        return True

    def _response_message(self, code: str, event: Event) -> str:
        return {
            "created_not_first": f"expected response.created first, got {event.type}",
            "created_twice": "expected response.created once, got it again",
            "error_not_failed": f"expected response.failed after an error, got {event.type}",
            "event_after_terminal": f"expected nothing after the terminal, got {event.type}",
            "second_terminal": f"expected one terminal, got {event.type} as well",
        }[code]

    def _take_response(self, event: lifecycle.ResponseEvent, before: State) -> None:
        response = event.response
        if not self._response_id:
            self._response_id = response.id
        elif response.id and response.id != self._response_id and not self._id_rotates:
            self._id_rotates = True
            message = f"expected response {self._response_id}, got {response.id}"
            self._judge.found("response_id_changed", message, event=event)
        self._resumable = self._resumable or (response.background is True and response.store is not False)
        if response.output is None:
            self._judge.found(
                "output_null", "expected a list as output, got null", event=event, place="response.output"
            )
        if isinstance(event, lifecycle.TerminalEvent):
            self._check_terminal(event, before)

    def _check_terminal(self, event: lifecycle.TerminalEvent, before: State) -> None:
        named, status = event.type.removeprefix("response."), event.response.status
        if before is State.FAILING and named != "failed":
            self._judge.found("error_not_failed", self._response_message("error_not_failed", event), event=event)
        if status is not None and status != named and not event.is_synthetic:
            message = f"expected status {named} as in the event, got {status}"
            self._judge.found("status_mismatch", message, event=event, place="response.status")
        if named != "completed":
            return
        for index, held in self._items.items():
            if held.state is not State.DONE and not held.implicit:
                message = f"expected response.output_item.done for the {held.kind or 'item'}, got the terminal"
                self._judge.found("item_not_closed", message, event=event, place=f"output[{index}]")

    def _use_item(self, event: Any, what: Route) -> None:
        index: int = event.output_index
        held = self._items.get(index)
        if held is None:
            held = self._items[index] = _Item(implicit=self._begun_late)
        action = what.item_action
        assert action is not None
        if action is Action.USE:
            id_: str | None = event.item_id if isinstance(event, ItemEvent) else None
        else:
            body: Item | None = event.item
            id_ = body.id if body is not None else None
            self._check_place(event, held, index, body, action)
        self._move_item(event, held, index, action)
        if id_ != held.id and id_ is not None:
            self._check_id(event, held, index, id_)
        if what.items and held.kind not in what.items:
            self._check_kind(event, held, index, what.items)
        if what.part_action is not None:
            self._use_part(event, held, index, what)
        elif action is Action.DONE:
            self._close_parts(event, held, index)

    def _move_item(self, event: Event, held: _Item, index: int, action: Action) -> None:
        step = TABLE["item"][held.state][action]
        if isinstance(step, Broken):
            if not (held.implicit and held.state is State.ABSENT):
                message = f"expected {_EXPECTED[step.code]}, got {event.type}"
                self._judge.found(step.code, message, event=event, place=f"output[{index}]")
            step = step.then
        elif action is Action.ADD:
            held.implicit = False
        held.state = step

    def _check_place(self, event: Event, held: _Item, index: int, body: Item | None, action: Action) -> None:
        """Check what `added` and `done` say about the item as a whole."""
        if body is None:
            return
        other = held.kind and body.type != held.kind
        if other and action is Action.ADD:
            message = f"expected output index {index} to stay with its {held.kind}, got another {body.type}"
            self._judge.found("place_taken", message, event=event, place=f"output[{index}]")
        elif other:
            message = f"expected the {held.kind} that was added, got a {body.type}"
            self._judge.found("wrong_item_kind", message, event=event, place=f"output[{index}]")
        elif held.state is not State.ABSENT and action is Action.ADD and (names := _two_names(held, body)):
            message = f"expected output index {index} to stay with item {names[0]}, got item {names[1]}"
            self._judge.found("place_taken", message, event=event, place=f"output[{index}]")
        held.kind = held.kind or body.type
        held.call_id = held.call_id or getattr(body, "call_id", None)
        if action is Action.DONE and isinstance(body, StatusItem) and body.status not in _FINAL:
            message = f"expected a final status of the {body.type} that is done, got another one"
            self._judge.found("item_status_open", message, event=event, place=f"output[{index}]")

    def _check_id(self, event: Event, held: _Item, index: int, id_: str) -> None:
        known = self._places.get(id_, index) if id_ else index
        if known != index:
            message = f"expected item {id_} at output index {known}, got index {index}"
            self._judge.found("item_id_conflict", message, event=event, place=f"output[{index}]")
        elif held.rotates:
            return
        elif held.id is not None:
            held.rotates = True
            message = f"expected item id {held.id}, got {id_}"
            self._judge.found("item_id_changed", message, event=event, place=f"output[{index}]")
        held.id = held.id or id_
        if id_:
            self._places[id_] = index

    def _check_kind(self, event: Event, held: _Item, index: int, kinds: frozenset[str]) -> None:
        if not held.kind:
            (held.kind,) = kinds if len(kinds) == 1 else ("",)
        elif held.kind in ITEM_CLASSES:
            message = f"expected an event of a {held.kind}, got {event.type}"
            self._judge.found("wrong_item_kind", message, event=event, place=f"output[{index}]")

    def _use_part(self, event: Any, held: _Item, index: int, what: Route) -> None:
        number: int = getattr(event, what.index) if what.index else 0
        part = held.parts.get((what.place, number))
        if part is None:
            part = held.parts[what.place, number] = _Part(what.machine, "")
        action = what.part_action
        assert action is not None
        step = TABLE[what.machine][part.state][action]
        if step is part.state and (not what.parts or part.kind in what.parts):
            return
        place = f"output[{index}].{what.place}[{number}]" if what.index else f"output[{index}].{what.place}"
        if isinstance(step, Broken):
            textless = step.code == "part_not_finished" and part.kind not in _TEXTS
            if not textless and not (held.implicit and part.state is State.ABSENT):
                message = f"expected {_EXPECTED[step.code]}, got {event.type}"
                self._judge.found(step.code, message, event=event, place=place)
            step = step.then
        part.state = step
        kind = event.part.type if what.machine == "part" and action in (Action.ADD, Action.DONE) else ""
        kinds = (kind,) if kind else what.parts
        if not part.kind:
            part.kind = kinds[0] if kinds else ""
        elif kinds and part.kind not in kinds and part.kind in PART_CLASSES:
            message = f"expected an event of a {part.kind} part, got {kind or event.type}"
            self._judge.found("wrong_part_kind", message, event=event, place=place)

    def _close_parts(self, event: Event, held: _Item, index: int) -> None:
        for (place, number), part in held.parts.items():
            if part.state is State.DONE or part.state is State.ABSENT:
                continue
            part.state = State.DONE
            message = f"expected the part to be done before its item, got {event.type}"
            at = f"output[{index}].{place}" if part.machine == "field" else f"output[{index}].{place}[{number}]"
            self._judge.found("part_not_closed", message, event=event, place=at)

    def _progress(self) -> str:
        if not self._events:
            return "no event at all"
        done = sum(held.state is State.DONE for held in self._items.values())
        last = self._numbered
        number = "without a number" if last is None else f"number {last.sequence_number}"
        events = "1 event" if self._events == 1 else f"{self._events} events, the last one"
        return f"{events} {number}, with {done} of {len(self._items)} items done"

    def _cursor(self) -> Cursor | None:
        last = self._numbered
        if not self._response_id or last is None or last.sequence_number is None or self._ahead or last.is_renumbered:
            return None
        return Cursor(self._response_id, last.sequence_number)

    def _interrupted(self, message: str) -> StreamInterrupted:
        cursor = self._cursor()
        return StreamInterrupted(message, cursor=cursor, resumable=self._resumable and cursor is not None)

    def _server_error(self, event: ResponseErrorEvent) -> ServerError:
        return ServerError(
            event.message or "no message",
            code=event.code,
            type=event.error_type,
            param=event.param,
            sequence_number=event.sequence_number,
        )


def _two_names(held: _Item, body: Item) -> tuple[object, object] | None:
    """Find the names of two items that are certainly not the same one."""
    call_id: object = getattr(body, "call_id", None)
    names = (held.id, body.id) if held.id and body.id else (held.call_id, call_id)
    return names if names[0] and names[1] and names[0] != names[1] else None


_TEXTS = frozenset(part for channel in CHANNELS for part in channel.parts)
"""The types of the parts whose text comes by events of this library's knowledge; others have nothing to finish."""

_FINAL = (None, "completed", "incomplete", "failed", "cancelled")
"""The statuses of items that are done; None for the kinds that need not have one."""

_EXPECTED = {
    "item_not_open": "response.output_item.added first",
    "item_added_twice": "response.output_item.added once",
    "item_already_done": "nothing for an item that is done",
    "part_not_open": "the part to be added first",
    "part_already_open": "the part to be added once",
    "part_already_done": "nothing for a part that is done",
    "part_not_finished": "the text to be done before its part",
}
