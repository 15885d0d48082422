"""What the benchmarks over a socket measure is the same work for everybody. What it costs is never tested."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks import loopback
from benchmarks.clients import CLIENTS, OURS, Heard
from benchmarks.harness import FULL
from benchmarks.loopback import MANY, SINGLE, SLOW, Case
from benchmarks.reading import Reading, check, read_streams
from benchmarks.resume import BREAKS, reader
from benchmarks.server import serving, writes
from benchmarks.workload import workload

DELTAS = 30
NOTHING = Case("no-such-mode", DELTAS)
MODES = sorted({case.mode for case in (SINGLE | SLOW | MANY).values()})


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as address:
        yield address


@pytest.mark.parametrize("mode", MODES)
def test_every_way_to_write_is_the_same_stream(mode: str) -> None:
    written = b"".join(writes(mode, DELTAS, False, 0, None))
    read = b""
    while written:
        size, _, written = written.partition(b"\r\n")
        read, written = read + written[: int(size, 16)], written[int(size, 16) + 2 :]
    assert read == b"".join(workload(DELTAS, None).chunks)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CLIENTS)
async def test_every_client_reads_every_event_and_the_whole_text(address: str, name: str, mode: str) -> None:
    try:
        reading = await read_streams(name, f"{address}/{mode}/{DELTAS}/v1", DELTAS, 3)
    except ImportError as error:
        pytest.skip(f"{name} is not installed: {error}")
    assert not reading.errors
    assert reading.cpu > 0


@pytest.mark.parametrize("name", [OURS, "limit: aiohttp (bytes)"])
async def test_a_client_that_reads_something_else_is_found_out(address: str, name: str) -> None:
    with pytest.raises(ValueError, match=r"^expected "):
        await read_streams(name, f"{address}/coalesced/{DELTAS}/v1", DELTAS + 1, 1)


def test_a_text_that_was_accumulated_wrongly_is_found_out() -> None:
    stream, heard = workload(1, None), Heard()
    heard.events, heard.pieces = stream.events, [stream.text]
    check(heard, stream)
    heard.final = "something else"
    with pytest.raises(ValueError, match=r"^expected 9 events"):
        check(heard, stream)


def test_a_client_runs_in_a_process_of_its_own(address: str) -> None:
    reading = loopback.read(OURS, address, Case("frame", DELTAS, 2))
    assert isinstance(reading, Reading)
    assert min(reading.cpu, reading.wall, reading.first) > 0


def test_who_fails_or_does_not_get_through_is_told_and_not_waited_for(address: str) -> None:
    assert "NotAnEventStream: expected" in str(loopback.read(OURS, address, NOTHING))
    assert loopback.read(OURS, address, NOTHING, patience=0.01) == "did not get through in 0.01 seconds"


def test_ours_has_to_get_through(address: str) -> None:
    with pytest.raises(RuntimeError, match=r"^expected orx_rx, events to read everything, got: .*NotAnEventStream"):
        loopback.interleaved(address, "a title", NOTHING, [OURS], FULL.rounds)


@pytest.mark.parametrize("name", BREAKS)
def test_a_stream_that_breaks_off_is_read_to_its_end_with_one_post(address: str, name: str) -> None:
    assert reader(address, "frame", name)() > 0
