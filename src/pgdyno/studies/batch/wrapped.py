"""A job that another scheduler starts: run as it is, and recorded as a row of the CSV that `batch import` reads."""

from __future__ import annotations

import csv
import fcntl
import io
import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import BinaryIO

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.results.batch import JobEnd
from pgdyno.outputs import open_to_add
from pgdyno.owner.inherited import ProgramKind, inherited
from pgdyno.studies.batch.file import check_name
from pgdyno.studies.batch.job_process import LONGEST_TAG, program_of

COLUMNS = ("execution", "process", "job", "start", "end", "code", "status", "attempts", "cpu_s")
_LOCK_S = 10.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WrappedJob:
    """Which job of which process it is, and in which execution."""

    process: str
    name: str
    execution: int


def run_wrapped(job: WrappedJob, argv: Sequence[str], record: Path) -> int:
    """Run the program with our own input and output, add a row to `record`, and return its exit code.

    The program's sessions have the job's name as application_name, and it gets the signals that we get. A code is as
    a shell has it: 128 and its number for a signal. A row that cannot be added at the end is logged, and changes no
    code: what the job did is done.
    """
    check_name(job.process)
    check_name(job.name)
    program = program_of(argv[0])
    _add_row(record, None)  # a file that cannot be written is told before the job runs
    tag = f"{job.process}/{job.name}".encode("ascii", "replace").decode()[:LONGEST_TAG]
    environment = {**inherited(ProgramKind.PERSONAL), **inherited(ProgramKind.CLIENT), "PGAPPNAME": tag}
    with _SignalsHandedOn().installed() as signals:
        began = time.time()
        try:
            process = subprocess.Popen([program, *argv[1:]], env=environment)
        except OSError as error:
            raise EnvironmentUnsuitable(
                f'program "{program}" cannot be run',
                detail=error.strerror,
                hint="Name a program, or a script whose first line is such as #!/bin/sh.",
            ) from error
        signals.begin(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        signals.end()  # while its number is not yet another program's
        _, status, usage = os.wait4(process.pid, 0)
        code = process.returncode = os.waitstatus_to_exitcode(status)
        end = JobEnd.CANCELLED if code < 0 else JobEnd.SUCCEEDED if code == 0 else ""
        cpu = f"{usage.ru_utime + usage.ru_stime:.3f}"
        moments = [datetime.fromtimestamp(at, UTC).isoformat() for at in (began, max(began, time.time()))]
        try:
            _add_row(record, [str(job.execution), job.process, job.name, *moments, str(code), end, "1", cpu])
        except UsageError as error:
            log.warning("job %s ended with code %d, and is not recorded: %s", tag, code, error.one_line)
    return code if code >= 0 else 128 - code


@dataclass(slots=True)
class _SignalsHandedOn:
    """Signals that would end us go to the program: those from before it runs as soon as it does, those after nowhere.

    A job that its scheduler cancels must neither run on alone nor be without its row.
    """

    pid: int | None = None
    early: list[int] | None = field(default_factory=list)

    @contextmanager
    def installed(self) -> Iterator[_SignalsHandedOn]:
        """Take the signals that are not ignored, which the program inherits, and give them back."""
        numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
        taken = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
        previous = {number: signal.signal(number, self._take) for number in taken}
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def begin(self, pid: int) -> None:
        """Hand on what came already, and from now on what comes."""
        early, self.pid, self.early = self.early, pid, None
        for number in early or ():
            _hand_on(pid, number)

    def end(self) -> None:
        """Hand on nothing more."""
        self.pid = None

    def _take(self, number: int, _frame: FrameType | None) -> None:
        if self.pid is not None:
            _hand_on(self.pid, number)
        elif self.early is not None:
            self.early.append(number)


def _hand_on(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except PermissionError:  # it is waited for all the same: else it would run on without its row
        log.warning("signal %d is not handed on: the program runs as another account, such as by sudo", number)


def _lock(file: BinaryIO) -> None:
    """Lock a file that is written in a moment; whoever holds it for longer keeps no job from running."""
    deadline = time.monotonic() + _LOCK_S
    while time.monotonic() < deadline:
        with suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(0.05)


def _add_row(record: Path, row: Sequence[str] | None) -> None:
    """Add a row, below the names of the columns in an empty file; jobs that end at once take turns."""
    try:
        with open_to_add(record, 0o644) as file:
            _lock(file)
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            if os.fstat(file.fileno()).st_size == 0:
                writer.writerow(COLUMNS)
            if row is not None:
                writer.writerow(row)
            file.write(text.getvalue().encode())
    except OSError as error:
        raise UsageError(
            f'record "{record}" cannot be written', detail=error.strerror, hint="Name a file with --record jobs.csv."
        ) from error
