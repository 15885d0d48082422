"""Plug two models into an Rx pipeline that is there already: merge, buffer, throttle with plain Rx operators."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import reactivex
from reactivex import operators as rx
from reactivex.scheduler.eventloop import AsyncIOScheduler

from examples.provider import model, provider
from orx_rx import operators as ops

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex import Observable


async def main() -> None:
    """Show two answers side by side, a few words at a time, beside the ticks of a clock that was there before."""
    loop = asyncio.get_running_loop()
    scheduler = AsyncIOScheduler(loop)
    done: asyncio.Future[None] = loop.create_future()
    async with provider() as client:
        story = client.events(model=model(), input="Tell me a short story").pipe(ops.text(), named("story"))
        moon = client.events(model=model("reasoning"), input="How far is the moon?").pipe(ops.text(), named("moon"))
        answers: Observable[list[tuple[str, str]]] = reactivex.merge(story, moon).pipe(
            rx.buffer_with_time(0.25, scheduler=scheduler),  # a screen need not change more often
            rx.filter(bool),
        )
        clock = reactivex.interval(0.5, scheduler=scheduler)
        ticking = clock.subscribe(lambda tick: print(f"{'clock':>6}: {(tick + 1) / 2} s"))
        answers.subscribe(show, done.set_exception, lambda: done.set_result(None))
        try:
            await done
        finally:
            ticking.dispose()


def named(name: str) -> Callable[[Observable[str]], Observable[tuple[str, str]]]:
    """Say of every piece whose it is."""
    return rx.map(lambda piece: (name, piece))


def show(pieces: list[tuple[str, str]]) -> None:
    """Print what each one said since the last time."""
    for name in dict.fromkeys(name for name, _ in pieces):
        print(f"{name:>6}: {''.join(text for who, text in pieces if who == name)}")


if __name__ == "__main__":
    asyncio.run(main())
