"""An object as far as it is known: JSON that was cut anywhere, and the type that it is to have.

pydantic validates it, with a schema that is made out of the schema of the type: fields may be missing, what does not
fit yet is left out, and no code of the type runs on what is not whole. `_KINDS` has a row for each kind of schema that
is changed; all others take whole values, as they are.
"""

from __future__ import annotations

import re
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import PydanticUndefined, SchemaValidator, ValidationError, from_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pydantic import TypeAdapter

Schema = dict[str, Any]

UNKNOWN: Final = object()
"""What is known of an object of which nothing is known."""


# JSON that was cut


class CutText:
    """JSON text that is not whole yet, read from its beginning again and again.

    It is scanned once, to tell where it was cut; what was scanned is not looked at again.
    """

    def __init__(self) -> None:
        self._at = 0
        self._open: list[str] = []  # the brackets around the end
        self._in_string = False
        self._value = True  # whether a string that opens now is a value, and not a key

    def read(self, text: str) -> Any:
        """Read a text that begins with what was read before; `UNKNOWN` if that is nothing.

        A string at the end is what there is of it, as a `Cut`. A number at the end is left out, since more digits may
        follow.
        """
        self._scan(text)
        whole = text[: self._at] + '"' if self._in_string else _without_number(text)
        try:
            value = from_json(whole, allow_partial=True)
        except ValueError:
            return UNKNOWN
        return _marked(value) if self._in_string and self._value else value

    def _scan(self, text: str) -> None:
        at = self._at
        for found in _SIGNS.finditer(text, at):
            sign, at = found[0], found.end()
            if self._in_string:
                self._in_string = sign != '"'
            elif sign == '"':
                self._in_string = True
            elif sign in "[{":
                self._open.append(sign)
                self._value = sign == "["
            elif sign in "]}":
                del self._open[-1:]
            elif sign in ":,":
                self._value = sign == ":" or self._open[-1:] != ["{"]
        cut = text.find("\\", at)  # an escape that is not whole, or else it would have been found
        self._at = len(text) if cut < 0 else cut


_SIGNS = re.compile(
    r"""
    \\ u [dD][89abAB][0-9a-fA-F]{2} \\ u [0-9a-fA-F]{4}  # the two halves of a character beyond the first 65,536
    | \\ u (?![dD][89abAB]) [0-9a-fA-F]{4}
    | \\ [^u]
    | ["\[\]{}:,]
    """,
    re.VERBOSE | re.DOTALL,
)


class Cut(str):
    """A string that is not whole."""

    __slots__ = ()


def _without_number(text: str) -> str:
    rest = text.rstrip("0123456789.eE+-")
    return rest if any(sign in "0123456789" for sign in text[len(rest) :]) else text


def _marked(value: Any) -> Any:
    """Mark the last string, which is the one that was cut."""
    if isinstance(value, str):
        return Cut(value)
    _replace_last(value, str, Cut)
    return value


def _plain(value: Any) -> Any:
    """Take the mark away."""
    if isinstance(value, Cut):
        return str(value)
    _replace_last(value, Cut, str)
    return value


def _replace_last(value: Any, kind: type[Any], make: Callable[[Any], Any]) -> None:
    while isinstance(value, dict | list) and value:
        inside: Any = cast("Any", value)
        last: Any = -1 if isinstance(value, list) else next(reversed(inside))
        if isinstance(inside[last], kind):
            inside[last] = make(inside[last])
            return
        value = inside[last]


# a type of which only a part is known


def known_reader(adapter: TypeAdapter[Any]) -> Callable[[Any], Any]:
    """Make a function that makes an object out of the JSON value that is known of it.

    It returns `UNKNOWN` where there is no object yet. A field that is not known has its default; without a default it
    is not there.
    """
    schema = cast("Schema", adapter.core_schema)
    validator = SchemaValidator(cast("Any", _Known(schema).root()))

    def read(value: Any) -> Any:
        try:
            return validator.validate_python(value)
        except ValidationError:
            return UNKNOWN

    return read


class _Known:
    """Makes the schema of what is known of a type."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        definitions = root["definitions"] if root["type"] == "definitions" else ()
        self._definitions: Mapping[str, Schema] = {one["ref"]: one for one in definitions}
        self._choices: dict[str, Schema] = {}  # choices of unions, by the names of their own

    def root(self) -> Schema:
        made = self.make(self._root["schema"] if self._definitions else self._root)
        definitions = [*map(self.make, self._definitions.values()), *self._choices.values()]
        return {"type": "definitions", "schema": made, "definitions": definitions} if definitions else made

    def make(self, schema: Schema) -> Schema:
        made = _KINDS.get(schema["type"], _Known.whole)(self, schema)
        return {**made, "ref": schema["ref"]} if "ref" in schema else made

    def whole(self, schema: Schema) -> Schema:
        return _before(_refuse_cut, _without_ref(schema))

    def same(self, schema: Schema) -> Schema:
        return schema

    def anything(self, schema: Schema) -> Schema:
        return _before(_plain, _without_ref(schema))

    def inner(self, schema: Schema) -> Schema:
        return self.make(schema["schema"])

    def nullable(self, schema: Schema) -> Schema:
        return {**_without_ref(schema), "schema": self.make(schema["schema"])}

    def function(self, schema: Schema) -> Schema:
        """Leave out a function that looks at a container; others get whole values."""
        return self.inner(schema) if self._peeled(schema)["type"] in _CONTAINERS else self.whole(schema)

    def text(self, schema: Schema) -> Schema:
        return {"type": "function-wrap", "function": _function(_take_cut), "schema": _without_ref(schema)}

    def array(self, schema: Schema) -> Schema:
        made = _without_ref(schema, "min_length")
        return {**made, "items_schema": _or_omit(self.make(schema["items_schema"]))} if "items_schema" in made else made

    def tuple(self, schema: Schema) -> Schema:
        return {**_without_ref(schema), "items_schema": [self.make(one) for one in schema["items_schema"]]}

    def dict(self, schema: Schema) -> Schema:
        made = _without_ref(schema, "min_length")
        values = schema.get("values_schema")
        return made if values is None else {**made, "values_schema": _or_omit(self.make(values))}

    def fields(self, schema: Schema, *, tagged: bool = False) -> Schema:
        """Make what reads an object; of a union, only once its tags are known."""
        if schema["type"] == "model" and schema.get("root_model"):
            return _after(partial(_root_model, schema["cls"]), self.make(schema["schema"]))
        fields = _fields_of(schema)
        more = {"extra_behavior": "allow", "extras_schema": _before(_plain, {"type": "any"})}
        made: Schema = {
            "type": "typed-dict",
            "fields": {
                name: self._field(field, required=tagged and _is_tag(field["schema"])) for name, field in fields.items()
            },
            **(more if _extra_of(schema) == "allow" else {"extra_behavior": "ignore"}),
            "config": schema.get("config", {}),
        }
        if schema["type"] == "typed-dict":
            return made
        defaults = {name: default for name, field in fields.items() if (default := _default(field["schema"]))}
        build = _model if schema["type"] == "model" else _dataclass
        return _after(partial(build, schema["cls"], tuple(fields), defaults), made)

    def _field(self, field: Schema, *, required: bool) -> Schema:
        schema = self.make(field["schema"])
        alias = {"validation_alias": field["validation_alias"]} if "validation_alias" in field else {}
        shown = schema if required else _or_omit(schema)
        return {"type": "typed-dict-field", "schema": shown, "required": required, **alias}

    def union(self, schema: Schema) -> Schema:
        choices: list[Schema] = [one[0] if isinstance(one, tuple) else one for one in schema["choices"]]
        kinds = [_JSON_KINDS.get(self._peeled(one)["type"]) for one in choices]
        made = [
            known
            for one, kind in zip(choices, kinds, strict=True)
            if (known := self.make(one) if kind is None or kinds.count(kind) == 1 else self._tagged(one))
        ]
        return {**_without_ref(schema), "choices": made or [_before(_refuse, {"type": "any"})]}

    def _tagged(self, schema: Schema) -> Schema | None:
        """Make a choice among several of its kind, which must say itself that it is the one."""
        peeled = self._peeled(schema)
        if peeled["type"] not in _OBJECTS or peeled.get("root_model"):
            return None
        if not any(_is_tag(field["schema"]) for field in _fields_of(peeled).values()):
            return None
        name = f"{peeled.get('ref', id(peeled))}, tagged"
        if name not in self._choices:
            self._choices[name] = {}  # a choice may contain itself
            self._choices[name] = {**self.fields(peeled, tagged=True), "ref": name}
        return {"type": "definition-ref", "schema_ref": name}

    def tagged_union(self, schema: Schema) -> Schema:
        choices = {tag: self.make(one) for tag, one in schema["choices"].items()}
        return _before(partial(_refuse_cut_tag, schema["discriminator"]), {**_without_ref(schema), "choices": choices})

    def _peeled(self, schema: Schema) -> Schema:
        """Find the schema within functions, defaults and references."""
        while True:
            if schema["type"] == "definition-ref":
                schema = self._definitions[schema["schema_ref"]]
            elif schema["type"] in _WRAPPING:
                schema = schema["schema"]
            else:
                return schema


_WRAPPING = ("default", "nullable", "function-after", "function-before", "function-wrap")
_OBJECTS = ("dataclass", "model", "typed-dict")
_CONTAINERS = (*_OBJECTS, "dict", "frozenset", "list", "set", "tagged-union", "tuple", "union")
_JSON_KINDS = {
    **dict.fromkeys((*_OBJECTS, "dict", "tagged-union"), "object"),
    **dict.fromkeys(("frozenset", "list", "set", "tuple"), "array"),
}

_KINDS: Mapping[str, Callable[[_Known, Schema], Schema]] = {
    "any": _Known.anything,
    "dataclass": _Known.fields,
    "default": _Known.inner,
    "definition-ref": _Known.same,
    "dict": _Known.dict,
    "frozenset": _Known.array,
    "function-after": _Known.function,
    "function-before": _Known.function,
    "function-wrap": _Known.function,
    "list": _Known.array,
    "model": _Known.fields,
    "nullable": _Known.nullable,
    "set": _Known.array,
    "str": _Known.text,
    "tagged-union": _Known.tagged_union,
    "tuple": _Known.tuple,
    "typed-dict": _Known.fields,
    "union": _Known.union,
}


def _without_ref(schema: Schema, *others: str) -> Schema:
    return {key: value for key, value in schema.items() if key not in ("ref", *others)}


def _fields_of(schema: Schema) -> Mapping[str, Schema]:
    while "fields" not in schema or schema["type"] == "dataclass":  # a dataclass lists the names of its fields
        schema = schema["schema"]
    fields: Any = schema["fields"]
    if isinstance(fields, dict):
        return cast("Mapping[str, Schema]", fields)
    return {field["name"]: field for field in fields if not field.get("init_only")}


def _extra_of(schema: Schema) -> Any:
    return schema.get("extra_behavior") or schema.get("config", {}).get("extra_fields_behavior")


def _is_tag(schema: Schema) -> bool:
    return schema["type"] == "literal" or (schema["type"] == "default" and _is_tag(schema["schema"]))


def _default(schema: Schema) -> Callable[[], Any] | None:
    if schema["type"] != "default":
        return None
    if "default" in schema:
        return partial(deepcopy, schema["default"])
    return None if schema.get("default_factory_takes_data") else schema.get("default_factory")


def _or_omit(schema: Schema) -> Schema:
    return {"type": "default", "schema": schema, "on_error": "omit"}


def _before(function: Callable[[Any], Any], schema: Schema) -> Schema:
    return {"type": "function-before", "function": _function(function), "schema": schema}


def _after(function: Callable[[Any], Any], schema: Schema) -> Schema:
    return {"type": "function-after", "function": _function(function), "schema": schema}


def _function(function: Callable[..., Any]) -> Schema:
    return {"type": "no-info", "function": function}


def _refuse(_: Any) -> Any:
    raise ValueError("not known yet")


def _refuse_cut(value: Any) -> Any:
    return _refuse(value) if isinstance(value, Cut) else value


def _refuse_cut_tag(discriminator: object, value: Any) -> Any:
    fields = cast("dict[str, Any]", value if isinstance(value, dict) else {})
    if isinstance(discriminator, str):
        _refuse_cut(fields.get(discriminator))
    return cast("Any", value)


def _take_cut(value: Any, validate: Callable[[Any], Any]) -> Any:
    return str(value) if isinstance(value, Cut) else validate(value)


# objects, made past their constructors, which want whole ones


def _model(cls: Any, names: Sequence[str], defaults: Mapping[str, Callable[[], Any]], known: dict[str, Any]) -> Any:
    extra = {name: value for name, value in known.items() if name not in names}
    private = {
        name: info.default_factory() if info.default_factory else deepcopy(info.default)
        for name, info in cls.__private_attributes__.items()
    }
    state = {
        "__dict__": _in_order(names, known, defaults),
        "__pydantic_fields_set__": set(known),
        "__pydantic_extra__": extra if cls.model_config.get("extra") == "allow" else None,
        "__pydantic_private__": {name: value for name, value in private.items() if value is not PydanticUndefined}
        or None,
    }
    return _made(cls, state)


def _root_model(cls: Any, root: Any) -> Any:
    return _model(cls, ("root",), {}, {"root": root})


def _dataclass(cls: Any, names: Sequence[str], defaults: Mapping[str, Callable[[], Any]], known: dict[str, Any]) -> Any:
    return _made(cls, _in_order(names, known, defaults))


def _made(cls: type[Any], state: Mapping[str, Any]) -> Any:
    made: Any = object.__new__(cls)
    for name, value in state.items():
        object.__setattr__(made, name, value)
    return made


def _in_order(
    names: Sequence[str], known: Mapping[str, Any], defaults: Mapping[str, Callable[[], Any]]
) -> dict[str, Any]:
    return {
        name: known[name] if name in known else defaults[name]() for name in names if name in known or name in defaults
    }
