"""The simulator as other people's programs see it: the openai package, llm-comply, the schemas of Open Responses."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from orx_rx.models import to_wire
from orx_rx.simulator import SCENARIOS, Script, Simulator, play, request_of, scenario_for

if TYPE_CHECKING:
    from openai import AsyncOpenAI

COMPLETED = [name for name in SCENARIOS if name not in ("incomplete", "failed", "error")]

WEATHER: Any = {
    "type": "function",
    "name": "weather_in",
    "description": "Tell the weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Trip(BaseModel):
    city: str
    days: int
    stops: list[str]
    cheap: bool | None


@asynccontextmanager
async def connected(simulator: Simulator) -> AsyncGenerator[AsyncOpenAI]:
    openai = pytest.importorskip("openai", reason="expected the package `openai`, found none")
    async with openai.AsyncOpenAI(base_url=simulator.base_url, api_key="k", max_retries=0) as client:
        yield client


async def raw_events(client: AsyncOpenAI, model: str) -> list[Any]:
    async with await client.responses.create(model=model, input="Hello there", stream=True) as stream:
        return [event async for event in stream]


# the openai package


@pytest.mark.parametrize("model", [name for name in SCENARIOS if name != "error"])
async def test_the_raw_stream_of_openai_takes_every_model(model: str) -> None:
    request = request_of({"model": model, "input": "Hello there", "stream": True})
    expected = [event.type for event in play(SCENARIOS[model], Script(request))]
    async with Simulator(api_key="k") as simulator, connected(simulator) as client:
        events = await raw_events(client, model)
        assert [event.type for event in events] == expected
        assert events[-1].response.id == "resp_0001"
        await simulator.wait_for(lambda s: s.open_streams == 0)
    assert simulator.disconnects == 0


@pytest.mark.parametrize("model", COMPLETED)
async def test_the_helper_of_openai_reaches_the_final_response(model: str) -> None:
    async with Simulator() as simulator, connected(simulator) as client:
        async with client.responses.stream(model=model, input="Hello there") as stream:
            types = [event.type async for event in stream]
            response = await stream.get_final_response()
        assert types[-1] == "response.completed"
        assert response.status == "completed"
        plain = await client.responses.create(model=model, input="Hello there")
    assert [item.type for item in response.output] == [item.type for item in plain.output]
    assert response.output_text == plain.output_text


@pytest.mark.parametrize("model", ["incomplete", "failed"])
async def test_the_helper_of_openai_has_no_response_for_the_other_terminals(model: str) -> None:
    async with Simulator() as simulator, connected(simulator) as client:
        manager = client.responses.stream(model=model, input="Hello there")
        async with manager as stream:
            with pytest.raises(RuntimeError, match=r"response\.completed"):
                await stream.get_final_response()


async def test_openai_raises_a_nested_error() -> None:
    openai = pytest.importorskip("openai", reason="expected the package `openai`, found none")
    async with Simulator() as simulator, connected(simulator) as client:
        with pytest.raises(openai.APIError, match="simulated limit") as caught:
            await raw_events(client, "error")
    assert caught.value.code == "rate_limit_exceeded"


@pytest.mark.parametrize("chunk_bytes", [1, 7, None])
async def test_openai_reads_a_stream_however_it_is_cut(chunk_bytes: int | None) -> None:
    async with Simulator(chunk_bytes=chunk_bytes) as simulator, connected(simulator) as client:
        events = await raw_events(client, "story")
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text


@pytest.mark.parametrize("model", list(SCENARIOS))
async def test_openai_reads_the_answer_without_a_stream(model: str) -> None:
    status = {"incomplete": "incomplete", "failed": "failed", "error": "failed"}.get(model, "completed")
    async with Simulator() as simulator, connected(simulator) as client:
        response = await client.responses.create(model=model, input="Hello there")
    assert response.status == status
    assert (response.usage is None) == (status == "failed")


async def test_openai_parses_structured_output() -> None:
    async with Simulator() as simulator, connected(simulator) as client:
        parsed = await client.responses.parse(model="json", input="Plan a trip", text_format=Trip)
        async with client.responses.stream(model="json", input="Plan a trip", text_format=Trip) as stream:
            streamed = await stream.get_final_response()
    assert parsed.output_parsed == streamed.output_parsed == Trip(city="city", days=1, stops=["stops"], cheap=True)


async def test_openai_reads_a_refusal() -> None:
    async with Simulator() as simulator, connected(simulator) as client:
        response = await client.responses.parse(model="refusal", input="Plan a trip", text_format=Trip)
    assert response.output_parsed is None
    (item,) = response.output
    assert item.type == "message"
    assert item.content[0].type == "refusal"


async def test_openai_calls_a_function_and_returns_its_result() -> None:
    async with Simulator() as simulator, connected(simulator) as client:
        first = await client.responses.parse(model="gpt-5", input="How is the weather?", tools=[WEATHER])
        (call,) = first.output
        assert call.type == "function_call"
        assert call.parsed_arguments == {"city": "city", "days": 1}
        second = await client.responses.create(
            model="gpt-5",
            previous_response_id=first.id,
            input=[{"type": "function_call_output", "call_id": call.call_id, "output": "rain"}],
            tools=[WEATHER],
        )
    assert second.output_text == "Here is what I found: weather_in returned rain."


async def test_openai_sends_its_own_output_back() -> None:
    async with Simulator() as simulator, connected(simulator) as client:
        first = await client.responses.create(model="everything", input="Hello there")
        history: Any = [{"role": "user", "content": "Hello there"}, *(item.to_dict() for item in first.output)]
        second = await client.responses.create(model="story", input=[*history, {"role": "user", "content": "More"}])
    assert second.output_text.startswith("You said “More”.")


@pytest.mark.parametrize(
    ("error", "key", "fields"),
    [
        ("AuthenticationError", "wrong", {"model": "story", "input": "x"}),
        ("BadRequestError", "k", {"model": "story"}),
        ("BadRequestError", "k", {"model": "story", "input": "x", "previous_response_id": "resp_none"}),
    ],
)
async def test_openai_knows_our_errors(error: str, key: str, fields: dict[str, Any]) -> None:
    openai = pytest.importorskip("openai", reason="expected the package `openai`, found none")
    async with Simulator(api_key="k") as simulator, connected(simulator) as client:
        with pytest.raises(getattr(openai, error)) as caught:
            await client.with_options(api_key=key).responses.create(**fields)
        assert caught.value.request_id == "req_0001"
        assert caught.value.type == "invalid_request_error"


# llm-comply


async def complied(simulator: Simulator, model: str) -> dict[str, Any]:
    """Let llm-comply test the simulator as an Open Responses server, in a process of its own."""
    pytest.importorskip("llm_comply", reason="expected the package `llm-comply`, found none")
    command = [sys.executable, "-m", "llm_comply.cli", "--base-url", simulator.base_url, "--api-key", "k"]
    process = await asyncio.create_subprocess_exec(*command, "--model", model, "--json", stdout=PIPE, stderr=PIPE)
    printed, complaints = await process.communicate()
    assert complaints == b""
    assert process.returncode == 0, printed.decode()
    return dict(json.loads(printed))


async def test_llm_comply_finds_the_simulator_conforming() -> None:
    async with Simulator(api_key="k") as simulator:
        # a model named like one that reasons, so that no test is left out
        report = await complied(simulator, "gpt-5")
    assert {name: report["summary"][name] for name in ("failed", "skipped")} == {"failed": 0, "skipped": 0}
    assert report["summary"]["passed"] >= 13
    warned = [result["id"] for result in report["results"] if result.get("warnings")]
    assert warned == ["compact-response"]  # an endpoint that a server may leave out


# the schemas of Open Responses, as llm-comply brings them


@pytest.mark.filterwarnings("ignore:jsonschema.RefResolver is deprecated:DeprecationWarning")
@pytest.mark.parametrize("model", [*(name for name in SCENARIOS if name != "everything"), "gpt-5"])
def test_every_event_fits_the_schema_of_open_responses(model: str) -> None:
    comply = pytest.importorskip("llm_comply", reason="expected the package `llm-comply`, found none")
    schema = pytest.importorskip("llm_comply.schema")
    loader = comply.SpecLoader(str(Path(schema.__file__).parent / "specs" / "openresponses.json"))
    names = {
        **schema.SSE_EVENT_TO_SCHEMA,
        # llm-comply looks these up by names that the specification only has in a comment
        "response.reasoning_summary_text.delta": "ResponseReasoningSummaryDeltaStreamingEvent",
        "response.reasoning_summary_text.done": "ResponseReasoningSummaryDoneStreamingEvent",
    }
    text = {"format": {"type": "json_schema", "name": "Trip", "strict": True, "schema": Trip.model_json_schema()}}
    request = request_of({"model": model, "input": "Hello there", "tools": [WEATHER], "text": text})
    for event in play(scenario_for(request), Script(request)):
        told = json.loads(json.dumps(to_wire(event)))
        assert loader.validate(told, names[event.type]) == [], event.type
