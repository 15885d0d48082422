"""How each fault is done: a small function for each, in a table by name.

A function of `BEFORE` changes the answer before it begins, or raises what comes in its place. One of `WITHIN` wraps the
steps of a stream: what it writes, and the pauses in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from orx_rx.models.stream_events import KeepaliveEvent
from orx_rx.simulator.errors import ApiError, expired, not_found
from orx_rx.simulator.frames import Cutter, frame_of, json_bytes

if TYPE_CHECKING:
    from orx_rx.simulator.faults import Fault

Pause = Callable[[], Awaitable[object]]
"""Waits for something, such as time to pass; what was written before is sent first."""

Steps = Iterator[bytes | Pause]
"""A stream as it is written: frames, and pauses between them."""


class Refused(Exception):
    """An answer with a status and a body of its own.

    Attributes:
        status: The HTTP status.
        headers: The headers.
        body: The body.
    """

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


class Closed(Exception):
    """The connection is to be closed.

    Attributes:
        kind: How: `fin`, `rst` or `eof`.
    """

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


@dataclass(slots=True)
class Exchange:
    """A request, and how its answer differs from a good one.

    Attributes:
        faults: What happens to it.
        response_id: The id of the response that it is about, as far as it names one.
        ignore_cursor: Whether a stream begins at its first event, whatever the request says.
        as_json: Whether the answer is JSON where a stream was asked for.
        terminal: Whether a stream has its terminal event.
    """

    faults: Sequence[Fault] = ()
    response_id: str = ""
    ignore_cursor: bool = False
    as_json: bool = False
    terminal: bool = True

    def begin(self) -> None:
        """Do what happens before the answer.

        Raises:
            ApiError: The answer is an error.
            Refused: The answer is another one.
            Closed: There is no answer.
        """
        for fault in self.faults:
            if fault.name in BEFORE:
                BEFORE[fault.name](fault, self)

    def apply(self, steps: Steps, released: Pause) -> Steps:
        """Do what happens within a stream.

        Args:
            steps: The stream.
            released: Waits until the simulator releases the stream.
        """
        for fault in self.faults:
            if fault.name in WITHIN:
                steps = WITHIN[fault.name](fault, steps, released)
        return steps


# before the answer


def _status(fault: Fault, _: Exchange) -> None:
    status = fault.status or 500
    error = ApiError(status, f"A simulated error with status {status}.", type=_TYPES.get(status, "server_error"))
    body = error.body if fault.body is None else fault.body
    kind, data = ("text/plain; charset=utf-8", body.encode()) if isinstance(body, str) else (_JSON, json_bytes(body))
    told = {"retry-after": fault.retry_after, "retry-after-ms": fault.retry_after_ms}
    headers = {"content-type": kind} | {name: value for name, value in told.items() if value is not None}
    own = {name.lower(): value for name, value in (fault.headers or {}).items()}
    raise Refused(status, headers | own, data)


_JSON = "application/json"
_TYPES = {429: "rate_limit_error", 503: "service_unavailable_error"} | dict.fromkeys(
    (400, 401, 403, 404, 409, 422), "invalid_request_error"
)


def _expired(_: Fault, exchange: Exchange) -> None:
    raise expired(exchange.response_id)


def _not_found(_: Fault, exchange: Exchange) -> None:
    raise not_found(exchange.response_id)


def _refuse(fault: Fault, _: Exchange) -> None:
    raise Closed(fault.kind or "fin")


def _json(_: Fault, exchange: Exchange) -> None:
    exchange.as_json = True


def _ignore_cursor(_: Fault, exchange: Exchange) -> None:
    exchange.ignore_cursor = True


def _no_terminal(_: Fault, exchange: Exchange) -> None:
    exchange.terminal = False


# within the stream


def _numbered(steps: Steps) -> Iterator[tuple[int, bytes | Pause]]:
    """Number the frames from 0; a pause has the number -1."""
    numbers = count()
    for step in steps:
        yield next(numbers) if isinstance(step, bytes) else -1, step


def _with(steps: Steps, fault: Fault, pauses: Callable[[], Steps]) -> Steps:
    """Put steps into a stream, after so many events or bytes."""
    if 0 in (fault.after_events, fault.after_bytes):
        yield from pauses()
    left = fault.after_bytes or 0
    for number, step in _numbered(steps):
        if left and isinstance(step, bytes):
            first, step = step[:left], step[left:]
            left -= len(first)
            yield first
            if not left:
                yield from pauses()
        if step:
            yield step
        if number + 1 == (fault.after_events or -1):
            yield from pauses()


def _cut(fault: Fault, steps: Steps, _: Pause) -> Steps:
    async def close() -> None:
        raise Closed(fault.kind or "fin")

    return _with(steps, fault, lambda: iter((close,)))


def _stall(fault: Fault, steps: Steps, released: Pause) -> Steps:
    return _with(steps, fault, lambda: iter((released,)))


def _keepalives(fault: Fault, steps: Steps, released: Pause) -> Steps:
    def lively() -> Steps:
        for _ in range(fault.count or 0):
            yield _KEEPALIVES[fault.form or "comment"]
            yield partial(asyncio.sleep, fault.pace or 0)
        yield released

    return _with(steps, replace(fault, after_events=fault.after_events or 0), lively)


_KEEPALIVES = {"comment": b": keepalive\n\n", "event": frame_of(KeepaliveEvent())}


def _slow(fault: Fault, steps: Steps, _: Pause) -> Steps:
    cutter = Cutter(fault.size or 1)
    for step in steps:
        pieces = cutter.feed(step) if isinstance(step, bytes) else cutter.end()
        for piece in pieces:
            yield piece
            yield partial(asyncio.sleep, fault.pace or 0)
        if not isinstance(step, bytes):
            yield step
    yield from cutter.end()


def _gap(fault: Fault, steps: Steps, _: Pause) -> Steps:
    first = fault.after_events or 0
    lost = range(first, first + (1 if fault.count is None else fault.count))
    return (step for number, step in _numbered(steps) if number not in lost)


def _duplicate(fault: Fault, steps: Steps, _: Pause) -> Steps:
    for number, step in _numbered(steps):
        yield step
        if number == fault.at:
            yield step


def _reorder(fault: Fault, steps: Steps, _: Pause) -> Steps:
    late: list[bytes | Pause] = []
    for number, step in _numbered(steps):
        if number == fault.at:
            late.append(step)
            continue
        yield step
        if number >= 0:
            yield from late
            late.clear()
    yield from late


BEFORE: Mapping[str, Callable[[Fault, Exchange], None]] = {
    "status": _status,
    "expired": _expired,
    "not_found": _not_found,
    "refuse": _refuse,
    "json": _json,
    "ignore_cursor": _ignore_cursor,
    "no_terminal": _no_terminal,
}
"""What each fault does before the answer begins."""

WITHIN: Mapping[str, Callable[[Fault, Steps, Pause], Steps]] = {
    "cut": _cut,
    "stall": _stall,
    "keepalives": _keepalives,
    "slow": _slow,
    "gap": _gap,
    "duplicate": _duplicate,
    "reorder": _reorder,
}
"""What each fault does within a stream."""

FAULTS: Mapping[str, Callable[..., Any]] = {**BEFORE, **WITHIN}
"""The function of every fault."""
