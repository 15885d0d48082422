"""Demand: how a slow consumer pauses the socket.

Rx for Python has no backpressure: a source pushes, and whoever is slower than it keeps what came. A flow is the missing
way back. A consumer that keeps elements makes one, and is subscribed within it; the source of the bytes finds it there,
through whatever operators stand between, and reads nothing while it is paused. So the bytes stay with the kernel, then
with the network, and in the end the server waits.

The way is a context variable. It is set while somebody subscribes, and reaches every subscription that is made on the
way up, or later by a task or timer that was begun on the way up.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING

from reactivex.disposable import Disposable

from orx_rx.loops import run_in

if TYPE_CHECKING:
    from collections.abc import Generator

    from reactivex import abc

_current: ContextVar[Flow | None] = ContextVar("orx_rx_flow", default=None)
_lock = RLock()  # of all flows, because they are joined; it is taken when one is paused or resumed, which is seldom


def current_flow() -> Flow | None:
    """Find the flow of whoever subscribes; None where nobody can pause."""
    return _current.get()


@contextmanager
def subscribing(flow: Flow | None) -> Generator[None]:
    """Let every subscription that is made here find a flow, or none.

    Args:
        flow: The flow; None hides the one that there is.
    """
    token = _current.set(flow)
    try:
        yield
    finally:
        _current.reset(token)


class Flow:
    """Whether those behind it can take more.

    It is paused while anybody pauses it. All methods can be called from any thread.

    Attributes:
        times_paused: How often it was paused, so that a clock knows that it was while nobody looked.
    """

    def __init__(self) -> None:
        self.times_paused: int = 0
        self._heeded = False
        self._pauses = 0
        self._outer: list[Flow] = []  # those that are paused while this one is
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_paused(self) -> bool:
        """Whether a source should wait."""
        return self._pauses > 0

    @property
    def is_heeded(self) -> bool:
        """Whether a source has found it, so that pausing it pauses something."""
        return self._heeded or any(outer.is_heeded for outer in self._outer)

    def pause(self) -> None:
        """Ask for no more; every pause takes a `resume` of its own."""
        with _lock:
            self._pauses += 1
            if self._pauses == 1:
                self.times_paused += 1
                for outer in self._outer:
                    outer.pause()

    def resume(self) -> None:
        """Take a pause back."""
        with _lock:
            self._pauses -= 1
            if self._pauses:
                return
            for outer in self._outer:
                outer.resume()
            waiting, self._waiting = self._waiting, []
        for awaited in waiting:
            wake(awaited)

    def heed(self) -> None:
        """Note that a source reads `is_paused` and waits until `ready`."""
        self._heeded = True

    def join(self, flow: Flow) -> abc.DisposableBase:
        """Be paused while another flow is, until what is returned is disposed.

        Args:
            flow: The other flow, of one of several consumers.
        """
        with _lock:
            flow._outer.append(self)
            if flow.is_paused:
                self.pause()
        return Disposable(partial(self._part, flow))

    def _part(self, flow: Flow) -> None:
        with _lock:
            flow._outer.remove(self)
            if flow.is_paused:
                self.resume()

    async def ready(self) -> None:
        """Wait until it is not paused."""
        while True:
            with _lock:
                if not self._pauses:
                    return
                awaited = asyncio.get_running_loop().create_future()
                self._waiting.append(awaited)
            await awaited


def wake(awaited: asyncio.Future[None]) -> None:
    """Let somebody go on who awaits a future, perhaps in the loop of another thread."""
    run_in(awaited.get_loop(), partial(_wake, awaited))


def _wake(awaited: asyncio.Future[None]) -> None:
    if not awaited.done():
        awaited.set_result(None)
