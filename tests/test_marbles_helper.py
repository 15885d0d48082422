"""The pictures themselves: what is drawn is what happens, in the column in which it happens."""

from __future__ import annotations

from typing import Any

import pytest
import reactivex
from reactivex import operators as rx

from tests.marbles import Trouble, draw, marks_of


def same(element: Any) -> Any:
    return element


def tenfold(number: int) -> int:
    return number * 10


def threefold(letter: str) -> str:
    return letter * 3


@pytest.mark.parametrize(
    "source",
    ["-", "|", "#", "a|", "-a-b-|", "--(ab)--c-|", "(ab|)", "---(a#)", "--a--b--", "-(ab)(cd)(e|)"],
)
def test_what_passes_is_drawn_as_it_is(source: str) -> None:
    passing = draw(rx.map(same), source)
    assert passing.replace("Trouble", "") == source


def test_a_picture_is_read_by_columns() -> None:
    assert list(marks_of("-a(bc)--|")) == [(1, "a"), (2, "b"), (2, "c"), (8, "|")]


def test_time_is_drawn() -> None:
    assert draw(rx.delay(3.0), "-a--b------|") == "----a--b------|"


def test_letters_stand_for_values_on_both_sides() -> None:
    values = {"a": 1, "b": 2, "x": 10, "y": 20}
    assert draw(rx.map(tenfold), "-a-b-|", values) == "-x-y-|"


def test_values_are_told_by_identity_before_equality() -> None:
    one, other = [1], [1]
    assert draw(rx.map(same), "-a-b-|", {"a": one, "b": other}) == "-a-b-|"


def test_what_has_no_letter_is_spelled() -> None:
    assert draw(rx.map(threefold), "-a---b---|") == "-aaa-bbb-|"
    assert draw(rx.map(len), "-a---b---|", spell=lambda size: f"<{size}>") == "-<1>-<1>-|"


def test_errors_are_drawn_with_their_class() -> None:
    def refuse(_: Any) -> Any:
        raise LookupError("expected another letter")

    assert draw(rx.map(refuse), "--a--|") == "--#LookupError"
    assert draw(rx.map(str), "--a--#") == "--a--#Trouble"
    assert draw(rx.map(str), "--a--#", error=OSError()) == "--a--#OSError"


def test_the_class_of_an_error_counts_where_rx_compares_only_messages() -> None:
    assert draw(rx.map(str), "-#", error=OSError("x")) != draw(rx.map(str), "-#", error=Trouble("x"))


def test_what_does_not_end_is_drawn_as_long_as_its_source() -> None:
    assert draw(rx.concat(reactivex.never()), "-a-|") == "-a--"


def test_a_picture_ends_where_the_subscriber_leaves() -> None:
    assert draw(rx.map(str), "-a-b-c-|", leave=4) == "-a-b"


def test_everybody_who_joins_has_a_line() -> None:
    assert draw(rx.map(str), "-a-b-|", joins=(0, 3)) == "-a-b-|\n   -a-b-|"


def test_what_does_not_fit_into_its_columns_is_refused() -> None:
    with pytest.raises(AssertionError, match="no room for bbb in column 3"):
        draw(rx.map(threefold), "-a-b-|")


def test_a_failing_comparison_shows_both_pictures_under_each_other() -> None:
    with pytest.raises(AssertionError) as caught:
        assert draw(rx.map(str), "--0--1--#") == "--0--1--#SequenceViolation"
    assert "- --0--1--#SequenceViolation\n" in str(caught.value)
    assert "+ --0--1--#Trouble" in str(caught.value)
