"""A real server that is not ours: fastresponses under uvicorn, with an adapter of ten lines."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from orx_rx import DEFAULT, STRICT, Client, Profile, Violation, final_response, iterate
from orx_rx import operators as ops

fastresponses: Any = pytest.importorskip("fastresponses", reason="fastresponses is not installed (group peers)")
uvicorn: Any = pytest.importorskip("uvicorn", reason="uvicorn is not installed (group peers)")

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from orx_rx.models import Event

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:uvicorn", "ignore::DeprecationWarning:websockets")

TEXT = ["The moon ", "is 384,400 km ", "away."]
THOUGHTS = ["Let me ", "think."]


class Adapter(fastresponses.AgentAdapter):  # type: ignore[misc]
    """Thinks and answers."""

    name = "test"
    default_model = "test"

    async def run(self, run: Any) -> AsyncGenerator[Any]:
        """Yield what the request's model names."""
        if run.request.model == "reasoning":
            for thought in THOUGHTS:
                yield fastresponses.ReasoningDelta(thought)
        for piece in TEXT:
            yield fastresponses.TextDelta(piece)
        yield fastresponses.UsageDelta(input_tokens=3, output_tokens=5, total_tokens=8)


@asynccontextmanager
async def served() -> AsyncGenerator[str]:
    """Run the server on a free port of loopback and give its base URL."""
    config = uvicorn.Config(fastresponses.create_app(Adapter()), port=0, log_config=None, lifespan="off", ws="none")
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
