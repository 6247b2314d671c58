"""Runs of another tool as a study of this store: kind `imported`, read and never measured here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.model.configuration import BASELINE
from pgdyno.model.record import TextRecord
from pgdyno.model.results.imported import ImportedResult
from pgdyno.model.study import Study, StudyKind
from pgdyno.model.trial import LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.store.catalogue import Store
from pgdyno.studies.session.new_study import imported_study, keep_import, sha256_of
from pgdyno.workloads.hammerdb.run import HammerRun

MOST_TEXT = 1_000_000
"""So much of a file is kept with its run; the rest of a larger one is left where it is."""


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A file that was read: its name, its text, and the runs in it."""

    name: str
    text: str
    runs: Sequence[HammerRun]


def import_hammerdb(store: Store, files: Sequence[ImportedFile], *, target: str = "") -> ImportedResult:
    """Keep the runs of these files as one study, and return its result. Nothing is measured and no server is asked."""
    first = next(run for file in files for run in file.runs)
    warmup_s, measure_s = 60.0 * (first.rampup_min or 0), 60.0 * (first.duration_min or 0)
    study = imported_study(
        StudyKind.IMPORTED,
        "import hammerdb",
        target or _machine([run.machine for file in files for run in file.runs], first.database),
        _workload(first),
        LoadPlan(clients=first.users or 1, jobs=1, warmup_s=warmup_s, measure_s=measure_s),
        [(file.name, sha256_of(file.text)) for file in files],
    )

    def body() -> ImportedResult:
        numbers = [_keep(store, study, number, file) for number, file in enumerate(files, 1)]
        count = sum(map(len, numbers))
        return ImportedResult(
            study=study.id,
            title=f"{count} run{'s' * (count != 1)} of HammerDB, imported",
            machine_told=all(run.machine for file in files for run in file.runs),
            sentences=tuple(_sentence(file.name, run) for file in files for run in file.runs),
            runs=tuple(number for found in numbers for number in found),
        )

    return keep_import(store, study, body)


def _keep(store: Store, study: Study, block: int, file: ImportedFile) -> list[int]:
    kept: list[int] = []
    for slot, run in enumerate(file.runs):
        sizes = {"users": run.users, "warehouses": run.warehouses}
        factors = {name: str(size) for name, size in sizes.items() if size is not None}
        number = store.begin_trial(study.id, TrialSpec(BASELINE, Role.ARM, "hammerdb", block, slot, factors=factors))
        store.add_records(number, [TextRecord(file.name, file.text[:MOST_TEXT])])
        store.finish_trial(number, outcome(run))
        kept.append(number)
    return kept


def outcome(run: HammerRun) -> Outcome:
    """Return what the run says of itself. Its TPM counts all databases of the server, so it is no throughput.

    A run with users that failed is partial: fewer did the work than were asked for. Its times are those of single
    procedures, whose percentiles cannot be put together: they are counters, and the run has no latency.
    """
    counters = {"nopm": float(run.nopm), "tpm": float(run.tpm)}
    if run.users is not None:
        counters["virtual_users"] = float(run.users)
    for name, times in run.procedures.items():
        counters[f"{name.lower()}_calls"] = float(times.calls)
        for key in ("avg_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms"):
            milliseconds: float | None = getattr(times, key)
            if milliseconds is not None:
                counters[f"{name.lower()}_{key}"] = milliseconds
    failed = f"{run.failed_users} virtual user{'s' * (run.failed_users > 1)} failed"
    partial = failed if run.failed_users else None
    began = run.began_at or 0.0
    return Outcome(
        state=TrialState.PARTIAL if partial else TrialState.COMPLETE,
        reason=partial,
        began_at=began,
        ended_at=began + 60.0 * ((run.rampup_min or 0) + (run.duration_min or 0)),
        counters=counters,
    )


def _machine(told: Sequence[str | None], database: str) -> str:
    """Return what all runs were made on; each run's own is in its sentence."""
    machines = set(told)
    if len(machines) > 1:
        return f"{database}, several or unknown hosts"
    return machines.pop() or f"{database}, unknown host (the files do not say)"


def _workload(run: HammerRun) -> WorkloadSpec:
    version = f" {run.version}" if run.version else ""
    return WorkloadSpec(
        name="hammerdb-tprocc",
        parameters={},
        fingerprint=sha256_of(f"hammerdb{version}")[:16],
        description=f"TPROC-C by HammerDB{version}, imported",
        read_only=False,
    )


def _sentence(name: str, run: HammerRun) -> str:
    users = "an unknown number of" if run.users is None else str(run.users)
    by = f"{users} virtual user{'s' * (run.users != 1)}"
    on = f" on {run.warehouses} warehouse{'s' * (run.warehouses > 1)}" if run.warehouses else ""
    failed = f"; {run.failed_users} of them failed" if run.failed_users else ""
    machine = f"; {run.machine}" if run.machine else ""
    return f"{name}: {run.nopm:,} NOPM from {run.tpm:,} {run.database} TPM by {by}{on}{failed}{machine}."
