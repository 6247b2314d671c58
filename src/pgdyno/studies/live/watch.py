"""`pgdyno live --watch-only`: what could this server resolve in 10, 30 and 60 minutes? Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pgdyno.errors import ended_by
from pgdyno.model.facts import Facts
from pgdyno.model.guard import GuardPlan
from pgdyno.model.results.live import LiveResult
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.owner.signals import signals_interrupt
from pgdyno.probes.guards.reader import GuardReader
from pgdyno.probes.settings_seen import SettingsReader, SettingsSeen, changed
from pgdyno.probes.statements import StatementReader
from pgdyno.server.role_settings import read_overrides
from pgdyno.store.catalogue import Store
from pgdyno.studies.live.checking import LiveAccess, refusals, require_own_role, require_watchable, surroundings
from pgdyno.studies.live.kind import WATCH_ONLY
from pgdyno.studies.live.reference import watch_baseline
from pgdyno.studies.live.watched_result import live_result
from pgdyno.studies.session.new_study import observed_study
from pgdyno.studies.session.ownership import owning
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.trial.sentry import status_now
from pgdyno.units import seconds_text, some_text

SETTINGS_S = 10.0
"""So often settings are read: somebody who compares two values changes them every half minute."""
MOST_CHANGES = 5


@dataclass(slots=True)
class SettingsMoved:
    """What somebody changed of a server's settings meanwhile; `read` returns None where it does not answer."""

    read: Callable[[], SettingsSeen | None]
    clock: Callable[[], float] = time.monotonic
    changes: dict[str, None] = field(default_factory=dict)
    _last: SettingsSeen | None = None
    _next: float = 0.0

    def look(self) -> None:
        """Read the settings when it is time to."""
        if self.clock() < self._next:
            return
        self._next, now = self.clock() + SETTINGS_S, self.read()
        if now is not None and self._last is not None:
            self.changes.update(dict.fromkeys(changed(self._last, now)))
        self._last = self._last if now is None else now

    def notes(self) -> tuple[str, ...]:
        """Return what to know of it beside the result."""
        if not self.changes:
            return ()
        told = some_text(list(self.changes), MOST_CHANGES)
        return (f"Somebody changed settings while it was watched, and periods differ by that, too: {told}.",)


def watch_only(
    store: Store,
    target: Target,
    request: TargetRequest,
    *,
    reference_s: float,
    announce: Callable[[str], None],
    clock: Callable[[], float] = time.time,
) -> LiveResult:
    """Check the server, watch its baseline for `reference_s` seconds, keep what that says as a study and return it.

    Only reads. `request`, how `target` was asked for, is kept with the study in `store`; `announce` takes lines of
    progress, and `clock` returns seconds since the epoch. Raises EnvironmentUnsuitable, before anything is kept, where
    the server cannot be watched.
    """
    facts, began = read_facts(target), clock()
    reader, settings = StatementReader(target.postgres), SettingsReader(target.postgres)
    moved = SettingsMoved(settings.read)

    def sleep(seconds: float) -> None:
        time.sleep(seconds)
        moved.look()

    try:
        open_watchable(target.name, facts, reader)
        study = observed_study(
            StudyKind.LIVE, "live, watched only", request, target, facts, began=began, seconds=reference_s,
            options={WATCH_ONLY: True, "reference_s": reference_s},
        )  # fmt: skip
        with _kept(store, study, began):
            announce(f'watching "{target.name}" for {seconds_text(reference_s)}; nothing is changed')
            statuses = status_now(GuardReader(target), GuardPlan(), clock=time.time, sleep=time.sleep)
            around = surroundings(
                facts, read_overrides(target.postgres)[2], [one.indicator for one in statuses.values()]
            )
            moved.look()
            seen = watch_baseline(reader, reference_s, announce=announce, sleep=sleep)
            around = (*around, *moved.notes())
            result = live_result(
                study, facts, seen, reader.keys, reader.names(), around=around, elapsed_s=clock() - began
            )
            store.update_study(study.id, state=StudyState.COMPLETE, result=result)
    finally:
        reader.close()
        settings.close()
    return result


def open_watchable(label: str, facts: Facts, reader: StatementReader) -> int:
    """Open the reader's session and return how many sessions of others there are.

    Raises EnvironmentUnsuitable where the server, or our role in it, is not fit to be watched.
    """
    database = reader.open()
    entries = reader.entries() if database is not None else 0
    require_watchable(label, refusals(facts, LiveAccess(database, reader.role, reader.sees_all, entries)))
    spent, (sessions, own) = reader.statements(), reader.own_sessions()
    require_own_role(reader.role, sessions, own, spent.own_ms, float((spent.exec_ms + spent.plan_ms).sum()))
    return sessions


@contextmanager
def _kept(store: Store, study: Study, now: float) -> Iterator[None]:
    """Keep the study while it runs, and say of one that did not come to its end what became of it."""
    store.add_study(study)
    with signals_interrupt(), owning(store, study.id, now, resumes=False) as row:
        row.put(phase="watching", place="statements, the load and the guards; nothing is changed")
        try:
            yield
        except BaseException as error:
            is_ended = isinstance(error, KeyboardInterrupt)
            state = StudyState.INTERRUPTED if is_ended else StudyState.FAILED
            store.update_study(study.id, state=state, ended=ended_by(error))
            raise
