"""`orx-rx stream`: ask a model, and show the answer as it comes."""

from __future__ import annotations

import asyncio
from io import TextIOWrapper
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from orx_rx import operators as ops
from orx_rx.aio import iterate
from orx_rx.cli.asking import NOTHING_SAID, PROFILES, Asking
from orx_rx.cli.files import Word, read_cursor, read_prompt
from orx_rx.cli.outcomes import INTERRUPTED, TERMINALS, USAGE, UsageError
from orx_rx.cli.output import complain, note, write
from orx_rx.cli.showing import Screen, show
from orx_rx.http.client import Client
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.cassette import path_of
from orx_rx.protocol.conformance import Conformance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TextIO

    from orx_rx.cli.showing import Form
    from orx_rx.protocol.cursor import Cursor
    from orx_rx.protocol.repair_kinds import Repair
    from orx_rx.protocol.violations import Violation
    from orx_rx.reporting import Attempt


def stream(
    prompt: Word | None = None,
    /,
    *,
    asking: Asking = NOTHING_SAID,
    json: bool = False,
    raw: bool = False,
    save: Path | None = None,
    force: bool = False,
    resume: Annotated[str | None, Parameter(allow_leading_hyphen=True, metavar="CURSOR")] = None,
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
        save: Write a cassette to this file; with --background one for each connection, such as tape.jsonl and then
            tape-2.jsonl.
        force: Write over what that file holds.
        resume: Ask nothing, but go on with a response in the background behind a cursor, which is what Ctrl-C leaves on
            stderr; - reads it from stdin.
    """
    if resume is not None:
        cursor = _resumed(resume, prompt, asking, raw=raw)
        return asyncio.run(ask(asking, cursor, save, "json" if json else "text", force=force))
    if raw and (json or asking.repair):
        raise UsageError(f"expected --raw alone, got {'--json' if json else '--repair'} too")
    asked = read_prompt(prompt)
    if raw:
        return asyncio.run(_raw(asking, asked, save, force=force))
    return asyncio.run(ask(asking, asked, save, "json" if json else "text", force=force))


async def ask(asking: Asking, prompt: str | Cursor, save: Path | None, form: Form, *, force: bool = False) -> int:
    """Ask a model, show its answer, and return the exit code.

    Args:
        asking: Whom to ask, and how.
        prompt: What to ask; or a cursor, to show the rest of an answer.
        save: Where to write a cassette.
        form: What to write to stdout.
        force: Whether to write over a cassette that is there.
    """
    request = asking.request(prompt) if isinstance(prompt, str) else {}
    violations: list[Violation] = []
    repairs: list[Repair] = []
    resumes: list[Attempt] = []
    tapes: list[_Tape] = []
    accumulator: Accumulator = Accumulator()
    screen = Screen(form)

    def tried(attempt: Attempt) -> None:
        if attempt.kind == "retry":
            screen.wait(attempt.delay, attempt.error)
        else:
            resumes.append(attempt)

    async with Client(base_url=asking.base_url) as client:
        profile, record = PROFILES[asking.profile], None if save is None else _one_each(save, tapes, force)
        if isinstance(prompt, str):
            events = client.events(
                profile=profile,
                on_violation=violations.append,
                repair=asking.repair,
                on_repair=repairs.append if asking.repair else None,
                into=accumulator,
                record=record,
                on_attempt=tried,
                **request,
            )
        else:
            events = client.resume(
                prompt,
                profile=profile,
                on_violation=violations.append,
                into=accumulator,
                record=record,
                on_attempt=tried,
            )
        try:
            code = await show(events, accumulator, screen)
            return _checked(tapes) or code
        finally:
            for what, codes in (
                ("violations", [violation.code for violation in violations]),
                ("repairs", [repair.code for repair in repairs]),
                ("tried again", [attempt.kind for attempt in resumes]),
                ("cassettes", [tape.name for tape in tapes[1:] and tapes]),
            ):
                if codes:
                    note(f"{what}: {', '.join(dict.fromkeys(codes))}")


def _resumed(given: str, prompt: str | None, asking: Asking, *, raw: bool) -> Cursor:
    """Read a cursor, and refuse what goes with a new response alone."""
    alone = {
        "a prompt": prompt is not None,
        "--raw": raw,
        "--background": asking.background,
        "--repair": asking.repair,
        "--instructions": asking.instructions is not None,
        "--max-output-tokens": asking.max_output_tokens is not None,
    }
    for what, there in alone.items():
        if there:
            raise UsageError(f"expected --resume without {what}, got both")
    return read_cursor(given)


async def _raw(asking: Asking, prompt: str, save: Path | None, *, force: bool) -> int:
    conformance = Conformance()  # which knows how it ended
    async with Client(base_url=asking.base_url) as client:
        chunks = client.chunks(**asking.request(prompt))
        tapes: list[_Tape] = []
        recorded = chunks if save is None else chunks.pipe(ops.record(_one_each(save, tapes, force)))
        async with iterate(recorded) as reading:
            async for chunk in reading:
                conformance.feed(chunk)
                write(chunk)
    terminal = conformance.end().terminal
    if terminal is None:
        complain("expected a terminal, got the end of the stream")
    return _checked(tapes) or TERMINALS.get(terminal or "", INTERRUPTED)


class _Tape(TextIOWrapper):
    """A cassette that remembers why it could not be written, since the stream goes on all the same."""

    failed: OSError | None = None

    def __init__(self, path: Path) -> None:
        super().__init__(path.open("wb"), encoding="utf-8", newline="\n")

    def flush(self) -> None:
        """Write what is there."""
        try:
            super().flush()
        except OSError as error:
            self.failed = error
            raise


def _holds(file: Path) -> bool:
    """Whether there is something in a file that writing to it would lose; a device such as a terminal loses nothing."""
    return file.is_file() and file.stat().st_size > 0


def _checked(tapes: Sequence[_Tape]) -> int:
    """Complain of cassettes that are not whole, and return the exit code of that."""
    failed = [tape for tape in tapes if tape.failed is not None]
    for tape in failed:
        complain(f"expected a cassette to write, got: {tape.failed and tape.failed.strerror} ({tape.name})")
    return USAGE if failed else 0


def _one_each(save: Path, tapes: list[_Tape], force: bool) -> Callable[[], TextIO]:
    """Write a cassette for each connection, and note their names; refuse a place before a request is paid for.

    Raises:
        UsageError: Something is there that would be lost.
        OSError: It cannot be written to.
    """
    if not force and _holds(save):
        raise UsageError(f"expected a file to make, or --force to write over it, got one that is there ({save})")
    save.open("a").close()
    numbers = count(1)

    def opened() -> TextIO:
        places = (path_of(save, number) for number in numbers)
        tapes.append(_Tape(next(place for place in places if force or not _holds(place))))
        return tapes[-1]

    return opened
