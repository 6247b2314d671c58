"""bench: one configuration under one workload, measured once or several times. No claim is made."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.results.bench import BenchResult, RunRecord, Size
from pgdyno.model.study import Study
from pgdyno.model.trial import Role, Trial, TrialSpec, TrialState
from pgdyno.store.catalogue import Store
from pgdyno.studies.pairs.blocks import run_repeating
from pgdyno.studies.pairs.result import parts_of, run_figures
from pgdyno.trial.laboratory import Laboratory
from pgdyno.trial.run_evidence import read_evidence
from pgdyno.workloads.sized import AFTER, BEFORE, counted


def bench(laboratory: Laboratory, configuration: Configuration = BASELINE, runs: int = 1) -> list[Trial]:
    """Measure `runs` times; a disturbed or unsteady run is repeated, and both are kept."""
    laboratory.expect(runs)
    specs = [TrialSpec(configuration, Role.ARM, "bench", block, 0) for block in range(1, runs + 1)]
    return [run_repeating(laboratory.run, spec, company=laboratory.company) for spec in specs]


def bench_result(laboratory: Laboratory, trials: list[Trial]) -> BenchResult:
    """Return the result: the figures of the last run that was used at the top, every run below."""
    used = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    runs = tuple(run_record(laboratory.store, laboratory.study, trial) for trial in trials)
    top = next(one for one in reversed(runs) if not used or one.figures.state is TrialState.COMPLETE)
    if not used:
        top = replace(top, figures=replace(top.figures, tps=None, latency_ms=None, server_cpu_ms_per_tx=None))
    return BenchResult(**parts_of(laboratory), top=top, used=tuple(trial.id for trial in used), runs=runs)


def run_record(store: Store, study: Study, trial: Trial) -> RunRecord:
    """Return one run with its sizes and what is known beside its score."""
    counters = {} if trial.outcome is None else trial.outcome.counters
    before, after = counted(counters, BEFORE), counted(counters, AFTER)
    return RunRecord(
        figures=run_figures(trial),
        sizes={name: Size(before=size, after=after.get(name)) for name, size in before.items()},
        evidence=read_evidence(store, study, trial),
    )
