"""The rehearsals of one plan that the store has, as a trend and a forecast: each keeps those before it."""

from __future__ import annotations

from pgdyno.model.results.migrate import EarlierRehearsal, MigrateResult
from pgdyno.model.study import Study, StudyKind
from pgdyno.store.catalogue import Store
from pgdyno.studies.migrate.forecast import forecast_of


def rehearsals_before(store: Store, study: Study, fingerprint: str) -> tuple[EarlierRehearsal, ...]:
    """Return the whole rehearsals of this plan that were begun before this one, the earliest first."""
    found = []
    for one in store.studies():
        result = one.told(MigrateResult) if one.kind is StudyKind.MIGRATE else None
        if result is None or one.id == study.id or result.fingerprint != fingerprint or result.total_s is None:
            continue
        if one.created_at < study.created_at:
            found.append(
                EarlierRehearsal(
                    study=one.id, began_at=one.created_at, total_s=result.total_s, jobs=result.jobs,
                    source_bytes=result.source_bytes, exit_code=int(result.exit_code),
                )
            )  # fmt: skip
    return tuple(sorted(found, key=lambda one: one.began_at))


def full_size(store: Store, result: MigrateResult, size: int) -> tuple[str, ...]:
    """Return in lines what this rehearsal and those that are like it say of the full size, or why nothing.

    Alike are those of the plan's name, by the same mover between the same versions, so many at a time: their databases
    may be called otherwise, for each has a size of its own.
    """
    told = [one.told(MigrateResult) for one in store.studies() if one.kind is StudyKind.MIGRATE]
    whole = [one for one in told if one is not None and one.total_s is not None and one.study != result.study]
    alike = [one for one in (*whole, result) if _likeness(one) == _likeness(result)]
    return tuple(forecast_of(alike, size, result.window_s).lines())


def _likeness(one: MigrateResult) -> tuple[object, ...]:
    steps = frozenset((phase.phase, phase.after) for phase in one.phases)
    return one.plan, one.mover, one.jobs, one.source_version, one.target_version, steps
