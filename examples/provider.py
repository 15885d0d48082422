"""Where the examples get their answers from: a real server if the environment names one, else the simulator.

Set ORX_BASE_URL (and ORX_API_KEY) or OPENAI_BASE_URL (and OPENAI_API_KEY) to talk to a real server, and ORX_MODEL to
say which model. Without a base URL nothing leaves this machine.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from orx_rx import Client
from orx_rx.simulator import Simulator

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


@asynccontextmanager
async def provider(*, pace: float = 0.02) -> AsyncGenerator[Client]:
    """Open a client to the server that the environment names, or to a simulator.

    Args:
        pace: How long the simulator waits between two events, in seconds.
    """
    if os.environ.get("ORX_BASE_URL") or os.environ.get("OPENAI_BASE_URL"):
        async with Client() as client:
            yield client
    else:
        async with Simulator(pace=pace) as simulator, Client(base_url=simulator.base_url) as client:
            yield client


def model(simulated: str = "story") -> str:
    """Name the model: ORX_MODEL, or a scenario of the simulator.

    Args:
        simulated: The scenario.
    """
    return os.environ.get("ORX_MODEL", simulated)
