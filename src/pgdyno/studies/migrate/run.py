"""One rehearsal from begin to end, or from where a killed one stopped: phases, samples, settings, verdict."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError, UsageError, ended_by
from pgdyno.migration.journal import JournalState, RehearsalJournal
from pgdyno.migration.left_behind import LeftRecord, all_left, without_secrets, write_down
from pgdyno.migration.mover import MovePlace, nobody_halts
from pgdyno.migration.movers.client_program import run_client
from pgdyno.migration.movers.logical import LogicalReplication
from pgdyno.migration.movers.logical_link import link_name
from pgdyno.migration.movers.target_database import end_sessions, is_made
from pgdyno.migration.own_folder import make_folder
from pgdyno.migration.rehearsing import Halt, run_phases
from pgdyno.model.configuration import BASELINE
from pgdyno.model.facts import Facts
from pgdyno.model.guard import GuardPlan
from pgdyno.model.results.migrate import (
    AFTERWARDS,
    SIDE,
    AssessFinding,
    ItemEnd,
    LoadSetting,
    MigrateResult,
    MigrationPhase,
    PhaseTiming,
    ReplayedLoad,
    ValidationResult,
    WayBack,
)
from pgdyno.model.shapes import plain, shaped
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.owner.signals import signals_interrupt
from pgdyno.probes.sampler import Sampler
from pgdyno.server import places
from pgdyno.server.database_use import DatabaseUse
from pgdyno.store.catalogue import Store
from pgdyno.studies.migrate.forecast import full_size, rehearsals_before
from pgdyno.studies.migrate.prepare import PreparedMove
from pgdyno.studies.migrate.replaying import replay_on_target, replay_phase
from pgdyno.studies.migrate.timing import item_timings, judged_phases, outage_of, phase_timings, total_of
from pgdyno.studies.migrate.words import continue_text
from pgdyno.studies.migrate.works import LoadSettings, shown, works_of
from pgdyno.studies.session.guarding import guarded, halting
from pgdyno.studies.session.new_study import observed_study
from pgdyno.studies.session.ownership import owning
from pgdyno.studies.session.study_session import begin_session, put_back_abandoned
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.target import Target
from pgdyno.undo.watch import Deadlines

T = TypeVar("T")
Announce = Callable[[str], None]
_LEAVE_S = 60.0
_NOTICED_S = 10.0
_LEEWAY_S = 600.0


def run_rehearsal(
    store: Store,
    prepared: PreparedMove,
    facts: tuple[Facts, Facts],
    request: TargetRequest,
    *,
    guards: GuardPlan,
    announce: Announce,
) -> MigrateResult:
    """Rehearse the `prepared` migration as a study in `store`; what was done until then is kept whatever ends it.

    Remakes the target's database, reverts its settings, deletes the dump; only reads the source, but for what the mover
    announced. `facts` are of source and target; `request` names the target, `guards` watch it; `announce` takes lines.
    """
    plan, options = prepared.plan, prepared.options
    began = time.time()
    study = _study(store, prepared, facts[1], request, began)
    with signals_interrupt(), owning(store, study.id, began, resumes=options.resume is not None) as row:
        if options.resume is not None:
            store.abandon_running(study.id)
            store.update_study(study.id, state=StudyState.RUNNING)
        row.put(phase="running", place=plan.mover)
        try:
            result = _Rehearsal(store, study, prepared, facts, request, guards, announce).run()
        except BaseException as error:
            store.abandon_running(study.id)
            stopped = not isinstance(error, PgdynoError) or isinstance(error, EnvironmentUnsuitable)
            state = StudyState.INTERRUPTED if stopped else StudyState.FAILED
            store.update_study(study.id, state=state, ended=ended_by(error))
            announce(continue_text(options.path, study.id))
            raise
        result = replace(result, elapsed_s=time.time() - began)
        if plan.full_bytes is not None and result.total_s is not None:
            result = replace(result, forecast=full_size(store, result, plan.full_bytes))
        is_open = bool(result.ended)
        state = StudyState.INTERRUPTED if is_open else StudyState.COMPLETE
        store.update_study(study.id, state=state, result=result, ended=result.ended)
        if is_open:
            announce(f"ended: {result.ended}")
            announce(continue_text(options.path, study.id))
    return result


def _study(store: Store, prepared: PreparedMove, facts: Facts, request: TargetRequest, began: float) -> Study:
    plan, options = prepared.plan, prepared.options
    asked = {"file": str(options.path), "seal": plan.seal, "fingerprint": plan.fingerprint, "jobs": options.jobs,
             "window_s": options.window_s}  # fmt: skip
    if options.resume is not None:
        study = store.study(options.resume)
        if study.kind is not StudyKind.MIGRATE or study.asked.get("seal") != plan.seal:
            raise UsageError(
                f'study "{study.id}" is not a rehearsal of this plan as it is now',
                hint="Restore the plan as it was, or start a new rehearsal without --resume.",
            )
        return study
    target = prepared.place.target.target
    study = observed_study(
        StudyKind.MIGRATE, plan.name, request, target, facts, began=began, seconds=options.max_seconds, options=asked
    )
    load = WorkloadSpec("migrate", {}, plan.fingerprint, f"migration {plan.name}", read_only=False, unit="items")
    study = replace(study, workload=load, plan=LoadPlan(options.jobs, 1, warmup_s=0.0, measure_s=options.max_seconds))
    store.add_study(study)
    return study


@dataclass(slots=True)
class _Rehearsal:
    store: Store
    study: Study
    prepared: PreparedMove
    facts: tuple[Facts, Facts]
    request: TargetRequest
    guards: GuardPlan
    announce: Announce

    def run(self) -> MigrateResult:
        """Run the phases in what they need, and put all back."""
        prepared, plan = self.prepared, self.prepared.plan
        target = prepared.place.target.target
        with ExitStack() as stack:
            breach = stack.enter_context(guarded(target, self.guards, prepared.options.jobs, self.announce))
            halt = Halt(halting(prepared.options.max_seconds, prepared.options.stop_file, breach))
            ends = time.monotonic() + prepared.options.max_seconds
            place = replace(
                prepared.place,
                folder=make_folder(Path(plan.folder), self.study.id, prepared.place.account),
                tag=f"pgdyno migrate {self.study.id}"[:63],
                halt=halt,
                tell=self.announce,
            )
            require_alone(stack.enter_context(DatabaseUse(place.target.server)), place)
            _end_left(place)
            take_left_away(self.announce)
            link = link_name(place.tag) if plan.mover == LogicalReplication.name else ""
            record = LeftRecord(
                study=self.study.id, folder=str(place.folder), link=link,
                source=without_secrets(place.source.postgres), target=without_secrets(place.target.postgres),
            )  # fmt: skip
            path = write_down(record)
            stack.callback(_strike_out, record, path)
            prepared.mover.tidy(place)
            stack.callback(prepared.mover.tidy, place)
            load = self._load(stack)
            journal = RehearsalJournal(places.ensure(places.ensure(places.state_dir() / "migrations") / self.study.id))
            stack.callback(journal.close)
            require_begun_here(journal.state, place)

            def keep(name: str, value: object) -> None:
                journal.note(name, plain(value))

            phases = [one.phase for one in prepared.mover.steps(plan.options)]
            works = works_of(prepared.mover, phases, place, load, keep, journal.state.notes)
            began_at = time.time() - journal.elapsed_s
            with _sampled(self.store, self.study, place) as samplers:
                ended = run_phases(
                    tuple(one for one in prepared.steps if one.phase is not MigrationPhase.REPLAY), works, journal,
                    halt=halt, interrupt=halt.interrupted.set, sleep=time.sleep, tell=self.announce,
                )  # fmt: skip
            if not ended and plan.replay is not None:
                replay_phase(journal, lambda: self._replay(ends, journal), self.announce)
            rows = {side: (one.rows(), place_side.target.local) for (side, one), place_side in
                    zip(samplers.items(), (place.source, place.target), strict=True)}  # fmt: skip
            outage = prepared.mover.outage_s(place)
            timings = judged_phases(
                phase_timings(plan, prepared.steps, journal.state, prepared.options.jobs), rows, began_at
            )
            result = self._result(place, journal, timings, ended, outage)
            if not ended:
                prepared.mover.tidy(place)  # before files of a server are deleted
                remove_dump(place, prepared.mover.keeps(plan.options))
        return result if load is None else replace(result, settings=_settings(journal, load))

    def _replay(self, ends: float, journal: RehearsalJournal) -> ReplayedLoad:
        return replay_on_target(
            self.store, self.prepared, self.request, study=self.study.id, guards=self.guards,
            source_identifier=str(self.facts[0].server.system_identifier), left_s=ends - time.monotonic(),
            announce=self.announce, tick=journal.tick,
        )  # fmt: skip

    def _load(self, stack: ExitStack) -> LoadSettings | None:
        plan, target = self.prepared.plan, self.prepared.place.target.target
        undo_root = places.ensure(places.state_dir() / "undo")
        put_back_abandoned(target, undo_root, self.announce, may_change=True)
        settings = self.prepared.load
        if not settings:
            return None
        kernel = [*settings.linux()]
        session = stack.enter_context(begin_session(target, self.study.id, undo_root, kernel, Deadlines()))
        session.expect("a migration", self.prepared.options.max_seconds + _LEEWAY_S)
        return LoadSettings(session, target, settings, plan.load_restart)

    def _result(
        self,
        place: MovePlace,
        journal: RehearsalJournal,
        timings: tuple[PhaseTiming, ...],
        ended: str,
        outage: float | None,
    ) -> MigrateResult:
        prepared, plan, state = self.prepared, self.prepared.plan, journal.state
        source, target = place.source, place.target
        total = None if ended else total_of(timings)
        planned = [
            one.planned_s for phase, one in plan.phases.items() if phase not in AFTERWARDS and one.planned_s is not None
        ]
        size = None
        if total is not None:
            with suppress(PgdynoError):
                query = "SELECT pg_catalog.pg_database_size(pg_catalog.current_database()) AS bytes"
                size = int(str(prepared.mover.validated(place).postgres.fetch(query)[0]["bytes"]))
        before = rehearsals_before(self.store, self.study, plan.fingerprint)
        found = state.notes.get("assessment")
        return MigrateResult(
            study=self.study.id,
            environment=self.study.environment,
            plan=plan.name,
            fingerprint=plan.fingerprint,
            mover=plan.mover,
            source=source.target.name,
            source_version=str(source.major),
            target_version=str(target.major),
            database=plan.database,
            jobs=prepared.options.jobs,
            number=len(before) + 1,
            began_at=self.study.created_at,
            window_s=prepared.options.window_s,
            planned_s=sum(planned) if planned else None,
            total_s=total,
            outage_s=outage_of(outage, timings, total),
            paused_s=state.paused_s,
            attempts=state.attempts,
            source_bytes=prepared.source_bytes,
            target_bytes=size,
            rows=next((one.rows for one in timings if one.phase is MigrationPhase.IMPORT), None),
            phases=timings,
            items=item_timings(state),
            assessment=tuple(shaped(AssessFinding, one, "journal") for one in found) if isinstance(found, list) else (),
            validation=_kept(ValidationResult, state.notes.get("validation")),
            settings=_load_settings(state.notes),
            way_back=prepared.announcement.way_back,
            back=_kept(WayBack, state.notes.get("back")),
            replay=_kept(ReplayedLoad, state.notes.get("replay")),
            earlier=before,
            ended=ended,
        )


def take_left_away(announce: Announce) -> None:
    """Take away what killed rehearsals left on servers and of servers; what cannot go stays, and is told."""
    for record, path in all_left():
        if record.is_running:
            continue
        try:
            for one in record.found():
                announce(f"left by rehearsal {record.study}, which was killed, and removed: {one}")
            record.take_away()
            path.unlink(missing_ok=True)
        except PgdynoError as error:
            announce(f"rehearsal {record.study} was killed, and may have left something: {error.one_line}")


def _strike_out(record: LeftRecord, path: Path) -> None:
    """Forget a rehearsal of which nothing is left; of another one the note stays for whoever comes next."""
    with suppress(PgdynoError):
        if not record.found():
            path.unlink(missing_ok=True)


def _settings(journal: RehearsalJournal, load: LoadSettings) -> tuple[LoadSetting, ...]:
    """Return the settings as they stand now that the session is over: the server is asked once more."""
    now: Mapping[str, str] = {}
    with suppress(PgdynoError):  # it may be what ended the rehearsal
        now = shown(load.target, [*load.settings])
    return tuple(replace(one, after=now.get(one.name, one.after)) for one in _load_settings(journal.state.notes))


def _load_settings(notes: dict[str, object]) -> tuple[LoadSetting, ...]:
    before, during, after = (notes.get(key) for key in ("before", "during", "after"))
    if not isinstance(before, dict) or not isinstance(during, dict):
        return ()
    known = after if isinstance(after, dict) else {}
    return tuple(
        LoadSetting(name=name, before=str(value), during=str(during.get(name, "")), after=known.get(name))
        for name, value in before.items()
    )


def _kept(kind: type[T], found: object) -> T | None:
    return shaped(kind, found, "journal") if isinstance(found, dict) else None


def remove_dump(place: MovePlace, but: str = "") -> None:
    """Delete what is no longer needed, with its copy; what cannot be deleted stays, and nothing fails for it."""
    if "transfer_to" in place.options:
        copy = Path(place.options["transfer_to"]) / place.folder.name
        with suppress(PgdynoError, OSError):  # by the account that made it
            argv = ["rm", "-rf", "--", str(copy)]
            run_client(replace(place, halt=nobody_halts), argv, {}, "rm")
    if not but:
        shutil.rmtree(place.folder, ignore_errors=True)
        return
    for one in place.folder.iterdir():
        if one.name != but and one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, ignore_errors=True)
        elif one.name != but:
            with suppress(OSError):
                one.unlink()


def require_alone(use: DatabaseUse, place: MovePlace, *, sleep: Callable[[float], None] = time.sleep) -> None:
    """Use the target's database from now on. Raises EnvironmentUnsuitable where another process does, too.

    It would be dropped in the middle of another rehearsal, whose database every rehearsal may replace. What a killed
    one holds the server lets go when it notices.
    """
    name, waited_s = place.target.database, 0.0
    is_shared = use.use(name)
    while is_shared and waited_s < _NOTICED_S:
        sleep(0.2)
        waited_s += 0.2
        is_shared = use.is_used(name)
    if is_shared:
        raise EnvironmentUnsuitable(
            f'database "{name}" of {place.target.target.name} is in use by another pgdyno',
            hint="Wait until it ends, or name another target_database in the plan.",
        )


def require_begun_here(state: JournalState, place: MovePlace) -> None:
    """Raise EnvironmentUnsuitable where the database that the journal tells of is not on this target."""
    made = state.items.get((MigrationPhase.STRUCTURES, "database"))
    if made is not None and made.end is ItemEnd.DONE and not is_made(place):
        raise EnvironmentUnsuitable(
            f'{place.target.target.name} has no database "{place.target.database}" that this rehearsal made',
            hint="Continue with the target that it was started on, or start a new rehearsal without --resume.",
        )


def _end_left(place: MovePlace) -> None:
    """End sessions that a killed run has left, and wait until none works on: what it had begun is done or not then."""
    sides = {"source": place.source, "target": place.target}
    deadline = time.monotonic() + _LEAVE_S
    while end_sessions(sides, place.tag):
        if time.monotonic() > deadline:
            raise EnvironmentUnsuitable(
                f'sessions called "{place.tag}" do not end', hint="They belong to a run that was killed: end them."
            )
        time.sleep(0.2)


@contextmanager
def _sampled(store: Store, study: Study, place: MovePlace) -> Iterator[dict[str, Sampler]]:
    """Sample both servers meanwhile, each as a run of the study."""
    sides: dict[str, Target] = {"source": place.source.target, "target": place.target.target}
    runs = {
        side: store.begin_trial(study.id, TrialSpec(BASELINE, Role.ARM, "migrate", 1, 0, factors={SIDE: side}))
        for side in sides
    }
    samplers = {
        side: Sampler(
            target, load_database=(place.source if side == "source" else place.target).database,
            driver_pids=lambda: (), folder=places.ensure(places.state_dir() / "migrations"),
        )
        for side, target in sides.items()
    }  # fmt: skip
    began = time.time()
    with ExitStack() as stack:
        for one in samplers.values():
            stack.enter_context(one)
        yield samplers
    for side, one in samplers.items():
        store.add_samples(runs[side], one.rows())
        store.finish_trial(runs[side], Outcome(TrialState.COMPLETE, began_at=began, ended_at=time.time()))
