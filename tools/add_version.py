"""Add a version of PostgreSQL to the tables of its parameters, from a server just after initdb; see the how-to.

    python tools/add_version.py "host=/tmp dbname=postgres"

Prints what the policy of knobs does not know yet, and which defaults changed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pgdyno.knobs.policy import load_policy
from pgdyno.server.postgres import Postgres

PROJECT = Path(__file__).parent.parent
SHIPPED = PROJECT / "src" / "pgdyno" / "inventory" / "data" / "parameters.json"
TESTED = PROJECT / "tests" / "data" / "pg_params.json"
ALWAYS = ("unit", "vartype", "context", "min_val", "max_val", "enumvals", "boot_val")
OF_A_SERVER = ("setting", "source")
QUERY = """
SELECT *, coalesce(boot_val, '') AS boot_val FROM pg_catalog.pg_settings WHERE strpos(name, '.') = 0
"""
"""Parameters of extensions have a point; a default that is not told is an empty one."""
PLACES = ("_directory", "_directories", "_file")
Row = dict[str, Any]
Params = dict[str, list[Row]]


def merged(params: Params, major: int, rows: Iterable[Mapping[str, Any]], columns: Iterable[str]) -> Params:
    """Return the table with this version as these rows have it; versions whose rows agree share one."""
    found: Params = {}
    for name, known in params.items():
        left = [{**row, "versions": [one for one in row["versions"] if one != major]} for row in known]
        found[name] = [row for row in left if row["versions"]]
    for row in rows:
        fields = {column: row[column] for column in columns if row.get(column) is not None}
        if str(row["name"]).endswith(PLACES):
            fields = {**fields, "setting": ""} if "setting" in fields else fields
        places = found.setdefault(str(row["name"]), [])
        same = next((one for one in places if {**one, "versions": 0} == {**fields, "versions": 0}), None)
        if same is None:
            places.append({"versions": [major], **fields})
        else:
            same["versions"] = sorted({*same["versions"], major})
    return {name: found[name] for name in sorted(found) if found[name]}


def news(params: Params, major: int) -> list[str]:
    """Return what a person has to decide: parameters without a class, those that are gone, and changed defaults."""

    def at(version: int) -> dict[str, Row]:
        return {name: row for name, rows in params.items() for row in rows if version in row["versions"]}

    before, after, ruled = at(major - 1), at(major), load_policy().rulings
    said = [f"no class in policy.toml: {name}" for name in after if name not in ruled]
    said += [f"gone, for [[removed]] of versions.toml: {name}" for name in before if name not in after]
    defaults = (
        (name, before[name].get("boot_val"), row.get("boot_val"))
        for name, row in after.items()
        if name in before and row["context"] != "internal"  # what a build or a cluster says of itself
    )
    return said + [
        f"another default, for [[default]]: {name}: {old} -> {new}" for name, old, new in defaults if old != new
    ]


def _write(path: Path, document: Mapping[str, Any], indent: str) -> None:
    whole = json.dumps({**document, "params": {}}, ensure_ascii=False)
    lines = ",\n".join(f"{indent}{json.dumps(name)}: {json.dumps(rows)}" for name, rows in document["params"].items())
    path.write_text(f"{whole[:-2]}\n{lines}\n}}}}\n", "utf-8")


def main(conninfo: str) -> int:
    """Write both tables and print what is left to do. Only reads of the server."""
    server = Postgres(conninfo)
    rows = server.fetch(QUERY)
    (named,) = server.fetch("SELECT current_setting('server_version') AS version")
    version_num = int(next(str(row["setting"]) for row in rows if row["name"] == "server_version_num"))
    major = version_num // 10_000
    for path, columns, indent in ((SHIPPED, ALWAYS, ""), (TESTED, (*ALWAYS, *OF_A_SERVER), "  ")):
        document = json.loads(path.read_text("utf-8"))
        document["params"] = merged(document["params"], major, rows, columns)
        if "versions" in document:
            document["versions"][str(major)] = {"version": named["version"], "version_num": version_num}
        _write(path, document, indent)
    print("\n".join(news(document["params"], major)) or "nothing is left to decide")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
