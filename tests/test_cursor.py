"""The cursor: it survives a process, and refuses what is no place in a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orx_rx.models.response import Response
from orx_rx.models.stream_events import StreamEnd, UnknownEvent
from orx_rx.protocol.accumulator import Accumulator
from orx_rx.protocol.cursor import Bookmark, Cursor
from tests import chain

SNAPSHOT = Response.model_validate(chain.created("resp_a", model="m", output=[chain.message("grüß")])["response"])


# JSON


@pytest.mark.parametrize("snapshot", [None, SNAPSHOT, Response()], ids=["without", "with a snapshot", "an empty one"])
def test_a_cursor_is_the_same_after_a_round_trip(snapshot: Response | None) -> None:
    cursor = Cursor("resp_a", 7, snapshot)
    text = cursor.to_json()
    assert "\n" not in text
    assert Cursor.from_json(text) == Cursor.from_json(text.encode()) == cursor
    assert ("snapshot" in json.loads(text)) == (snapshot is not None)


@given(st.text(min_size=1), st.integers(min_value=0))
@settings(deadline=None)
def test_any_place_survives_a_round_trip(id: str, number: int) -> None:
    assert Cursor.from_json(Cursor(id, number).to_json()) == Cursor(id, number)


def test_fields_that_are_not_known_are_left_out() -> None:
    assert Cursor.from_json('{"response_id": "resp_a", "sequence_number": 0, "later": 1}') == Cursor("resp_a", 0)


def written(id: Any = "resp_a", number: Any = 3, **fields: Any) -> str:
    return json.dumps({"response_id": id, "sequence_number": number, **fields})


VALUES = "response_id as text and sequence_number as a whole number, got other values"

NOT_A_CURSOR: Sequence[tuple[str | bytes, str]] = [
    ("", "a cursor as JSON, got something else"),
    ("{", "a cursor as JSON, got something else"),
    (b"\xff\xfe\xff", "a cursor as JSON, got something else"),
    ("[1]", "a cursor as a JSON object, got a value of another kind"),
    ("null", "a cursor as a JSON object, got a value of another kind"),
    ('"resp_a"', "a cursor as a JSON object, got a value of another kind"),
    ("{}", VALUES),
    (written(id=None), VALUES),
    (written(id=7), VALUES),
    (written(number=None), VALUES),
    (written(number=True), VALUES),
    (written(number="3"), VALUES),
    (written(number=3.0), VALUES),
    (written(id=""), "a cursor with the id of a response, got an empty one"),
    (written(number=-1), "a cursor with a number of at least 0, got -1"),
    (written(snapshot={"id": "resp_b"}), "a snapshot of resp_a, got one of resp_b"),
    (written(snapshot="none"), "a snapshot that is a response, got "),
    (written(snapshot={"id": 3}), "a snapshot that is a response, got "),
]


@pytest.mark.parametrize(("text", "message"), NOT_A_CURSOR)
def test_what_is_no_cursor_is_refused_with_what_was_expected_and_what_came(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=f"^expected {re.escape(message)}"):
        Cursor.from_json(text)


def test_a_place_that_cannot_be_is_refused_where_it_is_made() -> None:
    with pytest.raises(ValueError, match="at least 0, got -1"):
        Cursor("resp_a", -1)
    with pytest.raises(ValueError, match="got an empty one"):
        Cursor("", 0)
    with pytest.raises(ValueError, match="expected a snapshot of resp_b, got one of resp_a"):
        Cursor("resp_b", 0, SNAPSHOT)


# the bookmark


def at(*payloads: chain.Payload) -> Cursor | None:
    bookmark, accumulator = Bookmark(), Accumulator()
    for event in chain.events(*payloads):
        bookmark.turn(event)
        accumulator.feed(event)
    assert bookmark.cursor == accumulator.cursor
    return bookmark.cursor


UNNUMBERED = {"sequence_number": None}

PLACES: Sequence[tuple[list[chain.Payload], Cursor | None]] = [
    ([], None),
    ([chain.keepalive()], None),
    ([chain.added()], None),  # no id
    ([chain.created() | UNNUMBERED], None),
    ([chain.created()], Cursor("resp_a", 0)),
    ([chain.created(), chain.added()], Cursor("resp_a", 1)),
    ([chain.created(), chain.added() | UNNUMBERED], None),
    ([chain.created(), chain.added() | UNNUMBERED, chain.part_added()], Cursor("resp_a", 1)),
    ([chain.created(), chain.keepalive() | UNNUMBERED], Cursor("resp_a", 0)),
    ([chain.created(), {"type": "x:note"} | UNNUMBERED], Cursor("resp_a", 0)),
    ([chain.created(), chain.failing() | UNNUMBERED], Cursor("resp_a", 0)),
    ([chain.created(""), chain.in_progress("resp_b")], Cursor("resp_b", 1)),
]


@pytest.mark.parametrize(("payloads", "cursor"), PLACES)
def test_the_place_is_known_when_the_id_and_the_last_number_are(
    payloads: list[chain.Payload], cursor: Cursor | None
) -> None:
    assert at(*payloads) == cursor


def test_the_first_id_counts() -> None:
    bookmark = Bookmark()
    for event in chain.events(chain.created(), chain.in_progress("resp_b")):
        bookmark.turn(event)
    assert bookmark.cursor == Cursor("resp_a", 1)


def test_a_bookmark_can_begin_at_a_cursor() -> None:
    bookmark = Bookmark()
    bookmark.place(Cursor("resp_a", 7, SNAPSHOT))
    assert bookmark.cursor == Cursor("resp_a", 7)
    bookmark.turn(StreamEnd())
    bookmark.turn(UnknownEvent(type="x", sequence_number=8))
    assert bookmark.cursor == Cursor("resp_a", 8)
