"""A checker for the part of JSON Schema that our published schemas use; it refuses words that it does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

KINDS = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
NOTES = {"$schema", "$comment", "$defs", "title", "description"}
KNOWN = NOTES | {"$ref", "type", "properties", "required", "items", "enum", "anyOf", "additionalProperties", "const"}
KNOWN |= {"prefixItems", "minItems", "maxItems", "pattern", "uniqueItems"}


def errors(
    value: object, schema: Mapping[str, Any], root: Mapping[str, Any] | None = None, at: str = "$"
) -> Iterator[str]:
    """Yield what of a value breaks the schema, and fields that the schema does not know."""
    root = root or schema
    assert not (set(schema) - KNOWN), f"{at}: the checker does not know {set(schema) - KNOWN}"
    if "$ref" in schema:
        yield from errors(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, at)
        return
    if "anyOf" in schema:
        if all(any(errors(value, one, root, at)) for one in schema["anyOf"]):
            yield f"{at}: {value!r} is none of the kinds allowed"
        return
    kind = schema.get("type")
    if kind is not None and (not isinstance(value, KINDS[kind]) or (isinstance(value, bool) and kind != "boolean")):
        yield f"{at}: {value!r} is no {kind}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{at}: {value!r} does not match {schema['pattern']}"
    if isinstance(value, dict):
        yield from _object(value, schema, root, at)
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{at}: {len(value)} are too few or too many"
        if schema.get("uniqueItems") and any(one in value[:place] for place, one in enumerate(value)):
            yield f"{at}: {value!r} names something twice"
        first = schema.get("prefixItems", [])
        for number, one in enumerate(value):
            kind = first[number] if number < len(first) else schema.get("items", {})
            yield from errors(one, kind, root, f"{at}[{number}]")


def _object(value: dict[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], at: str) -> Iterator[str]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{at}: {name} is missing"
    for name, one in value.items():
        if name in schema.get("properties", {}):
            yield from errors(one, schema["properties"][name], root, f"{at}.{name}")
        elif isinstance(schema.get("additionalProperties"), Mapping):
            yield from errors(one, schema["additionalProperties"], root, f"{at}.{name}")
        else:
            yield f"{at}: {name} is not in the schema"
