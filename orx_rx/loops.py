"""Event loops and clocks: which one runs here, and what time it is there."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from reactivex.scheduler.eventloop import AsyncIOScheduler

if TYPE_CHECKING:
    from collections.abc import Callable

    from reactivex import abc


LEAST_WAIT = 1e-6
"""Seconds: schedulers of Rx count in microseconds, and a timer that is set for less stands still in virtual time."""


def current_loop() -> asyncio.AbstractEventLoop | None:
    """Get the event loop that runs in this thread; None where there is none."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def running_loop(purpose: str) -> asyncio.AbstractEventLoop:
    """Find the running event loop.

    Args:
        purpose: What to do in it, for the message.

    Raises:
        RuntimeError: There is none.
    """
    loop = current_loop()
    if loop is None:
        raise RuntimeError(
            f"expected a running event loop to {purpose} in, got none: subscribe inside a coroutine, or use "
            "Client.in_thread()"
        )
    return loop


def run_in(loop: asyncio.AbstractEventLoop, act: Callable[[], object]) -> None:
    """Do something in a loop: at once where it runs, else soon.

    Timers of Rx run in threads of their own, which must not touch the loop, and do not wake it.

    Args:
        loop: The loop. In one that is closed nothing is done, and there is nothing left to do it for.
        act: What to do.
    """
    if current_loop() is loop:
        act()
    else:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(act)


def clock_of(*schedulers: abc.SchedulerBase | None) -> abc.SchedulerBase | None:
    """Choose who keeps the time: the first scheduler that there is, else the running event loop; None without one."""
    loop = current_loop()
    running = None if loop is None else AsyncIOScheduler(loop)
    return next((scheduler for scheduler in schedulers if scheduler is not None), running)


def stopwatch(clock: abc.SchedulerBase) -> Callable[[], float]:
    """Make a function that tells the time of a scheduler in seconds, of which only differences mean something.

    The scheduler of an event loop says what time it is on the wall, which somebody may set in the middle.
    """
    loop = current_loop()
    if loop is not None and isinstance(clock, AsyncIOScheduler):
        return loop.time
    return lambda: clock.to_seconds(clock.now)
