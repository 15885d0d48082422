"""Get an object instead of text: while it is written, when it is done, and what there may be instead of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pydantic import BaseModel

from examples.provider import model, provider
from orx_rx import IncompleteOutput, OutputParseError, Refused, final_response
from orx_rx import operators as ops

if TYPE_CHECKING:
    from orx_rx import Client


class Recipe(BaseModel):
    """What the model is asked for; fields with a default are there before the model has written them."""

    title: str = ""
    minutes: int | None = None
    steps: list[str] = []


async def show(client: Client, simulated: str, tokens: int | None = None) -> None:
    """Ask once; print the recipe as it grows, and how it came out."""
    question = "How do I make a pancake?"
    events = client.events(model=model(simulated), input=question, text_format=Recipe, max_output_tokens=tokens).pipe(
        ops.fan_out()
    )
    events.pipe(ops.partial(Recipe)).subscribe(lambda recipe: print("  ...", recipe), lambda error: None)
    response = await final_response(events)  # a response, whatever became of its output
    try:
        print(f"{response.status}: {response.output_parsed!r}")
    except Refused as refusal:
        print(f"{response.status}, refused: {refusal.text}")
    except IncompleteOutput as cut:
        print(f"{response.status}, cut off: {cut.reason}, after {len(cut.partial_text)} characters")
    except OutputParseError as misfit:
        print(f"{response.status}, but no recipe: {len(misfit.text)} characters of something else")


async def main() -> None:
    """A recipe, a refusal, an answer that was cut off, and one that is no recipe; a real server may differ."""
    async with provider() as client:
        await show(client, "json")
        await show(client, "refusal")
        await show(client, "incomplete", tokens=16)
        await show(client, "story")


if __name__ == "__main__":
    asyncio.run(main())
