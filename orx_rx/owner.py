"""Sources that a task owns: it reads, tells how it ended, and is cancelled by dispose."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from reactivex.disposable import Disposable

from orx_rx.loops import run_in

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from reactivex import abc


def own(
    loop: asyncio.AbstractEventLoop,
    observer: abc.ObserverBase[Any],
    read: Callable[[], Coroutine[Any, Any, Exception | None]],
    close: Callable[[], object],
    *,
    source: str,
    name: str,
) -> abc.DisposableBase:
    """Let a task own a source.

    What a subscriber raises ends the stream too. It goes to `on_error`, so that whatever else is in the pipeline stops
    its clocks and waits for nothing, and out of the task, so that the loop hears of it.

    Args:
        loop: Where to run the task.
        observer: The subscriber.
        read: Hands on the elements until the end, and returns what ended it too early. It is returned and not raised,
            so that nothing that a subscriber raises is taken for it.
        close: Called when the source is not to go on: by dispose, before the task is cancelled, and after an error.
        source: What it is called in the message that the loop gets.
        name: The name of the task.

    Returns:
        What closes the source and cancels the task, from any thread.
    """
    task = loop.create_task(_run(observer, read, close), name=name)
    task.add_done_callback(lambda done: _tell_loop(done, source))

    def stop() -> None:
        close()
        task.cancel()

    return Disposable(lambda: run_in(loop, stop))


async def _run(
    observer: abc.ObserverBase[Any],
    read: Callable[[], Coroutine[Any, Any, Exception | None]],
    close: Callable[[], object],
) -> None:
    try:
        failure = await read()
    except BaseException as error:
        close()
        raised = raised_by_subscriber(error)
        if raised is not None:
            observer.on_error(raised)
        if raised is None or raised is error:
            raise
        raise raised from error
    if failure is None:
        observer.on_completed()
    else:
        close()
        observer.on_error(failure)


def raised_by_subscriber(error: BaseException) -> Exception | None:
    """Tell what a subscriber raised; None if it was no subscriber, or no failure."""
    if isinstance(error, asyncio.CancelledError) and not is_cancelled():
        return RuntimeError("a subscriber raised CancelledError")
    return error if isinstance(error, Exception) else None


def is_cancelled() -> bool:
    """Tell whether somebody cancelled this task, so that a CancelledError is no failure of what it awaited."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _tell_loop(task: asyncio.Task[None], source: str) -> None:
    """Report what a subscriber raised; there is nobody else who could take it."""
    if not task.cancelled() and (error := task.exception()) is not None:
        context = {"message": f"a subscriber of orx_rx.{source} raised", "exception": error, "task": task}
        task.get_loop().call_exception_handler(context)
