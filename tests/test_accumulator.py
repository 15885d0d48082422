"""The accumulator: snapshots as of every event, what wins where sources differ, and what it costs."""

from __future__ import annotations

import copy
import json
import pickle
from base64 import b64encode
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orx_rx.errors import ConnectionLost, LifecycleViolation, OrxError, SchemaViolation, ServerError
from orx_rx.models.argument_events import ResponseShellCallOutputContentDeltaEvent, ShellOutputDelta
from orx_rx.models.audio_events import ResponseAudioDeltaEvent
from orx_rx.models.base import to_wire
from orx_rx.models.event_base import DeltaEvent, Event
from orx_rx.models.item_events import ResponseOutputItemDoneEvent
from orx_rx.models.lifecycle_events import TerminalEvent
from orx_rx.models.response import Response
from orx_rx.models.text_events import ResponseTextDeltaEvent
from orx_rx.protocol import holding
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.channels import CHANNELS, Channel, part_channel
from orx_rx.protocol.cursor import Cursor
from orx_rx.protocol.growth import Sound
from orx_rx.protocol.violations import DEFAULT, QUIET, RULES, STRICT, Judge, Profile
from tests.chain import (
    CountingText,
    Payload,
    added,
    arguments_delta,
    arguments_done,
    at,
    call,
    created,
    delta,
    events,
    finished,
    hello,
    in_progress,
    item,
    least,
    message,
    numbered,
    output_text,
    part_added,
    part_done,
    record,
    run,
    terminal,
    text_done,
)

TELLING = Profile("TELLING", dict.fromkeys(RULES, "report"))


def feed(*payloads: Payload, into: Accumulator | None = None) -> tuple[Accumulator, list[Event]]:
    """Accumulate some payloads and return what came out as well."""
    accumulator = into or Accumulator(Judge(QUIET))
    return accumulator, [out for event in events(*payloads) for out in accumulator.feed(event)]


def so_far(*payloads: Payload) -> list[Any]:
    """The items after some payloads, as they would go over the wire."""
    response = feed(*payloads)[0].response
    assert response is not None
    return [to_wire(each) for each in response.output or ()]


def told(*payloads: Payload) -> list[tuple[str, str]]:
    """The code and place of what an accumulator reports."""
    judge = Judge(TELLING)
    feed(*payloads, into=Accumulator(judge))
    return [(violation.code, violation.place) for violation in judge.reported]


def snapshot_of(event: Any) -> Any:
    return event.snapshot


# every channel


def name_of(channel: Channel) -> str:
    return str(channel.delta.model_fields["type"].default)


ALL = pytest.mark.parametrize("channel", CHANNELS, ids=name_of)
TEXTS = [channel for channel in CHANNELS if channel.items and channel.compared]
SOURCES = list(product(["deltas", ""], ["done", "", None], ["item", "", None], ["end", "", None]))
ALL_TEXTS = pytest.mark.parametrize("channel", TEXTS, ids=name_of)


def pieces_of(channel: Channel) -> list[Any]:
    if channel.name == "audio":
        return [b64encode(piece).decode() for piece in (b"one", b"", b"four")]
    if channel.name == "shell_output":
        return [{"stdout": "on"}, {"stderr": "no"}, {"stdout": "e", "stderr": None}]
    return ["one", "", " two \u5317"]


def joined(channel: Channel, pieces: list[Any]) -> Any:
    if channel.name == "audio":
        return [b"", b"one", b"one", b"onefour"][len(pieces)]
    if channel.name == "shell_output":
        stdout, stderr = [("", ""), ("on", ""), ("on", "no"), ("one", "no")][len(pieces)]
        return ShellOutputDelta(stdout=stdout, stderr=stderr)
    return "".join(pieces)


def kind_of(channel: Channel) -> str:
    return next(iter(channel.items), "")


def deltas_of(channel: Channel, pieces: list[Any], **place: int) -> list[Payload]:
    return [{**least(name_of(channel)), **place, "delta": piece} for piece in pieces]


def done_of(channel: Channel, said: Any, **place: int) -> Payload:
    payload = {**least(str(channel.done.model_fields["type"].default)), **place}
    return {**payload, channel.told: said} if channel.told else payload


def item_of(channel: Channel, said: Any) -> Payload:
    """An item that says something in the place of a channel, or nothing."""
    kind = kind_of(channel)
    if channel.parts:
        parts = [] if said is None else [{"type": channel.parts[0], channel.field: said}]
        return item(kind, f"{kind}_a", **{channel.place: parts})
    if channel.place == "commands":
        return item(kind, f"{kind}_a", action={"commands": [] if said is None else [said]})
    return item(kind, f"{kind}_a", **({} if said is None else {channel.field: said}))


def read(channel: Channel, response: Response | None) -> Any:
    """What a response says in the place of a channel."""
    assert response is not None
    (found,) = list(response.output or ())
    return holding.said_of(found, channel, 0)


@ALL
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [2, 0, 1, 2, 0]])
def test_a_delta_knows_what_it_adds_to_as_of_itself_whenever_it_is_read(channel: Channel, order: list[int]) -> None:
    pieces = pieces_of(channel)
    _, out = feed(created(), *deltas_of(channel, pieces))
    out = out[1:]
    for place in order:
        event = out[place]
        assert isinstance(event, channel.delta)
        assert snapshot_of(event) == joined(channel, pieces[: place + 1])


@ALL
def test_a_delta_that_is_read_at_once_knows_the_same(channel: Channel) -> None:
    pieces = pieces_of(channel)
    accumulator = Accumulator()
    for place, event in enumerate(events(*deltas_of(channel, pieces))):
        (out,) = accumulator.feed(event)
        assert snapshot_of(out) == joined(channel, pieces[: place + 1])


@pytest.mark.parametrize("read_first", [True, False])
def test_the_length_and_the_tail_are_those_of_the_snapshot(read_first: bool) -> None:
    _, out = feed(created(), *[delta(piece) for piece in ("ab", "", "cde", "f")])
    deltas = [event for event in out if isinstance(event, DeltaEvent)]
    if read_first:
        assert deltas[2].snapshot == "abcde"
    for event, whole in zip(deltas, ["ab", "ab", "abcde", "abcdef"], strict=True):
        assert event.snapshot_length == len(whole)
        for size in range(9):
            assert event.snapshot_tail(size) == whole[max(0, len(whole) - size) :]
    assert [event.snapshot for event in deltas] == ["ab", "ab", "abcde", "abcdef"]


@ALL_TEXTS
@pytest.mark.parametrize("values", SOURCES)
def test_the_last_source_that_says_anything_wins(channel: Channel, values: tuple[str | None, ...]) -> None:
    deltas, done, whole, end = values
    accumulator, out = feed(
        created(),
        added(item_of(channel, None)),
        *(deltas_of(channel, [deltas[:3], deltas[3:]]) if deltas else []),
        *([] if done is None else [done_of(channel, done)]),
        finished(item_of(channel, whole)),
        terminal(output=[item_of(channel, end)]),
    )
    assert (read(channel, accumulator.response) or "") == (end or whole or done or deltas)
    last = out[-1]
    assert isinstance(last, TerminalEvent)
    assert last.response is accumulator.response is accumulator.final_response
    one_before = out[-2]
    assert isinstance(one_before, ResponseOutputItemDoneEvent)
    assert one_before.item is not None
    assert (holding.said_of(one_before.item, channel, 0) or "") == (whole or done or deltas)


@ALL_TEXTS
def test_what_was_streamed_is_in_the_response_before_anything_is_done(channel: Channel) -> None:
    stream = [created(), added(item_of(channel, None)), *deltas_of(channel, ["one", "two"])]
    assert read(channel, feed(*stream)[0].response) == "onetwo"
    assert read(channel, feed(*stream, done_of(channel, "told"))[0].response) == "told"
    assert read(channel, feed(*stream, done_of(channel, ""))[0].response) == "onetwo"


@ALL_TEXTS
def test_an_item_that_was_never_added_is_there_with_what_was_streamed(channel: Channel) -> None:
    accumulator, _ = feed(created(), *deltas_of(channel, ["one", "two"]))
    assert read(channel, accumulator.response) == "onetwo"
    assert [each.type for each in accumulator.items.values()] == [kind_of(channel)]


@ALL_TEXTS
def test_differences_are_told_with_their_place(channel: Channel) -> None:
    place = f"output[0].{channel.place}[0]" if channel.index else f"output[0].{channel.place}"
    opening = [created(), added(item_of(channel, None)), *deltas_of(channel, ["one", "two"])]
    same, other = item_of(channel, "onetwo"), item_of(channel, "two")
    assert told(*opening, done_of(channel, "onetwo"), finished(same), terminal(output=[same])) == []
    assert told(*opening, done_of(channel, "two")) == [("done_mismatch", place)]
    assert told(*opening, done_of(channel, "")) == [("done_mismatch", place)]
    assert told(*opening, finished(other)) == [("done_mismatch", place)]
    assert told(*opening, finished(item_of(channel, None))) == [("done_mismatch", place)]
    assert told(*opening, terminal(output=[other])) == [("terminal_mismatch", f"response.{place}")]
    assert told(*opening, finished(same), terminal(output=[other])) == [("terminal_mismatch", f"response.{place}")]
    assert told(created(), finished(same), terminal(output=[other])) == [("terminal_mismatch", f"response.{place}")]
    # nothing was streamed, so there is nothing to differ from
    assert told(created(), added(item_of(channel, None)), finished(same), terminal(output=[same])) == []


def test_a_difference_that_is_raised_carries_the_response_so_far() -> None:
    accumulator = Accumulator(Judge(STRICT))
    *before, last = events(*hello()[:5], text_done("Help"))
    for event in before:
        accumulator.feed(event)
    with pytest.raises(LifecycleViolation, match="expected the 5 characters that were streamed, got 4 ") as caught:
        accumulator.feed(last)
    assert caught.value.snapshot is not None
    assert caught.value.snapshot.output_text == "Hello"


def test_a_message_about_a_difference_says_nothing_of_the_texts() -> None:
    judge = Judge(TELLING)
    feed(*hello()[:5], text_done("SECRET"), finished(message("SECRET")), into=Accumulator(judge))
    assert judge.reported
    assert not [violation for violation in judge.reported if "SECRET" in str(violation) or "Hello" in str(violation)]


def test_a_part_that_is_done_wins_over_its_text_and_loses_to_its_item() -> None:
    opening = [created(), added(), part_added(), delta("deltas"), text_done("text")]
    assert content_of(*opening, part_done(output_text("part"))) == [output_text("part")]
    assert content_of(*opening, part_done(output_text(""))) == [output_text("text")]
    assert content_of(*opening, part_done(output_text("part")), finished(message("item"))) == [output_text("item")]
    assert told(*opening[:4], part_done(output_text("part"))) == [("done_mismatch", "output[0].content[0]")]


def test_a_part_may_begin_with_text() -> None:
    opening = [created(), added(), part_added(output_text("He"))]
    accumulator, out = feed(*opening, delta("ll"), delta("o"))
    assert [event.snapshot for event in out if isinstance(event, DeltaEvent)] == ["Hell", "Hello"]
    assert accumulator.response is not None
    assert accumulator.response.output_text == "Hello"
    assert told(*opening, delta("llo"), text_done("Hello"), part_done(output_text("Hello"))) == []
    assert so_far(*opening)[0]["content"] == [output_text("He")]


def test_a_command_may_begin_with_text() -> None:
    shell = item("shell_call", "sh_a", action={"commands": [], "timeout_ms": 5})
    command = {"type": "response.shell_call_command.added", "output_index": 0, "command_index": 0, "command": "ls"}
    more = {"type": "response.shell_call_command.delta", "output_index": 0, "command_index": 0, "delta": " -l"}
    assert so_far(created(), added(shell), command, more)[0]["action"] == {"commands": ["ls -l"], "timeout_ms": 5}
    assert so_far(created(), command, more)[0]["action"] == {"commands": ["ls -l"]}
    assert so_far(created(), command | {"command": ""}, more)[0]["action"] == {"commands": [" -l"]}
    # that a command was added is in the list, though it says nothing yet
    assert len(so_far(created(), command | {"command": ""})[0]["action"]["commands"]) == 1


# places


def test_an_index_that_comes_first_is_not_shifted_to_the_front() -> None:
    third, first = delta("late", index=7, content=3), delta("early", index=7, content=0)
    accumulator, out = feed(created(), added(at=7), third, first)
    assert list(accumulator.items) == [7]
    assert snapshot_of(out[-1]) == "early"
    assert [part["text"] for part in to_wire(accumulator.items[7])["content"]] == ["early", "late"]
    _, out = feed(delta("r", index=7, content=3), into=accumulator)
    assert snapshot_of(out[0]) == "later"


def test_items_are_in_the_order_of_their_index_whenever_they_came() -> None:
    stream = [created(), added(call(n="c"), at=9), added(message(id="msg_b"), at=4), delta("b", index=4, id="msg_b")]
    assert [each["id"] for each in so_far(*stream)] == ["msg_b", "fc_c"]


def test_a_terminal_settles_what_came_with_sparse_indices() -> None:
    stream = [created(), added(at=7), delta("Hel", index=7, content=3), terminal(output=[message("Hello")])]
    assert so_far(*stream) == [message("Hello")]
    stream[-1] = terminal(output=[message()])
    assert so_far(*stream) == [message() | {"content": [{"type": "output_text", "text": "Hel"}]}]


def test_two_items_and_two_parts_never_meet() -> None:
    stream = [
        delta(f"{index}{content}{piece}", index=index, content=content)
        for piece in "ab"
        for index in (0, 1)
        for content in (0, 1)
    ]
    accumulator, _ = feed(created(), *stream)
    assert accumulator.response is not None
    assert accumulator.response.output_text == "00a00b01a01b10a10b11a11b"


def test_a_plain_text_belongs_to_what_its_item_is() -> None:
    assert part_channel("content", "text", "reasoning") is next(row for row in CHANNELS if row.name == "reasoning")
    assert part_channel("content", "text", "message") is next(row for row in CHANNELS if row.name == "text")
    assert part_channel("content", "text") is None
    assert part_channel("content", "x:chart", "message") is None
    thought = item("reasoning", "rs_a", content=[{"type": "text", "text": "because"}])
    stream = [
        created(),
        added(item("reasoning", "rs_a")),
        part_added({"type": "text", "text": ""}, id="rs_a"),
        delta("because", "reasoning", id="rs_a"),
    ]
    assert so_far(*stream)[0]["content"] == [{"type": "text", "text": "because"}]
    assert told(*stream, finished(thought), terminal(output=[thought])) == []


@pytest.mark.parametrize("name", ["added", "done"])
def test_an_item_that_is_null_is_what_its_events_say(name: str) -> None:
    null = {"type": f"response.output_item.{name}", "output_index": 0, "item": None}
    assert so_far(created(), null) == [{"type": "unknown"}]
    assert so_far(created(), null, delta("Hello")) == [
        {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]}
    ]
    assert so_far(created(), added(), null, delta("Hello")) == [
        message() | {"content": [{"type": "output_text", "text": "Hello"}]}
    ]
    assert told(created(), null, delta("Hello"), finished(), terminal(output=[message("Hello")])) == []


# streams that begin in the middle


def test_a_suffix_completes_what_the_same_accumulator_knows() -> None:
    stream = numbered(hello())
    accumulator = Accumulator()
    before = [out for event in events(*stream[:4]) for out in accumulator.feed(event)]
    assert accumulator.cursor == Cursor("resp_a", 3)
    ran = run([event for event in events(*stream[4:])], accumulator=accumulator)
    assert ran.error is None
    assert snapshot_of(before[-1]) == "Hel"
    assert ran.events[0].snapshot == "Hello"  # type: ignore[attr-defined] # pyright: ignore
    assert ran.final.output_text == "Hello"


def test_a_suffix_alone_knows_what_it_brought_and_the_terminal_settles_it() -> None:
    judge = Judge(TELLING)
    accumulator = Accumulator(judge)
    deltas = [out for event in events(*numbered(hello())[4:5]) for out in accumulator.feed(event)]
    assert snapshot_of(deltas[0]) == "lo"
    assert accumulator.response is not None
    assert (accumulator.response.id, accumulator.response.output_text) == ("", "lo")
    assert accumulator.response_id is None
    assert accumulator.cursor is None
    feed(*numbered(hello())[5:], into=accumulator)
    assert judge.reported == []  # nobody can say whether the pieces fit what came before
    assert accumulator.final_response is not None
    assert accumulator.final_response.output_text == "Hello"
    assert accumulator.cursor == Cursor("resp_a", 8)


def test_an_item_that_a_suffix_opens_is_compared_like_any_other() -> None:
    stream = [delta("lo"), added(message(id="msg_b"), at=1), delta("Hel", index=1), text_done("Hello", index=1)]
    assert told(*stream) == [("done_mismatch", "output[1].content[0]")]


def test_what_a_snapshot_of_the_server_brings_is_there() -> None:
    stream = [in_progress(output=[message("Hel"), call('{"a":')])]
    assert so_far(*stream) == [message("Hel"), call('{"a":')]
    assert so_far(*stream, finished(message("Hello")))[0] == message("Hello")
    accumulator, out = feed(*stream, delta("lo"), arguments_delta("1}", 1))
    assert [snapshot_of(event) for event in out[1:]] == ["Hello", '{"a":1}']
    assert accumulator.response is not None
    assert to_wire(accumulator.response.output) == [message("Hello"), call('{"a":1}')]


def test_an_item_that_is_added_after_such_a_snapshot_begins_anew() -> None:
    stream = [created(output=[message("Hel")]), *hello()[1:]]
    accumulator, out = feed(*stream[:5])
    assert [snapshot_of(event) for event in out[3:5]] == ["Hel", "Hello"]
    assert accumulator.response is not None
    assert accumulator.response.output_text == "Hello"
    assert told(*stream) == []


def test_what_was_streamed_is_not_replaced_by_a_snapshot_of_the_server() -> None:
    stream = [created(), added(), delta("Hello"), in_progress(output=[message("old")])]
    assert so_far(*stream)[0]["content"] == [{"type": "output_text", "text": "Hello"}]


# what belongs to a text


def annotated(index: int, **place: Any) -> Payload:
    annotation = {"type": "file_path", "file_id": f"file_{index}"}
    type_ = "response.output_text.annotation.added"
    return {"type": type_, **at(**place), "annotation_index": index, "annotation": annotation}


def cited(*indices: int) -> list[Payload]:
    return [{"type": "file_path", "file_id": f"file_{index}"} for index in indices]


def content_of(*payloads: Payload) -> Any:
    return so_far(*payloads)[0]["content"]


def test_annotations_are_kept_by_their_index() -> None:
    opening = [created(), added(), part_added(), delta("a"), annotated(4), annotated(0), annotated(2)]
    assert content_of(*opening) == [{**output_text("a"), "annotations": cited(0, 2, 4)}]
    assert content_of(*opening, part_done(output_text("a")))[0]["annotations"] == cited(0, 2, 4)
    done = part_done(output_text("a", annotations=cited(7)))
    assert content_of(*opening, done)[0]["annotations"] == cited(7)
    whole = finished(message() | {"content": [output_text("a", annotations=cited(8))]})
    assert content_of(*opening, done, whole)[0]["annotations"] == cited(8)
    end = terminal(output=[message("a")])
    assert content_of(*opening, done, whole, end)[0]["annotations"] == cited(8)
    assert content_of(*opening, finished(message("a")), end)[0]["annotations"] == cited(0, 2, 4)


def test_an_annotation_may_come_after_its_part_and_an_annotation_of_an_unknown_shape_is_kept() -> None:
    strange = {**annotated(1), "annotation": ["page", 3]}
    stream = [created(), added(), part_added(), delta("a"), part_done(output_text("a")), annotated(0), strange]
    assert content_of(*stream)[0]["annotations"] == [*cited(0), ["page", 3]]


def logprob(token: str) -> Payload:
    return {"token": token, "logprob": -0.5, "bytes": None, "top_logprobs": []}


LOGPROBS: list[Any] = [[logprob("a")], [logprob("b")], []]


def test_logprobs_are_collected() -> None:
    deltas = [delta(piece) | {"logprobs": logprobs} for piece, logprobs in zip("abc", LOGPROBS, strict=True)]
    opening = [created(), added(), part_added(), *deltas, delta("d")]
    assert content_of(*opening)[0]["logprobs"] == [logprob("a"), logprob("b")]
    done = {**text_done("abcd"), "logprobs": [logprob("abcd")]}
    assert content_of(*opening, done)[0]["logprobs"] == [logprob("abcd")]
    assert content_of(*opening, text_done("abcd"))[0]["logprobs"] == [logprob("a"), logprob("b")]
    part = output_text("abcd", logprobs=[logprob("x")])
    assert content_of(*opening, done, part_done(part))[0]["logprobs"] == [logprob("x")]
    whole = message() | {"content": [part]}
    assert content_of(*opening, finished(whole), terminal(output=[message("abcd")]))[0]["logprobs"] == [logprob("x")]


@pytest.mark.parametrize("shape", [None, 5, True, "text", {"token": "a"}])
def test_logprobs_of_another_shape_are_left_in_their_event(shape: object) -> None:
    odd = {"logprobs": shape}
    stream = [created(), added(), part_added(), delta("a") | odd, text_done("a") | odd]
    _, out = feed(*stream)
    assert to_wire(out[3])["logprobs"] == shape
    assert content_of(*stream) == [output_text("a")]


# images, sound, shells, and the states of hosted tools


def test_partial_images_are_kept_by_item_and_number() -> None:
    image = least("response.image_generation_call.partial_image")
    stream = [{**image, "output_index": 1, "partial_image_index": n, "partial_image_b64": f"{n}"} for n in (0, 1, 1)]
    stream[2]["partial_image_b64"] = "again"
    accumulator, _ = feed(created(), added(item("image_generation_call", "ig_a"), at=1), *stream)
    assert accumulator.images == {(1, 0): "0", (1, 1): "again"}
    assert to_wire(accumulator.items[1]) == item("image_generation_call", "ig_a", status="generating")


def test_sound_and_transcript_belong_to_the_response_as_a_whole() -> None:
    sound = [{"type": "response.audio.delta", "delta": piece} for piece in pieces_of(CHANNELS[-2])]
    words = [{"type": "response.audio.transcript.delta", "delta": piece} for piece in ("Hel", "lo")]
    accumulator, _ = feed(created(), words[0], *sound, words[1], least("response.audio.done"))
    assert (accumulator.audio, accumulator.transcript) == (b"onefour", "Hello")
    assert accumulator.items == {}
    assert (Accumulator().audio, Accumulator().transcript) == (b"", "")


@pytest.mark.parametrize("size", range(1, 10))
def test_sound_may_be_cut_anywhere(size: int) -> None:
    whole = bytes(range(50))
    text = b64encode(whole).decode()
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    accumulator, out = feed(*[{"type": "response.audio.delta", "delta": piece} for piece in pieces])
    assert accumulator.audio == whole
    for event in out:
        assert isinstance(event, ResponseAudioDeltaEvent)
        assert whole.startswith(event.snapshot)


def test_the_end_of_a_sound_is_its_last_pieces() -> None:
    sound = Sound()
    for piece in (b"one", b"two", b"three"):
        sound.append(b64encode(piece).decode())
    assert [sound.tail(3, size) for size in range(5)] == [b"", b"three", b"twothree", b"onetwothree", b"onetwothree"]
    assert sound.tail(2, 1) == b"two"


def test_sound_that_is_no_base64_is_an_error_of_ours() -> None:
    accumulator, _ = feed({"type": "response.audio.delta", "delta": "A==="})
    with pytest.raises(SchemaViolation, match="expected sound in base64, got 4 characters that are not"):
        _ = accumulator.audio


def printed(index: int, **streams: str | None) -> Payload:
    return {"type": "response.shell_call_output_content.delta", **COMMAND, "command_index": index, "delta": streams}


COMMAND = {"output_index": 0, "command_index": 0}
SHELL_OUTPUT = item("shell_call_output", "so_a", output=[])


def output_of(*payloads: Payload) -> Any:
    return so_far(created(), added(SHELL_OUTPUT), *payloads)[0]["output"]


def test_what_commands_print_is_kept_by_command_on_both_streams() -> None:
    last = printed(1, stdout="c", stderr=None)
    deltas = [printed(1, stdout="b"), printed(0, stdout="a"), printed(1, stderr="!"), last]
    assert output_of(*deltas) == [{"stdout": "a", "stderr": ""}, {"stdout": "bc", "stderr": "!"}]
    _, out = feed(*deltas)
    assert isinstance(out[3], ResponseShellCallOutputContentDeltaEvent)
    assert to_wire(out[3].snapshot) == {"stdout": "bc", "stderr": "!"}


def test_a_command_may_print_several_records() -> None:
    exits = {"type": "exit", "exit_code": 0}
    records = [{"stdout": "a", "outcome": exits}, {"stdout": "b", "outcome": {"type": "timeout"}}]
    done = {"type": "response.shell_call_output_content.done", **COMMAND, "output": records}
    assert output_of(printed(0, stdout="ab"), printed(1, stdout="c"), done) == [*records, {"stdout": "c", "stderr": ""}]
    whole = item("shell_call_output", "so_a", output=[{"stdout": "whole"}])
    assert output_of(printed(0, stdout="ab"), done, finished(whole)) == [{"stdout": "whole"}]
    assert output_of(printed(0, stdout="ab"), done, finished(SHELL_OUTPUT)) == records
    assert output_of(done, finished(whole), terminal(output=[SHELL_OUTPUT])) == [{"stdout": "whole"}]
    assert told(created(), added(SHELL_OUTPUT), printed(0, stdout="ab"), done, finished(whole)) == []


@pytest.mark.parametrize("output", [None, [], {"stdout": "a"}, "text", 5])
def test_a_record_of_another_shape_leaves_what_was_streamed(output: object) -> None:
    done = {"type": "response.shell_call_output_content.done", **COMMAND, "output": output}
    assert output_of(printed(0, stdout="ab"), done) == [{"stdout": "ab", "stderr": ""}]
    assert output_of(done) == []


@pytest.mark.parametrize(
    ("tool", "states", "statuses"),
    [
        ("web_search_call", ["in_progress", "searching", "completed"], ["in_progress", "searching", "completed"]),
        ("file_search_call", ["in_progress", "searching", "completed"], ["in_progress", "searching", "completed"]),
        (
            "code_interpreter_call",
            ["in_progress", "interpreting", "completed"],
            ["in_progress", "interpreting", "completed"],
        ),
        (
            "image_generation_call",
            ["in_progress", "generating", "partial_image", "completed"],
            ["in_progress", "generating", "generating", "completed"],
        ),
        ("mcp_call", ["in_progress", "failed"], ["in_progress", "failed"]),
        ("mcp_list_tools", ["in_progress", "completed", "failed"], [None, None, None]),
        ("compaction", ["compacting"], [None]),
    ],
)
def test_the_state_of_a_hosted_tool_is_the_status_of_its_item(
    tool: str, states: list[str], statuses: list[str | None]
) -> None:
    accumulator, _ = feed(created(), added(item(tool, "tool_a")))
    seen: list[object] = []
    for state in states:
        feed(least(f"response.{tool}.{state}"), into=accumulator)
        seen.append(getattr(accumulator.items[0], "status", None))
    assert seen == statuses
    feed(finished(item(tool, "tool_a", status="incomplete")), into=accumulator)
    assert getattr(accumulator.items[0], "status", None) == "incomplete"


# the terminal


OUTPUT = "response.output"
TWO = [
    created(),
    added(),
    delta("Hello"),
    finished(),
    added(call(), at=1),
    arguments_delta("{}", 1),
    arguments_done("{}", 1),
    finished(call("{}"), at=1),
]


@pytest.mark.parametrize(
    ("output", "final", "violations"),
    [
        ([message("Hello"), call("{}")], [message("Hello"), call("{}")], []),
        ([], [message("Hello"), call("{}")], [("terminal_output_empty", "response.output")]),
        (None, [message("Hello"), call("{}")], [("terminal_output_empty", "response.output")]),
        # another order: the terminal's is final
        ([call("{}"), message("Hello")], [call("{}"), message("Hello")], [("terminal_order", "response.output")]),
        # a part of the items, known by id, by call id, by type: the rest is not lost
        ([call("{}")], [call("{}"), message("Hello")], [("terminal_mismatch", "response.output")]),
        ([call("{}") | {"id": None}], [call("{}"), message("Hello")], [("terminal_mismatch", "response.output")]),
        (
            [call("{}") | {"id": "fc_z", "call_id": "call_z"}],
            [call("{}") | {"id": "fc_z", "call_id": "call_z"}, message("Hello")],
            [("item_id_changed", "response.output[0]"), ("terminal_mismatch", "response.output")],
        ),
        # other ids
        (
            [message("Hello", "msg_z"), call("{}")],
            [message("Hello", "msg_z"), call("{}")],
            [("item_id_changed", "response.output[0]")],
        ),
        # no ids at all
        (
            [message("Hello") | {"id": None}],
            [message("Hello"), call("{}")],
            [("terminal_mismatch", OUTPUT)],
        ),
        # one item more
        (
            [message("Hello"), call("{}"), message("more", "msg_z")],
            [message("Hello"), call("{}"), message("more", "msg_z")],
            [],
        ),
    ],
)
def test_the_terminal_settles_the_output(
    output: list[Payload] | None, final: list[Payload], violations: list[tuple[str, str]]
) -> None:
    stream = [*TWO, terminal(output=output)]
    assert so_far(*stream) == final
    assert told(*stream) == violations


def test_nothing_streamed_and_nothing_listed_is_nothing() -> None:
    assert so_far(created(), terminal()) == []
    assert told(created(), terminal()) == []


def test_a_terminal_without_streamed_items_brings_its_own() -> None:
    assert so_far(created(), terminal(output=[message("Hello")])) == [message("Hello")]


def test_a_call_and_its_output_have_one_call_id_and_stay_two() -> None:
    output = item("function_call_output", None, call_id="call_a", output="1")
    asked = {"type": "function_call", "call_id": "call_a", "name": "probe", "arguments": "{}"}
    stream = [created(), added(asked), finished(asked), added(output, at=1), finished(output, at=1)]
    assert so_far(*stream, terminal(output=[asked, output])) == [asked, output]
    assert told(*stream, terminal(output=[asked, output])) == []
    assert told(*stream, terminal(output=[output, asked])) == [("terminal_order", "response.output")]


def test_a_failure_keeps_what_was_streamed_and_says_nothing_about_it() -> None:
    stream = [created(), added(), part_added(), delta("parti"), terminal("failed", error={"code": "c", "message": "m"})]
    accumulator, out = feed(*stream)
    assert told(*stream) == []
    assert accumulator.final_response is not None
    assert accumulator.final_response.output_text == "parti"
    assert accumulator.final_response.error is not None
    assert isinstance(out[-1], TerminalEvent)
    assert out[-1].response.output_text == "parti"


def test_what_a_terminal_leaves_out_of_an_item_comes_from_the_item() -> None:
    whole = item("reasoning", "rs_a", summary=[{"type": "summary_text", "text": "why"}], encrypted_content="xyz")
    bare = item("reasoning", "rs_a", summary=[])
    assert so_far(created(), added(bare), finished(whole), terminal(output=[bare])) == [whole]
    other = item("x:note", "rs_a", content=[{"type": "x:chart", "data": 1}])
    assert so_far(created(), finished(other), terminal(output=[item("x:note", "rs_a")])) == [item("x:note", "rs_a")]


def test_an_item_of_an_unknown_type_stays_as_it_came() -> None:
    whole = item("x:note", "msg_a", content=[{"type": "output_text", "text": "Hello", "x": 1}, 5], data={"a": None})
    stream = hello()[:7]
    stream[1] = added(item("x:note", "msg_a"))
    assert so_far(*stream)[0]["content"][0]["text"] == "Hello"
    assert so_far(*stream, finished(whole)) == [whole]
    assert so_far(*stream, finished(whole), terminal(output=[whole])) == [whole]
    assert told(*stream, finished(whole), terminal(output=[whole])) == []


@pytest.mark.parametrize(
    ("named", "status", "final"),
    [
        ("completed", "completed", "completed"),
        ("completed", "incomplete", "incomplete"),
        ("completed", "failed", "failed"),
        ("incomplete", "completed", "incomplete"),
        ("incomplete", "failed", "failed"),
        ("failed", "completed", "failed"),
        ("failed", "incomplete", "failed"),
        ("completed", None, "completed"),
        ("completed", "in_progress", "completed"),
        ("completed", "x:odd", "completed"),
        ("completed", ["failed"], "completed"),
        ("completed", {"a": 1}, "completed"),
    ],
)
def test_where_event_and_status_disagree_the_worse_one_counts(named: str, status: object, final: str) -> None:
    payload: Payload = {**terminal(named, [message("a")]), "x_vendor": 1, "sequence_number": 7}
    payload["response"]["status"] = status
    (out,) = feed(payload)[1]
    assert isinstance(out, TerminalEvent)
    assert type(out).model_fields["type"].default == out.type == f"response.{final}"
    assert to_wire(out) == {**payload, "type": out.type, "response": {**payload["response"], "status": final}}


def test_a_status_that_only_a_cancel_brings_is_kept() -> None:
    (out,) = feed({**terminal(status="cancelled"), "type": "response.incomplete"})[1]
    assert isinstance(out, TerminalEvent)
    assert (out.type, out.response.status) == ("response.incomplete", "cancelled")


def test_the_first_terminal_wins() -> None:
    accumulator, _ = feed(*hello())
    final = accumulator.final_response
    out = feed(terminal("failed", id="resp_b"), created("resp_b"), delta("!"), into=accumulator)[1]
    assert accumulator.final_response is accumulator.response is final
    assert accumulator.response_id == "resp_a"
    assert [event.type for event in out] == ["response.failed", "response.created", "response.output_text.delta"]


# the public face


def test_an_accumulator_knows_nothing_before_the_first_event() -> None:
    accumulator = Accumulator()
    assert (accumulator.response, accumulator.final_response, accumulator.items) == (None, None, {})
    assert (accumulator.response_id, accumulator.last_sequence_number, accumulator.cursor) == (None, None, None)
    feed({"type": "keepalive"}, into=accumulator)
    assert accumulator.response is None
    assert accumulator.last_sequence_number == 0


def test_an_accumulator_works_by_itself() -> None:
    accumulator = Accumulator()
    for event in events(*hello()[:5]):
        accumulator.feed(event)
    assert accumulator.end() == ()
    response = accumulator.response
    assert response is not None
    assert (response.id, response.status, response.output_text) == ("resp_a", "in_progress", "Hello")
    assert accumulator.cursor == Cursor("resp_a", 4)
    assert accumulator.final_response is None
    assert response.output is not None
    feed(delta("!"), into=accumulator)
    assert response.output_text == "Hello"  # what was read stays as it was


def test_an_id_that_the_server_leaves_out_later_is_kept() -> None:
    accumulator, _ = feed(created(), in_progress(""), terminal(id=""))
    assert accumulator.response_id == "resp_a"
    assert accumulator.final_response is not None
    assert accumulator.final_response.id == "resp_a"


def test_a_reset_forgets_everything() -> None:
    image, sound = least("response.image_generation_call.partial_image"), least("response.audio.delta", delta="AAAA")
    accumulator, out = feed(*hello(), image, sound)
    accumulator.reset()
    assert vars(accumulator) | {"_judge": None} == vars(Accumulator()) | {"_judge": None}
    assert (accumulator.audio, accumulator.response) == (b"", None)
    assert snapshot_of(out[3]) == "Hel"
    feed(created("resp_b"), added(), delta("x"), into=accumulator)
    assert accumulator.response is not None
    assert (accumulator.response.id, accumulator.response.output_text) == ("resp_b", "x")


def test_an_error_that_passes_takes_the_response_along() -> None:
    accumulator, _ = feed(*hello()[:4])
    lost = ConnectionLost("reset")
    with pytest.raises(ConnectionLost):
        accumulator.fail(lost)
    assert lost.snapshot is not None
    assert lost.snapshot.output_text == "Hel"


def test_an_error_that_has_a_snapshot_keeps_it() -> None:
    lost = ConnectionLost("reset")
    lost.snapshot = Response(id="resp_z")
    accumulator, _ = feed(created())
    with pytest.raises(OrxError):
        accumulator.fail(lost)
    assert lost.snapshot.id == "resp_z"


def test_an_error_that_is_not_ours_passes_as_it_is() -> None:
    bug = ValueError("somebody else's")
    with pytest.raises(ValueError, match="somebody") as caught:
        Accumulator().fail(bug)
    assert caught.value is bug


# events


EVERYTHING = [
    *hello()[:4],
    {**delta("lo"), "logprobs": [logprob("lo")], "obfuscation": "x"},
    annotated(0),
    *hello()[5:8],
    added(call(), at=1),
    arguments_delta("{", 1),
    arguments_delta("}", 1),
    arguments_done("{}", 1),
    finished(call(), at=1),
    {"type": "x:note", "data": [1]},
    printed(0, stdout="a") | {"output_index": 2},
    {"type": "response.audio.delta", "delta": "AAAA"},
    terminal(),
]


def test_the_events_that_come_in_stay_untouched() -> None:
    stream = events(*EVERYTHING)
    before = [json.dumps(to_wire(event)) for event in stream]
    accumulator = Accumulator(Judge(QUIET))
    out = [out for event in stream for out in accumulator.feed(event)]
    assert accumulator.response is not None
    assert [json.dumps(to_wire(event)) for event in stream] == before
    for event, grown in zip(stream, out, strict=True):
        if isinstance(event, DeltaEvent):
            assert type(grown) is type(event)
            assert grown is not event
            assert grown == event
            with pytest.raises(AttributeError, match="expected an event that went through accumulate"):
                _ = event.snapshot
            with pytest.raises(AttributeError):
                event.snapshot_tail(1)


def test_an_event_that_knows_no_more_than_before_is_the_same_object() -> None:
    stream = events(*hello())
    accumulator = Accumulator()
    same = [out is event for event in stream for out in accumulator.feed(event)]
    assert same == [not isinstance(event, DeltaEvent | TerminalEvent) for event in stream]


def test_two_accumulators_never_meet() -> None:
    one, two = Accumulator(), Accumulator()
    first, second, third = events(delta("a"), delta("b"), delta("c"))
    (alone,) = one.feed(first)
    (again,) = two.feed(alone)  # it went through the other one before
    (out_one,), (out_two,) = one.feed(second), two.feed(third)
    found = [event.snapshot for event in (alone, again, out_one, out_two) if isinstance(event, DeltaEvent)]
    assert found == ["a", "a", "ab", "ac"]


# cost


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> type[CountingText]:
    """Let the accumulator count what it joins; it looks the class up when a text begins."""
    monkeypatch.setattr(holding, "Text", CountingText)
    monkeypatch.setattr(CountingText, "joined", 0)
    monkeypatch.setattr(CountingText, "joins", 0)
    return CountingText


N = 1_000


def test_feeding_joins_nothing(counting: type[CountingText]) -> None:
    _, out = feed(created(), *[delta("x") for _ in range(N)])
    assert (counting.joins, counting.joined) == (0, 0)
    lengths = [event.snapshot_length for event in out if isinstance(event, DeltaEvent)]
    assert lengths == list(range(1, N + 1))
    tails = [event.snapshot_tail(3) for event in out if isinstance(event, DeltaEvent)]
    assert tails[-1] == "xxx"
    assert (counting.joins, counting.joined) == (0, 0)


@pytest.mark.parametrize("step", [1, 10, 333])
@pytest.mark.parametrize("readers", [1, 3])
def test_reading_now_and_then_joins_every_piece_once(counting: type[CountingText], step: int, readers: int) -> None:
    accumulator = Accumulator()
    for place, event in enumerate(events(*[delta("x") for _ in range(N)]), start=1):
        (out,) = accumulator.feed(event)
        for _ in range(readers if place % step == 0 else 0):
            assert isinstance(out, DeltaEvent)
            assert len(out.snapshot) == place
    assert counting.joined == N - N % step
    assert counting.joins == N // step


def test_reading_the_response_joins_every_piece_once(counting: type[CountingText]) -> None:
    accumulator = Accumulator()
    stream = events(created(), *[delta("x", index=place % 3) for place in range(N)])
    for place, event in enumerate(stream):
        accumulator.feed(event)
        if place % 10 == 0:
            response = accumulator.response
            assert response is not None
            assert len(response.output_text) == place
    assert counting.joined == N
    assert accumulator.response is not None


def test_items_that_did_not_change_are_not_built_again() -> None:
    accumulator, _ = feed(created(), added(), delta("a"), added(message(id="msg_b"), at=1), delta("b", index=1))
    first = accumulator.items
    feed(delta("c", index=1), into=accumulator)
    second = accumulator.items
    assert second[0] is first[0]
    assert second[1] is not first[1]


# any interleaving


PARTS: list[Callable[[str], Payload]] = [
    lambda piece: delta(piece, index=0, content=0),
    lambda piece: delta(piece, index=0, content=3),
    lambda piece: delta(piece, "refusal", index=1, content=0),
    lambda piece: delta(piece, "reasoning_text", index=2, content=0),
    lambda piece: delta(piece, "reasoning_summary_text", index=2, content=None, summary_index=0),
    lambda piece: delta(piece, "reasoning_summary_text", index=2, content=None, summary_index=2),
    lambda piece: arguments_delta(piece, 4, "a"),
    lambda piece: arguments_delta(piece, 5, "b"),
    lambda piece: delta(piece, "mcp_call_arguments", index=6, content=None),
    lambda piece: delta(piece, "custom_tool_call_input", index=7, content=None),
    lambda piece: delta(piece, "code_interpreter_call_code", index=8, content=None),
    lambda piece: {"type": "response.shell_call_command.delta", "output_index": 9, "command_index": 1, "delta": piece},
    lambda piece: {"type": "response.audio.transcript.delta", "delta": piece},
]


PIECES = st.tuples(st.integers(0, len(PARTS) - 1), st.text(max_size=3), st.booleans())


@settings(deadline=None)
@given(st.lists(PIECES, max_size=40), st.randoms())
def test_every_snapshot_is_what_its_own_part_got_so_far(pieces: list[tuple[int, str, bool]], chance: Any) -> None:
    accumulator = Accumulator()
    so_far = [""] * len(PARTS)
    seen: list[tuple[DeltaEvent, str]] = []
    for part, piece, read_now in pieces:
        (event,) = events(PARTS[part](piece))
        (out,) = accumulator.feed(event)
        assert isinstance(out, DeltaEvent)
        so_far[part] += piece
        seen.append((out, so_far[part]))
        if read_now:
            assert out.snapshot == so_far[part]
            assert accumulator.response is not None
    chance.shuffle(seen)
    for event, text in seen:
        size = chance.randint(0, 9)
        assert event.snapshot_tail(size) == text[max(0, len(text) - size) :]
        assert (event.snapshot, event.snapshot_length) == (text, len(text))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.text(min_size=1, max_size=3)), max_size=40))
def test_the_response_is_what_all_parts_got(pieces: list[tuple[int, int, str]]) -> None:
    texts: dict[tuple[int, int], str] = {}
    for index, content, piece in pieces:
        texts[index, content] = texts.get((index, content), "") + piece
    accumulator, _ = feed(created(), *[delta(piece, index=index, content=content) for index, content, piece in pieces])
    assert accumulator.response is not None
    assert accumulator.response.output_text == "".join(text for _, text in sorted(texts.items()))
    assert list(accumulator.items) == sorted({index for index, _ in texts})


# whatever comes


JUNK: list[Any] = [None, 5, 1.5, True, -1, "x", "", [], {}, [1], [None], [[]], {"a": 1}, "message", {"type": "message"}]


def places_in(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the paths to everything in a JSON value."""
    keyed, listed = isinstance(value, dict), isinstance(value, list)
    steps: Any = value if keyed else range(len(value)) if listed else ()
    inner: list[tuple[Any, Any]] = [(step, value[step]) for step in steps]
    return [at, *[path for step, each in inner for path in places_in(each, (*at, step))]]


@st.composite
def mangled(draw: st.DrawFn) -> list[Payload]:
    """A stream of everything, with a few of its fields replaced or gone, and events gone, doubled or moved."""
    stream: list[Payload] = json.loads(json.dumps(numbered(EVERYTHING)))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(stream) - 1))
        change = draw(st.sampled_from(["field", "field", "field", "gone", "twice", "moved"]))
        if change == "field":
            *holders, last = draw(st.sampled_from(places_in(stream[place])[1:]))
            holder: Any = stream[place]
            for step in holders:
                holder = holder[step]
            holder[last] = json.loads(json.dumps(draw(st.sampled_from(JUNK))))
        elif change == "gone" and len(stream) > 1:
            del stream[place]
        else:
            again = json.loads(json.dumps(stream[place]))
            stream.insert(draw(st.integers(0, len(stream))), stream.pop(place) if change == "moved" else again)
    return stream


@settings(deadline=None)
@given(mangled(), st.sampled_from([DEFAULT, STRICT, QUIET, TELLING]))
def test_whatever_a_server_sends_every_error_is_one_of_ours(stream: list[Payload], profile: Profile) -> None:
    before = [*stream]
    ran = run(b"".join(map(record, stream)), profile)
    assert ran.error is None or isinstance(ran.error, OrxError)
    assert stream == before
    response = ran.accumulator.response
    if response is not None:
        assert isinstance(response.output_text, str)
        json.dumps(to_wire(response), default=repr)
    for event in ran.events:
        if isinstance(event, DeltaEvent):
            assert event.snapshot.endswith(event.delta)
    if profile is QUIET:
        assert ran.error is None or isinstance(ran.error, ServerError)


COPIES: dict[str, Callable[[Event], Event]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "model_copy": lambda event: event.model_copy(),
    "deep model_copy": lambda event: event.model_copy(deep=True),
    "pickle": lambda event: pickle.loads(pickle.dumps(event)),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_of_an_event_has_its_snapshot(copied: Callable[[Event], Event]) -> None:
    accumulator = Accumulator()
    pieces = [ResponseTextDeltaEvent(output_index=0, content_index=0, delta=piece) for piece in ("Hel", "lo")]
    (first,), _ = [accumulator.feed(piece) for piece in pieces]
    again = copied(first)
    assert isinstance(again, ResponseTextDeltaEvent)
    assert again == first
    assert again.snapshot == "Hel"


def test_events_of_a_class_of_the_users_own_are_accumulated_like_those_of_its_base() -> None:
    class Mine(ResponseTextDeltaEvent, frozen=True):
        """A delta with something added."""

    accumulator = Accumulator()
    accumulator.feed(Mine(output_index=0, content_index=0, delta="Hel"))
    (event,) = accumulator.feed(Mine(output_index=0, content_index=0, delta="lo"))
    assert isinstance(event, Mine)
    assert event.snapshot == "Hello"
