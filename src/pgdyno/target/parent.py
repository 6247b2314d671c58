"""A process that is to end with its parent: what a night's runner starts must not outlive a kill of the runner."""

from __future__ import annotations

import ctypes
import os
import signal

PARENT = "PGDYNO_RUNNER"
"""The environment variable that holds the process id of the runner."""
_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """Have the kernel send us SIGTERM when the runner that started us dies (prctl(2)); without a runner do nothing.

    SIGTERM restores, as ever. Raises SystemExit when the runner is gone already.
    """
    runner = os.environ.pop(PARENT, None)
    if runner is None:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if str(os.getppid()) != runner:
        raise SystemExit(f"the runner {runner} of this job is gone")
