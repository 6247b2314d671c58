"""The result of a matrix as plain JSON: rows, skipped cells, and what was the same for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.matrix import Cell, MatrixRow
from pgdyno.model.matrix_json import row_to_json, skipped_to_json
from pgdyno.stats.matrix import best_by_mode, contrasts, curves, knee, little, lock_growth
from pgdyno.studies.matrix import Matrix
from pgdyno.studies.matrix_plan import MatrixPlan
from pgdyno.studies.result import count_states, refused_json, verdict_json
from pgdyno.studies.study_session import StudySession
from pgdyno.workloads.registry import make_workload


def matrix_result(stand: StudySession, plan: MatrixPlan, matrix: Matrix) -> dict[str, object]:
    """Return what `pgdyno matrix --json` prints and what the report is made from."""
    rows, study = matrix.rows, stand.study
    return {
        "study": study.id,
        **rows_result(rows),
        "skipped": [skipped_to_json(one) for one in matrix.skipped],
        "data": data_sentence([_reads_only(plan, row.cell) for row in rows]),
        "driver": driver_sentence(stand, rows),
        "method": method(plan),
        "network": dict(plan.network),
        "notes": [],
        "refused": refused_json(matrix.trials),
        "trials": count_states(matrix.trials),
        "environment": study.environment,
        "elapsed_s": stand.laboratory.spent_s,
    }


def rows_result(rows: Sequence[MatrixRow]) -> dict[str, object]:
    """Return the rows and all that follows from them alone."""
    best_rows = [{"cell": row.cell.factors(), "tps": row.tps} for row in best_by_mode(rows)]
    return {
        "rows": [{**row_to_json(row), **_checks(row)} for row in rows],
        "best": best_rows[0] if best_rows else None,
        "best_by_mode": best_rows,
        "knees": [{"cell": row.cell.factors(), "tps": row.tps} for curve in curves(rows) if (row := knee(curve))],
        "lock_growth": [
            {"load": growth.load, "throughput": growth.throughput, "locks": dict(growth.locks)}
            for curve in curves(rows)
            if (growth := lock_growth(curve)) is not None
        ],
        "contrasts": _contrasts(rows),
    }


def _checks(row: MatrixRow) -> dict[str, object]:
    check = little(row)
    if check is None:
        return {"little": None}
    names = ("demand", "edges", "deviation", "flagged")
    return {"little": {name: getattr(check, name) for name in names}}


def _contrasts(rows: Sequence[MatrixRow]) -> list[object]:
    return [
        {
            "axis": one.axis,
            "from": one.level_a,
            "to": one.level_b,
            "load": {"instances": one.a.cell.instances, "clients": one.a.cell.clients},
            "a": one.a.cell.factors(),
            "b": one.b.cell.factors(),
            "change_pct": 100 * one.change,
            "verdict": None if one.verdict is None else verdict_json(one.verdict),
        }
        for one in contrasts(rows)
    ]


def _reads_only(plan: MatrixPlan, cell: Cell) -> bool:
    return make_workload(cell.mode, plan.workload(cell)).spec().read_only


def data_sentence(reads_only: Sequence[bool]) -> str:
    """Say with which data a cell begins; `reads_only` tells it of each row."""
    fresh = "begins with fresh data and a checkpoint, so that it is measured in its phase of full-page images"
    kept = "keeps its data, which nothing changes, and begins with a checkpoint"
    if not any(reads_only):
        return f"Every cell {fresh}."
    return f"Every cell {kept}." if all(reads_only) else f"A cell that writes {fresh}; one that only reads {kept}."


def driver_sentence(stand: StudySession, rows: Sequence[MatrixRow]) -> str:
    """Say where the load generators ran, because a driver on the server's host takes CPU from the server."""
    if not stand.target.local:
        return "The load generators ran on another host than the server."
    shares = [row.driver_cpu_pct for row in rows if row.driver_cpu_pct is not None]
    taken = f", and took up to {max(shares):.0f} % of its CPU" if shares else ""
    return f"The load generators ran on the server's host{taken}: that is in CPU %."


def method(plan: MatrixPlan) -> dict[str, str]:
    """Return what was the same for all cells, in words."""
    pods = "; ".join(
        f"{count} with " + ", ".join(
            [f"{pod.vcpus:g} CPUs"] * (pod.vcpus is not None)
            + [f"{(pod.memory_bytes or 0) / 2**30:.3g} GiB"] * (pod.memory_bytes is not None)
        )
        for count, pod in plan.pods.items()
    )  # fmt: skip
    return {
        "each run": f"{plan.warmup_s + plan.measure_s:g} s under load: warm-up until steady is not counted, at most "
        f"{plan.warmup_s:g} s; the rest, at least {plan.measure_s:g} s, is measured",
        "repetitions": f"{plan.repetitions}, each with every cell once, in an order drawn from seed {plan.seed}",
        "before each run": "data anew from their template where the load writes, server restarted where settings are "
        "tried, checkpoint",
        "protocol": plan.protocol,
        "clients": "a closed loop, connections kept (never pgbench -C)",
        "CPUs of the server": "; ".join(cpus or "as found" for cpus in plan.server_cpus),
        "CPUs of the load generators": plan.driver_cpus or "all",
        "shape of the load generators": pods or "no bound",
    }
