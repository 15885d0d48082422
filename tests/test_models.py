"""The models: complete, tolerant, strict where it matters, built once, and losing nothing."""

from __future__ import annotations

import gc
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import FrameType
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter, ValidationError

import orx_rx.models
from orx_rx.models import (
    AnnotationURLCitation,
    AnyAnnotation,
    DeltaEvent,
    Event,
    Item,
    KeepaliveEvent,
    Logprob,
    Model,
    Part,
    Response,
    ResponseAudioDeltaEvent,
    ResponseCompletedEvent,
    ResponseContentPartAddedEvent,
    ResponseError,
    ResponseErrorEvent,
    ResponseFunctionToolCall,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseOutputTextAnnotationAddedEvent,
    ResponseShellCallOutputContentDeltaEvent,
    ResponseTextDeltaEvent,
    ShellOutputDelta,
    UnknownAnnotation,
    UnknownEvent,
    UnknownItem,
    UnknownPart,
    to_wire,
)
from orx_rx.models.events import EVENT_CLASSES
from orx_rx.models.items import ITEM_CLASSES
from orx_rx.models.parse import event_of, json_object, known_event_validator
from orx_rx.models.parts import PART_CLASSES
from orx_rx.models.required import REQUIRED, missing_fields
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.decoding import Decoder
from orx_rx.wire import FrameParser
from tests.captures import capture_names, read_capture
from tests.chain import run, sse
from tests.conftest import shared

OPEN_RESPONSES_ONLY = {"response.reasoning.delta", "response.reasoning.done"}
ANNOTATION_CLASSES: dict[str, type[Model]] = {
    f"annotation:{annotation.model_fields['type'].default}": annotation
    for annotation in get_args(get_args(get_args(get_args(AnyAnnotation)[0])[0])[0])
}
CLASSES: dict[str, type[Model]] = {**EVENT_CLASSES, **ITEM_CLASSES, **PART_CLASSES, **ANNOTATION_CLASSES}


# complete, by the facts of the wire


def test_every_event_of_the_wire_has_a_class() -> None:
    assert set(EVENT_CLASSES) == set(wire_events()) | {"keepalive"}
    assert len(wire_events()) == 59 + len(OPEN_RESPONSES_ONLY)
    assert set(wire_events()) >= OPEN_RESPONSES_ONLY


def test_every_item_part_and_annotation_of_the_wire_has_a_class() -> None:
    assert set(ITEM_CLASSES) == set(wire_items("item"))
    assert set(PART_CLASSES) == set(wire_items("part"))
    assert set(ANNOTATION_CLASSES) == set(wire_items("annotation"))


def test_every_field_of_the_wire_has_its_name_in_the_model() -> None:
    missing = {type_: set(entry["fields"]) - names(CLASSES[type_]) for type_, entry in wire_models().items()}
    # the object that nests what an error event says stays as it is, and is read as `.error`
    assert {type_: fields for type_, fields in missing.items() if fields} == {"error": {"error"}}


def test_a_model_has_no_field_that_the_wire_does_not_know() -> None:
    more = {type_: names(CLASSES[type_]) - set(entry["fields"]) for type_, entry in wire_models().items()}
    assert {type_: fields for type_, fields in more.items() if fields - {"obfuscation"}} == {
        "error": {"error_type"},  # the `type` of the nested object
        "response.function_call_arguments.done": {"name"},  # the openai package had it for a while
    }


# What is nested in items goes by short names in the facts; actions on a screen have the prefix that `_nested` adds.
SUB_MODELS = {
    "Result": "FileSearchResult",
    "ActionSearch": "WebSearchActionSearch",
    "ActionSearchSource": "WebSearchSource",
    "ActionOpenPage": "WebSearchActionOpenPage",
    "ActionFind": "WebSearchActionFind",
    "Summary": "SummaryText",
    "Content": "PartReasoningText",
    "OutputLogs": "CodeInterpreterLogs",
    "OutputImage": "CodeInterpreterImage",
    "Action": "ShellAction",
    "Output": "ShellOutput",
    "OutputOutcomeTimeout": "ShellOutcomeTimeout",
    "OutputOutcomeExit": "ShellOutcomeExit",
    "HTTPError": "McpHttpError",
}


def test_what_is_nested_in_items_has_the_fields_of_the_wire() -> None:
    nested = {
        name: (set(fields), names(_nested(name)))
        for entry in wire_items("item").values()
        for name, fields in entry.get("sub_models", {}).items()
    }
    assert {name: fields for name, fields in nested.items() if fields[0] != fields[1]} == {}
    assert set(nested) > set(SUB_MODELS)


def _nested(name: str) -> Any:
    known = SUB_MODELS.get(name, name)
    return getattr(orx_rx.models, known, None) or getattr(orx_rx.models, f"ComputerAction{name.removeprefix('Action')}")


def test_classes_are_named_as_in_the_openai_package() -> None:
    openai = pytest.importorskip("openai.types.responses")
    for union, classes, ours_alone in (
        (openai.ResponseStreamEvent, EVENT_CLASSES, OPEN_RESPONSES_ONLY | {"keepalive"}),
        (openai.ResponseOutputItem, ITEM_CLASSES, set[str]()),
    ):
        theirs = {_type_of(model): model.__name__ for model in get_args(get_args(union)[0])}
        ours = {type_: model.__name__ for type_, model in classes.items() if type_ not in ours_alone}
        assert ours == theirs


def test_fields_are_named_as_in_the_openai_package() -> None:
    openai = pytest.importorskip("openai.types.responses")
    unions = (openai.ResponseStreamEvent, openai.ResponseOutputItem)
    theirs = [model for union in unions for model in get_args(get_args(union)[0])]
    missing = {model.__name__: names(model) - names(CLASSES[_type_of(model)]) for model in theirs}
    assert {name: fields for name, fields in missing.items() if fields} == {}
    assert len(missing) == 59 + 28


def _type_of(model: Any) -> str:
    (type_,) = get_args(model.model_fields["type"].annotation)
    return str(type_)


def names(model: Any) -> set[str]:
    """The names of the fields of a model on the wire."""
    return {field.alias or name for name, field in model.model_fields.items()}


@cache
def wire_events() -> dict[str, Any]:
    facts = json.loads((shared("protocol") / "events.json").read_text(encoding="utf-8"))
    return {type_: entry for type_, entry in facts.items() if entry.get("transport") != "websocket"}


@cache
def wire_items(kind: str) -> dict[str, Any]:
    facts = json.loads((shared("protocol") / "items.json").read_text(encoding="utf-8"))
    return {type_: entry for type_, entry in facts.items() if entry["kind"] == kind}


def wire_models() -> dict[str, Any]:
    return {**wire_events(), **wire_items("item"), **wire_items("part"), **wire_items("annotation")}


# the table of required fields


def test_the_required_fields_are_those_of_the_wire() -> None:
    rows = {type_: row for type_, row in REQUIRED.items() if type_ != "response"}
    types = set(wire_models()) - {"error"} - set(ANNOTATION_CLASSES)  # an error has two shapes, either of which will do
    expected = {type_: required_by_either(type_) for type_ in types}
    assert {type_: set(row) for type_, row in rows.items()} == {type_: row for type_, row in expected.items() if row}


def required_by_either(type_: str) -> set[str]:
    """What one of the sources requires and the model does not demand; marked where one of them allows null."""
    entry = wire_models()[type_]
    row: set[str] = set()
    for name, own in entry["fields"].items():
        if name == "sequence_number" or _demanded(CLASSES[type_], name):
            continue
        by_source = entry.get("differences", {}).get(name) or {
            source: entry[source].get(name) for source in ("openai", "openresponses") if source in entry
        }
        rules = [rule for rule in by_source.values() if rule] or [own]
        if any(rule["required"] for rule in rules):
            row.add(name + "?" * any(rule["nullable"] for rule in rules))
    return row


def _demanded(model: type[Model], name: str) -> bool:
    field = next(field for key, field in model.model_fields.items() if name in (key, field.alias))
    return field.is_required() or name == "type"


def test_the_required_fields_of_a_response_are_those_of_the_wire() -> None:
    facts = (shared("protocol") / "facts.md").read_text(encoding="utf-8")
    section = facts[facts.index("## C. The Response object") :]
    everything = re.search(r"Minimal strict body: ([a-z_, ]+)\.", section)
    assert everything
    nullable: set[str] = set()
    for line in section.splitlines():
        fields, *presence = re.sub(r"\(.*?\)|not nullable", "", line).strip("| ").split("|")
        if re.search(r"\b(null|nullable|any)\b", " ".join(presence[1:])):  # behind the type that OpenAI gives it
            nullable |= set(fields.strip().split(", "))
    assert set(REQUIRED["response"]) == {
        name + "?" * (name in nullable) for name in everything[1].split(", ") if not _demanded(Response, name)
    }


def test_missing_fields_are_named_by_their_path() -> None:
    item = ResponseOutputMessage(id="msg_1", content=[ResponseOutputText(text="Hi")], status=None)
    event = ResponseOutputItemDoneEvent(output_index=0, item=item)
    assert missing_fields(event) == ["item.role", "item.status", "item.content.annotations"]


def test_a_nullable_field_is_missing_only_if_it_is_absent() -> None:
    assert missing_fields(ResponseOutputItemDoneEvent(output_index=0)) == ["item"]
    assert missing_fields(ResponseOutputItemDoneEvent(output_index=0, item=None)) == []


def test_required_fields_are_those_of_events_items_and_parts_alone() -> None:
    caller = {"type": "program", "caller_id": "prog_1"}  # not the item of that type
    fields = {"id": "1", "call_id": "2", "name": "probe", "arguments": "{}", "status": "completed", "caller": caller}
    item = ResponseFunctionToolCall.model_validate(fields)
    assert type(item.caller).__name__ == "CallerProgram"
    assert missing_fields(item) == []


# nothing is lost


def test_every_event_of_every_capture_goes_back_to_the_wire_as_it_came() -> None:
    for name, sent, event in captured():
        assert same(to_wire(event), sent), (name, event.type, event.sequence_number)


def test_every_event_of_every_capture_survives_a_round_trip() -> None:
    for name, _, event in captured():
        again = type(event).model_validate(to_wire(event))
        assert again == event, (name, event.type, event.sequence_number)
        assert again.model_fields_set == event.model_fields_set


def captured() -> Iterator[tuple[str, dict[str, Any], Event]]:
    """Every event of every capture, beside the JSON that it came from."""
    shared("captures")
    for name in capture_names():
        decoder = Decoder()
        for frame in FrameParser().feed(read_capture(name)):
            for event in decoder.feed(frame):
                yield name, json.loads(frame.data), event


def same(one: object, other: object) -> bool:
    """Compare JSON values more closely than Python does: true is not 1, and 1 is not 1.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


MESSAGE: dict[str, Any] = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []}

ODD: dict[str, dict[str, Any]] = {
    "unknown fields": {
        "type": "response.queued",
        "sequence_number": 1,
        "response": {"id": "a", "x": {"y": [1, None]}},
        "z": 0,
    },
    "an unknown event": {
        "type": "vendor:thing",
        "sequence_number": 3,
        "model_extra": [True, 1.0, 1],
        "copy": "x",
    },
    "an unknown event without anything": {"type": "vendor:thing"},
    "an unknown item": {
        "type": "response.output_item.done",
        "output_index": 0,
        "item": {"type": "vendor:search", "id": "s_1", "hits": [{"type": "message"}]},
    },
    "an unknown part": {
        "type": "response.content_part.added",
        "output_index": 0,
        "content_index": 0,
        "part": {"type": "vendor:chart", "points": [[0, 0.0], [1, 1.5]]},
    },
    "an unknown annotation": {
        "type": "response.output_text.annotation.added",
        "output_index": 0,
        "content_index": 0,
        "annotation_index": 0,
        "annotation": {"type": "vendor:footnote", "at": 7},
    },
    "an annotation that is none": {
        "type": "response.output_text.annotation.added",
        "output_index": 0,
        "content_index": 0,
        "annotation_index": 0,
        "annotation": "see page 7",
    },
    "names that Python has taken": {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": {"type": "function_call", "arguments": "", "async": False, "schema": {}, "json": 1, "class": "x"},
    },
    "whole numbers where fractions are usual": {
        "type": "response.completed",
        "response": {"id": "a", "created_at": 1, "temperature": 1, "top_p": 1.0, "completed_at": None, "output": []},
    },
    "numbers, flags and texts of another kind": {
        "type": "response.completed",
        "response": {
            "store": 1,
            "background": "no",
            "max_output_tokens": "9",
            "top_logprobs": True,
            "temperature": "0.5",
            "top_p": False,
            "created_at": "2026-01-01",
            "status": 7,
            "usage": {"input_tokens": 1.5, "output_tokens": "3", "total_tokens": True},
            "output": [{**MESSAGE, "content": [{"type": "output_text", "logprobs": [{"bytes": ["1", True]}]}]}],
        },
    },
    "attributes of every kind": {
        "type": "response.output_item.done",
        "output_index": 0,
        "item": {
            "type": "file_search_call",
            "results": [{"attributes": {"a": 1, "b": True, "c": "1", "d": 1.0}, "score": 1}],
        },
    },
    "objects where texts are usual": {
        "type": "response.failed",
        "response": {"id": "a", "status": "failed", "error": {"code": 500, "message": {"text": "x"}}, "output": None},
    },
    "usage without details": {
        "type": "response.completed",
        "response": {"id": "a", "usage": {"input_tokens": 1, "input_tokens_details": None}, "output": [MESSAGE]},
    },
    "an error with flat fields": {"type": "error", "code": "x", "message": "m", "param": None, "sequence_number": 4},
    "an error with nested fields": {
        "type": "error",
        "sequence_number": 2,
        "error": {"type": "server_error", "code": 503, "message": "m", "param": None, "headers": {"a": "b"}},
    },
    "an error with both": {"type": "error", "message": "m", "error": {"message": "m", "type": "t"}},
    "a keepalive": {"type": "keepalive", "sequence_number": 9},
}


@pytest.mark.parametrize("sent", ODD.values(), ids=ODD)
def test_what_is_odd_goes_back_to_the_wire_as_it_came(sent: dict[str, Any]) -> None:
    event = decode(sent)
    assert same(to_wire(event), sent)
    assert type(event).model_validate(to_wire(event)) == event
    assert type(event).model_validate(sent) == event  # from Python as from JSON


def decode(sent: dict[str, Any]) -> Event:
    (event,) = FrameParser().feed(f"data: {json.dumps(sent)}\n\n".encode())
    (decoded,) = Decoder().feed(event)
    return decoded


def test_what_is_unknown_keeps_its_fields_as_attributes() -> None:
    event, item, part, annotation = (
        decode(ODD[f"an unknown {kind}"]) for kind in ("event", "item", "part", "annotation")
    )
    assert isinstance(event, UnknownEvent)
    assert event.sequence_number == 3
    assert event.model_extra == {"model_extra": [True, 1.0, 1], "copy": "x"}
    assert isinstance(item, ResponseOutputItemDoneEvent)
    assert isinstance(item.item, UnknownItem)
    assert item.item.id == "s_1"
    assert item.item.hits == [{"type": "message"}]  # type: ignore[attr-defined]  # pyright: ignore
    assert isinstance(part, ResponseContentPartAddedEvent)
    assert isinstance(part.part, UnknownPart)
    assert isinstance(annotation, ResponseOutputTextAnnotationAddedEvent)
    assert isinstance(annotation.annotation, UnknownAnnotation)


def test_a_known_item_inside_what_is_known_is_typed_to_the_bottom() -> None:
    citation = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1}
    text = {"type": "output_text", "text": "x", "annotations": [citation], "logprobs": [{"token": "x", "logprob": 0}]}
    event = decode({"type": "response.completed", "response": {"output": [{**MESSAGE, "content": [text]}]}})
    assert isinstance(event, ResponseCompletedEvent)
    item = (event.response.output or [])[0]
    assert isinstance(item, ResponseOutputMessage)
    part = (item.content or [])[0]
    assert isinstance(part, ResponseOutputText)
    assert isinstance((part.annotations or [])[0], AnnotationURLCitation)
    assert isinstance((part.logprobs or [])[0], Logprob)
    assert event.response.output_text == "x"


def test_an_error_reads_the_same_in_all_its_shapes() -> None:
    flat = {"code": "429", "message": "slow down", "param": "model"}
    events = [
        decode({"type": "error", **flat}),
        decode({"type": "error", "error": {**flat, "code": 429}}),
        decode({"type": "error", **dict.fromkeys(flat), "error": flat}),
        event_of({"error": flat}),
    ]
    for event in events:
        assert isinstance(event, ResponseErrorEvent)
        assert {name: getattr(event, name) for name in flat} == flat
    told = decode({"type": "error", "error": "gone"})
    assert isinstance(told, ResponseErrorEvent)
    assert told.message == "gone"


# made in Python


def test_an_event_that_is_made_in_python_knows_its_type() -> None:
    event = ResponseTextDeltaEvent(output_index=0, content_index=1, delta="Hi", sequence_number=4)
    assert to_wire(event) == {
        "type": "response.output_text.delta",
        "sequence_number": 4,
        "output_index": 0,
        "content_index": 1,
        "delta": "Hi",
    }
    assert decode(to_wire(event)) == event


@pytest.mark.parametrize("model", [*EVENT_CLASSES.values(), *ITEM_CLASSES.values(), *PART_CLASSES.values()])
def test_the_type_of_a_model_is_its_default(model: type[Event | Item | Part]) -> None:
    demanded = [name for name, field in model.model_fields.items() if field.is_required()]
    made = model.model_validate({name: _any_value(model, name) for name in demanded})
    assert to_wire(made)["type"] == made.type
    assert CLASSES[made.type] is model


def _any_value(model: type[Model], name: str) -> object:
    values = {"response": Response(), "part": ResponseOutputText()}
    if name == "delta" and model.model_fields[name].annotation is not str:
        return {"stdout": ""}
    return values.get(name, 0 if name.endswith("_index") else "")


def test_only_an_unknown_type_needs_to_be_told() -> None:
    for model in (UnknownEvent, UnknownItem, UnknownPart, UnknownAnnotation):
        with pytest.raises(ValidationError, match="type"):
            model()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    assert to_wire(UnknownEvent(type="vendor:thing")) == {"type": "vendor:thing"}


def test_a_name_that_python_has_taken_gets_an_underscore() -> None:
    by_name, by_alias = (ResponseFunctionToolCall.model_validate({name: True}) for name in ("async_", "async"))
    assert by_name.async_ is by_alias.async_ is True
    assert to_wire(by_name) == to_wire(by_alias) == {"type": "function_call", "async": True}


def test_a_type_that_nobody_sent_stays_away() -> None:
    assert to_wire(ResponseError(code="x")) == {"code": "x"}
    assert to_wire(ResponseError(code="x", type="t")) == {"code": "x", "type": "t"}


def test_containers_of_models_go_to_the_wire_too() -> None:
    keepalive = KeepaliveEvent()
    assert to_wire({"a": [keepalive, (1, None)]}) == {"a": [{"type": "keepalive"}, [1, None]]}


@pytest.mark.parametrize(
    "model", [KeepaliveEvent(), UnknownEvent(type="x"), Response(), ResponseOutputText(), ResponseOutputMessage()]
)
def test_a_model_is_frozen(model: Model) -> None:
    for name in ("type", "id", "something"):
        with pytest.raises(ValidationError, match="frozen"):
            setattr(model, name, "x")


def test_an_event_has_no_snapshot_until_it_is_accumulated() -> None:
    events: list[Any] = [
        ResponseTextDeltaEvent(output_index=0, content_index=0, delta="x"),
        ResponseAudioDeltaEvent(delta="eA=="),
        ResponseShellCallOutputContentDeltaEvent(output_index=0, command_index=0, delta=ShellOutputDelta(stdout="x")),
    ]
    accumulator = Accumulator()
    for event, expected in zip(events, ("x", b"x", ShellOutputDelta(stdout="x", stderr="")), strict=True):
        with pytest.raises(AttributeError, match=f"expected an event that went through accumulate.*{event.type}"):
            _ = event.snapshot
        (grown,) = accumulator.feed(event)
        assert grown is not event
        assert type(grown) is type(event)
        assert grown == event
        assert getattr(grown, "snapshot", None) == expected
        assert not hasattr(event, "snapshot")


# strict about structure


DELTA: dict[str, Any] = {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "x"}
PARTIAL_IMAGE: dict[str, Any] = {
    "type": "response.image_generation_call.partial_image",
    "output_index": 0,
    "partial_image_index": 0,
    "partial_image_b64": "",
}
SUMMARY: dict[str, Any] = {
    "type": "response.reasoning_summary_text.done",
    "output_index": 0,
    "summary_index": 0,
    "text": "x",
}
COMMAND: dict[str, Any] = {
    "type": "response.shell_call_command.delta",
    "output_index": 0,
    "command_index": 0,
    "delta": "x",
}
ANNOTATION: dict[str, Any] = {
    "type": "response.output_text.annotation.added",
    "output_index": 0,
    "content_index": 0,
    "annotation_index": 0,
}


@pytest.mark.parametrize("value", [True, False, "0", "", 0.0, 1.5, -1, None, [], {}])
@pytest.mark.parametrize(
    ("event", "field"),
    [
        (DELTA, "output_index"),
        (DELTA, "content_index"),
        (SUMMARY, "summary_index"),
        (COMMAND, "command_index"),
        (ANNOTATION, "annotation_index"),
        (PARTIAL_IMAGE, "partial_image_index"),
    ],
)
def test_an_index_is_a_whole_number_from_0(event: dict[str, Any], field: str, value: object) -> None:
    refuse({**event, field: value}, field)
    refuse({name: kept for name, kept in event.items() if name != field}, field)


@pytest.mark.parametrize("value", [True, "0", 0.0, 1.5, []])
def test_a_sequence_number_is_a_whole_number_or_null(value: object) -> None:
    refuse({**DELTA, "sequence_number": value}, "sequence_number")
    assert validate({**DELTA, "sequence_number": None}).sequence_number is None


@pytest.mark.parametrize("value", [None, 0, True, ["x"], {"text": "x"}])
@pytest.mark.parametrize(
    ("event", "field"),
    [
        (DELTA, "delta"),
        (COMMAND, "delta"),
        (SUMMARY, "text"),
        (PARTIAL_IMAGE, "partial_image_b64"),
        ({"type": "response.function_call_arguments.done", "output_index": 0, "arguments": "{}"}, "arguments"),
        ({"type": "response.refusal.done", "output_index": 0, "content_index": 0, "refusal": "no"}, "refusal"),
        ({"type": "response.custom_tool_call_input.done", "output_index": 0, "input": "x"}, "input"),
        ({"type": "response.code_interpreter_call_code.done", "output_index": 0, "code": "x"}, "code"),
        ({"type": "response.audio.delta", "delta": ""}, "delta"),
    ],
)
def test_a_text_is_a_text(event: dict[str, Any], field: str, value: object) -> None:
    refuse({**event, field: value}, field)
    refuse({name: kept for name, kept in event.items() if name != field}, field)


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"type": "response.completed", "response": {"id": None}}, "response.id"),
        ({"type": "response.completed", "response": {"id": 7}}, "response.id"),
        ({"type": "response.completed", "response": {"output": {}}}, "response.output"),
        ({"type": "response.completed", "response": {"output": [None]}}, "response.output.0"),
        ({"type": "response.completed", "response": {"output": [{"id": "x"}]}}, "response.output.0"),
        ({"type": "response.completed", "response": {"output": [{**MESSAGE, "id": 1}]}}, "response.output.0.id"),
        ({"type": "response.completed", "response": {"output": [{**MESSAGE, "content": "Hi"}]}}, "content"),
        ({"type": "response.completed", "response": {"output": [{**MESSAGE, "content": ["Hi"]}]}}, "content.0"),
        ({"type": "response.completed", "response": None}, "response"),
        ({"type": "response.completed"}, "response"),
        ({"type": "response.output_item.added", "output_index": 0, "item": {"id": "x"}}, "item"),
        ({**DELTA, "type": "response.content_part.added", "part": {"type": "output_text", "text": None}}, "part"),
        ({**DELTA, "type": "response.content_part.added", "part": {"text": "no type"}}, "part"),
        ({**DELTA, "item_id": 7}, "item_id"),
    ],
)
def test_the_structure_of_a_response_is_strict(event: dict[str, Any], field: str) -> None:
    refuse(event, field)


def test_an_error_event_is_an_object() -> None:
    with pytest.raises(ValidationError):
        ResponseErrorEvent.model_validate("gone")
    event = ResponseErrorEvent(code="gone")
    assert ResponseErrorEvent.model_validate(event) is event


def validate(sent: dict[str, Any]) -> Event:
    return known_event_validator()(json.dumps(sent).encode())


def refuse(sent: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        validate(sent)
    places = {
        ".".join(str(step) for step in problem["loc"] if isinstance(step, int) or step.islower())
        for problem in caught.value.errors()
    }
    assert any(field in place for place in places), places


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"null", b"nope", b'{"type": 1}', b'{"type": "x"}', b"\xff"])
def test_the_union_of_known_events_takes_nothing_else(data: bytes) -> None:
    with pytest.raises(ValidationError):
        known_event_validator()(data)


def test_a_json_object_is_an_object() -> None:
    assert json_object(b'{"a": [1, 1.0]}') == {"a": [1, 1.0]}
    for data in (b"[]", b"1", b"{", b'{"a": "\xff"}'):
        with pytest.raises(ValidationError):
            json_object(data)


# built once

EVENTS: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**MESSAGE, "status": "in_progress"}},
    {**DELTA, "type": "response.content_part.added", "part": {"type": "output_text", "text": ""}},
    DELTA,
    {"type": "vendor:thing", "note": "unknown"},
    DELTA,
    {**DELTA, "type": "response.output_text.done", "text": "xx"},
    {**DELTA, "type": "response.content_part.done", "part": {"type": "output_text", "text": "xx"}},
    {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
    {"type": "error", "error": {"message": "m"}},
    {"type": "response.failed", "response": {"id": "resp_1", "status": "failed", "output": []}},
]
STREAM = sse(*EVENTS)


def parse_stream() -> int:
    """Send one stream through all the steps, read it, forget it, and count its events."""
    ran = run(STREAM)
    assert ran.final.status == "failed"
    for event in ran.events:
        to_wire(event)
        if isinstance(event, DeltaEvent):
            assert event.snapshot
    return len(ran.events)


def schemas_built(work: Callable[[], object]) -> int:
    """Count the calls into the part of pydantic that builds schemas, while some work is done."""
    calls = 0

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_globals.get("__name__") == "pydantic._internal._generate_schema"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def test_no_schema_is_built_while_streams_are_parsed() -> None:
    parse_stream()
    assert schemas_built(lambda: TypeAdapter(list[int])) > 0  # so the count would show it
    assert schemas_built(lambda: [parse_stream() for _ in range(1000)]) == 0


def test_a_stream_leaves_nothing_behind() -> None:
    assert parse_stream() == len(EVENTS)
    grown = [_objects_left(50) for _ in range(3)]
    assert min(grown) < 25, grown  # one object a stream would be 50


def _objects_left(streams: int) -> int:
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(streams):
        parse_stream()
    gc.collect()
    return len(gc.get_objects()) - before


def test_the_union_of_events_is_built_once() -> None:
    assert known_event_validator() is known_event_validator()
    built = known_event_validator.cache_info().misses
    Decoder()
    parse_stream()
    assert known_event_validator.cache_info().misses == built == 1


def test_nothing_is_built_at_import() -> None:
    program = """
import orx_rx
from orx_rx.models import parse
from orx_rx.models.base import Model

def models(model):
    for kind in model.__subclasses__():
        yield kind
        yield from models(kind)

assert parse.known_event_validator.cache_info().currsize == 0
print(sum(1 for _ in models(Model)), [kind.__name__ for kind in models(Model) if kind.__pydantic_complete__])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    count, _, complete = ran.stdout.partition(" ")
    assert int(count) > 150
    assert complete.strip() == "[]"
