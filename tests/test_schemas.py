"""Strict JSON schemas: the rules of the openai package, read from its own function."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar

import pytest
from pydantic import BaseModel, Field, RootModel, TypeAdapter
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from orx_rx.protocol.schemas import strict_schema

T = TypeVar("T")


class Colour(Enum):
    """A colour."""

    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    """A place."""

    x: int
    y: float = 0.5


class Line(BaseModel):
    start: Point
    end: Point = Field(description="Where it ends")
    colour: Colour = Field(default=Colour.RED, description="How it looks")


class Optionals(BaseModel):
    name: Optional[str] = None  # noqa: UP045 - what users write
    point: Point | None = Field(default=None, description="A point, or nothing")
    sizes: list[int] | None = None
    count: int = 3


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Chain(BaseModel):
    value: int
    rest: Chain | None = None


class Left(BaseModel):
    kind: Literal["left"] = "left"
    point: Point


class Right(BaseModel):
    kind: Literal["right"] = "right"
    parts: dict[str, Point]


class Either(BaseModel):
    side: Left | Right
    told: Annotated[Left | Right, Field(discriminator="kind")]


class Box(BaseModel, Generic[T]):
    content: T
    more: list[T] = []


class Points(RootModel[list[Point]]):
    pass


class Anything(BaseModel):
    value: Any
    pair: tuple[int, Point]
    size: int = Field(gt=0, le=10, description="A size")


class Deep(BaseModel):
    lines: list[list[Line]]
    table: dict[str, list[Optionals]]


class Open(BaseModel, extra="allow"):
    name: str


@dataclass
class Pair:
    first: Point
    second: Point | None = None


class Row(TypedDict):
    name: str
    point: Point


class Empty(BaseModel):
    pass


MODELS = [
    Point,
    Line,
    Optionals,
    Tree,
    Chain,
    Either,
    Box[int],
    Box[Line],
    Points,
    Anything,
    Deep,
    Open,
    Empty,
]
TYPES: list[Any] = [*MODELS, Pair, Row, list[Point], Left | Right, int, dict[str, Line]]


def name_of(type_: Any) -> str:
    return getattr(type_, "__name__", str(type_))


@pytest.mark.parametrize("type_", TYPES, ids=name_of)
def test_a_type_has_the_schema_that_it_has_in_the_openai_package(type_: Any) -> None:
    theirs = pytest.importorskip("openai.lib._pydantic")
    adapter: TypeAdapter[Any] = TypeAdapter(type_)
    assert strict_schema(adapter.json_schema()) == theirs.to_strict_json_schema(adapter)


@pytest.mark.parametrize("type_", TYPES, ids=name_of)
def test_the_schema_that_is_given_stays_as_it_is(type_: Any) -> None:
    schema = TypeAdapter[Any](type_).json_schema()
    before = deepcopy(schema)
    made = strict_schema(schema)
    made.setdefault("properties", {}).clear()
    assert schema == before
    assert strict_schema(strict_schema(schema)) == strict_schema(schema)


RULES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "object"}, {"type": "object", "additionalProperties": False}),
    ({"type": "object", "additionalProperties": True}, {"type": "object", "additionalProperties": True}),
    ({"properties": {"b": True, "a": {}}}, {"properties": {"b": True, "a": {}}, "required": ["b", "a"]}),
    ({"type": "string", "default": None}, {"type": "string"}),
    ({"type": "string", "default": ""}, {"type": "string", "default": ""}),
    (
        {"allOf": [{"type": "object"}], "title": "T"},
        {"type": "object", "additionalProperties": False, "title": "T"},
    ),
    ({"allOf": [{"default": None}, {}]}, {"allOf": [{}, {}]}),
    ({"oneOf": [{"type": "object"}]}, {"oneOf": [{"type": "object"}]}),
    ({"$ref": "https://example.com/"}, {"$ref": "https://example.com/"}),
    (
        {"definitions": {"a/b": {"type": "null"}}, "items": {"$ref": "#/definitions/a~1b", "title": "T"}},
        {"definitions": {"a/b": {"type": "null"}}, "items": {"type": "null", "title": "T"}},
    ),
]


@pytest.mark.parametrize(("schema", "strict"), RULES)
def test_the_rules_one_by_one(schema: dict[str, Any], strict: dict[str, Any]) -> None:
    assert strict_schema(schema) == strict


def test_keywords_beside_a_reference_win_over_what_it_refers_to() -> None:
    end = strict_schema(Line.model_json_schema())["properties"]["end"]
    assert (end["description"], end["title"], end["required"]) == ("Where it ends", "Point", ["x", "y"])


class Person(BaseModel):
    friend: Person = Field(description="The best one")


def test_a_type_that_refers_to_itself_with_a_description_ends() -> None:
    """The openai package recurses for ever here."""
    schema = strict_schema(Person.model_json_schema())
    assert schema["properties"]["friend"] == {"$ref": "#/$defs/Person"}
    assert schema["$defs"]["Person"]["properties"]["friend"]["description"] == "The best one"
    assert schema["$defs"]["Person"]["properties"]["friend"]["properties"]["friend"] == {"$ref": "#/$defs/Person"}


@pytest.mark.parametrize("reference", ["https://example.com/x", "#", "#/$defs/Missing", "#/type/x"])
def test_a_reference_that_leads_nowhere_is_an_error(reference: str) -> None:
    with pytest.raises(ValueError, match="expected references to places in the schema"):
        strict_schema({"type": "object", "items": {"$ref": reference, "title": "T"}})
