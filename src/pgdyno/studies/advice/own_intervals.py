"""When studies ran on a server, read from the store: what advice must not take for the server's own work."""

from __future__ import annotations

from pgdyno.model.inventory import Inventory
from pgdyno.model.study import Study, StudyKind
from pgdyno.probes.evidence.own_work import OwnStudy, OwnWork
from pgdyno.store.bundle_import import IMPORTED
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.studies.advice.proofs import is_same_server

AFTER_S = 15.0
"""What a study still does after its last trial: it restores the server and drops its databases."""
OF_USERS = frozenset({StudyKind.LIVE, StudyKind.WATCH})
"""Kinds that load nothing: what is counted in their time is of the server's users."""


def own_work(store: Store, inventory: Inventory) -> OwnWork:
    """Return the times in which studies loaded this server, of whichever kernel then. Reads the store only.

    A study that runs, or was killed, lasts until its last sign of life.
    """
    alive = {live.study: live.at for live in LiveBoard(store).running()}
    found = []
    for study in store.studies():
        is_ours = not study.was_read and IMPORTED not in study.options and study.kind not in OF_USERS
        if is_ours and is_same_server(study, inventory):
            last = max(_ends(store, study), default=study.created_at)
            found.append(OwnStudy(study.id, study.created_at, max(last, alive.get(study.id, last)) + AFTER_S))
    return OwnWork(tuple(sorted(found, key=lambda one: one.began)))


def _ends(store: Store, study: Study) -> list[float]:
    """Return the moments at which a study was surely at work still; one without trials tells how long it took."""
    took = None if study.result is None else study.result.elapsed_s
    ends = [trial.outcome.ended_at for trial in store.trials(study.id) if trial.outcome is not None]
    return [end for end in (*ends, None if took is None else study.created_at + took) if end is not None]
