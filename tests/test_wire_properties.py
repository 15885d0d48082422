"""The wire format against a reference parser that reads the whole body, line by line, as the standard is written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from orx_rx.errors import FrameTooLarge
from orx_rx.wire import Frame, FrameParser, encode_frame


def reference(body: bytes) -> list[Frame]:
    """Read a body as WHATWG HTML section 9.2.6 says, and the unfinished record at its end as a last frame."""
    frames: list[Frame] = []
    record: list[bytes] = []
    last_id = ""
    *lines, unfinished = re.split(rb"\r\n|\r|\n", body.removeprefix(b"\xef\xbb\xbf"))
    for line in lines:
        if line:
            record.append(line)
        else:
            last_id = dispatch(record, last_id, frames, complete=True)
            record = []
    dispatch([*record, unfinished], last_id, frames, complete=False)
    return frames


def dispatch(record: list[bytes], last_id: str, frames: list[Frame], *, complete: bool) -> str:
    """Read the lines of one record, append the frame if there is one, and return the last event id."""
    event, data, retry = "", list[bytes](), None
    for line in record:
        field, value = line, b""
        if b":" in line:
            field, value = line.split(b":", 1)
            if value.startswith(b" "):
                value = value[1:]
        if field == b"event":
            event = value.decode(errors="replace")
        elif field == b"data":
            data.append(value)
        elif field == b"id" and b"\0" not in value:
            last_id = value.decode(errors="replace")
        elif field == b"retry" and re.fullmatch(rb"[0-9]{1,18}", value):
            retry = int(value)
    if data:
        frames.append(Frame(event, b"\n".join(data), last_id, retry, complete))
    return last_id


def cut(body: bytes, places: Sequence[int]) -> list[bytes]:
    """Cut a body at places that may lie behind its end, or coincide."""
    borders = [0, *sorted(min(place, len(body)) for place in places), len(body)]
    return [body[start:stop] for start, stop in pairwise(borders)]


def parse(chunks: Sequence[bytes]) -> list[Frame]:
    parser = FrameParser()
    return [frame for chunk in chunks for frame in parser.feed(chunk)] + parser.end()


def outcome(chunks: Sequence[bytes], limit: int) -> tuple[list[Frame], bool]:
    """The frames until a record outgrew the limit, and whether one did."""
    parser = FrameParser(limit)
    frames: list[Frame] = []
    try:
        for chunk in chunks:
            frames += parser.feed(chunk)
        frames += parser.end()
    except FrameTooLarge:
        return frames, True
    return frames, False


FIELDS = st.sampled_from([b"data", b"event", b"id", b"retry", b"", b"Data", b"foo", b" data", b"dat", b"\xef\xbb\xbf"])
COLONS = st.sampled_from([b": ", b":", b"", b":  ", b"::", b" : "])
VALUES = st.one_of(
    st.sampled_from(
        [b"", b"1", b"12", b"data: ", b"a:b", b"\0", b" ", b"\xef\xbb\xbf", b"\xff", b"\xe5\x8c", b"9" * 19]
    ),
    st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=8).map(str.encode),
    st.binary(max_size=4),
)
USUAL = st.sampled_from([b"event: a", b"event: b", b"data: x", b"data: y", b"id: 1", b"", b"", b":"])
LINES = st.one_of(USUAL, st.tuples(FIELDS, COLONS, VALUES).map(b"".join))
LINE_ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
MIXED = st.lists(st.tuples(LINES, LINE_ENDS).map(b"".join), max_size=20).map(b"".join)
UNIFORM = st.tuples(LINE_ENDS, st.lists(LINES, max_size=20)).map(
    lambda drawn: b"".join(line + drawn[0] for line in drawn[1])
)
BODIES = st.tuples(
    st.sampled_from([b"", b"", b"\xef\xbb\xbf", b"\xef\xbb", b"\xef\xbb\xbf\xef\xbb\xbf"]),
    st.one_of(MIXED, UNIFORM),
    st.one_of(st.just(b""), LINES),
).map(b"".join)
NOISE = st.lists(
    st.sampled_from([b"\n", b"\r", b":", b" ", b"data", b"id", b"event", b"1", b"\xef\xbb\xbf"]), max_size=30
)
PLACES = st.lists(st.integers(0, 250), max_size=12)


@given(BODIES, PLACES)
@example(b"data: a\r\n\r\n", [9, 10])
@example(b"\n\n\ndata: a\n\n\n", [1, 2, 11])
@example(b":\n\ndata: a\n\n:\n", [1, 2, 3])
def test_every_chunking_gives_what_the_standard_says(body: bytes, places: list[int]) -> None:
    assert parse(cut(body, places)) == reference(body)


@given(NOISE.map(b"".join), PLACES)
def test_noise_gives_what_the_standard_says(body: bytes, places: list[int]) -> None:
    assert parse(cut(body, places)) == reference(body)


@given(BODIES)
def test_byte_by_byte_gives_what_the_standard_says(body: bytes) -> None:
    assert parse(cut(body, range(len(body)))) == reference(body)


@given(st.one_of(BODIES, NOISE.map(b"".join)), PLACES, st.integers(1, 30))
@example(b":\n" * 9 + b":" * 10, [], 10)
@example(b"\n: 67\ndata: a\n\n", [3], 8)
def test_the_limit_falls_on_the_same_record_in_every_chunking(body: bytes, places: list[int], limit: int) -> None:
    assert outcome(cut(body, places), limit) == outcome(cut(body, range(len(body))), limit)


@given(BODIES, PLACES, BODIES)
def test_an_ended_parser_is_as_good_as_new(first: bytes, places: list[int], second: bytes) -> None:
    parser = FrameParser()
    for chunk in cut(first, places):
        parser.feed(chunk)
    parser.end()
    assert parser.feed(second) + parser.end() == reference(second)


TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20)
FRAMES = st.builds(
    Frame,
    event=TEXT,
    data=st.binary(max_size=30).map(lambda data: data.replace(b"\r", b"\n")),
    id=TEXT.map(lambda text: text.replace("\0", "")),
    retry=st.none() | st.integers(0, 10**18 - 1),
    complete=st.booleans(),
)


@given(FRAMES, PLACES)
def test_a_frame_comes_back_from_the_wire(frame: Frame, places: list[int]) -> None:
    assert parse(cut(encode_frame(frame), places)) == [frame]


@given(st.lists(FRAMES.filter(lambda frame: frame.complete and frame.id != ""), max_size=8), PLACES)
def test_a_stream_of_frames_comes_back_from_the_wire(frames: list[Frame], places: list[int]) -> None:
    assert parse(cut(b"".join(map(encode_frame, frames)), places)) == frames
