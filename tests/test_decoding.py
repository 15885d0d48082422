"""From bytes to events: what is read, what is kept as it came, what is refused, and how the end is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orx_rx.errors import ConnectionLost, FrameDecodeError, FrameTooLarge, OrxError, ProtocolError, SchemaViolation
from orx_rx.models.base import to_wire
from orx_rx.models.event_base import DeltaEvent, Event
from orx_rx.models.events import EVENT_CLASSES
from orx_rx.models.item_events import ResponseContentPartDoneEvent, ResponseOutputItemDoneEvent
from orx_rx.models.items import UnknownItem
from orx_rx.models.lifecycle_events import ResponseCompletedEvent, ResponseCreatedEvent
from orx_rx.models.parse import known_event_validator, validators_by_name
from orx_rx.models.parts import ResponseOutputText, UnknownAnnotation, UnknownPart
from orx_rx.models.stream_events import KeepaliveEvent, ResponseErrorEvent, StreamEnd, UnknownEvent
from orx_rx.models.text_events import ResponseTextDeltaEvent
from orx_rx.protocol.decoding import Decoder
from orx_rx.protocol.violations import DEFAULT, QUIET, STRICT, Judge, Profile, Violation
from orx_rx.wire import Frame, FrameParser
from tests.chain import (
    Payload,
    at,
    created,
    finished,
    item,
    keepalive,
    least,
    message,
    only,
    output_text,
    part_done,
    terminal,
)

SECRET = "SECRET"


def decode(
    data: str | bytes | Payload | list[object], name: str = "", profile: Profile = DEFAULT, *, complete: bool = True
) -> tuple[list[Event], list[str]]:
    """Decode one frame and the end: the events, and the codes of what was reported."""
    if not isinstance(data, str | bytes):
        data = json.dumps(data)
    judge = Judge(profile)
    decoder = Decoder(judge)
    frame = Frame(name, data.encode() if isinstance(data, str) else data, complete=complete)
    return [*decoder.feed(frame), *decoder.end()], [violation.code for violation in judge.reported]


def one(data: str | bytes | Payload, name: str = "", profile: Profile = DEFAULT) -> Event:
    (event,), codes = decode(data, name, profile)
    assert codes == []
    return event


def refused(data: str | bytes | Payload | list[object], name: str = "", profile: Profile = DEFAULT) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        decode(data, name, profile)
    assert SECRET not in str(caught.value)
    assert SECRET not in str(caught.value.violations)
    return caught.value


# every event of the wire


@pytest.mark.parametrize("type_", EVENT_CLASSES)
def test_the_least_event_of_a_type_is_read_as_its_class_and_written_as_it_came(type_: str) -> None:
    payload = {**least(type_), "sequence_number": 3, "x_vendor": {"a": [1, None]}}
    event = one(payload, type_)
    assert type(event) is EVENT_CLASSES[type_]
    assert event.sequence_number == 3
    assert to_wire(event) == payload


@pytest.mark.parametrize("name", ["", "response.created"])
def test_an_event_line_is_not_needed(name: str) -> None:
    assert type(one(created(), name)) is ResponseCreatedEvent


def test_the_data_wins_over_the_event_line() -> None:
    (event,), codes = decode(created(), "message")
    assert type(event) is ResponseCreatedEvent
    assert codes == ["event_name_mismatch"]


def test_an_event_line_is_enough() -> None:
    (event,), codes = decode({"response": {"id": "resp_a"}}, "response.completed")
    assert isinstance(event, ResponseCompletedEvent)
    assert event.response.id == "resp_a"
    assert codes == ["type_only_in_name"]


# deltas are validated by their own class, where the event line names it


DELTAS = [type_ for type_, kind in EVENT_CLASSES.items() if issubclass(kind, DeltaEvent)]


def test_every_delta_has_a_validator_of_its_own() -> None:
    assert len(DELTAS) > 10
    validators = validators_by_name()
    assert known_event_validator() not in [validators[type_] for type_ in DELTAS]
    assert validators["response.created"] is validators[""] is validators["no.such.event"] is known_event_validator()


@pytest.mark.parametrize("type_", DELTAS)
def test_a_delta_is_the_same_by_its_own_validator_as_among_all_events(type_: str) -> None:
    payload = {**least(type_), "sequence_number": 3, "x_vendor": {"a": [1, None]}}
    named, unnamed = one(payload, type_), one(payload)
    assert named == unnamed
    assert type(named) is type(unnamed)
    assert named.model_fields_set == unnamed.model_fields_set


@pytest.mark.parametrize("type_", DELTAS)
def test_the_event_line_of_a_delta_decides_nothing(type_: str) -> None:
    (event,), codes = decode(created(), type_)
    assert (type(event), codes) == (ResponseCreatedEvent, ["event_name_mismatch"])
    untyped = {name: value for name, value in least(type_).items() if name != "type"}
    (event,), codes = decode(untyped, type_)
    assert (type(event), codes) == (EVENT_CLASSES[type_], ["type_only_in_name"])
    (event,), codes = decode({"type": "response.new_thing"}, type_)
    assert (type(event), codes) == (UnknownEvent, ["event_name_mismatch"])
    error = refused({**least(type_), "delta": [1]}, type_)
    assert isinstance(error, SchemaViolation)
    assert error.event_type == type_
    assert decode("[DONE]", type_) == ([StreamEnd(done=True)], [])


def test_an_event_line_stands_for_a_type_that_is_null() -> None:
    (event,), codes = decode({"type": None, "response": {"id": "resp_a"}}, "response.completed")
    assert isinstance(event, ResponseCompletedEvent)
    assert codes == ["type_only_in_name"]


@pytest.mark.parametrize(
    ("data", "name"), [({"type": "", "a": 1}, ""), ({"type": 5, "a": 1}, "x"), ({"a": 1}, ""), ({}, "")]
)
def test_an_object_without_a_type_and_a_name_is_no_event(data: Payload, name: str) -> None:
    error = refused(data, name)
    assert type(error) is SchemaViolation
    assert error.violations[-1].code == "type_missing"
    assert error.frame == Frame(name, json.dumps(data).encode())


# what is unknown


UNKNOWN: list[Payload] = [
    {"type": "codex.rate_limits", "primary": 1},
    {"type": "response.brand_new.delta", "sequence_number": 4, "delta": "?", "output_index": "zero"},
    {"type": "x:note", "sequence_number": 0, "nested": {"a": [{"b": None}]}, "response": 5},
    {"type": "response.done", "response": {"id": "resp_a"}, "error": {"message": "no error of the stream"}},
    {"type": "x:note", "error": None},
    {"type": "x:note", "error": 5},
]


@pytest.mark.parametrize("payload", UNKNOWN)
@pytest.mark.parametrize("profile", [DEFAULT, STRICT], ids=lambda profile: profile.name)
def test_an_event_of_an_unknown_type_keeps_every_field(payload: Payload, profile: Profile) -> None:
    event = one(payload, payload["type"], profile)
    assert type(event) is UnknownEvent
    assert to_wire(event) == payload
    assert event.type == payload["type"]
    assert event.sequence_number == payload.get("sequence_number")


def test_an_item_of_an_unknown_type_is_kept_as_it_came() -> None:
    payload = finished(item("x:chart", "ch_a", status="drawn", content=[{"type": "output_text", "text": 5}, 7]))
    event = one(payload)
    assert isinstance(event, ResponseOutputItemDoneEvent)
    assert type(event.item) is UnknownItem
    assert event.item.id == "ch_a"
    assert event.item.status == "drawn"  # type: ignore[attr-defined] # pyright: ignore
    assert to_wire(event) == payload


def test_a_part_of_an_unknown_type_is_kept_as_it_came() -> None:
    payload = part_done({"type": "x:chart", "text": {"a": 1}, "annotations": 5})
    event = one(payload)
    assert isinstance(event, ResponseContentPartDoneEvent)
    assert type(event.part) is UnknownPart
    assert to_wire(event) == payload


def test_an_annotation_of_an_unknown_type_is_kept_as_it_came() -> None:
    payload = part_done(
        output_text("a", annotations=[{"type": "x:cite", "page": 3}, {"type": "file_path", "index": 0}])
    )
    event = one(payload)
    assert isinstance(event, ResponseContentPartDoneEvent)
    assert isinstance(event.part, ResponseOutputText)
    assert event.part.annotations is not None
    assert [type(annotation).__name__ for annotation in event.part.annotations] == [
        UnknownAnnotation.__name__,
        "AnnotationFilePath",
    ]
    assert to_wire(event) == payload


# what has no meaning for the lifecycle


SHAPES: list[Any] = [None, [], {}, "text", 5, True, [None], [5], ["text"], {"a": 1}, [{"token": 5, "logprob": "x"}]]
LOOSE: list[tuple[str, Payload]] = [
    ("logprobs", {"type": "response.output_text.delta", **at(), "delta": "a"}),
    ("logprobs", {"type": "response.output_text.done", **at(), "text": "a"}),
    ("obfuscation", {"type": "response.output_text.delta", **at(), "delta": "a"}),
    ("annotation", {"type": "response.output_text.annotation.added", **at(), "annotation_index": 0}),
    ("response.usage", terminal()),
    ("response.error", terminal("failed")),
    ("response.incomplete_details", terminal("incomplete")),
    ("response.status", terminal()),
    ("response.metadata", terminal()),
    ("response.tools", terminal()),
    ("response.created_at", terminal()),
    ("response.background", terminal()),
    ("item.status", finished()),
    ("item.role", finished()),
    ("item.phase", finished()),
    ("part.annotations", part_done()),
    ("part.logprobs", part_done()),
]


@pytest.mark.parametrize(("path", "payload"), LOOSE)
@pytest.mark.parametrize("shape", SHAPES, ids=json.dumps)
def test_a_field_without_meaning_for_the_lifecycle_never_costs_the_event(
    path: str, payload: Payload, shape: object
) -> None:
    *holders, name = path.split(".")
    payload = json.loads(json.dumps(payload))
    holder = payload
    for step in holders:
        holder = holder[step]
    holder[name] = shape
    event = one(payload, profile=DEFAULT)
    assert to_wire(event) == payload
    del holder[name]
    assert to_wire(one(payload)) == payload


def test_what_strict_misses_is_told_once_for_each_type_of_event() -> None:
    judge = Judge(STRICT)
    decoder = Decoder(judge)
    for number in range(3):
        payload = {"type": "response.output_text.delta", **at(id=None), "delta": "a", "sequence_number": number}
        decoder.feed(Frame("", json.dumps({**payload, **({"logprobs": None} if number else {})}).encode()))
    assert [(violation.place, violation.sequence_number) for violation in judge.reported] == [
        ("item_id", 0),
        ("logprobs", 0),
    ]


def test_what_strict_misses_is_told_with_its_path() -> None:
    judge = Judge(STRICT)
    payload = finished(item("message", "msg_a", role="assistant", content=[{"type": "output_text", "text": "a"}]))
    Decoder(judge).feed(Frame("", json.dumps(payload).encode()))
    assert {violation.place for violation in judge.reported} == {"item.status", "item.content.annotations"}
    assert {violation.code for violation in judge.reported} == {"field_missing"}


# errors, in all their shapes


@pytest.mark.parametrize(
    ("data", "name", "code", "text", "param", "category"),
    [
        # the reference
        ({"type": "error", "code": "c", "message": "m", "param": "p"}, "error", "c", "m", "p", None),
        ({"type": "error", "sequence_number": 0, "code": None, "message": "m"}, "", None, "m", None, None),
        # the live service and Open Responses
        ({"type": "error", "error": {"type": "t", "code": "c", "message": "m", "param": "p"}}, "", "c", "m", "p", "t"),
        ({"type": "error", "error": {"type": "t", "code": None, "message": "m"}}, "error", None, "m", None, "t"),
        ({"type": "error", "error": {"message": "m", "headers": {"a": "b"}}}, "", None, "m", None, None),
        # both at once, each in part
        ({"type": "error", "code": "c", "message": "m", "error": {"type": "t"}}, "", "c", "m", None, "t"),
        ({"type": "error", "code": "x", "error": {"code": "c", "message": "m"}}, "", "c", "m", None, None),
        # the bare object, with and without a name
        ({"error": {"message": "m", "type": "overloaded"}}, "", None, "m", None, "overloaded"),
        ({"error": {"message": "m", "code": 529}}, "error", "529", "m", None, None),
        ({"error": {"message": "m"}, "type": None}, "", None, "m", None, None),
        ({"error": "m"}, "", None, "m", None, None),
        ({"type": "overloaded", "error": {"message": "m"}}, "", None, "m", None, None),
        # only the event line says so
        ({"message": "m", "code": "c"}, "error", "c", "m", None, None),
        ({"message": "m", "code": "c", "type": "server_error", "param": "p"}, "error", "c", "m", "p", "server_error"),
        # it says nothing
        ({"type": "error"}, "", None, "", None, None),
        ({"type": "error", "error": {}}, "", None, "", None, None),
        ({"type": "error", "error": None}, "", None, "", None, None),
        ({}, "error", None, "", None, None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("profile", [DEFAULT, STRICT], ids=lambda profile: profile.name)
def test_an_error_is_an_error_in_all_its_shapes(
    data: Payload, name: str, code: str | None, text: str, param: str | None, category: str | None, profile: Profile
) -> None:
    event = one(data, name, profile)
    assert isinstance(event, ResponseErrorEvent)
    assert (event.code, event.message, event.param, event.error_type) == (code, text, param, category)
    assert event.sequence_number == data.get("sequence_number")


def test_an_event_of_the_protocol_is_no_error_because_its_line_says_so() -> None:
    (event,), codes = decode(terminal("failed"), "error")
    assert event.type == "response.failed"
    assert codes == ["event_name_mismatch"]


# what is no JSON, or no object


@pytest.mark.parametrize(
    "data",
    [
        b"SECRET",
        b"{",
        b'{"a": SECRET}',
        b'{"type":"x"}{"type":"y"}',
        b'{"type":"x:note","text":"\xff"}',  # no UTF-8
        b'{"type":"x:note","text":"\xe5\x8c"}',  # half a character
        b'{"type":"x:note","text":"a\x0bb"}',  # a raw control character
        b"[DONE",
        b"[DONE]x",
        b"[" * 10_000,
        b'{"type":"x","a":' + b"[" * 10_000,
    ],
)
def test_data_that_is_no_json_is_refused_with_the_frame(data: bytes) -> None:
    error = refused(data, "x")
    assert type(error) is FrameDecodeError
    assert error.frame == Frame("x", data)
    assert error.violations[-1].code == "data_not_json"
    assert error.violations[-1].event_type == "x"
    assert str(error).startswith(f"expected JSON in UTF-8, got {len(data)} bytes that are not: ")


@pytest.mark.parametrize(
    "data", [b"[]", b"[1]", b'[{"type":"error"}]', b"3", b'"SECRET"', b'"[DONE]"', b"null", b"true"]
)
def test_json_that_is_no_object_is_refused(data: bytes) -> None:
    error = refused(data)
    assert type(error) is SchemaViolation
    assert error.frame == Frame("", data)
    assert error.violations[-1].code == "not_an_object"


@pytest.mark.parametrize("data", [b"", b" ", b"\n\n"])
def test_empty_data_is_told_and_passed_over(data: bytes) -> None:
    assert decode(data) == ([], ["empty_data"])
    assert type(refused(data, profile=STRICT)) is FrameDecodeError


@pytest.mark.parametrize("data", [b"oops", b"[1]", b'{"a":1}', b'{"type":"response.completed"}'])
def test_a_profile_that_ignores_what_cannot_be_read_drops_it(data: bytes) -> None:
    assert decode(data, profile=QUIET) == ([], [])


# what has the wrong shape


BASE = {"type": "response.output_text.delta", **at(), "delta": "a", "sequence_number": 7}
ITEM: Payload = finished(message("a"))


def with_item(**fields: Any) -> Payload:
    return {**ITEM, "item": {**ITEM["item"], **fields}}


WHOLE = "Input should be a valid integer"
TEXT = "Input should be a valid string"
OBJECT = "Input should be a valid dictionary or instance of"
NO_INDICES = ["output_index: Field required", "content_index: Field required"]


@pytest.mark.parametrize(
    ("payload", "problems"),
    [
        ({**BASE, "output_index": True}, [f"output_index: {WHOLE}"]),
        ({**BASE, "output_index": "0"}, [f"output_index: {WHOLE}"]),
        ({**BASE, "output_index": 0.0}, [f"output_index: {WHOLE}"]),
        ({**BASE, "output_index": None}, [f"output_index: {WHOLE}"]),
        ({**BASE, "output_index": -1}, ["output_index: Input should be greater than or equal to 0"]),
        ({**BASE, "content_index": [0]}, [f"content_index: {WHOLE}"]),
        ({**BASE, "sequence_number": "7"}, [f"sequence_number: {WHOLE}"]),
        ({**BASE, "sequence_number": True}, [f"sequence_number: {WHOLE}"]),
        ({**BASE, "delta": None}, [f"delta: {TEXT}"]),
        ({**BASE, "delta": {"text": SECRET}}, [f"delta: {TEXT}"]),
        ({**BASE, "delta": [SECRET], "item_id": 5}, [f"delta: {TEXT}", f"item_id: {TEXT}"]),
        ({"type": "response.refusal.done"}, [*NO_INDICES, "refusal: Field required"]),
        ({"type": "response.completed"}, ["response: Field required"]),
        ({"type": "response.completed", "response": [SECRET]}, [f"response: {OBJECT} Response"]),
        (terminal(output=SECRET), ["response.output: Input should be a valid list"]),
        (terminal(output=[message("a"), {"type": "message", "id": 5}]), [f"response.output.1.id: {TEXT}"]),
        ({"type": "response.completed", "response": {"id": {SECRET: 1}}}, [f"response.id: {TEXT}"]),
        (with_item(content=SECRET), ["item.content: Input should be a valid list"]),
        (with_item(content=[output_text("a"), output_text([SECRET])]), [f"item.content.1.text: {TEXT}"]),
        (with_item(content=[{"type": "refusal", "refusal": 5}]), [f"item.content.0.refusal: {TEXT}"]),
        (with_item(content=[{"text": SECRET}]), ["item.content.0.type: Field required"]),
        (with_item(content=[{"type": 7}]), [f"item.content.0.type: {TEXT}"]),
        (with_item(type=None), [f"item.type: {TEXT}"]),
        (with_item(type=SECRET, id=5), [f"item.id: {TEXT}"]),
        (finished({"type": "function_call", "arguments": {SECRET: 1}}), [f"item.arguments: {TEXT}"]),
        (part_done({"type": "output_text", "text": None}), [f"part.text: {TEXT}"]),
        ({**part_done(), "part": None}, [f"part: {OBJECT} UnknownPart"]),
    ],
)  # fmt: skip
def test_a_wrong_shape_names_the_fields_and_never_their_values(payload: Payload, problems: list[str]) -> None:
    error = refused(payload)
    assert isinstance(error, SchemaViolation)
    assert sorted(error.problems) == sorted(problems)
    assert str(error) == f"expected a {payload['type']} event, got one that does not fit: {'; '.join(error.problems)}"
    assert error.event_type == payload["type"]
    number = payload.get("sequence_number")
    assert error.sequence_number == (number if type(number) is int else None)
    assert error.violations[-1].code == "wrong_shape"
    assert error.frame is not None


@pytest.mark.parametrize("type_", [name for name in EVENT_CLASSES if name != "error"])
def test_whatever_stands_in_a_field_it_is_never_in_the_message(type_: str) -> None:
    told: list[str] = []
    for name in least(type_).keys() - {"type"} | {"sequence_number"}:
        for value in (SECRET, [SECRET], {SECRET: SECRET}, {"type": SECRET}, {"type": "message", "content": SECRET}):
            try:
                decode({**least(type_), name: value})
            except OrxError as error:
                told += [str(error), *map(str, error.violations)]
    assert told
    assert not [line for line in told if SECRET in line]


# the sentinel and the end


@pytest.mark.parametrize("data", ["[DONE]", " [DONE]", "[DONE]\n", "\t[DONE] "])
@pytest.mark.parametrize("name", ["", "done", "message"])
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("profile", [DEFAULT, STRICT], ids=lambda profile: profile.name)
def test_the_sentinel_is_framing_and_no_event(data: str, name: str, complete: bool, profile: Profile) -> None:
    assert decode(data, name, profile, complete=complete) == ([StreamEnd(done=True)], [])


def test_events_after_the_sentinel_are_decoded_too() -> None:
    decoder = Decoder()
    assert decoder.feed(Frame("", b"[DONE]")) == ()
    (event,) = decoder.feed(Frame("", json.dumps(keepalive()).encode()))
    assert type(event) is KeepaliveEvent
    assert decoder.end() == (StreamEnd(done=True),)


def test_there_is_nothing_to_tell_of_an_ordinary_end() -> None:
    assert Decoder().end() == ()


LAST = {"type": "response.completed", "sequence_number": 9, "response": {"id": "resp_a", "status": "completed"}}


def test_a_whole_last_frame_without_a_blank_line_is_taken_and_told() -> None:
    (event,), codes = decode(LAST, complete=False)
    assert to_wire(event) == LAST
    assert codes == ["unfinished_frame"]
    assert decode(LAST, complete=False, profile=only("event_name_mismatch"))[1] == []


def test_a_last_frame_without_a_blank_line_is_dropped_by_strict_and_described() -> None:
    size = len(json.dumps(LAST))
    end = StreamEnd(unfinished_bytes=size, unfinished_type="response.completed")
    assert decode(LAST, complete=False, profile=STRICT) == ([end], [])


@pytest.mark.parametrize(
    ("data", "name", "type_"),
    [
        ('{"type":"response.completed","resp', "", "response.completed"),
        ('{"sequence_number": 3, "type" : "response.failed" , "resp', "message", "response.failed"),
        ('{"type":"error","mess', "", "error"),
        ('{"type":"resp', "response.completed", "response.completed"),
        ('{"ty', "", None),
        ("oops", "", None),
    ],
)
@pytest.mark.parametrize("profile", [DEFAULT, STRICT, QUIET], ids=lambda profile: profile.name)
def test_half_a_last_frame_is_dropped_and_described(data: str, name: str, type_: str | None, profile: Profile) -> None:
    end = StreamEnd(unfinished_bytes=len(data), unfinished_type=type_)
    assert decode(data, name, profile, complete=False) == ([end], [])


def test_a_whole_last_frame_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(SchemaViolation):
        decode({"type": "response.completed"}, complete=False)


def test_an_error_that_passes_takes_the_violations_along() -> None:
    decoder = Decoder()
    decoder.feed(Frame("", b""))
    lost = ConnectionLost("reset")
    with pytest.raises(ConnectionLost) as caught:
        decoder.fail(lost)
    assert [violation.code for violation in caught.value.violations] == ["empty_data"]


# bytes


def texts(*chunks: bytes, profile: Profile = DEFAULT) -> list[str]:
    parser, decoder = FrameParser(), Decoder(Judge(profile))
    found = [event for chunk in chunks for frame in parser.feed(chunk) for event in decoder.feed(frame)]
    assert all(isinstance(event, ResponseTextDeltaEvent) for event in found)
    return [event.delta for event in found if isinstance(event, ResponseTextDeltaEvent)]


def text_record(inside: bytes) -> bytes:
    place = b'"output_index":0,"content_index":0'
    return b'data: {"type":"response.output_text.delta",' + place + b',"delta":"' + inside + b'"}\n\n'


def test_a_character_cut_in_two_is_one_character() -> None:
    whole = text_record(b"\xe5\x8c\x97")
    for cut in range(len(whole)):
        assert texts(whole[:cut], whole[cut:]) == ["\u5317"]


def test_unicode_line_separators_are_no_line_ends() -> None:
    assert texts(text_record(b"a\xe2\x80\xa8b\xc2\x85c\xe2\x80\xa9")) == ["a\u2028b\u0085c\u2029"]


def test_a_carriage_return_between_chunks_is_one_line_end() -> None:
    body = text_record(b"a").replace(b"{", b"{\n", 1).replace(b"\n", b"\r\n").replace(b"{\r\n", b"{\r\ndata: ")
    for cut in range(len(body)):
        assert texts(body[:cut], body[cut:]) == ["a"]


def test_a_large_frame_is_read_in_chunks_of_any_size() -> None:
    body = text_record(b"A" * 2_000_000)
    (text,) = texts(*(body[start : start + 65_536] for start in range(0, len(body), 65_536)))
    assert len(text) == 2_000_000


def test_a_frame_above_the_limit_is_refused() -> None:
    parser = FrameParser(max_frame_bytes=100)
    with pytest.raises(FrameTooLarge, match="expected frames of at most 100 bytes, got"):
        parser.feed(text_record(b"A" * 200))


def test_a_number_that_no_machine_counts_to_is_a_wrong_shape() -> None:
    with pytest.raises(SchemaViolation) as caught:
        decode(b'{"type": "keepalive", "sequence_number": %s}' % (b"9" * 4300))
    assert len(str(caught.value)) < 300


def test_a_field_that_only_a_later_event_of_the_type_lacks_is_found() -> None:
    found: list[Violation] = []
    decoder = Decoder(Judge(only("field_missing", "report"), found.append))
    whole = item("message", "msg_a", role="assistant", content=[])
    for index, body in enumerate([whole, {"type": "function_call"}]):
        fields = {"type": "response.output_item.added", "output_index": index, "item": body}
        decoder.feed(Frame(data=json.dumps(fields).encode()))
    places = {violation.place for violation in found}
    assert places == {f"item.{name}" for name in ("id", "name", "arguments", "call_id", "status")}
