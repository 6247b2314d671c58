"""When studies ran on a server, read from the store: what advice must not take for the server's own work."""

from __future__ import annotations

import time

from pgdyno.model.inventory import Inventory
from pgdyno.model.study import StudyState
from pgdyno.probes.evidence.own_work import OwnStudy, OwnWork
from pgdyno.store.bundle_import import IMPORTED
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice.proofs import is_here

AFTER_S = 15.0
"""What a study still does after its last trial: it puts the server back and drops its databases."""


def own_work(store: Store, inventory: Inventory) -> OwnWork:
    """Return the times of the studies that ran on this target in this environment. Reads the store only."""
    found = []
    for study in store.studies():
        if study.was_read or IMPORTED in study.options or not is_here(study, inventory):
            continue
        ends = [
            end
            for trial in store.trials(study.id)
            if trial.outcome is not None and (end := trial.outcome.ended_at) is not None
        ]
        last = time.time() if study.state is StudyState.RUNNING and not ends else max(ends, default=study.created_at)
        found.append(OwnStudy(study.id, study.created_at, last + AFTER_S))
    return OwnWork(tuple(sorted(found, key=lambda one: one.began)))
