"""Calls read out of a stream: each one once, in the order in which they finish, and none harmed by another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from orx_rx import OutputParseError, Toolbox, ToolCall, UnknownTool, custom_tool
from orx_rx import operators as ops
from orx_rx.errors import OrxError
from orx_rx.models import ResponseCustomToolCall, ResponseFunctionToolCall, to_wire
from orx_rx.protocol import Accumulator, CallReader
from tests import chain
from tests.chain import Payload
from tests.conftest import shared
from tests.sources import Listener, at_once


def probe(p: int) -> int:
    return p


def read(*payloads: Payload, toolbox: Toolbox | None = None) -> list[ToolCall]:
    reader = CallReader(toolbox)
    return [call for event in chain.events(*payloads) for call in reader.feed(event)] + [*reader.end()]


def call(n: str = "a", arguments: str | None = '{"p": 1}', **fields: Any) -> Payload:
    return {**chain.call(arguments or "", n, **fields), **({} if arguments is not None else {"arguments": None})}


def custom(n: str = "a", text: str = "x", **fields: Any) -> Payload:
    return chain.item("custom_tool_call", f"ctc_{n}", call_id=f"call_{n}", name="note", input=text, **fields)


def input_delta(piece: str, index: int = 0, n: str = "a") -> Payload:
    return chain.delta(piece, "custom_tool_call_input", index=index, content=None, id=f"ctc_{n}")


ONE = ("call_a", '{"p": 1}')
TWO = ("call_b", '{"p": 2}')

# what comes, and the calls: the event by which each has come out, its id and its text
COMES: Mapping[str, tuple[Sequence[Payload], Sequence[tuple[int, str, str]]]] = {
    "no call": (chain.hello(), []),
    "one call": ([chain.created(), chain.finished(call()), chain.terminal(output=[call()])], [(1, *ONE)]),
    "the same item twice": ([chain.finished(call()), chain.finished(call()), chain.terminal()], [(0, *ONE)]),
    "the same call at two places": ([chain.finished(call()), chain.finished(call(), 1)], [(0, *ONE)]),
    "an item whose id has changed": (
        [chain.finished(call()), chain.terminal(output=[{**call(), "id": "other"}])],
        [(0, *ONE)],
    ),
    "a call that only the terminal has": ([chain.created(), chain.terminal(output=[call()])], [(1, *ONE)]),
    "one that is done and one that is not": (
        [chain.finished(call()), chain.terminal(output=[call(), call("b", '{"p": 2}')])],
        [(0, *ONE), (1, *TWO)],
    ),
    # B44: the second one finishes first
    "two at a time": (
        [
            chain.added(call("a", "")),
            chain.added(call("b", ""), 1),
            chain.arguments_delta('{"p": 1}'),
            chain.arguments_delta('{"p": 2}', 1, "b"),
            chain.finished(call("b", '{"p": 2}'), 1),
            chain.finished(call("a")),
        ],
        [(4, *TWO), (5, *ONE)],
    ),
    # B24: the first source that says anything
    "arguments in the deltas alone": (
        [chain.arguments_delta('{"p"'), chain.arguments_delta(": 1}"), chain.finished(call("a", ""))],
        [(2, *ONE)],
    ),
    "arguments in their done event alone": (
        [chain.arguments_delta(""), chain.arguments_done('{"p": 1}'), chain.finished(call("a", None))],
        [(2, *ONE)],
    ),
    "arguments in the terminal alone": (
        [chain.arguments_done(""), chain.finished(call("a", "")), chain.terminal(output=[call()])],
        [(2, *ONE)],
    ),
    "arguments nowhere": ([chain.finished(call("a", "")), chain.terminal(output=[])], [(1, "call_a", "")]),
    "custom input in the item": ([chain.finished(custom())], [(0, "call_a", "x")]),
    "custom input in the deltas": (
        [input_delta("x"), input_delta("y"), chain.finished(custom(text=""))],
        [(2, "call_a", "xy")],
    ),
    "custom input in its done event": (
        [
            {"type": "response.custom_tool_call_input.done", **chain.at(0, None, "ctc_a"), "input": "z"},
            chain.finished(custom(text="")),
        ],
        [(1, "call_a", "z")],
    ),
    # what was cut off is no call
    "done and cut off": ([chain.finished(call(status="incomplete")), chain.terminal("incomplete")], []),
    "cut off in the terminal": ([chain.terminal("incomplete", [call(status="in_progress"), call("b")])], []),
    "whole in a response that is not": (
        [chain.terminal("failed", [call(status="completed"), call("b", status="incomplete")])],
        [(0, *ONE)],
    ),
    "a stream without a terminal": ([chain.finished(call()), chain.added(call("b"), 1)], [(0, *ONE)]),
    # names
    "no call id": ([chain.finished({**call(), "call_id": None})], [(0, "fc_a", '{"p": 1}')]),
    "no ids at all": (
        [chain.finished({**call(), "call_id": None, "id": None}, at) for at in (0, 1)],
        [(0, "", '{"p": 1}'), (1, "", '{"p": 1}')],
    ),
    "no id": ([chain.finished({**call(), "id": None})], [(0, *ONE)]),
    # what the server runs
    "hosted calls and approvals": (
        [
            chain.finished(chain.item("web_search_call", "ws_a", status="completed")),
            chain.finished(chain.item("mcp_call", "mcp_a", name="probe", arguments="{}", server_label="s"), 1),
            chain.finished(chain.item("mcp_approval_request", "ar_a", name="probe", arguments="{}"), 2),
            chain.terminal(),
        ],
        [],
    ),
    "another response behind the first": (
        [
            chain.created("resp_a"),
            chain.finished(call()),
            chain.terminal(output=[call()]),
            chain.created("resp_b"),
            chain.finished(call("b", '{"p": 2}')),
            chain.terminal(output=[call("b", '{"p": 2}')], id="resp_b"),
        ],
        [(1, *ONE), (4, *TWO)],
    ),
}


@pytest.mark.parametrize("title", COMES)
def test_a_call_comes_out_once_when_it_is_finished(title: str) -> None:
    payloads, expected = COMES[title]
    reader, came = CallReader(), list[tuple[int, str, str]]()
    for number, event in enumerate(chain.events(*payloads)):
        came += [(number, call.call_id, call.text) for call in reader.feed(event)]
    assert came == expected
    assert reader.end() == ()


@pytest.mark.parametrize("title", COMES)
def test_the_same_calls_come_out_behind_an_accumulator(title: str) -> None:
    payloads, expected = COMES[title]
    if title == "arguments nowhere" or "another" in title:
        pytest.skip("an accumulator is for one response")
    reader, accumulator = CallReader(), Accumulator()
    events = [grown for event in chain.events(*payloads) for grown in accumulator.feed(event)]
    calls = [call for event in events for call in reader.feed(event)]
    assert {(call.call_id, call.text) for call in calls} == {(call_id, text) for _, call_id, text in expected}


def test_a_call_has_its_item_and_what_that_says() -> None:
    (one,) = read(chain.finished(call(namespace="crm")))
    assert isinstance(one.item, ResponseFunctionToolCall)
    assert (one.name, one.namespace, one.call_id, one.text) == ("probe", "crm", "call_a", '{"p": 1}')
    assert (one.arguments, one.error, one.tool) == ({"p": 1}, None, None)
    (two,) = read(chain.finished(custom(text="not { JSON")))
    assert isinstance(two.item, ResponseCustomToolCall)
    assert (two.name, two.text, two.arguments, two.error) == ("note", "not { JSON", "not { JSON", None)


def test_a_bad_call_neither_ends_the_stream_nor_hides_another() -> None:
    payloads = [
        chain.finished(call("a", '{"p": "many"}')),
        chain.finished(call("b", '{"p": ')),
        chain.finished({**call("c"), "name": "nothing"}, 2),
        chain.finished(call("d", '{"p": 4}'), 3),
    ]
    payloads = [{**payload, "output_index": number} for number, payload in enumerate(payloads)]
    listener = Listener(at_once(chain.events(*payloads), None).pipe(ops.tool_calls([probe])))
    assert listener.ends == [None]
    calls = listener.heard
    assert [type(one.error) for one in calls] == [OutputParseError, OutputParseError, UnknownTool, type(None)]
    for bad in calls[:3]:
        with pytest.raises(OrxError) as raised:
            _ = bad.arguments
        assert raised.value is bad.error
        assert getattr(raised.value, "text", None) == bad.text
    assert calls[3].arguments == {"p": 4}
    assert str(calls[2].error) == "expected a call of probe, got one of 'nothing'"


def test_without_tools_arguments_that_are_no_json_are_an_error() -> None:
    (one,) = read(chain.finished(call("a", "hunter2")))
    assert isinstance(one.error, OutputParseError)
    assert str(one.error) == "expected arguments in JSON, got 7 characters that are not"
    assert one.error.text == "hunter2"


def test_with_tools_arguments_are_what_the_tool_takes() -> None:
    tools: list[Any] = [{"type": "function", "name": "probe"}, custom_tool(len, name="note")]
    events = chain.events(chain.finished(call()), chain.finished(custom("b"), 1))
    calls = Listener(at_once(events, None).pipe(ops.tool_calls(tools))).heard
    assert [one.arguments for one in calls] == [{"p": 1}, "x"]
    assert [one.tool.name for one in calls if one.tool] == ["probe", "note"]
    box = Toolbox([{"type": "namespace", "name": "crm", "tools": [probe]}])
    inside, outside = read(chain.finished(call(namespace="crm")), chain.finished(call("b", "{}"), 1), toolbox=box)
    assert inside.arguments == {"p": 1}
    assert str(outside.error) == "expected a call of crm.probe, got one of 'probe'"
    (elsewhere,) = read(chain.finished(call(namespace="other")), toolbox=box)
    assert str(elsewhere.error) == "expected a call of crm.probe, got one of 'other.probe'"


def test_an_instance_of_a_model_is_made_once() -> None:
    class Asked(BaseModel):
        """Its name is that of the calls."""

        p: int

    Asked.__name__ = "probe"
    (one,) = read(chain.finished(call()), toolbox=Toolbox([Asked]))
    assert one.arguments == Asked(p=1)
    assert one.arguments is one.arguments


def test_calls_come_out_of_real_streams_as_their_terminals_have_them() -> None:
    folder = shared("captures")
    seen = 0
    for path in sorted(folder.rglob("*.sse")):
        ran = chain.run(path.read_bytes())
        if ran.error is not None:
            continue
        reader = CallReader()
        calls = [call for event in ran.events for call in reader.feed(event)]
        listed = [to_wire(item) for item in ran.final.output or ()]
        texts = {"function_call": "arguments", "custom_tool_call": "input"}
        finished = [i for i in listed if i["type"] in texts and i.get("status") != "incomplete"]
        assert sorted((one.name, one.text) for one in calls) == sorted(
            (i["name"], i[texts[i["type"]]]) for i in finished
        )
        assert all(one.error is None for one in calls)
        functions = [one for one in calls if isinstance(one.item, ResponseFunctionToolCall)]
        assert [one.arguments for one in functions] == [json.loads(one.text) for one in functions]
        seen += len(calls)
    assert seen > 0
