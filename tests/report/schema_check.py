"""A small JSON Schema check: the keywords our schemas use, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
SAYS_NOTHING = {"title", "description", "$schema", "$defs"}
KNOWN = SAYS_NOTHING | {
    "$ref",
    "anyOf",
    "enum",
    "type",
    "format",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "required",
    "properties",
    "additionalProperties",
    "items",
}


def faults(
    value: Any, schema: dict[str, Any] | bool, root: dict[str, Any], at: str = "$"
) -> Iterator[str]:
    """Where and how `value` breaks `schema`."""
    if isinstance(schema, bool):
        yield from () if schema else (f"{at}: is not expected",)
        return
    unknown = set(schema) - KNOWN
    assert not unknown, f"{at}: this check does not know {unknown}"
    if "$ref" in schema:
        definition = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
        yield from faults(value, definition, root, at)
    if "anyOf" in schema and all(list(faults(value, one, root, at)) for one in schema["anyOf"]):
        yield f"{at}: fits none of {len(schema['anyOf'])} alternatives"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if "type" in schema and not _is_a(value, schema["type"]):
        yield f"{at}: {value!r} is no {schema['type']}"
        return
    if isinstance(value, int) and value < schema.get("minimum", value):
        yield f"{at}: {value} is below {schema['minimum']}"
    if isinstance(value, int) and value > schema.get("maximum", value):
        yield f"{at}: {value} is above {schema['maximum']}"
    if schema.get("format") == "date-time":
        datetime.fromisoformat(value)
    yield from _inside(value, schema, root, at)


def _inside(value: Any, schema: dict[str, Any], root: dict[str, Any], at: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in set(schema.get("required", ())) - set(value):
            yield f"{at}: lacks {name}"
        for name, member in value.items():
            rest = schema.get("additionalProperties", {})
            inner = schema.get("properties", {}).get(name, rest)
            yield from faults(member, inner, root, f"{at}.{name}")
    if isinstance(value, list):
        least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
        if not least <= len(value) <= most:
            yield f"{at}: {len(value)} items, not {least} to {most}"
    if isinstance(value, list) and "items" in schema:
        for position, item in enumerate(value):
            yield from faults(item, schema["items"], root, f"{at}[{position}]")


def _is_a(value: Any, name: str) -> bool:
    if name in ("integer", "number") and isinstance(value, bool):
        return False
    return isinstance(value, TYPES[name])
