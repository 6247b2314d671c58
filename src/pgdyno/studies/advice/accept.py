"""Put findings in force for good: checked, journalled, read back, recorded, and undone by `pgdyno rollback`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pgdyno.model.change import ChangeAction, ChangeRecord
from pgdyno.model.finding import OF_STUDY
from pgdyno.owner.signals import signals_interrupt
from pgdyno.server import places
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice.acceptance import Acceptance
from pgdyno.studies.session.study_session import begin_session, linux_knobs, put_back_abandoned
from pgdyno.studies.who import who
from pgdyno.targets.target import Target
from pgdyno.undo.apply import Applied
from pgdyno.undo.watch import Deadlines

STUDY = "apply"
"""What a bundle of this verb says of its study."""


@dataclass(frozen=True, slots=True)
class InForce:
    """What came into force, and the session whose bundle takes it back."""

    session: str
    applied: Applied


def put_in_force(
    target: Target,
    acceptance: Acceptance,
    store: Store,
    *,
    announce: Callable[[str], None],
    watch: Deadlines | None = None,
    clock: Callable[[], float] = time.time,
    by: str | None = None,
) -> InForce:
    """Bring it into force in a session and keep it; any error or signal on the way restores the server.

    It is recorded in the store before it is kept, as done `by` the user of this process unless another is named: what
    stays is on record. Errors as `Session.apply`.
    """
    undo_root = places.ensure(places.state_dir() / "undo")
    configuration = acceptance.configuration
    kernel = linux_knobs(configuration)
    with signals_interrupt():
        put_back_abandoned(target, undo_root, announce, may_change=True)
        with begin_session(target, STUDY, undo_root, kernel, watch or Deadlines()) as session:
            announce(f"session {session.id}: the undo bundle is on disk, the watchdog is ready")
            applied = session.apply(configuration, restart="as-needed")
            records = _records(target, acceptance, session.id, clock(), by or who())
            store.add_changes(records)
            try:
                session.keep()
            except BaseException:
                store.add_changes(taken_back(records, clock()))
                raise
    return InForce(session.id, applied)


def taken_back(records: Sequence[ChangeRecord], at: float, by: str | None = None) -> list[ChangeRecord]:
    """Return the records of the rollback of these changes, by the user of this process unless another is named."""
    swapped = [replace(record, old=record.new, new=record.old) for record in records]
    return [replace(record, at=at, who=by or who(), action=ChangeAction.ROLLBACK) for record in swapped]


def record_rollback(store: Store, session: str, at: float, by: str | None = None) -> int:
    """Record that a session's changes were taken back, once, as `taken_back`; return how many they were."""
    known = store.changes(session=session)
    if not known or any(record.action is ChangeAction.ROLLBACK for record in known):
        return 0
    store.add_changes(taken_back(known, at, by))
    return len(known)


def _records(target: Target, acceptance: Acceptance, session: str, at: float, by: str) -> list[ChangeRecord]:
    records = []
    for knob, value in acceptance.configuration.items():
        finding = acceptance.rule_of(knob)
        records.append(
            ChangeRecord(
                at=at,
                who=by,
                action=ChangeAction.APPLY,
                target=target.name,
                environment=acceptance.facts.environment_hash(),
                session=session,
                rule="" if finding.origin == OF_STUDY else finding.rule,
                knob=knob,
                old=acceptance.before[knob],
                new=value,
                study=finding.proof.study if finding.proof else None,
            )
        )
    return records
