"""Build by hand the chain that `Client.events()` builds, and hear what the server does wrong."""

from __future__ import annotations

import asyncio

from examples.provider import model, provider
from orx_rx import STRICT, Accumulator, iterate
from orx_rx import operators as ops
from orx_rx.models import ResponseTextDeltaEvent

# Open Responses to the letter, but without the sentinel [DONE], which OpenAI does not send
PROFILE = STRICT.but(missing_done="ignore")


async def main() -> None:
    """Read typed events, each with the text so far, and look at the response in the middle."""
    so_far = Accumulator()
    async with provider() as client:
        events = client.chunks(model=model("reasoning"), input="How far is the moon?").pipe(
            ops.frame(max_frame_bytes=1 << 20),
            ops.decode(profile=PROFILE, on_violation=print),
            ops.sequence_check(profile=PROFILE, on_violation=print),
            ops.lifecycle_guard(profile=PROFILE, on_violation=print),
            ops.accumulate(into=so_far),
        )
        async with iterate(events) as reading:
            async for event in reading:
                if isinstance(event, ResponseTextDeltaEvent):
                    print(f"{event.sequence_number:>4}  {event.snapshot_length:>4} characters  {event.delta!r}")
                else:
                    items = len(so_far.items)
                    print(f"{event.sequence_number:>4}  {items:>4} items       {event.type}")


if __name__ == "__main__":
    asyncio.run(main())
