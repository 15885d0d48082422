"""Where the examples get their answers from: a real server if the environment names one, else the simulator.

Set ORX_BASE_URL (and ORX_API_KEY) or OPENAI_BASE_URL (and OPENAI_API_KEY) to talk to a real server, and ORX_MODEL to
say which model. Without a base URL nothing leaves this machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from orx_rx import Client
from orx_rx.simulator import Simulator

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from orx_rx import ThreadedClient


@asynccontextmanager
async def provider(*, pace: float = 0.02) -> AsyncGenerator[Client]:
    """Open a client to the server that the environment names, or to a simulator.

    Args:
        pace: How long the simulator waits between two events, in seconds.
    """
    if names_a_server():
        async with Client() as client:
            yield client
    else:
        async with Simulator(pace=pace) as simulator, Client(base_url=simulator.base_url) as client:
            yield client


@contextmanager
def provider_in_thread(*, pace: float = 0.02) -> Generator[ThreadedClient]:
    """Open a client for code without an event loop, to that server or to a simulator in a process of its own.

    Args:
        pace: How long the simulator waits between two events, in seconds.
    """
    if names_a_server():
        with Client.in_thread() as client:
            yield client
    else:
        command = [sys.executable, "-m", "orx_rx.simulator", "--port", "0", "--pace", str(pace)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as simulator:
            assert simulator.stdout is not None
            try:
                with Client.in_thread(base_url=simulator.stdout.readline().strip()) as client:
                    yield client
            finally:
                simulator.terminate()


def names_a_server() -> bool:
    """Say whether the environment names a server."""
    return bool(os.environ.get("ORX_BASE_URL") or os.environ.get("OPENAI_BASE_URL"))


def model(simulated: str = "story") -> str:
    """Name the model: ORX_MODEL, or a scenario of the simulator.

    Args:
        simulated: The scenario.
    """
    return os.environ.get("ORX_MODEL", simulated)
