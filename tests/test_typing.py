"""What type checkers see: the type of a pipeline is told from end to end, without Any."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytest.importorskip("mypy")

PROLOGUE = """
import asyncio
from collections.abc import AsyncIterator
from pydantic import BaseModel
from reactivex import Observable, operators as rx
from orx_rx import Accumulator, Client, Frame, Violation, final_response, iterate, lift, operators as ops
from orx_rx import QueueEnd, custom_tool, from_async_iterable, replay, to_queue, tool
from orx_rx.models import Event, ResponseCompletedEvent, ResponseTextDeltaEvent, ResponseTextDoneEvent

class Recipe(BaseModel):
    title: str

class Lengths:
    def feed(self, item: bytes, /) -> list[int]: return [len(item)]
    def end(self) -> tuple[int, ...]: return ()

def output_text(event: ResponseCompletedEvent) -> str: return event.response.output_text

async def length(text: str) -> int: return len(text)

async def numbers() -> AsyncIterator[int]: yield 1

async def opened() -> AsyncIterator[int]: return numbers()

violations: list[Violation] = []

async def program(
    client: Client, chunks: Observable[bytes], frames: Observable[Frame], events: Observable[Event]
) -> None:
"""

REVEALED: Mapping[str, str] = {
    # each operator
    "chunks.pipe(ops.frame())": "Observable[Frame]",
    "frames.pipe(ops.decode())": "Observable[Event]",
    "events.pipe(ops.sequence_check(gaps='report'))": "Observable[Event]",
    "events.pipe(ops.lifecycle_guard(linger=2))": "Observable[Event]",
    "events.pipe(ops.accumulate(into=Accumulator(), on_violation=violations.append))": "Observable[Event]",
    "events.pipe(ops.fan_out())": "Observable[Event]",
    "chunks.pipe(ops.fan_out(history=None))": "Observable[bytes]",
    "events.pipe(ops.text())": "Observable[str]",
    "events.pipe(ops.reasoning(kind='summary'))": "Observable[str]",
    "events.pipe(ops.refusals())": "Observable[str]",
    "events.pipe(ops.items())": "Observable[Item]",
    "events.pipe(ops.of_type(ResponseTextDeltaEvent))": "Observable[ResponseTextDeltaEvent]",
    "events.pipe(ops.of_type(ResponseTextDeltaEvent, ResponseTextDoneEvent))": "Observable[ContentEvent]",
    "events.pipe(ops.text(), ops.map_async(length, concurrency=4, ordered=False))": "Observable[int]",
    "events.pipe(ops.partial(Recipe))": "Observable[Recipe]",
    "events.pipe(ops.partial(list[int], every=None))": "Observable[list[int]]",
    "events.pipe(ops.partial(Recipe | None))": "Observable[Any]",
    "events.pipe(ops.accumulate(text_format=Recipe))": "Observable[Event]",
    "events.pipe(ops.tool_calls())": "Observable[ToolCall]",
    "events.pipe(ops.tool_calls([length, {'type': 'web_search'}, tool(length, name='x')]))": "Observable[ToolCall]",
    "events.pipe(ops.run_tools(lambda turn: client.events(input=turn.outputs), tools=[length]))": "Observable[Event]",
    "tool(length)": "Tool",
    "tool(name='x')(length)": "Tool",
    "custom_tool(length)": "Tool",
    "chunks.pipe(lift(Lengths))": "Observable[int]",
    "chunks.pipe(ops.record('story.jsonl'))": "Observable[bytes]",
    "replay('story.jsonl', speed=None).pipe(ops.frame(), ops.decode(), ops.text())": "Observable[str]",
    "client.events(model='story', record='story.jsonl')": "Observable[Event]",
    # pipelines
    "chunks.pipe(ops.frame(), ops.decode(), ops.sequence_check(), ops.lifecycle_guard(), ops.accumulate())": (
        "Observable[Event]"
    ),
    "chunks.pipe(ops.frame(), ops.decode(), ops.sequence_check(), ops.lifecycle_guard(), ops.accumulate(),"
    " ops.fan_out(), ops.text())": "Observable[str]",
    "events.pipe(ops.of_type(ResponseCompletedEvent), ops.fan_out(), rx.map(output_text))": "Observable[str]",
    "events.pipe(rx.take(3), ops.fan_out(), rx.skip(1), ops.items())": "Observable[Item]",
    # what a client gives
    "client.chunks(model='story', input='Tell me one')": "Observable[bytes]",
    "client.events(model='story', input='Tell me one').pipe(ops.fan_out(), ops.text())": "Observable[str]",
    "client.events(model='story', text_format=Recipe)": "Observable[Event]",
    "client.events(model='story', text_format=Recipe | None).pipe(ops.partial(Recipe))": "Observable[Recipe]",
    "(await final_response(events)).output_parsed": "Any",
    "Client.in_thread().chunks(model='story', headers={})": "Observable[bytes]",
    "Client.in_thread().events(model='story', linger=2).pipe(ops.fan_out(), ops.text())": "Observable[str]",
    "client.run_tools(tools=[length], model='story', input='x').pipe(ops.text())": "Observable[str]",
    "Client.in_thread().run_tools(tools=[length], model='story', input='x')": "Observable[Event]",
    "Client.in_thread().on_loop(events.pipe(ops.items()))": "Observable[Item]",
    "next(Client.in_thread().iterate(events.pipe(ops.text())))": "str",
    "Client.in_thread().final_response(events)": "Response",
    "await anext(iterate(events.pipe(ops.text())))": "str",
    "await final_response(events)": "Response",
    # to and from asyncio
    "from_async_iterable(numbers)": "Observable[int]",
    "from_async_iterable(numbers())": "Observable[int]",
    "from_async_iterable(opened)": "Observable[int]",
    "await to_queue(events.pipe(ops.text()), asyncio.Queue[str | QueueEnd]())": "None",
    "await to_queue(events.pipe(ops.text()), asyncio.Queue[str | None](), end=lambda error: None)": "None",
    "await to_queue(events.pipe(ops.text()), asyncio.Queue[str](), end=None)": "None",
}

MISTAKES = [
    "chunks.pipe(ops.decode())",
    "events.pipe(ops.frame())",
    "chunks.pipe(ops.frame(), ops.text())",
    "events.pipe(ops.of_type(str))",
    "ops.frame(64)",
    "ops.record(3)",
    "events.pipe(ops.record('story.jsonl'))",
    "ops.fan_out(history='some')",
    "chunks.pipe(ops.partial(Recipe))",
    "ops.partial(Recipe, every='often')",
    "ops.sequence_check(gaps='some')",
    "chunks.pipe(lift(str))",
    "events.pipe(ops.map_async(length))",
    "chunks.pipe(ops.map_async(len))",
    "ops.map_async(length, 4)",
    "chunks.pipe(ops.tool_calls())",
    "ops.run_tools(length, tools=[])",
    "ops.run_tools(lambda turn: client.events())",
    "ops.run_tools(lambda turn: client.events(), tools=[], errors='hide')",
    "from_async_iterable([1])",
    "await to_queue(events.pipe(ops.text()), asyncio.Queue[str]())",
    "Client.in_thread().events(linger='long')",
    "Client.in_thread().resume()",
]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Let mypy check a program of one expression a line, and tell what it says of each."""
    expressions = [*(f"reveal_type({expression})" for expression in REVEALED), *MISTAKES]
    file = tmp_path_factory.mktemp("typing") / "program.py"
    file.write_text(PROLOGUE + "".join(f"    {expression}\n" for expression in expressions), encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", str(file)],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    first = PROLOGUE.count("\n") + 1
    told: dict[str, str] = dict.fromkeys(expressions, "")
    for line in ran.stdout.splitlines()[:-1]:
        place, number, said = line.split(":", 2)
        assert (Path(place).name, int(number) >= first) == ("program.py", True), ran.stdout
        told[expressions[int(number) - first]] += said
    return told


@pytest.mark.parametrize("expression", REVEALED)
def test_the_type_of_a_pipeline_is_known(expression: str, said: Mapping[str, str]) -> None:
    said_of_it = said[f"reveal_type({expression})"]
    assert re.sub(r"[\w.]+\.(\w+)", r"\1", said_of_it) == f' note: Revealed type is "{REVEALED[expression]}"'


@pytest.mark.parametrize("expression", MISTAKES)
def test_a_mistake_is_an_error_of_the_type_checker(expression: str, said: Mapping[str, str]) -> None:
    assert said[expression].startswith(" error: ")
