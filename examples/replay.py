"""Run a file of bytes, as a server sent them, through the pipeline: no network, no event loop.

`python -m examples.replay FILE [CHUNK_BYTES]` reads any recorded stream; without a file it reads the one beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import reactivex

from orx_rx import OrxError
from orx_rx import operators as ops
from orx_rx.models import Event, TerminalEvent

STORY = Path(__file__).parent / "data" / "story.sse"


def main(path: Path = STORY, chunk_bytes: int = 1_000) -> int:
    """Print the text of a recorded stream, and what is wrong with it.

    Args:
        path: The file.
        chunk_bytes: The size of the pieces that it is cut into, in bytes; the answer is the same for all.

    Returns:
        The exit code: 0, 1 when the stream is broken, 2 when the file cannot be read.
    """
    try:
        body = path.read_bytes()
    except OSError as error:
        print(f"expected a file to read, got {error.strerror}: {path}", file=sys.stderr)
        return 2
    chunks = [body[start : start + chunk_bytes] for start in range(0, len(body), chunk_bytes)]
    failed: list[Exception] = []

    def on_next(event: Event) -> None:
        if isinstance(event, TerminalEvent):
            items = ", ".join(item.type for item in event.response.output or ()) or "no items"
            print(f"{event.response.output_text}\n\n{event.response.status}: {items}")

    reactivex.from_iterable(chunks).pipe(
        ops.frame(),
        ops.decode(on_violation=print),
        ops.sequence_check(on_violation=print),
        ops.lifecycle_guard(on_violation=print),
        ops.accumulate(on_violation=print),
    ).subscribe(on_next, failed.append)
    for failure in failed:
        text = failure.snapshot.output_text if isinstance(failure, OrxError) and failure.snapshot else ""
        print(f"{text}\n\n{type(failure).__name__}: {failure}", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(Path(arguments[0]) if arguments else STORY, int(arguments[1]) if arguments[1:] else 1_000))
