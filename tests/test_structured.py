"""Structured output: what is asked for, what the answer is as that type, and what there may be instead of it."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from pydantic import AfterValidator, BaseModel, Field, RootModel, TypeAdapter
from pydantic_core import SchemaValidator
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from orx_rx import Accumulator, Client, final_response, iterate
from orx_rx import operators as ops
from orx_rx.errors import IncompleteOutput, OutputError, OutputParseError, Refused
from orx_rx.models import Event, Response, ResponseTextDoneEvent
from orx_rx.models.base import to_wire
from orx_rx.protocol.structured import OutputFormat
from orx_rx.simulator import Simulator
from tests import chain
from tests.conftest import shared
from tests.sources import Listener, at_once

T = TypeVar("T")


class Point(BaseModel):
    x: int
    y: int = 0


class Box(BaseModel, Generic[T]):
    content: T


class Points(RootModel[list[Point]]):
    pass


class PointRoot(RootModel[Point]):
    pass


@dataclass
class Pair:
    first: Point
    second: str = ""


class Row(TypedDict):
    name: str
    point: Point


class Holder(TypedDict, Generic[T]):
    held: T


class Falsy(BaseModel):
    x: int

    def __bool__(self) -> bool:
        return False


class Node(BaseModel):
    value: int
    children: list[Node] = []


def accumulated(text_format: Any, *payloads: chain.Payload) -> tuple[Response, list[Event]]:
    """Run payloads through `accumulate`, and return the final response and the events."""
    accumulator = Accumulator(text_format=text_format)
    events = [event for one in chain.events(*payloads) for event in accumulator.feed(one)]
    assert accumulator.final_response is not None
    return accumulator.final_response, events


def answered(*texts: str, status: str = "completed", **fields: Any) -> list[chain.Payload]:
    """A stream of messages with one text each."""
    payloads = [chain.created()]
    messages = [chain.message(text, id=f"msg_{index}") for index, text in enumerate(texts)]
    for index, text in enumerate(texts):
        place: dict[str, Any] = {"index": index, "id": f"msg_{index}"}
        payloads += [
            chain.added(chain.message(id=f"msg_{index}"), index),
            chain.part_added(**place),
            chain.delta(text, **place),
            chain.text_done(text, **place),
            chain.part_done(chain.output_text(text), **place),
            chain.finished(messages[index], index),
        ]
    return [*payloads, chain.terminal(status, output=messages, **fields)]


def done_of(events: list[Event]) -> list[ResponseTextDoneEvent]:
    return [event for event in events if isinstance(event, ResponseTextDoneEvent)]


def failure(read: Callable[[], Any]) -> OutputError:
    with pytest.raises(OutputError) as caught:
        read()
    return caught.value


# what is asked for

NAMES: Mapping[str, tuple[Any, str, bool]] = {
    "a model": (Point, "Point", False),
    "a generic model": (Box[int], "Box_int", False),
    "a model of a list": (Points, "Points", True),
    "a model of a model": (PointRoot, "PointRoot", False),
    "a model that refers to itself": (Node, "Node", False),
    "a dataclass": (Pair, "Pair", False),
    "a typed dict": (Row, "Row", False),
    "a list": (list[Point], "list", True),
    "a list of a union": (list[Point | Node], "list", True),
    "a union": (Point | Node, "output", True),
    "a model or nothing": (Point | None, "output", True),
    "a literal": (Literal["a", "b"], "output", True),
    "a number": (int, "int", True),
    "a text": (Annotated[str, Field(max_length=3)], "str", True),
    "an annotated model": (Annotated[Point, Field(description="a place")], "Point", False),
    "a typed dict of a type": (Holder[int], "Holder", False),
    "a name that is too long": (type("N" * 70, (Point,), {}), "N" * 64, False),
    "a name in another script": (type("Größe", (Point,), {}), "Gr_e", False),
}


@pytest.mark.parametrize("title", NAMES)
async def test_any_type_goes_to_a_server_and_comes_back(title: str) -> None:
    type_, name, wrapped = NAMES[title]
    async with Simulator() as simulator, Client(base_url=simulator.base_url) as client:
        events = [event async for event in iterate(client.events(model="json", input="x", text_format=type_))]
    (request,) = simulator.requests
    assert request.body is not None
    asked = request.body["text"]["format"]
    assert {**asked, "schema": None} == {"type": "json_schema", "strict": True, "name": name, "schema": None}
    assert (asked["schema"]["type"], asked["schema"]["additionalProperties"]) == ("object", False)
    (done,), response = done_of(events), await final_response(at_once(events, None))
    fields = TypeAdapter(dict[str, Any]).validate_json(response.output_text)
    expected = TypeAdapter(type_).validate_python(fields["value"] if wrapped else fields)
    assert response.output_parsed == done.parsed == expected
    assert response.output_parsed is response.output_parsed


@pytest.mark.parametrize("text", [None, {}, {"verbosity": "low"}, {"verbosity": "low", "format": None}])
async def test_what_else_is_said_of_the_text_is_kept(text: dict[str, Any] | None) -> None:
    async with Simulator() as simulator, Client(base_url=simulator.base_url) as client:
        await final_response(client.events(model="json", input="x", text=text, text_format=Point))
    (request,) = simulator.requests
    assert request.body is not None
    kept = {key: value for key, value in (text or {}).items() if key != "format"}
    assert request.body["text"] == {**kept, "format": OutputFormat(Point).asked_for(None)["format"]}


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"text": {"format": {"type": "text"}}, "text_format": Point}, "text_format or text.format, got both"),
    ({"text": "short", "text_format": Point}, "text to be an object, got str"),
    ({"text_format": Callable[[], int]}, "a type that pydantic reads from JSON"),
    ({"text_format": 3}, "a type that pydantic reads from JSON, got 3"),
]


@pytest.mark.parametrize(("request_", "message"), WRONG)
def test_what_cannot_be_asked_for_is_refused_before_anything_is_sent(request_: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^expected .*{message}"):
        Client(base_url="http://127.0.0.1:1").events(model="json", **request_)


def test_a_client_in_a_thread_parses_as_well() -> None:
    with Client.in_thread(base_url="http://127.0.0.1:1") as client, pytest.raises(TypeError, match="got both"):
        client.events(model="json", text={"format": {"type": "text"}}, text_format=Point)


async def test_a_stream_that_is_resumed_is_parsed_as_it_is_told() -> None:
    async with Simulator() as simulator, Client(base_url=simulator.base_url) as client:
        accumulator = Accumulator()
        events = client.events(model="json", input="x", background=True, into=accumulator, text_format=Point)
        async with iterate(events) as reading:
            await anext(reading)
            cursor = accumulator.cursor
        assert cursor is not None
        response = await final_response(client.resume(cursor, rebuild=True, text_format=Point))
    assert response.output_parsed == Point(x=1, y=1)


def test_formats_leave_nothing_behind() -> None:  # B36
    def validators() -> int:
        gc.collect()
        return sum(isinstance(one, SchemaValidator) for one in gc.get_objects())

    def build() -> None:
        for type_ in (Point, list[Point], Point | Node):
            run = at_once(chain.events(*answered('{"x": 1, "value": [1]}')), None).pipe(
                ops.accumulate(text_format=type_), ops.partial(type_)
            )
            Listener(run)

    for _ in range(3):  # models of the library are built when they are first needed
        build()
    before = validators()
    for _ in range(10):
        build()
    assert validators() - before < 10  # a leak would be thirty at least


# what the answer is


def test_an_answer_is_read_as_json_and_no_more_strictly() -> None:
    response, (*_,) = accumulated(Point, *answered('{"x": "12", "more": true}'))
    assert response.output_parsed == Point(x=12)


@pytest.mark.parametrize(
    ("type_", "text", "parsed"),
    [
        (Falsy, '{"x": 0}', Falsy(x=0)),
        (dict[str, int], "{}", {}),
        (list[int], '{"value": []}', []),
        (int, '{"value": 0}', 0),
        (bool, '{"value": false}', False),
        (str, '{"value": ""}', ""),
        (Point | None, '{"value": null}', None),
    ],
)
def test_what_is_falsy_is_an_answer(type_: Any, text: str, parsed: object) -> None:
    response, events = accumulated(type_, *answered(text, '{"value": 7, "x": 7}'))
    if parsed is not None:
        assert response.output_parsed == parsed
    assert done_of(events)[0].parsed == parsed


def test_the_first_answer_that_says_something_counts() -> None:
    response, events = accumulated(Point | None, *answered('{"value": null}', '{"value": {"x": 1}}', "nonsense"))
    assert response.output_parsed == Point(x=1)
    first, second, third = done_of(events)
    assert (first.parsed, second.parsed) == (None, Point(x=1))
    assert isinstance(failure(lambda: third.parsed), OutputParseError)


@pytest.mark.parametrize(
    ("phase", "is_answer"), [(None, True), ("final_answer", True), ("commentary", False), ("musing", False)]
)
def test_only_a_message_that_is_an_answer_is_read(phase: str | None, is_answer: bool) -> None:
    payloads = answered("thinking aloud" if not is_answer else '{"x": 1}')
    for payload in payloads:
        for item in (payload.get("item"), *payload.get("response", {}).get("output", ())):
            if item:
                item["phase"] = phase
    response, events = accumulated(Point, *payloads)
    expected = Point(x=1) if is_answer else None
    assert (response.output_parsed, done_of(events)[0].parsed) == (expected, expected)


def test_a_response_without_text_has_no_answer() -> None:
    response, _ = accumulated(Point, chain.created(), chain.terminal(output=[chain.call("{}")]))
    assert response.output_parsed is None


def test_an_answer_that_only_the_terminal_tells_is_read() -> None:
    response, _ = accumulated(Point, chain.created(), chain.terminal(output=[chain.message('{"x": 1}')]))
    assert response.output_parsed == Point(x=1)


def test_an_answer_that_the_terminal_leaves_out_is_read() -> None:
    response, _ = accumulated(Point, *answered('{"x": 1}')[:-1], chain.terminal())
    assert response.output_parsed == Point(x=1)


# what there may be instead


def test_a_text_that_was_cut_off_is_incomplete() -> None:  # B42
    text = '{"x": [1,'
    details = {"incomplete_details": {"reason": "max_output_tokens"}}
    accumulator = Accumulator(text_format=Point)
    *before, last = chain.events(*answered(text, status="incomplete", **details))
    (done,) = done_of([event for one in before for event in accumulator.feed(one)])
    early = failure(lambda: done.parsed)
    assert isinstance(early, IncompleteOutput)
    assert (early.reason, early.partial_text, early.snapshot) == (None, text, None)
    accumulator.feed(last)
    response = accumulator.final_response
    assert response is not None
    for read in (lambda: done.parsed, lambda: response.output_parsed, lambda: copy.copy(response).output_parsed):
        error = failure(read)
        assert isinstance(error, IncompleteOutput)
        assert (error.reason, error.partial_text) == ("max_output_tokens", text)
        assert error.snapshot is not None
        assert error.snapshot == response


@pytest.mark.parametrize("text", ["Hello", "[]", '{"x": "many"}'])
def test_a_text_that_is_no_beginning_either_is_an_error_before_the_terminal_too(text: str) -> None:
    accumulator = Accumulator(text_format=Point)
    (done,) = done_of([event for one in chain.events(*answered(text)[:-1]) for event in accumulator.feed(one)])
    assert isinstance(failure(lambda: done.parsed), OutputParseError)


def test_the_stream_of_the_report_gives_an_incomplete_output() -> None:  # B42
    block = shared("cases/field-reports.md").read_text(encoding="utf-8").partition("### B42")[2].partition("### ")[0]
    (stream,) = chain.report_streams(block)
    response, events = accumulated(Point, *(payload for payload in stream if isinstance(payload, dict)))
    for read in (lambda: response.output_parsed, lambda: done_of(events)[0].parsed):
        error = failure(read)
        assert isinstance(error, IncompleteOutput)
        assert (error.reason, error.partial_text) == ("max_output_tokens", '{"a":[1,')


@pytest.mark.parametrize(
    ("status", "fields", "reason"),
    [
        ("incomplete", {"incomplete_details": {"reason": "content_filter"}}, "content_filter"),
        ("incomplete", {"incomplete_details": None}, None),
        ("failed", {"error": {"code": "server_error", "message": "busy"}}, "server_error"),
        ("failed", {}, "failed"),
    ],
)
def test_a_response_that_is_not_completed_says_why(status: str, fields: Any, reason: str | None) -> None:
    response, _ = accumulated(Point, *answered('{"x"', status=status, **fields))
    error = failure(lambda: response.output_parsed)
    assert isinstance(error, IncompleteOutput)
    assert (error.reason, error.partial_text, error.snapshot) == (reason, '{"x"', response)


def test_a_whole_text_of_a_response_that_was_cut_off_later_is_read() -> None:
    response, events = accumulated(Point, *answered('{"x": 1}', '{"x"', status="incomplete"))
    assert isinstance(failure(lambda: response.output_parsed), IncompleteOutput)
    assert done_of(events)[0].parsed == Point(x=1)


def test_a_refusal_is_one() -> None:
    refusal = {"type": "refusal", "refusal": "I cannot"}
    response, _ = accumulated(
        Point, chain.created(), chain.terminal(output=[chain.item(role="assistant", content=[refusal])])
    )
    error = failure(lambda: response.output_parsed)
    assert isinstance(error, Refused)
    assert (error.text, error.snapshot) == ("I cannot", response)


@pytest.mark.parametrize("text", ["Hello", '{"x": "many"}', '{"x"', "", "[]", "null"])
def test_a_whole_text_that_does_not_fit_is_an_error_without_the_text_in_its_message(text: str) -> None:
    response, events = accumulated(Point, *answered(text))
    for read in (lambda: response.output_parsed, lambda: done_of(events)[0].parsed):
        error = failure(read)
        assert isinstance(error, OutputParseError)
        assert (error.text, error.snapshot) == (text, response)
        assert str(error).startswith("expected Point, got a text that does not fit: ")
        assert "many" not in str(error)
        assert error.__cause__ is None


@pytest.mark.parametrize(("model", "kind"), [("refusal", Refused), ("incomplete", IncompleteOutput)])
async def test_the_final_response_is_there_whatever_the_output_is(model: str, kind: type[OutputError]) -> None:
    async with Simulator() as simulator, Client(base_url=simulator.base_url) as client:
        response = await final_response(client.events(model=model, input="x", text_format=Point))
    assert response.id
    assert type(failure(lambda: response.output_parsed)) is kind


# reading


def test_what_nobody_asked_for_is_no_attribute() -> None:
    response, events = accumulated(None, *answered('{"x": 1}'))
    with pytest.raises(AttributeError, match=r"^expected a Response of a stream with text_format, got one without"):
        assert response.output_parsed
    with pytest.raises(AttributeError, match=r"^expected a ResponseTextDoneEvent of a stream with text_format"):
        assert done_of(events)[0].parsed


def test_an_answer_is_parsed_when_it_is_read_and_once() -> None:
    calls: list[int] = []

    def noted(value: int) -> int:
        calls.append(value)
        return value

    response, events = accumulated(Annotated[int, AfterValidator(noted)], *answered('{"value": 3}'))
    (done,) = done_of(events)
    assert calls == []
    assert [done.parsed, done.parsed, response.output_parsed, response.output_parsed] == [3, 3, 3, 3]
    assert calls == [3, 3]


def test_a_reader_is_no_part_of_what_it_reads() -> None:
    response, events = accumulated(Point, *answered('{"x": 1}'))
    plain, plain_events = accumulated(None, *answered('{"x": 1}'))
    for one, other in ((response, plain), (done_of(events)[0], done_of(plain_events)[0])):
        assert one == other
        assert to_wire(one) == to_wire(other)
        assert one.model_dump() == other.model_dump()
        assert repr(one) == repr(other)
        loaded = pickle.loads(pickle.dumps(one))
        assert loaded == one
        assert not hasattr(loaded, "parsed")
        assert not hasattr(loaded, "output_parsed")


def test_a_copy_is_read_for_itself() -> None:
    response, events = accumulated(Point, *answered('{"x": 1}'))
    (done,) = done_of(events)
    assert (done.parsed, response.output_parsed) == (Point(x=1), Point(x=1))
    assert done.model_copy(update={"text": '{"x": 2}'}).parsed == Point(x=2)
    assert isinstance(failure(lambda: response.model_copy(update={"status": "failed"}).output_parsed), IncompleteOutput)
    for make in (copy.copy, copy.deepcopy, partial(Response.model_copy, deep=True)):
        assert make(response).output_parsed == Point(x=1)
    assert copy.deepcopy(done).parsed == Point(x=1)


def test_an_accumulator_to_use_is_told_the_type() -> None:
    accumulator = Accumulator()
    heard = Listener(
        at_once(chain.events(*answered('{"x": 1}')), None).pipe(ops.accumulate(into=accumulator, text_format=Point))
    ).heard
    assert accumulator.final_response is not None
    assert accumulator.final_response.output_parsed == Point(x=1)
    assert done_of(heard)[0].parsed == Point(x=1)


def test_a_response_so_far_is_no_answer_yet() -> None:
    accumulator = Accumulator(text_format=Point)
    for event in chain.events(*answered('{"x": 1}')[:5]):
        accumulator.feed(event)
    assert accumulator.response is not None
    error = failure(lambda: accumulator.response and accumulator.response.output_parsed)
    assert isinstance(error, IncompleteOutput)
    assert (error.reason, error.partial_text) == ("in_progress", '{"x": 1}')


def test_two_types_of_one_stream_do_not_meet() -> None:
    shared_events = chain.events(*answered('{"x": 1, "value": 2}'))
    first, second = (Accumulator(text_format=type_) for type_ in (Point, int))
    for event in shared_events:
        first.feed(event)
        second.feed(event)
    assert first.final_response is not None
    assert second.final_response is not None
    assert (first.final_response.output_parsed, second.final_response.output_parsed) == (Point(x=1), 2)
    assert not hasattr(done_of(shared_events)[0], "parsed")
