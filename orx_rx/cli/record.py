"""`orx-rx record`: ask a model, and keep the stream."""

from __future__ import annotations

import asyncio
from pathlib import Path

from orx_rx.cli.asking import NOTHING_SAID, Asking
from orx_rx.cli.files import Word, read_prompt
from orx_rx.cli.stream import ask


def record(prompt: Word, file: Path, /, *, asking: Asking = NOTHING_SAID, force: bool = False) -> int:
    """Ask a model, and write the stream to a cassette, without a secret in it.

    Exit codes are those of stream.

    Args:
        prompt: What to ask; - reads it from stdin.
        file: The cassette to write.
        asking: Whom to ask, and how.
        force: Write over what the file holds.
    """
    return asyncio.run(ask(asking, read_prompt(prompt), file, "nothing", force=force))
