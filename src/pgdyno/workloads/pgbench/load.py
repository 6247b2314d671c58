"""A pgbench run under way: started, watched, ended, and turned into a result."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from pgdyno.errors import ScriptError, WorkloadError
from pgdyno.linux.processes import child_pids
from pgdyno.model.trial import LoadPlan
from pgdyno.owner.account import Account
from pgdyno.owner.inherited import ProgramKind
from pgdyno.units import plural, seconds_text
from pgdyno.workloads.driver_process import DriverProcess
from pgdyno.workloads.gate import StartGate
from pgdyno.workloads.load_warnings import LoadFacts, LoadWarning, judge_load
from pgdyno.workloads.pgbench.folded_log import FoldedLog
from pgdyno.workloads.pgbench.log import PgbenchLogFormat
from pgdyno.workloads.pgbench.log_fold import LogFold
from pgdyno.workloads.pgbench.progress import ProgressReader, count_aborted, first_reason
from pgdyno.workloads.pgbench.transaction_log import TransactionLog
from pgdyno.workloads.protocol import LoadReading
from pgdyno.workloads.result import (
    CountBins,
    Gap,
    LoadResult,
    SecondHistograms,
    away_s,
    count_bins,
    mean_pause_s,
    mean_round_trips,
)
from pgdyno.workloads.script import Script
from pgdyno.workloads.script_statements import least_pause_s, round_trips

GRACE_S = 60.0
"""How long a load may outlast its time: pgbench lets every client finish its last transaction."""
READS_EVERY_S = 0.2
CLOCK_STEP_S = 2.0
"""A clock that is slewed by NTP (at most 0.5 ms a second) stays far below; more was set by somebody."""


class LoadReader(Protocol):
    """The transactions of a running driver, read as they come, each once."""

    malformed: int
    paused_us: int
    captured_deadlocks: int

    @property
    def files(self) -> tuple[Path, ...]:
        """Return what can be deleted once the load is on file."""

    @property
    def whole_until_us(self) -> int | None:
        """Return up to when everything that ended was told, None while that is nothing."""

    @property
    def late(self) -> str | None:
        """Return `LoadResult.late`, once all is read."""

    @property
    def void(self) -> str | None:
        """Return `LoadResult.void`, once all is read."""

    @property
    def warnings(self) -> tuple[LoadWarning, ...]:
        """Return what is remarkable beside what the figures say."""

    def read_new(self) -> Iterator[TransactionLog]:
        """Yield what has ended since the last call."""

    def read_rest(self) -> Iterator[TransactionLog]:
        """Yield what is left, when the driver has ended."""


class LoadCommand(Protocol):
    """How a driver is started and read: pgbench, the loop of sessions, a replay. `is_ours` is code of this package."""

    @property
    def plan(self) -> LoadPlan:
        """Return how it is driven."""

    @property
    def scripts(self) -> tuple[Script, ...]:
        """Return what its transactions are of, by number."""

    @property
    def directory(self) -> Path:
        """Return the folder of the run."""

    @property
    def account(self) -> Account | None:
        """Return whose rights it has; None for ours."""

    @property
    def log_format(self) -> PgbenchLogFormat:
        """Return the columns of its transaction log."""

    @property
    def own_pause_s(self) -> float:
        """Return how long it sleeps between two transactions."""

    @property
    def pauses(self) -> bool:
        """Return True where sessions sleep."""

    @property
    def is_ours(self) -> bool:
        """Return True for a program of this package."""

    @property
    def fds(self) -> tuple[int, ...]:
        """Return the descriptors that it inherits."""

    def argv(self) -> list[str]:
        """Return the argument list, without secrets."""

    def reader(self, pid: int) -> LoadReader:
        """Return what reads its transactions."""

    def gaps(self) -> tuple[Gap, ...]:
        """Return when sessions had no server."""


class PgbenchLoad:
    """A `RunningLoad`: one pgbench process and the files it writes.

    `failure` makes of what pgbench wrote the error of a script that cannot run, None where that is not the reason.
    """

    def __init__(
        self,
        command: LoadCommand,
        environment: Mapping[str, str],
        *,
        instance: int = 0,
        scale: int | None = None,
        plans: tuple[str, ...] = (),
        gate: StartGate | None = None,
        block_reads: Callable[[], int | None] | None = None,
        failure: Callable[[str], ScriptError | None] | None = None,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] | None = None,
    ) -> None:
        self._command = command
        self._instance = instance
        self._scale = scale
        self._plans = plans
        self._argv = command.argv()
        for script in command.scripts:
            script.write(command.directory)
        self._failure = failure
        self._clock = clock
        self._errors = command.directory / "pgbench.stderr"
        self._timer = timer or (time.monotonic if clock is time.time else clock)
        self._began_at, self._since = clock(), self._timer()
        self._process = DriverProcess.start(
            self._argv,
            environment=environment,
            directory=command.directory,
            stdout=command.directory / "pgbench.stdout",
            stderr=self._errors,
            gate=gate,
            # What is our own code that account may not be able to read: it changes over by itself.
            account=None if command.is_ours else command.account,
            fds=command.fds,
            kind=ProgramKind.OURSELVES if command.is_ours else ProgramKind.CLIENT,
        )
        self._reader = command.reader(self._process.pid)
        self._fold = LogFold(
            round(self._began_at * 1e6), first_client=instance * command.plan.clients, folder=command.directory
        )
        self._progress = ProgressReader(self._errors)
        self._ended_by_us: str | None = None
        self._block_reads = block_reads
        self._device_reads: list[tuple[float, int]] = []
        self._count_reads()

    @property
    def pids(self) -> tuple[int, ...]:
        """Return the process id of pgbench, which has threads but no children; of a driver of ours its engine too."""
        pid = self._process.pid
        return (pid, *(child_pids(pid) or ())) if self._command.is_ours else (pid,)

    def poll(self) -> bool:
        """Return True once pgbench has ended."""
        self._count_reads()
        return self._process.poll() is not None

    def wait(self, seconds: float, alarm: int | None = None) -> bool:
        """Wait at most so long for pgbench's end, or the alarm. Return True once it has ended."""
        has_ended = self._process.wait(seconds, alarm=alarm) is not None
        self._count_reads()
        return has_ended

    def live(self) -> LoadReading | None:
        """Return the latest reading, None before pgbench's first progress line. Reads what is new of its files."""
        fold, last = self._fold, self._progress.latest()
        for piece in self._reader.read_new():
            fold.add(piece)
        if last is None:
            return None
        command = self._command
        if command.log_format.paced:  # pgbench counts as many pauses as transactions
            return LoadReading(last.t, last.tps / 2, fold.mean_ms() or 0.0, fold.p99_ms(), fold.committed, fold.failed)
        # Our own driver knows no latencies: its records do.
        mean_ms = (fold.mean_ms() or 0.0) if command.is_ours and not last.latency_ms else last.latency_ms
        captured = self._reader.captured_deadlocks
        return LoadReading(last.t, last.tps, mean_ms, fold.p99_ms(), fold.committed, fold.failed, captured)

    def series(self) -> CountBins | None:
        """Return the series so far, up to where each thread's log has come. As of the latest `live`."""
        until_us = self._reader.whole_until_us
        if until_us is None:
            return None
        return count_bins(self._fold.so_far().between(self._began_at, until_us / 1e6), began_at=self._began_at)

    def let_end(self) -> None:
        """Tell pgbench that its time is over: every client finishes its transaction."""
        self._process.let_end()

    def terminate(self) -> None:
        """End pgbench at once."""
        if not self.poll():
            self._ended_by_us = "ended by pgdyno before its time"
        self._process.terminate()

    def finish(self) -> LoadResult:
        """Wait for the end and return what came of it; where that is an error, no log is left. See `RunningLoad`."""
        try:
            remaining = self._since + self._command.plan.duration_s + GRACE_S - self._timer()
            if self._process.wait(max(remaining, 0.0)) is None:
                self._ended_by_us = f"still running {GRACE_S:.0f} s after its time, and ended"
        finally:
            self._process.terminate()
        try:
            return self._read_out()
        except BaseException:
            for file in self._reader.files:  # of the account that the load ran as, and nobody else looks for it
                file.unlink(missing_ok=True)
            raise

    def _read_out(self) -> LoadResult:
        self._refuse_set_clock()
        for piece in self._reader.read_rest():
            self._fold.add(piece)
        log = self._fold.folded()
        text = self._stderr()
        aborted = count_aborted(text)
        reason = self._reason(text, aborted)
        failure = self._failure(text) if self._failure is not None and self._ended_by_us is None and reason else None
        if failure is not None and (failure.is_certain or not len(log)):
            raise failure
        if failure is not None:
            reason = f"{self._who_gave_up(aborted)}: {failure}{f' ({failure.detail})' if failure.detail else ''}"
            done = f"{self._who_gave_up(aborted)} after {plural(log.tally().committed, 'transaction')}"
            failure.detail = "; ".join(filter(None, (failure.detail, done)))
        if not len(log):
            raise WorkloadError(
                "the load ended without a single transaction", detail=reason, hint=f'See "{self._errors}".'
            )
        return replace(self._result(log, self._reader.malformed, aborted, reason), failure=failure)

    def _refuse_set_clock(self) -> None:
        """Raise WorkloadError when the wall clock was set during the load: its log cannot be laid beside the samples.

        Also a matter of memory: counts by the second over a jump of years would take gigabytes.
        """
        stepped_s = (self._clock() - self._began_at) - (self._timer() - self._since)
        if abs(stepped_s) > CLOCK_STEP_S:
            raise WorkloadError(
                f"the clock was set {'forward' if stepped_s > 0 else 'back'} by {seconds_text(abs(stepped_s))} "
                "during the load",
                hint="Let the clock be disciplined before a study begins; see chronyc tracking or timedatectl.",
            )

    def _result(self, log: FoldedLog, malformed: int, aborted: int, reason: str | None) -> LoadResult:
        counts = log.tally()
        ended_at = log.last_end_us / 1e6
        driver_cpu_s = self._process.cpu_s or 0.0
        gaps, scripts = self._command.gaps(), self._command.scripts
        names = tuple(script.name for script in scripts)
        by_script = dict.fromkeys(names, 0)
        for name, count in zip(names, log.committed_by_script(len(names)), strict=True):
            by_script[name] += count
        facts = LoadFacts(
            plan=self._command.plan,
            seconds=ended_at - self._began_at,
            cores=len(os.sched_getaffinity(0)),
            driver_cpu_s=driver_cpu_s,
            counts=counts,
            malformed_lines=malformed,
            scale=self._scale,
            plans=self._plans,
            pauses=self._command.pauses,
        )
        return LoadResult(
            began_at=self._began_at,
            ended_at=ended_at,
            transactions=counts.committed,
            failed=counts.failed,
            retried=counts.retried,
            skipped=counts.skipped,
            driver_cpu_s=driver_cpu_s,
            bins=count_bins(log, began_at=self._began_at),
            histograms=SecondHistograms(((log, names, self._instance),)),
            warnings=(*judge_load(facts, log), *self._reader.warnings),
            log_files=self._reader.files,
            argv=tuple(self._argv),
            exit_code=self._process.exit_code or 0,
            aborted_clients=aborted,
            malformed_lines=malformed,
            reason=reason,
            plans=self._plans,
            pauses=self._command.pauses,
            partial=gap_text(gaps, ended_at),
            gaps=gaps,
            late=self._reader.late,
            void=self._reader.void,
            device_reads=tuple(self._device_reads),
            round_trips=mean_round_trips(by_script, {script.name: round_trips(script) for script in scripts}),
            pause_s=self._command.own_pause_s
            + mean_pause_s(by_script, {script.name: least_pause_s(script) for script in scripts})
            + self._reader.paused_us / 1e6 / max(1, counts.committed),
            log=log,
        )

    def _count_reads(self) -> None:
        now = self._clock()
        if self._block_reads is None or (self._device_reads and now - self._device_reads[-1][0] < READS_EVERY_S):
            return
        count = self._block_reads()
        if count is not None:
            self._device_reads.append((now, count))

    def _reason(self, text: str, aborted: int) -> str | None:
        if self._ended_by_us is not None:
            return self._ended_by_us
        if not aborted and self._process.exit_code == 0:
            return None
        code = self._process.exit_code or 0
        if code < 0 and not aborted:
            return f"pgbench was ended by {signal.Signals(-code).name}"
        said = first_reason(text) or "no reason given"
        return f"{self._who_gave_up(aborted)}: {said}"

    def _who_gave_up(self, aborted: int) -> str:
        clients = f"{aborted} of {self._command.plan.clients} clients aborted" if aborted else "pgbench gave up"
        return f"{clients} (exit code {self._process.exit_code})"

    def _stderr(self) -> str:
        return self._errors.read_text(errors="replace")


def gap_text(gaps: Sequence[Gap], ended_at: float) -> str | None:
    """Return what must be said of a load whose server was away, None when it never was."""
    if not gaps:
        return None
    seconds = away_s(gaps, 0.0, ended_at)
    sessions = len({gap.session for gap in gaps})
    lost = f"{sessions} session{'s' * (sessions != 1)} lost, then open again"
    return f"the server was away for {seconds:.1f} s ({lost}): {gaps[0].reason}"


def prepare_directory(directory: Path, account: Account | None = None) -> Path:
    """Make the directory of one run and return its absolute path. Raise WorkloadError when it cannot be written.

    An account that the load runs as may make files in it, and can neither rename nor remove ours.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if account is not None:
            os.chown(directory, -1, account.gid)
            directory.chmod(0o1770)
    except OSError as error:
        raise WorkloadError(
            f'directory "{directory}" cannot be made',
            detail=str(error),
            hint="Free some space or grant the permission, or set PGDYNO_HOME to another folder.",
        ) from error
    return directory.absolute()
