"""Tools: what a model may call, made out of functions, types and dicts.

    async def weather(city: str, days: Annotated[int, Field(ge=1, le=7)] = 1) -> str:
        '''Forecast the weather.

Args:
            city: Where, in English.
        '''

    client.events(model=..., input=..., tools=[weather, {"type": "web_search"}])

A function or a type can be given as it is wherever tools are taken; `tool` gives it another name or description. What
the model sends is checked by pydantic against the same annotations that the definition is made from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import partial
from inspect import Parameter, cleandoc, iscoroutinefunction, isroutine, signature, unwrap
from types import SimpleNamespace
from typing import Annotated, Any, TypeAlias, cast, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import from_json
from typing_extensions import is_typeddict  # which knows those of typing as well

from orx_rx.errors import OutputParseError
from orx_rx.models.base import Model, to_wire
from orx_rx.models.function_items import ResponseCustomToolCall, ResponseFunctionToolCall
from orx_rx.protocol.schemas import strict_schema

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_KINDS = {"function_call": "function", "custom_tool_call": "custom"}

CallItem: TypeAlias = ResponseFunctionToolCall | ResponseCustomToolCall
"""An item that is a call of one of the caller's tools."""


@dataclass(frozen=True, eq=False)
class Tool:
    """Something that a model may call; made by `tool` and `custom_tool`.

    Attributes:
        name: The name that the model calls.
        description: What the model is told of it, or None.
        parameters: The JSON schema of the arguments; empty for a tool that takes free text.
        definition: What a request has among its `tools`.
        function: What runs it; None where only the arguments are wanted.
    """

    name: str
    description: str | None
    parameters: Mapping[str, Any] = field(repr=False)
    definition: Mapping[str, Any] = field(repr=False)
    function: Callable[..., Any] | None = None
    _read: Callable[[str], Any] = field(default=str, repr=False)

    @property
    def is_async(self) -> bool:
        """Whether it is a coroutine function, which is awaited; others are run in a thread."""
        target = _target(self.function)
        return iscoroutinefunction(target) or iscoroutinefunction(getattr(target, "__func__", None))

    def validate(self, text: str) -> Any:
        """Read the arguments of a call.

        Args:
            text: What the model sent.

        Returns:
            The keyword arguments of a function, an instance of a type, the JSON object that a dict asked for, or the
            text of a custom tool.

        Raises:
            OutputParseError: They do not fit; the message tells where and why, and not what came.
        """
        if not text.strip() and self.parameters and not self.parameters.get("properties"):
            text = "{}"  # which some servers spell as nothing
        try:
            return self._read(text)
        except ValidationError as error:
            problems = "; ".join(_problems(error))
        except ValueError:  # of from_json
            problems = "no JSON object"
        raise OutputParseError(f"expected arguments that fit {self.name}, got: {problems}", text)

    def call(self, arguments: Any) -> Any:
        """Call the function.

        Args:
            arguments: What `validate` returned.

        Returns:
            What the function returns; of a coroutine function something to await.

        Raises:
            TypeError: There is no function.
        """
        if self.function is None:
            raise TypeError(f"expected a tool made of a function, got {self.name}, which is a definition")
        if isinstance(arguments, dict):
            return self.function(**cast("dict[str, Any]", arguments))
        return self.function(arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as if it were no tool; arguments are not checked."""
        if self.function is None:
            raise TypeError(f"expected a tool made of a function, got {self.name}, which is a definition")
        return self.function(*args, **kwargs)


ToolLike: TypeAlias = Tool | type[Any] | Callable[..., Any] | Mapping[str, Any]
"""What is taken for a tool: a `Tool`, a function, a type with fields, or the JSON of a definition."""


@overload
def tool(
    source: ToolLike,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    strict: bool = True,
) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    strict: bool = True,
) -> Callable[[ToolLike], Tool]: ...


def tool(
    source: ToolLike | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    strict: bool = True,
) -> Tool | Callable[[ToolLike], Tool]:
    """Make a tool out of a function, a type, or a definition.

    Of a function the parameters are those that have no value bound by `functools.partial`, which is the way to hand it
    what the model must not choose; a bound method has its object. Defaults and `Annotated[..., Field(...)]` count, the
    first paragraph of the docstring is the description, and its `Args:` describe the parameters. A type is a pydantic
    model, a dataclass or a TypedDict: a call gives an instance. A definition is a dict as a request has it, or the one
    with a `function` in it that Chat Completions has.

    Works as a decorator too, with and without arguments.

    Args:
        source: The function, type or definition. A tool is returned as it is.
        name: Its name; by default that of the function or type.
        description: What the model is told of it; by default from the docstring.
        parameters: A JSON schema to use as it is instead of the annotations; the function then gets the object that
            comes as keyword arguments, unchecked.
        strict: Whether the server is to hold the model to the schema, which is then made strict: every parameter is
            required, and one that may be left out should accept None.

    Raises:
        TypeError: A parameter cannot be given by name or has no annotation that pydantic knows; or it is something else
            altogether; or a definition comes with other options.
        ValueError: The name is not one that servers take.
    """
    if source is None:
        return partial(tool, name=name, description=description, parameters=parameters, strict=strict)
    given: Any = source  # the checks below are for those who have no type checker
    if isinstance(given, Tool | Mapping):
        if (name, description, parameters, strict) != (None, None, None, True):
            raise TypeError("expected a function or a type with name, description, parameters or strict, got a tool")
        return given if isinstance(given, Tool) else _of_definition(cast("Mapping[str, Any]", given))
    if not callable(given):
        raise TypeError(f"expected a function, a type or a dict, got {given!r}")
    name = _checked_name(given, name)
    doc = _doc(given)
    if parameters is not None:
        return _function_tool(name, description or _summary(doc), dict(parameters), strict, given, _json_object)
    if isinstance(source, type):
        if not (issubclass(source, BaseModel) or is_dataclass(given) or is_typeddict(given)):
            raise TypeError(f"expected a pydantic model, a dataclass or a TypedDict, got {name}")
        adapter = _adapter(given, name)
        whole = description or cleandoc(doc) or None
        schema = _schema(adapter, name, strict)
        return _function_tool(name, whole, schema, strict, None, adapter.validate_json)
    arguments = _arguments_of(given, name)
    schema = _schema(TypeAdapter(arguments), name, strict, _described(doc))
    return _function_tool(name, description or _summary(doc), schema, strict, given, partial(_keywords, arguments))


def custom_tool(
    function: Callable[[str], Any],
    *,
    name: str | None = None,
    description: str | None = None,
    format: Mapping[str, Any] | None = None,
) -> Tool:
    """Make a tool that takes free text.

    Args:
        function: Called with the text.
        name: Its name; by default that of the function.
        description: What the model is told of it; by default the first paragraph of the docstring.
        format: The grammar of the text, as a request has it; any text by default.

    Raises:
        ValueError: The name is not one that servers take.
    """
    name = _checked_name(function, name)
    about = {"description": description or _summary(_doc(function)), "format": format}
    given = {key: value for key, value in about.items() if value is not None}
    return Tool(name, cast("str | None", about["description"]), {}, {"type": "custom", "name": name, **given}, function)


class Toolbox:
    """The tools of a request.

    Args:
        tools: Tools, or what becomes one. Hosted tools, such as `{"type": "web_search"}`, are passed on. A namespace is
            a dict with more of them among its `tools`.

    Attributes:
        definitions: What the request has among its `tools`.

    Raises:
        TypeError: One of them is nothing to make a tool of.
        ValueError: Two have the same name.
    """

    def __init__(self, tools: Iterable[ToolLike]) -> None:
        self._tools: dict[tuple[str, str | None, str], Tool] = {}
        self._namespaces: set[str] = set()
        self.definitions: list[Any] = [self._add(one, None) for one in tools]

    @property
    def names(self) -> list[str]:
        """The names of what the model may call here."""
        return [name if namespace is None else f"{namespace}.{name}" for _, namespace, name in self._tools]

    def find(self, item: CallItem) -> Tool | None:
        """Find the tool that an item calls; None where there is none.

        A tool of a namespace is found there alone. One that has none may be called in a namespace of its own name, as
        the openai package has it.

        Args:
            item: The call.
        """
        name, namespace = str(item.name), item.namespace
        if namespace is not None and namespace not in self._namespaces:
            namespace = None if namespace == name else namespace
        return self._tools.get((_KINDS[item.type], namespace, name))

    def _add(self, source: Any, namespace: str | None) -> Any:
        if isinstance(source, Model):  # a definition as the server sent it
            source = to_wire(source)
        if isinstance(source, Mapping):
            fields = cast("Mapping[str, Any]", source)
            if fields.get("type") == "namespace" and namespace is None:
                self._namespaces.add(str(fields.get("name")))
                nested = [self._add(one, str(fields.get("name"))) for one in fields.get("tools") or ()]
                return {**fields, "tools": nested}
            if fields.get("type") not in _KINDS.values() and "function" not in fields:
                return fields
        made = tool(cast("ToolLike", source))
        key = (str(made.definition["type"]), namespace, made.name)
        if key in self._tools:
            raise ValueError(f"expected every tool to have a name of its own, got two that are called {made.name!r}")
        self._tools[key] = made
        return made.definition


def definitions(tools: object) -> Any:
    """Turn what a request has among its `tools` into JSON; what is no list or tuple stays as it is."""
    return Toolbox(cast("list[ToolLike]", tools)).definitions if isinstance(tools, list | tuple) else tools


# making


def _function_tool(
    name: str,
    description: str | None,
    parameters: Mapping[str, Any],
    strict: bool,
    function: Callable[..., Any] | None,
    read: Callable[[str], Any],
) -> Tool:
    about = {} if description is None else {"description": description}
    definition = {"type": "function", "name": name, **about, "parameters": parameters, "strict": strict}
    return Tool(name, description, parameters, definition, function, read)


def _of_definition(fields: Mapping[str, Any]) -> Tool:
    flat: Any = fields.get("function", fields)
    if not isinstance(flat, Mapping) or not isinstance(cast("Mapping[str, Any]", flat).get("name"), str):
        raise TypeError("expected the definition of a tool to have a name, got one without")
    model: Any = getattr(cast("object", flat), "model", None)  # of openai.pydantic_function_tool
    made: dict[str, Any] = dict(cast("Mapping[str, Any]", flat))
    if "function" in fields:  # where strict is false unless it is said, and here it is the other way round
        made = {"type": "function", "strict": False, **made}
    read: Callable[[str], Any] = str if made.get("type") == "custom" else _json_object
    if isinstance(model, type) and issubclass(model, BaseModel):
        read = model.model_validate_json
    return Tool(made["name"], made.get("description"), made.get("parameters") or {}, made, None, read)


def _checked_name(source: Callable[..., Any], name: str | None) -> str:
    inner = _inner(source)
    found = name if name is not None else getattr(inner, "__name__", type(inner).__name__)
    if not _NAME.fullmatch(found):
        raise ValueError(f"expected a name of letters, digits, _ and -, got {found!r}: give another as name=")
    return found


def _inner(function: Any) -> Any:
    """Find what is behind partials."""
    while isinstance(function, partial):
        function = function.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return function


def _target(function: Any) -> Any:
    """Find what is really called: a function or method, also of an object that can be called."""
    inner = _inner(function)
    return inner if isroutine(inner) else getattr(inner, "__call__", None)  # noqa: B004


def _arguments_of(function: Callable[..., Any], name: str) -> type[BaseModel]:
    """Make a model of the parameters; its fields are numbered, because a model cannot have fields of every name."""
    bound: set[str] = set()
    inner: Any = function
    while isinstance(inner, partial):
        bound |= inner.keywords.keys()  # pyright: ignore[reportUnknownMemberType]
        inner = inner.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    parameters = [one for one in signature(function).parameters.values() if one.name not in bound]
    hints = _hints(function, parameters, name)
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(parameters):
        if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            raise TypeError(
                f"expected parameters of {name} that can be given by name, got {parameter.kind.description} "
                f"{parameter.name!r}"
            )
        hint, default = hints[parameter.name], parameter.default
        if isinstance(default, FieldInfo):
            hint, default = Annotated[hint, default], Parameter.empty
        given: dict[str, Any] = {} if default is Parameter.empty else {"default": default}
        fields[f"field_{number}"] = (hint, Field(alias=parameter.name, **given))
    try:
        return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    except PydanticUserError as error:
        raise _unknown_to_pydantic(name) from error


def _hints(function: Callable[..., Any], parameters: Iterable[Parameter], name: str) -> dict[str, Any]:
    """Evaluate the annotations of parameters, and no others: what is returned may be known to type checkers alone."""
    written = {one.name: one.annotation for one in parameters}
    for one in parameters:
        if one.annotation is Parameter.empty and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise TypeError(f"expected an annotation of parameter {one.name!r} of {name}, got none")
    names = getattr(unwrap(_target(function)), "__globals__", {})
    try:
        return get_type_hints(SimpleNamespace(__annotations__=written), names, include_extras=True)
    except NameError as error:
        raise TypeError(f"expected annotations of {name} that can be evaluated, got {error}") from error


def _adapter(source: Any, name: str) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(source)
    except PydanticUserError as error:
        raise _unknown_to_pydantic(name) from error


def _schema(
    adapter: TypeAdapter[Any], name: str, strict: bool, described: Mapping[str, str] | None = None
) -> dict[str, Any]:
    try:
        schema = adapter.json_schema()
    except PydanticUserError as error:
        raise _unknown_to_pydantic(name) from error
    if "$ref" in schema:  # a type that contains itself
        schema = {**schema["$defs"][schema["$ref"].rpartition("/")[2]], "$defs": schema["$defs"]}
    if schema.get("type") != "object":
        raise TypeError(f"expected {name} to have fields, got a type that is no object in JSON")
    for parameter, text in (described or {}).items():
        if parameter in schema["properties"]:
            schema["properties"][parameter].setdefault("description", text)
    return strict_schema(schema) if strict else schema


def _unknown_to_pydantic(name: str) -> TypeError:
    return TypeError(f"expected types that JSON and pydantic know in {name}, got another one")


# docstrings


def _doc(source: Any) -> str:
    """Read the docstring; the one that a dataclass makes of its fields is none."""
    doc = getattr(_inner(source), "__doc__", None) or ""
    return "" if is_dataclass(source) and doc.startswith(f"{getattr(source, '__name__', '')}(") else doc


def _summary(doc: str) -> str | None:
    return " ".join(cleandoc(doc).partition("\n\n")[0].split()) or None


def _described(doc: str) -> dict[str, str]:
    """Read the descriptions of parameters out of the section `Args:`."""
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", cleandoc(doc), re.MULTILINE)
    if section is None:
        return {}
    lines = cleandoc("\n" + section[1]).splitlines()
    found: dict[str, str] = {}
    last = ""
    for line in lines:
        named = re.match(r"(\w+)(?: ?\([^)]*\))?: *(.*)", line)
        if named:
            last = named[1]
            found[last] = named[2].strip()
        elif last and line.strip():
            found[last] = f"{found[last]} {line.strip()}".strip()
    return found


# reading


def _keywords(arguments: type[BaseModel], text: str) -> dict[str, Any]:
    values = arguments.model_validate_json(text)
    return {str(info.alias): getattr(values, name) for name, info in arguments.model_fields.items()}


def _json_object(text: str) -> dict[str, Any]:
    value = from_json(text)
    if not isinstance(value, dict):
        raise ValueError("expected a JSON object, got another value")
    return cast("dict[str, Any]", value)


def _problems(error: ValidationError) -> list[str]:
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return [f"{'.'.join(map(str, detail['loc'])) or 'arguments'}: {detail['msg']}" for detail in details]
