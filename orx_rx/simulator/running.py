"""Running a simulator as a process: what both command lines of it share."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from inspect import getdoc
from pathlib import Path
from typing import TYPE_CHECKING

from orx_rx.simulator.faults import FaultPlan
from orx_rx.simulator.scenarios import SCENARIOS

if TYPE_CHECKING:
    import os

    from orx_rx.simulator.server import Simulator


def run(simulator: Simulator) -> None:
    """Print the base URL, and serve until Ctrl-C.

    Raises:
        OSError: The port is taken.
        ValueError: There is no such port.
    """
    try:
        with suppress(KeyboardInterrupt):
            asyncio.run(_serve(simulator))
    except OverflowError:  # of the socket
        raise ValueError("expected a port from 0 to 65535, got another number") from None


def plan_of(file: str | os.PathLike[str] | None) -> FaultPlan:
    """Read a plan of faults; without a file nothing goes wrong.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is no plan.
    """
    return FaultPlan() if file is None else FaultPlan.from_json(Path(file).read_bytes())


def named(text: str) -> tuple[str, str]:
    """Read `MODEL=FILE`.

    Raises:
        ValueError: It is not that.
    """
    model, equals, file = text.partition("=")
    if not (model and equals and file):
        raise ValueError(f"expected MODEL=FILE, got {text!r}")
    return model, file


def scenario_lines() -> list[str]:
    """Say what each model does, a line each."""
    return [f"{name:15} {(getdoc(scenario) or '').splitlines()[0]}" for name, scenario in SCENARIOS.items()]


async def _serve(simulator: Simulator) -> None:
    async with simulator:
        print(simulator.base_url, flush=True)
        await asyncio.Event().wait()
