"""What the benchmark measures is the same work for everybody. What it costs is never tested."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

import pytest

from benchmarks import fan_out
from benchmarks import partial as reading_partly
from benchmarks.fan_out import (
    HANDING,
    JOINING,
    LOOP,
    QUEUE,
    SHARING,
    Push,
    Subscriber,
    hand_over,
    join_late,
    share,
)
from benchmarks.harness import draw, interleaved, tabulate
from benchmarks.peers import CONTENDERS, OURS, Read
from benchmarks.pipeline import FLOORS, check
from benchmarks.workload import workload


def made(name: str) -> Read:
    try:
        return CONTENDERS[name]()
    except ImportError as error:
        pytest.skip(f"{name} is not installed: {error}")


@pytest.mark.parametrize("chunk_size", [None, 100, 64 * 1024])
@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_reads_every_event_and_the_whole_text(name: str, chunk_size: int | None) -> None:
    stream = workload(20, chunk_size)
    assert made(name)(stream.chunks) == (stream.events, stream.text)


@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_reads_one_stream_after_another(name: str) -> None:
    read = made(name)
    for deltas in (3, 1, 2):
        check(name, read, workload(deltas, None))


def test_a_contender_that_skips_an_event_is_found_out() -> None:
    stream = workload(5, None)
    with pytest.raises(ValueError, match=r"expected us to read 13 events .* got 12 events"):
        check("us", lambda _: (stream.events - 1, stream.text), stream)


@pytest.mark.parametrize("chunk_size", [None, 1, 7, 1460])
def test_a_stream_is_the_same_however_it_is_cut(chunk_size: int | None) -> None:
    assert b"".join(workload(5, chunk_size).chunks) == b"".join(workload(5, 64 * 1024).chunks)


def test_every_other_contender_has_a_floor() -> None:
    assert set(FLOORS) == set(CONTENDERS) - {OURS}


@pytest.mark.parametrize("subscribers", [1, 3])
@pytest.mark.parametrize("name", SHARING)
def test_every_way_to_share_gives_every_subscriber_every_element(name: str, subscribers: int) -> None:
    assert share(SHARING[name], subscribers, range(20)) >= 0


@pytest.mark.parametrize("name", JOINING)
def test_every_way_to_keep_a_history_gives_all_of_it_to_who_comes_late(name: str) -> None:
    assert join_late(JOINING[name], range(20)) >= 0


@pytest.mark.parametrize("name", HANDING)
async def test_every_way_to_hand_over_gives_the_consumer_what_it_should_get(name: str) -> None:
    assert await hand_over(name, fan_out.deltas(250)) >= 0


@pytest.mark.parametrize("name", reading_partly.READING)
async def test_every_way_to_read_an_object_partly_reads_the_whole_in_the_end(name: str) -> None:
    entries = reading_partly.made(20)
    stream = reading_partly.stream_of(entries)
    assert await reading_partly.read(name, stream, entries) >= 0
    with pytest.raises(ValueError, match=f"^expected {re.escape(name)} to read 21 entries, got something else"):
        await reading_partly.read(name, stream, reading_partly.made(21))


def test_a_way_to_share_that_loses_an_element_is_found_out() -> None:
    def careless(subscribers: Sequence[Subscriber]) -> Push:
        push = SHARING[LOOP](subscribers)
        return lambda elements: push(elements[1:])

    with pytest.raises(ValueError, match="expected a subscriber to get 20 elements, got 19"):
        share(careless, 1, range(20))


def test_ratios_are_by_round() -> None:
    costs = {QUEUE: iter([9.0, 1.0, 2.0, 4.0]), "twice": iter([9.0, 2.0, 4.0, 8.0])}
    runs = {name: partial(next, its) for name, its in costs.items()}
    measured = interleaved(runs, QUEUE, 3)
    assert {name: (one.rounds, one.ratio) for name, one in measured.items()} == {
        QUEUE: ([1.0, 2.0, 4.0], 1.0),
        "twice": ([2.0, 4.0, 8.0], 2.0),
    }
    table = tabulate("Title", "us", QUEUE, {"case": measured})
    assert [line.split() for line in draw(table).splitlines()] == [
        ["Title"],
        ["us", "case"],
        [QUEUE, "2.00", "(1.50", "to", "3.00)"],
        ["twice", "4.00", "(3.00", "to", "6.00)"],
        [],
        ["times", QUEUE, "case"],
        [QUEUE, "1"],
        ["twice", "2"],
    ]
