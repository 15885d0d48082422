"""Print an answer as it comes, then what it took."""

from __future__ import annotations

import asyncio

from examples.provider import model, provider
from orx_rx import final_response
from orx_rx import operators as ops


async def main() -> None:
    """Ask once, read twice: the text as it comes, and the final response."""
    async with provider() as client:
        events = client.events(model=model(), input="Tell me a short story").pipe(ops.fan_out())
        events.pipe(ops.text()).subscribe(lambda piece: print(piece, end="", flush=True), print)
        response = await final_response(events)
        print(f"\n\n{response.status}, {response.usage.total_tokens if response.usage else 'unknown'} tokens")


if __name__ == "__main__":
    asyncio.run(main())
