"""Run a simulator: `python -m orx_rx.simulator --port 8080`.

Prints the base URL, and serves until Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys

from orx_rx.errors import CassetteError
from orx_rx.simulator.running import named, plan_of, run, scenario_lines
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
        faults = plan_of(options.pop("faults"))
        cassettes = dict(options.pop("cassette"))
        run(Simulator(**options, faults=faults, cassettes=cassettes))
    except (OSError, ValueError, CassetteError) as error:
        print("orx_rx.simulator:", error, *getattr(error, "__notes__", ()), file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    models = "\n".join(f"  {line}" for line in scenario_lines())
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
    try:
        return named(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


if __name__ == "__main__":
    sys.exit(main())
