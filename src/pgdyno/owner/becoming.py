"""How a process of root's becomes another account for good. Imports little: each worker begins with it."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Sequence

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38


def parse_ids(text: str) -> tuple[int, int, tuple[int, ...]]:
    """Return user id, group id and groups of a word `UID:GID:GROUP,...`. Raises ValueError on anything else."""
    uid, gid, groups = text.split(":")
    return int(uid), int(gid), tuple(int(group) for group in groups.split(",") if group)


def become_ids(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Take on this identity for good: no way back, no new rights by exec, no look into our memory.

    To be called by root in a process that has nothing else to do as root. Raises OSError when the kernel refuses.
    """
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid,) * 3 or uid == 0:
        raise PermissionError(f"this process did not become user {uid}")
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
