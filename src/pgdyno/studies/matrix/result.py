"""The result of a matrix: rows, skipped cells, and what was the same for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pgdyno.model.matrix import MatrixRow
from pgdyno.model.results.matrix import (
    CellFigure,
    ContrastLoad,
    ContrastRecord,
    LockGrowthRecord,
    MatrixResult,
    RowRecord,
)
from pgdyno.stats.matrix import best_by_mode, contrasts, curves, knee, little, lock_growth
from pgdyno.studies.matrix.plan import MatrixPlan
from pgdyno.studies.matrix.run import Matrix
from pgdyno.studies.pairs.result import parts_of, refusals
from pgdyno.studies.session.study_session import StudySession
from pgdyno.workloads.registry import make_workload


def matrix_result(session: StudySession, plan: MatrixPlan, matrix: Matrix) -> MatrixResult:
    """Return what `pgdyno matrix --json` prints and what the report is made from."""
    rows = matrix.rows
    return replace(
        rows_result(session.study.id, rows, driver=driver_sentence(session, rows), method=method(plan)),
        **parts_of(session.laboratory),
        skipped=tuple(matrix.skipped),
        data=data_sentence([make_workload(row.cell.mode, plan.workload(row.cell)).spec().read_only for row in rows]),
        network=dict(plan.network),
        refused=refusals(matrix.trials),
    )


def rows_result(study: str, rows: Sequence[MatrixRow], *, driver: str, method: Mapping[str, str]) -> MatrixResult:
    """Return a result with the rows and all that follows from them alone; `driver` and `method` say how they came.

    `study` is the id of the study, and `rows` stay in their order. `driver` is a sentence on where the load generators
    ran, empty where that is unknown; `method` has by topic, in words, what the rows have in common.
    """
    best_rows = tuple(CellFigure(cell=row.cell, tps=row.tps) for row in best_by_mode(rows))
    found = curves(rows)
    growths = (lock_growth(curve) for curve in found)
    return MatrixResult(
        study=study,
        driver=driver,
        method=method,
        rows=tuple(RowRecord(row=row, connections=row.cell.connections, little=little(row)) for row in rows),
        best=best_rows[0] if best_rows else None,
        best_by_mode=best_rows,
        knees=tuple(CellFigure(cell=row.cell, tps=row.tps) for curve in found if (row := knee(curve))),
        lock_growth=tuple(
            LockGrowthRecord(load=one.load, throughput=one.throughput, locks=one.locks)
            for one in growths
            if one is not None
        ),
        contrasts=tuple(
            ContrastRecord(
                axis=one.axis,
                before=one.level_a,
                after=one.level_b,
                load=ContrastLoad(instances=one.a.cell.instances, clients=one.a.cell.clients),
                a=one.a.cell,
                b=one.b.cell,
                change_pct=100 * one.change,
                verdict=one.verdict,
            )
            for one in contrasts(rows)
        ),
    )


def data_sentence(reads_only: Sequence[bool]) -> str:
    """Say with which data a cell begins; `reads_only` tells it of each row."""
    fresh = "begins with fresh data and a checkpoint, so that it is measured in its phase of full-page images"
    kept = "keeps its data, which nothing changes, and begins with a checkpoint"
    if not any(reads_only):
        return f"Every cell {fresh}."
    return f"Every cell {kept}." if all(reads_only) else f"A cell that writes {fresh}; one that only reads {kept}."


def driver_sentence(session: StudySession, rows: Sequence[MatrixRow]) -> str:
    """Say where the load generators ran, because a driver on the server's host takes CPU from the server."""
    if not session.target.local:
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
        "before each run": "data cloned from their template where the load writes, server restarted where settings are "
        "tried, checkpoint",
        "protocol": plan.protocol,
        "clients": "a closed loop, connections kept (never pgbench -C)",
        "CPUs of the server": "; ".join(cpus or "as found" for cpus in plan.server_cpus),
        "CPUs of the load generators": plan.driver_cpus or "all",
        "shape of the load generators": pods or "no bound",
    }
