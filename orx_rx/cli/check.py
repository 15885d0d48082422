"""`orx-rx check`: what is wrong with a stream or a server, and what a client would suffer from it."""

from __future__ import annotations

import asyncio
import json as jsonlib
import sys
from time import monotonic
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from orx_rx.aio import iterate
from orx_rx.cli.asking import ProfileName
from orx_rx.cli.files import Taped, Word, read_taped
from orx_rx.cli.outcomes import COMPLETED, ERROR, UsageError
from orx_rx.cli.output import progress, write_text
from orx_rx.errors import ConnectFailed, ConnectionLost, OrxError, StreamTimeout, Unauthorized
from orx_rx.http.checks import CHECKS, CheckResult, check_server
from orx_rx.http.client import Client
from orx_rx.protocol.conformance import Conformance, Report

_PROMPT = "Count from 1 to 20, separated by blanks."
_WIDTH = 120  # of a table that goes to no terminal
_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim", "fail": "bold red", "skip": "dim", "pass": "green"}


def check(
    target: Word,
    /,
    *,
    profile: ProfileName = "default",
    json: bool = False,
    active: bool = False,
    model: Annotated[str | None, Parameter(env_var="ORX_MODEL")] = None,
    prompt: str = _PROMPT,
) -> int:
    """Say what is wrong with a recorded stream, or with a server, and what a client would suffer from it.

    The key of a server comes from ORX_API_KEY or OPENAI_API_KEY. Exit codes: 0 clean, 1 a client would lose something,
    or the server could not be asked; 2 usage.

    Args:
        target: A cassette, a file of the bytes that a server sent, - for stdin; or the base URL of a server, which is
            asked for one stream.
        profile: What counts as an error: what ends the stream of a client with this profile.
        json: Write the report as JSON.
        active: Ask the server some questions more, good ones and bad ones; about eight may be billed.
        model: The model to ask.
        prompt: What to ask.
    """
    is_url = target.startswith(("http://", "https://"))
    if not is_url and "://" in target:
        raise UsageError(f"expected a file, or a base URL with http or https, got {target!r}")
    if active and not is_url:
        raise UsageError(f"expected the base URL of a server with --active, got {target!r}")
    if is_url and not model:
        raise UsageError("expected --model or ORX_MODEL with the base URL of a server, got none")
    if active:
        return asyncio.run(_ask_all(target, model or "", json=json))
    report = asyncio.run(_ask(target, model or "", prompt)) if is_url else check_taped(read_taped(target))
    if json:
        write_text(jsonlib.dumps(report.to_json(), ensure_ascii=False, indent=2) + "\n")
    else:
        _print(report)
    passes = report.passes_strict if profile == "strict" else report.passes_default
    return COMPLETED if passes else ERROR


def check_taped(taped: Taped) -> Report:
    """Check a recorded stream, with its times where they are known."""
    tape, timed = taped
    conformance = Conformance(started=0.0 if timed else None)
    for chunk in tape.chunks:
        conformance.feed(chunk.data, chunk.at if timed else None)
    return conformance.end(tape.error, tape.ended if timed else None)


async def _ask(base_url: str, model: str, prompt: str) -> Report:
    conformance = Conformance(started=monotonic())
    broke: OrxError | None = None
    async with Client(base_url=base_url) as client:
        try:
            async with iterate(client.chunks(model=model, input=prompt)) as reading:
                async for chunk in reading:
                    conformance.feed(chunk, monotonic())
        except (ConnectionLost, StreamTimeout) as error:
            broke = error
    return conformance.end(broke, monotonic())


async def _ask_all(base_url: str, model: str, *, json: bool) -> int:
    results: list[CheckResult] = []
    try:
        async with Client(base_url=base_url) as client:
            await _reach(client)
            async for result in check_server(client, model=model):
                results.append(result)
                if json:  # as soon as it is there
                    write_text(jsonlib.dumps(result.to_json(), ensure_ascii=False) + "\n")
                else:
                    progress(f"{len(results)} of {len(CHECKS)} checks: {result.name}")
    finally:
        progress()
    if not json:
        table = Table("", Column("check", no_wrap=True), "expected", "got", box=None, pad_edge=False)
        for result in results:
            got = f"{result.got.rstrip('.')}. {result.effect}" if result.effect else result.got
            table.add_row(Text(result.outcome, _STYLES[result.outcome]), result.name, result.expected, Text(got))
        console = _console()
        console.print(table)
        console.print(f"{sum(result.paid for result in results)} requests that may be billed")
    return ERROR if any(result.outcome == "fail" for result in results) else COMPLETED


async def _reach(client: Client) -> None:
    """Ask for a response that does not exist, which costs nothing, so that a wrong key is told once and not by all.

    Raises:
        OrxError: There is no server, or it does not know the key.
    """
    try:
        await client.retrieve("resp_none")
    except (ConnectFailed, Unauthorized):
        raise
    except OrxError:  # an answer
        pass


def _print(report: Report) -> None:
    console = _console()
    summary, *_ = report.lines()
    console.print(summary)
    verdicts = Table.grid(padding=(0, 1))
    for name, error in (("default", report.default_error), ("strict", report.strict_error)):
        verdicts.add_row(name, Text("passes", "green") if error is None else Text(error, "red"))
    console.print(verdicts)
    findings = Table.grid(padding=(0, 1))  # below each other, since columns would be too narrow in most terminals
    for found in report.findings:
        times = f", {found.count} times, first" if found.count > 1 else ""
        where = Text.assemble((found.rule, "bold"), f"{times} in {found.first}")
        findings.add_row(Text(found.severity, _STYLES[found.severity]), where)
        findings.add_row("", Text.assemble(found.message, "\n", (found.effect, "dim")))
    if report.findings:
        console.print()
        console.print(findings)


def _console() -> Console:
    options: dict[str, Any] = {} if sys.stdout.isatty() else {"width": _WIDTH}
    return Console(file=sys.stdout, highlight=False, markup=False, **options)
