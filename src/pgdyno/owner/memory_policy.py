"""The NUMA policy of a process (set_mempolicy(2)), as `numactl --interleave=all pg_ctl start` gives a server one.

It is read of another process from the first line of /proc/PID/numa_maps (numa(7)) and survives execve(2). Standard
library only.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
from pathlib import Path

_CALLS = {"x86_64": 238, "aarch64": 237, "riscv64": 237, "ppc64le": 261, "ppc64": 261, "s390x": 270}
_MODES = ("default", "prefer", "bind", "interleave", "local", "prefer (many)", "weighted interleave")
"""As the kernel numbers them (mempolicy.h) and numa_maps writes them."""
_FLAGS = {"": 0, "static": 1 << 15, "relative": 1 << 14, "balancing": 1 << 13}
_POLICY = re.compile(rb"[0-9a-f]+ (prefer \(many\)|weighted interleave|[a-z]+)(?:=([a-z]+))?(?::([0-9,-]+))?[ \n]")
_MOST_NODES = 1024
_FIRST_LINE = 256


def read(pid: int, proc: Path = Path("/proc")) -> str:
    """Return the policy, such as `default` or `interleave:0-1`. Raises OSError, also where the kernel has none."""
    descriptor = os.open(proc / str(pid) / "numa_maps", os.O_RDONLY | os.O_CLOEXEC)
    try:  # no more than the first mapping is asked for: to count the pages of shared memory would take long
        found = _POLICY.match(os.read(descriptor, _FIRST_LINE))
    finally:
        os.close(descriptor)
    if found is None:
        raise OSError(f"/proc/{pid}/numa_maps is not understood")
    mode, flag, nodes = (None if part is None else part.decode() for part in found.groups())
    return f"{mode}{'=' + flag if flag else ''}{':' + nodes if nodes else ''}"


def write(policy: str) -> None:
    """Give this process a policy that `read` has returned. Raises OSError where the kernel refuses it."""
    words, _, nodes = policy.partition(":")
    mode, _, flag = words.partition("=")
    call = _CALLS.get(platform.machine())
    if call is None or mode not in _MODES or flag not in _FLAGS:
        raise OSError(f'the policy "{policy}" is not known on {platform.machine()}')
    bits = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask = (ctypes.c_ulong * (_MOST_NODES // bits))()
    for node in _numbers(nodes):
        mask[node // bits] |= 1 << node % bits
    library = ctypes.CDLL(None, use_errno=True)
    number = _MODES.index(mode) | _FLAGS[flag]
    most = ctypes.c_ulong(_MOST_NODES if nodes else 0)
    if library.syscall(ctypes.c_long(call), ctypes.c_long(number), mask if nodes else None, most) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    if found and max(found) >= _MOST_NODES:
        raise OSError(f"node {max(found)} is out of range")
    return found
