"""Two databases compared in all that a migration has to bring: rows, and every object by the catalogue. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from time import monotonic
from typing import TypeAlias

from pgdyno.contents.comparing import compare_contents
from pgdyno.contents.row_hash import RowHash
from pgdyno.contents.snapshot import snapshot
from pgdyno.contents.table_rows import TwoSides
from pgdyno.contents.tables import AskRows
from pgdyno.migration.mover import nobody_halts
from pgdyno.migration.validation.aspects import Aspect
from pgdyno.migration.validation.differences import Objects, TwoVersions, differences, no_fault, without_parts
from pgdyno.migration.validation.positions import positions
from pgdyno.migration.validation.programs import PROGRAMS
from pgdyno.migration.validation.rights import RIGHTS
from pgdyno.migration.validation.structure import STRUCTURE
from pgdyno.migration.validation.surroundings import SHARED, SURROUNDINGS
from pgdyno.model.results.migrate import ValidationFinding, ValidationResult
from pgdyno.model.results.parts.contents import ContentsComparison
from pgdyno.server.postgres import Postgres
from pgdyno.units import plural

ASPECTS = (*STRUCTURE, *PROGRAMS, *RIGHTS, *SURROUNDINGS, *SHARED)
_HIDDEN_LARGE_OBJECTS = """
SELECT EXISTS (SELECT FROM pg_largeobject_metadata) AND NOT has_table_privilege('pg_largeobject', 'SELECT')
"""
_STANDS = Aspect(topic="sequence", values=("stands at",), query="")


Definitions: TypeAlias = Mapping[tuple[str, str], tuple[str | None, ...]]
"""By topic and name what is said of an object."""


def definitions_of(rows: AskRows) -> Definitions:
    """Return what a database consists of and computes with, to be held against itself later."""
    return {
        (aspect.topic, name): values
        for aspect in (*STRUCTURE, *PROGRAMS)
        for name, values in (_read(aspect, rows) or {}).items()
    }


def compare_databases(
    source: Postgres,
    target: Postgres,
    *,
    jobs: int = 1,
    halt: Callable[[], str] = nobody_halts,
    tell: Callable[[str], None] = lambda _: None,
) -> ValidationResult:
    """Return how the target's database differs from the source's, objects first, then every row.

    Opens `jobs` sessions on each server, in the databases that `source` and `target` connect to, and reads every table
    once. `tell` is given a line of progress for the objects and for each table. Versions may differ. Needs the right to
    read every table; raises ConnectError, EnvironmentUnsuitable where a server refuses, and Halted once `halt` says why
    to end.
    """
    begin = monotonic()
    tell("comparing objects")
    compared, found, unread, notes = _objects(source, target)
    rows = compare_contents(source, target, jobs=jobs, halt=halt, announce=tell)
    gone = {"pg_catalog.pg_largeobject", *(one.object for one in found if one.topic == "table")}
    unlike = [line.replace("in B: not compared", "on the target") for line in rows.unlike]
    unread += [line for line in unlike if not any(f"table {name} is only in" in line for name in gone)]
    return ValidationResult(
        compared={"tables": rows.tables, "rows": rows.rows, **compared},
        findings=(*_rows(rows), *found),
        unread=tuple(unread),
        notes=tuple(notes),
        seconds=monotonic() - begin,
    )


def _objects(
    source: Postgres, target: Postgres
) -> tuple[dict[str, int], list[ValidationFinding], list[str], list[str]]:
    found, notes, unread, compared = list[ValidationFinding](), list[str](), list[str](), dict[str, int]()
    with ExitStack() as stack:
        first, second = (stack.enter_context(snapshot(one)) for one in (source, target))
        sides = TwoSides(first, second, RowHash.QUICK)
        versions = TwoVersions(*sides.both(_version))

        def take(aspect: Aspect, a: Objects, b: Objects) -> None:
            compared[aspect.topic] = max(compared.get(aspect.topic, 0), len(a))
            for one in differences(aspect, a, b, versions):
                reason = no_fault(aspect, one, versions)
                if reason:
                    notes.append(f"{one.sentence}: {reason}")
                else:
                    found.append(one)

        for aspect in ASPECTS:
            if min(versions.source, versions.target) < aspect.since:
                continue
            a, b = sides.both(partial(_read, aspect))
            if a is None or b is None:
                where = "source" if a is None else "target"
                unread.append(f"{aspect.topic}: this role may not read {aspect.needs} of the {where}")
                continue
            take(aspect, a, b)
        unread += filter(None, dict.fromkeys(sides.both(_large_objects)))
        (a, not_a), (b, not_b) = sides.both(positions)
        both = a.keys() & b.keys()
        take(_STANDS, {name: a[name] for name in both}, {name: b[name] for name in both})
    return compared, without_parts(found), [*unread, *dict.fromkeys([*not_a, *not_b])], notes


def _version(rows: AskRows) -> int:
    return int(str(rows("SELECT current_setting('server_version_num')")[0][0]))


def _read(aspect: Aspect, rows: AskRows) -> Objects | None:
    """Return one aspect of a side by the objects' names; None where this role may not read it."""
    if aspect.needs and not rows("SELECT has_table_privilege(%s, 'SELECT')", [aspect.needs])[0][0]:
        return None
    return {
        str(name): tuple(None if value is None else str(value) for value in values)
        for name, *values in rows(aspect.query)
    }


def _large_objects(rows: AskRows) -> str:
    """Return that large objects cannot be compared, where there are some that this role may not read."""
    ((hidden,),) = rows(_HIDDEN_LARGE_OBJECTS)
    return "large objects: only a superuser may read them" if hidden else ""


def _rows(found: ContentsComparison) -> list[ValidationFinding]:
    return [
        ValidationFinding(
            topic="rows",
            object=one.table,
            expected=plural(one.rows_a, "row"),
            found=f"{plural(one.rows_b, 'row')}, {one.counted}" + (f"; {one.note}" if one.note else ""),
            rows=tuple(row.text for row in one.examples),
        )
        for one in found.different
    ]
