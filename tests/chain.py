"""Streams without Rx: the canonical chain of steps, and short ways to write down what a server sends.

    ran = run(sse(created(), opened(), text("Hi"), terminal()), STRICT)
    assert ran.codes == [...]

Payloads are JSON objects as the wire has them; whatever has no `sequence_number` gets the next one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from orx_rx.errors import OrxError
from orx_rx.models.event_base import Event
from orx_rx.models.events import EVENT_CLASSES
from orx_rx.models.response import Response
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.decoding import Decoder
from orx_rx.protocol.growth import Text
from orx_rx.protocol.lifecycle import LifecycleGuard
from orx_rx.protocol.sequence import SequenceChecker
from orx_rx.protocol.violations import DEFAULT, RULES, Judge, Profile, Verdict, Violation
from orx_rx.wire import FrameParser

Payload = dict[str, Any]

DONE = b"data: [DONE]\n\n"


# the chain


@dataclass
class Ran:
    """What came out of the chain.

    Attributes:
        events: The events that came through.
        reported: The violations that were reported, in the order they were found; not the one that was raised.
        accumulator: The last step.
        error: What the stream ended with, or None.
    """

    accumulator: Accumulator
    events: list[Event] = field(default_factory=list[Event])
    reported: list[Violation] = field(default_factory=list[Violation])
    error: Exception | None = None

    @property
    def codes(self) -> list[str]:
        """The codes of what was reported."""
        return [violation.code for violation in self.reported]

    @property
    def failure(self) -> OrxError:
        """The error, which has to be one of ours."""
        assert isinstance(self.error, OrxError), self.error
        return self.error

    @property
    def raised(self) -> str | None:
        """The code of the rule that ended the stream, or None."""
        return self.error.violations[-1].code if isinstance(self.error, OrxError) and self.error.violations else None

    @property
    def final(self) -> Response:
        """The finished response, which has to be there."""
        assert self.accumulator.final_response is not None, self.error
        return self.accumulator.final_response


class _Link:
    """One step of the chain, with what `lift` does for it."""

    def __init__(self, step: Any, then: _Link | _Sink) -> None:
        self._step, self._then, self._stopped = step, then, False

    def feed(self, item: object) -> None:
        if self._stopped:
            return
        try:
            outputs: Sequence[object] = self._step.feed(item)
        except Exception as error:
            self._stopped = True
            self._then.fail(error)
            return
        for output in outputs:
            self._then.feed(output)

    def end(self) -> None:
        self._finish("end")

    def fail(self, error: Exception) -> None:
        if hasattr(self._step, "fail"):
            self._finish("fail", error)
        elif not self._stopped:
            self._stopped = True
            self._then.fail(error)

    def _finish(self, method: str, *args: object) -> None:
        if self._stopped:
            return
        self._stopped = True
        try:
            outputs: Sequence[object] = getattr(self._step, method)(*args)
        except Exception as error:
            self._then.fail(error)
            return
        for output in outputs:
            self._then.feed(output)
        self._then.end()


class _Sink:
    def __init__(self, ran: Ran) -> None:
        self._ran = ran

    def feed(self, item: object) -> None:
        assert isinstance(item, Event)
        self._ran.events.append(item)

    def end(self) -> None:
        pass

    def fail(self, error: Exception) -> None:
        self._ran.error = error


def run(
    source: bytes | Iterable[bytes] | Iterable[Event],
    profile: Profile = DEFAULT,
    *,
    broken: Exception | None = None,
    accumulator: Accumulator | None = None,
) -> Ran:
    """Run bytes, chunks or events through the chain; events skip framing and decoding.

    Args:
        source: What the server sent.
        profile: The profile of every step; each has a judge of its own.
        broken: What the connection broke with; it ended cleanly otherwise.
        accumulator: One that knows something already.
    """
    reported: list[Violation] = []

    def judge() -> Judge:
        return Judge(profile, reported.append)

    ran = Ran(accumulator or Accumulator(judge()), reported=reported)
    link: _Link | _Sink = _Sink(ran)
    for checking in (ran.accumulator, LifecycleGuard(judge()), SequenceChecker(judge())):
        link = _Link(checking, link)
    after_decoding = link
    for reading in (Decoder(judge()), FrameParser()):
        link = _Link(reading, link)
    items: list[bytes] | list[Any] = [source] if isinstance(source, bytes) else list(source)
    first = after_decoding if items and isinstance(items[0], Event) else link
    for item in items:
        first.feed(item)
    if broken is None:
        first.end()
    else:
        first.fail(broken)
    return ran


class CountingText(Text):
    """A text that counts the pieces it joins; what it counts is for all texts together."""

    __slots__ = ()
    joined: ClassVar[int] = 0
    joins: ClassVar[int] = 0

    def read(self, end: int) -> str:
        waiting = len(self._pieces)
        text = super().read(end)
        CountingText.joined += waiting - len(self._pieces)
        CountingText.joins += waiting > len(self._pieces)
        return text


def only(code: str, verdict: Verdict = "raise") -> Profile:
    """A profile that gives one rule a verdict and ignores all others."""
    return Profile(f"only {code}", {rule: verdict if rule == code else "ignore" for rule in RULES})


# what a server sends


def numbered(payloads: Iterable[Payload]) -> list[Payload]:
    """Give the next sequence number to every payload that has none; None stands for a payload without one."""
    numbers: list[Payload] = []
    following = 0
    for payload in payloads:
        number = payload.get("sequence_number", following)
        rest = {name: value for name, value in payload.items() if name != "sequence_number"}
        numbers.append(rest if number is None else {**rest, "sequence_number": number})
        following = following if number is None else number + 1
    return numbers


def record(payload: Payload | str, *, named: bool = True) -> bytes:
    """Write one record; text stands for itself."""
    if isinstance(payload, str):
        return f"data: {payload}\n\n".encode()
    name = f"event: {payload['type']}\n" if named and isinstance(payload.get("type"), str) else ""
    return f"{name}data: {json.dumps(payload)}\n\n".encode()


def sse(*payloads: Payload, done: bool = True) -> bytes:
    """Write a body of numbered payloads, and the sentinel after it."""
    return b"".join(record(payload) for payload in numbered(payloads)) + (DONE if done else b"")


def events(*payloads: Payload) -> list[Event]:
    """Decode numbered payloads."""
    decoder = Decoder()
    return [event for frame in FrameParser().feed(sse(*payloads)) for event in decoder.feed(frame)]


def report_streams(block: str) -> list[list[Payload | str]]:
    """Read the JSON lines of a field report: a list of payloads for each of its streams, and `[DONE]` as text."""
    streams: list[list[Payload | str]] = [[]]
    for line in block.splitlines():
        if line == "---":
            streams.append([])
        elif line == "[DONE]":
            streams[-1].append(line)
        elif line.startswith("{"):
            streams[-1].append(json.loads(line))
    return streams


def report_sse(block: str, *, done: bool = False) -> list[bytes]:
    """Turn the JSON lines of a field report into SSE bytes, a body for each of its streams.

    Args:
        block: The text between the fences. Stage directions are left out.
        done: Whether to end each body with the sentinel.
    """
    return [b"".join(map(record, stream)) + (DONE if done else b"") for stream in report_streams(block)]


def keepalive(**fields: Any) -> Payload:
    return {"type": "keepalive", **fields}


def in_progress(id: str = "resp_a", **fields: Any) -> Payload:
    return {"type": "response.in_progress", "response": {"id": id, "status": "in_progress", **fields}}


def failing(message: str = "busy", **error: Any) -> Payload:
    return {"type": "error", "error": {"type": "server_error", "message": message, **error}}


def created(id: str = "resp_a", **fields: Any) -> Payload:
    return {"type": "response.created", "response": {"id": id, "status": "in_progress", "output": [], **fields}}


def terminal(status: str = "completed", output: Any = (), id: str = "resp_a", **fields: Any) -> Payload:
    output = [] if output == () else output
    return {"type": f"response.{status}", "response": {"id": id, "status": status, "output": output, **fields}}


def item(kind: str = "message", id: str | None = "msg_a", **fields: Any) -> Payload:
    return {"type": kind, "id": id, **fields} if id is not None else {"type": kind, **fields}


def message(content: str | None = None, id: str = "msg_a", **fields: Any) -> Payload:
    parts = [] if content is None else [output_text(content)]
    status = "in_progress" if content is None else "completed"
    return item("message", id, role="assistant", status=status, content=parts, **fields)


def output_text(content: Any = "", **fields: Any) -> Payload:
    return {"type": "output_text", "text": content, "annotations": [], **fields}


def added(item: Payload | None = None, at: int = 0) -> Payload:
    return {"type": "response.output_item.added", "output_index": at, "item": item or message()}


def finished(item: Payload | None = None, at: int = 0) -> Payload:
    return {"type": "response.output_item.done", "output_index": at, "item": item or message("Hello")}


def at(index: int = 0, content: int | None = 0, id: str | None = "msg_a", **fields: Any) -> Payload:
    """The place of an event."""
    place: Payload = {"output_index": index}
    if content is not None:
        place["content_index"] = content
    return {**place, **({} if id is None else {"item_id": id}), **fields}


def part_added(part: Payload | None = None, **place: Any) -> Payload:
    return {"type": "response.content_part.added", **at(**place), "part": part or output_text()}


def part_done(part: Payload | None = None, **place: Any) -> Payload:
    return {"type": "response.content_part.done", **at(**place), "part": part or output_text("Hello")}


def delta(piece: str, kind: str = "output_text", **place: Any) -> Payload:
    return {"type": f"response.{kind}.delta", **at(**place), "delta": piece}


def text_done(text: str = "Hello", **place: Any) -> Payload:
    return {"type": "response.output_text.done", **at(**place), "text": text}


def call(arguments: str = "", n: str = "a", **fields: Any) -> Payload:
    return item("function_call", f"fc_{n}", call_id=f"call_{n}", name="probe", arguments=arguments, **fields)


def arguments_delta(piece: str, index: int = 0, n: str = "a") -> Payload:
    return delta(piece, "function_call_arguments", index=index, content=None, id=f"fc_{n}")


def arguments_done(arguments: str, index: int = 0, n: str = "a") -> Payload:
    place = at(index, None, f"fc_{n}")
    return {"type": "response.function_call_arguments.done", **place, "arguments": arguments}


def hello(**fields: Any) -> list[Payload]:
    """A whole stream that breaks no rule."""
    return [
        created(**fields),
        added(),
        part_added(),
        delta("Hel"),
        delta("lo"),
        text_done(),
        part_done(),
        finished(),
        terminal(output=[message("Hello")], **fields),
    ]


_FILLED: Payload = {
    "response": {"id": "resp_a"},
    "item": {"type": "message", "id": "msg_a"},
    "part": {"type": "output_text", "text": ""},
    "annotation": {"type": "file_path"},
    "delta": "x",
}


def least(type_: str, **fields: Any) -> Payload:
    """The least that an event of a type consists of; indices are 0, texts are `x`."""
    payload: Payload = {"type": type_}
    for name, info in EVENT_CLASSES[type_].model_fields.items():
        if name in fields:
            payload[name] = fields[name]
        elif name.endswith("_index"):
            payload[name] = 0
        elif info.is_required() or name == "item":
            payload[name] = _FILLED.get(name, "x")
    if type_ == "response.shell_call_output_content.delta":
        payload["delta"] = fields.get("delta", {"stdout": "x"})
    return payload
