"""`orx-rx replay`: show a recorded stream again, or serve it."""

from __future__ import annotations

import asyncio

from orx_rx import operators as ops
from orx_rx.aio import iterate
from orx_rx.cassettes import replay as play
from orx_rx.cli.asking import PROFILES, ProfileName
from orx_rx.cli.files import Word, read_taped
from orx_rx.cli.outcomes import UsageError
from orx_rx.cli.output import write
from orx_rx.cli.showing import Screen, show
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.cassette import Cassette
from orx_rx.simulator.running import run
from orx_rx.simulator.server import Simulator


def replay(
    file: Word,
    /,
    *,
    speed: float = 1.0,
    fast: bool = False,
    json: bool = False,
    raw: bool = False,
    profile: ProfileName = "default",
    serve: bool = False,
    port: int = 8080,
    model: str = "cassette",
) -> int:
    """Show a recorded stream again, as it came; or serve it to any client.

    Exit codes are those of stream.

    Args:
        file: A cassette, or a file of the bytes that a server sent; - is stdin.
        speed: How much faster than recorded.
        fast: Wait for nothing.
        json: Write the events, one line of JSON each.
        raw: Write the bytes as they came.
        profile: What violations of the server cost.
        serve: Serve it as a provider on loopback, until Ctrl-C.
        port: The port to serve it at, 0 for a free one.
        model: The model to serve it as.
    """
    if sum((json, raw, serve)) > 1:
        raise UsageError("expected one of --json, --raw and --serve, got several")
    if not 0 < speed < float("inf"):
        raise UsageError(f"expected a speed above 0, got {speed:g}")
    tape = read_taped(file).cassette
    pace = None if fast else speed
    if serve:
        run(Simulator(cassettes={model: tape}, speed=pace, port=port))
        return 0
    return asyncio.run(_raw(tape, pace) if raw else _shown(tape, pace, profile, json=json))


async def _raw(tape: Cassette, speed: float | None) -> int:
    async with iterate(play(tape, speed=speed)) as reading:
        async for chunk in reading:
            write(chunk)
    return 0


async def _shown(tape: Cassette, speed: float | None, profile: ProfileName, *, json: bool) -> int:
    costs = PROFILES[profile]
    accumulator: Accumulator = Accumulator()
    events = play(tape, speed=speed).pipe(
        ops.frame(),
        ops.decode(profile=costs),
        ops.sequence_check(profile=costs),
        ops.lifecycle_guard(profile=costs),
        ops.accumulate(into=accumulator, profile=costs),
    )
    return await show(events, accumulator, Screen("json" if json else "text"))
