"""The simulator: what its models say conforms, and what it serves can be steered and watched."""

from __future__ import annotations

import asyncio
import io
import json
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import aiohttp
import pytest
from pydantic import BaseModel, Field, TypeAdapter

from orx_rx import STRICT, Client, ConnectionLost, Judge, Violation, final_response
from orx_rx import operators as ops
from orx_rx.models import Event, Response, ResponseOutputMessage, TerminalEvent, to_wire
from orx_rx.models.events import EVENT_CLASSES
from orx_rx.models.required import missing_fields
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.decoding import Decoder
from orx_rx.protocol.lifecycle import LifecycleGuard
from orx_rx.protocol.sequence import SequenceChecker
from orx_rx.simulator import (
    SCENARIOS,
    ApiError,
    Script,
    Simulator,
    calling,
    message,
    play,
    request_of,
    scenario_for,
    words,
)
from orx_rx.simulator.__main__ import main
from orx_rx.simulator.frames import DONE, frame_of
from orx_rx.simulator.schemas import value_of
from orx_rx.wire import FrameParser

Body = Mapping[str, Any]

MODELS = [*SCENARIOS, "long-3", "long-0", "gpt-5"]

WEATHER: Body = {
    "type": "function",
    "name": "weather_in",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
}
CLOCK: Body = {"type": "function", "name": "clock"}


def asking(model: str = "story", **fields: Any) -> dict[str, Any]:
    return {"model": model, "input": "Tell me about cats", **fields}


def played(body: Body, number: int = 1) -> list[Event]:
    request = request_of(body)
    return list(play(scenario_for(request), Script(request, number)))


def answered(body: Body) -> Response:
    terminal = played(body)[-1]
    assert isinstance(terminal, TerminalEvent)
    return terminal.response


def read_strictly(chunks: Iterable[bytes]) -> tuple[list[Event], Accumulator, list[Violation]]:
    """Read a stream the way a pipeline does, under STRICT: its events, what they add up to, and what was reported."""
    found: list[Violation] = []

    def judge() -> Judge:
        return Judge(STRICT, found.append)

    parser, accumulator = FrameParser(), Accumulator(judge())
    steps: list[Any] = [Decoder(judge()), SequenceChecker(judge()), LifecycleGuard(judge()), accumulator]

    def through(elements: Iterable[Any], steps: list[Any]) -> Iterator[Event]:
        if not steps:
            yield from elements
            return
        for element in elements:
            yield from through(steps[0].feed(element), steps[1:])

    events: list[Event] = []
    for chunk in chunks:
        events += through(parser.feed(chunk), steps)
    events += through(parser.end(), steps)
    for at, step in enumerate(steps):
        events += through(step.end(), steps[at + 1 :])
    return events, accumulator, found


# what the models say


@pytest.mark.parametrize("model", MODELS)
def test_every_model_conforms_to_open_responses(model: str) -> None:
    _, _, found = read_strictly([*map(frame_of, played(asking(model))), DONE])
    assert found == []


@pytest.mark.parametrize("model", MODELS)
def test_no_event_lacks_a_required_field(model: str) -> None:
    assert [(event.type, fields) for event in played(asking(model)) if (fields := missing_fields(event))] == []


@pytest.mark.parametrize("model", MODELS)
def test_what_is_streamed_adds_up_to_the_terminal(model: str) -> None:
    events, accumulator, _ = read_strictly([*map(frame_of, played(asking(model))), DONE])
    assert isinstance(events[-1], TerminalEvent)
    assert to_wire(accumulator.final_response) == json.loads(json.dumps(to_wire(answered(asking(model)))))


@pytest.mark.parametrize("model", MODELS)
def test_events_are_numbered_from_0(model: str) -> None:
    events = played(asking(model))
    assert [event.sequence_number for event in events] == list(range(len(events)))


@pytest.mark.parametrize("model", MODELS)
def test_equal_requests_get_equal_answers(model: str) -> None:
    assert played(asking(model), 7) == played(asking(model), 7)


@pytest.mark.parametrize("model", MODELS)
def test_times_and_counts_are_integers_on_the_wire(model: str) -> None:
    response = json.loads(json.dumps(to_wire(answered(asking(model)))))
    assert type(response["created_at"]) is int
    assert type(response["completed_at"]) in (int, type(None))


def test_everything_has_every_event_that_belongs_to_an_item() -> None:
    types = {event.type for event in played(asking("everything"))}
    others = {
        *(type_ for type_ in EVENT_CLASSES if type_.startswith(("response.audio.", "response.reasoning."))),
        *("response.refusal.delta", "response.refusal.done"),
        *("response.mcp_call.failed", "response.mcp_list_tools.failed"),
        *("response.queued", "response.failed", "response.incomplete", "error", "keepalive"),
    }
    assert types == set(EVENT_CLASSES) - others


def test_everything_has_about_a_hundred_events() -> None:
    assert 60 <= len(played(asking("everything"))) <= 110


def test_the_story_repeats_what_the_user_said() -> None:
    response = answered(asking("story"))
    assert response.output_text.startswith("You said “Tell me about cats”. ")
    assert 60 <= len(response.output_text.split()) <= 110


def test_a_long_question_is_not_repeated_whole() -> None:
    assert len(answered(asking(input="word " * 10_000)).output_text.split()) < 150


@pytest.mark.parametrize("count", [0, 1, 2_000])
def test_long_writes_as_many_deltas_as_its_name_says(count: int) -> None:
    events = played(asking(f"long-{count}"))
    assert sum(event.type == "response.output_text.delta" for event in events) == count


def test_parallel_calls_are_open_at_once() -> None:
    types = [event.type.rpartition(".")[2] for event in played(asking("parallel-calls", tools=[WEATHER, CLOCK]))]
    assert types[2:6] == ["added", "added", "delta", "delta"]


def test_parallel_calls_call_the_first_two_functions() -> None:
    assert calls(asking("parallel-calls", tools=[WEATHER, CLOCK])) == [
        ("weather_in", {"city": "city", "days": 1}),
        ("clock", {}),
    ]
    assert calls(asking("parallel-calls", tools=[WEATHER])) == [
        ("weather_in", {"city": "city", "days": 1}),
        ("weather_in", {"city": "city 2", "days": 2}),
    ]
    assert [name for name, _ in calls(asking("parallel-calls"))] == ["get_weather", "get_weather"]


def test_parallel_calls_can_be_forbidden() -> None:
    assert len(calls(asking("parallel-calls", parallel_tool_calls=False))) == 1


NOTE = {"type": "custom", "name": "note"}


def test_tools_calls_every_tool_or_one_a_round_and_then_answers() -> None:
    tools = [WEATHER, NOTE, CLOCK]
    types = [event.type.rpartition(".")[2] for event in played(asking("tools", tools=tools))]
    assert types[2:5] == ["added", "added", "added"]
    output = [to_wire(item) for item in answered(asking("tools", tools=tools)).output or ()]
    assert [item["name"] for item in output] == ["weather_in", "clock", "note"]
    assert output[2]["input"] == "Some text for note."
    assert calls(asking("tools")) == [("get_weather", {"location": "Paris"})]
    one = {"tools": tools, "parallel_tool_calls": False}
    assert [name for name, _ in calls(asking("tools", **one))] == ["weather_in"]
    assert [name for name, _ in calls(asking("tools", **one, input=[USER, CALLED, RESULT]))] == ["clock"]
    answer = answered(asking("tools", tools=[WEATHER], input=[USER, CALLED, RESULT]))
    assert answer.output_text == "Here is what I found: weather_in returned 21 degrees."
    assert [name for name, _ in calls(asking("tools", tools=[WEATHER], input=[CALLED, RESULT, USER]))] == ["weather_in"]


def test_a_model_calls_what_it_is_told_round_by_round() -> None:
    clerk = calling(["weather_in", ("clock", "not JSON")], [("note", "Hm."), ("unknown", {"a": 1})])

    def output(*given: Any) -> list[tuple[str, str]]:
        body = asking(tools=[WEATHER, NOTE], input=[USER, *given])
        *_, terminal = play(clerk, Script(request_of(body)))
        assert isinstance(terminal, TerminalEvent)
        listed = [to_wire(item) for item in terminal.response.output or ()]
        return [(item.get("name", ""), item.get("arguments", item.get("input", ""))) for item in listed]

    assert output() == [("weather_in", '{"city": "city", "days": 1}'), ("clock", "not JSON")]
    two = [CALLED, RESULT, {**CALLED, "call_id": "call_8"}, {**RESULT, "call_id": "call_8"}]
    assert output(*two) == [("note", "Hm."), ("unknown", '{"a": 1}')]
    assert output(*two, *two) == [("", "")]  # a message


def calls(body: Body) -> list[tuple[str, Any]]:
    output = [to_wire(item) for item in answered(body).output or ()]
    return [(item["name"], json.loads(item["arguments"])) for item in output if item["type"] == "function_call"]


@pytest.mark.parametrize(("limit", "count"), [(None, 16), (1, 1), (5, 5), (10_000, 84)])
def test_incomplete_is_cut_at_the_limit_and_never_whole(limit: int | None, count: int) -> None:
    response = answered(asking("incomplete", max_output_tokens=limit, input=[]))
    assert response.status == "incomplete"
    assert to_wire(response.incomplete_details) == {"reason": "max_output_tokens"}
    assert len(response.output_text.split()) == count
    assert response.usage is not None
    assert response.usage.output_tokens == count


@pytest.mark.parametrize(("model", "code"), [("failed", "server_error"), ("error", "rate_limit_exceeded")])
def test_a_failure_leaves_what_was_written(model: str, code: str) -> None:
    response = answered(asking(model))
    assert (response.status, response.error and response.error.code) == ("failed", code)
    assert response.output is not None
    (item,) = response.output
    assert isinstance(item, ResponseOutputMessage)
    assert item.status == "in_progress"
    assert response.output_text


def test_an_error_is_nested_and_nothing_else() -> None:
    (event,) = [event for event in played(asking("error")) if event.type == "error"]
    assert set(to_wire(event)) == {"type", "sequence_number", "error"}
    assert set(to_wire(event)["error"]) == {"type", "code", "message", "param"}


def test_tokens_are_words_read_and_pieces_written() -> None:
    usage = answered(asking("reasoning", instructions="Be brief")).usage
    assert to_wire(usage) == {
        "input_tokens": 6,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 13,
        "output_tokens_details": {"reasoning_tokens": 9},
        "total_tokens": 19,
    }


def test_a_response_repeats_its_request() -> None:
    told: dict[str, Any] = {
        "instructions": "Be brief",
        "temperature": 0,
        "metadata": {"a": "b"},
        "tool_choice": {"type": "allowed_tools", "tools": [{"type": "function", "name": "clock"}]},
        "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "x", "schema": {}, "strict": True}},
        "reasoning": {"effort": "low"},
    }
    response = to_wire(answered(asking(tools=[CLOCK, {"type": "web_search"}], **told)))
    assert response["instructions"] == "Be brief"
    assert response["temperature"] == 0
    assert response["metadata"] == {"a": "b"}
    assert response["tool_choice"]["mode"] == "auto"
    assert response["text"] == {
        "verbosity": "low",
        "format": {"type": "json_schema", "name": "x", "description": None, "schema": None, "strict": True},
    }
    assert response["reasoning"] == {"effort": "low", "summary": None}
    assert response["tools"] == [
        {"type": "function", "name": "clock", "description": None, "parameters": None, "strict": True},
        {"type": "web_search"},
    ]


# which model does what


RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "21 degrees"}
CALLED = {"type": "function_call", "call_id": "call_1", "name": "weather_in", "arguments": "{}"}
ANSWERED = {"role": "assistant", "content": "It is warm."}
USER = {"role": "user", "content": [{"type": "input_text", "text": "And now?"}]}


@pytest.mark.parametrize(
    ("chosen", "body"),
    [
        ("story", asking("gpt-5")),
        ("story", asking("gpt-5", tools=[{"type": "web_search"}])),
        ("function_call", asking("gpt-5", tools=[WEATHER])),
        ("story", asking("gpt-5", tools=[WEATHER], tool_choice="none")),
        ("story", asking("story", tools=[WEATHER])),
        ("function_call", asking("story", tools=[WEATHER], tool_choice="required")),
        ("function_call", asking("long-9", tools=[WEATHER], tool_choice={"type": "function", "name": "weather_in"})),
        ("story", asking("story", tool_choice="required")),
        ("story", asking("function-call", tool_choice="none")),
        ("parallel_calls", asking("parallel-calls", tools=[WEATHER], tool_choice="required")),
        ("tools", asking("tools", tools=[WEATHER])),
        ("tools", asking("tools", tools=[WEATHER], input=[CALLED, RESULT])),
        ("story", asking("tools", tools=[WEATHER], tool_choice="none")),
        ("failed", asking("failed", tools=[WEATHER], tool_choice="required")),
        ("long", asking("long")),
        ("long", asking("long-12")),
        ("story", asking("long-x")),
        ("answer", asking("gpt-5", tools=[WEATHER], input=[CALLED, RESULT])),
        ("answer", asking("function-call", input=[CALLED, RESULT])),
        ("answer", asking("story", input=[CALLED, RESULT, USER])),
        ("story", asking("story", input=[CALLED, RESULT, ANSWERED, USER])),
        ("json", asking("json", input=[CALLED, RESULT])),
    ],
)
def test_the_model_decides_unless_the_request_demands_otherwise(chosen: str, body: Body) -> None:
    assert getattr(scenario_for(request_of(body)), "__name__", "") == chosen


def test_results_of_functions_are_told() -> None:
    nameless = {"type": "function_call_output", "call_id": "call_9", "output": [{"type": "input_text", "text": "x y"}]}
    text = answered(asking(input=[CALLED, RESULT, nameless])).output_text
    assert text == "Here is what I found: weather_in returned 21 degrees. the function returned x y."


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ("required", "weather_in"),
        ({"type": "function", "name": "clock"}, "clock"),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "clock"}]}, "clock"),
    ],
)
def test_only_functions_that_the_choice_allows_are_called(choice: object, name: str) -> None:
    assert [called for called, _ in calls(asking(tools=[WEATHER, CLOCK], tool_choice=choice))] == [name]


# values for schemas


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    many: list[int]
    maybe: str | None
    either: int | str
    colour: Colour


class Outer(BaseModel):
    inner: Inner
    day: date
    moment: datetime
    key: UUID
    few: Annotated[int, Field(ge=3, le=4)]
    share: Annotated[float, Field(gt=0, lt=1)]
    name: Annotated[str, Field(min_length=12, max_length=12)]
    pair: tuple[int, str]
    word: Literal["only"]
    table: dict[str, int]
    nothing: None


class Tree(BaseModel):
    value: int
    left: Tree | None
    branches: list[Tree]


class Endless(BaseModel):
    next: Endless | None = None


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("type_", [Outer, Tree, Endless, list[Inner], int, bool, str, float, Literal["a", "b"]])
def test_values_fit_their_schema(type_: Any, seed: int) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(type_)
    adapter.validate_json(json.dumps(value_of(adapter.json_schema(), seed=seed)))


SAYINGS: list[tuple[Body, object]] = [
    ({}, "text"),
    ({"const": 3}, 3),
    ({"enum": []}, None),
    ({"examples": ["like this"]}, "like this"),
    ({"type": ["null", "integer"]}, 1),
    ({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {"type": "null"}}}]}, {"a": "a", "b": None}),
    ({"items": {"type": "boolean"}, "minItems": 2}, [True, True]),
    ({"type": "integer", "exclusiveMinimum": 4}, 5),
    ({"type": "integer", "maximum": -2}, -2),
    ({"$ref": "#"}, None),
]


@pytest.mark.parametrize(("schema", "value"), SAYINGS)
def test_what_else_a_schema_says(schema: Body, value: object) -> None:
    assert value_of(schema) == value


# requests that are wrong


@pytest.mark.parametrize(
    ("param", "code", "body"),
    [
        ("model", "missing_required_parameter", {"input": "x"}),
        ("model", "missing_required_parameter", {"model": "", "input": "x"}),
        ("model", "invalid_type", {"model": 5, "input": "x"}),
        ("input", "missing_required_parameter", {"model": "story"}),
        ("input", "missing_required_parameter", {"model": "story", "input": None}),
        ("input", "invalid_type", {"model": "story", "input": {}}),
        ("input[0]", "invalid_type", asking(input=["x"])),
        ("input[1].content", "missing_required_parameter", asking(input=[USER, {"role": "user"}])),
        ("input[0].role", "missing_required_parameter", asking(input=[{"content": "x"}])),
        ("input[0].call_id", "missing_required_parameter", asking(input=[{"type": "function_call_output"}])),
        ("stream", "invalid_type", asking(stream="yes")),
        ("max_output_tokens", "invalid_type", asking(max_output_tokens=True)),
        ("max_output_tokens", "invalid_type", asking(max_output_tokens=-1)),
        ("tools", "invalid_type", asking(tools={})),
        ("tools[0]", "invalid_type", asking(tools=["x"])),
        ("tools[0].type", "missing_required_parameter", asking(tools=[{}])),
        ("tools[0].name", "missing_required_parameter", asking(tools=[{"type": "function", "function": {}}])),
        ("tool_choice", "invalid_value", asking(tools=[CLOCK], tool_choice={"type": "function", "name": "x"})),
    ],
)
def test_a_wrong_request_is_refused(param: str, code: str, body: Body) -> None:
    with pytest.raises(ApiError) as caught:
        request_of(body)
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, param, code)


def test_images_and_files_are_accepted_and_ignored() -> None:
    parts = [
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"},
        {"type": "input_text", "text": "What is this?"},
    ]
    assert answered(asking(input=[{"role": "user", "content": parts}])).output_text.startswith("You said “What is this")


# over HTTP


@asynccontextmanager
async def posting(simulator: Simulator, body: object, **headers: str) -> AsyncGenerator[aiohttp.ClientResponse]:
    url = f"{simulator.base_url}/responses"
    async with aiohttp.ClientSession() as session, session.post(url, json=body, headers=headers) as response:
        yield response


async def streamed(simulator: Simulator, body: Body) -> bytes:
    async with posting(simulator, {**body, "stream": True}) as response:
        assert response.status == 200
        return await response.read()


async def created(simulator: Simulator, body: Body) -> dict[str, Any]:
    async with posting(simulator, body) as response:
        assert response.status == 200
        return dict(await response.json())


async def written(simulator: Simulator, body: Body) -> list[bytes]:
    """The pieces that a stream was written in, which are the chunks of HTTP."""
    pieces = [b""]
    async with posting(simulator, {**body, "stream": True}) as response:
        async for data, ends in response.content.iter_chunks():
            pieces[-1] += data
            if ends:
                pieces.append(b"")
    return pieces[:-1]


async def test_a_stream_says_what_it_is() -> None:
    async with Simulator() as simulator, posting(simulator, asking(stream=True)) as response:
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert response.headers["Cache-Control"] == "no-cache"
        assert response.headers["X-Accel-Buffering"] == "no"
        assert response.headers["x-request-id"] == "req_0001"


@pytest.mark.parametrize("model", ["story", "everything", "error"])
async def test_what_comes_over_http_is_what_was_played(model: str) -> None:
    async with Simulator() as simulator:
        assert await streamed(simulator, asking(model)) == b"".join([*map(frame_of, played(asking(model))), DONE])


async def test_every_frame_is_one_piece() -> None:
    async with Simulator() as simulator:
        assert await written(simulator, asking("everything")) == [*map(frame_of, played(asking("everything"))), DONE]


@pytest.mark.parametrize("size", [1, 7, 1_000_000])
async def test_pieces_can_have_any_size(size: int) -> None:
    async with Simulator(chunk_bytes=size) as simulator:
        pieces = await written(simulator, asking("refusal"))
    whole = b"".join([*map(frame_of, played(asking("refusal"))), DONE])
    assert pieces == [whole[start : start + size] for start in range(0, len(whole), size)]


@pytest.mark.parametrize("size", [1, 7, None])
async def test_a_stream_conforms_however_it_is_cut(size: int | None) -> None:
    async with Simulator(chunk_bytes=size) as simulator:
        events, _, found = read_strictly(await written(simulator, asking("everything")))
    assert found == []
    assert len(events) == len(played(asking("everything")))


async def test_a_pause_holds_nothing_back() -> None:
    async with Simulator(chunk_bytes=1_000_000, pace=1e-6) as simulator:
        assert len(await written(simulator, asking("long-3"))) == len(played(asking("long-3"))) + 1


async def test_event_lines_can_be_left_out() -> None:
    async with Simulator(event_lines=False) as simulator:
        body = await streamed(simulator, asking())
    assert b"event:" not in body
    assert read_strictly([body])[2] == []


async def test_done_can_be_left_out() -> None:
    async with Simulator(done=False) as simulator:
        assert await streamed(simulator, asking()) == b"".join(map(frame_of, played(asking())))


async def test_our_own_client_finds_nothing_wrong() -> None:
    found: list[Violation] = []
    async with Simulator() as simulator, Client(base_url=simulator.base_url) as client:
        events = client.events(profile=STRICT, on_violation=found.append, **asking("everything"))
        response = await final_response(events)
    assert found == []
    assert response.status == "completed"


@pytest.mark.parametrize("model", MODELS)
async def test_without_a_stream_the_answer_is_the_response_of_the_terminal(model: str) -> None:
    async with Simulator() as simulator:
        _, accumulator, _ = read_strictly([await streamed(simulator, asking(model))])
        plain = json.dumps(await created(simulator, asking(model)))
    told = json.dumps(to_wire(accumulator.final_response))
    # the second response of the simulator has other ids and times
    same = json.loads(plain.replace("_0002", "_0001"))
    expected = json.loads(told)
    for response in (same, expected):
        assert response.pop("created_at") > 0
        response.pop("completed_at")
    assert same == expected


async def test_two_streams_run_at_once() -> None:
    async with Simulator() as simulator:
        bodies = await asyncio.gather(*(streamed(simulator, asking("long-200")) for _ in range(2)))
    ids = set[str | None]()
    for body in bodies:
        events, accumulator, found = read_strictly([body])
        assert found == []
        assert len(events) == 208
        ids.add(accumulator.response_id)
    assert ids == {"resp_0001", "resp_0002"}


async def test_a_simulator_can_run_again() -> None:
    simulator = Simulator()
    for number in (1, 2):
        async with simulator:
            response = await created(simulator, asking())
        assert response["id"] == f"resp_000{number}"
        with pytest.raises(RuntimeError, match="expected a simulator that runs"):
            _ = simulator.base_url
    assert repr(simulator) == "Simulator(stopped, requests=2, open_streams=0, disconnects=0)"


async def test_a_taken_port_is_an_error() -> None:
    async with Simulator() as first:
        port = int(first.base_url.split(":")[2].partition("/")[0])
        with pytest.raises(OSError, match=str(port)):
            await Simulator(port=port).__aenter__()


async def test_own_scenarios_win() -> None:
    def greet(script: Script) -> Iterator[Event]:
        yield from message(script, words(f"Good morning, {script.request.question}"))
        yield script.completed()
        yield script.failed("never", "comes")

    async with Simulator(scenarios={"story": greet}) as simulator:
        _, accumulator, found = read_strictly([await streamed(simulator, asking(input="Zoë"))])
    assert found == []
    assert accumulator.final_response is not None
    assert accumulator.final_response.output_text == "Good morning, Zoë"


async def test_text_that_is_no_unicode_is_escaped() -> None:
    async with Simulator() as simulator:
        response = await created(simulator, asking(input="\ud800"))
    assert "\ud800" in response["output"][0]["content"][0]["text"]


@pytest.mark.parametrize("fields", [{"chunk_bytes": 0}, {"pace": -1}, {"hold": -1}])
def test_numbers_out_of_range_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected \w+ of at least"):
        Simulator(**fields)


async def test_an_ipv6_address_is_bracketed() -> None:
    try:
        async with Simulator(host="::1") as simulator:
            assert simulator.base_url.startswith("http://[::1]:")
    except OSError:
        pytest.skip("expected IPv6 on this machine, found none")


# conversations


async def test_a_conversation_goes_on() -> None:
    async with Simulator() as simulator:
        first = await created(simulator, asking("function-call", tools=[WEATHER]))
        result = {**RESULT, "call_id": first["output"][0]["call_id"]}
        second = await created(simulator, {"model": "x", "previous_response_id": first["id"], "input": [result]})
        third = await created(simulator, asking(previous_response_id=second["id"]))
    assert "weather_in returned 21 degrees." in second["output"][0]["content"][0]["text"]
    assert second["previous_response_id"] == first["id"]
    assert third["usage"]["input_tokens"] > second["usage"]["input_tokens"] > first["usage"]["input_tokens"]


async def test_a_response_that_is_not_stored_cannot_be_continued() -> None:
    async with Simulator() as simulator:
        first = await created(simulator, asking(store=False))
        async with posting(simulator, asking(previous_response_id=first["id"])) as response:
            assert response.status == 400
            assert await response.json() == {
                "error": {
                    "message": "Previous response with id 'resp_0001' not found.",
                    "type": "invalid_request_error",
                    "param": "previous_response_id",
                    "code": "previous_response_not_found",
                }
            }


# errors over HTTP


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
async def test_a_body_that_is_no_json_object_is_refused(data: bytes) -> None:
    async with Simulator() as simulator, aiohttp.ClientSession() as session:
        response = await session.post(f"{simulator.base_url}/responses", data=data)
        assert response.status == 400
        assert response.content_type == "application/json"
        assert response.headers["x-request-id"] == "req_0001"
        assert (await response.json())["error"]["code"] == "invalid_json"
    assert simulator.requests[0].body is None


@pytest.mark.parametrize(("method", "path", "status"), [("POST", "/response", 404), ("GET", "/responses", 405)])
async def test_whatever_else_is_asked_for_is_an_error_in_json(method: str, path: str, status: int) -> None:
    async with Simulator() as simulator, aiohttp.ClientSession() as session:
        response = await session.request(method, simulator.base_url + path)
        assert response.status == status
        assert response.headers["x-request-id"]
        assert set((await response.json())["error"]) == {"message", "type", "param", "code"}
        assert response.headers.get("Allow") == ("POST" if status == 405 else None)


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 401, None),
        ({"Authorization": "Bearer sk-wrong"}, 401, "invalid_api_key"),
        ({"Authorization": "sk-right"}, 401, "invalid_api_key"),
        ({"Authorization": "Bearer sk-right"}, 200, None),
    ],
)
async def test_a_key_can_be_demanded(headers: dict[str, str], status: int, code: str | None) -> None:
    async with Simulator(api_key="sk-right") as simulator, posting(simulator, asking(), **headers) as response:
        assert response.status == status
        assert response.headers["x-request-id"]
        if status == 401:
            assert (await response.json())["error"]["code"] == code


# what it saw


async def test_requests_are_recorded() -> None:
    async with Simulator() as simulator:
        await created(simulator, asking(metadata={"a": "b"}))
    (seen,) = simulator.requests
    assert (seen.method, seen.path, seen.query) == ("POST", "/v1/responses", {})
    assert seen.headers["content-type"] == "application/json"
    assert seen.body == asking(metadata={"a": "b"})


async def test_keys_never_appear() -> None:
    secret = "sk-the-secret"
    headers = {"Authorization": f"Bearer {secret}", "X-Api-Key": secret, "Cookie": secret, "api-key": secret}
    async with Simulator(api_key=secret) as simulator, aiohttp.ClientSession() as session:
        url = f"{simulator.base_url}/responses"
        await session.post(url, params={"key": secret, "a": "b"}, headers=headers, json=asking())
        assert secret not in repr(simulator.requests) + repr(simulator)
    assert simulator.requests[0].headers["authorization"] == "[hidden]"
    assert simulator.requests[0].query == {"key": "[hidden]", "a": "b"}


async def test_waiting_for_what_does_not_happen_ends() -> None:
    async with Simulator() as simulator:
        with pytest.raises(TimeoutError, match="requests=0"):
            await simulator.wait_for(lambda s: s.requests, timeout=0.01)


async def test_waiting_ends_when_it_happens() -> None:
    async with Simulator() as simulator:
        waiting = asyncio.ensure_future(simulator.wait_for(lambda s: s.requests))
        await created(simulator, asking())
        await waiting


# holding, releasing, going away


@pytest.mark.parametrize("held", [0, 1, 5, 12])
async def test_a_stream_pauses_where_it_was_told_to(held: int) -> None:
    whole = [*map(frame_of, played(asking("long-3"))), DONE]
    assert len(whole) == 12
    async with Simulator(hold=held) as simulator, posting(simulator, asking("long-3", stream=True)) as response:
        first = b"".join(whole[:held])
        assert await response.content.readexactly(len(first)) == first
        assert simulator.open_streams == 1
        simulator.release()
        assert first + await response.read() == b"".join(whole)
        await simulator.wait_for(lambda s: s.open_streams == 0)
    assert simulator.disconnects == 0


async def test_what_was_cut_is_sent_before_a_hold() -> None:
    cutting = Simulator(hold=1, chunk_bytes=1_000_000)
    async with cutting as simulator, posting(simulator, asking(stream=True)) as response:
        assert b"response.created" in await response.content.readuntil(b"\n\n")


async def test_a_release_is_for_the_streams_that_have_begun() -> None:
    async with Simulator(hold=1) as simulator:
        async with posting(simulator, asking(stream=True)) as first:
            simulator.release()
            await first.read()
        async with posting(simulator, asking(stream=True)) as second:
            await second.content.readuntil(b"\n\n")
            assert simulator.open_streams == 1
    assert simulator.open_streams == 0


async def test_a_client_that_goes_away_during_a_hold_is_noticed() -> None:
    async with Simulator(hold=2) as simulator:
        async with posting(simulator, asking(stream=True)) as response:
            await response.content.readany()
            response.close()
        await simulator.wait_for(lambda s: s.disconnects == 1)
        assert simulator.open_streams == 0


async def test_a_client_that_goes_away_between_frames_is_noticed() -> None:
    async with Simulator(pace=60) as simulator:
        async with posting(simulator, asking(stream=True)) as response:
            await response.content.readany()
            response.close()
        await simulator.wait_for(lambda s: s.disconnects == 1)


async def test_a_client_that_goes_away_while_it_is_written_to_is_noticed() -> None:
    async with Simulator() as simulator:
        async with posting(simulator, asking("long-999999", stream=True)) as response:
            await response.content.readany()
            response.close()
        await simulator.wait_for(lambda s: s.disconnects == 1)


async def test_a_client_that_goes_away_in_the_middle_of_a_frame_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async with Simulator(chunk_bytes=1) as simulator:
        async with posting(simulator, asking("long-999999", stream=True)) as response:
            await response.content.readany()
            response.close()
        await simulator.wait_for(lambda s: s.disconnects == 1)
        await simulator.wait_for(lambda s: s.connections == 0)
    assert not caplog.records


async def test_disposing_a_pipeline_closes_the_connection() -> None:
    async with Simulator(hold=1) as simulator, Client(base_url=simulator.base_url) as client:
        first = asyncio.get_running_loop().create_future()
        subscription = client.events(**asking()).subscribe(first.set_result)
        await first
        subscription.dispose()
        await simulator.wait_for(lambda s: s.disconnects == 1)


async def test_a_client_that_reads_to_the_end_is_no_disconnect() -> None:
    async with Simulator() as simulator:
        for _ in range(3):
            await streamed(simulator, asking())
        await simulator.wait_for(lambda s: s.open_streams == 0)
    assert simulator.disconnects == 0


async def test_stopping_breaks_off_what_is_open() -> None:
    async with Simulator(hold=1) as simulator, Client(base_url=simulator.base_url) as client:
        first, end = (asyncio.get_running_loop().create_future() for _ in range(2))
        client.chunks(**asking()).pipe(ops.frame()).subscribe(first.set_result, end.set_result)
        await first
        await simulator.__aexit__(None, None, None)
        assert isinstance(await end, ConnectionLost)
    assert (simulator.disconnects, simulator.open_streams) == (0, 0)


# the command line


class _Terminal(io.StringIO):
    """Presses Ctrl-C as soon as a line was printed."""

    def write(self, text: str, /) -> int:
        if text.endswith("\n"):
            signal.raise_signal(signal.SIGINT)
        return super().write(text)


def test_the_command_prints_its_address_and_ends_with_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    assert main(["--port", "0", "--api-key", "sk-secret"]) == 0
    assert terminal.getvalue().startswith("http://127.0.0.1:")
    assert "sk-secret" not in terminal.getvalue()


def test_the_command_refuses_what_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--chunk-bytes", "0"]) == 1
    assert "chunk_bytes of at least 1" in capsys.readouterr().err


def test_the_command_lists_the_models() -> None:
    printed = subprocess.check_output([sys.executable, "-m", "orx_rx.simulator", "--help"], text=True)
    assert all(f"  {model} " in printed for model in SCENARIOS)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for another process")
async def test_a_process_of_its_own_ends_cleanly() -> None:
    command = [sys.executable, "-W", "error", "-m", "orx_rx.simulator", "--port", "0"]
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    address = (await process.stdout.readline()).decode().strip()
    async with aiohttp.ClientSession() as session:
        body = await session.post(f"{address}/responses", json=asking(stream=True))
        assert (await body.read()).endswith(DONE)
    process.send_signal(signal.SIGINT)
    assert await process.communicate() == (b"", b"")
    assert process.returncode == 0
