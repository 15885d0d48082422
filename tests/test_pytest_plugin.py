"""The pytest plugin: what its fixtures do for somebody else's tests, run by a pytest of their own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orx_rx import (
    Client,
    ConnectFailed,
    ConnectionLost,
    NotAnEventStream,
    StreamTimeout,
    final_response,
    read_cassette,
)
from orx_rx import operators as ops
from orx_rx.errors import status_error
from orx_rx.protocol.cassette import Cassette, Chunk, write_cassette
from orx_rx.simulator import Fault, Simulator
from orx_rx.testing import CassetteDeck, Mode, cassette_name, default_mode
from tests.conftest import ROOT
from tests.marbles import Trouble
from tests.servers import until
from tests.sources import Listener, Source, at_once

SETTINGS = ("ORX_", "OPENAI_", "PYTEST_", "CI", "COV_")
ALONE = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # no plugin but ours, not even one for event loops


def run(folder: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    """Run pytest in a folder, with our plugin and with warnings as errors."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pytest_orx_rx", "-p", "no:cacheprovider", "-W", "error", *arguments],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    return ran.returncode, ran.stdout + ran.stderr


STORY = """
import asyncio, os
import pytest
from orx_rx import Client, final_response, operators as ops

async def answer(orx_cassette, base_url):
    async with Client(base_url=base_url) as client:
        chunks = orx_cassette(client.chunks(model="json", input="x"))
        return await final_response(chunks.pipe(ops.frame(), ops.decode(), ops.lifecycle_guard()))

@pytest.mark.parametrize("name", ["a/b", "a?b"])
def test_asked(orx_cassette, orx_simulator, name):
    assert asyncio.run(answer(orx_cassette, orx_simulator.base_url)).status == "completed"
    assert len(orx_simulator.requests) == int(os.environ["EXPECTED"])

class TestMore:
    @pytest.mark.orx_simulator(api_key="a-key")
    def test_refused(self, orx_cassette, orx_simulator):
        with pytest.raises(Exception, match="401"):
            asyncio.run(answer(orx_cassette, orx_simulator.base_url))
        assert len(orx_simulator.requests) == int(os.environ["EXPECTED"])
"""

NAMES = ["TestMore.test_refused.jsonl", "test_asked[a%2Fb].jsonl", "test_asked[a%3Fb].jsonl"]


def test_a_cassette_is_recorded_once_and_replayed_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "test_story.py").write_text(STORY, "utf-8")
    folder = tmp_path / "cassettes" / "test_story"
    code, said = run(tmp_path, CI="true", EXPECTED="1", **ALONE)
    assert (code, folder.exists()) == (1, False)
    assert f"expected a cassette at {folder / NAMES[1]}, got none: record it with --orx-record=once" in said
    code, said = run(tmp_path, EXPECTED="1", **ALONE)
    assert code == 0, said
    assert sorted(path.name for path in folder.iterdir()) == NAMES
    before = {path: path.read_bytes() for path in folder.iterdir()}
    code, said = run(tmp_path, "--orx-record=none", EXPECTED="0", **ALONE)
    assert code == 0, said
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


ASYNC = """
from orx_rx import Client, final_response, operators as ops

async def test_asked(orx_cassette, orx_simulator):
    async with Client(base_url=orx_simulator.base_url) as client:
        chunks = orx_cassette(client.chunks(model="json", input="x"))
        await final_response(chunks.pipe(ops.frame(), ops.decode(), ops.lifecycle_guard()))
"""


def test_the_fixtures_serve_asynchronous_tests_and_the_folder_can_be_set(tmp_path: Path) -> None:
    pytest.importorskip("pytest_asyncio", reason="expected the package `pytest_asyncio`, found none")
    settings = "[pytest]\nasyncio_mode=auto\nasyncio_default_fixture_loop_scope=function\norx_cassettes=../tapes\n"
    (tmp_path / "pytest.ini").write_text(settings, "utf-8")
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "test_async.py").write_text(ASYNC, "utf-8")
    code, said = run(tmp_path, "--strict-config", "--strict-markers", "-p", "pytest_asyncio.plugin", **ALONE)
    assert code == 0, said
    assert read_cassette(tmp_path / "tapes" / "test_async" / "test_asked.jsonl").end == "complete"


LATER = """
import asyncio, os
import pytest
from orx_rx import Client, final_response, operators as ops
from orx_rx.simulator import Fault

async def answer(orx_cassette, simulator, method, faults=()):
    simulator.faults = faults if os.environ["STATE"] == "broken" else ()
    base_url = "http://127.0.0.1:9/v1" if os.environ["STATE"] == "down" else simulator.base_url
    async with Client(base_url=base_url) as client:
        chunks = orx_cassette(getattr(client, method)(model="json", input="x"))
        return await final_response(chunks.pipe(ops.frame(), ops.decode(), ops.lifecycle_guard()))

def test_ours(orx_cassette, orx_simulator):
    asyncio.run(answer(orx_cassette, orx_simulator, "chunks", [Fault("cut", after_events=3)]))

def test_theirs(orx_cassette, orx_simulator):
    asyncio.run(answer(orx_cassette, orx_simulator, "events" if os.environ["STATE"] == "broken" else "chunks"))

def test_asserted(orx_cassette, orx_simulator):
    asyncio.run(answer(orx_cassette, orx_simulator, "chunks"))
    assert os.environ["STATE"] != "broken"
"""


def test_a_test_that_failed_records_anew_when_its_trouble_is_over(tmp_path: Path) -> None:
    (tmp_path / "test_later.py").write_text(LATER, "utf-8")
    folder = tmp_path / "cassettes" / "test_later"
    for state, failed, kept in (
        ("down", 3, []),
        ("broken", 3, ["test_asserted.jsonl"]),  # a whole stream, whatever the test made of it
        ("up", 0, ["test_asserted.jsonl", "test_ours.jsonl", "test_theirs.jsonl"]),
        ("down", 0, ["test_asserted.jsonl", "test_ours.jsonl", "test_theirs.jsonl"]),
    ):
        code, said = run(tmp_path, STATE=state, **ALONE)
        assert (code, f"{failed} failed" in said, "error" in said.splitlines()[-1]) == (
            int(failed > 0),
            failed > 0,
            False,
        )
        assert sorted(path.name for path in folder.iterdir()) == kept


def test_whoever_does_not_use_the_plugin_does_not_pay_for_it(tmp_path: Path) -> None:
    program = "import sys\ndef test_it(): assert not {'orx_rx', 'aiohttp', 'reactivex', 'pydantic'} & {*sys.modules}\n"
    (tmp_path / "test_it.py").write_text(program, "utf-8")
    code, said = run(tmp_path, **ALONE)
    assert code == 0, said


def test_the_fixtures_say_what_they_are_for(tmp_path: Path) -> None:
    code, said = run(tmp_path, "--fixtures", "-v", **ALONE)
    assert code in (0, pytest.ExitCode.NO_TESTS_COLLECTED), said
    for words in ("Run a provider on loopback for one test", "Record the streams of one test the first time"):
        assert words in said


def test_the_test_suite_of_somebody_else_passes_without_network_and_key() -> None:
    code, said = run(ROOT / "examples" / "testing", CI="true", ORX_BASE_URL="http://127.0.0.1:9/v1", **ALONE)
    assert code == 0, said
    assert "3 passed" in said


# what the fixtures are made of


@pytest.mark.parametrize(
    ("environ", "mode"),
    [({}, "once"), ({"CI": ""}, "once"), ({"CI": "false"}, "once"), ({"CI": "true"}, "none"), ({"CI": "1"}, "none")],
)
def test_in_continuous_integration_nothing_is_recorded(environ: dict[str, str], mode: str) -> None:
    assert default_mode(environ) == mode


def test_the_names_of_cassettes_can_be_files_everywhere_and_differ() -> None:
    tests = ["test_a[x/y]", "test_a[x?y]", "test_a[x:y]", "T::test_a", "test_\u00e9", f"{'x' * 300}a", f"{'x' * 300}b"]
    names = [cassette_name(test) for test in tests]
    assert len(set(names)) == len(tests)
    assert max(map(len, names)) < 200
    assert not [name for name in names if set(name) & set('<>:"/\\|?*') or not name.isascii()]


def test_every_source_and_every_subscription_of_a_test_has_its_cassette(tmp_path: Path) -> None:
    path = tmp_path / "t[1].jsonl"
    deck = CassetteDeck(path)
    first, second = deck(at_once([b"a"], Trouble())), deck(at_once([b"b"], None))
    deck(at_once([b"c"], None))  # which nobody subscribes to
    for source in (first, first, second):
        Listener(source)
    deck.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["t[1]-2.jsonl", "t[1].2.jsonl", "t[1].jsonl"]
    unheard = Source[bytes]()
    deck = CassetteDeck(path, "none")
    first, second = deck(unheard.observable), deck(unheard.observable)
    assert [Listener(source).heard for source in (first, first, second)] == [[b"a"], [b"a"], [b"b"]]
    assert unheard.subscribed == 0
    assert [type(end) for end in Listener(first).ends] == [FileNotFoundError]  # it was subscribed to twice


def test_all_that_is_asked_for_is_recorded_again(tmp_path: Path) -> None:
    modes: list[Mode] = ["once", "all"]
    for mode in modes:
        deck = CassetteDeck(tmp_path / "x.jsonl", mode)
        assert Listener(deck(at_once([mode.encode()], None))).heard == [mode.encode()]
        deck.close()
    assert Listener(CassetteDeck(tmp_path / "x.jsonl")(at_once([], None))).heard == [b"all"]


def test_a_missing_or_damaged_cassette_is_told_where_it_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"expected a cassette at .+, got none"):
        CassetteDeck(tmp_path / "x.jsonl", "none")(at_once([], None))
    (tmp_path / "x.jsonl").write_text("{}\n", "utf-8")
    with pytest.raises(Exception, match="line 1 of a cassette"):
        CassetteDeck(tmp_path / "x.jsonl")(at_once([], None))


def test_a_cassette_of_a_stream_that_has_not_ended_is_not_kept(tmp_path: Path) -> None:
    deck, source = CassetteDeck(tmp_path / "more" / "x.jsonl"), Source[bytes]()
    listener = Listener(deck(source.observable))
    source.push(b"a")
    with pytest.raises(AssertionError, match=r"expected every stream to have ended .+ got one that had not: x\.jsonl"):
        deck.close()
    listener.leave()
    assert sys.platform == "win32" or not deck.path.exists()


TOLD_OFF = status_error(401)(401, "no")

RECORDINGS: list[tuple[str, list[bytes], Exception | None, bool, bool]] = [
    # what was recorded: its chunks, its end; whether it is kept where the test passed, and where it failed
    ("whole", [b"a"], None, True, True),
    ("broke off", [b"a"], ConnectionLost("gone"), True, False),
    ("refused", [], TOLD_OFF, True, False),
    ("of another kind", [], NotAnEventStream("text/html", b"<html>"), True, False),
    ("no server", [], ConnectFailed("no"), False, False),
    ("no clock", [], StreamTimeout("idle", 1), False, False),
    ("no element", [], None, False, False),
    ("no bytes", [], TypeError("no"), False, False),
]


@pytest.mark.parametrize("before", [None, b"old"], ids=["new", "anew"])
@pytest.mark.parametrize("passed", [True, False])
@pytest.mark.parametrize(
    ("name", "chunks", "end", "if_passed", "if_failed"), RECORDINGS, ids=[r[0] for r in RECORDINGS]
)
def test_only_what_somebody_answered_is_kept_and_of_a_test_that_failed_only_what_is_whole(
    tmp_path: Path,
    name: str,
    chunks: list[bytes],
    end: Exception | None,
    if_passed: bool,
    if_failed: bool,
    passed: bool,
    before: bytes | None,
) -> None:
    path = tmp_path / "x.jsonl"
    if before is not None:
        path.write_bytes(write_cassette(Cassette((Chunk(0.0, before),))))
    deck = CassetteDeck(path, "all")
    Listener(deck(at_once(chunks, end)))
    kept = if_passed if passed else if_failed
    if kept or not passed:
        deck.close(passed=passed)
    else:
        with pytest.raises(AssertionError, match=rf"^expected a chunk to record, got \w+: {path.name}$"):
            deck.close(passed=passed)
    there = {file.name: b"".join(chunk.data for chunk in read_cassette(file).chunks) for file in tmp_path.iterdir()}
    expected = b"".join(chunks) if kept else before
    assert there == ({} if expected is None else {"x.jsonl": expected})


def test_a_subscriber_that_left_leaves_a_cassette_if_the_test_passed(tmp_path: Path) -> None:
    for passed in (False, True):
        deck, source = CassetteDeck(tmp_path / "x.jsonl"), Source[bytes]()
        listener = Listener(deck(source.observable))
        source.push(b"a")
        listener.leave()
        deck.close(passed=passed)
        assert deck.path.exists() is passed
    assert read_cassette(deck.path).end == "left"


def test_an_old_cassette_that_nobody_answered_is_recorded_anew(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(write_cassette(Cassette((), end="error", error=ConnectFailed("no"))))
    with pytest.raises(AssertionError, match=r"expected a cassette at .+, got one without an answer: record it"):
        CassetteDeck(path, "none")(at_once([], None))
    deck = CassetteDeck(path)
    assert Listener(deck(at_once([b"a"], None))).heard == [b"a"]
    deck.close()
    assert read_cassette(path).body == b"a"


def test_what_a_process_that_died_left_is_no_part_of_the_next_recording(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    died = CassetteDeck(path)(at_once([b"a"], None))
    for _ in range(2):
        Listener(died)
    deck = CassetteDeck(path)
    Listener(deck(at_once([b"b"], None)))
    deck.close()
    assert [file.name for file in tmp_path.iterdir()] == ["x.jsonl"]


def test_a_simulator_in_a_thread_is_steered_and_watched_from_another() -> None:
    async def ask(base_url: str, model: str) -> str | None:
        async with Client(base_url=base_url) as client:
            return (await final_response(client.events(model=model, input="x"))).status

    with Simulator.in_thread(hold=3) as simulator:
        assert repr(simulator).startswith("ThreadedSimulator(base_url='http://127.0.0.1:")

        async def held() -> str | None:
            asking = asyncio.create_task(ask(simulator.base_url, "story"))
            await asyncio.to_thread(simulator.wait_for, lambda s: s.open_streams == 1)
            assert (simulator.open_streams, simulator.disconnects) == (1, 0)
            simulator.release()
            return await asking

        assert asyncio.run(held()) == "completed"
        (request,) = simulator.requests
        assert request.body is not None
        response_id = "resp_0001"
        assert simulator.status_of(response_id) == "completed"
        simulator.forget(response_id)
        assert simulator.status_of(response_id) is None
        steer: list[Callable[[str], None]] = [simulator.expire, simulator.forget]
        for act in steer:
            with pytest.raises(LookupError):
                act(response_id)
        simulator.faults = [Fault("refuse", kind="fin")]
        assert simulator.faults.faults[0].name == "refuse"
        with pytest.raises(TimeoutError):
            simulator.wait_for(lambda s: s.open_streams, timeout=0.01)
    for what in (lambda: simulator.base_url, simulator.release, lambda: simulator.wait_for(lambda s: True)):
        with pytest.raises(RuntimeError, match="expected a simulator that runs"):
            what()
    with pytest.raises(RuntimeError, match="once"), simulator:
        pass


def test_a_simulator_in_a_thread_that_cannot_listen_says_so() -> None:
    with Simulator.in_thread() as simulator:
        port = int(simulator.base_url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(OSError, match=str(port)), Simulator.in_thread(port=port):
            pass


def test_a_simulator_in_a_thread_breaks_its_streams_off_at_the_end() -> None:
    async def ask() -> None:
        with Simulator.in_thread(hold=3) as simulator:
            async with Client(base_url=simulator.base_url) as client:
                ears = Listener(client.chunks(model="story", input="x").pipe(ops.record(os.devnull)))
                await asyncio.to_thread(simulator.wait_for, lambda s: s.open_streams == 1)
                await until(lambda: bool(ears.heard))
                await asyncio.to_thread(simulator.__exit__, None, None, None)
                await until(lambda: bool(ears.ends))
                assert [type(end) for end in ears.ends] == [ConnectionLost]

    asyncio.run(ask())
