"""`python -m orx_rx` is the command `orx-rx`."""

from __future__ import annotations

import sys

from orx_rx.cli import main

if __name__ == "__main__":
    sys.exit(main())
