"""Loads and jobs of batches that are programs of pgdyno's own, as forks of the program: see `warm_program.py`.

Each is Python with a driver for PostgreSQL, whose imports are a fifth of a CPU second, and a study of ten runs begins
ten. A test of `host` has real ones, and so has a load at a gate or one that is begun with another account.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import Signals
from typing import Any, Self, cast

from pgdyno.linux import processes
from pgdyno.owner.durable import open_fresh
from pgdyno.owner.inherited import ProgramKind, inherited
from pgdyno.workloads.driver_process import DriverProcess
from quick_accounts import REAL_PROGRAMS
from warm_program import Begun

LOADS = ("pgdyno.workloads.session_loop", "pgdyno.replay.driver", "pgdyno.studies.batch.sql_program")


class ForkedLoad(DriverProcess):
    """A program of pgdyno's own as `DriverProcess.start` begins it, and the child of another process."""

    @classmethod
    def take(
        cls, argv: Sequence[str], env: Mapping[str, str], cwd: Path, fds: Sequence[int], out: Path, err: Path
    ) -> Self:
        """Begin it. What it reads comes by descriptors whose numbers are its first words: they are others there."""
        words = str(os.getpid()), argv[2], *map(str, range(3, 3 + len(fds))), *argv[3 + len(fds) :]
        given = {**inherited(ProgramKind.OURSELVES), **env}
        with Path(os.devnull).open() as nothing, open_fresh(out) as its_out, open_fresh(err) as its_err:
            standard = nothing.fileno(), its_out.fileno(), its_err.fileno(), *fds
            begun = Begun("load", words, given, str(cwd), *standard)
        return cls(cast(subprocess.Popen[bytes], begun))

    def poll(self) -> int | None:
        """Return the exit code; of one that has ended, once the process that forks has said how."""
        if self.exit_code is None:
            patience = 0.0 if processes.alive(self.pid) else None
            begun = cast(Begun, self._popen)
            with suppress(subprocess.TimeoutExpired):
                self.exit_code = begun.wait(patience)
                self.cpu_s = begun.cpu_s
        return self.exit_code

    def let_end(self) -> None:
        """Tell it, unless it ends just now: nothing keeps its number, as its parent is quick."""
        with suppress(ProcessLookupError):
            super().let_end()

    def tell_group(self, sign: Signals) -> None:
        """Send a signal, unless it ends just now."""
        with suppress(ProcessLookupError):
            super().tell_group(sign)


def use_loads() -> None:
    """Have this process begin them as forks, unless a test says what Python it has or wants real programs."""
    python, start = sys.executable, DriverProcess.start

    def begin(
        argv: Sequence[str], *, environment: Mapping[str, str], directory: Path, stdout: Path, stderr: Path,
        fds: Sequence[int] = (), **more: Any,
    ) -> DriverProcess:  # fmt: skip
        is_plain = more.get("gate") is None and more.get("account") is None and REAL_PROGRAMS not in os.environ
        if is_plain and sys.executable == python and tuple(argv[:2]) == (python, "-m") and argv[2] in LOADS:
            with suppress(ConnectionError):
                return ForkedLoad.take(argv, environment, directory, fds, stdout, stderr)
        return start(argv, environment=environment, directory=directory, stdout=stdout, stderr=stderr, fds=fds, **more)

    DriverProcess.start = begin  # type: ignore[method-assign,assignment]
