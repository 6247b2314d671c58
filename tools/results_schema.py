"""Write docs/reference/results.schema.json from the types of `model.results`; `--check` exits 1 when it is stale."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Union

from generated import keep_page
from pgdyno.model.results.parts.pair import PairResult
from pgdyno.model.shapes import Annotation, Json, members_of, taken_apart
from pgdyno.model.study import StudyKind, result_type

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "results.schema.json"
_PLAIN = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}


def schema() -> str:
    """Return the JSON Schema of what a study comes to, one definition a kind."""
    known: dict[str, Json] = {}
    kinds = {kind.value: schema_of(result_type(kind), known) for kind in StudyKind}
    kinds["compare"] = schema_of(PairResult, known)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pgdyno: results of studies by kind, as --json prints them and the store keeps them",
        "$comment": "Made by tools/results_schema.py from src/pgdyno/model/results: edit there.",
        "type": "object",
        "properties": kinds,
        "$defs": known,
    }
    return json.dumps(head, indent=1) + "\n"


def schema_of(kind: Annotation, known: dict[str, Json]) -> dict[str, Json]:
    """Return the schema of a type; what it says of dataclasses goes into `known`, by their names."""
    origin, every = taken_apart(kind)
    parts = [one for one in every if one is not ...]
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(one, known) for one in parts]}
    if origin is tuple and ... in every:
        return {"type": "array", "items": schema_of(parts[0], known)}
    if origin is tuple:
        return {"type": "array", "prefixItems": [schema_of(one, known) for one in parts], "minItems": len(parts)}
    if origin is not None and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(parts[1], known)}
    if hasattr(kind, "FORM"):
        return schema_of(kind.FORM, known)
    if is_dataclass(kind):
        name = getattr(kind, "__name__", "")
        if name not in known:
            known[name] = None
            known[name] = _object(kind, known)
        return {"$ref": f"#/$defs/{name}"}
    if issubclass(kind, Enum):
        return {"enum": [one.value for one in kind]}
    return {"type": _PLAIN[kind]}


def _object(kind: Annotation, known: dict[str, Json]) -> dict[str, Json]:
    properties: dict[str, Json] = {}
    required: list[Json] = []
    _collect(kind, known, properties, required)
    return {"type": "object", "properties": properties, "required": required}


def _collect(
    kind: Annotation,
    known: dict[str, Json],
    properties: dict[str, Json],
    required: list[Json],
) -> None:
    for one in members_of(kind):
        if not one.key:
            _collect(getattr(one.hint, "FORM", one.hint), known, properties, required)
            continue
        properties[one.key] = schema_of(one.hint, known)
        if one.default is MISSING or not one.is_omitted:
            required.append(one.key)


if __name__ == "__main__":
    sys.exit(keep_page(schema(), PAGE, sys.argv))
