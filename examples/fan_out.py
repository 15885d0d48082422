"""Feed a screen, a log, a meter and a late visitor from one request."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from examples.provider import model, provider
from orx_rx import final_response, iterate
from orx_rx import operators as ops

if TYPE_CHECKING:
    from reactivex import Observable

    from orx_rx.models import Event


async def late_visitor(events: Observable[Event]) -> str:
    """Join in the middle and get the whole text all the same."""
    async with iterate(events.pipe(ops.text())) as reading:
        return "".join([piece async for piece in reading])


async def main() -> None:
    """One POST, five subscribers; one of them fails, and nobody else notices."""
    log: list[str] = []
    meter = Counter[str]()
    failures: list[Exception] = []
    async with provider() as client:
        events = client.events(model=model(), input="Tell me a short story").pipe(ops.fan_out())
        events.pipe(ops.text()).subscribe(lambda piece: print(piece, end="", flush=True), print)
        events.subscribe(lambda event: log.append(event.type), print)
        events.subscribe(lambda event: meter.update([event.type]), print)
        events.subscribe(lambda event: print(1 // 0), failures.append)
        await asyncio.sleep(0.3)
        visitor = asyncio.create_task(late_visitor(events))
        response = await final_response(events)
        text = await visitor
    print(f"\n\nlog:       {len(log)} lines, the last one {log[-1]}")
    print(f"meter:     {meter.most_common(1)[0]}")
    print(f"failed:    {failures[0]!r}")
    print(f"visitor:   joined late, has {len(text)} of {len(response.output_text)} characters")


if __name__ == "__main__":
    asyncio.run(main())
