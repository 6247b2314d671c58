"""One replay: prove the target, make the tape, send it, say how it was kept. The server's settings are not touched."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdyno.contents.comparing import compare_contents
from pgdyno.errors import EnvironmentUnsuitable, GuardTripped, PgdynoError, ended_by
from pgdyno.model.facts import Facts
from pgdyno.model.replay_comparison import Limits
from pgdyno.model.results.parts.contents import ContentsComparison
from pgdyno.model.results.replay import GUARD, ReplayResult
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import WorkloadSpec
from pgdyno.owner.signals import signals_interrupt
from pgdyno.probes.guards.reader import GuardReader
from pgdyno.replay.captured import Asked, Taped, asked_of, write_tape
from pgdyno.replay.foreign_tables import require_no_foreign_tables
from pgdyno.replay.restore import StateBack
from pgdyno.replay.target_facts import (
    end_point_of,
    identify,
    passwords_of,
    require_another,
    require_room,
    room_of,
)
from pgdyno.replay.warming import warm
from pgdyno.server.postgres import Postgres
from pgdyno.store.catalogue import Store
from pgdyno.studies.replay.board import SENDING, LatestAnswers, ReplayProgress, due_by_tenth
from pgdyno.studies.replay.options import ReplayOptions
from pgdyno.studies.replay.result import result_of
from pgdyno.studies.replay.words import ANALYSE, INJECT, PREPARE, TUNE
from pgdyno.studies.session.new_study import observed_study
from pgdyno.studies.session.ownership import owning
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.accounts import load_account
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.trace.engine.plan import EnginePlan, Login
from pgdyno.trace.engine.tally import RunTally
from pgdyno.trace.engines import choose_engine, run_engines
from pgdyno.trace.outcome_file import OUTCOME_VERSION, TAPE, OutcomeFacts, OutcomeWriter
from pgdyno.trace.parquet import connection, read_meta, trace_source
from pgdyno.trace.schema import TraceMeta
from pgdyno.trace.whole import require_own_file, require_replayable
from pgdyno.trial.live_row import LiveRow
from pgdyno.trial.sentry import GuardBreached, Sentry, off_text
from pgdyno.units import agreeing, plural, seconds_text

_PART_S = 5.0
_MANY = 50_000
"""Records of an engine that make a part worth writing."""


@dataclass(slots=True)
class Steps:
    """How long each step took."""

    seconds: dict[str, float] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    def end(self, name: str) -> None:
        """Note that a step has ended, and the next begins."""
        now = time.monotonic()
        self.seconds[name], self._began = now - self._began, now


@dataclass(frozen=True, slots=True)
class Ready:
    """A replay whose target is proved and has room; nothing was sent."""

    target: Target
    facts: Facts
    meta: TraceMeta
    asked: Asked
    plan: EnginePlan
    program: tuple[str, ...]
    engine: str
    """Which engine it is, and why."""
    unknown: tuple[str, ...]
    """Roles without a password here, of which nothing is wrong where the server asks for none."""

    @property
    def stood_for(self) -> tuple[str, ...]:
        """Return the roles whose sessions a stand-in opens, who then takes them on."""
        stand_in = self.plan.login.stand_in
        return () if stand_in is None else tuple(one for one in self.unknown if one != stand_in)

    @property
    def seconds(self) -> float:
        """Return how long the schedule takes at the plan's speed."""
        return self.asked.last_due_us / 1e6 / self.plan.speed


def whole_meta(trace: Path) -> TraceMeta:
    """Return the facts of a trace that can be replayed. Raises UsageError where it is damaged, masked or a sample."""
    meta = read_meta(trace)
    with connection() as db, trace_source(trace, db):
        require_own_file(trace, meta)  # its columns are a trace's
    require_replayable(trace, meta)
    return meta


def prepare(target: Target, options: ReplayOptions) -> Ready:
    """Return a replay that may begin. Reads only; raises an error that names what is in the way."""
    meta = whole_meta(options.trace)
    facts = read_facts(target)
    require_another(identify(target, facts), meta.system_identifier or options.source_identifier)
    asked = asked_of(options.trace)
    users = tuple(dict.fromkeys(options.users.get(one, one) for one in asked.users))
    databases = tuple(dict.fromkeys(options.databases.get(one, one) for one in asked.databases))
    require_room(room_of(target), target.name, users, databases, asked.most_sessions)
    own = {one: options.databases.get(one, one) for one in asked.databases}
    require_no_foreign_tables(options.trace, target.postgres, target.name, own)
    end_point = end_point_of(target)
    passwords = passwords_of(target, end_point, [*users, *([options.stand_in] if options.stand_in else [])], databases)
    account = load_account(target)
    plan = EnginePlan(
        tape=-1,
        records=-1,
        end_point=end_point,
        login=Login(passwords, options.stand_in),
        speed=options.speed,
        clock=options.clock,
        users=dict(options.users),
        databases=dict(options.databases),
        settings=dict(options.settings),
        account="" if account is None else account.numbers,
    )
    for expected, found in _databases(target, asked, options):
        for server in (expected, found):
            server.connect().close()
    schedule_s = asked.last_due_us / 1e6 / options.speed
    plan = replace(plan, max_seconds=options.max_seconds or 2 * schedule_s + 60)
    program, engine = choose_engine(plan, asked=options.engine)
    return Ready(target, facts, meta, asked, plan, program, engine, tuple(one for one in users if one not in passwords))


def replay(
    store: Store,
    ready: Ready,
    request: TargetRequest,
    options: ReplayOptions,
    *,
    announce: Callable[[str], None],
    tell: Callable[[RunTally], None],
    restored: StateBack | None = None,
    follows: bool = False,
) -> ReplayResult:
    """Send the trace and return what came of it; the outcome's folder and the study are there whatever ends it.

    Side effects on the target: whatever the captured statements do. `ready` is what `prepare` made of `options`;
    `request`, how the target was asked for, is kept with the study in `store`. `announce` takes lines of progress, and
    `tell` is given the sum so far about five times a second. `restored` is what brought the target's state back before,
    None where nothing did. `follows` says that we ran the one before it on this target: nobody has tuned anything in
    between. A signal ends the sessions, and the study is interrupted.
    """
    began = time.time()
    study = observed_study(
        StudyKind.REPLAY, options.trace.stem, request, ready.target, ready.facts, began=began, seconds=ready.seconds,
        options={
            "trace": str(options.trace.absolute()), "trace_digest": ready.meta.digest,
            "output": str(options.output.absolute()),
            "speed": options.speed, "clock": options.clock.value, "order": options.order.value,
            "error_limit_percent": options.error_limit_percent,
        },
    )  # fmt: skip
    load = WorkloadSpec(
        "replay", {}, ready.meta.digest, f"trace {options.trace.stem}", read_only=False, unit="statements"
    )
    study = replace(study, workload=load)
    steps = Steps({} if follows else _since_last(store, ready, began))
    limits = Limits(error_percent=options.error_limit_percent)
    writer = OutcomeWriter(options.output, _facts_of(ready, options, study))
    store.add_study(study)
    with signals_interrupt(), owning(store, study.id, began, resumes=False) as row:
        try:
            tape = options.output / TAPE
            try:
                row.phase("warming shared buffers")
                warmed = warm(ready.target.postgres, ready.meta, options.databases)
                announce(f"shared buffers: {warmed}")
                row.phase("making the tape")
                announce(f"making the tape of {ready.meta.statements:,} statements")
                taped = _taped(options, tape, announce)
                steps.end(PREPARE)
                announce(
                    f"sending {plural(taped.statements, 'statement')} of {ready.meta.sessions:,} sessions "
                    f"in {seconds_text(ready.seconds)}"
                )
                row.phase(SENDING)
                with tape.open("rb") as file:
                    tape.unlink()  # it holds what users typed: of a run that is killed nothing of it is left
                    tally = _send(ready, options, file.fileno(), writer, announce, tell, row)
                steps.end(INJECT)
            finally:
                tape.unlink(missing_ok=True)
            told = result_of(
                study, ready.meta, options, taped, tally, writer.records(), limits, ready.seconds, ready.engine
            )
            row.phase("comparing")
            data = _compared_data(ready, options, announce) if options.data_of is not None else ()
            steps.end(ANALYSE)
            result = replace(told, data=data, phases=dict(steps.seconds), elapsed_s=time.time() - began)
            cache = warmed if restored is None else f"{restored.cache}; then {warmed}"
            result = replace(result, cache=cache)
            if ready.stood_for:
                result = replace(result, stand_in=options.stand_in or "", stood_for=ready.stood_for)
            if restored is not None:
                result = replace(result, restored_by=restored.by, restored_s=restored.seconds)
            writer.finish(tally.ended, tally, dict(steps.seconds))
            store.update_study(study.id, state=StudyState.COMPLETE, result=result)
        except BaseException as error:
            is_failure = isinstance(error, PgdynoError)
            with suppress(PgdynoError, OSError):  # what was answered until then can be read
                writer.finish("failed" if is_failure else "interrupted", RunTally(), dict(steps.seconds))
            state = StudyState.FAILED if is_failure else StudyState.INTERRUPTED
            store.update_study(study.id, state=state, ended=ended_by(error))
            raise
    return result


def _taped(options: ReplayOptions, tape: Path, announce: Callable[[str], None]) -> Taped:
    try:
        return write_tape(
            options.trace,
            tape,
            options.order,
            lambda rows: announce(f"{agreeing(rows, 'row', 'is', 'are')} on the tape"),
        )
    except OSError as error:
        raise EnvironmentUnsuitable(
            f'the tape of the replay cannot be written to "{options.output}"',
            detail=error.strerror,
            hint="Free some space, or name a folder on another disk: --output FOLDER.",
        ) from error


def _send(
    ready: Ready,
    options: ReplayOptions,
    tape: int,
    writer: OutcomeWriter,
    announce: Callable[[str], None],
    tell: Callable[[RunTally], None],
    row: LiveRow,
) -> RunTally:
    """Send the tape, a descriptor, while guards watch the target; where one trips, the sessions end."""
    reader = GuardReader(ready.target)
    try:
        sentry = Sentry(reader, options.guards)
        announce(off_text(sentry.begin(ready.asked.most_sessions)))
        row.guards(sentry.indicators)
        progress = ReplayProgress(
            row, due_by_tenth(options.trace), speed=ready.plan.speed, seconds=ready.seconds,
            latest=LatestAnswers(writer.files),
        )  # fmt: skip
        watch = _Watch(writer, options, sentry, tell, progress)
        try:
            with sentry.watch():
                tally = run_engines(
                    ready.plan, tape, writer.files, program=ready.program, watch=watch.look, pauses=watch.pauses
                )
        except EnvironmentUnsuitable as error:
            if watch.why.startswith(GUARD):  # an engine that had to be killed is not why
                raise GuardTripped(watch.why, detail=error.one_line, hint=error.hint) from error
            raise
    finally:
        row.ends_at = None
        reader.close()
    return replace(tally, ended=watch.why or tally.ended)


def _databases(target: Target, asked: Asked, options: ReplayOptions) -> Iterator[tuple[Postgres, Postgres]]:
    """Return the databases whose data are compared at the end: what is expected, and the target's."""
    if options.data_of is not None:
        whole = Postgres(options.data_of)
        for name in asked.databases:
            own = options.databases.get(name, name)
            yield whole.in_database(name), target.postgres.in_database(own)


def _compared_data(
    ready: Ready, options: ReplayOptions, announce: Callable[[str], None]
) -> tuple[ContentsComparison, ...]:
    found = list[ContentsComparison]()
    for expected, own in _databases(ready.target, ready.asked, options):
        found.append(compare_contents(expected, own, announce=announce))
        for line in found[-1].lines():
            announce(line)
    return tuple(found)


def _since_last(store: Store, ready: Ready, began: float) -> dict[str, float]:
    """Return the seconds since the last run of this trace on this target: in them it was tuned, if it was."""
    ended = [
        study.created_at + (found.elapsed_s or 0.0)
        for study in store.studies(target=ready.target.name)
        if study.kind is StudyKind.REPLAY
        and study.asked.get("trace_digest") == ready.meta.digest
        and (found := study.told(ReplayResult)) is not None
    ]
    return {TUNE: began - max(ended)} if ended else {}


class _Watch:
    """Looks at a run about five times a second: writes parts, tells, and says when and why it is to end."""

    def __init__(
        self,
        writer: OutcomeWriter,
        options: ReplayOptions,
        sentry: Sentry,
        tell: Callable[[RunTally], None],
        progress: ReplayProgress,
    ) -> None:
        self._writer, self._options, self._sentry, self._tell = writer, options, sentry, tell
        self._progress = progress
        self._next = time.monotonic() + _PART_S
        self.why = ""
        """Why the run was ended; empty where it was not."""

    def look(self, tally: RunTally) -> bool:
        """Return whether the run is to end."""
        self._tell(tally)
        self._progress.tell(tally, time.time())
        if time.monotonic() >= self._next:
            self._writer.take(_MANY)
            self._next = time.monotonic() + _PART_S
        if self._options.stop_file is not None and os.path.lexists(self._options.stop_file):
            self.why = self.why or "the stop file"
        try:
            self._sentry.check()
        except GuardBreached as stopped:
            self.why = self.why or str(stopped.breach)
        return bool(self.why)

    def pauses(self) -> bool:
        """Return whether the run is to rest."""
        return self._options.pause_file is not None and os.path.lexists(self._options.pause_file)


def _facts_of(ready: Ready, options: ReplayOptions, study: Study) -> OutcomeFacts:
    server = ready.facts.server
    return OutcomeFacts(
        version=OUTCOME_VERSION,
        trace=str(options.trace.absolute()),
        trace_digest=ready.meta.digest,
        target=ready.target.name,
        server_version=server.version,
        system_identifier=str(server.system_identifier),
        engine=ready.engine,
        speed=options.speed,
        clock=options.clock.value,
        order=options.order.value,
        processes=options.processes,
        began_at=study.created_at,
        error_limit_percent=options.error_limit_percent,
        study=study.id,
    )
