"""Structured output while it is written: what is shown is known, it only grows, and the last of it is the answer."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypeVar
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AnyUrl,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Json,
    PlainValidator,
    PrivateAttr,
    RootModel,
    SecretStr,
    Tag,
    TypeAdapter,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass as validated_dataclass
from reactivex import compose
from reactivex import operators as rx
from typing_extensions import TypeAliasType, TypedDict  # which Python has from 3.12 on

from orx_rx import operators as ops
from orx_rx.errors import IncompleteOutput, OutputError, OutputParseError, Refused
from orx_rx.models import Event
from orx_rx.protocol.known import UNKNOWN, CutText
from orx_rx.protocol.partial import SHARE, PartialReader, Tick
from orx_rx.protocol.structured import OutputFormat
from tests import chain
from tests.marbles import draw
from tests.sources import Listener, at_once

T = TypeVar("T")


class Colour(Enum):
    RED = "red"
    DARK = "dark"
    DARK_RED = "dark red"


class Leaf(BaseModel):
    kind: Literal["leaf"]
    text: str
    size: int


class Branch(BaseModel):
    kind: Literal["branch"]
    parts: list[Leaf | Branch] = []
    weight: float


class Row(TypedDict):
    name: str
    count: NotRequired[int]


@dataclass
class Pair:
    first: int
    second: str = ""
    more: list[int] = field(default_factory=list[int])


class Names(RootModel[list[str]]):
    pass


class Everything(BaseModel):
    title: str
    count: int
    ratio: float | None
    flags: list[bool]
    table: dict[str, int]
    tree: Leaf | Branch | None
    day: date
    colour: Colour
    span: tuple[int, str]
    rows: list[Row]
    pair: Pair
    names: Names
    told: Annotated[Leaf | Branch, Field(discriminator="kind")]
    free: Any


def stream(text: str, cuts: Sequence[int] | None = None) -> list[Event]:
    """A stream whose message has a text, in deltas that end at the cuts; by default of one character each."""
    ends = range(1, len(text)) if cuts is None else sorted({cut for cut in cuts if 0 < cut < len(text)})
    pieces = [text[start:end] for start, end in zip((0, *ends), (*ends, len(text)), strict=True)]
    message = chain.message(text)
    return chain.events(
        chain.created(),
        chain.added(),
        chain.part_added(),
        *map(chain.delta, pieces),
        chain.text_done(text),
        chain.part_done(chain.output_text(text)),
        chain.finished(message),
        chain.terminal(output=[message]),
    )


def shown(text_format: Any, events: Sequence[Event]) -> list[Any]:
    listener = Listener(at_once(events, None).pipe(ops.partial(text_format, every=None)))
    assert listener.ends == [None]
    return listener.heard


def known(type_: Any, text: str) -> Any:
    """What is known after a text that is not whole."""
    format_ = OutputFormat[Any](type_)
    value = CutText().read(text)
    return UNKNOWN if value is UNKNOWN else format_.known(value)


def failure(text_format: Any, *payloads: chain.Payload) -> tuple[list[Any], OutputError]:
    listener = Listener(at_once(chain.events(*payloads), None).pipe(ops.partial(text_format, every=None)))
    (error,) = listener.ends
    assert isinstance(error, OutputError)
    return listener.heard, error


# what may be shown of any object

numbers = st.integers(-(2**70), 2**70)
leaves = st.builds(Leaf, kind=st.just("leaf"), text=st.text(max_size=8), size=numbers)
floats = st.floats(allow_nan=False, allow_infinity=False)
trees: st.SearchStrategy[Any] = st.recursive(
    leaves,
    lambda inner: st.builds(Branch, kind=st.just("branch"), parts=st.lists(inner, max_size=3), weight=floats),
    max_leaves=5,
)
free: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
rows: st.SearchStrategy[Any] = st.fixed_dictionaries({"name": st.text(max_size=5)}, optional={"count": numbers})
objects = st.builds(
    Everything,
    title=st.text(),
    count=numbers,
    ratio=st.none() | floats,
    flags=st.lists(st.booleans(), max_size=3),
    table=st.dictionaries(st.text(max_size=4), numbers, max_size=3),
    tree=st.none() | trees,
    day=st.dates(),
    colour=st.sampled_from(Colour),
    span=st.tuples(numbers, st.text(max_size=4)),
    rows=st.lists(rows, max_size=2),
    pair=st.builds(Pair, first=numbers, second=st.text(max_size=4), more=st.lists(numbers, max_size=3)),
    names=st.builds(Names, st.lists(st.text(max_size=4), max_size=3)),
    told=trees,
    free=free,
)


def fields_of(value: Any) -> dict[str, Any]:
    """What is known of an object; not what is there by default."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in value.model_fields_set}
    return dict(value) if isinstance(value, dict) else dict(vars(value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def grows(before: Any, after: Any) -> bool:
    """Say whether a value is a beginning of another: texts and lists grow, objects gain fields, all else stays."""
    if type(before) is not type(after):
        return False
    if isinstance(before, str):
        return bool(after.startswith(before))
    if isinstance(before, list | tuple):
        return len(before) <= len(after) and all(map(grows, before, after))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(before, Pair):  # a dataclass does not say what was set; these fields are known or have their defaults
        return grows(before.second, after.second) and grows(before.more, after.more)
    if isinstance(before, BaseModel | dict):
        fields, later = fields_of(before), fields_of(after)
        return fields.keys() <= later.keys() and all(grows(fields[name], later[name]) for name in fields)
    return bool(before == after)


@given(objects, st.lists(st.integers(0, 400), max_size=40), st.booleans(), st.sampled_from([None, 1]))
@settings(max_examples=150, deadline=None)
def test_whatever_is_written_and_cut_anywhere_only_grows_and_ends_as_the_answer(
    value: Everything, cuts: list[int], ascii_: bool, indent: int | None
) -> None:
    text = json.dumps(value.model_dump(mode="json"), ensure_ascii=ascii_, indent=indent)
    seen = shown(Everything, stream(text, cuts))
    assert seen[-1] == Everything.model_validate_json(text)
    for before, after in pairwise(seen):
        assert grows(before, after)
    assert len(seen) <= len(cuts) + 3


@given(free)
@settings(max_examples=60, deadline=None)
def test_json_without_a_type_only_grows_as_well(value: Any) -> None:
    text = json.dumps({"value": value})
    seen = shown(Any, stream(text))
    assert (seen[-1] if seen else None) == value
    for before, after in pairwise(seen):
        assert grows(before, after)


@given(st.text(max_size=30), st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_text_is_known_character_by_character(text: str, ascii_: bool) -> None:
    written = json.dumps({"value": text}, ensure_ascii=ascii_)
    cut, whole = CutText(), CutText()
    ends = range(len('{"value": "'), len(written))
    seen = [cut.read(written[:end])["value"] for end in ends]
    assert list(dict.fromkeys(seen)) == [text[:end] for end in range(len(text) + 1)]
    assert whole.read(written) == {"value": text}


# what is known


class Note(BaseModel):
    a: int
    b: str = ""
    c: float | None = None


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", None),
        (" ", None),
        ("{", {}),
        ('{"a', {}),
        ('{"a": 12', {}),
        ('{"a": -', {}),
        ('{"a": 12 ', {"a": 12}),
        ('{"a": 12,', {"a": 12}),
        ('{"a": 12}', {"a": 12}),
        ('{"c": 1.', {}),
        ('{"c": 1.5e', {}),
        ('{"c": 1.5e+3', {}),
        ('{"c": 1.5e+3\n', {"c": 1500.0}),
        ('{"c": nul', {}),
        ('{"c": null', {"c": None}),
        ('{"b": "', {"b": ""}),
        ('{"b": "12', {"b": "12"}),
        ('{"b": "1\\', {"b": "1"}),
        ('{"b": "1\\"2', {"b": '1"2'}),
        ('{"b": "1\\\\', {"b": "1\\"}),
        ('{"b": "1\\u00e', {"b": "1"}),
        ('{"b": "1\\ud83d', {"b": "1"}),
        ('{"b": "1\\ud83d\\', {"b": "1"}),
        ('{"b": "1\\ud83d\\ude', {"b": "1"}),
        ('{"b": "1\\ud83d\\ude00', {"b": "1\U0001f600"}),
        ('{"b": "1\\ud83dx', {"b": "1"}),
        ('{"b": "\\u001f', {"b": "\x1f"}),
        ('{"b": "\\\\u00', {"b": "\\u00"}),
        ('{"b": "x", "a', {"b": "x"}),
        ('{"b": "x", "a": "many', {"b": "x"}),
        ('{"more": {"x": [1, "y', {}),
        ("nonsense", None),
        ('{"a": \\n, "b', None),
        ('{"a" 1}', None),
    ],
)
def test_what_is_known_of_an_object_that_was_cut(text: str, fields: dict[str, Any] | None) -> None:
    note = known(Note, text)
    assert (None if note is UNKNOWN else fields_of(note)) == fields


def test_a_number_at_the_end_is_not_guessed() -> None:
    seen = shown(Note, stream('{"a": 1234}'))
    assert [getattr(note, "a", None) for note in seen] == [None, 1234]


def test_a_field_that_is_not_known_has_its_default_or_is_not_there() -> None:
    note = known(Note, "{")
    assert (note.b, note.c, note.model_fields_set) == ("", None, set())
    with pytest.raises(AttributeError, match="'Note' object has no attribute 'a'"):
        assert note.a
    assert (repr(note), note.model_dump()) == ("Note(b='', c=None)", {"b": "", "c": None})


def test_defaults_are_not_shared() -> None:
    first, second = known(Pair, '{"first": 1,'), known(Pair, '{"first": 1,')
    assert first == Pair(1)
    assert first.more is not second.more


class Tagged(BaseModel):
    colour: Colour | None = None
    word: Literal["on", "one"] | None = None
    day: date | None = None


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('{"colour": "dark', {}),
        ('{"colour": "dark"', {"colour": Colour.DARK}),
        ('{"word": "on', {}),
        ('{"word": "on"', {"word": "on"}),
        ('{"day": "2025-01-0', {}),
        ('{"day": "2025-01-01', {}),
        ('{"day": "2025-01-01"', {"day": date(2025, 1, 1)}),
        ('{"word": "on", "d', {"word": "on"}),
    ],
)
def test_a_word_that_is_not_a_text_is_shown_when_it_is_whole(text: str, fields: dict[str, Any]) -> None:
    assert fields_of(known(Tagged, text)) == fields


class Cat(BaseModel):
    kind: Literal["cat", "cat-like"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Anonymous(BaseModel):
    name: str


class Home(BaseModel):
    pet: Cat | Dog | Anonymous | None = None
    pets: list[Cat | Dog] = []
    lists: list[int] | list[str] | None = None


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('{"pet": {', {}),
        ('{"pet": {"name": "Rex", ', {}),
        ('{"pet": {"kind": "cat', {}),
        ('{"pet": {"kind": "cat"', {"pet": Cat(kind="cat")}),
        ('{"pet": {"kind": "dog", "name": "R', {"pet": Dog(name="R")}),
        ('{"pet": {"name": "Rex", "kind": "dog"', {"pet": Dog(name="Rex")}),
        ('{"pets": [{"kind": "dog", "name": "Rex"}, {"na', {"pets": [Dog(name="Rex")]}),
        ('{"pet": null', {"pet": None}),
        ('{"lists": ["x"', {}),
    ],
)
def test_an_object_of_a_union_is_shown_once_it_says_what_it_is(text: str, fields: dict[str, Any]) -> None:
    assert fields_of(known(Home, text)) == fields


def test_what_does_not_say_what_it_is_comes_with_the_answer() -> None:
    text = '{"pet": {"name": "Rex"}, "lists": ["x"]}'
    seen = shown(Home, stream(text))
    assert all(home.model_fields_set == set() for home in seen[:-1])
    assert seen[-1] == Home.model_validate_json(text)


class Checked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field("", alias="Name", min_length=3)
    size: Annotated[int, Field(gt=10)] = 11
    parts: list[int] = Field([], min_length=2)
    upper: str = ""
    _seen: list[str] = PrivateAttr(default_factory=list[str])

    @field_validator("upper")
    @classmethod
    def _is_upper(cls, value: str) -> str:
        if value != value.upper():
            raise ValueError("expected capitals")
        return value + "!"

    @model_validator(mode="after")
    def _fits(self) -> Checked:
        if len(self.parts) > self.size:
            raise ValueError("too many")
        return self

    def model_post_init(self, context: Any, /) -> None:
        self._seen.append(self.upper)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('{"Name": "x', {"name": "x"}),
        ('{"Name": "x"', {}),
        ('{"size": 3,', {}),
        ('{"size": 12,', {"size": 12}),
        ('{"parts": [1,', {"parts": [1]}),
        ('{"parts": [1, "x", 2,', {"parts": [1, 2]}),
        ('{"upper": "AB', {}),
        ('{"upper": "AB"', {"upper": "AB!"}),
        ('{"upper": "ab"', {}),
        ('{"unknown": 1, "size": 12,', {"size": 12}),
    ],
)
def test_rules_are_for_what_is_whole(text: str, fields: dict[str, Any]) -> None:
    checked = known(Checked, text)
    assert isinstance(checked, Checked)
    assert fields_of(checked) == fields
    assert checked._seen == []  # pyright: ignore[reportPrivateUsage]


class Open(BaseModel, Generic[T], extra="allow"):
    inner: T | None = None


def test_fields_beyond_those_of_the_model_follow_the_model() -> None:
    assert known(Open[int], '{"more": {"x": "y').model_extra == {"more": {"x": "y"}}
    assert known(Open[Note], '{"inner": {"b": "x').inner.b == "x"


WRAPPED: list[tuple[Any, str, list[Any]]] = [
    (list[int], '{"value": [1, 23, 456]}', [[], [1], [1, 23], [1, 23, 456]]),
    (int, '{"value": 12}', [12]),
    (int | str, '{"value": "ab"}', ["", "a", "ab"]),
    (Names, '{"value": ["ab"]}', [Names([]), Names([""]), Names(["a"]), Names(["ab"])]),
    (Row, '{"name": "a", "count": 12}', [{}, {"name": ""}, {"name": "a"}, {"name": "a", "count": 12}]),
    (dict[str, int], '{"a": 1, "b": 2}', [{}, {"a": 1}, {"a": 1, "b": 2}]),
    (set[int], '{"value": [1, 2]}', [set(), {1}, {1, 2}]),
    (tuple[int, str], '{"value": [1, "a"]}', [(1, ""), (1, "a")]),
    (bool | None, '{"value": null}', [None]),
]


@pytest.mark.parametrize(("type_", "text", "seen"), WRAPPED)
def test_what_is_no_object_is_read_from_its_wrapping(type_: Any, text: str, seen: list[Any]) -> None:
    assert shown(type_, stream(text)) == seen


def unpacked(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


class Deferred(BaseModel, defer_build=True):
    inner: Note
    many: list[Note] = []


class Reshaped(BaseModel):
    a: int

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, value: Any) -> Any:
        return {"a": value["b"]} if isinstance(value, dict) and "b" in value else value  # pyright: ignore[reportUnknownVariableType]


class Place(NamedTuple):
    x: int
    y: int


@validated_dataclass(frozen=True, slots=True)
class Frozen:
    a: int
    b: str = Field("", max_length=5)
    c: list[int] = Field(default_factory=list[int])
    hint: InitVar[int] = 3


@dataclass
class Holder(Generic[T]):
    held: T


def tag_of(value: Any) -> str:
    kind: Any = value.get("kind") if isinstance(value, dict) else value.kind  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return "leaf" if kind == "leaf" else "branch"


Alias = TypeAliasType("Alias", Annotated[Branch, AfterValidator(lambda branch: branch)])

ODD: Mapping[str, tuple[Any, str]] = {
    "a decimal": (Decimal, '{"value": "1.50"}'),
    "a uuid": (UUID, '{"value": "00000000-0000-4000-8000-000000000000"}'),
    "a duration": (timedelta, '{"value": "PT1H"}'),
    "bytes": (bytes, '{"value": "abc"}'),
    "a secret": (SecretStr, '{"value": "abc"}'),
    "a path": (Path, '{"value": "/a/b"}'),
    "an address": (IPv4Address, '{"value": "127.0.0.1"}'),
    "a url": (AnyUrl, '{"value": "https://example.com/a"}'),
    "a sequence": (Sequence[Note], '{"value": [{"a": 1, "b": "x"}, {"a": 2}]}'),
    "a deque": (deque[int], '{"value": [1, 2]}'),
    "a default dict": (defaultdict[str, int], '{"a": 1}'),
    "a mapping": (Mapping[Colour, Note], '{"red": {"a": 1}}'),
    "a frozen set": (frozenset[str], '{"value": ["a", "b"]}'),
    "a tuple of any length": (tuple[int, ...], '{"value": [1, 2]}'),
    "a named tuple": (Place, '{"value": [1, 2]}'),
    "json in json": (Json[list[int]], '{"value": "[1, 2]"}'),
    "a new type": (NewType("Id", int), '{"value": 12}'),
    "a function before": (Annotated[list[str], BeforeValidator(unpacked)], '{"value": "a,b"}'),
    "a function around": (Annotated[int, WrapValidator(lambda value, go: go(value) + 1)], '{"value": 12}'),
    "a function instead": (Annotated[Any, PlainValidator(str)], '{"value": 12}'),
    "a function after a list": (Annotated[list[int], AfterValidator(sorted)], '{"value": [2, 1]}'),
    "a deferred model": (Deferred, '{"inner": {"a": 1}, "many": [{"a": 2, "b": "x"}]}'),
    "a reshaped model": (Reshaped, '{"b": 12}'),
    "a frozen dataclass": (Frozen, '{"a": 1, "b": "x", "c": [1]}'),
    "a generic dataclass": (Holder[Note], '{"held": {"a": 1}}'),
    "a tag that a function finds": (
        Annotated[Annotated[Leaf, Tag("leaf")] | Annotated[Branch, Tag("branch")], Discriminator(tag_of)],
        '{"value": {"kind": "leaf", "text": "ab", "size": 1}}',
    ),
    "an alias with a function": (
        tuple[Alias, Alias],
        '{"value": [{"kind": "branch", "weight": 1.5}, {"kind": "branch", "weight": 1}]}',
    ),
    "nested unions": (list[Leaf | list[Branch] | None], '{"value": [null, [{"kind": "branch", "weight": 1.5}]]}'),
    "a branch alone": (Branch, '{"kind": "branch", "parts": [{"kind": "branch", "weight": 1}], "weight": 2}'),
}


@pytest.mark.parametrize("title", ODD)
def test_whatever_pydantic_reads_can_be_read_partly(title: str) -> None:
    type_, text = ODD[title]
    assert shown(type_, stream(text))[-1] == OutputFormat[Any](type_).parse(text)


def test_an_object_is_shown_only_when_it_changed() -> None:
    seen = shown(Note, stream('{"b":   "x",   "more": {"a": [1, 2, 3]},  "a"  : 1   }'))
    assert [fields_of(note) for note in seen] == [{}, {"b": "x"}, {"a": 1, "b": "x"}]


def test_what_was_shown_does_not_change_any_more() -> None:
    seen: list[tuple[Any, str]] = []
    text = '{"kind": "branch", "parts": [{"kind": "leaf", "text": "ab", "size": 1}], "weight": 1.5}'
    events = at_once(stream(text), None).pipe(ops.partial(Branch, every=None))
    events.subscribe(lambda branch: seen.append((branch, repr(branch))))
    assert [repr(branch) for branch, _ in seen] == [told for _, told in seen]


# how it ends


def test_only_the_first_text_of_the_answer_is_read() -> None:
    thinking = chain.message("{", id="msg_t", phase="commentary")
    text = '{"a": 1}'
    events = chain.events(
        chain.created(),
        chain.added(thinking),
        chain.delta('{"b": "no', id="msg_t"),
        chain.text_done('{"b": "no', id="msg_t"),
        chain.added(chain.message(phase="final_answer"), 1),
        chain.delta(text, index=1),
        chain.added(chain.message(id="msg_c"), 2),
        chain.delta('{"b": "nor this"}', index=2, id="msg_c"),
        chain.terminal(output=[thinking, chain.message(text, phase="final_answer")]),
    )
    assert shown(Note, events) == [Note(a=1)]


def test_without_deltas_the_answer_comes_when_it_is_done() -> None:
    text = '{"a": 1}'
    terminal = chain.terminal(output=[chain.message(text)])
    assert shown(Note, chain.events(chain.created(), terminal)) == [Note(a=1)]
    listener = Listener(at_once(chain.events(chain.text_done(text))).pipe(ops.partial(Note)))
    assert listener.heard == [Note(a=1)]


def test_a_response_without_text_shows_nothing() -> None:
    assert shown(Note, chain.events(chain.created(), chain.terminal(output=[chain.call("{}")]))) == []


def test_a_second_terminal_is_not_read() -> None:
    first, second = (chain.terminal(output=[chain.message(text)]) for text in ('{"a": 1}', '{"a": 2}'))
    assert shown(Note, chain.events(chain.created(), first, second)) == [Note(a=1)]


BEGUN = [chain.created(), chain.added(), chain.delta('{"b": "x')]
REFUSAL = chain.item(role="assistant", content=[{"type": "refusal", "refusal": "no"}])
ENDS: dict[str, tuple[chain.Payload, type[OutputError]]] = {
    "cut off": (chain.terminal("incomplete"), IncompleteOutput),
    "failed": (chain.terminal("failed"), IncompleteOutput),
    "refused": (chain.terminal(output=[REFUSAL]), Refused),
    "cut, and called completed": (chain.terminal(output=[chain.message('{"b": "x')]), OutputParseError),
    "a field is missing": (chain.terminal(output=[chain.message('{"b": "x"}')]), OutputParseError),
}


@pytest.mark.parametrize("title", ENDS)
def test_an_answer_that_is_none_is_an_error_with_the_response(title: str) -> None:
    terminal, kind = ENDS[title]
    heard, error = failure(Note, *BEGUN, terminal)
    assert [note.b for note in heard] == ["x"]
    assert type(error) is kind
    assert error.snapshot is not None
    assert error.snapshot.id == "resp_a"


def test_a_stream_that_ends_before_its_terminal_shows_what_there_was() -> None:
    assert [note.b for note in shown(Note, chain.events(*BEGUN))] == ["x"]


def test_a_stream_that_begins_in_the_middle_shows_the_answer_only() -> None:
    text = '{"a": 1, "b": "x"}'
    events = stream(text)[12:]
    assert shown(Note, events) == [Note(a=1, b="x")]


# when it looks


PIECES = dict(zip("abcdef", chain.events(*map(chain.delta, ['{"b": "', "1", "2", "3", "4", "5"])), strict=True))


def length(note: Note) -> int:
    return len(note.b)


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("-a---b---c---|", "-0---1---2---|"),
        ("-abc------d--|", "-0---2----3--|"),
        ("-a----------b------|", "-0----------1------|"),
        ("-abcde---f-------|", "-0---4---5-------|"),
        ("-ab-|", "-0--|"),
    ],
)
def test_a_text_is_read_at_most_once_in_an_interval(source: str, result: str) -> None:
    lengths = rx.map(length)
    assert draw(compose(ops.partial(Note, every=4), lengths), source, PIECES) == result
    for clock in (0.5, 1, 3.5):  # there is time for each
        drawn = draw(compose(ops.partial(Note, every=clock), lengths), "-a---b---c---|", PIECES)
        assert drawn == "-0---1---2---|"


def test_nothing_is_shown_after_a_dispose() -> None:
    lengths = rx.map(length)
    assert draw(compose(ops.partial(Note, every=4), lengths), "-ab--------|", PIECES, leave=3) == "-0-"


def test_a_text_that_hardly_grows_is_read_in_the_end() -> None:
    """At one tick in ten, since all that was there would have to be read again for a character."""
    reader = PartialReader[Any](OutputFormat[Any](Note))
    long = '{"b": "' + "x" * 1000
    for event in chain.events(chain.delta(long), chain.delta("y")):
        reader.feed(event)
        if event.sequence_number == 0:
            assert reader.feed(Tick.TICK)
    looks = [list(reader.feed(Tick.TICK)) for _ in range(12)]
    assert [bool(look) for look in looks] == [False] * 9 + [True] + [False] * 2
    assert not reader.waiting


def test_all_readings_together_are_linear_in_the_text() -> None:
    length = 50_000
    seen = shown(Note, stream(json.dumps({"b": "x" * length, "a": 1}), range(0, length, 4)))
    shares = [len(note.b) for note in seen]
    assert len(seen) < 200
    assert sum(shares) < length * (1 / SHARE + 2)


def test_a_picture_without_a_clock_shows_every_delta() -> None:
    seen = shown(Note, stream('{"b": "abc", "a": 1}'))
    assert [note.b for note in seen] == ["", "a", "ab", "abc", "abc"]
    assert seen[-1] == TypeAdapter(Note).validate_python({"a": 1, "b": "abc"})
