"""From the bytes of a frame to an event."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from orx_rx.models.base import CACHE_STRINGS
from orx_rx.models.event_base import DeltaEvent, Event
from orx_rx.models.events import EVENT_CLASSES, KnownEvent
from orx_rx.models.stream_events import ResponseErrorEvent, UnknownEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Set


@cache
def known_event_validator() -> Callable[[bytes], Event]:
    """Get the function that validates a known event straight from JSON; built at the first call.

    It raises `pydantic.ValidationError` for everything else.
    """
    return TypeAdapter[Event](KnownEvent, config=ConfigDict(cache_strings=CACHE_STRINGS)).validator.validate_json


class _ByName(dict[str, "Callable[[bytes], Event]"]):
    """What validates the data behind an event name: of deltas their own class, of every other name all known events.

    A class of its own need not look for the type in the data, which is a tenth of what it costs to decode a delta. It
    takes data without a type, too.
    """

    def __missing__(self, name: str) -> Callable[[bytes], Event]:
        kind = EVENT_CLASSES.get(name)
        if kind is not None and issubclass(kind, DeltaEvent):
            kind.model_rebuild()  # as yet nobody may have needed it
            validate: Callable[[bytes], Event] = kind.__pydantic_validator__.validate_json
        else:
            validate = known_event_validator()
        if kind is not None or not name:  # others may be anything, and any number
            self[name] = validate
        return validate


@cache
def validators_by_name() -> Mapping[str, Callable[[bytes], Event]]:
    """Get the functions that validate an event straight from JSON, by the event name that came with it.

    A mapping without end: each is built when it is first looked up, and raises `pydantic.ValidationError` for what is
    no event of that name; one of an unknown name, or of none, takes every known event.
    """
    return _ByName()


@cache
def _object_validator() -> Callable[[bytes], dict[str, Any]]:
    return TypeAdapter(dict[str, Any]).validator.validate_json


def json_object(data: bytes) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        pydantic.ValidationError: The data is not JSON in UTF-8, or JSON of another kind.
    """
    return _object_validator()(data)


def event_of(fields: Mapping[str, Any]) -> Event | None:
    """Make an event out of a JSON object that the union does not take.

    Unknown types become an `UnknownEvent`; an object with an `error` and no type of the protocol is an error event.

    Returns:
        The event, or None when the object has no type and is no error.

    Raises:
        pydantic.ValidationError: An object of the wrong shape.
    """
    type_ = "" if fields.get("type") is None else fields["type"]
    if not isinstance(type_, str):
        return None
    if type_ not in EVENT_CLASSES and not type_.startswith("response.") and isinstance(fields.get("error"), dict | str):
        return ResponseErrorEvent.model_validate({**fields, "type": "error"})
    return EVENT_CLASSES.get(type_, UnknownEvent).model_validate(fields) if type_ else None


def problems(error: ValidationError, whole: str = "the event") -> list[str]:
    """Say in one line each what does not fit, without the values.

    Args:
        error: What pydantic says.
        whole: What to call the value itself.
    """
    details = error.errors(include_url=False, include_context=False, include_input=False)
    # where an unknown item or part refused a type because it is known
    known = {detail["loc"][:-2] for detail in details if detail["type"] == "value_error"}
    lines = {
        f"{'.'.join(path) or whole}: {detail['msg']}": None
        for detail in details
        if (path := _path(detail["loc"], known)) is not None
    }
    return list(lines)


def _path(place: tuple[int | str, ...], known: Set[tuple[int | str, ...]]) -> list[str] | None:
    """Leave out the branches of unions that pydantic names; None for a branch that is not meant by the type."""
    path: list[str] = []
    steps = enumerate(place)
    for at, step in steps:
        name = str(step)
        if name.startswith("tagged-union["):
            if place[:at] not in known:
                return None
            next(steps, None)  # the tag
        elif name.startswith("Unknown"):
            if place[:at] in known:
                return None
        else:
            path.append(name)
    return path
