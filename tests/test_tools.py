"""Tools: what becomes a definition, what the arguments of a call are checked against, and how calls are told apart."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, RootModel
from typing_extensions import TypedDict

from orx_rx import Client, OutputParseError, Tool, Toolbox, custom_tool, tool
from orx_rx.models import ResponseCustomToolCall, ResponseFunctionToolCall, UnknownItem
from orx_rx.protocol.schemas import strict_schema
from orx_rx.simulator import Simulator
from orx_rx.tools import ToolLike, definitions

if TYPE_CHECKING:
    from fractions import Fraction


class Unit(Enum):
    CELSIUS = "c"
    FAHRENHEIT = "f"


class Place(BaseModel):
    """Somewhere on a map."""

    city: str
    country: str | None = None


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Wide(BaseModel):
    place: Place = Field(description="Where")
    units: list[Unit]
    note: str = Field("none", max_length=20)
    kind: Literal["a", "b"] | None = None


@dataclass
class Point:
    x: int
    y: int = 0


class Pair(TypedDict):
    """Two of them."""

    left: int
    right: int


def weather(
    city: str, days: Annotated[int, Field(ge=1, le=7, description="How many")] = 1, unit: Unit | None = None
) -> Fraction:
    """Forecast the weather
    of some days.

    It may be wrong.

    Args:
        city (str): Where, in English
            or in the language of the country.
        days: This is said elsewhere.

    Returns:
        city: Not this one.
    """
    raise NotImplementedError


async def clock() -> str:
    return "noon"


def awkward(schema: int, copy: str = "x", model_config: bool = False, _hidden: int = 0, *, self: Place) -> None:
    pass


class Shop:
    """Sells."""

    def buy(self, item: str, count: int = 1) -> str:
        """Buy something."""
        return f"{count} {item}"

    async def wait(self, minutes: float) -> None: ...

    def __call__(self, order: str) -> str:
        """Take an order."""
        return order


def takes_default(limit: int = Field(3, description="At most")) -> int:
    return limit


def properties(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {k: v for k, v in one.items() if k != "title"} for name, one in parameters["properties"].items()}


# definitions


def test_a_function_becomes_a_strict_definition() -> None:
    made = tool(weather)
    assert {**made.definition, "parameters": None} == {
        "type": "function",
        "name": "weather",
        "description": "Forecast the weather of some days.",
        "parameters": None,
        "strict": True,
    }
    assert made.definition["parameters"] is made.parameters
    assert made.parameters["required"] == ["city", "days", "unit"]
    assert made.parameters["additionalProperties"] is False
    assert properties(made.parameters) == {
        "city": {"type": "string", "description": "Where, in English or in the language of the country."},
        "days": {"type": "integer", "minimum": 1, "maximum": 7, "description": "How many", "default": 1},
        "unit": {"anyOf": [{"$ref": "#/$defs/Unit"}, {"type": "null"}]},
    }


def test_without_strict_what_has_a_default_may_be_left_out() -> None:
    made = tool(weather, strict=False)
    assert made.definition["strict"] is False
    assert made.parameters["required"] == ["city"]


# what it is made of, the name, the description, the names of the parameters
SOURCES: Mapping[str, tuple[ToolLike, str, str | None, list[str]]] = {
    "a function": (weather, "weather", "Forecast the weather of some days.", ["city", "days", "unit"]),
    "a coroutine function without a docstring": (clock, "clock", None, []),
    "a method": (Shop().buy, "buy", "Buy something.", ["item", "count"]),
    "an object that can be called": (Shop(), "Shop", "Sells.", ["order"]),
    "what is left of a function": (functools.partial(weather, days=3), "weather", None, ["city", "unit"]),
    "the rest of a method": (functools.partial(Shop().buy, "tea"), "buy", "Buy something.", ["count"]),
    "parameters of every name": (awkward, "awkward", None, ["schema", "copy", "model_config", "_hidden", "self"]),
    "a default with a description": (takes_default, "takes_default", None, ["limit"]),
    "a model": (Place, "Place", "Somewhere on a map.", ["city", "country"]),
    "a model that contains itself": (Node, "Node", None, ["value", "children"]),
    "a dataclass": (Point, "Point", None, ["x", "y"]),
    "a typed dict": (Pair, "Pair", "Two of them.", ["left", "right"]),
}


@pytest.mark.parametrize("title", SOURCES)
def test_what_a_tool_can_be_made_of(title: str) -> None:
    source, name, description, names = SOURCES[title]
    made = tool(source)
    assert made.name == name == made.definition["name"]
    assert list(made.parameters["properties"]) == made.parameters["required"] == names
    assert made.parameters["type"] == "object"
    if description is not None or not isinstance(source, functools.partial):
        assert made.description == made.definition.get("description") == description
    assert tool(made) is made
    json.dumps(made.definition)


def test_a_name_and_a_description_can_be_given() -> None:
    for made in (
        tool(weather, name="forecast", description="Look ahead."),
        tool(name="forecast", description="Look ahead.")(weather),
    ):
        assert (made.name, made.description, made.function) == ("forecast", "Look ahead.", weather)
    assert tool(lambda: None, name="nothing").name == "nothing"


def test_a_decorated_function_can_still_be_called() -> None:
    @tool
    def double(number: int) -> int:
        """Double it."""
        return 2 * number

    @tool(name="triple", strict=False)
    async def threefold(number: int) -> int:
        return 3 * number

    assert isinstance(double, Tool)
    assert (double(4), double.call({"number": 4}), double.is_async) == (8, 8, False)
    assert (threefold.name, threefold.is_async) == ("triple", True)


def test_a_schema_can_be_given_for_a_function_that_takes_anything() -> None:
    def remote(**arguments: Any) -> dict[str, Any]:
        return arguments

    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    made = tool(remote, parameters=schema, strict=False)
    assert made.parameters == schema
    assert made.call(made.validate('{"q": 1, "r": null}')) == {"q": 1, "r": None}


@pytest.mark.parametrize(
    ("source", "is_async"),
    [
        (weather, False),
        (clock, True),
        (Shop().buy, False),
        (Shop().wait, True),
        (functools.partial(Shop().wait, minutes=3), True),
        (functools.partial(functools.partial(weather), "x"), False),
        (Shop(), False),
        (Place, False),
    ],
)
def test_a_coroutine_function_is_known_however_it_is_wrapped(source: ToolLike, is_async: bool) -> None:
    assert tool(source).is_async is is_async


unannotated: Any = eval("lambda city: None")
unannotated.__name__ = "unannotated"


def unknown(city: str) -> None:
    pass


unknown.__annotations__["city"] = "Nowhere"


def positional(city: str, /) -> None:
    pass


def anything(**kwargs: int) -> None:
    pass


def many(*args: int) -> None:
    pass


def opaque(thing: Shop) -> None:
    pass


@dataclass
class Cargo:
    thing: Shop


def callback(fn: Callable[[int], int]) -> None:
    pass


WRONG: Mapping[str, tuple[Callable[[], object], type[Exception], str]] = {
    "no annotation": (lambda: tool(unannotated), TypeError, "annotation of parameter 'city' of unannotated, got none"),
    "no such annotation": (lambda: tool(unknown), TypeError, "annotations of unknown that can be evaluated, got"),
    "positional-only": (lambda: tool(positional), TypeError, "given by name, got positional-only 'city'"),
    "**kwargs": (lambda: tool(anything), TypeError, "given by name, got variadic keyword 'kwargs'"),
    "*args": (lambda: tool(many), TypeError, "given by name, got variadic positional 'args'"),
    "a function of a class": (lambda: tool(Shop.buy), TypeError, "annotation of parameter 'self' of buy, got none"),
    "a type that pydantic does not know": (
        lambda: tool(opaque),
        TypeError,
        "that JSON and pydantic know in opaque",
    ),
    "a type that JSON does not know": (
        lambda: tool(callback),
        TypeError,
        "JSON and pydantic know in callback",
    ),
    "a field that pydantic does not know": (lambda: tool(Cargo), TypeError, "that JSON and pydantic know in Cargo"),
    "a class without fields": (lambda: tool(Shop), TypeError, "a pydantic model, a dataclass or a TypedDict, got Shop"),
    "a type that is no object": (lambda: tool(RootModel[int], name="r"), TypeError, "expected r to have fields"),
    "a number": (lambda: tool(3), TypeError, "a function, a type or a dict, got 3"),  # type: ignore[call-overload]
    "a lambda": (lambda: tool(lambda: None), ValueError, "letters, digits, _ and -, got '<lambda>': give another"),
    "a name with a blank": (lambda: tool(clock, name="the clock"), ValueError, "got 'the clock'"),
    "a definition with a name": (lambda: tool({"name": "x"}, name="y"), TypeError, "a function or a type with name"),
    "a definition without a name": (lambda: tool({"type": "function"}), TypeError, "to have a name, got one without"),
    "two of one name": (
        lambda: Toolbox([clock, tool(weather, name="clock")]),
        ValueError,
        "that are called 'clock'",
    ),
    "a list": (lambda: Toolbox([[clock]]), TypeError, "a function, a type or a dict, got"),  # type: ignore[list-item]
    "a definition that is called": (lambda: tool(Place)(), TypeError, "made of a function, got Place"),
    "a definition that is run": (lambda: tool(Place).call({}), TypeError, "made of a function, got Place"),
}


@pytest.mark.parametrize("title", WRONG)
def test_what_no_tool_can_be_made_of_is_refused(title: str) -> None:
    make, kind, message = WRONG[title]
    with pytest.raises(kind, match=r"^expected ") as raised:
        make()
    assert message in str(raised.value)


# compared with the openai package


@pytest.mark.parametrize("model", [Place, Wide, Node])
def test_a_model_has_the_schema_that_the_openai_package_gives_it(model: type[BaseModel]) -> None:
    openai = pytest.importorskip("openai", reason="expected the package `openai`, found none")
    theirs: Any = openai.pydantic_function_tool(model)["function"]
    made = tool(model)
    assert made.parameters == theirs["parameters"]
    assert (made.name, made.definition["strict"]) == (theirs["name"], theirs["strict"])
    assert made.description == theirs.get("description")


def test_a_function_has_the_schema_of_a_model_with_its_parameters() -> None:
    openai = pytest.importorskip("openai", reason="expected the package `openai`, found none")

    class Weather(BaseModel):
        city: str = Field(description="Where, in English or in the language of the country.")
        days: Annotated[int, Field(ge=1, le=7, description="How many")] = 1
        unit: Unit | None = None

    theirs: Any = openai.pydantic_function_tool(Weather)["function"]
    assert {**tool(weather).parameters, "title": "Weather"} == theirs["parameters"]


def test_what_the_openai_package_makes_of_a_model_keeps_the_model() -> None:
    openai = pytest.importorskip("openai", reason="expected the package `openai`, found none")
    made = tool(openai.pydantic_function_tool(Place))
    assert made.definition == dict(tool(Place).definition)
    assert made.validate('{"city": "Oslo"}') == Place(city="Oslo")
    (nested,) = definitions([{"type": "namespace", "name": "n", "tools": [openai.pydantic_function_tool(Place)]}])
    assert nested["tools"] == [made.definition]


# dicts

FLAT = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": None, "x": 1}
SEARCH = {"type": "web_search", "filters": {"allowed_domains": ["example.com"]}}
CUSTOM = {"type": "custom", "name": "note", "format": {"type": "text"}}


@pytest.mark.parametrize("given", [FLAT, SEARCH, CUSTOM, {"type": "function", "name": "bare"}, {"no": "type"}])
def test_a_dict_passes_unchanged(given: dict[str, Any]) -> None:
    assert definitions([given]) == [given]


def test_a_model_of_a_definition_is_sent_as_its_json() -> None:
    assert definitions([UnknownItem.model_validate(SEARCH)]) == [SEARCH]


@pytest.mark.parametrize("given", [None, "tools", {"type": "web_search"}])
def test_what_is_no_list_passes_unchanged(given: object) -> None:
    assert definitions(given) is given


@pytest.mark.parametrize(("strict", "meant"), [({}, False), ({"strict": True}, True), ({"strict": False}, False)])
def test_a_definition_for_chat_is_converted_and_means_the_same(strict: dict[str, bool], meant: bool) -> None:
    chat = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, **strict}}
    assert definitions([chat]) == [{"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": meant}]


def test_a_dict_gives_the_object_that_came_and_a_custom_tool_the_text() -> None:
    assert tool(FLAT).validate('{"a": [1, null]}') == {"a": [1, None]}
    with pytest.raises(OutputParseError, match=r"got: no JSON object$"):
        tool(FLAT).validate("[1]")
    assert tool(CUSTOM).validate("not { JSON") == "not { JSON"


def test_a_custom_tool_takes_text() -> None:
    def note(text: str) -> int:
        """Write it down."""
        return len(text)

    made = custom_tool(note)
    assert made.definition == {"type": "custom", "name": "note", "description": "Write it down."}
    assert made.call(made.validate("four")) == 4
    grammar = {"type": "grammar", "syntax": "regex", "definition": "a+"}
    made = custom_tool(note, name="n", description="d", format=grammar)
    assert made.definition == {"type": "custom", "name": "n", "description": "d", "format": grammar}


# arguments


@pytest.mark.parametrize(
    ("source", "text", "arguments"),
    [
        (weather, '{"city": "Oslo"}', {"city": "Oslo", "days": 1, "unit": None}),
        (weather, '{"city": "Oslo", "days": "3", "unit": "c"}', {"city": "Oslo", "days": 3, "unit": Unit.CELSIUS}),
        (takes_default, "{}", {"limit": 3}),
        (clock, "{}", {}),
        (clock, "", {}),
        (clock, " \n", {}),
        (Place, '{"city": "Oslo", "extra": 1}', Place(city="Oslo")),
        (Point, '{"x": 1}', Point(1)),
        (Pair, '{"left": 1, "right": 2}', {"left": 1, "right": 2}),
        (Node, '{"value": 1, "children": [{"value": 2}]}', Node(value=1, children=[Node(value=2)])),
        (functools.partial(weather, days=3), '{"city": "Oslo"}', {"city": "Oslo", "unit": None}),
    ],
)
def test_arguments_are_read_as_the_annotations_say(source: ToolLike, text: str, arguments: object) -> None:
    assert tool(source).validate(text) == arguments


def test_arguments_of_every_name_reach_the_function() -> None:
    read = tool(awkward).validate('{"schema": 1, "self": {"city": "Oslo"}, "_hidden": 3, "model_config": true}')
    assert read == {"schema": 1, "copy": "x", "model_config": True, "_hidden": 3, "self": Place(city="Oslo")}


@pytest.mark.parametrize(
    ("source", "text", "problem"),
    [
        (weather, "", "arguments: Invalid JSON"),
        (weather, '{"city": "secr', "arguments: Invalid JSON"),
        (weather, "[]", "arguments: Input should be an object"),
        (weather, "{}", "city: Field required"),
        (weather, '{"city": "secret", "days": 9}', "days: Input should be less than or equal to 7"),
        (weather, '{"city": "secret", "when": 1}', "when: Extra inputs are not permitted"),
        (Node, '{"value": 1, "children": [{"value": "secret"}]}', "children.0.value: Input should be a valid integer"),
        (functools.partial(weather, days=3), '{"city": "secret", "days": 7}', "days: Extra inputs are not permitted"),
    ],
)
def test_arguments_that_do_not_fit_are_an_error_that_keeps_them(source: ToolLike, text: str, problem: str) -> None:
    with pytest.raises(OutputParseError, match=r"^expected arguments that fit \w+, got: ") as raised:
        tool(source).validate(text)
    assert problem in str(raised.value)
    assert "secret" not in str(raised.value)
    assert raised.value.text == text


# finding the one that is called


def called(name: str, namespace: str | None = None) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(name=name, namespace=namespace, call_id="call_a", arguments="{}")


def test_a_tool_is_found_by_kind_name_and_namespace() -> None:
    note = custom_tool(len, name="clock")
    crm = {"type": "namespace", "name": "crm", "description": "d", "tools": [weather, tool(FLAT)]}
    box = Toolbox([clock, note, crm, SEARCH])
    assert box.names == ["clock", "clock", "crm.weather", "crm.f"]
    assert box.definitions == [
        tool(clock).definition,
        note.definition,
        {**crm, "tools": [tool(weather).definition, FLAT]},
        SEARCH,
    ]
    found: Mapping[tuple[str, str | None], Awaitable[object] | object | None] = {
        ("clock", None): clock,
        ("clock", "clock"): clock,  # as the openai package has it for tools that were deferred
        ("clock", "crm"): None,
        ("clock", "other"): None,
        ("weather", "crm"): weather,
        ("weather", None): None,
        ("weather", "weather"): None,
        ("web_search", None): None,
    }
    for (name, namespace), function in found.items():
        one = box.find(called(name, namespace))
        assert (one.function if one else None) is function
    assert box.find(ResponseCustomToolCall(name="clock", call_id="c", input="")) is note
    assert box.find(ResponseCustomToolCall(name="weather", namespace="crm", call_id="c", input="")) is None


def test_two_namespaces_may_have_tools_of_one_name() -> None:
    first, second = tool(clock), tool(clock)
    box = Toolbox([{"type": "namespace", "name": name, "tools": [one]} for name, one in (("a", first), ("b", second))])
    assert box.find(called("clock", "a")) is first
    assert box.find(called("clock", "b")) is second


# in a request


async def test_a_request_takes_functions_types_tools_and_dicts() -> None:
    given: list[Any] = [clock, Place, tool(weather, name="forecast"), FLAT, SEARCH]
    async with Simulator() as simulator, Client(base_url=simulator.base_url) as client:
        client.events(model="story", input="x", tools=given).subscribe()
        client.chunks(model="story", input="x", tools=tuple(given)).subscribe()
        client.chunks(model="story", input="x", tools=None).subscribe()
        await simulator.wait_for(lambda s: len(s.requests) == 3)
        bodies = [request.body for request in simulator.requests if request.body]
    sent = sorted((body["tools"] or [] for body in bodies), key=len)
    assert sent == [[], definitions(given), definitions(given)]
    assert [one.get("name") for one in sent[1]] == ["clock", "Place", "forecast", "f", None]
    assert sent[1][0]["parameters"] == strict_schema({"type": "object", "properties": {}, "title": "clock"})
