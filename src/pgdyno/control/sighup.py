"""Have a postmaster of this host read its files, and be sure that it has, without a session and without a password.

What makes it sure: the kernel shows that the signal was taken (proc(5), `ShdPnd`), and after that the postmaster
answers a new connection. Until 15 it reads its files in the signal's handler; from 16 on its loop does so before it
accepts anybody (`ServerLoop` in postmaster.c). So whoever is answered after that is served by one that has read them.
Whether each line could be used is in the server's log alone.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, RestartError
from pgdyno.linux import processes
from pgdyno.linux.identity import ProcessIdentity, wait_until
from pgdyno.linux.small_files import read_small_bytes
from pgdyno.server import health, postmaster_lock
from pgdyno.server.health import Address, Health

TIMEOUT_S = 30.0
_ANSWERS = (Health.ALIVE, Health.FAILING)
_STATUS_LINE = 7
_READY = ("ready", "standby")


def postmaster(data_directory: Path) -> ProcessIdentity | None:
    """Identify the postmaster that serves this directory, None when none does.

    It runs as the directory's owner, as PostgreSQL demands: what else the owner wrote into postmaster.pid is not
    signalled. Raises EnvironmentUnsuitable when that file cannot be read by this user.
    """
    pid = postmaster_lock.postmaster_pid(data_directory)
    try:
        if pid is None or processes.account_of(pid) != data_directory.stat().st_uid:
            return None
    except OSError:
        return None
    return ProcessIdentity.of(pid)


def reload(
    data_directory: Path,
    address: Address | None,
    *,
    sleep: Callable[[float], None] = time.sleep,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Signal the postmaster, and return when it has read its files, and answers at `address` where that is known.

    It is the one that serves `data_directory`. It has `timeout_s` seconds to take the signal, and as many to answer;
    nobody waits for an answer where `address` is None. `sleep` is given the seconds to wait between two looks. Raises
    RestartError when there is none, when it ends meanwhile, or does not take the signal or answer in time,
    PermissionError when this user may not signal it, and EnvironmentUnsuitable when it cannot be asked for an answer.
    """
    process = postmaster(data_directory)
    if process is None:
        raise RestartError(f'no server runs in "{data_directory}"')
    send(process, signal.SIGHUP)
    taken = wait_until(lambda: not process.is_alive() or not _is_pending(process.pid), timeout_s=timeout_s, sleep=sleep)
    answered = address is None or wait_until(
        lambda: not process.is_alive() or health.ask(address) in _ANSWERS, timeout_s=timeout_s, sleep=sleep
    )
    if not process.is_alive():
        raise RestartError(f'the server in "{data_directory}" ended while it was asked to read its files')
    if not taken or not answered:
        raise RestartError(
            f'the server in "{data_directory}" did not {"answer" if taken else "take a signal"} within {timeout_s:g} s'
        )


def require_right(data_directory: Path) -> None:
    """See that a postmaster is there and takes signals of this user. Raises EnvironmentUnsuitable, PermissionError."""
    process = postmaster(data_directory)
    if process is None:
        raise EnvironmentUnsuitable(f'no server of the owner of "{data_directory}" runs there')
    send(process, 0)


def is_ready(data_directory: Path) -> bool:
    """Tell whether the postmaster takes sessions, by the status that it keeps in postmaster.pid."""
    return status(data_directory) in _READY


def status(data_directory: Path) -> str | None:
    """Return `starting`, `stopping`, `ready` or `standby`; None where nobody keeps one (miscadmin.h, 10 and later)."""
    lines = postmaster_lock.read_lines(data_directory)
    return lines[_STATUS_LINE] if len(lines) > _STATUS_LINE and postmaster(data_directory) is not None else None


def send(process: ProcessIdentity, number: int) -> None:
    """Signal this very process and no later one of its number. Raises RestartError when it is gone, PermissionError."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError as error:
        raise RestartError(f"server process {process.pid} is gone") from error
    try:
        if process.is_alive():
            signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def _is_pending(pid: int) -> bool:
    try:
        waiting = int(_field(pid, b"ShdPnd"), 16) | int(_field(pid, b"SigPnd"), 16)
    except OSError:  # it has ended
        return False
    return bool(waiting & (1 << (signal.SIGHUP - 1)))


def _field(pid: int, name: bytes) -> bytes:
    """Return a field of /proc/PID/status, which every user may read. Raises OSError where it is missing."""
    for line in read_small_bytes(f"{processes.PROC}/{pid}/status").split(b"\n"):
        if line.startswith(name + b":"):
            return line.partition(b":")[2].strip()
    raise OSError(f"/proc/{pid}/status has no {name.decode()}")
