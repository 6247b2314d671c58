"""Whether the planned io_method (18) can work here. Pure."""

from __future__ import annotations

import errno
import os

from pgdyno.model.facts import Unknown
from pgdyno.preflight.connections import processes_of
from pgdyno.preflight.plan import StartPlan
from pgdyno.preflight.reading_host import StartHost
from pgdyno.preflight.reading_server import ServerReading
from pgdyno.preflight.result import Result, not_applicable, passed, refused
from pgdyno.units import bytes_text

_CHECK = "io_method"
_MEMCG_SINCE = (5, 12)
"""From this kernel on rings count as memory of the cgroup, before as locked memory (commit 26bfa89e25f4)."""
_RING_BYTES = 16 << 10
"""Locked memory of one ring: 64 entries of 64 bytes, 128 completions of 16 and headers are 3 pages; rounded up."""
_SPARE_FILES = 64
"""FD_MINFREE and NUM_RESERVED_FDS of fd.c (48 and 10), and the sockets."""
_WORKER = "Choose io_method = worker."


def io_method(plan: StartPlan, server: ServerReading, host: StartHost, probe: int | Unknown) -> Result:
    """Judge io_method: `worker` and `sync` always work; `io_uring` needs build, kernel, files and locked memory.

    The postmaster makes one ring for each process that may ever run, so it holds that many open files. `plan` has the
    settings of the next start, `server` the methods of its build, `host` the kernel's settings and the limits of the
    server's process. `probe` is the errno of making a ring as the server's account, 0 where that worked.
    """
    method = plan.text("io_method")
    if method is None:
        return not_applicable(_CHECK, "exists from 18 on")
    if not plan.restart:
        return not_applicable(_CHECK, "a reload does not change it")
    if method != "io_uring":
        return passed(_CHECK, f"{method} works everywhere", asked=method)
    if method not in server.io_methods:
        built = ", ".join(server.io_methods)
        return refused(_CHECK, "this build has no io_uring", asked=method, there=built, hint=_WORKER)
    return _granted(host, probe) or _room(processes_of(plan), host)


def _granted(host: StartHost, probe: int | Unknown) -> Result | None:
    if host.sysctl.get("kernel/io_uring_disabled") == "2":
        sentence = "kernel.io_uring_disabled = 2 forbids io_uring"
        return refused(_CHECK, sentence, asked="io_uring", there="disabled", hint=_WORKER)
    if isinstance(probe, Unknown):
        return not_applicable(_CHECK, probe.reason)
    if probe == 0:
        return None
    reason = {
        errno.EPERM: "a seccomp filter or kernel.io_uring_disabled forbids it",
        errno.ENOSYS: "the kernel has none",
        errno.ENOMEM: "too little memory may be locked",
    }.get(probe, os.strerror(probe).lower())
    sentence = f"the kernel refuses io_uring to the server's user: {reason}"
    there = errno.errorcode.get(probe, str(probe))
    return refused(_CHECK, sentence, asked="io_uring", there=there, hint=_WORKER)


def _room(rings: int, host: StartHost) -> Result:
    files, locked = host.limits.open_files, host.limits.locked_bytes
    if files is not None and rings + _SPARE_FILES > files:
        return refused(
            _CHECK,
            f"io_uring opens {rings} rings in the postmaster, and {host.limits.source} may open {files} files",
            asked=f"{rings + _SPARE_FILES} files",
            there=f"{files} files",
            hint=f"Raise ulimit -n (LimitNOFILE of the unit) to {rings + _SPARE_FILES}, or lower max_connections.",
        )
    need = rings * _RING_BYTES
    if locked is not None and _kernel(host) < _MEMCG_SINCE and need > locked:
        return refused(
            _CHECK,
            f"io_uring locks about {bytes_text(need)}, and {host.limits.source} may lock {bytes_text(locked)}",
            asked=bytes_text(need),
            there=bytes_text(locked),
            hint="Raise ulimit -l (LimitMEMLOCK of the unit), or choose io_method = worker.",
        )
    there = "no limit" if files is None else f"{files} files"
    return passed(_CHECK, "io_uring is granted", asked=f"{rings} rings", there=there)


def _kernel(host: StartHost) -> tuple[int, ...]:
    words = host.sysctl.get("kernel/osrelease", "").split("-")[0].split(".")
    return tuple(int(word) for word in words[:2] if word.isdigit())
