"""`pgdyno live --b ...`: two arms on a server under its users' own load, from the checks to the verdict.

The reference comes first, and nothing is changed before a person, or a flag of theirs, has approved the plan. From the
first switch on the server is the undo session's: whatever ends this process, its end or its watchdog puts it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from pgdyno.errors import EnvironmentUnsuitable, OutOfTime, StoreError
from pgdyno.model.facts import Facts
from pgdyno.model.guard import GuardLimit, GuardPlan
from pgdyno.model.results.live import LiveResult, LiveSwitch
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.verdict import Metric
from pgdyno.probes.guards.reader import GuardReader
from pgdyno.probes.statements import DatabaseTotals, StatementReader
from pgdyno.server import places
from pgdyno.server.role_settings import Override, read_overrides
from pgdyno.stats.body_index import StatementReference, body_of, reference_of
from pgdyno.stats.period_choice import SWITCH_S, wash_of
from pgdyno.stats.sequential import Design
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.studies.live.arms import Arms, arms_of
from pgdyno.studies.live.checking import surroundings
from pgdyno.studies.live.observed import observed_study
from pgdyno.studies.live.others import OthersSettings
from pgdyno.studies.live.reach import cached, overridden, untested
from pgdyno.studies.live.reference import Watched, watch_baseline
from pgdyno.studies.live.server_world import ServerWorld, StopFile
from pgdyno.studies.live.switch_result import switched
from pgdyno.studies.live.switch_words import REJECTED, judgement
from pgdyno.studies.live.switchback import GUARD_REST_S, A, B, LiveOutcome, LiveStopped, Switchback
from pgdyno.studies.live.watch import open_watchable
from pgdyno.studies.live.watched_result import live_result
from pgdyno.studies.session.ownership import owning, runner_of
from pgdyno.studies.session.study_session import (
    STORE_PATIENCE_S,
    begin_session,
    put_back_abandoned,
    signals_interrupt,
)
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.trial.live_guards import LiveGuards, LiveLoad
from pgdyno.trial.live_recorder import LiveRecorder
from pgdyno.trial.sentry import Sentry, off_text
from pgdyno.trial.watcher import Watcher
from pgdyno.undo.opening import Opening
from pgdyno.undo.watch import Deadlines
from pgdyno.units import seconds_text

SESSIONS_ROOM = 2
"""Memory must do for so many times the sessions that are there now."""
ERRORS_ROOM, ERRORS_MORE = 3.0, 2.0
"""Guard errors: a load that rolls back on purpose is given so many times its usual share, and so many percent more."""


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What is asked: the settings of both arms, how long the server is watched first, and how long all may take.

    `period_s` stands for the length that the reference would choose.
    """

    a: Mapping[str, str]
    b: Mapping[str, str]
    reference_s: float
    budget_s: float
    seed: int
    design: Design = field(default_factory=Design)
    guards: GuardPlan = field(default_factory=lambda: GuardPlan(trips=1))
    watch: Deadlines = field(default_factory=Deadlines)
    period_s: float | None = None
    guard_rest_s: float = GUARD_REST_S


@dataclass(frozen=True, slots=True)
class SwitchPlan:
    """What a person is asked to approve. `left_s` is how long it takes at most, `notes` what they should know.

    `rollback` puts the server back by hand.
    """

    target: str
    arms: Arms
    period_s: float
    left_s: float
    max_pairs: int
    effect: str
    stop_file: str
    rollback: str
    notes: tuple[str, ...]


def switch_study(
    store: Store,
    target: Target,
    request: TargetRequest,
    options: LiveOptions,
    watcher: Watcher,
    *,
    approve: Callable[[SwitchPlan], bool],
    announce: Callable[[str], None],
) -> LiveResult:
    """Watch the server, and if a person approves compare B with A on its own load; keep all of it as a study.

    Raises, before anything is kept, UsageError for an arm that cannot be, and EnvironmentUnsuitable where the server
    cannot be watched or changed. Signals put the server back; what was judged until then is kept.
    """
    began, reader = time.time(), StatementReader(target.postgres)
    ends_at = time.monotonic() + options.budget_s
    with ExitStack() as stack:
        stack.callback(reader.close)
        stack.enter_context(signals_interrupt())
        mark_killed(store)
        undo_root = places.ensure(places.state_dir() / "undo")
        put_back_abandoned(target, undo_root, announce, may_change=True)
        facts = read_facts(target)
        arms, overrides = _checked(target, facts, reader, options)
        sentry = Sentry(GuardReader(target), options.guards)
        announce(off_text(sentry.begin()))
        study = _study(request, target, facts, options, began)
        folder = places.ensure(places.ensure(places.state_dir() / "runs") / study.id)
        stop = StopFile(folder / "stop")
        ending = stack.enter_context(_kept(store, study, began))
        recorder = stack.enter_context(LiveRecorder(watcher, LiveBoard(store), study.id))
        others = OthersSettings(target.postgres, arms.names)
        announce(f'watching "{target.name}" for {seconds_text(options.reference_s)}; nothing is changed yet')
        recorder.phase("watch the baseline")
        seen = _watched(reader, options.reference_s, stop, announce)
        names, keys = reader.names(), tuple(reader.keys)
        around = surroundings(facts, overrides, ())
        reference = reference_of(seen.whole, len(keys))
        around = (*arms.notes, *overridden(arms.before, overrides, reference, keys, names), *around)
        told = live_result(study, facts, seen, keys, names, around=around, elapsed_s=time.time() - began)
        period_s = options.period_s or told.period_s
        if period_s is None:
            return ending.complete(told)
        _require_calm(others)
        plan = _plan(target, arms, told, options, period_s, ends_at - time.monotonic(), stop)
        if not approve(plan):
            announce("rejected: nothing was changed")
            return ending.complete(_rejected(told, arms, period_s, options))
        load = _load_of(reference, seen, period_s, facts)
        sentry.plan = guards = _with_errors(options.guards, seen)
        session = stack.enter_context(begin_session(target, study.id, undo_root, (), options.watch))
        announce(f"session {session.id}: the undo bundle is on disk, the watchdog stands")

        def told_by(outcome: LiveOutcome) -> LiveResult:
            return switched(
                told, arms, outcome, reference, keys, names,
                seed=options.seed, session=session.id, elapsed_s=time.time() - began,
                not_tested=untested((arms.a, arms.b), cached(seen.whole, load.body)),
            )  # fmt: skip

        store.hurry()  # an arm is in force: nobody waits for a store that is locked

        world = ServerWorld(
            session=session,
            reader=reader,
            sentry=sentry,
            guards=LiveGuards(load, guards),
            others=OthersSettings(target.postgres, arms.names),
            watcher=recorder,
            stop=stop,
            arms={A: arms.a, B: arms.b},
            size=len(keys),
            calls_a_second=float(reference.calls.sum()) / reference.seconds,
            dbname=_busiest(reference, names[0], [key.database for key in keys]),
            ends_at=ends_at,
        )
        study_of_two = Switchback(
            world, reference, period_s, options.design, options.seed,
            announce=announce, hear=lambda outcome: ending.hear(told_by(outcome), announce),
            guard_rest_s=options.guard_rest_s, most_stops=options.guards.trips,
        )  # fmt: skip
        outcome = study_of_two.run()
        store.be_patient(STORE_PATIENCE_S, announce)
        announce("the server is as it was found")
        return ending.complete(told_by(outcome))


def mark_killed(store: Store) -> None:
    """Call live studies interrupted that no process runs any more: a kill leaves nobody to say so."""
    for study in store.studies():
        dead = study.kind is StudyKind.LIVE and study.state is StudyState.RUNNING
        if dead and runner_of(store, study.id) is None:
            store.update_study(study.id, state=StudyState.INTERRUPTED)


def _checked(
    target: Target, facts: Facts, reader: StatementReader, options: LiveOptions
) -> tuple[Arms, tuple[Override, ...]]:
    """See, before a minute is spent on watching, that the server can be watched and changed, and the arms set."""
    sessions = open_watchable(target.name, facts, reader)
    overrides = read_overrides(target.postgres)[2]
    room = SESSIONS_ROOM * max(1, sessions)
    most = facts.settings.get("max_connections")
    arms = arms_of(options.a, options.b, facts, connections=room if most is None else min(room, int(most.setting)))
    if target.remote is None:
        Opening.refuse_unfit(target, restart=False)
    return arms, overrides


def _watched(reader: StatementReader, reference_s: float, stop: StopFile, announce: Callable[[str], None]) -> Watched:
    def sleep(seconds: float) -> None:
        stop.look()
        time.sleep(seconds)

    try:
        return watch_baseline(reader, reference_s, announce=announce, sleep=sleep)
    except LiveStopped as asked:
        raise OutOfTime(f"{asked.message}, before anything was changed", hint="Remove it to begin anew.") from asked


def _require_calm(others: OthersSettings) -> None:
    """Refuse to compare with a reference of other settings."""
    try:
        others.require_none()
    except LiveStopped as change:
        raise EnvironmentUnsuitable(
            f"{change.message}, while it was watched",
            detail=change.detail,
            hint="Nothing was changed by pgdyno: begin anew when they have finished.",
        ) from change


def _plan(
    target: Target,
    arms: Arms,
    told: LiveResult,
    options: LiveOptions,
    period_s: float,
    left_s: float,
    stop: StopFile,
) -> SwitchPlan:
    pairs_s = options.design.max_pairs * 2 * (period_s + SWITCH_S)
    return SwitchPlan(
        target=target.name,
        arms=arms,
        period_s=period_s,
        left_s=left_s,
        max_pairs=options.design.max_pairs,
        effect=f"{options.design.max_pairs} pairs take {seconds_text(pairs_s)}. {told.title if told.period_s else ''}",
        stop_file=str(stop.path),
        rollback=" ".join(["pgdyno rollback --last", *([target.remote.request.flags] if target.remote else [])]),
        notes=told.notes,
    )


def _load_of(reference: StatementReference, seen: Watched, period_s: float, facts: Facts) -> LiveLoad:
    body = body_of(reference, period_s - wash_of(period_s))
    active = [one.active for one in seen.sessions] or [0]
    p95, p99 = (float(one) for one in np.quantile(active, [0.95, 0.99]))
    cores = facts.host.cores
    calls = float(reference.calls[body.ids].sum()) / reference.seconds
    return LiveLoad(body, calls, p95, p99, cores if isinstance(cores, int) else None)


def _busiest(reference: StatementReference, names: Mapping[int, str], databases: list[int]) -> str:
    """Return the database that most of the statements' time is spent in."""
    spent: dict[int, float] = {}
    for database, time_ms in zip(databases, reference.time_ms.tolist(), strict=True):
        spent[database] = spent.get(database, 0.0) + time_ms
    return names.get(max(spent, key=lambda one: spent[one]), "") if spent else ""


def _with_errors(plan: GuardPlan, seen: Watched) -> GuardPlan:
    """Let guard errors begin above what the reference rolled back, unless the user has set it."""
    if "errors" in plan.limits:
        return plan
    limit = ERRORS_ROOM * _rolled_back(seen.first, seen.last) + ERRORS_MORE
    return replace(plan, limits={**plan.limits, "errors": GuardLimit(max(5.0, min(100.0, limit)))})


def _rolled_back(first: DatabaseTotals, last: DatabaseTotals) -> float:
    rollbacks, commits = last.rollbacks - first.rollbacks, last.commits - first.commits
    return 100 * rollbacks / (rollbacks + commits) if rollbacks > 0 and commits >= 0 else 0.0


def _rejected(told: LiveResult, arms: Arms, period_s: float, options: LiveOptions) -> LiveResult:
    switch = LiveSwitch(
        a=dict(arms.a),
        b=dict(arms.b),
        before=dict(arms.before),
        ending=REJECTED,
        period_s=period_s,
        wash_s=wash_of(period_s),
        seed=options.seed,
        stopped="the plan was rejected, and nothing was changed",
    )
    said = judgement(switch)
    return replace(told, switch=switch, title=said.title, word=said.word)


def _study(request: TargetRequest, target: Target, facts: Facts, options: LiveOptions, began: float) -> Study:
    kept = {
        "metric": Metric.STATEMENT_TIME.value,
        "a": dict(options.a),
        "b": dict(options.b),
        "reference_s": options.reference_s,
        "budget_s": options.budget_s,
        "seed": options.seed,
        "design": asdict(options.design),
        "guards": options.guards.to_json(),
    }
    name = f"live {', '.join(f'{name}={value}' for name, value in options.b.items())}"
    return observed_study(
        StudyKind.LIVE, name, request, target, facts, began=began, seconds=options.reference_s, options=kept
    )


@dataclass(slots=True)
class _Ending:
    """The study in the store, until it has a result."""

    store: Store
    study: Study
    so_far: LiveResult | None = None
    is_complete: bool = False

    def hear(self, result: LiveResult, announce: Callable[[str], None]) -> None:
        """Keep what there is so far, for after a kill, too; a store that refuses has it at the end."""
        self.so_far = result
        try:
            self.store.update_study(self.study.id, result=result)
        except StoreError as refused:
            announce(f"the pairs so far are not in the store yet: {refused.message}")

    def complete(self, result: LiveResult) -> LiveResult:
        """Keep the result, which is what the verb returns, too."""
        self.so_far, self.is_complete = result, True
        return result


@contextmanager
def _kept(store: Store, study: Study, now: float) -> Iterator[_Ending]:
    """Keep the study while it runs, and say at its end, after the server was put back, what became of it."""
    store.add_study(study)
    ending = _Ending(store, study)
    with owning(store, study.id, now, resumes=False):
        try:
            yield ending
        except BaseException as error:
            store.hurry()
            interrupted = isinstance(error, KeyboardInterrupt | EnvironmentUnsuitable | OutOfTime)
            state = StudyState.INTERRUPTED if interrupted else StudyState.FAILED
            store.update_study(study.id, state=state, result=ending.so_far)
            raise
        if ending.is_complete:
            store.update_study(study.id, state=StudyState.COMPLETE, result=ending.so_far)
