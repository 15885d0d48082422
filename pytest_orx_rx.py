"""The pytest plugin of orx_rx: a provider on loopback, and cassettes of real streams, as fixtures.

It is there wherever orx_rx is installed, and imports nothing of it before a test asks for a fixture. That is why this
module stands beside the package: whatever is inside imports the package first.

    --orx-record=once|none|all    when `orx_cassette` records: what is missing (the default), never (the default where
                                  the environment says CI), or always
    orx_cassettes                 in the configuration: the folder for cassettes, beside the file of the test unless
                                  absolute; `cassettes` by default
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from orx_rx.simulator import ThreadedSimulator
    from orx_rx.testing import CassetteDeck


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the setting."""
    parser.getgroup("orx_rx").addoption(
        "--orx-record",
        choices=("once", "none", "all"),
        default=None,
        help="when orx_cassette records: what is missing, never (default in CI), or always",
    )
    parser.addini("orx_cassettes", "the folder for cassettes, beside the file of the test", default="cassettes")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", "orx_simulator(**options): options of the simulator that the fixture orx_simulator runs"
    )


_PASSED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Note whether a test has passed, for what becomes of its cassettes; the report is made by others."""
    item.stash[_PASSED] = call.when == "call" and call.excinfo is None


@pytest.fixture
def orx_simulator(request: pytest.FixtureRequest) -> Iterator[ThreadedSimulator]:
    """Run a provider on loopback for one test, in a thread of its own, so that no plugin for event loops is needed.

    `base_url` is where it listens, `requests` is what came, `faults` can be set to what is to go wrong::

        @pytest.mark.orx_simulator(pace=0.01)
        async def test_a_disconnect_is_told(orx_simulator):
            orx_simulator.faults = [Fault("cut", after_events=5)]
            async with Client(base_url=orx_simulator.base_url) as client: ...

    The marker takes the options of `orx_rx.simulator.Simulator`, such as `scenarios`, `cassettes` or `api_key`.
    """
    from orx_rx.simulator import Simulator

    marker = request.node.get_closest_marker("orx_simulator")
    with Simulator.in_thread(**(marker.kwargs if marker else {})) as simulator:
        yield simulator


@pytest.fixture
def orx_cassette(request: pytest.FixtureRequest) -> Iterator[CassetteDeck]:
    """Record the streams of one test the first time, and replay them from then on.

    The test wraps the source of its pipeline::

        async def test_the_story_is_told(orx_cassette):
            chunks = orx_cassette(client.chunks(model="gpt-5", input="Tell me one"))
            response = await final_response(chunks.pipe(ops.frame(), ops.decode(), ops.lifecycle_guard()))

    The cassette lies beside the file of the test, as `cassettes/<module>/<test>.jsonl`, and belongs into the
    repository. Secrets are not in it; questions and answers are. What a test that failed got is kept only if it is a
    whole stream, and a recording without a chunk never is.
    """
    from orx_rx.testing import CassetteDeck, cassette_name, default_mode

    file, test = request.path, request.node.nodeid.partition("::")[2]
    folder = file.parent / Path(str(request.config.getini("orx_cassettes")), file.stem)
    deck = CassetteDeck(folder / cassette_name(test), request.config.getoption("--orx-record") or default_mode(), _fail)
    yield deck
    deck.close(passed=request.node.stash.get(_PASSED, False))


def _fail(message: str) -> NoReturn:
    pytest.fail(message, pytrace=False)
