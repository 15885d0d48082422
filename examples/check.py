"""Say what is wrong with a recorded stream, or with a server, and what a client would suffer from it.

`python -m examples.check FILE` reports on a file of bytes, as a server sent them; without a file on the one beside it.
`python -m examples.check URL MODEL` asks the server behind a base URL some small questions, which it may bill.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from orx_rx import Client
from orx_rx.http.checks import CheckResult, check_server
from orx_rx.protocol.conformance import check

STORY = Path(__file__).parent / "data" / "story.sse"


def check_file(path: Path) -> int:
    """Print the report on a recorded stream.

    Returns:
        The exit code: 0, 1 when a client would lose something, 2 when the file cannot be read.
    """
    try:
        report = check(path.read_bytes())
    except OSError as error:
        print(f"expected a file to read, got {error.strerror}: {path}", file=sys.stderr)
        return 2
    print(report)
    return 0 if report.passes_default else 1


async def check_url(base_url: str, model: str = "story") -> int:
    """Print the results of the checks of a server; the key comes from the environment.

    Returns:
        The exit code: 0, or 1 when a check failed.
    """
    results: list[CheckResult] = []
    async with Client(base_url=base_url) as client:
        async for result in check_server(client, model=model):
            print(result, flush=True)
            results.append(result)
    print(f"{sum(result.paid for result in results)} requests that may be billed")
    return int(any(result.outcome == "fail" for result in results))


if __name__ == "__main__":
    what = sys.argv[1] if sys.argv[1:] else str(STORY)
    if what.startswith(("http://", "https://")):
        sys.exit(asyncio.run(check_url(what, *sys.argv[2:])))
    sys.exit(check_file(Path(what)))
