"""Values that fit a JSON schema: for arguments of functions, and for structured output.

Always the same value for the same schema. What a schema asks beyond its structure is honoured where that is simple:
bounds of numbers, lengths, the usual string formats. Patterns are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from orx_rx.simulator.requests import object_of, objects

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Schema = Mapping[str, Any]

_DEEPEST = 6  # levels; below them lists are empty, and null is preferred
_BOTTOM = 12  # levels; below them there is nothing but null

_FORMATS = {
    "date": "2025-01-01",
    "date-time": "2025-01-01T12:00:00Z",
    "duration": "PT1H",
    "email": "someone@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "time": "12:00:00Z",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def value_of(schema: Schema, *, name: str = "text", seed: int = 0) -> Any:
    """Make a value that fits a schema.

    Args:
        schema: The JSON schema; references into itself are followed.
        name: What texts in it say; within objects it is the name of the property.
        seed: Another number gives another value, where the schema leaves a choice.
    """
    return _Maker(schema, seed).make(schema, name, 0)


class _Maker:
    def __init__(self, root: Schema, seed: int) -> None:
        self.root = root
        self.seed = seed

    def make(self, schema: Schema, name: str, depth: int) -> Any:
        if depth > _BOTTOM:
            return None
        if isinstance(schema.get("$ref"), str):
            return self.make({**self._find(schema["$ref"]), **_without(schema, "$ref")}, name, depth + 1)
        for word, choose in (("const", _same), ("enum", self._turn), ("examples", self._turn)):
            if word in schema:
                return choose(schema[word])
        for word in ("anyOf", "oneOf"):
            if options := objects(schema.get(word)):
                return self.make({**_without(schema, word), **self._option(options, depth)}, name, depth + 1)
        if parts := objects(schema.get("allOf")):
            return self.make(_merged([_without(schema, "allOf"), *parts]), name, depth + 1)
        return _MAKERS[self._type(schema, depth)](self, schema, name, depth)

    def _turn(self, values: Any) -> Any:
        return values[self.seed % len(values)] if values else None

    def _option(self, options: list[Schema], depth: int) -> Schema:
        empty = [option for option in options if option.get("type") == "null"]
        full = [option for option in options if option.get("type") != "null"]
        return (empty or full)[0] if depth > _DEEPEST else (full or empty)[0]

    def _type(self, schema: Schema, depth: int) -> str:
        type_: Any = schema.get("type")
        if isinstance(type_, list):
            type_ = self._option([{"type": one} for one in type_], depth)["type"]  # pyright: ignore[reportUnknownVariableType]
        if type_ in _MAKERS:
            return str(type_)
        return "object" if "properties" in schema else "array" if "items" in schema else "string"

    def _find(self, reference: str) -> Schema:
        found: Any = self.root
        for step in reference.removeprefix("#").split("/")[1:]:
            found = object_of(found).get(step.replace("~1", "/").replace("~0", "~"))
        return object_of(found)

    def object(self, schema: Schema, name: str, depth: int) -> Any:
        properties = object_of(schema.get("properties"))
        needed = schema.get("required", ()) if depth > _DEEPEST else properties
        return {key: self.make(object_of(properties.get(key)), key, depth + 1) for key in needed}

    def array(self, schema: Schema, name: str, depth: int) -> Any:
        fixed = objects(schema.get("prefixItems"))
        length = max(schema.get("minItems", 0), 0 if depth > _DEEPEST or "items" not in schema else 1, len(fixed))
        item = object_of(schema.get("items"))
        return [self.make(one, name, depth + 1) for one in (*fixed, *[item] * (length - len(fixed)))]

    def string(self, schema: Schema, name: str, depth: int) -> Any:
        text = _FORMATS.get(schema.get("format", "")) or (f"{name} {self.seed + 1}" if self.seed else name)
        return text.ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]

    def integer(self, schema: Schema, name: str, depth: int) -> Any:
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
        high = schema.get("maximum", schema.get("exclusiveMaximum", low + self.seed + 1) - 1)
        return int(min(low + self.seed, high))

    def number(self, schema: Schema, name: str, depth: int) -> Any:
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 0.5)
        high = schema.get("maximum", schema.get("exclusiveMaximum", low + self.seed + 0.5) - 0.5)
        return float(min(low + self.seed, high))

    def boolean(self, schema: Schema, name: str, depth: int) -> Any:
        return self.seed % 2 == 0

    def null(self, schema: Schema, name: str, depth: int) -> Any:
        return None


_MAKERS: Mapping[str, Callable[[_Maker, Schema, str, int], Any]] = {
    "array": _Maker.array,
    "boolean": _Maker.boolean,
    "integer": _Maker.integer,
    "null": _Maker.null,
    "number": _Maker.number,
    "object": _Maker.object,
    "string": _Maker.string,
}


def _same(value: Any) -> Any:
    return value


def _without(schema: Schema, word: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != word}


def _merged(parts: list[dict[str, Any]] | list[Schema]) -> dict[str, Any]:
    """Put the parts of an `allOf` together."""
    merged: dict[str, Any] = {}
    for part in parts:
        properties = {**object_of(merged.get("properties")), **object_of(part.get("properties"))}
        merged = {**merged, **part}
        if properties:
            merged["properties"] = properties
    return merged
