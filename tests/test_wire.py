"""The wire format, rule by rule: WHATWG HTML, section 9.2.6, and what orx_rx adds to it."""

from __future__ import annotations

import tracemalloc

import pytest

from orx_rx.errors import FrameTooLarge
from orx_rx.wire import Frame, FrameParser, encode_frame

LIMIT = 16

NASTY = (
    b'\xef\xbb\xbf\r\n: comment\r\revent: n\xc3\xa9\xe2\x80\xa8w\r\ndata: {"a":\r\ndata:\xe5\x8c\x97}\r\n\r\n'
    b"id: 1\ndata\n\n\n\nretry: 10\r\rid\rdata:  two\r\ndata: \n\rdata: x\xff\r\n\r"
    b"\nevent: lost\n\n:\n:\ndata: \xef\xbb\xbf\n\r\nid: \xf0\x9f\x98\x80\ndata: rest\r\n: end"
)
NASTY_FRAMES = [
    Frame("n\xe9\u2028w", b'{"a":\n\xe5\x8c\x97}'),
    Frame("", b"", "1"),
    Frame("", b" two\n", ""),
    Frame("", b"x\xff", ""),
    Frame("", b"\xef\xbb\xbf", ""),
    Frame("", b"rest", "\U0001f600", complete=False),
]


def parse(*chunks: bytes) -> list[Frame]:
    """Feed a new parser with a whole stream."""
    parser = FrameParser()
    return [frame for chunk in chunks for frame in parser.feed(chunk)] + parser.end()


def one_by_one(body: bytes) -> list[bytes]:
    return [body[place : place + 1] for place in range(len(body))]


# The examples of the standard.


def test_whatwg_example_three_data_lines_are_one_frame() -> None:
    assert parse(b"data: YHOO\ndata: +2\ndata: 10\n\n") == [Frame(data=b"YHOO\n+2\n10")]


def test_whatwg_example_a_comment_an_id_and_a_reset_of_it() -> None:
    body = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n"
    assert parse(body) == [Frame(data=b"first event", id="1"), Frame(data=b"second event"), Frame(data=b" third event")]


def test_whatwg_example_empty_data_and_an_unfinished_record() -> None:
    assert parse(b"data\n\ndata\ndata\n\ndata:") == [Frame(), Frame(data=b"\n"), Frame(complete=False)]


def test_whatwg_example_one_space_is_optional() -> None:
    assert parse(b"data:test\n\ndata: test\n\n") == [Frame(data=b"test")] * 2


def test_whatwg_example_named_events() -> None:
    body = b"event: add\ndata: 73857293\n\nevent: remove\ndata: 2153\n\nevent: add\ndata: 113411\n\n"
    assert parse(body) == [Frame("add", b"73857293"), Frame("remove", b"2153"), Frame("add", b"113411")]


# Rule by rule. Each row: a claim, a body, its frames.


RULES: list[tuple[str, bytes, list[bytes]]] = [
    ("nothing gives nothing", b"", []),
    ("blank lines alone give nothing", b"\n\n\n\r\r\n\r\n", []),
    ("blank lines in front of a record do not matter", b"\ndata: a\n\n\n\ndata: b\n\n\n\n\n", [b"a", b"b"]),
    ("an odd number of blank lines does not matter", b"data: a\n\n\ndata: b\n\n\n\n\ndata: c\n\n", [b"a", b"b", b"c"]),
    ("a line ends at LF", b"data: a\ndata: b\n\n", [b"a\nb"]),
    ("a line ends at CR", b"data: a\rdata: b\r\r", [b"a\nb"]),
    ("a line ends at CRLF", b"data: a\r\ndata: b\r\n\r\n", [b"a\nb"]),
    ("the three line ends mix", b"data: a\r\ndata: b\rdata: c\ndata: d\n\r\ndata: e\r\n\r", [b"a\nb\nc\nd", b"e"]),
    ("LF CR is two line ends", b"data: a\n\rdata: b\n\r", [b"a", b"b"]),
    ("CRLF CR is two line ends", b"data: a\r\n\rdata: b\r\n\r", [b"a", b"b"]),
    (
        "Unicode line separators end no line",
        b"data: a\xe2\x80\xa8b\xe2\x80\xa9c\xc2\x85d\x0be\x0cf\x1cg\x1dh\x1ei\n\n",
        [b"a\xe2\x80\xa8b\xe2\x80\xa9c\xc2\x85d\x0be\x0cf\x1cg\x1dh\x1ei"],
    ),
    ("a byte order mark is dropped at the start", b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
    ("a byte order mark is dropped once", b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [b"b"]),
    ("a byte order mark later on is no mark", b"data: a\n\n\xef\xbb\xbfdata: b\n\ndata: c\n\n", [b"a", b"c"]),
    ("half a byte order mark is no mark", b"\xef\xbbdata: a\n\ndata: b\n\n", [b"b"]),
    ("a byte order mark alone gives nothing", b"\xef\xbb\xbf", []),
    ("half a byte order mark alone gives nothing", b"\xef\xbb", []),
    ("comments do not matter", b": a\n:\ndata: b\n:data: c\n: d\n\n", [b"b"]),
    ("a comment is not a record", b": ping\n\n: ping\n\n", []),
    ("one space after the colon is removed", b"data:  a \n\n", [b" a "]),
    ("a tab after the colon stays", b"data:\ta\n\n", [b"\ta"]),
    ("the first colon separates", b"data: a: b\ndata::c\n\n", [b"a: b\n:c"]),
    ("a field without a colon is empty", b"data\ndata\n\n", [b"\n"]),
    ("an empty data line gives a frame", b"data:\n\n", [b""]),
    ("empty data lines count", b"data:\ndata: \ndata: a\ndata\n\n", [b"\n\na\n"]),
    ("a record without data gives no frame", b"event: a\n\nid: 1\n\nretry: 1\n\n", []),
    ("unknown fields do not matter", b"foo: a\ndata: b\nfoo\n\n", [b"b"]),
    ("field names are case-sensitive", b"Data: a\nDATA: b\ndata: c\n\n", [b"c"]),
    ("a field name is the whole of it", b" data: a\ndata : b\nxdata: c\ndata: d\n\n", [b"d"]),
    ("NUL in data stays", b"data: a\0b\n\n", [b"a\0b"]),
    ("data is not decoded", b"data: \xff\xfe\n\n", [b"\xff\xfe"]),
    ("data may look like a field", b"data: data: a\ndata: event: b\n\n", [b"data: a\nevent: b"]),
]


@pytest.mark.parametrize(("body", "data"), [pytest.param(*row, id=claim) for claim, *row in RULES])
def test_a_rule(body: bytes, data: list[bytes]) -> None:
    assert [(frame.data, frame.event, frame.complete) for frame in parse(body)] == [(each, "", True) for each in data]


@pytest.mark.parametrize(
    ("body", "events"),
    [
        pytest.param(b"event: a\ndata: b\n\n", ["a"], id="in front of the data"),
        pytest.param(b"data: b\nevent: a\n\n", ["a"], id="behind the data"),
        pytest.param(b"event:a\ndata:b\n\n", ["a"], id="without the space"),
        pytest.param(b"event:  a \ndata: b\n\n", [" a "], id="with more spaces"),
        pytest.param(b"event: data: \ndata: b\n\n", ["data: "], id="that looks like data"),
        pytest.param(b"event: a\nevent: b\ndata: c\n\n", ["b"], id="the last one counts"),
        pytest.param(b"event: a\nevent\ndata: c\n\n", [""], id="an empty one clears"),
        pytest.param(b"event: a\n\ndata: b\n\n", [""], id="forgotten with a record without data"),
        pytest.param(b"event: a\ndata: b\n\ndata: c\n\n", ["a", ""], id="forgotten with its record"),
        pytest.param(b"event: a\ndata: b\nfoo\n\n" * 2, ["a", "a"], id="with more behind it"),
        pytest.param(b"Event: a\ndata: b\n\n", [""], id="case-sensitive"),
        pytest.param(b"event: \xc3\xa9\xff\xe5\x8c\ndata: b\n\n" * 2, ["\xe9\ufffd\ufffd"] * 2, id="UTF-8 or replaced"),
        pytest.param(b"event: \xef\xbb\xbfa\ndata: b\n\n", ["\ufeffa"], id="keeps a byte order mark"),
        pytest.param(b"event: a\0\ndata: b\n\n", ["a\0"], id="keeps NUL"),
        pytest.param(b"event: a\ndata: b\n\n" * 3, ["a"] * 3, id="again and again"),
    ],
)
def test_the_event_name(body: bytes, events: list[str]) -> None:
    assert [frame.event for frame in parse(body)] == events


def test_more_event_names_than_any_table_holds_are_read() -> None:
    names = [f"{'long ' * (number % 40)}{number}" for number in range(1000)] * 2
    body = b"".join(b"event: %b\ndata: x\n\n" % name.encode() for name in names)
    assert [frame.event for frame in parse(body)] == names


@pytest.mark.parametrize(("count", "length"), [(10_000, 100), (100, 10_000)])
def test_event_names_are_not_hoarded(count: int, length: int) -> None:
    parser = FrameParser()
    tracemalloc.start()
    for number in range(count):
        parser.feed(b"event: %0*d\ndata: x\n\n" % (length, number))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < count * length / 4


@pytest.mark.parametrize(
    ("body", "ids"),
    [
        pytest.param(b"id: 1\ndata: a\n\ndata: b\n\nevent: x\ndata: c\n\n", ["1", "1", "1"], id="persists"),
        pytest.param(b"data: a\n\ndata: b\nid: 1\n\n", ["", "1"], id="behind the data"),
        pytest.param(b"id: 1\n\ndata: a\n\n", ["1"], id="persists from a record without data"),
        pytest.param(b"id: 1\ndata: a\n\nid\ndata: b\n\ndata: c\n\n", ["1", "", ""], id="an empty one clears"),
        pytest.param(b"id: 1\nid: 2\ndata: a\n\n", ["2"], id="the last one counts"),
        pytest.param(b"id: 1\nid: 2\0\ndata: a\n\nid: \0\ndata: b\n\n", ["1", "1"], id="one with NUL does not count"),
        pytest.param(b"id:1\ndata: a\n\nid:  2\ndata: b\n\n", ["1", " 2"], id="one space is optional"),
        pytest.param(b"ID: 1\ndata: a\n\n", [""], id="case-sensitive"),
        pytest.param(b"id: \xf0\x9f\x98\x80\xff\ndata: a\n\n", ["\U0001f600\ufffd"], id="UTF-8 or replaced"),
    ],
)
def test_the_id(body: bytes, ids: list[str]) -> None:
    parser = FrameParser()
    assert [frame.id for frame in parser.feed(body)] == ids
    assert parser.last_event_id == ids[-1]


@pytest.mark.parametrize(
    ("value", "retry"),
    [
        (b" 0", 0),
        (b" 3000", 3000),
        (b"3000", 3000),
        (b" 007", 7),
        (b" " + b"9" * 18, 10**18 - 1),
        (b" " + b"9" * 19, None),
        (b" " + b"9" * 5000, None),
        (b"", None),
        (b"  5", None),
        (b" 5 ", None),
        (b" -5", None),
        (b" +5", None),
        (b" 5.0", None),
        (b" 1_000", None),
        (b" 5s", None),
        (b" 0x5", None),
        (" \u0665".encode(), None),
        (" \u00b2".encode(), None),
    ],
)
def test_a_retry_is_digits_and_nothing_else(value: bytes, retry: int | None) -> None:
    parser = FrameParser()
    assert parser.feed(b"retry:" + value + b"\ndata: a\n\n") == [Frame(data=b"a", retry=retry)]
    assert parser.retry == retry


def test_a_frame_has_the_retry_of_its_record_and_the_parser_the_last_valid_one() -> None:
    parser = FrameParser()
    frames = parser.feed(b"retry: 1\ndata: a\n\ndata: b\n\nretry: 2\nretry: x\ndata: c\n\nretry: 3\n\nretry: y\n\n")
    assert [frame.retry for frame in frames] == [1, None, 2]
    assert parser.retry == 3


# Chunks.


def test_every_cut_into_two_chunks_gives_the_same_frames() -> None:
    for place in range(len(NASTY) + 1):
        assert parse(NASTY[:place], NASTY[place:]) == NASTY_FRAMES, place


def test_every_chunk_size_gives_the_same_frames() -> None:
    for size in range(1, len(NASTY) + 1):
        chunks = [NASTY[place : place + size] for place in range(0, len(NASTY), size)]
        assert parse(*chunks) == NASTY_FRAMES, size


def test_empty_chunks_do_not_matter() -> None:
    chunks = [chunk for byte in one_by_one(NASTY) for chunk in (b"", byte, b"")]
    assert parse(*chunks) == NASTY_FRAMES


@pytest.mark.parametrize(
    ("chunks", "frames"),
    [
        pytest.param([b"data: a\n", b"\n"], [[], [Frame(data=b"a")]], id="at the LF of a blank line"),
        pytest.param([b"data: a\n\n"], [[Frame(data=b"a")]], id="at the end of the chunk"),
        pytest.param([b"data: a\r\r", b"\n"], [[Frame(data=b"a")], []], id="at CR, before its LF"),
        pytest.param([b"data: a\r\n\r", b"\ndata: b\r\r"], [[Frame(data=b"a")], [Frame(data=b"b")]], id="LF swallowed"),
        pytest.param([b"data: a\r", b"\r"], [[], [Frame(data=b"a")]], id="at the second CR"),
        pytest.param([b"data: a\r", b"\n", b"\n"], [[], [], [Frame(data=b"a")]], id="one LF is swallowed, not two"),
        pytest.param([b"data: a\r", b"", b"\n", b"\n"], [[], [], [], [Frame(data=b"a")]], id="not before its LF came"),
        pytest.param([b"data: a\r", b"data: b\n\n"], [[], [Frame(data=b"a\nb")]], id="CR alone in front of a chunk"),
        pytest.param([b"data: a\n", b"\n\n\n"], [[], [Frame(data=b"a")]], id="once"),
    ],
)
def test_a_frame_comes_as_soon_as_possible(chunks: list[bytes], frames: list[list[Frame]]) -> None:
    parser = FrameParser()
    assert [parser.feed(chunk) for chunk in chunks] == frames


def test_b28_neither_an_event_line_nor_a_space_is_required() -> None:
    assert parse(b'data:{"sequence_number":0}\n\ndata:{"sequence_number":1}\n\n') == [
        Frame(data=b'{"sequence_number":0}'),
        Frame(data=b'{"sequence_number":1}'),
    ]


def test_b29_a_character_cut_by_a_chunk_is_whole() -> None:
    assert parse(b'data: {"delta":"\xe5\x8c', b'\x97"}\n\n') == [Frame(data='{"delta":"\u5317"}'.encode())]


def test_b31_a_crlf_cut_by_a_chunk_makes_no_blank_line() -> None:
    assert parse(b'data: {"a":\r', b"\ndata: 1}\r\n\r", b"\n") == [Frame(data=b'{"a":\n1}')]


def test_b33_a_large_frame_in_many_chunks_is_whole() -> None:
    data = b"A" * 2_000_000
    body = b"event: image\ndata: " + data + b"\n\n"
    assert parse(*[body[place : place + 65_536] for place in range(0, len(body), 65_536)]) == [Frame("image", data)]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_kind_of_bytes_is_a_chunk(kind: type[bytes | bytearray | memoryview]) -> None:
    parser = FrameParser()
    assert parser.feed(kind(b"event: a\r\nda")) == []
    assert parser.feed(kind(b"ta: b\r\n\r\n")) == [Frame("a", b"b")]


def test_a_buffer_may_be_used_again_after_it_was_fed() -> None:
    parser = FrameParser()
    buffer = bytearray(b"data: a\n\ndata: b")
    frames = parser.feed(buffer)
    buffer[:] = b"x" * 100
    assert frames + parser.end() == [Frame(data=b"a"), Frame(data=b"b", complete=False)]
    assert [type(frame.data) for frame in frames] == [bytes]


@pytest.mark.parametrize(("chunk", "name"), [("data: a\n\n", "str"), (5, "int"), (None, "NoneType"), ([1], "list")])
def test_a_chunk_that_is_not_bytes_is_an_error_and_changes_nothing(chunk: bytes, name: str) -> None:
    parser = FrameParser()
    parser.feed(b"data: a")
    with pytest.raises(TypeError, match=f"^expected bytes, got {name}$"):
        parser.feed(chunk)
    assert parser.feed(b"\n\n") == [Frame(data=b"a")]


# The end.


@pytest.mark.parametrize(
    ("body", "frames"),
    [
        pytest.param(b"data: a", [Frame(data=b"a", complete=False)], id="b32: in the middle of a line"),
        pytest.param(b"data: a\n", [Frame(data=b"a", complete=False)], id="after a line"),
        pytest.param(b"data: a\r", [Frame(data=b"a", complete=False)], id="after a CR"),
        pytest.param(b"data: a\ndata: b", [Frame(data=b"a\nb", complete=False)], id="in the second line"),
        pytest.param(b"event: x\nid: 1\nretry: 5\ndata", [Frame("x", b"", "1", 5, False)], id="with all fields"),
        pytest.param(b"data: a\n\ndata: b", [Frame(data=b"a"), Frame(data=b"b", complete=False)], id="after a frame"),
        pytest.param(b"event: x\nid: 1", [], id="without data"),
        pytest.param(b"data: a\n\n", [Frame(data=b"a")], id="after a whole record"),
        pytest.param(b"dat", [], id="in a field name"),
        pytest.param(b": data: a", [], id="in a comment"),
    ],
)
def test_the_unfinished_record_comes_out_at_the_end(body: bytes, frames: list[Frame]) -> None:
    assert parse(body) == frames
    assert parse(*one_by_one(body)) == frames


def test_the_unfinished_record_moves_neither_the_id_nor_the_retry_of_the_stream() -> None:
    parser = FrameParser()
    parser.feed(b"id: 1\nretry: 10\ndata: a\n\nid: 2\nretry: 2\ndata: b")
    assert parser.end() == [Frame("", b"b", "2", 2, complete=False)]
    assert (parser.last_event_id, parser.retry) == ("1", 10)


def test_after_the_end_a_new_stream_begins() -> None:
    parser = FrameParser()
    for _ in range(2):
        assert parser.feed(b"\xef\xbb\xbfdata: a\n\nid: 1\nretry: 5\ndata: b\n\nevent: lost\ndata: c\r") == [
            Frame(data=b"a"),
            Frame("", b"b", "1", 5),
        ]
        assert parser.end() == [Frame("lost", b"c", "1", complete=False)]
        assert parser.end() == []
    assert parser.feed(b"\ndata: a\n\n") == [Frame(data=b"a")]
    assert (parser.last_event_id, parser.retry) == ("", None)


def test_id_and_retry_outlive_the_end_for_the_reconnection() -> None:
    parser = FrameParser()
    assert (parser.last_event_id, parser.retry) == ("", None)
    parser.feed(b"id: 1\nretry: 5\n\n")
    parser.end()
    assert (parser.last_event_id, parser.retry) == ("1", 5)


def test_a_reset_forgets_everything() -> None:
    parser = FrameParser()
    parser.feed(b"id: 1\nretry: 5\n\nevent: x\ndata: a\r")
    parser.reset()
    assert (parser.last_event_id, parser.retry) == ("", None)
    assert parser.feed(b"\xef\xbb\xbf\n\ndata: b\n\n") == [Frame(data=b"b")]
    assert parser.end() == []


# The limit.


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_an_error(limit: int) -> None:
    with pytest.raises(ValueError, match=f"^expected max_frame_bytes of at least 1, got {limit}$"):
        FrameParser(limit)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"data: 789012345\n\n", id="the last line end counts"),
        pytest.param(b"data: 7\r\ndata: 5\r\n\r\n", id="CRLF counts one"),
        pytest.param(b"\n\n\n" + b"data: 789012345\n\n" * 9, id="blank lines do not count"),
        pytest.param(b": 3456789012345\n" * 9 + b"data: 789012345\n\n", id="comments in front do not count"),
        pytest.param(b": 3456789012345\n" * 9 + b"\n" + b":234567890123456\n\n", id="comments alone do not count"),
        pytest.param(b": \n" * 99, id="keepalives never add up"),
    ],
)
def test_a_record_of_just_the_limit_passes(body: bytes) -> None:
    whole, pieces = FrameParser(LIMIT), FrameParser(LIMIT)
    frames = [frame for byte in one_by_one(body) for frame in pieces.feed(byte)]
    assert whole.feed(body) == frames
    assert whole.end() == pieces.end() == []


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"data: 7890123456\n\n", id="data"),
        pytest.param(b"data: 78901234567", id="data without an end"),
        pytest.param(b"data\n: 78901234567\n\n", id="a comment behind a field counts"),
        pytest.param(b": 345678901234567\n", id="one comment line"),
        pytest.param(b": 345678901234567\ndata: 1\n\n", id="one comment line in front of data"),
        pytest.param(b"id: 1\nevent: 3456\n\n", id="a record without data"),
    ],
)
def test_a_record_above_the_limit_is_an_error(body: bytes) -> None:
    with pytest.raises(FrameTooLarge, match=r"^expected frames of at most 16 bytes, got \d\d bytes ") as caught:
        FrameParser(LIMIT).feed(body)
    assert caught.value.seen > caught.value.limit == LIMIT
    parser = FrameParser(LIMIT)
    with pytest.raises(FrameTooLarge):
        [parser.feed(byte) for byte in one_by_one(body)]


@pytest.mark.parametrize("rest", [b"data: 78901234567", b"data: 78901234567\n\ndata: 2\n\n", b"data: 9" * 99])
def test_frames_in_front_of_one_too_large_are_not_lost(rest: bytes) -> None:
    parser = FrameParser(LIMIT)
    assert parser.feed(b"data: 1\n\nid: 7\n\n" + rest) == [Frame(data=b"1")]
    assert parser.last_event_id == "7"
    with pytest.raises(FrameTooLarge):
        parser.feed(b"\n\ndata: 2\n\n")


def test_the_end_raises_what_the_last_chunk_held_back() -> None:
    parser = FrameParser(LIMIT)
    parser.feed(b"data: 1\n\n" + b"data: 2" * 9)
    with pytest.raises(FrameTooLarge):
        parser.end()


def test_a_parser_stays_failed_until_it_is_reset() -> None:
    parser = FrameParser(LIMIT)
    seen: list[int] = []
    for chunk in (b"data: 1" * 9, b"\n\n", b"data: 2\n\n", b""):
        with pytest.raises(FrameTooLarge) as caught:
            parser.feed(chunk)
        seen.append(caught.value.seen)
    with pytest.raises(FrameTooLarge):
        parser.end()
    assert seen == [63] * 4
    parser.reset()
    assert parser.feed(b"data: 2\n\n") == [Frame(data=b"2")]


# Back to the wire.


@pytest.mark.parametrize(
    ("frame", "body"),
    [
        (Frame(data=b"a"), b"data: a\n\n"),
        (Frame(), b"data: \n\n"),
        (Frame(data=b"a\nb\n"), b"data: a\ndata: b\ndata: \n\n"),
        (Frame(data=b" a"), b"data:  a\n\n"),
        (Frame("x", b"a", "1", 5), b"event: x\nid: 1\nretry: 5\ndata: a\n\n"),
        (Frame(" \xe9\0", b"a", "\ufeff"), b"event:  \xc3\xa9\0\nid: \xef\xbb\xbf\ndata: a\n\n"),
        (Frame("x", b"a", complete=False), b"event: x\ndata: a\n"),
        (Frame(retry=0), b"retry: 0\ndata: \n\n"),
    ],
)
def test_a_frame_is_written_as_it_is_read(frame: Frame, body: bytes) -> None:
    assert encode_frame(frame) == body
    assert parse(body) == [frame]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (Frame("a\nb"), r"expected event without any of '\\r\\n', got '\\n'"),
        (Frame("a\r"), r"expected event without any of '\\r\\n', got '\\r'"),
        (Frame(id="1\n"), r"expected id without any of '\\r\\n\\x00', got '\\n'"),
        (Frame(id="\r1"), r"expected id without any of '\\r\\n\\x00', got '\\r'"),
        (Frame(id="1\0"), r"expected id without any of '\\r\\n\\x00', got '\\x00'"),
        (Frame(data=b"a\r\nb"), r"expected data without any of '\\r', got '\\r'"),
        (Frame(retry=-1), "expected retry of 0 to 18 digits, got -1"),
        (Frame(retry=10**18), "expected retry of 0 to 18 digits, got 1000000000000000000"),
        (Frame("\ud800"), "surrogates not allowed"),
    ],
)
def test_what_the_format_cannot_carry_is_an_error(frame: Frame, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode_frame(frame)
