"""Jobs as programs of this machine: an argument list, libpq's variables, a process group, a name on the server.

A job runs with the rights of whoever runs pgdyno; root runs no program that another account could change.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError, UsageError
from pgdyno.model.results.batch import CheckedResult
from pgdyno.outside.files import read_text
from pgdyno.outside.way import doubt_about
from pgdyno.owner.durable import open_fresh
from pgdyno.owner.inherited import ProgramKind
from pgdyno.owner.programs import check_program
from pgdyno.server.postgres import Postgres, redact
from pgdyno.studies.batch import sql_program
from pgdyno.studies.batch.chain import Chain, ChainJob, JobWork
from pgdyno.studies.batch.checking import make_check
from pgdyno.studies.batch.schedule import AttemptEnd
from pgdyno.studies.batch.session_ender import SessionEnder, SessionsEnd
from pgdyno.workloads.driver_process import KILL_AFTER_S, DriverProcess

LONGEST_TAG = 63
"""The server keeps so many bytes of an application_name."""
_LAST, _TAIL = 400, 64 << 10
_SERVER_SAID = re.compile(r"^(?:psql:.*)?(?:ERROR|FATAL|PANIC): ")


def tags_of(chain: Chain, nonce: str) -> dict[str, str]:
    """Return by each job what its sessions are called on the server: no two alike, and none like another run's."""
    return {key: _tag(nonce, number, key) for number, key in enumerate(chain.jobs, 1)}


def restore_tag(chain: Chain, nonce: str) -> str:
    """Return what the sessions of a chain's restore command are called."""
    return _tag(nonce, 0, f"restore for {chain.name}")


def _tag(nonce: str, number: int, name: str) -> str:
    return f"{nonce}.{number} {name}".encode("ascii", "replace").decode()[:LONGEST_TAG]


def program_of(word: str) -> str:
    """Return the path of a program. Raises EnvironmentUnsuitable where it is missing, or root may not run it."""
    if os.geteuid() == 0:
        return check_program(word, 0)
    found = shutil.which(word)
    if found is None:
        raise EnvironmentUnsuitable(
            f'program "{word}" was not found, or cannot be run', hint="Name it by its whole path, or as PATH has it."
        )
    return str(Path(found).absolute())


def read_own(path: Path, *, hint: str = "Name the file of a batch chain.") -> str:
    """Return the text of a file that says what is run. Root takes none that another account can change."""
    _require_own(path, hint)
    return read_text(path, hint=hint)


def require_own_files(chain: Chain) -> None:
    """Raise UsageError where root would send a file of SQL that another account can change, or lead elsewhere."""
    for job in chain.jobs.values():
        if job.work is JobWork.SQL_FILE and not job.skip:
            _require_own(Path(job.words[0]))


def _require_own(path: Path, hint: str | None = None) -> None:
    if os.geteuid() != 0:
        return
    try:
        path.stat()
    except OSError as error:  # else somebody could put it there once it has been looked at
        raise UsageError(f'file "{path}" cannot be read', detail=error.strerror, hint=hint) from error
    doubt = doubt_about(path.absolute(), 0, may_be_shared=True)
    if doubt is not None:
        raise UsageError(
            f'"{path}" says what is run or read with the rights of root, and another account can change it: {doubt}',
            hint="Put it below a folder of root's, chown root and chmod go-w it; or run pgdyno as its owner.",
        )


@dataclass(slots=True)
class JobStarter:
    """Starts jobs against one server and its `database`; what they write goes into `folder`, a file a job."""

    server: Postgres
    database: str
    folder: Path
    tags: Mapping[str, str]
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(thread_name_prefix="pgdyno-check"))
    ender: SessionEnder = field(init=False)
    """With a thread of its own: a check may run until its session is ended."""

    def __post_init__(self) -> None:
        self.ender = SessionEnder(self.server)

    def close(self) -> None:
        """Let the threads go."""
        self.pool.shutdown(wait=False, cancel_futures=True)

    def start(self, job: ChainJob, attempt: int) -> JobAttempt | FailedAttempt:
        """Start an attempt."""
        tag = self.tags[job.key]
        base = self.folder / f"{list(self.tags).index(job.key) + 1}-{attempt}"
        try:
            process = run_program(self._argv(job, base), self.environment(tag), base, is_ours=_is_sql(job))
        except PgdynoError as error:
            return FailedAttempt(error.one_line)
        except OSError as error:  # of the files that it writes to
            return FailedAttempt(f'"{error.filename or base}": {(error.strerror or str(error)).lower()}')
        return JobAttempt(self, job, process, tag, base)

    def environment(self, tag: str) -> dict[str, str]:
        """Return the variables by which a job's program finds the server, and is known there."""
        return {**self.server.environment(self.database), "PGAPPNAME": tag}

    def _argv(self, job: ChainJob, base: Path) -> list[str]:
        if job.work is JobWork.SQL:
            text = base.with_suffix(".sql")
            with open_fresh(text) as file:
                file.write(job.words[0].encode())
            return _sql_argv(text)
        if job.work is JobWork.SQL_FILE:
            _require_own(Path(job.words[0]))
            return _sql_argv(Path(job.words[0]).absolute())
        return [program_of(job.words[0]), *job.words[1:]]


def run_program(argv: list[str], environment: Mapping[str, str], base: Path, *, is_ours: bool = False) -> DriverProcess:
    """Start a program whose output goes into `base`.out and `base`.err. Raises an error where it cannot be started.

    `argv` is the program with its arguments, and runs in the current folder. `environment` adds variables, by name, to
    those that it inherits from this process; one that `is_ours`, a process of pgdyno, inherits those of pgdyno as well.
    """
    return DriverProcess.start(
        argv,
        environment=environment,
        directory=Path.cwd(),
        stdout=base.with_suffix(".out"),
        stderr=base.with_suffix(".err"),
        kind=ProgramKind.OURSELVES if is_ours else ProgramKind.CLIENT,
    )


def last_words(base: Path) -> str:
    """Return the last line that a program wrote to stderr, or the last error that it was told by a server.

    What stands below an error quotes the statement, which may hold a password; one in a line itself is taken out.
    """
    with suppress(OSError), base.with_suffix(".err").open("rb") as file:
        file.seek(max(file.seek(0, os.SEEK_END) - _TAIL, 0))
        lines = file.read().decode(errors="replace").strip().splitlines()
        errors = [line for line in lines if _SERVER_SAID.search(line)]
        return redact((errors or lines)[-1].strip())[:_LAST] if lines else ""
    return ""


@dataclass(slots=True)
class FailedAttempt:
    """An attempt whose program could not be started."""

    reason: str

    def poll(self) -> AttemptEnd:
        """Return its end."""
        return AttemptEnd(None, failed=self.reason, cpu_s=0.0)

    def begin_stop(self) -> None:
        """Do nothing: nothing runs."""

    stop = begin_stop


@dataclass(slots=True)
class JobAttempt:
    """An attempt that runs: its program first, then its checks."""

    starter: JobStarter
    job: ChainJob
    process: DriverProcess
    tag: str
    base: Path
    stopped: bool = False
    kill_at_s: float = math.inf
    ending: SessionsEnd | None = None
    """The end of its sessions; a server that hangs keeps no other job from being told to end meanwhile."""
    ending_rest: SessionsEnd | None = None
    """The end of those that it began while it was told to end, beside which the next attempt would run."""
    checks: Future[tuple[CheckedResult, ...]] | None = None

    def poll(self) -> AttemptEnd | None:
        """Return how it ended, None while program or checks run."""
        code, is_told = self.process.poll(), self.kill_at_s < math.inf
        is_left = code is None or (is_told and self.process.has_others())
        if is_left and time.monotonic() >= self.kill_at_s:
            self.process.kill_group()
            is_left = code is None
        ender = self.starter.ender
        if code is None or is_left or (self.ending is not None and not ender.is_over(self.ending)):
            return None
        if is_told:
            self.ending_rest = self.ending_rest or ender.begin(self.tag)
            if not ender.is_over(self.ending_rest):
                return None
        end = AttemptEnd(code, cancelled=self._cancelled(code), failed=self._failed(code), cpu_s=self.process.cpu_s)
        if code not in self.job.success or not self.job.checks or self.stopped:
            return end
        if self.checks is None:
            self.checks = self.starter.pool.submit(self._make_checks)
        if not self.checks.done():
            return None
        return AttemptEnd(code, cpu_s=self.process.cpu_s, checks=self.checks.result())

    def begin_stop(self) -> None:
        """End the process group, and the sessions that have the job's name: a server works on for who has gone.

        One that was told already keeps its time.
        """
        if self.stopped:
            return
        self.stopped = True
        if self.process.poll() is None:  # what one left that has ended by itself is meant to stay
            self.kill_at_s = time.monotonic() + KILL_AFTER_S
            self.process.tell_group(signal.SIGTERM)
        self.ending = self.starter.ender.begin(self.tag)

    def stop(self) -> None:
        """Do so, and wait for the end."""
        self.begin_stop()
        if self.kill_at_s < math.inf:
            self.process.wait(max(0.0, self.kill_at_s - time.monotonic()))
            self.process.kill_group()
            self.process.wait(KILL_AFTER_S)
            self.kill_at_s = 0.0
            self.ending_rest = self.ending_rest or self.starter.ender.begin(self.tag)
        for one in (self.ending, self.ending_rest):
            if one is not None:
                self.starter.ender.wait(one)

    def _make_checks(self) -> tuple[CheckedResult, ...]:
        starter, found = self.starter, list[CheckedResult]()
        for one in self.job.checks:
            if self.stopped:  # another check would begin a session that nobody ends
                break
            found.append(make_check(starter.server, starter.database, self.tag, one))
        return tuple(found)

    def _cancelled(self, code: int) -> str:
        if code < 0:
            return f"ended by signal {-code}"
        if code == sql_program.CANCELLED and _is_sql(self.job):
            return last_words(self.base)
        return ""

    def _failed(self, code: int) -> str:
        said = last_words(self.base)
        return f"exit code {code}{f': {said}' if said else ''}"


def _is_sql(job: ChainJob) -> bool:
    return job.work in (JobWork.SQL, JobWork.SQL_FILE)


def _sql_argv(path: Path) -> list[str]:
    return [sys.executable, "-m", sql_program.__name__, str(path)]
