"""Its tests: `pytest examples/testing` needs no key and no network, and no plugin for event loops."""

from __future__ import annotations

import asyncio

import pytest
from app import sentences, tell

from orx_rx import Client, iterate
from orx_rx.simulator import Fault, ThreadedSimulator
from orx_rx.testing import CassetteDeck


def told(simulator: ThreadedSimulator) -> tuple[str, str]:
    """Run the app, and tell what it showed and what it returned."""
    shown: list[str] = []

    async def main() -> str:
        async with Client(base_url=simulator.base_url) as client:
            ended: str = await tell(client, "Tell me one", shown.append)
            return ended

    return asyncio.run(main()), "".join(shown)


def test_an_answer_is_shown_to_its_end(orx_simulator: ThreadedSimulator) -> None:
    ended, shown = told(orx_simulator)
    assert ended == "completed"
    assert shown.startswith("You said “Tell me one”.")
    assert [request.body["model"] for request in orx_simulator.requests if request.body] == ["story"]


@pytest.mark.orx_simulator(chunk_bytes=7)
def test_a_disconnect_is_shown_and_nothing_is_asked_twice(orx_simulator: ThreadedSimulator) -> None:
    orx_simulator.faults = [Fault("cut", after_events=10, kind="rst")]
    ended, shown = told(orx_simulator)
    answer, _, rest = shown.partition(" [the line broke]")
    assert (ended, rest) == (f"broken off after {len(answer)} characters", "")
    assert len(orx_simulator.requests) == 1


def test_sentences_come_one_by_one(orx_cassette: CassetteDeck) -> None:
    async def main() -> list[str]:
        async with Client() as client:  # asked once, when the cassette was recorded
            chunks = orx_cassette(client.chunks(model="story", input="Tell me one"))
            async with iterate(sentences(chunks)) as reading:
                return [sentence async for sentence in reading]

    first, *more = asyncio.run(main())
    assert first == "You said “Tell me one”."
    assert len(more) > 1
