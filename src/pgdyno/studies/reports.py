"""Read a study from the store and make its report: the page of its kind, with what closes every report."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pgdyno.model.results.bench import BenchResult, RunRecord
from pgdyno.model.results.parts.pair import PairResult
from pgdyno.model.samples import HistogramRow
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import Role, Trial, TrialState
from pgdyno.report.appendix import closed
from pgdyno.report.data_checks import with_checks
from pgdyno.report.facts_image import host_of
from pgdyno.report.pair_page import pair_page
from pgdyno.report.sections import Report
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.traces import LoadBin, RunTrace, bin_seconds, usual_spacing_s
from pgdyno.report.wording import settings_text
from pgdyno.stats.histogram import LatencyHistogram
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.studies.kinds import kind_of
from pgdyno.studies.session.ownership import is_alive_here
from pgdyno.trial.run_evidence import read_evidence

RECORDED_TABLES = ("cpu", "database", "disk", "memory", "sessions", "waits", "wal")


_LOAD = ("instances", "clients", "jobs", "mode", "scale")
"""Factors of a cell that its report tells as the load."""


def compose(record: StudyRecord) -> Report:
    """Return the page of a study's kind with what closes every report. Pure: all of it comes in the record."""
    return closed(record, with_checks(kind_of(record.study.kind).page(record), record))


def build_report(store: Store, study_id: str) -> Report:
    """Return the report of a study, by its id, a prefix of it, or `last`.

    An unfinished study gives a report without a verdict; one whose process is gone or silent is interrupted.
    Raises UsageError when there is no such study.
    """
    study = store.study(study_id)
    if study.state is StudyState.RUNNING and any(
        live.study == study.id and (live.is_silent(time.time()) or is_alive_here(live) is False)
        for live in LiveBoard(store).running()
    ):
        study = replace(study, state=StudyState.INTERRUPTED)
    trials = store.trials(study.id)
    recorded = recorded_runs(study, trials)
    traces = tuple(_read_trace(store, study, trial, name) for name, trial in recorded)
    looked_at = {
        trial.id: trial for trial in (*(trial for _, trial in recorded), *kind_of(study.kind).looked_at(study, trials))
    }
    judged = {run: read_evidence(store, study, trial) for run, trial in looked_at.items()}
    changes = tuple(one for one in store.changes() if study.id == one.study or one.target == study.target)
    return compose(
        StudyRecord(
            study,
            tuple(trials),
            traces,
            store.study_records(study.id),
            evidence=judged,
            store=store.name,
            changes=changes,
        )
    )


def build_run_report(store: Store, told: RunRecord) -> Report:
    """Return the report of one run of any study.

    Raises UsageError when there is no such run.
    """
    run = told.figures.run
    assert run is not None, "a run of this store"
    trial = store.trial(run)
    study = store.study(trial.study_id)
    result = BenchResult(study=study.id, top=told, runs=(told,))
    seen = [] if trial.outcome is None else [_read_trace(store, study, trial, "the run")]
    report = compose(
        StudyRecord(
            replace(_of_cell(study, trial), kind=StudyKind.BENCH, result=result),
            (trial,),
            tuple(seen),
            {one: records for one, records in store.study_records(study.id).items() if one == run},
            evidence={run: told.evidence},
            store=store.name,
        )
    )
    factors = ", ".join(f"{name} {value}" for name, value in trial.spec.factors.items() if name not in _LOAD)
    settings = settings_text(dict(trial.spec.configuration.items()))
    named = f"arm {trial.spec.arm} of {study.kind.value} study {study.id}, {trial.state.value}"
    lead = "; ".join(part for part in (report.lead, named, factors, settings) if part)
    return replace(report, kind="run", lead=lead, label=f"run {run} of study {study.id}")


def build_pair_report(store: Store, result: PairResult) -> Report:
    """Return the report of two runs; `result` is what `compare --json` prints of them."""
    trials = [store.trial(side.run) for side in (result.a, result.b) if side.run is not None]
    studies = {trial.id: store.study(trial.study_id) for trial in trials}
    shown = {trial.id: trial for trial in trials}
    records = {run: found for study in dict.fromkeys(trial.study_id for trial in trials)
               for run, found in store.study_records(study).items() if run in shown}  # fmt: skip
    return pair_page(
        StudyRecord(
            _of_cell(studies[trials[-1].id], trials[-1]),
            tuple(shown.values()),
            tuple(
                _read_trace(store, studies[run], trial, name)
                for name, (run, trial) in zip(("the first", "the second"), shown.items(), strict=False)
            ),
            records,
            evidence={run: read_evidence(store, studies[run], trial) for run, trial in shown.items()},
            store=store.name,
        ),
        result,
    )


def _of_cell(study: Study, trial: Trial) -> Study:
    """Return the study with the load of this trial: a cell of a matrix has clients, mode and scale of its own."""
    factors = trial.spec.factors
    instances, clients, jobs = (
        int(factors[name]) if factors.get(name, "").isdecimal() else getattr(study.plan, name) for name in _LOAD[:3]
    )
    plan = replace(study.plan, instances=instances, clients=clients, jobs=jobs)
    if "mode" not in factors:
        return replace(study, plan=plan)
    mode, scale = factors["mode"], factors.get("scale", "").removeprefix("0")
    load = replace(
        study.workload,
        name=mode,
        parameters={"scale": int(scale)} if scale.isdecimal() else {},
        description=f"{mode} at scale {scale}" if scale else mode,
        fingerprint="not kept of a cell",
        read_only=mode == "select-only",
    )
    return replace(study, plan=plan, workload=load)


def recorded_runs(study: Study, trials: Sequence[Trial]) -> list[tuple[str, Trial]]:
    """Return the runs to show in the flight recorder: those that its kind names, else the first usable one."""
    by_id = {trial.id: trial for trial in trials}
    wanted = kind_of(study.kind).shown(study, trials)
    found = [(name, by_id[run]) for name, run in wanted if run is not None and run in by_id]
    if found:
        return [(name, trial) for name, trial in found if trial.outcome is not None]
    usable = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    first = next((trial for trial in usable if trial.spec.role is Role.BASELINE), usable[0] if usable else None)
    return [] if first is None else [("the baseline" if first.spec.role is Role.BASELINE else "the run", first)]


def _read_trace(store: Store, study: Study, trial: Trial, name: str) -> RunTrace:
    outcome = trial.outcome
    assert outcome is not None, "a recorded run is finished"
    samples = {table: store.samples(trial.id, table) for table in RECORDED_TABLES}
    bin_s = max(bin_seconds(outcome.ended_at - outcome.began_at), usual_spacing_s(samples))
    return RunTrace(
        run=trial.id,
        name=name,
        began_at=outcome.began_at,
        steady_from=outcome.steady_from,
        ended_at=outcome.ended_at,
        cores=host_of(study).whole("cores"),
        load=load_bins(store.histograms(trial.id), outcome.began_at, outcome.ended_at, bin_s),
        samples=samples,
        events=store.events(trial.id),
        bin_s=bin_s,
    )


def load_bins(rows: Sequence[HistogramRow], began_at: float, ended_at: float, bin_s: int) -> list[LoadBin]:
    """Merge the histograms of all scripts and load generators into bins of `bin_s` whole seconds.

    `rows` are those of one run, in any order, which lasted from `began_at` to `ended_at` (seconds since the epoch).
    Seconds that the run does not cover whole, the first and the last, are left out; the last bin has the seconds that
    are left. Latency of a bin without a transaction is None.
    """
    bins: Mapping[int, list[HistogramRow]] = defaultdict(list)
    first = int(-(-began_at // 1))
    for row in rows:
        if first <= row.second and row.second + 1 <= ended_at:
            bins[(row.second - first) // bin_s].append(row)
    starts = range(first, int(ended_at // 1) if bins else first, bin_s)
    return [
        _load_bin(bins.get(index, []), second, min(bin_s, starts.stop - second)) for index, second in enumerate(starts)
    ]


def _load_bin(rows: Sequence[HistogramRow], second: int, width_s: int) -> LoadBin:
    count = sum(row.count for row in rows)
    if count == 0:
        return LoadBin(second + width_s / 2, 0.0, None, None, None)
    merged = LatencyHistogram.merged(row.blob for row in rows if row.count)
    p50, p95, p99 = (merged.quantile_ms(quantile) for quantile in (0.5, 0.95, 0.99))
    return LoadBin(second + width_s / 2, count / width_s, p50, p95, p99)
