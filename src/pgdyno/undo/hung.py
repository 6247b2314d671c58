"""Bring down a server that neither answers nor stops when it is asked to, so that it can be started again."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from pgdyno.control import sighup
from pgdyno.linux import processes
from pgdyno.linux.identity import wait_until
from pgdyno.server import health, postmaster_lock
from pgdyno.server.health import Address, Health

ANSWER_S = 5.0
QUIT_S = 20.0


def revive_or_end(
    data_directory: Path, address: Address | None, *, sleep: Callable[[float], None] = time.sleep
) -> str | None:
    """Let a silent server go on if it was only stopped, else end it; return what was done, None when it answers.

    A stopped process (SIGSTOP, a debugger, a frozen container that thawed) goes on with SIGCONT. Else an immediate
    shutdown (SIGQUIT), then SIGKILL for the postmaster and all of its children: committed data survive both, the
    next start recovers them from WAL. Only for a data directory of this host; a server that is down is left alone.
    """
    process = sighup.postmaster(data_directory)
    if process is None or address is None or health.ask(address) is not Health.SILENT:
        return None
    pid = process.pid
    family = [pid, *(child.pid for child in processes.children_of(pid))]
    _signal(family, signal.SIGCONT)
    if wait_until(lambda: health.ask(address) is not Health.SILENT, timeout_s=ANSWER_S, sleep=sleep, step_s=0.2):
        return f"server process {pid} had been stopped and runs again"
    _signal([pid], signal.SIGQUIT)
    if not wait_until(lambda: not processes.alive(pid), timeout_s=QUIT_S, sleep=sleep):
        _signal([pid, *(child.pid for child in processes.children_of(pid))], signal.SIGKILL)
    postmaster_lock.wait_gone(data_directory)
    return f"server process {pid} did not answer and was ended"


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
