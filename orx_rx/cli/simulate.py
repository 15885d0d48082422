"""`orx-rx simulate`: a provider on loopback."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orx_rx.cli.outcomes import UsageError
from orx_rx.cli.output import write_text
from orx_rx.simulator.running import named, plan_of, run, scenario_lines
from orx_rx.simulator.server import Simulator


def simulate(
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    api_key: bool = False,
    faults: Path | None = None,
    cassette: Annotated[list[str] | None, Parameter(negative=())] = None,
    chunk_bytes: int | None = None,
    pace: float = 0.0,
    speed: float = 1.0,
    event_lines: Annotated[bool, Parameter(negative="--no-event-lines")] = True,
    done: Annotated[bool, Parameter(negative="--no-done")] = True,
    models: bool = False,
) -> int:
    """Run a provider on loopback that speaks the Responses API, until Ctrl-C.

    It prints its base URL. `python -m orx_rx.simulator` does the same without the extra.

    Args:
        host: The address to listen at.
        port: The port to listen at, 0 for a free one.
        api_key: Demand a key: the one of ORX_API_KEY or OPENAI_API_KEY.
        faults: What is to go wrong: a file with a fault plan in JSON, such as {"faults":
            [{"name": "cut", "connection": 0, "after_events": 7}]}.
        cassette: MODEL=FILE serves a recorded stream under the name of a model; may come more than once.
        chunk_bytes: Write a stream in pieces of so many bytes, whatever they cut in two.
        pace: How long to wait after every frame, in seconds.
        speed: How much faster than recorded cassettes are played.
        event_lines: Write the line event: in front of each data:.
        done: Write [DONE] at the end.
        models: List the models, and do no more.
    """
    if models:
        for line in scenario_lines():
            write_text(f"{_wrapped(line)}\n")
        return 0
    key = os.environ.get("ORX_API_KEY") or os.environ.get("OPENAI_API_KEY")
    if api_key and not key:
        raise UsageError("expected a key in ORX_API_KEY or OPENAI_API_KEY with --api-key, got none")
    simulator = Simulator(
        host=host,
        port=port,
        api_key=key if api_key else None,
        faults=plan_of(faults),
        cassettes=dict(map(named, cassette or ())),
        chunk_bytes=chunk_bytes,
        pace=pace,
        speed=speed,
        event_lines=event_lines,
        done=done,
    )
    run(simulator)
    return 0


def _wrapped(line: str) -> str:
    """Break a line for a terminal below its second column."""
    if not sys.stdout.isatty():
        return line
    name, words = line[:15], line[16:].split()
    columns = max(shutil.get_terminal_size().columns, 40)
    return textwrap.fill(" ".join(words), columns, initial_indent=f"{name} ", subsequent_indent=16 * " ")
