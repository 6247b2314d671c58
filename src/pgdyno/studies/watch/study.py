"""`pgdyno watch`: the study around a watch. Checks the server, keeps what is seen, and reads only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from pgdyno.errors import StoreError, UsageError, ended_by
from pgdyno.knobs.values import canonical_text
from pgdyno.model.change import ChangeAction, ChangeRecord
from pgdyno.model.facts import Facts
from pgdyno.model.results.watch import WatchEvent, WatchEventKind, WatchResult
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.owner.signals import signals_interrupt
from pgdyno.probes.settings_seen import SettingsReader
from pgdyno.probes.statements import StatementReader
from pgdyno.stats.regressions import LEARN
from pgdyno.store.catalogue import Store
from pgdyno.studies.live.checking import watch_notes
from pgdyno.studies.live.watch import open_watchable
from pgdyno.studies.session.new_study import observed_study
from pgdyno.studies.session.ownership import owning
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.studies.watch.profiles import other_profile
from pgdyno.studies.watch.run import WatchSeen, watch
from pgdyno.studies.watch.telling import Told, clock_text
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.units import agreeing, moment_text, percent_text, plural, seconds_text

FULL = 0.995
QUIET, FOUND, SHORT = "nothing found", "found", "too short"
OLD_S = 90 * 86_400.0
"""A quarter of a year: applications are released more often than that."""
_RELOADED = ("user", "superuser", "sighup")
"""Contexts of settings that a live study can compare."""


def watch_server(
    store: Store,
    target: Target,
    request: TargetRequest,
    *,
    seconds: float | None,
    period_s: float,
    announce: Callable[[str], None],
) -> WatchResult:
    """Watch for `seconds` (None: until a signal), keep what is seen as a study and return it.

    Only reads from `target`: statements and settings, every `period_s` seconds. `request`, how it was asked for, is
    kept with the study in `store`, which also tells what was found and changed on it before. `announce` takes lines for
    people, one for each event. Raises EnvironmentUnsuitable, before anything is kept, where the server cannot be
    watched.
    """
    facts, began = read_facts(target), time.time()
    reader, settings = StatementReader(target.postgres), SettingsReader(target.postgres)
    try:
        open_watchable(target.name, facts, reader)
        study = observed_study(
            StudyKind.WATCH, "watch", request, target, facts, began=began, seconds=seconds or 0.0,
            options={"seconds": seconds, "period_s": period_s},
        )  # fmt: skip
        store.add_study(study)
        earlier = [one for one in store.studies() if one.id != study.id]
        cpu, old = time.process_time(), proposals(store.changes(), target.name, facts, began)

        def result(seen: WatchSeen) -> WatchResult:
            passed = max(1e-9, time.time() - began)
            now = (*old, *other_profile(earlier, facts.environment_hash(), seen.at_work))
            return result_of(study, facts, seen, passed, 100 * (time.process_time() - cpu) / passed, old=now)

        def keep(seen: WatchSeen) -> None:
            """Keep what was seen; a store that refuses just now has it the next time, and ends no watch of a week."""
            try:
                store.update_study(study.id, result=result(seen))
            except StoreError as refused:
                announce(f"what was seen is not in the store yet: {refused.message}")

        with signals_interrupt(), owning(store, study.id, began, resumes=False) as row:
            row.put(phase="watching", place=f"statements and settings, every {seconds_text(period_s)}")

            def tell(event: WatchEvent) -> None:
                announce(text := event_text(event))
                row.notice(text)  # the dashboard shows the newest

            try:
                announce(_begins(target.name, seconds, period_s))
                seen = watch(
                    reader, settings.read, Told(period_s, reader.keys, reader.names),
                    seconds=seconds, period_s=period_s, announce=tell, keep=keep,
                )  # fmt: skip
                found = result(seen)
                store.update_study(study.id, state=StudyState.COMPLETE, result=found)
            except BaseException as error:
                store.update_study(study.id, state=StudyState.FAILED, ended=ended_by(error))
                raise
    finally:
        reader.close()
        settings.close()
    return found


def event_text(event: WatchEvent) -> str:
    """Return an event as a line of its own."""
    since = f", since {clock_text(event.since)}" if event.since < event.at else ""
    return f"{event.what.value}: {event.text}{since}"


def _begins(name: str, seconds: float | None, period_s: float) -> str:
    length = "until Ctrl-C" if seconds is None else f"for {seconds_text(seconds)}"
    return (
        f'watching "{name}" {length}, a reading every {seconds_text(period_s)}; nothing is changed; what becomes '
        f"slower is reported after the first {seconds_text(LEARN * period_s)}"
    )


def result_of(
    study: Study, facts: Facts, seen: WatchSeen, elapsed_s: float, cpu_pct: float, *, old: tuple[str, ...] = ()
) -> WatchResult:
    """Return what was seen so far; `cpu_pct` of one core was ours here, `old` are settings worth another look.

    `study` and `facts` are those with which the watch began, `elapsed_s` seconds ago; `seen` is what it has read since.
    `old` has a sentence for each proposal, empty for none.
    """
    statements, covered = seen.regressions.watched()
    detectable = seen.regressions.detectable() if seen.regressions.period >= LEARN else None
    events = tuple(seen.told.events)
    slower = [one for one in events if one.what is WatchEventKind.SLOWER]
    settings = [one for one in events if one.what is WatchEventKind.SETTING]
    is_cut = seen.told.told > len(events)
    notes = [note for note in watch_notes(facts) if "plan" not in note.lower()]
    if covered < FULL and statements:
        notes.append(
            f"{percent_text(1 - covered)} of the time is in statements that run too rarely in "
            f"{seconds_text(seen.period_s)} to be watched."
        )
    if is_cut:
        notes.append(f"Of {seen.told.told} events {len(events)} are kept, of each kind the newest.")
    return WatchResult(
        study=study.id,
        environment=study.environment,
        elapsed_s=elapsed_s,
        title=_title(slower, settings, detectable, seen, least="at least " if is_cut else ""),
        word=FOUND if slower or settings else QUIET if detectable is not None else SHORT,
        seconds=seen.at - seen.began,
        period_s=seen.period_s,
        readings=seen.readings,
        void=dict(seen.void),
        events=events,
        statements=statements,
        covered=covered,
        detectable=detectable,
        own_cpu_pct=cpu_pct,
        notes=tuple(notes),
        proposals=old,
    )


def _title(
    slower: list[WatchEvent], settings: list[WatchEvent], detectable: float | None, seen: WatchSeen, *, least: str
) -> str:
    passed = seconds_text(seen.at - seen.began)
    parts = []
    if slower:
        statements = {(one.queryid, one.database, one.role) for one in slower if one.queryid is not None}
        who = [plural(len(statements), "statement")] if statements else []
        who += ["the server as a whole"] if any(one.queryid is None for one in slower) else []
        parts.append(f"{' and '.join(who)} became slower")
    if settings:
        # There and back are two of them, and one setting.
        parts.append(f"{agreeing(len(settings), 'setting change', 'was', 'were')} made")
    if parts:
        return f"In {passed} {least}{' and '.join(parts)}"
    if detectable is None:
        return f"No answer after {passed}: {LEARN} readings with enough calls are needed"
    return f"In {passed} nothing became slower by as much as can be detected here"


def proposals(changes: Iterable[ChangeRecord], target: str, facts: Facts, now: float) -> tuple[str, ...]:
    """Return a sentence for each setting that pgdyno put in force there at least `OLD_S` ago and that is so still.

    `changes` are in the order in which they were made, on any target: of each knob the last one on `target`, by its
    label, counts. `facts` tell what is in force, `now` is in seconds since the epoch. Settings that need a restart are
    left out. Loads change; whether a setting still pays is known to nobody until it is compared again. Nothing is begun
    by us.
    """
    latest = {one.knob: one for one in changes if one.target == target}
    return tuple(
        f"{one.knob} = {one.new} is in force since {moment_text(one.at, '%Y-%m-%d')}"
        f"{f' (study {one.study})' if one.study else ''}. To see whether it still pays: "
        f"pgdyno live --b '{one.knob}={one.old}', with the --target of this watch"
        for one in latest.values()
        if one.action is ChangeAction.APPLY and one.at <= now - OLD_S and _is_so_still(one, facts)
    )


def _is_so_still(change: ChangeRecord, facts: Facts) -> bool:
    row = facts.row(change.knob)
    if row is None or row.context not in _RELOADED or change.old is None or change.new is None:
        return False
    try:
        return canonical_text(row, row.setting) == canonical_text(row, change.new) != canonical_text(row, change.old)
    except UsageError:
        return False
