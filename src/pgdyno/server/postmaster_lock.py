"""The lock files of a dead postmaster, which can keep PostgreSQL from starting again.

PostgreSQL takes a lock file for alive as long as its number answers a signal. A postmaster that was killed answers as
a zombie until its parent reaps it, which takes a moment, or for ever in a container whose first process reaps
nothing. A number can also have gone to another process since a reboot.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable, RestartError
from pgdyno.linux import processes
from pgdyno.linux.processes import PROC, account_of, alive, number_in, read_stat
from pgdyno.owner.hands import Hands, hands_of

DEATH_TIMEOUT_S = 60.0
REAP_TIMEOUT_S = 0.5
_PORT_LINE, _SOCKET_DIR_LINE = 3, 4


def clear(data_directory: Path, *, reused: bool = False, sleep: Callable[[float], None] = time.sleep) -> None:
    """Remove the lock files of a postmaster that is dead for certain; do nothing when one serves the directory.

    Waits for backends that outlive it. Certain is: its number belongs to a zombie that nobody reaps; with `reused`,
    also that it belongs to a process that works elsewhere, which only holds where no other container can have the
    directory. All else is left to PostgreSQL's own check.
    """
    lines = read_lines(data_directory)
    if not lines or postmaster_pid(data_directory) is not None:
        return
    wait_gone(data_directory, sleep=sleep)
    waited_s = 0.0
    while _is_zombie(int(lines[0])) and waited_s < REAP_TIMEOUT_S:
        sleep(0.05)
        waited_s += 0.05
    if _is_zombie(int(lines[0])) or (reused and processes.read_stat(int(lines[0])) is not None):
        hands = hands_of(data_directory)
        hands.remove(data_directory / "postmaster.pid")
        if len(lines) > _SOCKET_DIR_LINE and lines[_SOCKET_DIR_LINE] and processes.number_in(lines[_PORT_LINE]):
            _unlink_socket_lock(hands, Path(lines[_SOCKET_DIR_LINE]), lines[_PORT_LINE], lines[0])


def read_lines(data_directory: Path) -> list[str]:
    """Return the lines of postmaster.pid: pid, directory, start, port, socket folder ...; none without the file."""
    try:
        text = hands_of(data_directory).read_text(data_directory / "postmaster.pid")
    except (FileNotFoundError, NotADirectoryError):
        return []
    lines = [line.strip() for line in text.splitlines()]
    return lines if lines and processes.number_in(lines[0]) is not None else []


def port(data_directory: Path) -> int | None:
    """Return the port in postmaster.pid, None without the file."""
    lines = read_lines(data_directory)
    return processes.number_in(lines[_PORT_LINE]) if len(lines) > _PORT_LINE else None


def wait_gone(
    data_directory: Path,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until no process works in the data directory. Raise RestartError when the time is over."""
    deadline = clock() + DEATH_TIMEOUT_S
    while data_directory.is_dir() and processes.processes_in(data_directory):
        if clock() >= deadline:
            raise RestartError(
                f'processes of the server in "{data_directory}" did not end within {DEATH_TIMEOUT_S:g} s'
            )
        sleep(0.02)


def _is_zombie(pid: int) -> bool:
    stat = processes.read_stat(pid)
    return stat is not None and stat.state in ("Z", "X") and stat.command in ("postgres", "postmaster")


def _unlink_socket_lock(hands: Hands, folder: Path, port: str, pid: str) -> None:
    lock = folder / f".s.PGSQL.{port}.lock"
    try:
        first = hands.read_text(lock).partition("\n")[0].strip()
        if first == pid:
            hands.remove(lock)
    except OSError:  # PostgreSQL's own check decides about what stays
        return


def postmaster_pid(data_directory: Path) -> int | None:
    """Return the pid of the postmaster that serves this directory, or None when none does.

    A `postmaster.pid` left by a crash, whose number belongs to nobody or to another program by now, is None. The
    proof is that a postmaster's working directory is its data directory, and that it runs as the account that owns the
    directory: a number in a file that somebody else can write must not lead to a process of a third one. Raises
    EnvironmentUnsuitable when the file cannot be read by this user.
    """
    path = data_directory / "postmaster.pid"
    try:
        pid = number_in(hands_of(data_directory).read_text(path).partition("\n")[0])
        return pid if pid is not None and alive(pid) and _serves(pid, data_directory) else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise EnvironmentUnsuitable(
            f'file "{path}" cannot be read',
            detail=str(error),
            hint="Run pgdyno as root or as the server's own user; with --sql-only it looks at no file of the server.",
        ) from error


def _serves(pid: int, data_directory: Path) -> bool:
    try:
        if account_of(pid) != data_directory.stat().st_uid:
            return False
        return (PROC / str(pid) / "cwd").samefile(data_directory)
    except FileNotFoundError:
        return False
    except PermissionError:
        stat = read_stat(pid)
        return stat is not None and stat.command in ("postgres", "postmaster")
