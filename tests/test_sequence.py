"""Sequence numbers: what counts as missing, as a gap, as a repeat, and as going backwards."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orx_rx.errors import ConnectionLost, SequenceViolation
from orx_rx.models.event_base import Event
from orx_rx.models.stream_events import StreamEnd
from orx_rx.protocol.sequence import SequenceChecker
from orx_rx.protocol.violations import DEFAULT, QUIET, STRICT, Judge, Profile
from tests.chain import Payload, delta, events, failing, keepalive, only


def deltas(*numbers: int | None) -> list[Event]:
    """A delta of its own text for every number."""
    return events(*({**delta(f"piece {place}"), "sequence_number": number} for place, number in enumerate(numbers)))


def check(stream: list[Event], profile: Profile = DEFAULT) -> tuple[list[Event], list[str], SequenceViolation | None]:
    """What passes, what is reported, and what is raised."""
    told: list[str] = []
    judge = Judge(profile, lambda violation: told.append(f"{violation.code}: {violation.message}"))
    checker = SequenceChecker(judge)
    passed: list[Event] = []
    try:
        for event in stream:
            passed += checker.feed(event)
        passed += checker.end()
    except SequenceViolation as error:
        return passed, told, error
    return passed, told, None


MISSING = "sequence_missing: expected a sequence number, got none"


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ([], []),
        ([0, 1, 2], []),
        ([7, 8, 9], []),  # a resumed stream
        ([-1, 0], []),  # nobody says that they begin at 0
        ([None, None, None], [MISSING]),  # once is enough
        ([None, 1, 2], [MISSING]),  # zero was left out
        ([0, None, 2, None, 4], [MISSING]),  # what has no number takes a place
        ([0, None, None, 3], [MISSING]),
        ([0, 3], ["sequence_gap: expected sequence number 1, got 3: 2 missing"]),
        ([0, 4, 24, 54], [f"sequence_gap: expected sequence number {a + 1}, got {b}: {b - a - 1} missing"
                          for a, b in ((0, 4), (4, 24), (24, 54))]),
        ([0, None, 5], [MISSING, "sequence_gap: expected sequence number 1, got 5: 4 missing"]),
        ([None, 4, 9], [MISSING, "sequence_gap: expected sequence number 5, got 9: 4 missing"]),
        ([0, None, 2, 5], [MISSING, "sequence_gap: expected sequence number 3, got 5: 2 missing"]),
    ],
)  # fmt: skip
def test_every_event_passes_and_what_is_odd_is_told(numbers: list[int | None], told: list[str]) -> None:
    stream = deltas(*numbers)
    assert check(stream) == (stream, told, None)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([0, 1, 0], "sequence_backward: expected a sequence number above 1, got 0"),
        ([0, 2, 1], "sequence_backward: expected a sequence number above 2, got 1"),
        ([0, 1, 1], "sequence_backward: expected a sequence number above 1, got 1"),  # another event with its number
        ([7, 6], "sequence_backward: expected a sequence number above 7, got 6"),
    ],
)
def test_a_number_that_goes_back_ends_the_stream(numbers: list[int | None], message: str) -> None:
    stream = deltas(*numbers)
    passed, _, error = check(stream)
    assert passed == stream[:-1]
    assert error is not None
    assert message in str(error)
    assert error.violations[-1].sequence_number == numbers[-1]


def test_an_event_that_comes_twice_is_told_and_dropped() -> None:
    first, second = deltas(0, 1)
    passed, told, error = check([first, second, second, second, *deltas(None, None, 2)[2:]])
    assert [event.sequence_number for event in passed] == [0, 1, 2]
    assert told == ["sequence_repeated: expected sequence number 2, got 1 again"] * 2
    assert error is None


def test_an_event_that_comes_twice_breaks_a_rule_of_the_letter() -> None:
    first = deltas(0)
    _, _, error = check(first * 2, STRICT)
    assert error is not None
    assert error.violations[-1].code == "sequence_repeated"


def test_a_repeat_that_may_be_ignored_is_dropped_all_the_same() -> None:
    assert check(deltas(0) * 2, QUIET) == (deltas(0), [], None)


def test_equal_texts_with_numbers_of_their_own_are_no_repeat() -> None:
    stream = events(delta("ha"), delta("ha"), delta("ha"))
    assert check(stream, STRICT) == (stream, [], None)


def test_equal_events_without_numbers_are_no_repeat() -> None:
    stream = events(*[{**delta("ha"), "sequence_number": None}] * 3)
    assert check(stream) == (stream, [MISSING], None)


def test_a_number_that_went_back_does_not_move_the_count() -> None:
    stream = deltas(0, 5, 3, 6)
    passed, told, error = check(stream, only("sequence_gap", "report"))
    assert passed == stream
    assert told == ["sequence_gap: expected sequence number 1, got 5: 4 missing"]
    assert error is None


@pytest.mark.parametrize("stranger", [keepalive(), {"type": "x:note"}])
def test_what_is_out_of_band_counts(stranger: Payload) -> None:
    stream = events(delta("a"), stranger, delta("b"))
    assert check(stream, STRICT) == (stream, [], None)
    with_gap = [stream[0], stream[2]]
    assert check(with_gap)[1] == ["sequence_gap: expected sequence number 1, got 2: 1 missing"]


def test_an_error_of_the_server_is_not_hidden_by_its_missing_number() -> None:
    stream = events({**failing(), "sequence_number": None})
    assert check(stream, STRICT) == (stream, [], None)


def test_what_decoding_says_of_the_end_has_no_number() -> None:
    end = StreamEnd(done=True)
    assert check([*deltas(0), end], STRICT) == ([*deltas(0), end], [], None)
    assert check([end], STRICT) == ([end], [], None)


def test_an_error_that_passes_takes_the_violations_along() -> None:
    checker = SequenceChecker()
    for event in deltas(0, 9):
        checker.feed(event)
    lost = ConnectionLost("reset")
    with pytest.raises(ConnectionLost) as caught:
        checker.fail(lost)
    assert caught.value is lost
    assert [violation.code for violation in lost.violations] == ["sequence_gap"]


@settings(deadline=None)
@given(st.sets(st.integers(0, 60)).map(sorted))
def test_numbers_that_increase_pass_and_every_hole_is_told_once(numbers: list[int]) -> None:
    stream = deltas(*numbers)
    holes = sum(after - before > 1 for before, after in pairwise(numbers))
    passed, told, error = check(stream)
    assert (passed, len(told), error) == (stream, holes, None)


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(0, 8)))
def test_nothing_is_lost_but_repeats(numbers: list[int | None]) -> None:
    stream = deltas(*numbers)  # every event has a text of its own, so none of them is a repeat
    assert check(stream, QUIET) == (stream, [], None)
