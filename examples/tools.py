"""Let a model call two functions, and answer with what they return."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from pydantic import Field

from examples.provider import model, provider
from orx_rx import ToolOutput, final_response
from orx_rx import operators as ops
from orx_rx.models import ResponseCreatedEvent


def weather(city: str, days: Annotated[int, Field(ge=1, le=7, description="How many days from today")]) -> list[str]:
    """Forecast the weather of a city.

    Args:
        city: Its name, in English.
        days: This is said in the annotation.
    """
    time.sleep(0.2)  # which blocks a thread of its own
    return [f"sunshine in {city}"] * days


async def population(city: str) -> int:
    """Tell how many people live in a city."""
    await asyncio.sleep(0.1)  # which blocks nobody
    return 700_000 + len(city)


def show(output: ToolOutput) -> None:
    """Print what a tool returned, as the model will see it."""
    print(f"  {output.item['call_id']} gave {output.item['output']}")


async def main() -> None:
    """Ask, run the calls at the same time, and print every round and the answer."""
    async with provider() as client:
        question = "How is the weather in Oslo, and how many people does it rain on?"
        events = client.run_tools(
            tools=[weather, population], model=model("tools"), input=question, timeout=30, on_output=show
        ).pipe(ops.fan_out())
        events.pipe(ops.of_type(ResponseCreatedEvent)).subscribe(lambda event: print(f"{event.response.id}:"), print)
        events.pipe(ops.tool_calls()).subscribe(lambda call: print(f"  {call.name}({call.text})"), print)
        events.pipe(ops.text()).subscribe(lambda piece: print(piece, end="", flush=True), print)
        response = await final_response(events)
        print(f"\n\n{response.status}, {response.usage.total_tokens if response.usage else 'unknown'} tokens")


if __name__ == "__main__":
    asyncio.run(main())
