"""The base of all models: frozen, tolerant of what they do not know, strict about structure.

A reader that fails on a field nobody reads loses answers. So every field that has no meaning for the lifecycle of a
response is `Tolerant`: it accepts absence, null, and even a value of another shape, which is then kept as it came.
Fields that place an event (indices) or carry content (deltas, texts) are strict: an error there is a `SchemaViolation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from pydantic import BaseModel, Strict
from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

T = TypeVar("T")


class _Tolerance:
    """Marks a field that keeps what it cannot read instead of failing."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.union_schema([handler(source), core_schema.any_schema()], mode="left_to_right")


Tolerant = Annotated[T, _Tolerance()]
"""A field without meaning for the lifecycle: what does not fit its type is kept as it came."""

Int = Annotated[int, Strict()]
"""A whole number; booleans, fractions and strings are refused."""


class Model(BaseModel, frozen=True, extra="allow", defer_build=True, populate_by_name=True):
    """Base of everything that comes off the wire; unknown fields are kept and read as attributes."""


def to_wire(value: object) -> Any:
    """Turn a model into the JSON value that a server would send.

    Fields that were never set are left out, except `type`; fields that were set to null are null.

    Args:
        value: A model, or a container of models.
    """
    if isinstance(value, Model):
        fields = type(value).model_fields
        names = [name for name in fields if name in value.model_fields_set or name == "type"]
        known = {fields[name].alias or name: to_wire(getattr(value, name)) for name in names}
        return known | {name: to_wire(extra) for name, extra in (value.model_extra or {}).items()}
    if isinstance(value, dict):
        return {key: to_wire(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [to_wire(item) for item in cast("list[object]", value)]
    return value
