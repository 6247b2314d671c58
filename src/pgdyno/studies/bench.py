"""bench: one configuration under one workload, measured once or several times. No claim is made."""

from __future__ import annotations

from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.trial import Role, Trial, TrialSpec, TrialState
from pgdyno.studies.blocks import run_repeating
from pgdyno.studies.result import count_states, run_json
from pgdyno.trial.laboratory import Laboratory
from pgdyno.trial.run_evidence import read_evidence
from pgdyno.workloads.sized import AFTER, BEFORE, counted

FIGURES = ("tps", "latency_ms", "server_cpu_ms_per_tx")
"""What a bench is asked for: at the top of its result only where a run was used."""


def bench(laboratory: Laboratory, configuration: Configuration = BASELINE, runs: int = 1) -> list[Trial]:
    """Measure `runs` times; a disturbed or unsteady run is repeated, and both are kept."""
    laboratory.expect(runs)
    return [
        run_repeating(laboratory.run, TrialSpec(configuration, Role.ARM, "bench", block, 0))
        for block in range(1, runs + 1)
    ]


def bench_result(laboratory: Laboratory, trials: list[Trial]) -> dict[str, object]:
    """Return the result: the figures of the last run that was used at the top, every run below.

    Where none was used, the top has the state and the reason of the last one, and no figure of it.
    """
    study = laboratory.study
    used = [trial for trial in trials if trial.state is TrialState.COMPLETE]
    top = _run(laboratory, (used or trials)[-1])
    every = laboratory.store.trials(study.id)
    return {
        "study": study.id,
        **(top if used else {name: None if name in FIGURES else value for name, value in top.items()}),
        "used": [trial.id for trial in used],
        "runs": [_run(laboratory, trial) for trial in trials],
        "trials": count_states(every),
        "environment": study.environment,
        "elapsed_s": laboratory.spent_s,
    }


def _run(laboratory: Laboratory, trial: Trial) -> dict[str, object]:
    return {
        **run_json(trial),
        "sizes": _sizes(trial),
        **read_evidence(laboratory.store, laboratory.study, trial).to_json(),
    }


def _sizes(trial: Trial) -> dict[str, object]:
    """Return the bytes of the database and of its largest tables, before and after the run."""
    counters = {} if trial.outcome is None else trial.outcome.counters
    before, after = counted(counters, BEFORE), counted(counters, AFTER)
    return {name: {"before": size, "after": after.get(name)} for name, size in before.items()}
