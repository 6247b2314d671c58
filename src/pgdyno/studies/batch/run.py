"""Run a chain so many times: restore, execute, look, keep. What the jobs change stays, but for a restore."""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError, UsageError, ended_by
from pgdyno.model.facts import Facts, Unknown
from pgdyno.model.guard import GuardPlan
from pgdyno.model.results.batch import BatchExecution, BatchResult, JobRun
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import Outcome, TrialState
from pgdyno.owner.signals import signals_interrupt
from pgdyno.owner.temporary import temporary
from pgdyno.probes.sampler import Sampler
from pgdyno.store.catalogue import Store
from pgdyno.studies.batch.chain import BatchOptions, Chain
from pgdyno.studies.batch.executing import execute
from pgdyno.studies.batch.job_process import (
    JobStarter,
    last_words,
    program_of,
    restore_tag,
    run_program,
    tags_of,
)
from pgdyno.studies.batch.keeping import load_of, plan_of, plans_of, spec_of
from pgdyno.studies.batch.observing import ServerOnlooker
from pgdyno.studies.batch.session_ender import SessionEnder
from pgdyno.studies.project.build import peak_of
from pgdyno.studies.session.guarding import guarded, halting
from pgdyno.studies.session.new_study import observed_study
from pgdyno.studies.session.ownership import owning
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.target import Target
from pgdyno.units import bytes_text, plural, seconds_text
from pgdyno.workloads.disk_room import require_here

Announce = Callable[[str], None]
_RESTORE_LOOK_S = 0.5
_NONCE = 4
"""Letters before the number of a job in the name of its sessions, by which one run is told from another."""
_LEFT = (
    "SELECT pid, application_name AS tag FROM pg_stat_activity WHERE datname = %s AND usename = current_user"
    " AND application_name ~ '^[0-9a-f]+[.]' AND substr(application_name, %s) = ANY(%s) ORDER BY 1"
)
_UNENDED = "the study did not finish"


def run_batch(
    store: Store,
    target: Target,
    facts: Facts,
    request: TargetRequest,
    chain: Chain,
    options: BatchOptions,
    *,
    guards: GuardPlan,
    announce: Announce,
) -> BatchResult:
    """Execute the chain, and return every job of every execution; what was done until then is kept whatever ends it.

    The study in `store` has the `facts` that were read of `target`, and `request`, how it was asked for. `options` say
    how often `chain` is executed and what ends the run early, as a breach of `guards` does. `announce` takes lines of
    progress. Side effects on the target: whatever jobs and restore command do. Raises EnvironmentUnsuitable where
    sessions of an earlier run are still at work, a guard is breached at the start, or the data cannot be restored.
    """
    began = time.time()
    _require_none_left(target, chain)
    study = observed_study(
        StudyKind.BATCH, chain.name, request, target, facts, began=began, seconds=options.max_seconds,
        options={"file": str(options.path), "executions": options.executions, "parallel": chain.parallel},
    )  # fmt: skip
    study = replace(study, workload=load_of(chain), plan=plan_of(chain, options.max_seconds))
    store.add_study(study)
    with signals_interrupt(), owning(store, study.id, began, resumes=False) as row:
        result = BatchResult(study=study.id, environment=study.environment, chain=chain.name)
        try:
            with guarded(target, guards, chain.parallel, announce) as breach, temporary("batch") as folder:
                halt = halting(options.max_seconds, options.stop_file, breach)
                runs = _Runs(store, study, target, chain, folder, halt, announce)
                for number in range(1, options.executions + 1):
                    row.put(phase="running", place=f"execution {number} of {options.executions}")
                    try:
                        execution, jobs = runs.one(number)
                    except _Halted as halted:
                        result = replace(result, ended=f"{halted}, before execution {number}")
                        break
                    result = replace(result, executions=(*result.executions, execution), jobs=(*result.jobs, *jobs))
                    if execution.ended:
                        result = replace(result, ended=f"{execution.ended}, in execution {number}")
                        break
            if result.ended:
                announce(f"ended: {result.ended}")
            peak = peak_of(store, study, store.trials(study.id))
            result = replace(
                result,
                peaks=() if peak is None else (peak,),
                no_peak="no sample of the host was taken" if peak is None else "",
                elapsed_s=time.time() - began,
            )
            store.update_study(study.id, state=StudyState.COMPLETE, result=result)
        except BaseException as error:
            store.abandon_running(study.id)
            is_failure = isinstance(error, PgdynoError)
            state = StudyState.FAILED if is_failure else StudyState.INTERRUPTED
            ended = str(error) if is_failure else "an interruption"
            told = replace(result, ended=ended, no_peak=_UNENDED)
            store.update_study(study.id, state=state, result=told, ended=ended_by(error))
            raise
    return result


class _Halted(Exception):
    """The run is to end, and no job runs."""


class _Runs:
    """The executions of one study."""

    def __init__(
        self,
        store: Store,
        study: Study,
        target: Target,
        chain: Chain,
        folder: Path,
        halt: Callable[[], str],
        announce: Announce,
    ) -> None:
        self._store, self._study, self._target, self._chain = store, study, target, chain
        self._folder, self._halt, self._announce = folder, halt, announce
        self._database = database_of(target, chain)
        nonce = secrets.token_hex(_NONCE // 2)
        self._tags, self._restore_tag = tags_of(chain, nonce), restore_tag(chain, nonce)

    def one(self, number: int) -> tuple[BatchExecution, tuple[JobRun, ...]]:
        """Restore the data and execute the chain once."""
        if why := self._halt():
            raise _Halted(why)
        restored = self._restore(number) if self._chain.restore else None
        self._announce(f"execution {number} of chain {self._chain.name}")
        run = self._store.begin_trial(self._study.id, spec_of(number))
        folder = self._folder / str(number)
        folder.mkdir()
        server = self._target.postgres
        onlooker = ServerOnlooker(server, self._database, self._target.cpu, self._tags, time.monotonic)
        starter = JobStarter(server, self._database, folder, self._tags)
        sampler = Sampler(self._target, load_database=self._database, driver_pids=lambda: (), folder=folder)
        began_at, began = time.time(), time.monotonic()
        try:
            with sampler:
                jobs, why = execute(
                    self._chain, number, starter, onlooker,
                    clock=time.monotonic, sleep=time.sleep, halt=self._halt, tell=self._announce,
                )  # fmt: skip
        finally:
            onlooker.close()
            starter.close()
        seconds = time.monotonic() - began
        self._store.add_samples(run, sampler.stop().rows)
        if not why:
            self._store.add_records(run, plans_of(server, self._database, self._chain, jobs))
        state = TrialState.PARTIAL if why else TrialState.COMPLETE
        outcome = Outcome(state, reason=why or None, began_at=began_at, ended_at=began_at + seconds)
        self._store.finish_trial(run, outcome)
        ends = [one.ended_s for one in jobs if one.ended_s is not None]
        window = max(ends, default=0.0)
        return BatchExecution(
            number=number, began_at=began_at, window_s=window, restore_s=restored, run=run, ended=why
        ), jobs

    def _restore(self, number: int) -> float:
        """Run the restore command, and return how long it took. One that is ended is ended on the server too."""
        began, base = time.monotonic(), self._folder / f"restore-{number}"
        words = self._chain.restore
        environment = {**self._target.postgres.environment(self._database), "PGAPPNAME": self._restore_tag}
        process = run_program([program_of(words[0]), *words[1:]], environment, base)
        longest, late = self._chain.restore_time_out_s, ""
        try:
            while (code := process.wait(_RESTORE_LOOK_S)) is None:
                if why := self._halt():
                    raise _Halted(f"{why}, with the data restored in part")
                if longest is not None and time.monotonic() - began > longest:
                    late = f"it took longer than {longest:,.15g} s"
                    break
        finally:
            process.terminate()
            if process.exit_code != 0:
                SessionEnder(self._target.postgres).end(self._restore_tag)
        if code != 0:
            raise EnvironmentUnsuitable(
                f"the data could not be restored before execution {number}: {late or f'exit code {code}'}",
                detail=last_words(base) or None,
                hint="Run the restore command by hand; what was executed before is kept.",
            )
        seconds = time.monotonic() - began
        self._announce(f"data restored in {seconds_text(seconds)}")
        return seconds


def _require_none_left(target: Target, chain: Chain) -> None:
    """Raise EnvironmentUnsuitable where the server still works for jobs of a run of this chain that was killed."""
    none = "0" * _NONCE
    ends = [tag[_NONCE:] for tag in (*tags_of(chain, none).values(), restore_tag(chain, none))]
    rows = target.postgres.fetch(_LEFT, [database_of(target, chain), _NONCE + 1, ends])
    if rows:
        told = ", ".join(f'{row["pid"]} "{row["tag"]}"' for row in rows[:5])
        raise EnvironmentUnsuitable(
            f"{plural(len(rows), 'session')} of another run of chain {chain.name} still at work: {told}",
            detail="A server keeps working for a client that was killed, and so do programs that a job started.",
            hint=f"Wait for the end, or end them: SELECT pg_terminate_backend({rows[0]['pid']}).",
        )


def database_of(target: Target, chain: Chain) -> str:
    """Return the database of the chain's jobs: its own, else the one that the target names."""
    if chain.database:
        return chain.database
    return str(target.postgres.fetch("SELECT pg_catalog.current_database() AS name")[0]["name"])


_SIZE = "SELECT pg_catalog.pg_database_size(%s::name) AS bytes"


def require_clients(chain: Chain, most: int) -> None:
    """Raise UsageError where more jobs of the chain may run at a time."""
    if chain.parallel > most:
        raise UsageError(
            f"the chain runs {plural(chain.parallel, 'job')} at a time, and --max-clients is {most}",
            hint="Give fewer in the chain, or a larger --max-clients.",
        )


def require_size(target: Target, database: str, most: int) -> None:
    """Raise EnvironmentUnsuitable where the database of the jobs is larger, or its size cannot be read."""
    size = int(str(target.postgres.fetch(_SIZE, [database])[0]["bytes"]))
    if size > most:
        raise EnvironmentUnsuitable(
            f'database "{database}" has {bytes_text(size)}, more than --max-size {bytes_text(most)}',
            hint="Give a larger --max-size, or a smaller database.",
        )


def require_room(facts: Facts) -> str:
    """Return what is free on both sides, in words; nobody knows beforehand how much jobs write.

    Raises EnvironmentUnsuitable where there is too little here. The server's side has guard disk.
    """
    folder = Path(tempfile.gettempdir())
    here = require_here(folder, "the jobs write what they say", "Name another folder by the variable TMPDIR.")
    free = facts.host.data_disk_free_bytes
    there = str(free) if isinstance(free, Unknown) else f"{bytes_text(free)} free"
    return f"where the server's data lie: {there}; here in {folder}: {bytes_text(here)} free; guard disk ends the run"
