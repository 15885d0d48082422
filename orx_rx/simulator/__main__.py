"""Run a simulator: `python -m orx_rx.simulator --port 8080`.

Prints the base URL, and serves until Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from contextlib import suppress
from inspect import getdoc
from pathlib import Path

from orx_rx.errors import CassetteError
from orx_rx.simulator.faults import FaultPlan
from orx_rx.simulator.scenarios import SCENARIOS
from orx_rx.simulator.server import Simulator


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: The arguments; those of the process by default.

    Returns:
        The exit status.
    """
    options = vars(_parser().parse_args(arguments))
    try:
        plan = options.pop("faults")
        faults = FaultPlan.from_json(Path(plan).read_bytes()) if plan else FaultPlan()
        cassettes = dict(options.pop("cassette"))
        simulator = Simulator(**options, faults=faults, cassettes=cassettes)
        with suppress(KeyboardInterrupt):
            asyncio.run(_serve(simulator))
    except (OSError, ValueError, CassetteError) as error:
        print("orx_rx.simulator:", error, *getattr(error, "__notes__", ()), file=sys.stderr)
        return 1
    return 0


async def _serve(simulator: Simulator) -> None:
    async with simulator:
        print(simulator.base_url, flush=True)
        await asyncio.Event().wait()


def _parser() -> argparse.ArgumentParser:
    models = "\n".join(
        f"  {name:15} {(getdoc(scenario) or '').splitlines()[0]}" for name, scenario in SCENARIOS.items()
    )
    parser = argparse.ArgumentParser(
        prog="python -m orx_rx.simulator",
        description="A provider on loopback that speaks the Responses API.",
        epilog=f"models:\n{models}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="the address to listen at (%(default)s)")
    add("--port", type=int, default=8080, help="the port to listen at, 0 for a free one (%(default)s)")
    add("--api-key", help="the key that requests have to carry; by default none is needed")
    add("--pace", type=float, default=0.0, metavar="SECONDS", help="how long to wait after every frame (%(default)s)")
    add("--chunk-bytes", type=int, metavar="N", help="write a stream in pieces of N bytes, whatever they cut in two")
    add("--no-event-lines", dest="event_lines", action="store_false", help="leave the event lines out")
    add("--no-done", dest="done", action="store_false", help="leave [DONE] out")
    add("--faults", metavar="FILE", help="what is to go wrong: a fault plan in JSON")
    add(
        "--cassette",
        action="append",
        default=[],
        type=_named,
        metavar="MODEL=FILE",
        help="serve a recorded stream under the name of a model; may come more than once",
    )
    return parser


def _named(text: str) -> tuple[str, str]:
    model, equals, file = text.partition("=")
    if not (model and equals and file):
        raise argparse.ArgumentTypeError(f"expected MODEL=FILE, got {text!r}")
    return model, file


if __name__ == "__main__":
    sys.exit(main())
