"""The captured load that ends a rehearsal: the replay's own study on the target, and what it says of the migration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pgdyno.errors import PgdynoError, placed
from pgdyno.migration.journal import RehearsalJournal
from pgdyno.migration.plan import MigrationPlan
from pgdyno.model.facts import Facts
from pgdyno.model.guard import GuardPlan
from pgdyno.model.results.migrate import MigrationPhase, ReplayedLoad
from pgdyno.model.shapes import plain
from pgdyno.replay.captured import asked_of
from pgdyno.replay.target_facts import identify, require_another, require_room, room_of
from pgdyno.store.catalogue import Store
from pgdyno.studies.migrate.prepare import PreparedMove
from pgdyno.studies.replay.options import ReplayOptions
from pgdyno.studies.replay.run import prepare, replay, whole_meta
from pgdyno.studies.replay.words import unlike_of, void_text
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.units import plural, seconds_text

CUT_SHORT = "an earlier run was ended within it, and what it sent is on the target: rehearse it anew"


def check_replay(prepared: PreparedMove, facts: tuple[Facts, Facts]) -> list[str]:
    """Return what would be replayed, in lines for people; none where the plan has no replay.

    Raises, before anything is moved, what the replay would raise of the trace, its target, roles, databases and room.
    """
    plan, (source, target) = prepared.plan, (prepared.place.source.target, prepared.place.target.target)
    if plan.replay is None:
        return []
    trace = Path(plan.replay.trace)
    with placed(f"{prepared.options.path.name}: line {plan.lines.get('trace', 1)}: replay"):
        meta = whole_meta(trace)
        asked = asked_of(trace)
    require_another(identify(target, facts[1]), meta.system_identifier or str(facts[0].server.system_identifier))
    room = room_of(target)
    come = replace(
        room, roles=room.roles | room_of(source).roles, databases=room.databases | {plan.target_database}
    )  # the rehearsal makes what the target lacks
    names = _names(plan)
    require_room(come, target.name, asked.users, [names.get(one, one) for one in asked.databases], asked.most_sessions)
    length = seconds_text(asked.last_due_us / 1e6 / plan.replay.speed)
    return [
        f"replay: at the end {plural(meta.statements, 'statement')} of {trace} in {length} on the target, outside of "
        "the window; what they change stays"
    ]


def replay_phase(journal: RehearsalJournal, run: Callable[[], ReplayedLoad], tell: Callable[[str], None]) -> None:
    """Replay as the last phase, and note how it ended. Once: what a replay sent is on the target."""
    phase, state = MigrationPhase.REPLAY, journal.state
    if state.is_over(phase):
        return
    if phase in state.began:
        journal.phase(phase, "failed", CUT_SHORT)
        return
    tell(f"{phase.value} begins")
    journal.phase(phase, "began")
    try:
        journal.note("replay", plain(run()))
    except PgdynoError as error:
        journal.phase(phase, "failed", error.one_line)
        if error.hint:
            tell(f"{phase.value}: {error.hint}")
    else:
        journal.phase(phase, "ended")
        tell(f"{phase.value}: done")


def replay_on_target(
    store: Store,
    prepared: PreparedMove,
    request: TargetRequest,
    *,
    study: str,
    source_identifier: str,
    guards: GuardPlan,
    left_s: float,
    announce: Callable[[str], None],
    tick: Callable[[], None],
) -> ReplayedLoad:
    """Run the replay's study, in `left_s` seconds at most; its outcome goes beside the dumps, and stays.

    The study is kept in `store`; `prepared` names the trace and the target, and `request` is how the target was asked
    for. `study` is the id of the rehearsal, which names the folder of the outcome. `source_identifier` is the system
    identifier of the source, for a trace that does not have it; a breach of `guards` ends the replay. `announce` takes
    lines of progress, and `tick` is called about five times a second while statements are sent.
    """
    plan, planned = prepared.plan, prepared.plan.replay
    assert planned is not None, "it was looked at"
    options = ReplayOptions(
        trace=Path(planned.trace),
        output=Path(plan.folder) / f"{study}.outcome",
        speed=planned.speed,
        stop_file=prepared.options.stop_file,
        databases=_names(plan),
        error_limit_percent=planned.error_limit_percent,
        guards=guards,
        source_identifier=source_identifier,
    )
    ready = prepare(prepared.place.target.target, options)
    bounded = replace(ready.plan, max_seconds=max(1.0, min(ready.plan.max_seconds or left_s, left_s)))
    result = replay(
        store, replace(ready, plan=bounded), request, options, announce=announce, tell=lambda _tally: tick()
    )
    return ReplayedLoad(
        study=result.study,
        trace=planned.trace,
        speed=planned.speed,
        sent=result.fidelity.sent,
        unlike=unlike_of(result),
        unlike_limit_percent=planned.unlike_limit_percent,
        void=void_text(result),
    )


def _names(plan: MigrationPlan) -> dict[str, str]:
    return {} if plan.database == plan.target_database else {plan.database: plan.target_database}
