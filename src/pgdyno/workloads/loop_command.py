"""The command line of the session loop, in the place of pgbench's: what is run, and how its sessions come again."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.model.trial import LoadPlan
from pgdyno.owner.account import Account
from pgdyno.workloads.pgbench.command import LOG_NAME, check_plan
from pgdyno.workloads.pgbench.log import PgbenchLogFormat, PgbenchLogReader
from pgdyno.workloads.result import Gap
from pgdyno.workloads.script import Script
from pgdyno.workloads.session_loop import LoopJob, LoopStatement, read_gaps


@dataclass(frozen=True, slots=True)
class SessionLoop:
    """What a workload asks of the loop: its statements in the order of the scripts, rows, batch and the rhythm."""

    statements: tuple[LoopStatement, ...]
    rows: int
    batch: int
    iterations: int
    pause_s: float
    tries: int


def check_loop_plan(plan: LoadPlan) -> None:
    """Raise UsageError on a plan that the loop cannot run. Asks no server."""
    check_plan(plan)
    if plan.rate is not None or plan.connect_each:
        raise UsageError(
            "driver=loop has no --rate and no --connect-each",
            hint="Leave it out; iterations=1 opens a session for each call.",
        )


@dataclass(frozen=True, slots=True)
class LoopCommand:
    """Everything that a run of the loop is made of; stands where `RunCommand` stands for pgbench."""

    loop: SessionLoop
    plan: LoadPlan
    scripts: tuple[Script, ...]
    directory: Path
    dbname: str
    account: Account | None = None
    is_ours: bool = True
    """It is a program of this package, which the load's account may not be able to read."""
    fds: tuple[int, ...] = ()
    log_format: PgbenchLogFormat = field(default_factory=PgbenchLogFormat)

    def reader(self, pid: int) -> PgbenchLogReader:
        """Return what reads the transaction logs of the process."""
        return PgbenchLogReader(self.directory / LOG_NAME, pid, self.log_format)

    def argv(self) -> list[str]:
        """Write the job and return the argument list. Raise UsageError on a plan that the loop cannot run."""
        check_loop_plan(self.plan)
        plan, loop = self.plan, self.loop
        job = self.directory / "job.json"
        LoopJob(
            dbname=self.dbname,
            clients=plan.clients,
            duration_s=plan.duration_s,
            iterations=loop.iterations,
            pause_s=loop.pause_s,
            tries=loop.tries,
            prepare=plan.protocol == "prepared",
            rows=loop.rows,
            batch=loop.batch,
            seed=plan.seed,
            log_prefix=LOG_NAME,
            account="" if self.account is None else self.account.numbers,
            statements=loop.statements,
        ).write(job)
        return [sys.executable, "-m", "pgdyno.workloads.session_loop", str(job.absolute())]

    @property
    def own_pause_s(self) -> float:
        """Return how long a session sleeps between two calls, beside what scripts ask for."""
        return self.loop.pause_s

    @property
    def pauses(self) -> bool:
        """Return True where sessions sleep between their calls."""
        return self.loop.pause_s > 0

    def gaps(self) -> tuple[Gap, ...]:
        """Return when the sessions had no server, once the run is over."""
        return tuple(
            Gap(int(str(one["session"])), float(str(one["from_s"])), float(str(one["to_s"])), str(one["reason"]))
            for one in read_gaps(self.directory)
        )
