"""pgbench as a child of ours: a process group of its own, ended with us, and its exact CPU time when it has ended.

Not by `owner.runner`: that one runs programs on the server's host, the driver runs on this one, and only the
parent that waits for a child by wait4(2) gets the CPU time of exactly that child, without sampling and without race.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from pgdyno.errors import WorkloadError
from pgdyno.owner.account import Account
from pgdyno.owner.durable import open_fresh
from pgdyno.owner.inherited import ProgramKind, inherited
from pgdyno.owner.parent import end_with
from pgdyno.workloads.gate import StartGate

KILL_AFTER_S = 5.0
_POLL_S = 0.02


class DriverProcess:
    """A running pgbench. Whoever starts it must end it: `wait` or `terminate`."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self.exit_code: int | None = None
        self.cpu_s: float | None = None
        """User and system CPU time in seconds; None while it runs."""

    @classmethod
    def start(
        cls,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: Path,
        stdout: Path,
        stderr: Path,
        gate: StartGate | None = None,
        account: Account | None = None,
        fds: Sequence[int] = (),
        kind: ProgramKind = ProgramKind.CLIENT,
    ) -> DriverProcess:
        """Start the program in the directory, detached from the terminal; with a `gate` it begins when that opens.

        `argv` is its argument list, `directory` its working directory. Its output goes to the files `stdout` and
        `stderr`, which are made anew, and it inherits the descriptors `fds`. `environment` adds to what of this
        process's own a program of this `kind` is given. With an `account` (None: our own) the program runs with its
        rights: it enters the directory first, so that nobody else need be able to reach it, and `argv` names files
        there without a path.
        """
        switched = account if gate is None else None  # at a gate, whoever waits joins its cgroups as root first
        own: dict[str, str] = {}
        if account is not None:
            own = {"HOME": account.home, "USER": account.name or "", "LOGNAME": account.name or ""}
        with open_fresh(stdout) as out, open_fresh(stderr) as err:
            try:
                popen = subprocess.Popen(
                    list(argv) if gate is None else gate.wrap(argv, account),
                    env=inherited(kind) | own | dict(environment),
                    cwd=directory,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                    pass_fds=(*fds, *(() if gate is None else gate.fds)),
                    user=None if switched is None else switched.uid,
                    group=None if switched is None else switched.gid,
                    extra_groups=None if switched is None else switched.groups,
                    preexec_fn=partial(_end_with, os.getpid()),
                )
            except OSError as error:
                raise WorkloadError(
                    f'"{argv[0]}" could not be started',
                    detail=str(error),
                    hint="Install the PostgreSQL client programs, or name a build with --sandbox-bin.",
                ) from error
        return cls(popen)

    @property
    def pid(self) -> int:
        """Return the process id, which is the process group's as well."""
        return self._popen.pid

    def poll(self) -> int | None:
        """Return the exit code (negative for a signal), None while it runs."""
        if self.exit_code is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self.cpu_s = usage.ru_utime + usage.ru_stime
                self.exit_code = os.waitstatus_to_exitcode(status)
                self._popen.returncode = self.exit_code
        return self.exit_code

    def wait(
        self,
        timeout_s: float,
        *,
        alarm: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> int | None:
        """Wait for the end at most `timeout_s` seconds. Return the exit code, None when it still runs.

        Wakes at the end itself where the kernel tells it (pidfd_open(2), Linux 5.3), else looks 50 times a second, by
        `clock` and `sleep`, both in seconds; and as soon as descriptor `alarm` can be read, None for none.
        """
        if self.poll() is not None:
            return self.exit_code
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            deadline = clock() + timeout_s
            while self.poll() is None and clock() < deadline and not _is_ready(alarm):
                sleep(_POLL_S)
            return self.exit_code
        try:
            ended = select.poll()  # select(2) cannot watch a descriptor above 1023
            ended.register(descriptor, select.POLLIN)
            if alarm is not None:
                ended.register(alarm, select.POLLIN)
            if not ended.poll(1000 * max(timeout_s, 0.0)):
                return None
        finally:
            os.close(descriptor)
        return self.poll()

    def let_end(self) -> None:
        """Tell the program that its time is over, by the signal by which pgbench tells itself: SIGALRM."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGALRM)

    def tell_group(self, sign: signal.Signals) -> None:
        """Send the process group a signal; nothing to do when the program has ended."""
        if self.poll() is None:
            os.killpg(self.pid, sign)

    def has_others(self) -> bool:
        """Tell whether its process group has members: the program, until its end was seen, or what it started."""
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # of another account, as by sudo
        return True

    def kill_group(self) -> None:
        """Kill what is left of the process group: the program, or what it started; nothing to do where none is."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def terminate(self, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """End the process group: SIGTERM, then SIGKILL. Returns when it is gone; nothing to do when it has ended.

        What the program started and left is killed with it; what one left that ended by itself is meant to stay.
        """
        if self.poll() is not None:
            return
        for sign in (signal.SIGTERM, signal.SIGKILL):
            self.tell_group(sign)
            self.wait(KILL_AFTER_S, sleep=sleep)
        self.kill_group()


def _is_ready(alarm: int | None) -> bool:
    return alarm is not None and bool(select.select([alarm], [], [], 0)[0])


def _end_with(parent: int) -> None:
    """Have the load end with whoever began it, killed or not: a server is left without a load that nobody measures."""
    if not end_with(parent, signal.SIGTERM):
        os._exit(1)
