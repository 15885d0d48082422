"""`orx-rx stream`: ask a model, and show the answer as it comes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from orx_rx import operators as ops
from orx_rx.aio import iterate
from orx_rx.cli.asking import PROFILES, Asking
from orx_rx.cli.files import Word, read_prompt
from orx_rx.cli.outcomes import INTERRUPTED, TERMINALS, UsageError
from orx_rx.cli.output import complain, note, write
from orx_rx.cli.showing import show
from orx_rx.http.client import Client
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.conformance import Conformance

if TYPE_CHECKING:
    from orx_rx.cli.showing import Form
    from orx_rx.protocol.repair_kinds import Repair
    from orx_rx.protocol.violations import Violation


def stream(
    prompt: Word | None = None,
    /,
    *,
    asking: Asking,
    json: bool = False,
    raw: bool = False,
    save: Path | None = None,
) -> int:
    """Ask a model, and show the answer as it comes.

    The key comes from ORX_API_KEY or OPENAI_API_KEY, and from nowhere else. Reasoning is shown dimmed in a terminal;
    calls of tools and tokens go to stderr. Exit codes: 0 completed, 1 error of the server or the connection, 2 usage,
    3 failed, 4 incomplete, 5 interrupted, 130 Ctrl-C.

    Args:
        prompt: What to ask; -, or nothing where stdin is no terminal, reads it from stdin.
        asking: Whom to ask, and how.
        json: Write the events, one line of JSON each.
        raw: Write the bytes as they come.
        save: Write a cassette to this file.
    """
    if raw and (json or asking.repair):
        raise UsageError(f"expected --raw alone, got {'--json' if json else '--repair'} too")
    asked = read_prompt(prompt)
    if raw:
        return asyncio.run(_raw(asking, asked, save))
    return asyncio.run(ask(asking, asked, save, "json" if json else "text"))


async def ask(asking: Asking, prompt: str, save: Path | None, form: Form) -> int:
    """Ask a model, show its answer, and return the exit code.

    Args:
        asking: Whom to ask, and how.
        prompt: What to ask.
        save: Where to write a cassette.
        form: What to write to stdout.
    """
    violations: list[Violation] = []
    repairs: list[Repair] = []
    accumulator: Accumulator = Accumulator()
    async with Client(base_url=asking.base_url) as client:
        events = client.events(
            profile=PROFILES[asking.profile],
            on_violation=violations.append,
            repair=asking.repair,
            on_repair=repairs.append if asking.repair else None,
            into=accumulator,
            record=_writable(save),
            **asking.request(prompt),
        )
        try:
            return await show(events, accumulator, form)
        finally:
            for what, codes in (
                ("violations", [violation.code for violation in violations]),
                ("repairs", [repair.code for repair in repairs]),
            ):
                if codes:
                    note(f"{what}: {', '.join(dict.fromkeys(codes))}")


async def _raw(asking: Asking, prompt: str, save: Path | None) -> int:
    conformance = Conformance()  # which knows how it ended
    async with Client(base_url=asking.base_url) as client:
        chunks = client.chunks(**asking.request(prompt))
        to = _writable(save)
        recorded = chunks if to is None else chunks.pipe(ops.record(to))
        async with iterate(recorded) as reading:
            async for chunk in reading:
                conformance.feed(chunk)
                write(chunk)
    terminal = conformance.end().terminal
    if terminal is None:
        complain("expected a terminal, got the end of the stream")
    return TERMINALS.get(terminal or "", INTERRUPTED)


def _writable(save: Path | None) -> Path | None:
    """Refuse a place that cannot be written to before a request is paid for.

    Raises:
        OSError: It cannot.
    """
    if save is not None:
        save.open("a").close()
    return save
