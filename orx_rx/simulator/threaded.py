"""A simulator for code without an event loop, or with one of its own: it runs in a thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, Self, TypeVar

from orx_rx.simulator.faults import FaultPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence
    from types import TracebackType

    from orx_rx.simulator.faults import Fault
    from orx_rx.simulator.seen import SeenRequest
    from orx_rx.simulator.server import Simulator

T = TypeVar("T")


class ThreadedSimulator:
    """A simulator that runs in a thread; made by `Simulator.in_thread`.

    Its methods wait. Where an event loop runs, as in an asynchronous test, nothing else goes on meanwhile: there
    `await asyncio.to_thread(simulator.wait_for, ...)` waits for what a client in the same loop has to do.

    Args:
        simulator: What to run; nobody else may use it.
    """

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self._thread = Thread(target=self._run, name="orx_rx simulator", daemon=True)
        self._running: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    def __repr__(self) -> str:
        """Say what it has seen."""
        return repr(self._simulator).replace("Simulator", "ThreadedSimulator", 1)

    @property
    def base_url(self) -> str:
        """The address that clients need, up to and without `/responses`."""
        return self._simulator.base_url

    @property
    def requests(self) -> Sequence[SeenRequest]:
        """What came so far, in order."""
        return tuple(self._simulator.requests)

    @property
    def open_streams(self) -> int:
        """How many streams are being written."""
        return self._simulator.open_streams

    @property
    def disconnects(self) -> int:
        """How many clients went away before the end of their stream."""
        return self._simulator.disconnects

    @property
    def faults(self) -> FaultPlan:
        """What is to go wrong from now on: `Simulator.faults`."""
        return self._simulator.faults

    @faults.setter
    def faults(self, faults: FaultPlan | Iterable[Fault]) -> None:
        self._simulator.faults = faults

    def __enter__(self) -> Self:
        """Begin to listen; once, because a thread cannot begin again.

        Raises:
            OSError: The port is taken.
            RuntimeError: It has run before.
        """
        self._thread.start()
        self._running.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Break off the streams that are open, and stop listening."""
        loop, stop = self._running.result()
        with suppress(RuntimeError):  # it has stopped
            loop.call_soon_threadsafe(stop.set)
        self._thread.join()

    def release(self) -> None:
        """Let the streams and background responses that have begun go on: `Simulator.release`."""
        self._do(self._simulator.release)

    def expire(self, response_id: str) -> None:
        """Make a background response too old to be streamed: `Simulator.expire`."""
        self._do(lambda: self._simulator.expire(response_id))

    def forget(self, response_id: str) -> None:
        """Forget a response: `Simulator.forget`."""
        self._do(lambda: self._simulator.forget(response_id))

    def status_of(self, response_id: str) -> str | None:
        """Say how a response stands: `Simulator.status_of`."""
        return self._do(lambda: self._simulator.status_of(response_id))

    def wait_for(self, condition: Callable[[Simulator], object], *, timeout: float = 5.0) -> None:
        """Wait until something is true of the simulator: `Simulator.wait_for`."""
        self._wait(lambda: self._simulator.wait_for(condition, timeout=timeout))

    def _do(self, act: Callable[[], T]) -> T:
        async def done() -> T:
            return act()

        return self._wait(done)

    def _wait(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Let a coroutine run in the loop, and wait for what it returns."""
        if not self._thread.is_alive():
            raise RuntimeError("expected a simulator that runs, got one outside of its `with`")
        loop, _ = self._running.result()
        return asyncio.run_coroutine_threadsafe(begin(), loop).result()

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        stop = asyncio.Event()
        try:
            await self._simulator.__aenter__()
        except BaseException as error:  # the thread that waits is the one to tell
            self._running.set_exception(error)
            return
        self._running.set_result((asyncio.get_running_loop(), stop))
        try:
            await stop.wait()
        finally:
            await self._simulator.__aexit__(None, None, None)
