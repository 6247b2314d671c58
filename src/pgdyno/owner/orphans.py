"""Workers whose process of root's was killed: they must have ended before anybody puts the files back.

The kernel kills a worker together with the one who started it (parent.py), but a call to a disk that hangs ends only
when the disk answers, and what it was about to do, such as a rename over a configuration file, is done then.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator

from pgdyno.errors import RollbackError
from pgdyno.linux import processes
from pgdyno.linux.identity import wait_until
from pgdyno.owner import worker
from pgdyno.owner.account import Account

WAIT_S = 10.0
_BOOT = worker.BOOT.encode()


def end_orphans(account: Account, *, wait_s: float = WAIT_S, sleep: Callable[[float], None] = time.sleep) -> None:
    """End the account's workers that nobody waits for any more. Raises RollbackError while one has not ended.

    Does nothing unless we are root: any other account does its work itself (hands.py).
    """
    if account.is_ours:
        return
    left: list[int] = []

    def ended() -> bool:
        left[:] = [pid for pid in _orphans(account.uid) if _kill(pid, account.uid)]
        return not left

    if not wait_until(ended, timeout_s=wait_s, sleep=sleep):
        raise RollbackError(
            f"process {left[0]} of a pgdyno that was killed still works on the server's files",
            detail="It was killed too and has not ended: a disk does not answer. What it was about to write may still "
            "appear.",
            hint="Find out what that disk waits for (dmesg, /proc/PID/stack); the undo bundle is kept for pgdyno "
            "rollback.",
        )


def _orphans(uid: int) -> Iterator[int]:
    for pid in processes.all_pids():
        with contextlib.suppress(OSError):
            if processes.account_of(pid) != uid:
                continue
            words, stat = processes.command_words(pid), processes.read_stat(pid)
            if _BOOT in words and stat is not None and not stat.has_ended and words[-2] != b"%d" % stat.parent:
                yield pid


def _kill(pid: int, uid: int) -> bool:
    """Kill a process of this account, and of no other that has its number meanwhile; False when it is gone."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        if processes.account_of(pid) != uid:
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
