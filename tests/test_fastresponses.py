"""A real server that is not ours: fastresponses under uvicorn, with an adapter of ten lines."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from reactivex import Observable

from orx_rx import DEFAULT, STRICT, Client, Cursor, Profile, Retry, Violation, final_response, iterate, sse_chunks
from orx_rx import operators as ops
from orx_rx.models import Event, Response, ResponseCreatedEvent, TerminalEvent
from tests.servers import Ear, pass_time, turns, until
from tests.servers import clean_environment as clean_environment
from tests.test_background import cutting

fastresponses: Any = pytest.importorskip("fastresponses", reason="fastresponses is not installed (group peers)")
uvicorn: Any = pytest.importorskip("uvicorn", reason="uvicorn is not installed (group peers)")

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:uvicorn", "ignore::DeprecationWarning:websockets"),
    pytest.mark.usefixtures("clean_environment"),
]

TEXT = ["The moon ", "is 384,400 km ", "away."]
THOUGHTS = ["Let me ", "think."]


class Adapter(fastresponses.AgentAdapter):  # type: ignore[misc]
    """Thinks and answers.

    Args:
        go_on: What the model `held` waits for before the last piece of its text.
    """

    name = "test"
    default_model = "test"

    def __init__(self, go_on: asyncio.Event | None = None) -> None:
        self._go_on = go_on or asyncio.Event()

    async def run(self, run: Any) -> AsyncGenerator[Any]:
        """Yield what the request's model names."""
        if run.request.model == "reasoning":
            for thought in THOUGHTS:
                yield fastresponses.ReasoningDelta(thought)
        for piece in TEXT:
            if run.request.model == "held" and piece is TEXT[-1]:
                await self._go_on.wait()
            yield fastresponses.TextDelta(piece)
        yield fastresponses.UsageDelta(input_tokens=3, output_tokens=5, total_tokens=8)


@asynccontextmanager
async def served(go_on: asyncio.Event | None = None) -> AsyncGenerator[str]:
    """Run the server on a free port of loopback and give its base URL."""
    app = fastresponses.create_app(Adapter(go_on))
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started and not task.done():
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        await task


# what the server does not send of the fields that Open Responses requires is listed here
FIELDS_LEFT_OUT: set[str] = set()


@pytest.mark.parametrize("profile", [DEFAULT, STRICT, STRICT.but(missing_done="ignore")], ids=lambda p: p.name)
@pytest.mark.parametrize("model", ["text", "reasoning"])
async def test_a_server_that_is_not_ours_passes(model: str, profile: Profile) -> None:
    violations: list[Violation] = []
    async with served() as base_url, Client(base_url=base_url) as client:
        events = client.events(
            model=model, input="How far is the moon?", profile=profile, on_violation=violations.append
        )
        shared = events.pipe(ops.fan_out())
        thoughts: list[str] = []
        shared.pipe(ops.reasoning()).subscribe(thoughts.append)
        pieces: list[str] = []
        shared.pipe(ops.text()).subscribe(pieces.append)
        response = await final_response(shared)
    assert response.status == "completed"
    assert response.output_text == "".join(TEXT) == "".join(pieces)
    assert "".join(thoughts) == ("".join(THOUGHTS) if model == "reasoning" else "")
    assert response.usage is not None
    assert response.usage.total_tokens == 8
    assert {violation.place for violation in violations if violation.code == "field_missing"} == FIELDS_LEFT_OUT
    assert [violation for violation in violations if violation.code != "field_missing"] == []


async def test_leaving_early_is_seen_by_nobody_else() -> None:
    async with served() as base_url, Client(base_url=base_url) as client:
        read: list[Event] = []
        async with iterate(client.events(model="text", input="How far is the moon?")) as reading:
            async for event in reading:
                read.append(event)
                if len(read) == 3:
                    break
        response = await final_response(client.events(model="text", input="How far is the moon?"))
    assert [event.sequence_number for event in read] == [0, 1, 2]
    assert response.output_text == "".join(TEXT)


# resuming: it streams the rest at an address of its own, and answers JSON at the one that clients ask

HELD = 6  # events come before the last piece of the text
# the first connection breaks within the event that this is the count of, so that it is not heard
CUTS = [2, 3, 5, 6]
AT_ONCE = Retry(first=0, most=0)


@pytest.mark.parametrize("cut", CUTS)
async def test_a_stream_goes_on_live_at_an_address_that_the_user_names(cut: int) -> None:
    go_on = asyncio.Event()
    async with served(go_on) as base_url, cutting(base_url, cut) as (url, asked), aiohttp.ClientSession() as session:
        polled: list[str] = []

        def events_of(chunks: Observable[bytes]) -> Observable[Event]:
            return chunks.pipe(ops.frame(), ops.decode())

        def reopen(cursor: Cursor) -> Observable[Event]:
            after = {"starting_after": str(cursor.sequence_number)}
            return events_of(sse_chunks(session, "GET", f"{url}/responses/{cursor.response_id}/events", params=after))

        def poll(response_id: str) -> Observable[Response]:
            polled.append(response_id)
            raise AssertionError("polled")

        body = {"model": "held", "input": "How far is the moon?", "background": True, "stream": True}
        events = events_of(sse_chunks(session, "POST", f"{url}/responses", json=body)).pipe(
            ops.resume_on_disconnect(reopen, poll=poll, wait=0),
            ops.sequence_check(),
            ops.lifecycle_guard(),
            ops.accumulate(),
        )
        ear = Ear(events)
        await until(lambda: len(asked) == 2 or ear.has_ended)
        await ear.heard(HELD)
        assert not ear.has_ended
        go_on.set()
        await ear.ended()
    assert ear.error is None
    last = ear.elements[-1]
    assert isinstance(last, TerminalEvent)
    assert (last.response.status, last.response.output_text) == ("completed", "".join(TEXT))
    assert [event.sequence_number for event in ear.elements] == list(range(11))
    assert not any(event.is_synthetic for event in ear.elements)
    assert polled == []
    assert [head.partition(b"?")[::2] for head in asked] == [
        (b"POST /v1/responses", b""),
        (f"GET /v1/responses/{last.response.id}/events".encode(), b"starting_after=%d" % (cut - 2)),
    ]


@pytest.mark.parametrize("cut", CUTS)
async def test_a_response_that_runs_on_as_json_is_polled_until_it_is_final(cut: int) -> None:
    go_on = asyncio.Event()
    async with (
        served(go_on) as base_url,
        cutting(base_url, cut) as (url, asked),
        Client(base_url=url, retry=AT_ONCE) as client,
    ):
        ear = Ear(client.events(model="held", input="How far is the moon?", background=True))
        await until(lambda: len(asked) >= 4 or ear.has_ended)  # it was asked for the rest once, and as a whole twice
        assert not ear.has_ended
        go_on.set()
        await ear.ended()
    _check_polled(ear, asked, cut)


@pytest.mark.parametrize("cut", CUTS)
async def test_a_response_that_ended_meanwhile_comes_as_json_to_the_same_text(cut: int) -> None:
    go_on = asyncio.Event()
    async with (
        served(go_on) as base_url,
        cutting(base_url, cut) as (url, asked),
        Client(base_url=url, retry=Retry(first=1_000, most=1_000)) as client,
        Client(base_url=base_url) as other,
    ):
        ear = await Ear(client.events(model="held", input="How far is the moon?", background=True)).heard(cut - 1)
        created = ear.elements[0]
        assert isinstance(created, ResponseCreatedEvent)
        go_on.set()
        while (await other.retrieve(created.response.id)).status != "completed":
            pass
        await turns()
        assert (len(ear.elements), len(asked)) == (cut - 1, 1)  # it waits
        pass_time(1_000)
        await until(lambda: len(asked) == 2)
        await turns()
        pass_time(1_000)
        await ear.ended()
    assert len(asked) == 3
    _check_polled(ear, asked, cut)


def _check_polled(ear: Ear[Event], asked: list[bytes], cut: int) -> None:
    """Check that a response was read to its end, of which only the beginning was streamed."""
    assert ear.error is None
    last = ear.elements[-1]
    assert isinstance(last, TerminalEvent)
    assert (last.response.status, last.response.output_text) == ("completed", "".join(TEXT))
    assert [event.is_synthetic for event in ear.elements] == [number >= cut - 1 for number in range(len(ear.elements))]
    numbers = [event.sequence_number for event in ear.elements]
    assert all(after == before + 1 for before, after in pairwise(n for n in numbers if n is not None))
    address = f"GET /v1/responses/{last.response.id}".encode()
    assert asked[:3] == [b"POST /v1/responses", address + b"?stream=true&starting_after=%d" % (cut - 2), address]
    assert set(asked[3:]) <= {address}
