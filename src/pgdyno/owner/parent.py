"""A process that is to end with its parent: what a night's runner starts must not outlive a kill of the runner, and
what writes a server's files must not outlive the one who puts them back or leaves that to the watchdog.
"""

from __future__ import annotations

import ctypes
import os
import signal

PARENT = "PGDYNO_RUNNER"
"""The environment variable that holds the process id of the runner."""
_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl
"""Looked up here: what is called between fork and exec takes no lock."""


def end_with_parent() -> None:
    """Have the kernel send us SIGTERM when the runner that started us dies (prctl(2)); without a runner do nothing.

    SIGTERM restores, as ever. Raises SystemExit when the runner is gone already.
    """
    runner = os.environ.pop(PARENT, None)
    if runner is None:
        return
    if not end_with(int(runner), signal.SIGTERM):
        raise SystemExit(f"the runner {runner} of this job is gone")


def end_with(parent: int, by: signal.Signals) -> bool:
    """Have the kernel send us a signal when the thread that started us ends (prctl(2)); False when it is gone already.

    To be called after the last change of user: that takes it back.
    """
    _prctl(_PR_SET_PDEATHSIG, int(by))
    return os.getppid() == parent
