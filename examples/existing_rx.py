"""Plug two models into an Rx pipeline that is there already: merge, buffer and window with plain Rx operators."""

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

    from reactivex import Observable, abc

    Piece = tuple[str, str]  # whose it is, and the text


async def main() -> None:
    """Show two answers side by side, a few words at a time, beside the ticks of a clock that was there before."""
    loop = asyncio.get_running_loop()
    scheduler = AsyncIOScheduler(loop)
    done: asyncio.Future[None] = loop.create_future()
    async with provider() as client:
        story = client.events(model=model(), input="Tell me a short story").pipe(ops.text(), named("story"))
        moon = client.events(model=model("reasoning"), input="How far is the moon?").pipe(ops.text(), named("moon"))
        # shared, because there is more than one subscriber: without fan_out each of them would ask both models anew
        pieces: Observable[Piece] = reactivex.merge(story, moon).pipe(ops.fan_out())
        clock = reactivex.interval(0.5, scheduler=scheduler)
        ticking = clock.subscribe(lambda tick: print(f"{'clock':>6}: {(tick + 1) / 2} s"))
        pieces.pipe(meter(1.0, scheduler)).subscribe(lambda count: print(f"{'meter':>6}: {count} pieces"), ignore)
        pieces.pipe(repaints(0.25, scheduler)).subscribe(show, done.set_exception, lambda: done.set_result(None))
        try:
            await done
        finally:
            ticking.dispose()


def named(name: str) -> Callable[[Observable[str]], Observable[Piece]]:
    """Say of every piece whose it is."""
    return rx.map(lambda piece: (name, piece))


# Timed operators of Rx run in threads of their own unless they are given a scheduler. It is an argument here, so that
# a test can give one that keeps virtual time.


def repaints(every: float, scheduler: abc.SchedulerBase) -> Callable[[Observable[Piece]], Observable[list[Piece]]]:
    """Collect what is to be painted together: a screen need not change more often, nor when nothing came."""

    def operator(pieces: Observable[Piece]) -> Observable[list[Piece]]:
        return pieces.pipe(rx.buffer_with_time(every, scheduler=scheduler), rx.filter(bool))

    return operator


def meter(seconds: float, scheduler: abc.SchedulerBase) -> Callable[[Observable[Piece]], Observable[int]]:
    """Count the pieces of every so many seconds; a window keeps none of them, as a buffer would."""

    def count(window: Observable[Piece]) -> Observable[int]:
        return window.pipe(rx.count())

    def operator(pieces: Observable[Piece]) -> Observable[int]:
        return pieces.pipe(rx.window_with_time(seconds, scheduler=scheduler), rx.flat_map(count))

    return operator


def show(pieces: list[Piece]) -> None:
    """Print what each one said since the last time."""
    for name in dict.fromkeys(name for name, _ in pieces):
        print(f"{name:>6}: {''.join(text for who, text in pieces if who == name)}")


def ignore(_: Exception) -> None:
    """Leave an error to another subscriber of the same stream."""


if __name__ == "__main__":
    asyncio.run(main())
