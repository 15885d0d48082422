"""A provider on loopback, for examples, tests and demos.

    async with Simulator() as simulator:
        async with Client(base_url=simulator.base_url) as client:
            response = await final_response(client.events(model="story", input="Tell me one"))

The name of the model says what happens; `SCENARIOS` lists them. An own scenario is a function that writes items:

    def greet(script: Script) -> Iterator[Event]:
        yield from message(script, ["Good ", "morning"])

    async with Simulator(scenarios={"greet": greet}) as simulator: ...

What is to go wrong is said by faults, each for some of the requests; `Fault` lists them:

    cut = Fault("cut", connection=0, after_events=5, kind="rst")
    async with Simulator(faults=[cut, Fault("status", connection=1, status=503, retry_after="1")]) as simulator: ...

A stream that somebody recorded is served again under the name of a model, and code without an event loop has the
simulator in a thread:

    with Simulator.in_thread(cassettes={"gpt-5": "story.jsonl"}) as simulator: ...

`python -m orx_rx.simulator` runs one from the command line.
"""

from __future__ import annotations

from orx_rx.simulator.errors import ApiError
from orx_rx.simulator.failing import FAULTS
from orx_rx.simulator.faults import Fault, FaultPlan
from orx_rx.simulator.items import function_call, message, reasoning, refusal
from orx_rx.simulator.requests import Request, request_of
from orx_rx.simulator.scenarios import SCENARIOS, calling, scenario_for
from orx_rx.simulator.script import Scenario, Script, interleave, play, words
from orx_rx.simulator.seen import SeenRequest
from orx_rx.simulator.server import Simulator
from orx_rx.simulator.threaded import ThreadedSimulator

__all__ = [
    "FAULTS",
    "SCENARIOS",
    "ApiError",
    "Fault",
    "FaultPlan",
    "Request",
    "Scenario",
    "Script",
    "SeenRequest",
    "Simulator",
    "ThreadedSimulator",
    "calling",
    "function_call",
    "interleave",
    "message",
    "play",
    "reasoning",
    "refusal",
    "request_of",
    "scenario_for",
    "words",
]
