"""The base of all models: frozen, tolerant of what they do not know, strict about structure.

A reader that fails on a field nobody reads loses answers. So every field that has no meaning for the lifecycle of a
response is `Tolerant`: it accepts absence, null, and even a value of another shape, which is then kept as it came.
Fields that place an event (indices) or carry content (deltas, texts) are strict: an error there is a `SchemaViolation`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast

from pydantic import BaseModel, Field, Strict
from pydantic_core import core_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import GetCoreSchemaHandler

T = TypeVar("T")

CACHE_STRINGS: Literal["keys"] = "keys"
"""Keys repeat in every event; values, the padding of OpenAI above all, do not, and a cache of them only costs."""


class _Tolerance:
    """Marks a field that keeps what it cannot read instead of failing."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        schema = handler(source)
        if _is_json(schema):  # whatever comes stays as it came
            return core_schema.any_schema()
        return core_schema.union_schema([_exact(schema), core_schema.any_schema()], mode="left_to_right")


def _is_json(schema: Any) -> bool:
    """Whether a value of JSON that fits a schema is not changed by it."""
    inner = [schema[name] for name in ("schema", "items_schema", "keys_schema", "values_schema") if name in schema]
    return schema["type"] in _JSON and all(map(_is_json, [*inner, *schema.get("choices", ())]))


_JSON = {"any", "bool", "dict", "float", "int", "list", "literal", "none", "nullable", "str", "union"}


def _exact(schema: Any) -> Any:
    """Make a schema take JSON as it is: "1" is no number, 1 is no bool, and a whole number does not become a float."""
    kind = schema["type"]
    if kind in ("int", "bool"):
        return {**schema, "strict": True}
    if kind == "float":
        numbers: list[Any] = [core_schema.int_schema(strict=True), {**schema, "strict": True}]
        return core_schema.union_schema(numbers, mode="left_to_right")
    if kind == "union":
        return {**schema, "choices": [_exact(choice) for choice in schema["choices"]]}
    inner = {"nullable": "schema", "list": "items_schema", "dict": "values_schema"}.get(kind)
    return {**schema, inner: _exact(schema[inner])} if inner else schema


Tolerant = Annotated[T, _Tolerance()]
"""A field without meaning for the lifecycle: what does not fit its type is kept as it came."""

_LARGEST = 2**63 - 1

Int = Annotated[int, Strict(), Field(ge=-_LARGEST, le=_LARGEST)]
"""A whole number of at most 63 bits; booleans, fractions and strings are refused."""

Index = Annotated[int, Strict(), Field(ge=0, le=_LARGEST)]
"""A place in a list, from 0."""


class Model(
    BaseModel, frozen=True, extra="allow", defer_build=True, populate_by_name=True, cache_strings=CACHE_STRINGS
):
    """Base of everything that comes off the wire; unknown fields are kept and read as attributes."""


def not_json(value: object, place: str) -> Iterator[tuple[str, object]]:
    """Find what JSON does not know in a value.

    Args:
        value: The value, as `to_wire` gives it.
        place: What to call it; its insides are told from there, as `input[0].content`.

    Yields:
        The place of each value that is not JSON, or that has such a key, and the value or the key.
    """
    if isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            if not isinstance(key, str | int | float | None):
                yield f"a key of {place}", key
            yield from not_json(item, f"{place}.{key}")
    elif isinstance(value, list | tuple):
        for number, item in enumerate(cast("list[object]", value)):
            yield from not_json(item, f"{place}[{number}]")
    elif not isinstance(value, str | int | float | None):
        yield place, value


def to_wire(value: object) -> Any:
    """Turn a model into the JSON value that a server would send.

    Fields that were never set are left out, except the `type` of the class; fields that were set to null are null.

    Args:
        value: A model, or a container of models.
    """
    if type(value) in _PLAIN:  # nearly always, and sooner known than whether it is a model
        return value
    if isinstance(value, Model):
        fields, given = value.__dict__, value.model_fields_set
        known = {key: to_wire(fields[name]) for name, key, always in _keys(type(value)) if always or name in given}
        return known | to_wire(value.model_extra) if value.model_extra else known
    if isinstance(value, dict):
        return {key: to_wire(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [to_wire(item) for item in cast("list[object]", value)]
    return value


_PLAIN = {str, int, float, bool, type(None)}


@cache
def _keys(kind: type[Model]) -> Sequence[tuple[str, str, bool]]:
    """List the fields of a class: the name, the key on the wire, and whether it is written though nobody set it."""
    fields = kind.model_fields
    return [(name, field.alias or name, name == "type" and bool(field.default)) for name, field in fields.items()]
