"""Ask two models the same, take the one that speaks first, and hang up on the other.

`reactivex.amb` is decided by the first element, and the first event, `response.created`, comes at once from a model
that will think for a minute. So what races is the text. An error wins as well, and so does an answer that ends without
a text; `rx.catch(reactivex.never())` behind each contender keeps errors out of the race, which then needs a timeout for
the case that all fail.

With a real server, ORX_RIVAL names the second model; without it ORX_MODEL runs against itself. Both are asked and
billed; the loser is billed for what it said until then.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import reactivex
from reactivex import operators as rx

from examples.provider import model, names_a_server
from orx_rx import Client, final_response, iterate
from orx_rx import operators as ops
from orx_rx.simulator import Simulator

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reactivex import Observable

    from orx_rx.models import Event

QUESTION = "Tell me a short story"


async def main() -> None:
    """Race two models: of the server that the environment names, or else of two simulators."""
    if names_a_server():
        async with Client() as client:
            first = client.events(model=model(), input=QUESTION)
            second = client.events(model=os.environ.get("ORX_RIVAL") or model(), input=QUESTION)
            await race({"first": first, "second": second})
        return
    # the slow one stops after `response.created`, so who wins is no matter of speed
    async with (
        Simulator(pace=0.02) as quick,
        Simulator(hold=1) as slow,
        Client(base_url=quick.base_url) as hare,
        Client(base_url=slow.base_url) as tortoise,
    ):
        answers = {
            "tortoise": tortoise.events(model="story", input=QUESTION),
            "hare": hare.events(model="story", input=QUESTION),
        }
        await race(answers)
        await slow.wait_for(lambda server: server.open_streams == 0)
        for name, server in (("hare", quick), ("tortoise", slow)):
            print(f"server of the {name}: {len(server.requests)} request, {server.disconnects} hung up")


async def race(answers: Mapping[str, Observable[Event]]) -> None:
    """Print the text of the answer that begins first, and say how it ended."""
    # the race is about the text, and whoever wins has more to tell: so each request is shared, and stays one
    shared = {name: events.pipe(ops.fan_out()) for name, events in answers.items()}
    pieces = reactivex.amb(*(events.pipe(ops.text(), named(name)) for name, events in shared.items()))
    winner = ""
    async with iterate(pieces) as reading:
        async for name, piece in reading:
            winner = name
            print(piece, end="", flush=True)
    if not winner:
        print("an answer ended before anybody had said a word")
        return
    response = await final_response(shared[winner])
    print(f"\n\n{winner} won: {response.status}, {len(response.output_text)} characters")


def named(name: str) -> Callable[[Observable[str]], Observable[tuple[str, str]]]:
    """Say of every piece whose it is."""
    return rx.map(lambda piece: (name, piece))


if __name__ == "__main__":
    asyncio.run(main())
