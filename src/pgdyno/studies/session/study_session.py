"""The session of a study: opens what a study needs, and puts all of it back however the study ends.

What is opened in order is closed in the reverse order, and both are read together.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.control.restart_budget import RestartBudget
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.environment import same_environment
from pgdyno.model.facts import Facts
from pgdyno.model.guard import GuardPlan
from pgdyno.model.job import JOB
from pgdyno.model.linux import is_linux_knob
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.shapes import inner
from pgdyno.model.study import Study, StudyKind, StudyState, metric_asked
from pgdyno.model.trial import LoadPlan, WorkloadSpec
from pgdyno.model.verdict import Metric
from pgdyno.owner.signals import signals_interrupt
from pgdyno.probes.guards.reader import GuardReader
from pgdyno.server import places
from pgdyno.server.outage import Outage
from pgdyno.store.catalogue import Store
from pgdyno.studies.kinds import kind_of
from pgdyno.studies.session.company_look import FirstLook, looker
from pgdyno.studies.session.environment_change import (
    environment_changes,
    facts_image,
    other_server,
    settings_changes,
)
from pgdyno.studies.session.marked_end import MarkedEnd, told_end
from pgdyno.studies.session.new_study import study_id, version_option
from pgdyno.studies.session.opening import opened as opened  # for verbs that import it from here
from pgdyno.studies.session.outages import expected_outage
from pgdyno.studies.session.own_jobs import check_begun, keep_begun
from pgdyno.studies.session.ownership import owning
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.trace.engine.plan import Clock
from pgdyno.trial.assess import Bounds
from pgdyno.trial.laboratory import Laboratory
from pgdyno.trial.live_recorder import LiveRecorder
from pgdyno.trial.sentry import Sentry
from pgdyno.trial.stopwatch import Stopwatch
from pgdyno.trial.watcher import Watcher
from pgdyno.undo.applied import When
from pgdyno.undo.apply import Session
from pgdyno.undo.one_session import refuse_while_open
from pgdyno.undo.opening import Opening
from pgdyno.undo.rollback import SessionState, is_of, list_bundles, rollback
from pgdyno.undo.session import ServerSession
from pgdyno.undo.watch import Deadlines
from pgdyno.workloads.registry import check_driving, make_workload
from pgdyno.workloads.sized import SizedWorkload
from pgdyno.workloads.study_data import StudyData
from pgdyno.workloads.template import require_createdb
from pgdyno.workloads.working_set import SizedClass, sized, without_class

OWN_SESSIONS = 6
"""Sessions that a study opens beside the load's: probes, reset, read-back, locks; as many as are reserved."""


STORE_PATIENCE_S = 3600.0
"""How long a study without a time budget waits for a store that another process has locked."""
STORE_LEEWAY_S = 300.0
"""What a study may still do after such a wait before its watchdog takes it for hung."""


@dataclass(frozen=True, slots=True)
class StudyRequest:
    """What a verb asks for. `changes` is False for a study that leaves the server as it is."""

    kind: StudyKind
    name: str
    target: TargetRequest
    workload: str
    parameters: Mapping[str, str | int | float | bool]
    plan: LoadPlan
    options: Mapping[str, object]
    bounds: Bounds = field(default_factory=Bounds)
    changes: bool = True
    restart: When = "always"
    budget: RestartBudget | None = None
    resume: str | None = None
    other_environment: bool = False
    """A study with steps that people do may be resumed in an environment that they have changed."""
    watch: Deadlines = field(default_factory=Deadlines)
    stopwatch: Stopwatch | None = None
    """Counts the study's time where that has a budget."""
    guards: GuardPlan = field(default_factory=GuardPlan)
    kernel: Callable[[Target, Facts, WorkloadSpec], Sequence[str]] | None = None
    """Names the Linux knobs that the study's configurations may hold; they are taken down before the first change."""
    check: Callable[[Target, Facts, WorkloadSpec, Outage | None], None] | None = None
    """Refuses what cannot be done on this target and asks its owner, before anything is changed or loaded.

    It is told how long a restart is expected to take: None for a sandbox, and where nothing is changed.
    """


@dataclass
class StudySession:
    """An open session: the study with its laboratory, and the session that will restore the server."""

    store: Store
    target: Target
    facts: Facts
    study: Study
    laboratory: Laboratory
    session: ServerSession | None
    data: StudyData
    outage: Outage | None = None
    """How long a restart was expected to take."""

    def finish(self, result: StudyResult) -> None:
        """Keep the result, and call the study complete or failed as that says."""
        state = StudyState.FAILED if result.is_failed else StudyState.COMPLETE
        self.store.update_study(self.study.id, state=state, result=result)


@contextmanager
def open_study(
    request: StudyRequest,
    store: Store,
    watcher: Watcher,
    announce: Callable[[str], None],
    clock: Callable[[], float] = time.time,
) -> Iterator[StudySession]:
    """Open the target, load the data, begin the undo session and yield the session of the study.

    The study that `request` asks for, a new one or one to resume, is kept in `store`. `watcher` hears each step of a
    trial, `announce` takes sentences for people, and `clock` returns seconds since the epoch. Whatever happens inside,
    an error or SIGINT, SIGTERM or SIGHUP included, the server is restored and the study is marked: INTERRUPTED where it
    can be resumed, FAILED where it cannot. Raises what the parts raise.
    """
    # A parameter out of its range is refused before a server is asked or a sandbox made.
    asked = make_workload(request.workload, without_class(request.parameters))
    check_driving(request.parameters, request.plan)
    request = replace(request, plan=asked.planned(request.plan))
    check_metric(request, asked.spec())
    with ExitStack() as stack:
        stack.enter_context(signals_interrupt())
        if request.resume is not None:
            row = stack.enter_context(owning(store, request.resume, clock(), resumes=True, clock=clock))
        target = stack.enter_context(opened(request.target))
        undo_root = places.ensure(places.state_dir() / "undo")
        put_back_abandoned(target, undo_root, announce, may_change=request.changes)
        facts = read_facts(target)
        _refuse_unchangeable(request, target, facts)
        require_createdb(target.postgres)
        parameters, working_set = sized(request.parameters, facts)
        if working_set is not None:
            announce(str(working_set))
        workload = make_workload(request.workload, parameters)
        outage = expected_outage(target, store) if request.changes and not target.disposable else None
        # All that can refuse the server does so before its owner is asked.
        if request.changes and target.remote is None:
            Opening.refuse_unfit(target, restart=request.restart == "always")
        if request.resume is not None:
            begun = store.study(request.resume)
            _refuse_other(begun, facts, workload.spec(), other_environment=request.other_environment)
        if request.check is not None:
            request.check(target, facts, workload.spec(), outage)
        first_look = FirstLook(target)
        began = clock()  # loading is work of ours, too
        sentry = Sentry(GuardReader(target), request.guards, clock=clock)
        sentry.look_early()
        data = stack.enter_context(StudyData(target, keep=request.target.keep_data, announce=announce))
        data.make_ready(workload, facts, policy=request.plan.reset)
        study = _study(request, store, target, facts, workload.spec(), began, working_set)
        if request.resume is None:
            row = stack.enter_context(owning(store, study.id, clock(), resumes=False, clock=clock))
        ending = stack.enter_context(MarkedEnd(store, study, announce))
        session: ServerSession | None = None
        if request.changes:
            kernel = request.kernel(target, facts, workload.spec()) if request.kernel else ()
            session = stack.enter_context(begin_session(target, study.id, undo_root, kernel, request.watch))
        kind = kind_of(request.kind)
        first_look.tell(request.bounds, announce, beside_others=kind.beside_others)
        patience_s = _patience_s(request)
        store.be_patient(patience_s, lambda text: _tell_waiting(text, patience_s, session, announce))
        laboratory = Laboratory(
            study=study,
            target=target,
            workload=SizedWorkload(workload) if kind.sizes_data else workload,
            store=store,
            facts=facts,
            session=session,
            watcher=LiveRecorder(watcher, row),
            folder=places.ensure(places.state_dir() / "runs") / study.id,
            bounds=request.bounds,
            restart=request.restart,
            budget=request.budget,
            stopwatch=request.stopwatch,
            sentry=sentry,
            look=looker(target, request.bounds),
            uses_beside=kind.beside_others,
            are_alike=kind.are_alike,
            clock=clock,
        )
        with told_end(ending, kind.resumed_by, session, announce):
            yield StudySession(store, target, facts, study, laboratory, session, data, outage)


def _refuse_unchangeable(request: StudyRequest, target: Target, facts: Facts) -> None:
    """Refuse a server that cannot be changed as the study will, or that does not take its load."""
    if facts.server.in_recovery:
        raise EnvironmentUnsuitable(
            f"{target.name} is a standby",
            detail="A study makes databases for its load, which a server in recovery cannot.",
            hint="Run studies on the primary, or on a sandbox without --target.",
        )
    if request.changes and request.restart == "always" and target.control is None:
        raise EnvironmentUnsuitable(
            f"pgdyno does not know how to restart {target.name}",
            detail=f"Seen: {target.no_control}." if target.no_control else None,
            hint='Give --restart-command "ARGV ...", or --reload-only to leave restart knobs alone.',
        )
    _require_room(target, facts, request.plan)


def check_metric(request: StudyRequest, load: WorkloadSpec) -> None:
    """Refuse to compare what an open loop has fixed: whoever keeps up with its rate has the same throughput."""
    rate, is_scheduled = request.plan.rate, load.clock == Clock.SCHEDULE
    if (rate is None and not is_scheduled) or not kind_of(request.kind).compares or request.resume is not None:
        return
    if metric_asked(request.kind, request.options) is Metric.THROUGHPUT:
        fixing, without = ("its schedule", "-D clock=think") if rate is None else (f"--rate {rate:g}", "no --rate")
        raise UsageError(
            f"{fixing} fixes the throughput, which is the metric",
            detail="Every configuration that keeps up with it has the same throughput.",
            hint=f"Judge by latency with --metric latency_p99, by server_cpu_ms_per_tx, or take {without}.",
        )


def linux_knobs(*configurations: Iterable[str]) -> tuple[str, ...]:
    """Return the Linux knobs among the names of these configurations, each once."""
    return tuple(sorted({name for names in configurations for name in names if is_linux_knob(name)}))


def _require_room(target: Target, facts: Facts, plan: LoadPlan) -> None:
    """Refuse more sessions than the server lets in, before data are loaded for them."""
    setting = facts.settings.get("max_connections")
    if setting is None:
        return
    most = int(setting.setting) - OWN_SESSIONS
    if plan.connections > most:
        raise UsageError(
            f"{plan.connections} clients do not fit into max_connections = {setting.setting} of {target.name}",
            detail=f"pgdyno itself and the reserved sessions need {OWN_SESSIONS}.",
            hint=f"Use --clients {most} or fewer.",
        )


def put_back_abandoned(target: Target, undo_root: Path, announce: Callable[[str], None], *, may_change: bool) -> None:
    """Restore the server where a killed session left it changed, before its facts are taken for the baseline.

    `undo_root` is the folder of the undo bundles on this host, of which those of `target` count; where the target is on
    another host, its agent looks at the bundles there as well. `announce` takes a sentence before a session is
    restored. Raises EnvironmentUnsuitable where that is needed and `may_change` is False, and while a session of
    anybody is open on it: data that are loaded, and a load, would reach into its measurement, and ours would be of its
    configuration.
    """
    if target.remote is not None:
        target.remote.undo_abandoned(announce, may_change=may_change)
    for info in list_bundles(undo_root):
        if info.bundle is None or info.state is not SessionState.ABANDONED or not is_of(info.bundle.manifest, target):
            continue
        if not may_change:
            raise EnvironmentUnsuitable(
                f"{target.name} is still in a configuration of session {info.directory.name}, which was killed",
                hint=f"Run pgdyno rollback {info.directory.name} first.",
            )
        announce(f"restoring what session {info.directory.name} had changed when it was killed")
        rollback(info.bundle)
    if target.remote is None:
        refuse_while_open(target, undo_root)


def begin_session(
    target: Target, study: str, undo_root: Path, kernel: Sequence[str], watch: Deadlines
) -> ServerSession:
    """Begin a session where the server of `target` is: here, or by the agent on its host.

    `study` is the id that the undo bundle notes, of a study or of what else changes the server. The bundle is made in
    `undo_root`, or where the agent keeps its own. `kernel` names the Linux knobs that the session's configurations may
    hold, and `watch` has the watchdog's deadlines in seconds.
    """
    if target.remote is not None:
        return target.remote.begin(study=study, kernel=kernel, watch=watch)
    return Session.begin(target, study=study, undo_root=undo_root, kernel=kernel, watch=watch)


def _patience_s(request: StudyRequest) -> float:
    """Return how long the study waits for a store that another process has locked: as long as its own budget."""
    budget_s = inner(request.options, request.kind.value).get("budget_s")
    return float(budget_s) if isinstance(budget_s, int | float) else STORE_PATIENCE_S


def _tell_waiting(text: str, patience_s: float, session: ServerSession | None, announce: Callable[[str], None]) -> None:
    """Say that the study waits, to people and to the watchdog: nothing hangs, and the server stays as it is."""
    if session is not None:
        session.expect("wait for the store", patience_s + STORE_LEEWAY_S)
    announce(text)


def _study(
    request: StudyRequest,
    store: Store,
    target: Target,
    facts: Facts,
    workload: WorkloadSpec,
    now: float,
    working_set: SizedClass | None,
) -> Study:
    if request.resume is not None:
        store.abandon_running(request.resume)
        store.update_study(request.resume, state=StudyState.RUNNING)
        return store.study(request.resume)
    # The parameters have the rows that a class came to on this server; what was asked for stands beside them.
    asked = {} if working_set is None else {"working_set": str(working_set)}
    study = Study(
        id=study_id(request.kind, now),
        kind=request.kind,
        name=request.name,
        state=StudyState.RUNNING,
        created_at=now,
        target=target.name,
        environment=facts.environment_hash(),
        facts=facts_image(facts),
        workload=workload,
        plan=request.plan,
        options={**request.options, **asked, **job_option(), **version_option()},
    )
    keep_begun(study)
    store.add_study(study)
    return study


def job_option() -> dict[str, object]:
    """Return the option that names the job of the queue that this process runs, nothing outside of a night run."""
    job = os.environ.get(JOB)
    return {} if job is None else {"job": int(job)}


def _refuse_other(study: Study, facts: Facts, workload: WorkloadSpec, *, other_environment: bool) -> None:
    """Refuse to go on with a study in another environment than it was begun in, before any data are loaded for it."""
    check_begun(study)
    if not other_environment and not same_environment(study.environment, here := facts.environment_hash()):
        raise EnvironmentUnsuitable(
            f"study {study.id} was begun in environment {study.environment}, this is {here}",
            detail=environment_changes(study.facts, facts_image(facts)),
            hint="Begin a new study: trials of different environments do not compare.",
        )
    if not other_environment and (differs := other_server(study.facts, facts_image(facts))):
        raise EnvironmentUnsuitable(
            f"study {study.id} was begun on another server",
            detail=f"{'; '.join(differs)}.",
            hint="Name the server that it was begun on, or begin a new study.",
        )
    if not other_environment and (changed := settings_changes(study.facts, facts)):
        raise EnvironmentUnsuitable(
            f"settings of {study.target} are not those that study {study.id} was begun with",
            detail=changed,
            hint="Put them back as they were, or begin a new study: runs with other settings do not compare.",
        )
    if study.workload.fingerprint != workload.fingerprint:
        raise UsageError(
            f"the workload of study {study.id} is not the one that it was begun with",
            detail="Its scripts or its data script have changed since.",
            hint="Put them back as they were, or begin a new study.",
        )
