"""The command line: `orx-rx`, or `python -m orx_rx`.

One file is one command. They need the extra `cli`; this module does not, so that it can say so.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        tokens: The words of the command; those of the process by default.

    Returns:
        The exit code, see `orx_rx.cli.outcomes`.
    """
    try:
        for needed in ("cyclopts", "rich"):
            if find_spec(needed) is None:
                print(f"orx-rx: expected the extra 'cli', got no {needed}: pip install 'orx-rx[cli]'", file=sys.stderr)
                return 2
        from orx_rx.cli.app import run

        return run(sys.argv[1:] if tokens is None else tokens)
    except KeyboardInterrupt:  # before there was anything to end
        return 130
