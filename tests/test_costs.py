"""What a stream costs, in operations: where a complexity is promised, the work is counted and no clock is read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from orx_rx import operators as ops
from orx_rx import wire
from orx_rx.models.event_base import DeltaEvent, Event
from orx_rx.models.parse import known_event_validator, validators_by_name
from orx_rx.protocol import accumulator, decoding
from orx_rx.stream import Operator
from orx_rx.wire import FrameParser
from tests.chain import added, created, delta, part_added, sse
from tests.sources import Listener, at_once

DELTAS = 200
BODY = sse(created(), added(), part_added(), *(delta("la ") for _ in range(DELTAS)))
EVENTS = 3 + DELTAS


def chain() -> list[Operator[Any, Any]]:
    return [ops.frame(), ops.decode(), ops.sequence_check(), ops.lifecycle_guard(), ops.accumulate()]


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


class Counted:
    """Calls a function, and counts."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.calls = 0
        self._function = function

    def __call__(self, *given: Any) -> Any:
        self.calls += 1
        return self._function(*given)


@pytest.mark.parametrize("size", [1, 97, len(BODY)])
@pytest.mark.parametrize("named", [True, False])
def test_every_event_is_validated_once(monkeypatch: pytest.MonkeyPatch, size: int, named: bool) -> None:
    body = BODY if named else re.sub(rb"event: .*\n", b"", BODY)
    union = Counted(known_event_validator())
    own = Counted(validators_by_name()["response.output_text.delta"])
    by_name = defaultdict[str, Any](lambda: union, {"response.output_text.delta": own})
    monkeypatch.setattr(decoding, "known_event_validator", lambda: union)
    monkeypatch.setattr(decoding, "validators_by_name", lambda: by_name)
    heard = Listener(at_once(cut(body, size), None).pipe(*chain())).heard
    assert len(heard) == EVENTS
    # the sentinel is found by its being no event
    assert (own.calls, union.calls) == ((DELTAS, 4) if named else (0, EVENTS + 1))


@pytest.mark.parametrize("branches", [0, 1, 2])
def test_a_delta_is_copied_only_where_somebody_else_may_have_it(monkeypatch: pytest.MonkeyPatch, branches: int) -> None:
    grow = Counted(Event.growing)
    monkeypatch.setattr(accumulator, "_growing", grow)
    source = at_once([BODY], None)
    if branches:
        decoded = source.pipe(ops.frame(), ops.decode(), ops.fan_out(history="all"))
        listeners = [Listener(decoded.pipe(ops.accumulate())) for _ in range(branches)]
    else:
        listeners = [Listener(source.pipe(*chain()))]
    for listener in listeners:
        deltas = [event for event in listener.heard if isinstance(event, DeltaEvent)]
        assert (len(deltas), deltas[-1].snapshot) == (DELTAS, "la " * DELTAS)
    assert grow.calls == branches * DELTAS


class Searched:
    """Splits at blank lines, and counts the bytes that it looks at."""

    def __init__(self) -> None:
        self.bytes = 0

    def split(self, chunk: bytes) -> list[bytes]:
        self.bytes += len(chunk)
        return chunk.split(b"\n\n")


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 3, 1460, 65536])
def test_a_byte_is_searched_once_however_the_stream_is_cut(
    monkeypatch: pytest.MonkeyPatch, end: bytes, size: int
) -> None:
    searched = Searched()
    monkeypatch.setattr(wire, "_BLANK_LINE", searched)
    body = BODY.replace(b"\n", end)
    frames = feed(FrameParser(), cut(body, size))
    assert len(frames) == EVENTS + 1
    # an LF that may be the first half of a blank line is looked at once more, with what comes behind it
    assert searched.bytes <= len(body) + len(frames) * 2


def test_a_frame_of_any_length_is_searched_once_and_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = Searched()
    monkeypatch.setattr(wire, "_BLANK_LINE", searched)
    line = b"data: " + b"x" * 1_000_000 + b"\n\n"
    (frame,) = feed(FrameParser(), cut(line, 1000))
    assert len(frame.data) == 1_000_000
    assert searched.bytes <= len(line) + 2


def feed(parser: FrameParser, chunks: Sequence[bytes]) -> list[wire.Frame]:
    return [frame for chunk in chunks for frame in parser.feed(chunk)] + parser.end()
