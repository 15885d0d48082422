"""What the benchmark measures is the same work for everybody. What it costs is never tested."""

from __future__ import annotations

import pytest

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
