"""What is to go wrong, as data: faults, each for some requests, and plans of them that are written as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, cast


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    The faults, and the options that each takes besides `connection`, `request` and `method`:

    - `cut`: the connection breaks off; `after_events` or `after_bytes`, and `kind`, which is `fin` by default.
    - `stall`: nothing more comes until `Simulator.release()`; `after_events` or `after_bytes`.
    - `keepalives`: `count` keepalives come, and then nothing more until `Simulator.release()`; `after_events` (0),
      `form` (`comment`), and `pace`.
    - `slow`: the bytes come in pieces of `size` (1), with a pause of `pace` (0) behind each.
    - `status`: an answer with an error `status`; `retry_after`, `retry_after_ms`, `headers`, `body`.
    - `expired`: 400, the response can no longer be streamed. `not_found`: 404.
    - `refuse`: the connection is closed before an answer; `kind`, which is `fin` by default, or `rst`.
    - `json`: the response as it stands as JSON, although a stream was asked for.
    - `ignore_cursor`: the events from the first on, whatever `starting_after` says.
    - `gap`: `count` (1) events are left out; `after_events` (0).
    - `no_terminal`: the terminal event is left out, and `[DONE]` comes all the same.
    - `duplicate`: event `at` comes twice. `reorder`: event `at` comes after the one behind it.

    Events, with `[DONE]` as the last of them, and bytes are counted per connection from 0, as they come out of the
    faults before this one; those that cut events into pieces, `slow` and whatever has `after_bytes`, belong last.

    Attributes:
        name: What goes wrong.
        connection: Which of the requests for a stream, from 0; None for every one.
        request: Which of all requests, from 0; None for every one.
        method: The HTTP method of the requests; None for every one.
        after_events: After how many events.
        after_bytes: After how many bytes of the stream.
        kind: How a connection ends: `fin` closes it and `rst` resets it in mid-body, `eof` ends the body well. A
            reset loses what the client has not read after some milliseconds.
        count: How many.
        at: Which event, from 0.
        size: The bytes of a piece.
        pace: How long a pause is, in seconds.
        form: What a keepalive is: a `comment`, or an unnumbered `event`.
        status: The HTTP status, from 400 to 599.
        retry_after: The header `Retry-After` as given: seconds, or an HTTP date.
        retry_after_ms: The header `retry-after-ms` as given.
        headers: Other headers; they win.
        body: The body: text goes out as it is, anything else as JSON; None is an error object.

    Raises:
        ValueError: There is no such fault, it does not take such an option, or a value is out of range.
    """

    name: str
    connection: int | None = None
    request: int | None = None
    method: str | None = None
    after_events: int | None = None
    after_bytes: int | None = None
    kind: str | None = None
    count: int | None = None
    at: int | None = None
    size: int | None = None
    pace: float | None = None
    form: str | None = None
    status: int | None = None
    retry_after: str | None = None
    retry_after_ms: str | None = None
    headers: Mapping[str, str] | None = None
    body: Any = None

    def __post_init__(self) -> None:
        """Check the options."""
        options = OPTIONS.get(self.name)
        if options is None:
            raise ValueError(f"expected a fault among {', '.join(OPTIONS)}, got {self.name!r}")
        given = self.options()
        taken = (*_WHERE, *options)
        for option, value in given.items():
            if option not in taken:
                raise ValueError(f"expected options of {self.name!r} among {', '.join(taken)}, got {option!r}")
            fits, shape = _SHAPES.get((self.name, option)) or _SHAPES.get(("", option)) or (_anything, "")
            if not fits(value):
                raise ValueError(f"expected {option} of {self.name!r} to be {shape}, got {value!r}")
        for choice in _NEEDED.get(self.name, ()):
            found = [option for option in choice if option in given]
            if len(found) != 1:
                got = " and ".join(found) or "none"
                raise ValueError(f"expected {' or '.join(choice)} for {self.name!r}, got {got}")

    def options(self) -> dict[str, Any]:
        """Name the options that were given, with their values."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self)[1:])
        return {name: value for name, value in values if value is not None}


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Faults in their order; several may happen to one request.

    Attributes:
        faults: The faults.
    """

    faults: tuple[Fault, ...] = ()

    @classmethod
    def of(cls, faults: FaultPlan | Iterable[Fault]) -> FaultPlan:
        """Make a plan of faults; a plan stays as it is."""
        return faults if isinstance(faults, FaultPlan) else cls(tuple(faults))

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a plan: `{"faults": [{"name": "cut", "connection": 0, "after_events": 5}]}`.

        Args:
            text: The JSON.

        Raises:
            ValueError: It is no plan; the message says what was expected where, and what is there.
        """
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"expected a fault plan in JSON, got what is not: {error}") from None
        plan = _fields(value)
        listed = plan.get("faults")
        if set(plan) != {"faults"} or not isinstance(listed, list):
            raise ValueError(f'expected a fault plan of the form {{"faults": [...]}}, got {_short(value)}')
        return cls(tuple(_fault(number, each) for number, each in enumerate(cast("list[object]", listed))))

    def concerning(self, connection: int | None, request: int, method: str) -> list[Fault]:
        """Find the faults that happen to a request.

        Args:
            connection: Which of the requests for a stream it is, from 0; None if it asks for none.
            request: Which of all requests it is, from 0.
            method: Its HTTP method.
        """
        its = (connection, request, method)
        return [
            fault
            for fault in self.faults
            if all(
                mine in (None, given)
                for mine, given in zip((fault.connection, fault.request, fault.method), its, strict=True)
            )
        ]

    def to_json(self) -> str:
        """Write the plan as JSON, which `from_json` reads."""
        return json.dumps({"faults": [{"name": fault.name, **fault.options()} for fault in self.faults]})


def _fault(number: int, value: object) -> Fault:
    place = f"faults[{number}]"
    options = _fields(value)
    if not isinstance(options.get("name"), str):
        raise ValueError(f"{place}: expected an object with the name of a fault, got {_short(value)}")
    known = [field.name for field in fields(Fault)]
    for option in options:
        if option not in known:
            raise ValueError(f"{place}: expected options among {', '.join(known)}, got {option!r}")
    try:
        return Fault(**options)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _fields(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _anything(_: object) -> bool:
    return True


def _whole(least: int, most: float = float("inf")) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _among(*values: str) -> tuple[Callable[[Any], bool], str]:
    return (lambda value: isinstance(value, str) and value in values), f"one of {', '.join(values)}"


def _are_headers(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(part, str) and "\r" not in part and "\n" not in part
        for pair in cast("Mapping[object, object]", value).items()
        for part in pair
    )


def _is_header(value: Any) -> bool:
    return _are_headers({"": value})


_WHERE = ("connection", "request", "method")

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "cut": ("after_events", "after_bytes", "kind"),
    "stall": ("after_events", "after_bytes"),
    "keepalives": ("count", "after_events", "form", "pace"),
    "slow": ("size", "pace"),
    "status": ("status", "retry_after", "retry_after_ms", "headers", "body"),
    "expired": (),
    "not_found": (),
    "refuse": ("kind",),
    "json": (),
    "ignore_cursor": (),
    "gap": ("count", "after_events"),
    "no_terminal": (),
    "duplicate": ("at",),
    "reorder": ("at",),
}
"""The faults that there are, and the options that each takes."""

_NEEDED: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "cut": (("after_events", "after_bytes"),),
    "stall": (("after_events", "after_bytes"),),
    "keepalives": (("count",),),
    "status": (("status",),),
    "duplicate": (("at",),),
    "reorder": (("at",),),
}
"""The options that a fault cannot do without: exactly one of each group."""

_NUMBER = (_whole(0), "a whole number of at least 0")
_SHAPES: Mapping[tuple[str, str], tuple[Callable[[Any], bool], str]] = {
    **{("", name): _NUMBER for name in ("connection", "request", "after_events", "after_bytes", "count", "at")},
    ("", "size"): (_whole(1), "a whole number of at least 1"),
    ("", "pace"): (lambda value: type(value) in (int, float) and 0 <= value < float("inf"), "seconds of at least 0"),
    ("", "method"): _among("GET", "POST"),
    ("", "kind"): _among("fin", "rst", "eof"),
    ("refuse", "kind"): _among("fin", "rst"),
    ("", "form"): _among("comment", "event"),
    ("", "status"): (_whole(400, 599), "a whole number from 400 to 599"),
    ("", "retry_after"): (_is_header, "text in one line"),
    ("", "retry_after_ms"): (_is_header, "text in one line"),
    ("", "headers"): (_are_headers, "texts in one line by their names"),
}
"""What the values of an option are to be, by fault, or for all of them."""
