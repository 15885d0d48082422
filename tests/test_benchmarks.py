"""What the benchmarks measure is the same work for everybody, and what is published is what they measured.

What anything costs is never tested.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from benchmarks import fan_out, memory, startup
from benchmarks import operators as alone
from benchmarks import partial as reading_partly
from benchmarks.__main__ import NAMES, ORDER, RESULTS, keep, run
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
from benchmarks.harness import TINY, Promise, Suite, Table, draw, figure, interleaved, load, tabulate, times
from benchmarks.peers import CONTENDERS, LIMIT, OURS, TYPED_LIMIT, Read
from benchmarks.pipeline import FLOORS, check
from benchmarks.report import DOCS, PAGE, page, parts_of, plots
from benchmarks.workload import ARGUMENTS, SUMMARY, Workload, calls, heavy, told, words, workload
from orx_rx import operators


def made(name: str) -> Read:
    try:
        return CONTENDERS[name]()
    except ImportError as error:
        pytest.skip(f"{name} is not installed: {error}")


@pytest.mark.parametrize("chunk_size", [None, 100, 64 * 1024])
@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_reads_every_event_and_the_whole_text(name: str, chunk_size: int | None) -> None:
    stream = workload(20, chunk_size)
    assert made(name)(stream) == (stream.events, stream.text)


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


@pytest.mark.parametrize(
    "stream",
    [told(words(5), 100, ARGUMENTS), told(words(5), None, SUMMARY), calls(3, 1460), heavy(5000, 1460)],
    ids=["arguments", "reasoning", "calls", "a long frame"],
)
@pytest.mark.parametrize("name", CONTENDERS)
def test_every_contender_reads_every_kind_of_stream(name: str, stream: Workload) -> None:
    check(name, made(name), stream)


@pytest.mark.parametrize("name", [name for name in CONTENDERS if name not in (LIMIT, TYPED_LIMIT)])
def test_every_contender_but_the_limits_reads_crlf(name: str) -> None:
    check(name, made(name), workload(5, 100).with_crlf())


def test_every_other_client_has_a_floor() -> None:
    ours = {name for name in CONTENDERS if name.startswith("orx_rx")}
    assert OURS in ours
    assert set(FLOORS) == set(CONTENDERS) - ours - {TYPED_LIMIT}


IN_PROCESS = [name for name in NAMES if name not in ("memory", "startup", "loopback", "resume")]


@pytest.mark.parametrize("name", IN_PROCESS)
def test_every_benchmark_runs(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    tables: list[Table] = module.tables(TINY)
    assert module.TITLE
    assert tables
    for table in tables:
        assert table.baseline in table.rows
        assert set(table.promises) <= set(table.rows)
        assert {len(cells) for cells in table.rows.values()} == {len(table.columns)}
        assert draw(table)


def test_every_benchmark_has_its_place_in_the_order() -> None:
    files = {file.stem for file in RESULTS.parent.glob("*.py") if "\nTITLE = " in file.read_text(encoding="utf-8")}
    assert files == set(NAMES)


@pytest.mark.parametrize("name", memory.KEEPING)
def test_everybody_who_keeps_events_keeps_all_of_them(name: str) -> None:
    try:
        assert memory.taken(name, 5) > 0
    except ImportError as error:
        pytest.skip(f"{name} is not installed: {error}")


@pytest.mark.parametrize("name", startup.STEPS)
def test_everybody_who_starts_gets_to_the_last_step(name: str) -> None:
    if name in startup.PACKAGES:
        pytest.importorskip(startup.PACKAGES[name])
    exec("\n".join(startup.STEPS[name]), {})


def test_every_operator_is_measured_alone() -> None:
    assert set(alone.CASES) - {alone.NOTHING, alone.RX_MAP} == set(operators.__all__)


def test_an_operator_that_loses_an_element_is_found_out() -> None:
    with pytest.raises(ValueError, match="expected 4 elements behind fan_out, got 3"):
        alone.drive("fan_out", range(3), 4)


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
    table = tabulate("Title", "µs", QUEUE, {"case": measured})
    assert [line.split() for line in draw(table).splitlines()] == [
        ["Title"],
        ["µs", "case"],
        [QUEUE, "2.00", "(1.50", "to", "3.00)"],
        ["twice", "4.00", "(3.00", "to", "6.00)"],
        [],
        ["times", QUEUE, "case"],
        [QUEUE, "1"],
        ["twice", "2"],
    ]


@pytest.mark.parametrize(
    ("promise", "ratio", "verdict"),
    [
        (Promise(2, 4), 1.9, "missed"),
        (Promise(2, 4), 2, "kept"),
        (Promise(2, 4), 4, "goal"),
        (Promise(2), 9, "kept"),
        (Promise(1.15, most=True), 1.2, "missed"),
        (Promise(1.15, 1, most=True), 1.1, "kept"),
        (Promise(1.15, 1, most=True), 1, "goal"),
        (Promise(100, about="cost", most=True), 1000, "kept"),
    ],
)
def test_a_promise_is_missed_kept_or_better(promise: Promise, ratio: float, verdict: str) -> None:
    assert promise.verdict(ratio, cost=99) == verdict


@pytest.mark.parametrize(
    ("value", "written"), [(0.1234, "0.123"), (1.234, "1.23"), (12.34, "12.3"), (123.4, "123"), (1234.5, "1,234")]
)
def test_a_figure_has_about_three_digits(value: float, written: str) -> None:
    assert figure(value) == written


@pytest.mark.parametrize(("ratio", "written"), [(0.25, "1/4"), (0.9, "0.9"), (12.34, "12.3"), (1234.5, "1,234")])
def test_a_small_ratio_is_written_as_a_fraction(ratio: float, written: str) -> None:
    assert times(ratio) == written


def test_a_benchmark_that_fails_harms_no_other(tmp_path: Path) -> None:
    assert run("none_of_this_name", True, tmp_path / "none.json") is None


def test_results_stay_as_long_as_machine_and_versions_do(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    suites = {name: Suite(name, "2026-01-31", True, []) for name in ("memory", "pipeline")}
    for name in suites:
        keep({name: suites[name]}, file)
    assert list(load(file).suites) == ["pipeline", "memory"]
    file.write_text(file.read_text(encoding="utf-8").replace('"machine": "', '"machine": "another '), encoding="utf-8")
    keep({"memory": suites["memory"]}, file)
    assert list(load(file).suites) == ["memory"]


def test_the_page_is_what_the_report_makes_of_the_results() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, load(RESULTS)) == text, "run python -m benchmarks.report"
    assert set(parts_of(text)) == {"about", "expect", *ORDER}


def test_the_plots_are_what_the_report_makes_of_the_results() -> None:
    drawn = plots(load(RESULTS))
    files = {file.name: file.read_text(encoding="utf-8") for file in DOCS.glob("_static/performance-*.svg")}
    assert files == drawn, "run python -m benchmarks.report"


def test_the_page_says_what_was_not_measured() -> None:
    results = replace(load(RESULTS), suites={})
    assert page("<!-- measured: memory -->\nold\n<!-- end -->", results) == (
        "<!-- measured: memory -->\n\nNot measured: `python -m benchmarks memory`\n\n<!-- end -->"
    )
