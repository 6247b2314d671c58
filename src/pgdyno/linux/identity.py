"""Know a process again, also after its number was given to another one, and end it.

A process is named by its number, its start time in clock ticks since boot, and the boot (proc(5), `stat` field 22 and
`/proc/sys/kernel/random/boot_id`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from pgdyno.linux import processes


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process as it can be told from every later one. `start_ticks` counts from the boot."""

    pid: int
    start_ticks: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Identify a running process; None when there is no such process or it has ended."""
        stat = processes.read_stat(pid)
        if stat is None or stat.state in ("Z", "X"):
            return None
        return cls(pid, stat.started_ticks, (processes.PROC / "sys/kernel/random/boot_id").read_text().strip())

    @classmethod
    def own(cls) -> ProcessIdentity:
        """Identify this process."""
        identity = cls.of(os.getpid())
        assert identity is not None
        return identity

    def is_alive(self) -> bool:
        """Return True while this very process runs; a zombie has ended."""
        return ProcessIdentity.of(self.pid) == self


def pid_namespace() -> str:
    """Return the name of the namespace that this process's number belongs to: a container has one of its own."""
    return str((processes.PROC / "self/ns/pid").readlink())


def uptime() -> float:
    """Return the seconds since this host started, those of a suspend included: a clock that nobody can set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def end_process(process: ProcessIdentity, *, grace_s: float = 5.0, sleep: Callable[[float], None] = time.sleep) -> bool:
    """End a process that outlived its owner: SIGTERM, and SIGKILL after the grace time.

    Returns True when there was something to end. The signal goes through a pidfd that is opened before the identity
    is checked, so that it cannot reach a later process of the same number.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if not process.is_alive():
            return False
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
            if wait_until(lambda: not process.is_alive(), timeout_s=grace_s, sleep=sleep):
                break
        return True
    finally:
        os.close(descriptor)


def wait_until(
    condition: Callable[[], bool],
    *,
    timeout_s: float,
    sleep: Callable[[float], None] = time.sleep,
    step_s: float = 0.05,
) -> bool:
    """Poll a condition until it holds; False when it did not within about `timeout_s` of sleeping.

    Between two looks `sleep` is called with `step_s`; both times are in seconds. What `condition` itself takes is not
    counted.
    """
    waited_s = 0.0
    while not condition():
        if waited_s >= timeout_s:
            return False
        sleep(step_s)
        waited_s += step_s
    return True
