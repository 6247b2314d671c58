"""Write the schemas of experiment plans and matrices from the classes that read them; `--check`: 1 when stale.

What a key means is taken from the tables of the reference page beside the schema.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Mapping
from dataclasses import MISSING, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Union

from generated import keep_page
from pgdyno.model.matrix import MODES as WORKLOADS
from pgdyno.model.shapes import Annotation, Json, members_of, taken_apart
from pgdyno.model.trial import PROTOCOLS
from pgdyno.studies.matrix import file as matrix
from pgdyno.studies.matrix.plan import MatrixPlan
from pgdyno.studies.session import plan_load
from pgdyno.studies.staircase import plan_file
from pgdyno.studies.staircase.plan import Plan, Step
from results_schema import schema_of

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
TEXT: Json = {"type": "string"}
VALUES: Json = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
_ROW = re.compile(r"\| (`[^|]*`) \| (.*) \|$")
Meanings = Mapping[str, str]


def plan_schema() -> dict[str, Json]:
    """Return the schema of an experiment plan."""
    plan, step = meanings("plan.md", "[plan]"), meanings("plan.md", "a step")
    stages: Json = {"enum": ["", *plan_file.STAGES]}
    head = table(Plan, plan, plan_file.PLAN, {"mode": {"enum": [*plan_file.MODES]}, "stage": stages})
    head["required"] = []
    name: Json = {"type": "string", "pattern": f"^{plan_file.NAME.pattern}$"}
    steps = table(Step, step, (), {"name": name, "stage": stages, "origin": {"enum": [*plan_file.ORIGINS]}})
    return whole("Experiment plan of pgdyno", [*plan_file.TOP], {
        "version": {"enum": [*plan_file.READABLE]},
        "plan": head,
        "step": {"type": "array", "items": steps},
        "workload": closed({"name": TEXT, "parameters": VALUES}),
        "load": table(plan_load.PlanLoadKeys, {}),
        "sandbox": closed(dict.fromkeys(plan_load.SANDBOX, TEXT)),
    })  # fmt: skip


def matrix_schema() -> dict[str, Json]:
    """Return the schema of a matrix plan."""
    modes: Json = {"type": "string", "pattern": f"^({'|'.join(WORKLOADS)})(:.+)?$"}
    protocols: Json = {"enum": [*PROTOCOLS]}
    head = table(MatrixPlan, meanings("matrix.md", "[matrix]"), matrix.KEYS, {"protocol": protocols})
    properties = head["properties"]
    assert isinstance(properties, dict), "a table has properties"
    for one in properties.values():
        assert isinstance(one, dict), "a key has a schema"
        if one.get("type") == "array":  # a bare level is a list of one
            item = modes if one is properties["modes"] else one.pop("items")
            one.pop("type")
            one.pop("items", None)
            one["anyOf"] = [item, {"type": "array", "items": item}]
    rows: dict[str, Json] = {"configuration": table(matrix.ConfigurationRow, {}), "pod": table(matrix.PodRow, {})}
    return whole("Matrix plan of pgdyno", ["version"], {
        "version": {"const": matrix.VERSION},
        "matrix": head,
        **{name: {"type": "array", "items": row} for name, row in rows.items()},
        "parameters": VALUES,
        "custom": closed(dict.fromkeys(matrix.CUSTOM, TEXT)),
        "network": closed(dict.fromkeys(matrix.NETWORKS, TEXT)),
    })  # fmt: skip


def whole(title: str, required: list[Json], properties: dict[str, Json]) -> dict[str, Json]:
    """Return the schema of a file."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title,
            "$comment": "Made by tools/plan_schemas.py from the classes that read the file: edit there."}  # fmt: skip
    return {**head, **closed(properties), "required": required}


def closed(properties: dict[str, Json]) -> dict[str, Json]:
    """Return the schema of a table that has no other keys."""
    return {"type": "object", "additionalProperties": False, "properties": properties}


def table(
    kind: Annotation, said: Meanings, only: Collection[str] = (), own: Mapping[str, Json] | None = None
) -> dict[str, Json]:
    """Return the schema of a table that is read into a dataclass; `own` are keys that are read more strictly."""
    found: dict[str, Json] = {}
    members = [one for one in members_of(kind) if not only or one.name in only]
    for one in members:
        schema = (own or {}).get(one.key) or value(one.hint)
        assert isinstance(schema, dict), "a schema is an object"
        found[one.key] = {**schema, **({"description": said[one.key]} if one.key in said else {})}
    return {**closed(found), "required": [one.key for one in members if one.default is MISSING]}


def value(hint: Annotation) -> dict[str, Json]:
    """Return the schema of what TOML can hold for a type; it has no null."""
    origin, parts = taken_apart(hint)
    if origin in (Union, UnionType):
        kinds: list[Json] = [value(one) for one in parts if one is not NoneType]
        first = kinds[0]
        return {"anyOf": kinds} if len(kinds) > 1 or not isinstance(first, dict) else first
    if origin is tuple:
        return {"type": "array", "items": value(parts[0])}
    if origin is not None:
        return {"type": "object", "additionalProperties": value(parts[1])}
    return table(hint, {}) if is_dataclass(hint) else schema_of(hint, {})


def meanings(page: str, of: str) -> dict[str, str]:
    """Return what the reference page says of each key in its table "key of ..."."""
    text = (FOLDER / page).read_text("utf-8")
    rows = text.partition(f"| key of {of} |".replace("[", "`[").replace("]", "]`"))[2].partition("\n\n")[0]
    found = [match for match in map(_ROW.match, rows.splitlines()) if match is not None]
    return {key: match[2].replace("`", "") for match in found for key in re.findall(r"`(\w+)`", match[1])}


if __name__ == "__main__":
    pages = {"plan": plan_schema(), "matrix": matrix_schema()}
    codes = [
        keep_page(json.dumps(one, indent=1) + "\n", FOLDER / f"{name}.schema.json", sys.argv)
        for name, one in pages.items()
    ]
    sys.exit(max(codes))
