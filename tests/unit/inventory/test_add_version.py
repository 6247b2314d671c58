"""The script that adds a version of PostgreSQL to the tables of parameters."""

from __future__ import annotations

import json

import pytest

import add_version
from pgdyno.model.facts import SUPPORTED_MAJORS

TABLE = json.loads(add_version.SHIPPED.read_text("utf-8"))["params"]


def rows_of(major: int) -> list[dict[str, object]]:
    return [{"name": name, **row} for name, rows in TABLE.items() for row in rows if major in row["versions"]]


@pytest.mark.parametrize("major", SUPPORTED_MAJORS)
def test_a_version_that_is_known_changes_nothing(major: int) -> None:
    again = add_version.merged(TABLE, major, rows_of(major), add_version.ALWAYS)

    def spread(params: add_version.Params) -> dict[tuple[str, int], add_version.Row]:
        return {(n, v): {**row, "versions": 0} for n, rows in params.items() for row in rows for v in row["versions"]}

    assert spread(again) == spread(TABLE)


def test_the_next_version_shares_what_is_the_same_and_names_what_is_not() -> None:
    after = SUPPORTED_MAJORS[-1] + 1
    rows = [row for row in rows_of(SUPPORTED_MAJORS[-1]) if row["name"] != "work_mem"]
    rows = [{**row, "boot_val": "9"} if row["name"] in ("max_connections", "block_size") else row for row in rows]
    rows.append({"name": "work_pace", "vartype": "bool", "context": "user", "boot_val": "on", "setting": "on"})
    made = add_version.merged(TABLE, after, rows, add_version.ALWAYS)
    assert made["DateStyle"][0]["versions"][-1] == after
    assert made["work_pace"] == [{"versions": [after], "vartype": "bool", "context": "user", "boot_val": "on"}]
    assert [row["boot_val"] for row in made["max_connections"]] == ["100", "9"]
    assert add_version.news(made, after) == [
        "no class in policy.toml: work_pace",
        "gone, for [[removed]] of versions.toml: work_mem",
        "another default, for [[default]]: max_connections: 100 -> 9",
    ]
