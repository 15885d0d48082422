"""The demo: one request, the explicit chain of operators, three subscribers at work."""

from __future__ import annotations

import asyncio
import time
from itertools import groupby
from typing import TYPE_CHECKING

from examples.provider import model, provider
from orx_rx import Client, final_response
from orx_rx import operators as ops

if TYPE_CHECKING:
    from reactivex import Observable

    from orx_rx.models import Event, Response

CHAIN = "chunks | frame | decode | sequence_check | lifecycle_guard | accumulate | fan_out"


def pipeline(client: Client) -> Observable[Event]:
    """Build the chain, one operator after the other; `client.events()` builds the same without the last one."""
    return client.chunks(model=model("reasoning"), input="How far is the moon?").pipe(
        ops.frame(),
        ops.decode(),
        ops.sequence_check(),
        ops.lifecycle_guard(),
        ops.accumulate(),
        ops.fan_out(),
    )


async def main() -> None:
    """Ask one question, and show what each subscriber makes of the answer."""
    async with provider() as client:
        print(f"Asking {client.base_url}\n{CHAIN}\n")
        events = pipeline(client)
        begun = time.perf_counter()
        rows: list[tuple[str, float]] = []
        # 1: the text, as it comes
        events.pipe(ops.text()).subscribe(lambda piece: print(piece, end="", flush=True), _say)
        # 2: a table of the events, with the time of each
        events.subscribe(lambda event: rows.append((event.type, time.perf_counter() - begun)), _say)
        # 3: the final response
        response = await final_response(events)
    _show_table(rows)
    _show_response(response)


def _say(error: Exception) -> None:
    print(f"\n{type(error).__name__}: {error}")


def _show_table(rows: list[tuple[str, float]]) -> None:
    print("\n\n first ms   last ms  events  type")
    for type_, group in groupby(rows, key=lambda row: row[0]):
        times = [at * 1000 for _, at in group]
        print(f"{times[0]:>9.0f} {times[-1]:>9.0f} {len(times):>7}  {type_}")


def _show_response(response: Response) -> None:
    print(f"\nresponse {response.id}: {response.status}")
    for item in response.output or ():
        print(f"  item {item.id}: {item.type}")
    usage = response.usage
    if usage is not None:
        print(f"  tokens: {usage.input_tokens} in, {usage.output_tokens} out, {usage.total_tokens} in all")


if __name__ == "__main__":
    asyncio.run(main())
