"""JSON schemas as OpenAI's strict mode wants them.

The rules are those of the openai package, so that a type gives the same schema in both. They look at what pydantic
writes: objects, arrays, `anyOf`, `allOf`, definitions. What else a schema has stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, cast

_MISSING = object()


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Make a JSON schema strict, as OpenAI's structured output and strict functions want it.

    Objects take no properties that they do not name, and require all that they name. A default of null goes, which a
    field that may be null has anyway; other defaults stay. A reference with keywords beside it is replaced by what it
    refers to, and the keywords win; where that would never end, the reference stays and the keywords go.

    Args:
        schema: Any JSON schema, such as `TypeAdapter(...).json_schema()`; it is not changed.

    Raises:
        ValueError: A reference with keywords beside it does not lead to a place in this schema.
    """
    root = deepcopy(dict(schema))
    return _strict(root, root, ())


def _strict(schema: Mapping[str, Any], root: Mapping[str, Any], inlined: tuple[str, ...]) -> dict[str, Any]:
    """Make a schema strict; `inlined` are the references that it was put in the place of."""
    made = dict(schema)
    for word in ("$defs", "definitions"):
        if isinstance(made.get(word), Mapping):
            made[word] = {name: _strict_in(one, root, ()) for name, one in made[word].items()}
    if made.get("type") == "object":
        made.setdefault("additionalProperties", False)
    if isinstance(made.get("properties"), Mapping):
        made["required"] = list(made["properties"])
        made["properties"] = {name: _strict_in(one, root, inlined) for name, one in made["properties"].items()}
    if isinstance(made.get("items"), Mapping):
        made["items"] = _strict(made["items"], root, inlined)
    for word in ("anyOf", "allOf"):
        if isinstance(made.get(word), list):
            made[word] = [_strict_in(one, root, inlined) for one in made[word]]
    every: Any = made.get("allOf")
    if isinstance(every, list) and len(every) == 1 and isinstance(every[0], Mapping):  # pyright: ignore[reportUnknownArgumentType]
        del made["allOf"]
        made.update(every[0])  # pyright: ignore[reportUnknownArgumentType]
    if made.get("default", _MISSING) is None:
        del made["default"]
    reference = made.get("$ref")
    if not isinstance(reference, str) or len(made) == 1:
        return made
    if reference in inlined:
        return {"$ref": reference}
    del made["$ref"]
    return _strict({**_found(reference, root), **made}, root, (*inlined, reference))


def _strict_in(schema: Any, root: Mapping[str, Any], inlined: tuple[str, ...]) -> Any:
    return _strict(cast("Mapping[str, Any]", schema), root, inlined) if isinstance(schema, Mapping) else schema


def _found(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a reference."""
    found: Any = root if reference.startswith("#/") else None
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = cast("Mapping[str, Any]", found).get(name) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        raise ValueError(f"expected references to places in the schema, such as '#/$defs/Name', got {reference!r}")
    return cast("Mapping[str, Any]", found)
