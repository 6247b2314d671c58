"""The parameters of PostgreSQL 13 to 18 with their units and built-in values, as real servers told them.

Only for advice on a configuration whose server cannot be asked; wherever there is a server, it is asked.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from pgdyno.model.facts import SettingFact

OLDEST, NEWEST = 13, 18


@cache
def parameters_of(major: int) -> Mapping[str, SettingFact]:
    """Return every parameter of a version at its built-in value. A version that we do not know has none."""
    found = {}
    for name, rows in _document().items():
        for row in rows:
            if major in row["versions"]:
                found[name] = _fact(name, row)
    return found


def parameter_shape(name: str) -> SettingFact | None:
    """Return a parameter as the oldest version that has it; for its type and unit in a version that we do not know."""
    rows = _document().get(name)
    return None if rows is None else _fact(name, min(rows, key=lambda row: int(min(row["versions"]))))


def _fact(name: str, row: Mapping[str, Any]) -> SettingFact:
    boot = row.get("boot_val")
    return SettingFact(
        name=name,
        setting="" if boot is None else boot,
        unit=row.get("unit"),
        vartype=row["vartype"],
        context=row["context"],
        source="default",
        min_val=row.get("min_val"),
        max_val=row.get("max_val"),
        enumvals=tuple(row.get("enumvals", ())),
        boot_val=boot,
    )


@cache
def _document() -> dict[str, list[dict[str, Any]]]:
    text = resources.files("pgdyno.knobs").joinpath("data/parameters.json").read_text("utf-8")
    document: dict[str, list[dict[str, Any]]] = json.loads(text)
    return document
