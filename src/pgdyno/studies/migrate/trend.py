"""The rehearsals of one plan that the store has, as a trend: each keeps those before it."""

from __future__ import annotations

from pgdyno.model.results.migrate import EarlierRehearsal, MigrateResult
from pgdyno.model.study import Study, StudyKind
from pgdyno.store.catalogue import Store


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
