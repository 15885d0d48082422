"""The loop of asking and calling: every call is run once, told once, and stopped when nobody listens any more."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest
import reactivex
from reactivex import Observable
from reactivex import operators as rx
from reactivex.testing import TestScheduler

from orx_rx import (
    Client,
    ConnectionLost,
    OutputParseError,
    StreamInterrupted,
    ToolCall,
    ToolFailed,
    ToolOutput,
    TooManyRounds,
    Turn,
    UnknownTool,
    custom_tool,
    final_response,
    iterate,
    tool,
)
from orx_rx import operators as ops
from orx_rx.flow import Flow, current_flow, subscribing
from orx_rx.http.retry import Retry
from orx_rx.models import Event, McpApprovalRequest, ResponseCreatedEvent, ResponseInputText, TerminalEvent, to_wire
from orx_rx.simulator import Fault, Script, Simulator, calling, function_call, message, reasoning
from tests import chain
from tests.chain import Payload
from tests.conftest import shared
from tests.marbles import Trouble, marks_of, picture
from tests.servers import Ear, other_tasks, told, turns, until
from tests.servers import clean_environment as clean_environment
from tests.sources import Listener, Source, at_once

pytestmark = pytest.mark.usefixtures("clean_environment")


# with a simulator


@asynccontextmanager
async def simulated(*rounds: Sequence[Any], **options: Any) -> AsyncGenerator[tuple[Simulator, Client]]:
    """Open a client to a model `clerk` that calls what it is told; nothing may be left of either in the end."""
    before = other_tasks()
    scenarios = {"clerk": calling(*rounds), **options.pop("scenarios", {})}
    async with (
        Simulator(scenarios=scenarios, **options) as simulator,
        Client(base_url=simulator.base_url, retry=Retry(first=0, most=0)) as client,
    ):
        yield simulator, client
        assert simulator.open_streams == 0
    await until(lambda: other_tasks() == before)


def bodies(simulator: Simulator) -> list[Mapping[str, Any]]:
    """List the requests for a response."""
    return [request.body or {} for request in simulator.requests if request.method == "POST"]


def outputs(body: Mapping[str, Any]) -> list[str]:
    """List what tools returned, as a request says."""
    return [item["output"] for item in body["input"] if str(item.get("type")).endswith("_output")]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def shout(text: str) -> str:
    """Say it louder."""
    await asyncio.sleep(0)
    return text.upper()


def broken(text: str) -> str:
    raise ZeroDivisionError("nothing to divide by")


TWO_ROUNDS = ([("add", {"a": 1, "b": 2}), ("shout", {"text": "hey"})], [("add", {"a": 3, "b": 4})])


async def test_calls_are_run_and_what_they_return_goes_back_until_there_is_an_answer() -> None:
    heard: list[ToolOutput] = []
    async with simulated(*TWO_ROUNDS) as (simulator, client):
        events = client.run_tools(tools=[add, shout], model="clerk", input="go", user="u", on_output=heard.append)
        ear = await Ear(events).ended()
        assert ear.error is None
        sent = bodies(simulator)
        assert simulator.connections <= 1  # it is used again for every round
    terminals = [event.response for event in ear.elements if isinstance(event, TerminalEvent)]
    assert [outputs(body) for body in sent[1:]] == [["3", "HEY"], ["7"]]
    assert [body.get("previous_response_id") for body in sent] == [None, terminals[0].id, terminals[1].id]
    assert len(sent) == len(terminals) == len(simulator.requests) == 3
    assert [{**body, "input": 0, "previous_response_id": 0} for body in sent[1:]] == [
        {**sent[0], "input": 0, "previous_response_id": 0}
    ] * 2
    assert terminals[2].output_text.startswith(
        "Here is what I found: add returned 3. shout returned HEY. add returned 7"
    )
    items = [to_wire(item) for response in terminals for item in response.output or ()]
    called = [item["call_id"] for item in items if "call_id" in item]
    assert [item["call_id"] for body in sent[1:] for item in body["input"]] == called
    assert sorted(str(output.item["output"]) for output in heard) == ["3", "7", "HEY"]


async def test_the_rounds_follow_each_other_and_each_is_a_whole_stream() -> None:
    async with simulated(*TWO_ROUNDS) as (_, client):
        ear = await Ear(client.run_tools(tools=[add, shout], model="clerk", input="go")).ended()
    starts = [number for number, event in enumerate(ear.elements) if isinstance(event, ResponseCreatedEvent)]
    rounds = [ear.elements[start:end] for start, end in zip(starts, [*starts[1:], None], strict=True)]
    for events in rounds:
        assert [event.sequence_number for event in events] == list(range(len(events)))
        assert chain.run(events).error is None
        assert [isinstance(event, TerminalEvent) for event in events] == [False] * (len(events) - 1) + [True]


async def test_readers_behind_it_mind_the_rounds() -> None:
    async with simulated(*TWO_ROUNDS) as (simulator, client):
        events = client.run_tools(tools=[add, shout], model="clerk", input="go").pipe(ops.fan_out())
        calls, items = Ear(events.pipe(ops.tool_calls())), Ear(events.pipe(ops.items()))
        text = Ear(events.pipe(ops.text()))
        response = await final_response(events)
        assert len(simulator.requests) == 3
    assert sorted(call.name for call in calls.elements) == ["add", "add", "shout"]
    assert [item.type for item in items.elements] == ["function_call"] * 3 + ["message"]
    assert response.output_text == "".join(text.elements)
    assert response.output_text.startswith("Here is what I found")


async def test_every_subscription_begins_anew() -> None:
    async with simulated([("add", {"a": 1, "b": 2})]) as (simulator, client):
        events = client.run_tools(tools=[add], model="clerk", input="go")
        first, second = await asyncio.gather(final_response(events), final_response(events))
        assert first.output_text == second.output_text == "Here is what I found: add returned 3."
        assert len(simulator.requests) == 4
        assert first.id != second.id


# how the conversation is sent


def thinking(script: Script) -> Iterator[Event]:
    """Think, say something, and call; then answer."""
    if script.request.called:
        yield from message(script, ["done"])
    else:
        yield from reasoning(script, [["Hm."]])
        yield from message(script, ["Let me see."])
        yield from function_call(script, "add", {"a": 1, "b": 2})


@pytest.mark.parametrize("fields", [{"store": False}, {"stateless": True}])
@pytest.mark.parametrize("given", ["go", [{"role": "user", "content": "go"}]])
async def test_a_server_that_keeps_nothing_gets_the_whole_conversation(fields: dict[str, Any], given: Any) -> None:
    async with simulated(scenarios={"thinking": thinking}) as (simulator, client):
        response = await final_response(client.run_tools(tools=[add], model="thinking", input=given, **fields))
        first, second = bodies(simulator)
    assert response.output_text == "done"
    assert "stateless" not in first
    assert "previous_response_id" not in second
    types = [item.get("type", "message") for item in second["input"]]
    assert types == ["message", "reasoning", "message", "function_call", "function_call_output"]
    assert second["input"][0]["content"] == "go"
    assert second["input"][1]["summary"] == [{"type": "summary_text", "text": "Hm."}]
    assert second["input"][3]["call_id"] == second["input"][4]["call_id"]


async def test_the_conversation_grows_by_what_every_round_adds() -> None:
    async with simulated(*TWO_ROUNDS) as (simulator, client):
        await final_response(client.run_tools(tools=[add, shout], model="clerk", input="go", store=False))
        one, two, three = bodies(simulator)
    assert one["input"] == "go"
    assert three["input"][: len(two["input"])] == two["input"]
    assert [len(two["input"]), len(three["input"])] == [5, 7]
    assert outputs(three) == ["3", "HEY", "7"]


async def test_in_a_conversation_the_outputs_alone_are_sent() -> None:
    async with simulated([("add", {"a": 1, "b": 2})]) as (simulator, client):
        events = client.run_tools(tools=[add], model="clerk", input="go", conversation="conv_1", max_rounds=2)
        await Ear(events).ended()
        _, second = bodies(simulator)
    assert ("previous_response_id" in second, second["conversation"], outputs(second)) == (False, "conv_1", ["3"])


FORCED = {"type": "function", "name": "add"}
ALLOWED = {"type": "allowed_tools", "tools": [FORCED]}


@pytest.mark.parametrize(
    ("choice", "later"),
    [
        ("required", "auto"),
        (FORCED, "auto"),
        ({**ALLOWED, "mode": "required"}, {**ALLOWED, "mode": "auto"}),
        ("auto", "auto"),
    ],
)
async def test_a_call_is_demanded_in_the_first_round_alone(choice: Any, later: Any) -> None:
    async with simulated([("add", {"a": 1, "b": 2})]) as (simulator, client):
        await final_response(client.run_tools(tools=[add], model="clerk", input="go", tool_choice=choice))
        assert [body["tool_choice"] for body in bodies(simulator)] == [choice, later]


async def test_the_simulated_model_tools_calls_every_tool_and_one_a_round_if_it_must() -> None:
    note = custom_tool(len, name="note")
    async with simulated() as (simulator, client):
        events = partial(client.run_tools, tools=[add, shout, note], model="tools", input="go")
        text = (await final_response(events())).output_text
        assert len(bodies(simulator)) == 2
        assert text == "Here is what I found: add returned 2. shout returned TEXT 2. note returned 19."
        assert (await final_response(events(parallel_tool_calls=False))).output_text == text
        assert len(bodies(simulator)) == 2 + 4
        types = [item["type"] for item in bodies(simulator)[1]["input"]]
        assert types == ["function_call_output", "function_call_output", "custom_tool_call_output"]


async def test_rounds_in_the_background_survive_their_connections() -> None:
    cuts = [Fault("cut", connection=number, after_events=4, kind="fin") for number in (0, 2)]
    async with simulated([("add", {"a": 1, "b": 2})], faults=cuts) as (simulator, client):
        events = client.run_tools(tools=[add], model="clerk", input="go", background=True)
        response = await final_response(events)
        assert response.output_text == "Here is what I found: add returned 3."
        assert len(bodies(simulator)) == 2
        assert [request.method for request in simulator.requests] == ["POST", "GET"] * 2


async def test_a_client_in_a_thread_runs_tools_too() -> None:
    def work(base_url: str) -> str:
        with Client.in_thread(base_url=base_url) as client:
            events = client.run_tools(tools=[add, shout], model="clerk", input="go")
            return client.final_response(events).output_text

    async with simulated(*TWO_ROUNDS) as (simulator, _):
        assert (await asyncio.to_thread(work, simulator.base_url)).endswith("add returned 7.")


# what goes wrong with a call, and what the model is told


class Opaque:
    """JSON does not know it."""


def stops() -> None:
    raise StopIteration("in a thread")


async def cancels() -> None:
    raise asyncio.CancelledError


def returns_opaque() -> Opaque:
    return Opaque()


def returns_half() -> str:
    return "\ud83d"


BAD: Mapping[str, tuple[Any, type[Exception], str]] = {
    "no such tool": ("nothing", UnknownTool, "UnknownTool: expected a call of add or shout or broken"),
    "arguments that do not fit": (
        ("add", {"a": 1}),
        OutputParseError,
        "that fit add, got: b: Field required",
    ),
    "arguments that are no JSON": (("add", '{"a": 1'), OutputParseError, "arguments that fit add, got: arguments"),
    "an exception": (("broken", {"text": ""}), ToolFailed, "ZeroDivisionError: nothing to divide by"),
    "an exception for iterators": ("stops", ToolFailed, "RuntimeError: "),
    "a tool that cancels itself": ("cancels", ToolFailed, "RuntimeError: expected a result, got a tool that cancelled"),
    "a result that JSON does not know": ("returns_opaque", ToolFailed, "PydanticSerializationError: "),
    "a text that cannot be sent": ("returns_half", ToolFailed, "UnicodeEncodeError: "),
}
ALL: list[Callable[..., Any]] = [add, shout, broken, stops, cancels, returns_opaque, returns_half]


@pytest.mark.parametrize("title", BAD)
async def test_what_is_wrong_with_a_call_is_told_to_the_model(title: str, caplog: pytest.LogCaptureFixture) -> None:
    call, _, message = BAD[title]
    heard: list[ToolOutput] = []
    async with simulated([call, ("add", {"a": 1, "b": 2})]) as (simulator, client):
        with caplog.at_level(logging.WARNING, "orx_rx"):
            events = client.run_tools(tools=ALL, model="clerk", input="go", on_output=heard.append)
            response = await final_response(events)
        (output, other) = outputs(bodies(simulator)[1])
    assert response.status == "completed"
    assert output.startswith("error: ")
    assert message in output
    assert "Traceback" not in output
    assert other == "3"
    assert [output.error is None for output in heard].count(False) == 1
    assert "a call failed, and the model is told" in caplog.text
    assert "nothing to divide by" not in caplog.text


@pytest.mark.parametrize("title", BAD)
async def test_what_is_wrong_with_a_call_can_end_the_stream(title: str) -> None:
    call, kind, _ = BAD[title]
    async with simulated([call]) as (simulator, client):
        ear = Ear(client.run_tools(tools=ALL, model="clerk", input="go", errors="raise"))
        error = await ear.failed()
        assert type(error) is kind
        assert len(bodies(simulator)) == 1
        await simulator.wait_for(lambda s: not s.open_streams)
    if isinstance(error, ToolFailed):
        assert (error.name, error.call_id) == (call if isinstance(call, str) else call[0], "call_0001_0")
        assert isinstance(error.__cause__, Exception)


async def test_too_many_rounds_are_an_error_that_has_the_last_response() -> None:
    ran: list[int] = []

    def again(n: int) -> int:
        ran.append(n)
        return n

    async with simulated(*([("again", {"n": n})] for n in range(5))) as (simulator, client):
        ear = Ear(client.run_tools(tools=[again], model="clerk", input="go", max_rounds=3))
        error = await ear.failed()
        assert isinstance(error, TooManyRounds)
        assert (error.limit, len(bodies(simulator))) == (3, 3)
    last = ear.elements[-1]
    assert isinstance(last, TerminalEvent)
    assert error.snapshot == last.response
    assert ran == [0, 1]  # what the last round calls is not run


async def test_one_round_is_enough_for_an_answer() -> None:
    async with simulated() as (_, client):
        events = client.run_tools(tools=[add], model="story", input="x", max_rounds=1)
        assert (await final_response(events)).status == "completed"


@pytest.mark.parametrize("status", ["failed", "incomplete"])
async def test_a_response_that_is_not_whole_is_the_last_one_and_stops_what_runs(status: str) -> None:
    def ends_badly(script: Script) -> Iterator[Event]:
        yield from function_call(script, "waits", {})
        yield script.failed("server_error", "no") if status == "failed" else script.incomplete("max_output_tokens")

    stopped = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.set()

    async with simulated(scenarios={"bad": ends_badly}) as (simulator, client):
        response = await final_response(client.run_tools(tools=[waits], model="bad", input="go"))
        assert response.status == status
        await stopped.wait()
        assert len(bodies(simulator)) == 1


async def test_a_round_that_breaks_off_is_the_error_of_the_stream() -> None:
    cut = Fault("cut", connection=1, after_events=3, kind="rst")
    async with simulated([("add", {"a": 1, "b": 2})], faults=[cut]) as (simulator, client):
        ear = Ear(client.run_tools(tools=[add], model="clerk", input="go"))
        error = await ear.failed()
        assert isinstance(error, StreamInterrupted)
        assert error.snapshot is not None
        assert error.snapshot.id == "resp_0002"
        assert len(bodies(simulator)) == 2


# leaving


@pytest.mark.parametrize("phase", ["first stream", "while both run", "while tools run", "last stream"])
async def test_leaving_stops_everything_in_every_phase(phase: str) -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        begun.set()
        try:
            if phase.startswith("while"):
                await asyncio.get_running_loop().create_future()
        finally:
            stopped.set()

    hold = {"first stream": 3, "while both run": 6, "while tools run": None, "last stream": 4}[phase]
    stall = [] if hold is None else [Fault("stall", connection=int(phase == "last stream"), after_events=hold)]
    async with simulated(["waits"], faults=stall) as (simulator, client):
        ear = Ear(client.run_tools(tools=[waits], model="clerk", input="go"))
        if phase.startswith("while"):
            await begun.wait()
        if phase == "last stream":
            await until(lambda: sum(isinstance(e, ResponseCreatedEvent) for e in ear.elements) == 2)
        elif hold is None:
            await until(lambda: not simulator.open_streams)
            await turns()
        else:
            await ear.heard(hold)
        assert simulator.open_streams == (hold is not None)
        count = len(ear.elements)
        ear.subscription.dispose()
        await simulator.wait_for(lambda s: not s.open_streams)
        if begun.is_set():
            await stopped.wait()
        await turns()
        assert (len(ear.elements), ear.has_ended) == (count, False)
        assert len(simulator.requests) == 1 + (phase == "last stream")


async def test_closing_the_client_ends_the_loop_while_tools_run() -> None:
    begun, stopped = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.set()

    async with simulated(["waits"]) as (simulator, client):
        ear = Ear(client.run_tools(tools=[waits], model="clerk", input="go"))
        await begun.wait()
        await until(lambda: not simulator.open_streams)
        await turns()
        await client.aclose()
        assert isinstance(await ear.failed(), ConnectionLost)
        await stopped.wait()


async def test_who_cancels_a_call_ends_the_stream() -> None:
    begun = asyncio.Event()
    tasks: list[asyncio.Task[Any] | None] = []

    async def waits() -> None:
        tasks.append(asyncio.current_task())
        begun.set()
        await asyncio.get_running_loop().create_future()

    ear, _ = running(waits, [finished("waits"), done("waits")])
    await begun.wait()
    assert tasks[0] is not None
    tasks[0].cancel()
    assert str(await ear.failed()) == "expected a call of a tool to end, got one that somebody cancelled"


async def test_what_a_tool_raises_after_it_was_cancelled_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    begun = asyncio.Event()

    async def clings() -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            raise Trouble("too late")

    ear, _ = running(clings, [finished("clings"), done("clings")], errors="raise")
    await begun.wait()
    ear.subscription.dispose()
    with caplog.at_level(logging.ERROR, "orx_rx"):
        await turns()
    assert "a tool raised after it was cancelled" in caplog.text
    assert ear.has_ended is False


# without a server


def finished(name: str = "probe", arguments: Any = None, n: str = "a", at: int = 0, **fields: Any) -> Payload:
    return chain.finished(item(name, arguments, n, **fields), at)


def item(name: str, arguments: Any = None, n: str = "a", **fields: Any) -> Payload:
    return {**chain.call(json.dumps(arguments or {}), n, status="completed", **fields), "name": name}


def done(*names: str, **fields: Any) -> Payload:
    output = [item(name, n=n) for name, n in zip(names, "abcdefgh", strict=False)]
    return chain.terminal(output=output, **fields)


ANSWER = chain.events(chain.created("resp_b"), chain.terminal(id="resp_b"))


def running(tools: Any, payloads: Sequence[Payload], **options: Any) -> tuple[Ear[Event], list[Turn]]:
    """Run tools over a response, and answer at once when asked to go on."""
    asked: list[Turn] = []

    def ask(turn: Turn) -> Observable[Event]:
        asked.append(turn)
        return at_once(ANSWER, None)

    given: Any = tools if isinstance(tools, list) else [tools]  # pyright: ignore[reportUnknownVariableType]
    source = at_once(chain.events(chain.created(), *payloads), None)
    return Ear(source.pipe(ops.run_tools(ask, tools=given, **options))), asked


def results(turn: Turn) -> list[object]:
    return [output["output"] for output in turn.outputs]


async def test_the_picture_in_the_docstring_is_what_happens() -> None:
    source, result, answer = "---c---f--t|-----------------", "---c---f--t-------c--t|", "-c--t|"
    lines = [line.strip() for line in (ops.run_tools.__doc__ or "").splitlines()]
    assert {source, result} <= set(lines)
    assert f"the call takes 10 columns; ask: {answer}" in (ops.run_tools.__doc__ or "")
    stations = dict(zip("cft", chain.events(chain.created(), finished("f"), done("f")), strict=True))
    stations_of = {event.type: sign for sign, event in stations.items()}
    tick, due, marks = 0, dict[int, list[Callable[[], object]]](), list[tuple[int, str]]()

    def plan(row: str, pushed: Source[Event], letters: Mapping[str, Event]) -> Observable[Event]:
        for column, sign in marks_of(row):
            act = pushed.complete if sign == "|" else partial(pushed.push, letters[sign])
            due.setdefault(tick + column, []).append(act)
        return pushed.observable

    async def f() -> None:
        ended = asyncio.get_running_loop().create_future()
        due.setdefault(tick + 10, []).append(partial(ended.set_result, None))
        await ended

    letters = {"c": ANSWER[0], "t": ANSWER[1]}
    looping = ops.run_tools(lambda _: plan(answer, Source(), letters), tools=[f])
    plan(source, first := Source[Event](), stations).pipe(looping).subscribe(
        lambda event: marks.append((tick, stations_of[event.type])), None, lambda: marks.append((tick, "|"))
    )
    for tick in range(len(source)):
        for act in due.pop(tick, ()):
            act()
        await turns(5)
    assert picture(marks, 0, len(source)) == result
    assert first.disposed == 1


async def test_a_call_is_begun_as_soon_as_it_is_finished_and_told_after_the_stream_has_ended() -> None:
    source, ran, asked = Source[Event](), list[str](), list[Turn]()

    async def probe() -> None:
        ran.append("probe")

    def ask(turn: Turn) -> Observable[Event]:
        asked.append(turn)
        return at_once(ANSWER, None)

    listener = Listener(source.observable.pipe(ops.run_tools(ask, tools=[probe])))
    created, call, terminal = chain.events(chain.created(), finished(), done("probe"))
    source.push(created, call)
    await turns()
    assert (ran, asked, listener.heard) == (["probe"], [], [created, call])
    source.push(terminal)
    await turns()
    assert asked == []
    source.complete()
    await turns()
    assert [turn.number for turn in asked] == [2]
    assert (listener.heard, listener.ends) == ([created, call, terminal, *ANSWER], [None])
    assert ran == ["probe"]


async def test_outputs_are_in_the_order_of_the_calls_however_they_end() -> None:
    gates = {name: asyncio.Event() for name in "xyz"}

    async def probe(gate: str) -> str:
        await gates[gate].wait()
        return gate

    # the item at place 2 is done first, that at place 0 last
    calls = [finished("probe", {"gate": gate}, n, at) for gate, n, at in (("z", "c", 2), ("y", "b", 1), ("x", "a", 0))]
    ear, asked = running(probe, [*calls, done("probe", "probe", "probe")])
    for gate in "yzx":
        assert asked == []
        gates[gate].set()
        await turns()
    await ear.ended()
    (turn,) = asked
    assert results(turn) == ["x", "y", "z"]
    assert [output["call_id"] for output in turn.outputs] == ["call_a", "call_b", "call_c"]


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (2, 2), (None, 4), (8, 4)])
async def test_no_more_calls_run_at_a_time_than_are_allowed(concurrency: int | None, most: int) -> None:
    now, peak = 0, 0

    async def probe() -> None:
        nonlocal now, peak
        now += 1
        peak = max(peak, now)
        await turns(5)
        now -= 1

    calls = [finished(n=n, at=at) for at, n in enumerate("abcd")]
    ear, asked = running(probe, [*calls, done(*["probe"] * 4)], concurrency=concurrency)
    await ear.ended()
    assert (peak, len(asked[0].outputs)) == (most, 4)


async def test_a_function_runs_in_a_thread_with_the_context_of_the_subscriber() -> None:
    mine = ContextVar("mine", default="nothing")
    loop, answered = asyncio.get_running_loop(), threading.Event()
    seen: list[object] = []

    def blocks() -> str:
        seen.append(threading.current_thread() is threading.main_thread())
        loop.call_soon_threadsafe(answered.set)  # the loop goes on while this waits
        assert answered.wait(5)
        return mine.get()

    async def awaits() -> str:
        seen.append(asyncio.get_running_loop() is loop)
        return mine.get()

    mine.set("something")
    ear, asked = running(
        [blocks, awaits], [finished("blocks"), finished("awaits", n="b", at=1), done("blocks", "awaits")]
    )
    mine.set("else")
    await ear.ended()
    assert results(asked[0]) == ["something", "something"]
    assert sorted(map(str, seen)) == ["False", "True"]


async def test_a_function_that_returns_something_to_await_is_awaited() -> None:
    async def later() -> str:
        return "later"

    ear, asked = running(tool(lambda: later(), name="probe"), [finished(), done("probe")])
    await ear.ended()
    assert results(asked[0]) == ["later"]


@pytest.mark.parametrize(
    ("result", "output"),
    [
        ("text", "text"),
        (None, "null"),
        ({"a": [1, True]}, '{"a":[1,true]}'),
        ([], "[]"),
        ([ResponseInputText(text="x")], [{"type": "input_text", "text": "x"}]),
        ([ResponseInputText(text="x"), 1], '[{"type":"input_text","text":"x","prompt_cache_breakpoint":null},1]'),
    ],
)
async def test_what_a_tool_returns_is_text_parts_or_json(result: object, output: object) -> None:
    ear, asked = running(tool(lambda: result, name="probe"), [finished(), done("probe")])
    await ear.ended()
    assert results(asked[0]) == [output]


async def test_a_call_that_takes_too_long_is_given_up_in_virtual_time() -> None:
    clock, stopped = TestScheduler(), asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.set()

    async def quick() -> str:
        return "quick"

    calls = [finished("waits"), finished("quick", n="b", at=1)]
    ear, asked = running([waits, quick], [*calls, done("waits", "quick")], timeout=30, scheduler=clock)
    await turns()
    clock.advance_to(29)
    await turns()
    assert asked == []
    clock.advance_to(30)
    await ear.ended()
    assert stopped.is_set()
    assert results(asked[0]) == ["error: TimeoutError: expected a result within 30 s, got none", "quick"]


async def test_a_thread_that_takes_too_long_is_waited_for_no_more() -> None:
    clock, released = TestScheduler(), threading.Event()

    def blocks() -> str:
        released.wait(5)
        return "nobody hears"

    ear, asked = running(blocks, [finished("blocks"), done("blocks")], timeout=1, scheduler=clock, errors="raise")
    await turns()
    clock.advance_to(1)
    error = await ear.failed()
    released.set()
    assert isinstance(error, ToolFailed)
    assert isinstance(error.__cause__, TimeoutError)
    assert asked == []


async def test_a_timeout_that_a_tool_raises_itself_is_its_own() -> None:
    async def probe() -> None:
        raise TimeoutError("mine")

    ear, asked = running(probe, [finished(), done("probe")], timeout=30)
    await ear.ended()
    assert results(asked[0]) == ["error: TimeoutError: mine"]


async def test_a_call_of_a_tool_without_a_function_is_left_to_the_subscriber() -> None:
    heard: list[ToolOutput] = []

    async def probe() -> str:
        return "ran"

    tools = [probe, {"type": "function", "name": "ask_the_user"}]
    calls = [finished(), finished("ask_the_user", {"question": "?"}, "b", 1)]
    ear, asked = running(tools, [*calls, done("probe", "ask_the_user")], on_output=heard.append)
    await ear.ended()
    assert (ear.error, asked) == (None, [])
    assert [output.item["output"] for output in heard] == ["ran"]
    assert ear.elements[-1].type == "response.completed"


REQUEST = chain.item("mcp_approval_request", "ar_a", name="roll", arguments="{}", server_label="dice")


async def test_a_request_to_approve_is_left_to_the_subscriber() -> None:
    ear, asked = running([], [chain.finished(REQUEST), chain.terminal(output=[REQUEST])])
    await ear.ended()
    assert (ear.error, asked) == (None, [])


@pytest.mark.parametrize("approves", [True, False])
@pytest.mark.parametrize("waits", [True, False])
async def test_a_request_to_approve_is_decided_and_answered(approves: bool, waits: bool) -> None:
    seen: list[McpApprovalRequest] = []

    def decide(request: McpApprovalRequest) -> bool:
        seen.append(request)
        return approves

    async def ponder(request: McpApprovalRequest) -> bool:
        return decide(request)

    payloads = [chain.finished(REQUEST), finished("add", {"a": 1, "b": 2}, at=1)]
    payloads.append(chain.terminal(output=[REQUEST, item("add")]))
    ear, asked = running([add], payloads, approve=ponder if waits else decide)
    await ear.ended()
    assert [request.name for request in seen] == ["roll"]
    assert [dict(output) for output in asked[0].outputs] == [
        {"type": "mcp_approval_response", "approval_request_id": "ar_a", "approve": approves},
        {"type": "function_call_output", "call_id": "call_a", "output": "3"},
    ]


async def test_what_a_decision_raises_ends_the_stream() -> None:
    trouble = Trouble("undecided")

    def decide(_: McpApprovalRequest) -> bool:
        raise trouble

    ear, asked = running([], [chain.finished(REQUEST), chain.terminal(output=[REQUEST])], approve=decide)
    assert (await ear.failed(), asked) == (trouble, [])


async def test_what_a_server_calls_and_runs_itself_is_not_answered() -> None:
    path = shared("captures/xai/x-search-parallel-items.sse")
    ran = chain.run(path.read_bytes())
    assert "custom_tool_call" in [item.type for item in ran.final.output or ()]
    asked: list[Turn] = []
    looping = ops.run_tools(lambda turn: asked.append(turn) or reactivex.empty(), tools=[add])  # type: ignore[func-returns-value]
    ear = await Ear(at_once(ran.events, None).pipe(looping)).ended()
    assert (ear.elements, ear.error, asked) == (ran.events, None, [])


async def test_a_turn_has_all_that_was_said_also_where_the_terminal_is_empty() -> None:
    thought = chain.item("reasoning", "rs_a", summary=[])
    calls = [chain.finished(thought), finished("add", {"a": 1, "b": 2}, at=1)]
    ear, asked = running([add], [*calls, chain.terminal(output=[])])
    await ear.ended()
    assert asked[0].response.id == "resp_a"
    assert [entry["type"] for entry in asked[0].history] == ["reasoning", "function_call", "function_call_output"]


async def test_a_source_in_another_thread_runs_its_tools_in_the_loop() -> None:
    loop, source, threads = asyncio.get_running_loop(), Source[Event](), list[object]()

    async def probe() -> None:
        threads.append(asyncio.get_running_loop() is loop)

    ear = Ear(source.observable.pipe(ops.run_tools(lambda _: at_once(ANSWER, None), tools=[probe])))

    def push() -> None:
        source.push(*chain.events(chain.created(), finished(), done("probe")))
        source.complete()

    await asyncio.to_thread(push)
    await ear.ended()
    assert (threads, len(ear.elements), ear.completed) == ([True], 5, True)


async def test_the_final_response_of_several_is_the_last_one() -> None:
    first = chain.events(chain.created(), finished(), done("probe"))
    later = [chain.created("resp_b"), *chain.hello()[1:-1]]
    whole = chain.events(*later, chain.terminal(output=[], id="resp_b"))
    response = await final_response(at_once([*first, *whole], None))
    assert (response.id, response.status) == ("resp_b", "completed")
    with pytest.raises(StreamInterrupted) as raised:
        await final_response(at_once([*first, *whole[:-1]], None))
    assert raised.value.snapshot is not None
    assert (raised.value.snapshot.id, raised.value.snapshot.output_text) == ("resp_b", "Hello")
    assert raised.value.cursor is not None
    assert raised.value.cursor.response_id == "resp_b"


async def test_a_call_that_only_the_terminal_has_is_run_too() -> None:
    ear, asked = running([add], [chain.terminal(output=[item("add", {"a": 1, "b": 2})])])
    await ear.ended()
    assert results(asked[0]) == ["3"]


@pytest.mark.parametrize("answer", [Trouble("no"), "no observable", at_once([], Trouble("no"))])
async def test_what_asking_raises_is_the_error_of_the_stream(answer: Any) -> None:
    def ask(_: Turn) -> Observable[Event]:
        if isinstance(answer, Exception):
            raise answer
        observable: Observable[Event] = answer
        return observable

    source = at_once(chain.events(chain.created(), finished("add", {"a": 1, "b": 2}), done("add")), None)
    error = await Ear(source.pipe(ops.run_tools(ask, tools=[add]))).failed()
    assert str(error) in ("no", "expected ask to return an observable, got str")


async def test_a_listener_to_outputs_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def raises(_: ToolOutput) -> None:
        raise Trouble("of the listener")

    with caplog.at_level(logging.ERROR, "orx_rx"):
        ear, asked = running([add], [finished("add", {"a": 1, "b": 2}), done("add")], on_output=raises)
        await ear.ended()
    assert results(asked[0]) == ["3"]
    assert "a listener to outputs raised" in caplog.text


def test_without_a_loop_a_call_is_an_error_and_a_response_without_one_passes() -> None:
    events = chain.events(chain.created(), finished("add", {"a": 1, "b": 2}), done("add"))
    listener = Listener(at_once(events, None).pipe(ops.run_tools(lambda _: reactivex.empty(), tools=[add])))
    assert [str(end) for end in listener.ends] == [
        "expected a running event loop to run tools in, got none: subscribe inside a coroutine, or use "
        "Client.in_thread()"
    ]


async def test_what_a_subscriber_raises_in_a_later_round_ends_it_and_the_loop_hears_of_it() -> None:
    trouble = Trouble("of the subscriber")

    def act(event: Event) -> None:
        if isinstance(event, ResponseCreatedEvent) and event.response.id == "resp_0002":
            raise trouble

    async with told() as contexts, simulated([("add", {"a": 1, "b": 2})], pace=0.001) as (simulator, client):
        ear = Ear(client.run_tools(tools=[add], model="clerk", input="go"), act)
        assert await ear.failed() is trouble
        await simulator.wait_for(lambda s: not s.open_streams)
        assert [context["exception"] for context in contexts] == [trouble]


async def test_a_subscriber_that_leaves_in_the_middle_of_a_call_event_runs_nothing() -> None:
    ran: list[str] = []

    async def probe() -> None:
        ran.append("probe")

    source = at_once(chain.events(chain.created(), finished(), done("probe")), None)
    looping = ops.run_tools(lambda _: at_once(ANSWER, None), tools=[probe])
    ear = Ear(source.pipe(looping, rx.take(2)))
    await turns()
    assert (len(ear.elements), ear.completed, ran) == (2, True, [])


# pauses


async def test_a_slow_reader_pauses_the_later_rounds_and_not_what_tools_read() -> None:
    flows: dict[str, Flow | None] = {}

    def noting(name: str, events: Sequence[Event]) -> Observable[Event]:
        def subscribe(observer: Any, _: Any = None) -> Any:
            flows[name] = current_flow()
            return at_once(events, None).subscribe(observer)

        return Observable(subscribe)

    async def probe() -> str:
        async def read() -> None:
            noting("of a tool", []).subscribe()

        await asyncio.create_task(read())
        return "read"

    mine = Flow()
    first = noting("first", chain.events(chain.created(), finished(), done("probe")))
    looping = ops.run_tools(lambda _: noting("second", ANSWER), tools=[probe])
    with subscribing(mine):
        ear = Ear(first.pipe(looping))
    await ear.ended()
    assert flows == {"first": mine, "second": mine, "of a tool": None}


async def test_a_reader_with_a_small_buffer_gets_everything() -> None:
    async with simulated(*TWO_ROUNDS) as (_, client):
        events = client.run_tools(tools=[add, shout], model="clerk", input="go")
        async with iterate(events, buffer=2) as reading:
            heard = [event async for event in reading]
        assert len(heard) == len((await Ear(events).ended()).elements)


def test_a_call_says_little_of_its_tool() -> None:
    (call,) = [*Listener(at_once(chain.events(finished("add")), None).pipe(ops.tool_calls([add]))).heard]
    assert isinstance(call, ToolCall)
    assert "parameters" not in repr(call.tool)
