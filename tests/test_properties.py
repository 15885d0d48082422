"""What holds for every stream, however it is cut, spelled, interrupted by noise, or numbered.

The streams are made by a builder, which also says what the response must be in the end; where the captures are there,
some of them take part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orx_rx.errors import StreamInterrupted
from orx_rx.models import DeltaEvent, Event, to_wire
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.cursor import Cursor
from orx_rx.protocol.decoding import Decoder
from orx_rx.protocol.violations import STRICT
from orx_rx.wire import Frame, FrameParser
from tests.captures import capture_names, read_capture
from tests.chain import DONE, Payload, numbered, record, run
from tests.conftest import shared

BYTEWISE = (
    "azure/text-short.sse",
    "openrouter/gpt-oss-raw-reasoning.sse",
    "openai/function-calls-parallel-gpt4o.sse",
    "xai/image-generation.sse",
)
SAMPLED = (
    *BYTEWISE,
    "chatgpt-codex/function-call-unicode.sse",
    "chatgpt-codex/parallel-tool-calls.sse",
    "copilot/id-rotation-reasoning.sse",
    "deepseek/reasoning-text.sse",
    "openai/apply-patch-create-file.sse",
    "openai/background-resume-starting-after.sse",
    "openai/error-insufficient-quota.sse",
    "openai/incomplete-in-reasoning.sse",
    "openai/mcp-call-completed.sse",
    "openai/no-sequence-number-function-call.sse",
    "openai/phase-commentary-trimmed.sse",
    "openai/refusal-delta.sse",
    "openai/web-search-annotations-gpt52.sse",
)
LINE_ENDS = (b"\n", b"\r", b"\r\n")


# the builder


@dataclass
class Stream:
    """A stream that breaks no rule.

    Attributes:
        payloads: Its events, without numbers.
        output: The items of its response in the end.
    """

    payloads: list[Payload]
    output: list[Payload]

    @property
    def body(self) -> bytes:
        return b"".join(map(record, numbered(self.payloads))) + DONE

    @property
    def middle(self) -> list[Payload]:
        """All events but the terminal and the items that are done."""
        return [event for event in self.payloads if not event["type"].endswith(("item.done", ".completed"))]


@dataclass
class Track:
    """The events of one item, and the item in the end."""

    events: list[Payload]
    item: Payload


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)  # every character that UTF-8 has
PIECES = st.lists(TEXTS.filter(bool), min_size=1, max_size=5)
LOGPROBS = st.lists(
    st.fixed_dictionaries({"token": TEXTS, "logprob": st.floats(-20, 0) | st.integers(-3, 0)}), max_size=2
)
CITATIONS = st.lists(st.fixed_dictionaries({"type": st.just("url_citation"), "url": TEXTS, "title": TEXTS}), max_size=2)


def message(draw: st.DrawFn, index: int) -> Track:
    item: Payload = {"type": "message", "id": f"msg_{index}", "role": "assistant", "status": "completed", "content": []}
    events: list[Payload] = []
    for number in range(draw(st.integers(0, 2))):
        at = {"output_index": index, "item_id": item["id"], "content_index": number}
        part, empty, grown = draw(st.sampled_from([text, refusal]))(draw, at)
        item["content"] = [*item["content"], part]
        events += [
            {"type": "response.content_part.added", **at, "part": empty},
            *grown,
            {"type": "response.content_part.done", **at, "part": part},
        ]
    return track(index, item, {**item, "status": "in_progress", "content": []}, events)


def text(draw: st.DrawFn, at: Payload) -> tuple[Payload, Payload, list[Payload]]:
    pieces, notes = draw(PIECES), draw(CITATIONS)
    chosen = [draw(LOGPROBS) for _ in pieces]
    part: Payload = {
        "type": "output_text",
        "text": "".join(pieces),
        "annotations": notes,
        "logprobs": [token for tokens in chosen for token in tokens],
    }
    grown: list[Payload] = [
        *(
            {**delta("output_text", piece, at), "logprobs": tokens}
            for piece, tokens in zip(pieces, chosen, strict=True)
        ),
        *(
            {"type": "response.output_text.annotation.added", **at, "annotation_index": count, "annotation": note}
            for count, note in enumerate(notes)
        ),
        {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": part["logprobs"]},
    ]
    return part, {**part, "text": "", "annotations": [], "logprobs": []}, grown


def refusal(draw: st.DrawFn, at: Payload) -> tuple[Payload, Payload, list[Payload]]:
    pieces = draw(PIECES)
    part: Payload = {"type": "refusal", "refusal": "".join(pieces)}
    grown = [delta("refusal", piece, at) for piece in pieces]
    return part, {**part, "refusal": ""}, [*grown, {"type": "response.refusal.done", **at, "refusal": part["refusal"]}]


def reasoning(draw: st.DrawFn, index: int) -> Track:
    item: Payload = {"type": "reasoning", "id": f"rs_{index}", "summary": [], "content": []}
    events: list[Payload] = []
    for place, kind, channel, opened in (
        ("content", "reasoning_text", draw(st.sampled_from(["reasoning_text", "reasoning"])), "content_part"),
        ("summary", "summary_text", "reasoning_summary_text", "reasoning_summary_part"),
    ):
        for number in range(draw(st.integers(0, 2))):
            pieces = draw(PIECES)
            at = {"output_index": index, "item_id": item["id"], f"{place}_index": number}
            part = {"type": kind, "text": "".join(pieces)}
            item[place] = [*item[place], part]
            events += [
                {"type": f"response.{opened}.added", **at, "part": {**part, "text": ""}},
                *(delta(channel, piece, at) for piece in pieces),
                {"type": f"response.{channel}.done", **at, "text": part["text"]},
                {"type": f"response.{opened}.done", **at, "part": part},
            ]
    return track(index, item, {**item, "summary": [], "content": []}, events)


def call(draw: st.DrawFn, index: int) -> Track:
    kind, channel, name = draw(
        st.sampled_from(
            [
                ("function_call", "function_call_arguments", "arguments"),
                ("mcp_call", "mcp_call_arguments", "arguments"),
                ("custom_tool_call", "custom_tool_call_input", "input"),
                ("code_interpreter_call", "code_interpreter_call_code", "code"),
            ]
        )
    )
    at = {"output_index": index, "item_id": f"call_{index}"}
    pieces = draw(PIECES)
    item = {"type": kind, "id": at["item_id"], "call_id": f"c_{index}", "name": "probe", name: "".join(pieces)}
    done = {"type": f"response.{channel}.done", **at, name: item[name]}
    return track(index, item, {**item, name: ""}, [*(delta(channel, piece, at) for piece in pieces), done])


def shell(draw: st.DrawFn, index: int) -> Track:
    commands: list[str] = []
    events: list[Payload] = []
    for number in range(draw(st.integers(1, 2))):
        pieces = draw(PIECES)
        at = {"output_index": index, "command_index": number}
        commands.append("".join(pieces))
        events += [
            {"type": "response.shell_call_command.added", **at, "command": ""},
            *(delta("shell_call_command", piece, at) for piece in pieces),
            {"type": "response.shell_call_command.done", **at, "command": commands[-1]},
        ]
    item = {"type": "shell_call", "id": f"sh_{index}", "call_id": f"c_{index}", "action": {"commands": commands}}
    return track(index, item, {**item, "action": {"commands": []}}, events)


def printed(draw: st.DrawFn, index: int) -> Track:
    item: Payload = {"type": "shell_call_output", "id": f"out_{index}", "call_id": f"c_{index}", "output": []}
    events: list[Payload] = []
    for number in range(draw(st.integers(1, 2))):
        at = {"output_index": index, "item_id": item["id"], "command_index": number}
        deltas = draw(st.lists(st.dictionaries(st.sampled_from(["stdout", "stderr"]), TEXTS, min_size=1), min_size=1))
        whole = {stream: "".join(delta.get(stream, "") for delta in deltas) for stream in ("stdout", "stderr")}
        record = {**whole, "outcome": {"type": "exit", "exit_code": draw(st.integers(0, 255))}}
        item["output"] = [*item["output"], record]
        events += [{"type": "response.shell_call_output_content.delta", **at, "delta": delta} for delta in deltas]
        events += [{"type": "response.shell_call_output_content.done", **at, "output": [record]}]
    return track(index, item, {**item, "output": []}, events)


def delta(channel: str, piece: str, at: Payload) -> Payload:
    return {"type": f"response.{channel}.delta", **at, "delta": piece}


def track(index: int, item: Payload, begun: Payload, events: list[Payload]) -> Track:
    added = {"type": "response.output_item.added", "output_index": index, "item": begun}
    done = {"type": "response.output_item.done", "output_index": index, "item": item}
    return Track([added, *events, done], item)


KINDS: Sequence[Callable[[st.DrawFn, int], Track]] = (message, message, reasoning, call, shell, printed)


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Streams of up to three items, one after another or all at once."""
    tracks = [draw(st.sampled_from(KINDS))(draw, index) for index in range(draw(st.integers(0, 3)))]
    merged: list[Payload] = []
    waiting = [list(track.events) for track in tracks]
    turns = draw(st.none() | st.randoms(use_true_random=False))
    while any(waiting):
        ready = [events for events in waiting if events]
        merged.append((turns.choice(ready) if turns else ready[0]).pop(0))
    output = [track.item for track in tracks]
    response: Payload = {"id": "resp_1", "created_at": 1, "status": "in_progress", "output": []}
    return Stream(
        [
            {"type": "response.created", "response": response},
            {"type": "response.in_progress", "response": response},
            *merged,
            {"type": "response.completed", "response": {**response, "status": "completed", "output": output}},
        ],
        output,
    )


CAPTURED = [read_capture(name) for name in SAMPLED if name in capture_names()]
BODIES = streams().map(lambda stream: stream.body) | (st.sampled_from(CAPTURED) if CAPTURED else st.nothing())
CUTS = st.lists(st.floats(0, 1), max_size=30)
relaxed = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])


def cut(body: bytes, cuts: Sequence[float]) -> list[bytes]:
    """Cut a body at places that may coincide."""
    borders = [0, *sorted(int(place * len(body)) for place in cuts), len(body)]
    return [body[start:stop] for start, stop in pairwise(borders)]


def frames_of(chunks: Sequence[bytes]) -> list[Frame]:
    parser = FrameParser()
    return [frame for chunk in chunks for frame in parser.feed(chunk)] + parser.end()


def events_of(chunks: Sequence[bytes]) -> list[Event]:
    decoder = Decoder()
    return [*(event for frame in frames_of(chunks) for event in decoder.feed(frame)), *decoder.end()]


def payloads_of(body: bytes) -> list[Payload]:
    """The events of a body, without their numbers."""
    payloads = [json.loads(frame.data) for frame in frames_of([body]) if frame.data != b"[DONE]"]
    return [{name: value for name, value in payload.items() if name != "sequence_number"} for payload in payloads]


def written(value: object) -> str:
    """Write a value as JSON, for comparing more closely than Python does: true is not 1, and 1 is not 1.0."""
    return json.dumps(to_wire(value), sort_keys=True, indent=1)


# the builder itself


@relaxed
@given(streams())
def test_a_stream_that_breaks_no_rule_is_not_complained_of(stream: Stream) -> None:
    ran = run(stream.body, STRICT.but(field_missing="ignore"))  # the builder leaves out what does not matter here
    assert (ran.error, ran.reported) == (None, [])
    assert len(ran.events) == len(stream.payloads)
    assert written(ran.final.output) == written(stream.output)


# framing


@relaxed
@given(BODIES, CUTS, st.sampled_from(LINE_ENDS), st.sampled_from([b"", b"\xef\xbb\xbf"]))
def test_every_cut_and_every_line_end_give_the_same_frames_and_events(
    body: bytes, cuts: list[float], line_end: bytes, mark: bytes
) -> None:
    chunks = cut(mark + body.replace(b"\n", line_end), cuts)
    assert frames_of(chunks) == frames_of([body])
    assert events_of(chunks) == events_of([body])


@pytest.mark.parametrize("line_end", LINE_ENDS)
@pytest.mark.parametrize("name", BYTEWISE)
def test_a_capture_byte_by_byte_gives_the_same_events_and_response(name: str, line_end: bytes) -> None:
    shared("captures")  # where they are absent, this is the reason for the skip
    body = read_capture(name)
    spelled = body.replace(b"\n", line_end)
    chunks = [spelled[place : place + 1] for place in range(len(spelled))]
    assert frames_of(chunks) == frames_of([body])
    whole, ran = run(body), run(chunks)
    assert ran.events == whole.events
    assert ran.reported == whole.reported
    assert written(ran.final) == written(whole.final)


@relaxed
@given(streams(), st.sampled_from(LINE_ENDS))
def test_a_stream_byte_by_byte_gives_its_response(stream: Stream, line_end: bytes) -> None:
    spelled = stream.body.replace(b"\n", line_end)
    ran = run(spelled[place : place + 1] for place in range(len(spelled)))
    assert ran.reported == []
    assert written(ran.final.output) == written(stream.output)


@relaxed
@given(BODIES, CUTS)
def test_every_cut_gives_the_same_response(body: bytes, cuts: list[float]) -> None:
    whole, ran = run(body), run(cut(body, cuts))
    assert ran.events == whole.events
    assert ran.reported == whole.reported
    assert written(ran.final) == written(whole.final)


# noise

NOISE: list[Payload | bytes] = [
    {"type": "keepalive"},
    {"type": "vendor:thing", "output_index": 0, "delta": "not yours"},
    {"type": "response.of_the_future.delta", "item_id": "msg_0", "response": {"id": "another"}},
    b": ping\n\n",
    b":\n",
    b"\n\n",
    b"retry: 1000\n\n",
    b"id: 7\n\n",
    b"event: keepalive\n\n",
]
PLACED = st.lists(st.tuples(st.floats(0, 1), st.sampled_from(NOISE)), max_size=12)


@relaxed
@given(BODIES, PLACED)
def test_noise_changes_nothing_in_the_response(body: bytes, placed: list[tuple[float, Payload | bytes]]) -> None:
    payloads = payloads_of(body)
    plain = run(b"".join(map(record, numbered(payloads))))
    noisy = run(body_with(payloads, placed))
    assert noisy.error is None
    assert noisy.codes == plain.codes
    assert written(noisy.final) == written(plain.final)
    assert len(noisy.events) == len(plain.events) + sum(isinstance(noise, dict) for _, noise in placed)


def body_with(payloads: Sequence[Payload], placed: Sequence[tuple[float, Payload | bytes]]) -> bytes:
    """Write a body with noise between its records: before the first, after the last, and in between."""
    mixed: list[Payload | bytes] = list(payloads)
    for place, noise in placed:
        mixed.insert(round(place * len(mixed)), noise)
    numbers = iter(numbered([piece for piece in mixed if isinstance(piece, dict)]))
    return b"".join(record(next(numbers)) if isinstance(piece, dict) else piece for piece in mixed)


@relaxed
@given(BODIES, st.sampled_from([b": note\n", b":\n", b"note: x\n", b"note\n", b"retry: soon\n"]))
def test_lines_that_mean_nothing_change_no_record(body: bytes, line: bytes) -> None:
    assert frames_of([body.replace(b"data: ", line + b"data: ")]) == frames_of([body])


# deltas


@relaxed
@given(streams(), st.randoms(use_true_random=False))
def test_finer_deltas_give_the_same_texts(stream: Stream, random: Random) -> None:
    ran = run(b"".join(map(record, numbered(finer(stream.payloads, random)))))
    assert ran.reported == []
    assert written(ran.final.output) == written(stream.output)
    so_far = [accumulated(events) for events in (stream.middle, finer(stream.middle, random))]
    assert so_far[0] == so_far[1] == [written({**item, "status": None}) for item in stream.output]


def finer(payloads: Sequence[Payload], random: Random) -> list[Payload]:
    """Split deltas anywhere, even in front of their first character; log probabilities stay with the first piece."""
    split: list[Payload] = []
    for payload in payloads:
        text = piece if isinstance(piece := payload.get("delta"), str) else ""
        borders = [0, *sorted(random.randint(0, len(text)) for _ in range(random.randint(0, 3))), len(text)]
        pieces = [text[start:stop] for start, stop in pairwise(borders)] if text else []
        split += [{**payload, "delta": piece} | ({"logprobs": []} if at else {}) for at, piece in enumerate(pieces)]
        split += [] if pieces else [payload]
    return split


def accumulated(payloads: Sequence[Payload]) -> list[str]:
    """The items that some events make, all with the same status."""
    accumulator = Accumulator()
    for event in events_of([b"".join(map(record, numbered(payloads)))]):
        accumulator.feed(event)
    return [written({**to_wire(item), "status": None}) for _, item in sorted(accumulator.items.items())]


@relaxed
@given(streams())
def test_a_snapshot_is_what_was_streamed_so_far(stream: Stream) -> None:
    streamed: dict[tuple[object, ...], str] = {}
    ran = run(stream.body)
    for payload, event in zip(stream.payloads, ran.events, strict=True):
        if isinstance(event, DeltaEvent):  # what commands print has a shape of its own
            at = (payload["type"], *(value for name, value in payload.items() if name.endswith("_index")))
            streamed[at] = streamed.get(at, "") + payload["delta"]
            assert event.snapshot == streamed[at]


# what servers leave out, and what they contradict


@relaxed
@given(streams())
def test_what_the_terminal_says_wins_over_what_was_streamed(stream: Stream) -> None:
    *payloads, terminal = stream.payloads
    response: Payload = {**terminal["response"], "output": [contradicted(item) for item in stream.output]}
    ran = run(b"".join(map(record, numbered([*payloads, {**terminal, "response": response}]))))
    assert written(ran.final.output) == written(response["output"])
    assert set(ran.codes) == ({"terminal_mismatch"} if response["output"] != stream.output else set())


def contradicted(item: Payload) -> Payload:
    """Say every text of an item differently."""
    changed: Payload = json.loads(json.dumps(item), object_hook=_contradict)
    return changed


def _contradict(fields: Payload) -> Payload:
    told = ("text", "refusal", "arguments", "input", "code")
    texts: Payload = {name: f"{fields[name]}!" for name in told if name in fields}
    commands = {"commands": [f"{command}!" for command in fields["commands"]]} if "commands" in fields else {}
    return {**fields, **texts, **commands}


@relaxed
@given(BODIES)
def test_without_numbers_the_response_is_the_same_and_one_report_says_so(body: bytes) -> None:
    payloads = payloads_of(body)
    with_numbers, without = (
        run(b"".join(map(record, numbered(sent))))
        for sent in (payloads, [{**payload, "sequence_number": None} for payload in payloads])
    )
    assert written(without.final) == written(with_numbers.final)
    assert without.codes == ["sequence_missing", *with_numbers.codes]
    assert without.accumulator.cursor is None


@relaxed
@given(streams())
def test_without_items_in_the_terminal_they_are_as_they_were_streamed(stream: Stream) -> None:
    *payloads, terminal = stream.payloads
    response: Payload = {**terminal["response"], "output": []}
    empty: Payload = {**terminal, "response": response}
    ran = run(b"".join(map(record, numbered([*payloads, empty]))))
    assert ran.codes == (["terminal_output_empty"] if stream.output else [])
    assert written(ran.final.output) == written(stream.output)


@relaxed
@given(streams(), st.floats(0, 1, exclude_max=True))
def test_a_stream_that_ends_early_is_interrupted_where_it_ends(stream: Stream, place: float) -> None:
    sent = stream.payloads[: int(place * len(stream.payloads))]
    ran = run(b"".join(map(record, numbered(sent))))
    assert isinstance(ran.error, StreamInterrupted)
    assert ran.error.cursor == (Cursor("resp_1", len(sent) - 1) if sent else None)
    assert (ran.error.snapshot is None) == (not sent)
