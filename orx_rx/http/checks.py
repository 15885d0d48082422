"""Active checks of a server: what it does with good requests, with bad ones, and with clients that go away.

Every check is a small coroutine and a row of `CHECKS`. It asks the server by itself, so that one that fails spoils no
other; only the checks that look at the same stream share it, and so do those of the same background response, since
requests cost money. What a check cannot decide, because the server has no such thing or because nothing came to be
looked at, is skipped with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from orx_rx.aio import iterate
from orx_rx.errors import ConnectFailed, NotAnEventStream, OrxError, RateLimited, StatusError
from orx_rx.http.probing import CUT_AFTER, Failed, Heard, Probe, Skipped, by_number, inner, numbers_of, object_in, said
from orx_rx.http.source import JSON
from orx_rx.protocol.resume import FINAL

if TYPE_CHECKING:
    from orx_rx.http.client import Client

Outcome = Literal["pass", "fail", "skip"]

KEEPALIVE = 15.0
"""Seconds without an event above which a keepalive is due: WHATWG advises a comment every 15 seconds or so."""

LINGER = 1.0
"""Seconds within which the connection is to end behind the terminal; as long as a client waits by default."""

_POLL = 0.2  # seconds between two looks at a response that has not ended
_ASKED: Mapping[str, object] = {"input": "Count from 1 to 20, separated by blanks.", "max_output_tokens": 64}
_NOBODY = "/responses/resp_orx_check_no_such_response"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What became of one check.

    Attributes:
        name: The name of the check.
        outcome: Whether the server passes; `skip` where that could not be decided.
        expected: What was expected of the server.
        got: What it did; for a skipped check, why it was skipped.
        effect: What a client suffers; the empty string unless the check failed.
        paid: How many requests that may be billed were sent for it.
    """

    name: str
    outcome: Outcome
    expected: str
    got: str
    effect: str
    paid: int

    def __str__(self) -> str:
        """Read as one line."""
        why = f" {self.effect}" if self.effect else ""
        return f"{self.outcome}: {self.name}: expected {self.expected}, got {self.got}.{why}"

    def to_json(self) -> dict[str, Any]:
        """Make a JSON object of the result."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the table of checks.

    Attributes:
        name: Its name.
        expected: What is expected of the server.
        effect: What a client suffers where the server does otherwise.
        run: Asks the server, and says what was got; raises what ends a check.
        looks_at: What has to be there before: the stream that is shared, or the background response; None for nothing.
        decides: Whether it is this check that fails where that cannot be had; the others are skipped.
    """

    name: str
    expected: str
    effect: str
    run: Callable[[Probe], Awaitable[str]]
    looks_at: Literal["stream", "background"] | None = None
    decides: bool = False


async def check_server(
    client: Client,
    *,
    model: str,
    timeout: float = 60.0,
    only: Sequence[str] | None = None,
    **request: object,
) -> AsyncGenerator[CheckResult]:
    """Check a server, and give the result of every check as soon as it is there.

    About eight small responses are asked for; most are broken off at their first event. What a check raises is its
    result. A response that is left running in the background is cancelled in the end.

    Args:
        client: The client of the server. A request that may be billed is never sent again, whatever its settings.
        model: The model to ask.
        timeout: How long a check may take, in seconds, and as long again each stream that several checks look at.
        only: The names of the checks to run; all of them by default.
        **request: Fields for every request, such as `reasoning` or another `input`.

    Raises:
        ValueError: `timeout` is not above 0, or there is no check of such a name.
    """
    if not timeout > 0:
        raise ValueError(f"expected a timeout above 0 seconds, got {timeout}")
    names = [check.name for check in CHECKS]
    for name in only or ():
        if name not in names:
            raise ValueError(f"expected checks among {', '.join(names)}, got {name!r}")
    probe = Probe(client, {**_ASKED, **request, "model": model}, timeout)
    try:
        for check in CHECKS:
            if only is None or check.name in only:
                yield await _result(check, probe)
    finally:
        await probe.clean()


async def _result(check: Check, probe: Probe) -> CheckResult:
    """Run one check; whatever happens is its result."""
    before = probe.paid
    outcome: Outcome
    effect = check.effect
    try:
        outcome, got = "pass", await _ran(check, probe)
    except Skipped as reason:
        outcome, got = "skip", str(reason)
    except RateLimited as error:
        outcome, got = "skip", said(error)
    except TimeoutError:
        outcome, got = "fail", f"nothing within {probe.timeout:g} s"
    except Failed as error:
        outcome, got, effect = "fail", str(error), error.effect or effect
    except Exception as error:
        outcome, got = "fail", said(error)
    return CheckResult(
        check.name, outcome, check.expected, got, effect if outcome == "fail" else "", probe.paid - before
    )


async def _ran(check: Check, probe: Probe) -> str:
    if check.looks_at is not None:
        missing = await probe.prepare(check.looks_at)
        if missing is not None and check.decides:
            raise missing
        if isinstance(missing, Skipped):
            raise missing
        if missing is not None:
            raise Skipped(f"there is no {check.looks_at} to look at: {said(missing)}")
    async with asyncio.timeout(probe.timeout):
        return await check.run(probe)


# the shared stream


async def _media_type(probe: Probe) -> str:
    return f"a stream of {probe.stream.report.events} events"


async def _valid(probe: Probe) -> str:
    report = probe.stream.report
    serious = [finding for finding in report.findings if finding.severity != "note" and finding.rule != "missing_done"]
    if serious:
        got = "; ".join(f"{finding.rule} ({finding.first}): {finding.message}" for finding in serious)
        raise Failed(got, " ".join(finding.effect for finding in serious))
    notes = sorted({*report.rules} - {"missing_done"})
    return f"{report.events} events that break no rule" + (f", with notes: {', '.join(notes)}" if notes else "")


async def _event_lines(probe: Probe) -> str:
    report = probe.stream.report
    if not report.events:
        raise Skipped("no event came")
    if report.unnamed_frames:
        raise Failed(f"none in {report.unnamed_frames} of {report.frames} frames")
    if "event_name_mismatch" in report.rules:
        raise Failed("another name than the type")
    return "one in every frame"


async def _done(probe: Probe) -> str:
    if _terminal(probe).report.done:
        return "[DONE]"
    raise Failed("the end of the stream")


async def _closing(probe: Probe) -> str:
    lingered = _terminal(probe).lingered
    assert lingered is not None  # we did not leave
    if lingered > LINGER:
        raise Failed(f"a connection that was open for {lingered:.1f} s more")
    return "the end of the connection"


async def _usage(probe: Probe) -> str:
    heard = _terminal(probe)
    usage = heard.response.usage if heard.response is not None else None
    total = getattr(usage, "total_tokens", None)
    if not isinstance(total, int) or total < 1:
        raise Failed("none")
    return f"{total} tokens"


async def _buffering(probe: Probe) -> str:
    for finding in _terminal(probe).report.findings:
        if finding.rule in ("held_back", "held_in_blocks"):
            raise Failed(finding.message)
    return "events as they are made, as far as can be told"


async def _keepalive(probe: Probe) -> str:
    waited = max((report.longest_wait or 0 for report in probe.heard), default=0)
    silent = max((report.longest_silence or 0 for report in probe.heard), default=0)
    if waited < KEEPALIVE:
        raise Skipped(f"the longest time without an event was {waited:.1f} s")
    if silent > 2 * KEEPALIVE:
        raise Failed(f"nothing for {silent:.0f} s")
    return f"no silence above {silent:.0f} s"


def _terminal(probe: Probe) -> Heard:
    if probe.stream.report.terminal is None:
        raise Skipped("the stream has no terminal")
    return probe.stream


# errors


async def _unknown_model(probe: Probe) -> str:
    try:
        heard = await probe.create(CUT_AFTER, model="orx-check-no-such-model")
    except StatusError as error:
        return _refused(error, 400, 404)
    except NotAnEventStream as error:
        raise Failed(said(error)) from None
    if {payload.get("type") for payload in heard.payloads} & {"error", "response.failed"}:
        return "an error within a stream"
    raise Skipped("the server takes any model")


async def _missing_input(probe: Probe) -> str:
    try:
        await probe.create(1, without="input")
    except StatusError as error:
        return _refused(error, 400, 422)
    raise Failed("a stream")


async def _malformed(probe: Probe) -> str:
    try:
        await probe.ask("POST", "/responses", b'{"model": ')
    except StatusError as error:
        return _refused(error, 400, 422)
    raise Failed("an answer")


async def _wrong_key(probe: Probe) -> str:
    if probe.client._api_key is None:  # pyright: ignore[reportPrivateUsage]
        raise Skipped("the client has no key")
    headers = {"Authorization": "Bearer orx-check-wrong-key"}
    chunks = probe.send("GET", _NOBODY, JSON, headers=headers)  # which costs nothing where any key will do
    try:
        async with iterate(chunks) as reading:
            await anext(reading, None)
    except StatusError as error:
        return _refused(error, 401, 403)
    raise Failed("an answer")


async def _unknown_response(probe: Probe) -> str:
    try:
        await probe.ask("GET", _NOBODY)
    except StatusError as error:
        return _refused(error, 404, 400)
    raise Failed("a response")


def _refused(error: StatusError, *statuses: int) -> str:
    """Judge how a server refuses: status, media type, and error object."""
    if isinstance(error, RateLimited):
        raise error
    if error.status not in statuses:
        raise Failed(f"HTTP status {error.status}: {error.message}")
    media_type = error.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON:
        raise Failed(f"HTTP status {error.status} with content type {media_type or 'none'!r}")
    fields = inner(object_in(error.body.encode()) or {}, "error")
    missing = [name for name in ("message", "type") if not isinstance(fields.get(name), str)]
    if missing:
        raise Failed(f"HTTP status {error.status} and an error object without {' and '.join(missing)}")
    return f"HTTP status {error.status} and an error object"


# responses in the background


async def _created(probe: Probe) -> str:
    statuses = [inner(payload, "response").get("status") for payload in probe.background.before]
    status = next(filter(None, statuses), None)
    if status not in ("queued", "in_progress"):
        raise Failed(f"one that begins as {status}")
    return f"one that begins as {status}"


async def _resumed(probe: Probe) -> str:
    rest, before = probe.background.rest, numbers_of(probe.background.before)
    if isinstance(rest, Exception):
        raise rest
    numbers = numbers_of(rest.payloads)
    expected = list(range(before[-1] + 1, before[-1] + 1 + len(numbers)))
    unnumbered = [payload for payload in rest.payloads if payload.get("sequence_number") is None]
    if any(payload.get("type") != "keepalive" for payload in unnumbered):
        raise Failed(f"{len(unnumbered)} events without a sequence number")
    if not numbers:
        raise Failed("no event")
    if numbers != expected:
        place = next(at for at, pair in enumerate(zip(numbers, expected, strict=True)) if pair[0] != pair[1])
        raise Failed(f"event {numbers[place]} where {expected[place]} is due")
    if rest.report.terminal is None:
        raise Failed(f"{len(numbers)} events and no terminal")
    return f"events {expected[0]} to {expected[-1]}, the last one {rest.report.terminal}"


async def _replayed(probe: Probe) -> str:
    background = probe.background
    again = await probe.retrieve_stream(background.response_id)
    background.ended = background.ended or again.report.terminal is not None
    rest = background.rest.payloads if isinstance(background.rest, Heard) else []
    known = by_number([*background.before, *rest])
    numbers = numbers_of(again.payloads)
    first = min(known, default=0)
    if numbers != list(range(first, first + len(numbers))):
        raise Failed(f"{len(numbers)} events with other numbers")
    differs = [number for number, content in by_number(again.payloads).items() if known.get(number, content) != content]
    if differs:
        raise Failed(f"another event {differs[0]}")
    if again.report.terminal is None:
        raise Failed(f"{len(numbers)} events and no terminal")
    return f"the same {len(numbers)} events"


async def _retrieved(probe: Probe) -> str:
    status = await _final_status(probe, probe.background.response_id)
    rest = probe.background.rest
    streamed = rest.report.terminal if isinstance(rest, Heard) else None
    if streamed is not None and streamed != f"response.{status}":
        raise Failed(f"{status} behind {streamed}")
    return f"a response that is {status}"


async def _cancelled(probe: Probe) -> str:
    heard = await probe.create(1, background=True, store=True)
    if heard.response is None or not heard.response.id:
        raise Failed("no response with an id")
    id_ = heard.response.id
    first = (await probe.client.cancel(id_)).status
    if first not in FINAL:
        first = await _final_status(probe, id_)
    again = (await probe.client.cancel(id_)).status
    then = (await probe.client.retrieve(id_)).status
    if not first == again == then:
        raise Failed(f"{first}, then {again}, and {then} when it was retrieved")
    return f"{first}, both times and afterwards"


async def _cancelled_late(probe: Probe) -> str:
    id_ = probe.background.response_id
    before = await _final_status(probe, id_)
    told = (await probe.client.cancel(id_)).status
    after = (await probe.client.retrieve(id_)).status
    if not before == told == after:
        raise Failed(f"{before} before, {told} as the answer, and {after} afterwards")
    return f"{before}, before and after"


async def _cancelled_foreground(probe: Probe) -> str:
    response = probe.stream.response
    if response is None or not response.id:
        raise Skipped("the response has no id")
    try:
        answer = await probe.ask("POST", f"/responses/{response.id}/cancel")
    except StatusError as error:
        return _refused(error, 400, 404, 409)
    raise Failed(f"an answer of {len(answer)} bytes")


async def _final_status(probe: Probe, response_id: str) -> str:
    """Wait until a response has ended."""
    while (status := (await probe.client.retrieve(response_id)).status) not in FINAL:
        await asyncio.sleep(_POLL)
    return str(status)


# clients


async def _idempotent(probe: Probe) -> str:
    key = f"orx-check-{uuid4()}"
    first = await probe.create(1, key=key)
    try:
        second = await probe.create(1, key=key)
    except StatusError as error:
        return f"{_refused(error, 400, 409, 422)} for the second request"
    ids = [heard.response.id if heard.response is not None else "" for heard in (first, second)]
    if not all(ids):
        raise Failed("no response with an id")
    return "one response for both requests" if ids[0] == ids[1] else "a response for each request: the key is ignored"


async def _hung_up(probe: Probe) -> str:
    heard = await probe.create(1)
    if not heard.payloads:
        raise Skipped("no event came")
    try:
        await probe.ask("GET", _NOBODY)
    except ConnectFailed as error:
        raise Failed(said(error)) from None
    except OrxError as error:
        return f"an answer to the next request: {type(error).__name__}"
    return "an answer to the next request"


_ERRORS = "Clients report a wrong error, or none that a user could act on."

CHECKS: tuple[Check, ...] = (
    Check(
        "media_type",
        "a stream of the type text/event-stream",
        "Clients refuse the answer.",
        _media_type,
        "stream",
        decides=True,
    ),
    Check("stream", "a stream that breaks no rule", "Clients lose or mistake what breaks the rules.", _valid, "stream"),
    Check(
        "event_lines",
        "an event line in every frame that equals the type",
        "Listeners of an EventSource, which are called by the event line, hear nothing.",
        _event_lines,
        "stream",
    ),
    Check(
        "done",
        "[DONE] behind the terminal",
        "Clients that wait for [DONE] wait until the connection closes.",
        _done,
        "stream",
    ),
    Check(
        "closing",
        f"the end of the connection within {LINGER:g} s behind the last event",
        "Clients wait, and hold a connection, for an answer that is already whole.",
        _closing,
        "stream",
    ),
    Check("usage", "the tokens that were used in the terminal", "Costs cannot be counted.", _usage, "stream"),
    Check(
        "buffering",
        "events as they are made",
        "Users wait for text that is already there: something buffers the stream.",
        _buffering,
        "stream",
    ),
    Check("unknown_model", "an error for a model that does not exist", _ERRORS, _unknown_model),
    Check("missing_input", "an error for a request without input", _ERRORS, _missing_input),
    Check("malformed_json", "an error for a body that is not JSON", _ERRORS, _malformed),
    Check("wrong_key", "an error for a wrong key", "Anybody can use the server.", _wrong_key),
    Check("unknown_response", "an error for a response that does not exist", _ERRORS, _unknown_response),
    Check(
        "background",
        "a response that goes on in the background",
        "A broken connection loses the response.",
        _created,
        "background",
        decides=True,
    ),
    Check(
        "resume",
        "exactly the events behind starting_after, to the terminal",
        "A stream that broke off cannot be continued, or only with text that is lost or repeated.",
        _resumed,
        "background",
    ),
    Check(
        "replay",
        "the same events as before when the stream of an ended response is retrieved",
        "A client that comes late sees another answer, or none.",
        _replayed,
        "background",
    ),
    Check(
        "retrieve",
        "the response in the status that its stream ended with",
        "A client that polls sees another end than one that streams, or none.",
        _retrieved,
        "background",
    ),
    Check(
        "cancel",
        "a status that is final and stays the same, however often it is cancelled",
        "A response that nobody wants goes on, and costs money.",
        _cancelled,
        "background",
    ),
    Check(
        "cancel_ended",
        "a response that has ended to stay as it is when it is cancelled",
        "A whole answer is lost by a cancel that came too late.",
        _cancelled_late,
        "background",
    ),
    Check(
        "cancel_foreground",
        "an error when a response in the foreground is cancelled",
        "Clients believe that something was cancelled.",
        _cancelled_foreground,
        "stream",
    ),
    Check(
        "idempotency",
        "one response for two requests with one key, or two",
        "A request that is sent again fails, although it was good.",
        _idempotent,
    ),
    Check(
        "hang_up",
        "an answer to the next request of a client that left a stream",
        "One user who leaves takes others along.",
        _hung_up,
    ),
    Check(
        "keepalive",
        f"something every {KEEPALIVE:g} s or so",
        "Proxies and clients that wait no longer than a minute hang up.",
        _keepalive,
        "stream",
    ),
)
"""The checks, in the order in which they are run."""
