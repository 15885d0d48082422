"""From frames to events: JSON and validation in one pass over the bytes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pydantic import ValidationError

from orx_rx.errors import FrameDecodeError, SchemaViolation
from orx_rx.models.parse import event_of, json_object, known_event_validator, problems, validators_by_name
from orx_rx.models.required import missing_fields
from orx_rx.models.stream_events import ResponseErrorEvent, StreamEnd, UnknownEvent
from orx_rx.protocol.steps import Batched, Completes
from orx_rx.protocol.violations import Claim, Judge
from orx_rx.wire import Frame

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from orx_rx.models.event_base import Event

_DONE = b"[DONE]"
_TYPE = re.compile(rb'"type"\s*:\s*"((?:response\.|error)[a-z_.]*)"')


class Decoder(Batched[Frame, "Event"]):
    """Decodes frames.

    The sentinel `[DONE]` is framing and never an event. An unfinished last frame is taken if it is whole JSON and the
    profile lets it pass; otherwise it is dropped, and the `StreamEnd` says so.

    Args:
        judge: Decides about frames that bend the rules.
    """

    takes = Frame
    completes: ClassVar[Completes] = "new"

    def __init__(self, judge: Judge | None = None) -> None:
        self._judge = judge or Judge()
        self._validators = validators_by_name()
        self._any = known_event_validator()
        self._examines = self._judge.verdict("field_missing") != "ignore"
        self._missed: set[tuple[str, str]] = set()  # type and field; each is found once
        self._done = False
        self._unfinished: Frame | None = None

    def feed_all(self, frames: Sequence[Frame], events: list[Event], /) -> None:
        """Decode frames.

        Raises:
            FrameDecodeError: The data is not JSON in UTF-8.
            SchemaViolation: The data is not an event, or has the wrong shape.
        """
        validators, any_known, examines = self._validators, self._any, self._examines
        for frame in frames:
            if not frame.complete:
                events += self._last(frame)
                continue
            name = frame.event
            validate = validators[name]
            try:
                event = validate(frame.data)
            except ValidationError as error:
                events += self._bent(frame, error) if validate is any_known else self._by_data(frame)
                continue
            any_name = validate is any_known
            fits = not name or name == event.type if any_name else "type" in event.__pydantic_fields_set__
            if fits and not examines:
                events.append(event)
            elif fits or any_name:
                events += self._checked(frame, event)
            else:
                events += self._by_data(frame)

    def end(self) -> Sequence[Event]:
        """Tell what is known about the end of the stream, if there is something to tell."""
        dropped = self._unfinished
        if dropped is None:
            return (StreamEnd(done=True),) if self._done else ()
        claims = _TYPE.search(dropped.data)
        type_ = claims[1].decode() if claims else dropped.event or None
        return (StreamEnd(done=self._done, unfinished_bytes=len(dropped.data), unfinished_type=type_),)

    def fail(self, error: Exception) -> Sequence[Event]:
        """Pass on an error with the violations that were found here."""
        self._judge.throw(error)

    def _last(self, frame: Frame) -> Sequence[Event]:
        if frame.data.strip() == _DONE:
            self._done = True
            return ()
        self._unfinished = frame
        if self._judge.verdict("unfinished_frame") == "raise":
            return ()
        try:
            json_object(frame.data)
        except ValidationError:
            return ()
        self._unfinished = None
        events = self.feed(replace(frame, complete=True))
        for event in events:
            message = f"expected a blank line after the last frame, got the end after {len(frame.data)} bytes of data"
            self._judge.found("unfinished_frame", message, event=event)
        return events

    def _checked(self, frame: Frame, event: Event) -> Sequence[Event]:
        if frame.event and frame.event != event.type:
            self._judge.found(
                "event_name_mismatch", f"expected event {event.type!r} as in the data, got {frame.event!r}", event=event
            )
        for field in missing_fields(event) if self._examines else ():
            if (event.type, field) not in self._missed:
                self._missed.add((event.type, field))
                self._judge.found("field_missing", f"expected {field}, got none", event=event, place=field)
        return (event,)

    def _by_data(self, frame: Frame) -> Sequence[Event]:
        """Decode what is no event of its name, or does not say so itself: by what its data says."""
        try:
            event = self._any(frame.data)
        except ValidationError as error:
            return self._bent(frame, error)
        return self._checked(frame, event)

    def _bent(self, frame: Frame, error: ValidationError) -> Sequence[Event]:
        """Decode what the union of known events refused: sentinel, unknown type, bare error; or say what is wrong."""
        kind = error.errors(include_url=False, include_context=False, include_input=False)[0]
        data = frame.data.strip()
        claim = Claim(frame.event or None)
        if data == _DONE:
            self._done = True
            return ()
        if not data:
            message = "expected data, got an empty frame"
            self._judge.found("empty_data", message, event=claim, error=FrameDecodeError(message, frame))
            return ()
        if kind["type"] == "json_invalid":
            message = f"expected JSON in UTF-8, got {len(frame.data)} bytes that are not: {kind['msg']}"
            self._judge.found("data_not_json", message, event=claim, error=FrameDecodeError(message, frame))
            return ()
        try:
            fields = json_object(frame.data)
        except ValidationError:
            message = f"expected a JSON object, got a JSON value of another kind in {len(frame.data)} bytes"
            self._judge.found("not_an_object", message, event=claim, error=SchemaViolation(message, frame=frame))
            return ()
        untyped = fields.get("type") is None
        named = {**fields, "type": frame.event} if frame.event and untyped else fields
        try:
            event = event_of(fields) or event_of(named)
            if frame.event == "error" and isinstance(event, UnknownEvent):  # the bare error, whose type is its category
                event = event_of({"type": "error", "error": fields, "sequence_number": event.sequence_number})
        except ValidationError as wrong:
            self._wrong_shape(frame, named, problems(wrong))
            return ()
        if event is None:
            message = (
                f"expected an event with a type, got an object with the fields {', '.join(sorted(fields)) or 'none'}"
            )
            claim = _claim(named)
            untold = SchemaViolation(message, frame=frame, sequence_number=claim.sequence_number)
            self._judge.found("type_missing", message, event=claim, error=untold)
            return ()
        if untyped and not isinstance(event, ResponseErrorEvent):
            self._judge.found("type_only_in_name", "expected a type in the data, got only an event field", event=event)
        return self._checked(frame, event)

    def _wrong_shape(self, frame: Frame, fields: Mapping[str, object], what: list[str]) -> None:
        claim = _claim(fields)
        message = f"expected a {claim.type} event, got one that does not fit: {'; '.join(what)}"
        error = SchemaViolation(
            message, frame=frame, event_type=claim.type, sequence_number=claim.sequence_number, problems=what
        )
        self._judge.found("wrong_shape", message, event=claim, error=error)


def _claim(fields: Mapping[str, object]) -> Claim:
    """Read what an object says of itself, as far as it can be read."""
    type_, number = fields.get("type"), fields.get("sequence_number")
    return Claim(type_ if isinstance(type_, str) else None, number if type(number) is int else None)
