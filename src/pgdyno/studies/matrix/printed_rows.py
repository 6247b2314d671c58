"""The rows of a matrix that was printed elsewhere, such as in a paper: read from CSV or JSON, and kept as a matrix.

The same arithmetic says what follows from them as for rows that were measured here: every percentage is computed.
Nothing else is known of their runs, and the study says so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import cast

from pgdyno.errors import UsageError
from pgdyno.model.configuration import BASELINE
from pgdyno.model.matrix import BASELINE_NAME, Cell, MatrixRow
from pgdyno.model.results.matrix import MatrixResult
from pgdyno.model.study import PRINTED, Study, StudyKind
from pgdyno.model.trial import LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.outside.documents import load_csv, load_json
from pgdyno.store.catalogue import Store
from pgdyno.studies.matrix.result import rows_result
from pgdyno.studies.matrix.run import label
from pgdyno.studies.session.new_study import imported_study, keep_import, sha256_of

LATENCY, CPU = "printed.latency_ms", "printed.cpu_pct"
"""The counters of a run that hold what its row says, because no sample does."""
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "configuration": ("test",),
    "instances": ("pods",),
    "clients": ("c_j", "clients_per_pod"),
    "jobs": ("threads",),
    "tps": (),
    "latency_ms": ("lat", "lat_ms"),
    "cpu_pct": ("cpu",),
    "smt": (),
    "row_exclusive": (),
    "access_share": (),
    "exclusive": ("exclusive_lock",),
    "mode": (),
    "placement": (),
    "scale": (),
    "system": (),
    "cores": ("core",),
    "vcpus": ("vcpu",),
}
"""The columns of a table by the names that they go by; capitals, blanks and signs in a heading do not count."""
_LOCKS = ("row_exclusive", "access_share", "exclusive")
_KNOWN = {alias: name for name, aliases in COLUMNS.items() for alias in (name, *aliases)}
_HELD = re.compile(r"([\d.,]+)\s*\(max\s*([\d.,]+)\)")
_HINT = "docs/howto/measure-a-matrix.md has a table to start from."
_UNKNOWN = (
    "These rows were printed elsewhere: pgdyno measured none of them. How long the runs were, what was set and what "
    "disturbed them is not known."
)


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """What a table leaves out and its reader has to tell: the script, the scale, and which test is the default."""

    mode: str
    scale: int
    default: str = BASELINE_NAME


def read_table(text: str, name: str, plain: PrintedTable, table: str = "") -> list[MatrixRow]:
    """Return the rows of a CSV or JSON text. Raises UsageError that names the row and the column it cannot take.

    `name` is the name of the file that `text` was read from, for messages. `plain` has what the rows leave out. `table`
    names one of several tables in JSON, and is empty where the file is one table.
    """
    rows = [
        _row(values, f'row {number} of "{name}"', plain)
        for number, values in enumerate(_records(text, name, table), start=1)
    ]
    if not rows:
        raise UsageError(f'"{name}" has no rows', hint=_HINT)
    tests = sorted({row.cell.configuration for row in rows})
    if plain.default != BASELINE_NAME and not any(row.cell.is_default for row in rows):
        raise UsageError(f'"{name}" has no test "{plain.default}"', hint=f"It has {', '.join(tests)}.")
    for at, row in enumerate(rows):
        twin = next(
            (before for before in range(at) if (rows[before].cell, rows[before].system) == (row.cell, row.system)), None
        )
        if twin is not None:
            raise UsageError(
                f'rows {twin + 1} and {at + 1} of "{name}" are the same cell: {label(row.cell)}',
                hint="Give them another configuration, or a column such as mode or placement that tells them apart.",
            )
    return rows


def import_rows(store: Store, rows: Sequence[MatrixRow], *, name: str, text: str, target: str = "") -> MatrixResult:
    """Keep the rows as a matrix, each as a run of its cell, and return its result.

    `rows`, at least one, were read from `text`, whose SHA-256 the study in `store` keeps with `name`, that of the file.
    `target` is what was measured, in the user's words, empty where it was not given.
    """
    first = rows[0].cell
    modes, scales = sorted({row.cell.mode for row in rows}), sorted({row.cell.scale for row in rows})
    parameters: dict[str, str | int | float | bool] = {"scale": ", ".join(map(str, scales))}
    spec = WorkloadSpec(", ".join(modes), parameters, "unknown", "as the table has it", modes == ["select-only"])
    study = imported_study(
        StudyKind.MATRIX,
        "import rows",
        target or f"a machine that {name} does not name",
        spec,
        LoadPlan(first.clients, first.jobs, 0.0, 0.0, instances=first.instances),
        [(name, sha256_of(text))],
        facts={"host": _counts(rows)},
        options={PRINTED: True},
    )

    def body() -> MatrixResult:
        kept = [replace(row, trials=(_keep(store, study, row, slot),)) for slot, row in enumerate(rows)]
        result = rows_result(study.id, kept, driver="", method={"rows": f"{len(rows)} of {name}"})
        return replace(result, printed=True, notes=(_UNKNOWN,), environment=study.environment)

    return keep_import(store, study, body)


def _keep(store: Store, study: Study, row: MatrixRow, slot: int) -> int:
    # a table that does not say how the load came says nothing of sockets either
    factors = {name: word for name, word in row.cell.factors().items() if (name, word) != ("placement", "socket")}
    spec = TrialSpec(BASELINE, Role.CELL, label(row.cell), 1, slot, factors=factors)
    number = store.begin_trial(study.id, spec)
    said = {LATENCY: row.latency_ms, CPU: row.cpu_pct}
    counters = {name: value for name, value in said.items() if value is not None}
    store.finish_trial(number, Outcome(TrialState.COMPLETE, throughput=row.tps, counters=counters))
    return number


def _counts(rows: Sequence[MatrixRow]) -> dict[str, object]:
    """Return cores and vCPUs as facts of the host, where all rows agree on them."""
    found = {"physical_cores": {row.cores for row in rows}, "cores": {row.vcpus for row in rows}}
    return {name: next(iter(values)) for name, values in found.items() if len(values) == 1 and None not in values}


def _records(text: str, name: str, table: str) -> list[Mapping[str, object]]:
    if not text.lstrip().startswith(("{", "[")):
        return _csv_records(text, name)
    try:
        found = load_json(text)
    except ValueError as error:
        raise UsageError(f'"{name}" is not JSON', detail=str(error), hint=_HINT) from error
    if table:
        tables = found.get("tables", found) if isinstance(found, dict) else {}
        if table not in tables:
            raise UsageError(f'"{name}" has no table "{table}"', hint=f"It has {', '.join(tables) or 'none'}.")
        found = tables[table]
    beside = {
        key: found[key] for key in ("cores", "vcpus") if isinstance(found, dict) and isinstance(found.get(key), int)
    }
    rows = found.get("rows") if isinstance(found, dict) else found
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UsageError(f'"{name}" has no list of rows', hint="Choose a table of it with --table, or write CSV.")
    return [{**beside, **cast("dict[str, object]", row)} for row in rows]


def _csv_records(text: str, name: str) -> list[Mapping[str, object]]:
    try:
        rows = [row for row in load_csv(text) if row]
    except ValueError as error:
        raise UsageError(f'"{name}" is not CSV', detail=str(error), hint=_HINT) from error
    return [dict(zip_longest(rows[0], row, fillvalue="")) for row in rows[1:]]


def _row(values: Mapping[str, object], where: str, plain: PrintedTable) -> MatrixRow:
    found: dict[str, str] = {}
    for heading, value in values.items():
        word = re.sub(r"[^a-z0-9]+", "_", str(heading).lower()).strip("_")
        if value is None or str(value).strip() == "" or str(heading).startswith("_"):
            continue
        if word not in _KNOWN:
            raise UsageError(
                f'{where} has a column "{heading}" that is not known', hint=f"Columns: {', '.join(COLUMNS)}."
            )
        found[_KNOWN[word]] = str(value).strip()
    clients = _whole(found, "clients", where)
    test = found.get("configuration", plain.default)
    held = {name: _held(found[name], f"{where}, column {name}") for name in _LOCKS if name in found}
    return MatrixRow(
        cell=Cell(
            instances=_whole(found, "instances", where, 1),
            clients=clients,
            jobs=_whole(found, "jobs", where, clients),
            mode=found.get("mode", plain.mode),
            scale=_whole(found, "scale", where, plain.scale),
            configuration=test,
            smt=found.get("smt", ""),
            placement=found.get("placement", "socket"),
            stands_for=BASELINE_NAME if test != BASELINE_NAME and test.lower() == plain.default.lower() else "",
        ),
        tps=_number(found, "tps", where),
        latency_ms=_number(found, "latency_ms", where) if "latency_ms" in found else None,
        cpu_pct=_number(found, "cpu_pct", where) if "cpu_pct" in found else None,
        smt=found.get("smt", ""),
        locks={name: mean for name, (mean, _) in held.items()},
        locks_max={name: most for name, (_, most) in held.items() if most is not None},
        runs={1: _number(found, "tps", where)},
        system=found.get("system", ""),
        cores=_whole(found, "cores", where) if "cores" in found else None,
        vcpus=_whole(found, "vcpus", where) if "vcpus" in found else None,
    )


def _held(word: str, where: str) -> tuple[float, float | None]:
    match = _HELD.fullmatch(word)
    mean, most = match.groups() if match else (word, None)
    return _figure(mean, where, least=0.0), None if most is None else _figure(most, where, least=0.0)


def _number(found: Mapping[str, str], name: str, where: str) -> float:
    if name not in found:
        raise UsageError(f"{where} has no column {name}", hint=_HINT)
    return _figure(found[name], f"{where}, column {name}")


def _whole(found: Mapping[str, str], name: str, where: str, default: int | None = None) -> int:
    if name not in found and default is not None:
        return default
    value = _number(found, name, where)
    if value != int(value):
        raise UsageError(f'{where}, column {name}: "{found[name]}" is not a whole number', hint=_HINT)
    return int(value)


def _figure(word: str, where: str, least: float = 1e-9) -> float:
    try:
        value = float(word.replace(",", ""))
    except ValueError:
        value = math.nan
    if not least <= value < 1e15:
        raise UsageError(f'{where}: "{word}" is not a number {"of 0 or more" if least == 0 else "above 0"}', hint=_HINT)
    return value
