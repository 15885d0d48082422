"""What the simulated models do: one function for each, chosen by the name of the model.

Everything is made from the request alone, so equal requests get equal answers.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from orx_rx.models.parts import AnnotationFileCitation, AnnotationURLCitation
from orx_rx.models.stream_events import ResponseErrorEvent
from orx_rx.simulator import hosted
from orx_rx.simulator import items as write
from orx_rx.simulator.requests import object_of
from orx_rx.simulator.schemas import value_of
from orx_rx.simulator.script import interleave, slices, words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from orx_rx.models.event_base import Event
    from orx_rx.simulator.requests import Request
    from orx_rx.simulator.script import Scenario, Script

_STORY = (
    "In a café by the harbour lived a grey cat named Zoë. Every morning she chose the chair nearest to the stove, and "
    "waited. The baker saved a little fish for her; the sailors saved her their stories. One winter the snow lay so "
    "deep that nobody could leave, so they lit the lamps, shared the bread, and told the old tales twice. When the "
    "thaw came, the cat stretched, yawned, and went out to see whether the sea was still there. It was. 🌊"
)
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
_WEATHER: Mapping[str, Any] = {
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"location": {"enum": ["Paris", "Oslo"]}}},
}
_ANSWER: Mapping[str, Any] = {"type": "object", "properties": {"answer": {}, "certain": {"type": "boolean"}}}
_LONG = re.compile(r"long(?:-(\d{1,6}))?")


def story(script: Script) -> Iterator[Event]:
    """Tell a short story, word by word."""
    yield from write.message(script, _told(script.request))


def reasoning(script: Script) -> Iterator[Event]:
    """Think first, with a summary of two parts; then answer."""
    summaries = [words("**Reading** the question once more."), words("**Choosing** the shortest answer.")]
    yield from write.reasoning(script, summaries)
    yield from write.message(script, words("After some thought: forty-two."))


def function_call(script: Script) -> Iterator[Event]:
    """Call the first function of the request; `get_weather` if it has none."""
    yield from _call(script, 0)


def parallel_calls(script: Script) -> Iterator[Event]:
    """Call two functions, both open at once; one if the request rules out parallel calls."""
    count = 1 if script.request.body.get("parallel_tool_calls") is False else 2
    yield from interleave(*(_call(script, number) for number in range(count)))


def tools(script: Script) -> Iterator[Event]:
    """Call every tool of the request, all open at once, or one a round if parallel calls are ruled out; then answer."""
    offered = _callable(script) or [_WEATHER]
    due = range(script.request.called, len(offered))
    if script.request.body.get("parallel_tool_calls") is False:
        due = due[:1]
    calls = (_call_of(script, offered[number], None, number) for number in due)
    yield from interleave(*calls) if due else answer(script)


def calling(*rounds: Sequence[str | tuple[str, Mapping[str, Any] | str | None]]) -> Scenario:
    """Make a scenario that calls what it is told, round by round, and then answers.

        Simulator(scenarios={"clerk": calling(["search", ("search", {"text": "cats"})], [("note", "Cats are fine.")])})

    Args:
        *rounds: The calls of each round, all open at once: the name of a tool, with its arguments or without; without
            them they fit its schema. Arguments that are text are sent as they are, and need not be JSON.
    """

    def scenario(script: Script) -> Iterator[Event]:
        before = 0
        for calls in rounds:
            if before == script.request.called:
                offered = {tool["name"]: tool for tool in _callable(script)}
                named = [(call, None) if isinstance(call, str) else call for call in calls]
                written = (_call_of(script, offered.get(name, {"name": name}), given) for name, given in named)
                yield from interleave(*written)
                return
            before += len(calls)
        yield from answer(script)

    return scenario


def answer(script: Script) -> Iterator[Event]:
    """Tell what the functions returned that were called before."""
    for_each = (f"{name} returned {_short(result) or 'nothing'}." for name, result in script.request.results)
    yield from write.message(script, words(" ".join(("Here is what I found:", *for_each))))


def refusal(script: Script) -> Iterator[Event]:
    """Refuse."""
    yield from write.refusal(script, words("I'm sorry, but I can't help with that."))


def json(script: Script) -> Iterator[Event]:
    """Answer in JSON that fits the schema of the request."""
    schema = object_of(script.request.text_format.get("schema")) or _ANSWER
    yield from write.message(script, slices(write.json_text(value_of(schema))))


def incomplete(script: Script) -> Iterator[Event]:
    """Tell a story, and be cut off at `max_output_tokens`; at 16 if the request does not say."""
    told = _told(script.request)
    limit = script.request.max_output_tokens or 16
    yield from write.message(script, told[: min(limit, len(told) - 1)], status="incomplete")
    yield script.incomplete("max_output_tokens")


def failed(script: Script) -> Iterator[Event]:
    """Begin a story, and fail."""
    yield from write.message(script, islice(_told(script.request), 8), status="in_progress")
    yield script.failed("server_error", "The simulated model failed, as it was asked to.")


def error(script: Script) -> Iterator[Event]:
    """Begin a story, report an error, and fail."""
    yield from write.message(script, islice(_told(script.request), 8), status="in_progress")
    code, message = "rate_limit_exceeded", "The simulated limit was reached, as it was asked to be."
    payload = {"type": "rate_limit_error", "code": code, "message": message, "param": None}
    yield ResponseErrorEvent.model_validate({"type": "error", "error": payload})
    yield script.failed(code, message)


def long(script: Script) -> Iterator[Event]:
    """Count: `long-2000` writes two thousand numbers, a delta each; `long` writes five hundred."""
    named = _LONG.fullmatch(script.request.model)
    count = int(named[1]) if named and named[1] else 500
    yield from write.message(script, (f"{number} " for number in range(count)))


def everything(script: Script) -> Iterator[Event]:
    """Use every kind of item that can be streamed, two of them at once."""
    thoughts = [words("The user wants everything.")]
    yield from write.reasoning(script, [words("**Planning** it."), words("**Starting** it.")], thoughts)
    yield from hosted.mcp_list_tools(script, "dice", {"roll": {"type": "object"}})
    yield from interleave(
        hosted.web_search_call(script, "harbour cats", ["https://example.com/cats"]),
        hosted.file_search_call(script, "harbour cats", {"cats.txt": "The cat sleeps by the stove."}),
    )
    yield from hosted.mcp_call(script, "dice", "roll", {"dice": "2d6"}, "7")
    yield from hosted.code_interpreter_call(script, "print(6 * 7)", "42\n")
    yield from hosted.shell(script, {"ls harbour": "boats cats", "date": "Wednesday"})
    yield from hosted.image_generation_call(script, _PIXEL, _PIXEL)
    yield from interleave(_call(script, 0), hosted.custom_tool_call(script, "note", "The cat is fine."))
    text = "All agree that the cat is fine."
    page = AnnotationURLCitation(
        type="url_citation", url="https://example.com/cats", title="Cats", start_index=0, end_index=9
    )
    file = AnnotationFileCitation(type="file_citation", file_id="file_0", filename="cats.txt", index=len(text))
    yield from write.message(script, words(text), annotations=(page, file))
    yield from hosted.compaction(script, "b3B4X3J4")


SCENARIOS: Mapping[str, Scenario] = {
    "story": story,
    "reasoning": reasoning,
    "function-call": function_call,
    "parallel-calls": parallel_calls,
    "tools": tools,
    "refusal": refusal,
    "json": json,
    "incomplete": incomplete,
    "failed": failed,
    "error": error,
    "long": long,
    "everything": everything,
}
"""The scenario of each model; `long-N` is `long`, and every other name is `story`."""

_CALLS = (function_call, parallel_calls)
_CONVERSES = (story, *_CALLS)
_TALKS = (story, reasoning, json, long)


def scenario_for(request: Request, more: Mapping[str, Scenario] | None = None) -> Scenario:
    """Choose what happens.

    The name of the model decides, with these exceptions: results of functions are answered, a demanded call is made,
    a forbidden one is not, and a model without a scenario calls functions where it has some.

    Args:
        request: What the client asked for.
        more: Scenarios besides `SCENARIOS`, by the name of the model; they win, and have no exceptions.
    """
    if more and request.model in more:
        return more[request.model]
    known = SCENARIOS.get("long" if _LONG.fullmatch(request.model) else request.model)
    named = known or (function_call if request.functions else story)
    exceptions = (
        (named in _CONVERSES and bool(request.results), answer),
        (named in _TALKS and request.must_call, function_call),
        (named in (*_CALLS, tools) and not request.may_call, story),
    )
    return next((instead for applies, instead in exceptions if applies), named)


def _told(request: Request) -> list[str]:
    return words(f"You said “{_short(request.question)}”. {_STORY}" if request.question else _STORY)


def _call(script: Script, number: int) -> Iterator[Event]:
    functions = script.request.functions or [_WEATHER]
    yield from _call_of(script, functions[number % len(functions)], None, number)


def _call_of(
    script: Script, tool: Mapping[str, Any], given: Mapping[str, Any] | str | None, seed: int = 0
) -> Iterator[Event]:
    """Call a tool, with arguments of its own making where none are given."""
    name: str = tool["name"]
    if tool.get("type") == "custom":
        yield from hosted.custom_tool_call(script, name, given if isinstance(given, str) else f"Some text for {name}.")
    else:
        fitting = value_of(object_of(tool.get("parameters")) or {"type": "object"}, seed=seed)
        yield from write.function_call(script, name, fitting if given is None else given)


def _callable(script: Script) -> list[Mapping[str, Any]]:
    return [*script.request.functions, *script.request.customs]


def _short(text: str, most: int = 40) -> str:
    """Shorten a text to some words, so that what is echoed stays readable."""
    found = text.split()
    return " ".join(found[:most]) + (" …" if len(found) > most else "")
