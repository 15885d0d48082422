"""Cassettes as answers: what somebody recorded, served again."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from orx_rx.cassettes import error_of
from orx_rx.errors import ConnectFailed, NotAnEventStream, StatusError, StreamTimeout
from orx_rx.simulator.failing import Closed, Refused

if TYPE_CHECKING:
    from orx_rx.protocol.cassette import Cassette
    from orx_rx.simulator.failing import Pause, Steps


def refuse(cassette: Cassette) -> None:
    """Answer the way a cassette does that has no stream.

    Raises:
        Refused: The answer is an error, or no event stream.
        Closed: There was no answer.
    """
    error = cassette.error
    if isinstance(error, StatusError):
        raise Refused(error.status, error.headers, error.body.encode())
    if isinstance(error, NotAnEventStream):
        raise Refused(200, {"content-type": error.content_type or ""}, error.head)
    if isinstance(error, ConnectFailed):
        raise Closed("fin")


def play(cassette: Cassette, speed: float | None, released: Pause) -> Steps:
    """Play a cassette as the steps of a stream.

    Args:
        cassette: The cassette.
        speed: How much faster than recorded; None plays it without any waiting.
        released: Waits until the simulator releases the stream; a clock that ran out is played by silence.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()

    def until(at: float) -> Pause:
        return partial(asyncio.sleep, max(0.0, began + at / (speed or 1) - loop.time()))

    for chunk in cassette.chunks:
        if speed is not None:
            yield until(chunk.at)
        yield chunk.data
    if speed is not None:
        yield until(cassette.ended)
    error = error_of(cassette)
    if isinstance(error, StreamTimeout):
        yield released
    if error is not None:
        yield _close


async def _close() -> None:
    raise Closed("fin")
