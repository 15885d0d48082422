"""Turning a bent stream into a conforming one, frame by frame.

Every frame is looked at as the JSON object that it carries. What fits is passed on as it is, the same object. What is
missing is put in front of the event that shows it: openers in front of what they open, closers in front of what closes
more. `repair_kinds` has the list of all that is done, `repair_places` finds out which item an event means, and
`repair_payloads` makes what is missing. No text is withdrawn, none is added twice, and no terminal is invented.

Numbers: an event keeps its number if that is above the one before it, and gets the next one otherwise. What has another
number than the server gave keeps that as `server_sequence_number`, and no cursor is made of it: a stream that was
renumbered cannot be resumed. What the server never sent is marked `synthetic`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from orx_rx.protocol.repair_items import ItemRepair
from orx_rx.protocol.repair_kinds import Repair
from orx_rx.protocol.repair_line import Draft, Line
from orx_rx.protocol.repair_payloads import (
    OTHER_ENDS,
    ROUTES,
    SEVERITY,
    Payload,
    beginning,
    mended,
    number_in,
    object_in,
    read,
    text_in,
    unfolded,
    usual_usage,
)
from orx_rx.protocol.repair_places import Unclear
from orx_rx.protocol.repair_terminal import TerminalRepair
from orx_rx.protocol.states import Action, State
from orx_rx.wire import Frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from orx_rx.protocol.routes import Route

_DONE = b"[DONE]"


class Repairer:
    """Repairs the frames of one stream.

    A stream that begins in the middle is passed on as it is, because what came before is not known: one whose first
    event is content, with a number that says that others came before it.

    Args:
        tell: Called with every repair.
    """

    takes = Frame

    def __init__(self, tell: Callable[[Repair], None] | None = None) -> None:
        self._line = Line(tell)
        self._items = ItemRepair(self._line)
        self._parts = self._items.parts
        self._terminal = TerminalRepair(self._line, self._items)
        self._state = State.ABSENT
        self._late = False  # the stream began before we did
        self._response: Payload = {}  # as the server told it last
        self._response_id = ""
        self._came = 0  # events of the server

    @property
    def repaired(self) -> bool:
        """Whether anything was repaired."""
        return self._line.repaired

    def feed(self, frame: Frame) -> Sequence[Frame]:
        """Repair one frame, and return what is to be handed on: nothing, the frame, or several.

        Raises:
            SchemaViolation: It may mean two items or parts that are open.
            LifecycleViolation: It contradicts what came, and there are two ways to read that.
        """
        line = self._line
        fields = read(frame.data) if frame.complete else None
        if fields is not None and self._is_one_more(frame, fields):
            return (frame,)
        line.out = []
        self._parts.quick = None
        odd = fields is None
        if fields is None:
            line.now = Draft(frame, {"type": frame.event})
            fields = self._odd(frame)
        if fields is not None:
            draft = line.now = Draft(frame, fields, changed=odd)
            try:
                self._take(draft)
            except Unclear as unclear:
                line.refuse(draft, str(unclear))
        return line.out

    def end(self) -> Sequence[Frame]:
        """Return what was held back."""
        self._line.out = []
        self._items.release()
        return self._line.out

    def _is_one_more(self, frame: Frame, fields: Payload) -> bool:
        """Take one more delta at the place of the last one, with the next number: there is nothing else to look at."""
        quick, line = self._parts.quick, self._line
        if quick is None:
            return False
        get = fields.get
        type_, id_, index, number, part = quick
        piece, sequence_number, name = get("delta"), get("sequence_number"), frame.event
        if (
            get("type") != type_
            or get("item_id") != id_
            or get("output_index") != index
            or (part.channel is not None and part.channel.index and get(part.channel.index) != number)
            or type(sequence_number) is not int
            or sequence_number != line.last + 1
            or not isinstance(piece, str)
            or (name and name != type_)
        ):
            return False
        line.last = line.server_last = sequence_number
        line.remember(sequence_number, frame)
        self._came += 1
        part.pieces.append(piece)
        return True

    def _odd(self, frame: Frame) -> Payload | None:
        """Read a frame that is not simply a JSON object; None where it was dealt with."""
        data = frame.data.strip()
        if data == _DONE:
            self._items.release()
            self._line.out.append(frame)
            return None
        if not data:
            self._line.record("frame_dropped", "expected data, got an empty frame")
            return None
        fields = read(frame.data)
        if fields is None:
            fields = mended(frame.data) if frame.complete else None
            if fields is None:  # which whoever decodes says better
                self._items.release()
                self._line.out.append(frame)
                return None
            self._line.record("json_mended", "expected JSON in UTF-8, got something close to it")
        if not frame.complete:
            message = f"expected a blank line after the last frame, got the end after {len(frame.data)} bytes of data"
            self._line.record("frame_finished", message)
        return fields

    def _take(self, draft: Draft) -> None:
        whole = unfolded(draft.fields) if not draft.type and self._state is State.ABSENT else None
        if whole is not None:
            self._line.record("response_unfolded", "expected a stream of events, got a whole response")
            for payload in whole:
                self._line.add(payload)
            self._response, self._response_id = draft.fields, text_in(draft.fields, "id")
            self._state = State.OPEN if len(whole) == 1 else State.ENDED
            return
        self._name(draft)
        if self._line.is_repeat(draft):
            number = draft.fields["sequence_number"]
            self._line.record("repeat_dropped", f"expected a number above {self._line.server_last}, got {number} again")
            return
        self._came += 1
        what = ROUTES.get(draft.type)
        if what is not None and self._state is State.ABSENT:
            self._late = self._late or self._begins_late(draft, what)
        if what is None or self._late:
            self._pass(draft)
        elif self._state is State.ENDED:
            second = what.action is Action.TERMINAL
            code = "terminal_dropped" if second else "late_dropped"
            self._line.record(code, f"expected nothing after the terminal, got {draft.type}")
        else:
            self._route(draft, what)

    def _begins_late(self, draft: Draft, what: Route) -> bool:
        """Say whether content came before the first event that we see."""
        if what.item_action is Action.ADD and not number_in(draft.fields, "output_index"):
            return False
        return what.action in (Action.CONTENT, Action.TERMINAL) and self._line.server_last > self._came

    def _name(self, draft: Draft) -> None:
        """Settle what type an event is of."""
        name, fields = draft.frame.event, draft.fields
        error = fields.get("error")
        if name == "error" and draft.type not in ROUTES and not isinstance(error, dict | str):
            self._line.record("error_typed", "expected an error event, got the error alone")
            draft.fields = {"type": "error", "error": {k: v for k, v in fields.items() if k != "sequence_number"}}
            draft.put(**({"sequence_number": fields["sequence_number"]} if "sequence_number" in fields else {}))
        elif draft.type not in ROUTES and not draft.type.startswith("response.") and isinstance(error, dict | str):
            self._line.record("error_typed", "expected an error event, got the error alone")
            draft.put(type="error")
        elif not draft.type and name and fields.get("type") is None:
            draft.put(type=name)
            self._line.record("type_added", "expected a type in the data, got only an event name")
        end = OTHER_ENDS.get(draft.type)
        if end is not None:
            response = object_in(draft.fields, "response") or {}
            status = end or text_in(response, "status")
            if status in SEVERITY:
                self._line.record("terminal_renamed", f"expected one of the three terminals, got {draft.type}")
                draft.put(type=f"response.{'incomplete' if status == 'cancelled' else status}")
                draft.put(response={**self._response, **response, "status": status})
        if draft.frame.event and draft.frame.event != draft.type and draft.type:
            if not draft.changed:
                self._line.record("name_settled", f"expected event {draft.type!r} as in the data, got {name!r}")
            draft.changed = True

    def _route(self, draft: Draft, what: Route) -> None:
        if what.action not in (Action.ERROR, Action.CREATE) and self._state is State.ABSENT:
            response = object_in(draft.fields, "response")
            self._line.record("created_added", f"expected response.created first, got {draft.type}")
            self._line.add({"type": "response.created", "response": beginning(response or {"object": "response"})})
            self._state = State.OPEN
        if what.action in (Action.CREATE, Action.UPDATE, Action.TERMINAL):
            self._respond(draft, what.action)
        elif what.item_action is None:
            self._pass(draft)
        elif what.item_action is Action.ADD:
            self._items.add(draft)
        elif what.item_action is Action.DONE:
            self._items.end(draft)
        else:
            self._items.use(draft, what)

    def _pass(self, draft: Draft) -> None:
        self._items.release()
        self._line.emit(draft)

    def _respond(self, draft: Draft, action: Action) -> None:
        response = object_in(draft.fields, "response")
        if response is None:
            if action is Action.TERMINAL and draft.fields.get("response") is None and self._response:
                self._line.record("response_filled", "expected a response, got none")
                response = {**self._response, "status": draft.type.removeprefix("response.")}
            else:
                self._pass(draft)
                return
            draft.put(response=response)
        if action is Action.CREATE and self._state is not State.ABSENT:
            if text_in(response, "id") != self._response_id:
                self._line.contradict(draft, "expected response.created once, got that of another response")
            self._line.record("created_dropped", "expected response.created once, got it again")
            return
        self._state = State.OPEN
        response = self._usual(response)
        if action is Action.TERMINAL:
            response = self._terminal.settled(draft, response)
            self._items.release_for_terminal(response)
            response = self._terminal.whole(draft, response)
            self._state = State.ENDED
        else:
            self._items.release()
            if "output" in response and response["output"] is None:
                self._line.record("output_listed", "expected a list as output, got null", "response.output")
                response = cast("Payload", {**response, "output": []})
        self._response = {**self._response, **response}
        if response is not object_in(draft.fields, "response"):
            draft.put(response=response)
        self._line.emit(draft)

    def _usual(self, response: Payload) -> Payload:
        """Give a response its first id, and its counts their usual names."""
        id_ = text_in(response, "id")
        self._response_id = self._response_id or id_
        if id_ and id_ != self._response_id:
            self._line.record("response_id_kept", f"expected response {self._response_id}, got {id_}", once=True)
            response = {**response, "id": self._response_id, "server_id": id_}
        usage = object_in(response, "usage")
        if usage is not None and (usual := usual_usage(usage)) is not usage:
            self._line.record(
                "usage_renamed", "expected input_tokens and output_tokens, got other names", "response.usage"
            )
            response = {**response, "usage": usual}
        return response
