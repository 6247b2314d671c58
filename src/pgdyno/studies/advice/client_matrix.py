"""Throughput by number of clients, from the bench runs and matrices that were recorded on a target."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median

from pgdyno.model.inventory import Inventory
from pgdyno.model.matrix import Cell
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial, TrialState
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice.proofs import is_here, studies_on
from pgdyno.studies.kinds import kind_of

FEWEST = 3
"""Numbers of clients below which nothing can be said of where throughput stops to rise."""
_LOAD = ("instances", "clients", "jobs")
"""The factors of a matrix that are its load."""
_FREE = ("clients", "jobs", "seed", "warmup_s", "measure_s")
"""What of a plan may differ between runs that are compared."""
Matrix = Sequence[tuple[int, float]]


def client_matrix(store: Store, inventory: Inventory) -> Matrix:
    """Return (clients, median transactions a second) of the newest load that ran with three numbers of clients or more.

    Only complete runs of bench and matrix on this target in this environment count, of one workload, one plan and one
    state of the server's settings; those of a matrix also of one SMT level, placement and set of CPUs, its clients
    being those of all load generators. Without three numbers of clients the result is empty. Reads the store only.
    """
    found: dict[str, dict[int, list[float]]] = {}  # by load, the newest first
    for study in studies_on(store, inventory):
        if not kind_of(study.kind).stands_alone or study.plan.rate is not None or not is_here(study, inventory):
            continue
        for trial in store.trials(study.id):
            outcome = trial.outcome
            if outcome is None or outcome.state is not TrialState.COMPLETE or outcome.throughput is None:
                continue
            load = _load(study, trial, outcome.settings_fingerprint)
            found.setdefault(load, defaultdict(list))[_connections(study, trial)].append(outcome.throughput)
    for rates in found.values():
        if len(rates) >= FEWEST:
            return tuple((clients, median(each)) for clients, each in sorted(rates.items()))
    return ()


def _connections(study: Study, trial: Trial) -> int:
    if trial.spec.factors:
        return Cell.of_factors(trial.spec.factors).connections
    return study.plan.connections


def _load(study: Study, trial: Trial, fingerprint: str | None) -> str:
    if trial.spec.factors:
        others = {name: word for name, word in trial.spec.factors.items() if name not in _LOAD}
        return json.dumps([others, study.plan.protocol, fingerprint], sort_keys=True)
    plan = {name: value for name, value in asdict(study.plan).items() if name not in _FREE}
    return json.dumps([asdict(study.workload), plan, fingerprint], sort_keys=True, default=str)
