"""Lose the connection every 300 ms, and still print the story once, from one request."""

from __future__ import annotations

import asyncio

from orx_rx import Client, final_response
from orx_rx import operators as ops
from orx_rx.simulator import Fault, Simulator

PACE = 0.02  # seconds between two events
LIFE = 0.3  # seconds that a connection lasts


async def main() -> None:
    """Ask in the background, so that the answer outlives the connections."""
    cut = Fault("cut", after_events=round(LIFE / PACE), kind="rst")  # concerns every connection
    async with Simulator(pace=PACE, faults=[cut]) as simulator, Client(base_url=simulator.base_url) as client:
        events = client.events(model="story", input="Tell me a short story", background=True).pipe(ops.fan_out())
        events.pipe(ops.text()).subscribe(lambda piece: print(piece, end="", flush=True), print)
        response = await final_response(events)
        methods = [request.method for request in simulator.requests]
    print(f"\n\n{response.status}, over {len(methods)} connections and {methods.count('POST')} POST")


if __name__ == "__main__":
    asyncio.run(main())
