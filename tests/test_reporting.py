"""Where violations and failures are told: to a listener and to the logger `orx_rx`, and to nobody who did not ask."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pytest
import structlog
from reactivex import Observer, Subject

from orx_rx import operators as ops
from orx_rx.protocol.violations import DEFAULT, RULES, Claim, Judge, Profile, Violation
from orx_rx.reporting import judges, log
from tests.chain import Payload, added, created, delta, events, sse, terminal
from tests.sources import Listener, at_once

SECRET = "sk-secret and what nobody but the user may read"


@pytest.fixture
def configured() -> Iterator[None]:
    """Let a test configure structlog, and take it back."""
    yield
    structlog.reset_defaults()


def report(judge: Judge, code: str = "sequence_gap", message: str = "expected 1, got 3", **place: Any) -> Violation:
    judge.found(code, message, **place)
    return judge.reported[-1]


# silence


PROGRAM = """
import logging
from orx_rx.reporting import judges, log

{setup}
judges()().found("sequence_gap", "expected 1, got 3")
log.error("a subscriber raised and was detached", error="ValueError", exc_info=ValueError("x"))
"""


def said_by(setup: str) -> str:
    ran = subprocess.run([sys.executable, "-c", PROGRAM.format(setup=setup)], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


def test_an_application_that_configures_nothing_hears_nothing() -> None:
    assert said_by("") == ""


def test_an_application_that_configures_structlog_alone_hears_nothing() -> None:
    assert said_by("import structlog; structlog.configure(processors=[structlog.processors.JSONRenderer()])") == ""


def test_an_application_that_configures_logging_hears_it() -> None:
    said = said_by("logging.basicConfig(format='%(levelname)s %(name)s %(message)s')")
    first, second, *traceback = said.splitlines()
    assert first == "WARNING orx_rx violation code=sequence_gap profile=DEFAULT"
    assert second == "ERROR orx_rx a subscriber raised and was detached error=ValueError"
    assert traceback == ["ValueError: x"]


def test_the_level_of_the_logger_counts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "orx_rx")
    report(judges()())
    assert caplog.records == []
    log.error("something")
    assert [record.getMessage() for record in caplog.records] == ["something"]


# records


def test_a_record_reads_well_and_carries_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    (event,) = events({"type": "response.output_text.delta", "sequence_number": 7, "delta": SECRET, **placed()})
    report(judges()(), "part_not_open", f"expected a part, got {SECRET}", event=event, place="output[0].content[1]")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("orx_rx", "WARNING")
    assert record.getMessage() == (
        "violation code=part_not_open sequence_number=7 event_type=response.output_text.delta"
        " place=output[0].content[1] profile=DEFAULT"
    )
    assert vars(record)["orx_rx"] == {
        "code": "part_not_open",
        "sequence_number": 7,
        "event_type": "response.output_text.delta",
        "place": "output[0].content[1]",
        "profile": "DEFAULT",
    }


def placed() -> Payload:
    return {"output_index": 0, "content_index": 1}


def test_what_is_not_known_is_left_out_of_the_message_and_kept_among_the_fields(
    caplog: pytest.LogCaptureFixture,
) -> None:
    report(judges()())
    (record,) = caplog.records
    assert record.getMessage() == "violation code=sequence_gap profile=DEFAULT"
    assert vars(record)["orx_rx"]["sequence_number"] is None


def test_a_percent_sign_is_no_format(caplog: pytest.LogCaptureFixture) -> None:
    log.warning("100 %s", place="50 %d")
    assert [record.getMessage() for record in caplog.records] == ["100 %s place=50 %d"]


def test_a_name_that_a_server_makes_up_does_not_look_like_a_record(caplog: pytest.LogCaptureFixture) -> None:
    report(judges()(), event=Claim("x\nERROR orx_rx forged"))
    assert [record.getMessage() for record in caplog.records] == [
        r"violation code=sequence_gap event_type='x\nERROR orx_rx forged' profile=DEFAULT"
    ]


@pytest.mark.usefixtures("configured")
def test_the_configuration_of_structlog_does_not_matter(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> NoReturn:
        raise AssertionError("expected the configuration of the application to be left alone, got used")

    deaf = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(processors=[fail], wrapper_class=deaf, logger_factory=fail)
    report(judges()())
    log.bind(attempt=2).info("told", response_id="resp_a")
    caplog.set_level(logging.INFO, "orx_rx")
    log.bind(attempt=2).info("told", response_id="resp_a")
    assert [record.getMessage() for record in caplog.records] == [
        "violation code=sequence_gap profile=DEFAULT",
        "told attempt=2 response_id=resp_a",
    ]


def test_no_violation_of_a_bent_stream_puts_its_content_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "orx_rx")
    everything = Profile("everything", dict.fromkeys(RULES, "report"))
    body = sse(
        created(instructions=SECRET),
        delta(SECRET),
        added({"type": "function_call", "id": SECRET, "call_id": SECRET, "name": SECRET, "arguments": SECRET}),
        {"type": "response.output_text.done", "text": SECRET[1:], "output_index": 0, "content_index": 0},
        {"type": "error", "message": SECRET, "code": SECRET},
        terminal("failed", error={"message": SECRET}),
    )
    body += f"data: {SECRET}\n\n".encode()
    listener = Listener(
        at_once([body], None).pipe(
            ops.frame(),
            ops.decode(profile=everything),
            ops.sequence_check(profile=everything),
            ops.lifecycle_guard(profile=everything),
            ops.accumulate(profile=everything),
        )
    )
    assert len(caplog.records) >= 5
    assert not [record for record in caplog.records if SECRET in f"{record.getMessage()} {vars(record)}"]
    assert len(listener.heard) >= 5


# listeners


class Keeper(Observer[Violation]):
    """An observer that keeps what it hears."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Violation] = []

    def _on_next_core(self, value: Violation) -> None:
        self.heard.append(value)


def test_a_function_hears_of_what_is_reported() -> None:
    heard: list[Violation] = []
    assert [report(judges(DEFAULT, heard.append)())] == heard


def test_an_observer_hears_of_what_is_reported_and_of_no_end() -> None:
    keeper = Keeper()
    assert [report(judges(DEFAULT, keeper)())] == keeper.heard
    assert not keeper.is_stopped


def test_a_subject_hears_of_what_is_reported() -> None:
    subject = Subject[Violation]()
    listener = Listener(subject)
    assert [report(judges(DEFAULT, subject)())] == listener.heard


def test_what_is_raised_or_ignored_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Violation] = []
    profile = DEFAULT.but(sequence_gap="ignore", sequence_repeated="raise")
    judge = judges(profile, heard.append)()
    judge.found("sequence_gap", "expected 1, got 3")
    with pytest.raises(RULES["sequence_repeated"].error):
        judge.found("sequence_repeated", "expected 2, got 1 again")
    assert (heard, caplog.records) == ([], [])


def test_every_subscription_has_a_judge_of_its_own() -> None:
    judge = judges()
    first, second = judge(), judge()
    report(first)
    assert (len(first.reported), len(second.reported)) == (1, 0)


@pytest.mark.parametrize("error", [ValueError("of the listener"), asyncio.CancelledError()])
def test_a_listener_that_raises_is_logged_and_harms_nobody(
    caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def listener(_: Violation) -> None:
        raise error

    judge = judges(DEFAULT, listener)()
    report(judge)
    report(judge)
    assert len(judge.reported) == 2
    messages = [record.getMessage() for record in caplog.records]
    assert messages[1::2] == ["a violation listener raised code=sequence_gap"] * 2
    assert caplog.records[1].exc_info is not None
    assert caplog.records[1].exc_info[1] is error


def test_an_interrupt_of_the_program_goes_through_a_listener() -> None:
    def listener(_: Violation) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        report(judges(DEFAULT, listener)())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: judges("STRICT"), "a profile, such as DEFAULT, got 'STRICT'"),  # type: ignore[arg-type]
        (lambda: judges(DEFAULT, 3), "on_violation to be a function or an observer, got 3"),  # type: ignore[arg-type]
        (lambda: judges(on_violation=[]), "on_violation to be a function or an observer, got"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_listener_or_profile_is_refused_at_once(make: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError, match=f"^expected {message}"):
        make()
