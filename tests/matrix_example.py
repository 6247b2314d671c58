"""Rows of matrices: those of the published study of 2023, and made-up ones whose truth is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pgdyno.model.matrix import Cell, MatrixRow
from pgdyno.studies.matrix.plan import MatrixPlan
from pgdyno.workloads.pgbench.command import Pgbench

TABLES = Path(__file__).parent / "data" / "seed_tables" / "matrix_2023.json"
TUNED = {"default": {}, "tuned": {"max_wal_size": "8GB"}}
PLAN = MatrixPlan(instances=(1, 2), clients=(1, 2), jobs=(1,), configurations=TUNED)
PGBENCH = Pgbench(Path("pgbench"), 18)


def seed_table(name: str) -> list[dict[str, Any]]:
    found = json.loads(TABLES.read_text())["tables"][name]
    assert isinstance(found, list)
    return found


def seed_rows(name: str, **factors: Mapping[str, str]) -> list[MatrixRow]:
    """Return the rows of one table; `factors` maps what it calls its tests to a factor's levels."""
    return [_row(row, factors) for row in seed_table(name)]


def _row(row: Mapping[str, Any], factors: Mapping[str, Mapping[str, str]]) -> MatrixRow:
    test = str(row.get("test", row.get("system")))
    cell = Cell(row["pods"], row["clients_per_pod"], row["clients_per_pod"], "tpcb-like", 1000, "default")
    cell = replace(cell, smt=str(row["smt"]), **{axis: levels[test] for axis, levels in factors.items()})
    return MatrixRow(
        cell=cell,
        tps=float(row["tps"]),
        latency_ms=float(row["lat_ms"]),
        cpu_pct=float(row["cpu_pct"]),
        smt=str(row["smt"]),
        locks={name: float(row[name]) for name in ("row_exclusive", "access_share", "exclusive")},
        system=str(row.get("system", "")),
        cores=row.get("cores"),
        vcpus=row.get("vcpu"),
        runs={1: float(row["tps"])},
    )


def made_row(connections: int, tps: float, *, runs: Mapping[int, float] | None = None, **cell: str) -> MatrixRow:
    """Return a row that keeps Little's law."""
    where = replace(Cell(1, connections, 1, "tpcb-like", 10, "default"), **cell)  # type: ignore[arg-type]
    return MatrixRow(
        cell=where,
        tps=tps,
        latency_ms=1000 * connections / tps,
        runs={1: tps} if runs is None else runs,
        locks={"row_exclusive": 3.0 * connections, "access_share": 1.0 * connections, "exclusive": 1.0},
    )
