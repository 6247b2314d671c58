"""Start, stop, restart and reload a server: by pg_ctl, by Debian's pg_ctlcluster, or by a command of the user's."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pgdyno.errors import ConnectError, EnvironmentUnsuitable, RestartError, UsageError
from pgdyno.target import postmaster_lock, processes
from pgdyno.target.postgres import Postgres
from pgdyno.target.runner import Completed, Runner

TIMEOUT_S = 300.0
"""A fast shutdown writes every dirty page: with gigabytes of shared buffers on a slow disk that takes minutes."""
STOP_MODES = ("smart", "fast", "immediate")
ACTION = "{action}"


class Control(Protocol):
    """Power over one server. Every method may be called in any state and returns when the state is reached."""

    def start(self) -> None:
        """Start the server and wait until it accepts sessions; do nothing when it runs. Raise RestartError."""

    def stop(self, mode: str = "fast") -> None:
        """Stop it (`smart`, `fast` or `immediate`) and wait; do nothing when it is down. Raise RestartError."""

    def restart(self) -> None:
        """Stop it fast if it runs, and start it. Raise RestartError."""

    def reload(self) -> None:
        """Make it read its configuration files again; the effect comes shortly after. Raise RestartError when down."""

    def is_running(self) -> bool:
        """Tell whether the server runs; a pid file that a crash left behind does not count."""


@dataclass(frozen=True, slots=True)
class PgCtl:
    """pg_ctl on a data directory of this host, as its owner `user` (None: as ourselves). PostgreSQL 13 to 18.

    `log_file` takes what the server writes to standard error. `options` go to the postmaster at start. `env` is for
    builds that need LD_LIBRARY_PATH. The server enters `cgroups` and lives in a session of its own: it outlives us.
    """

    runner: Runner
    bin_dir: Path
    data_directory: Path
    log_file: Path
    user: str | None = None
    timeout_s: float = TIMEOUT_S
    options: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    cgroups: Callable[[], Sequence[Path]] = field(default=tuple)

    def start(self) -> None:
        """Start the server and wait; see `Control.start`."""
        if self.is_running():
            return
        postmaster_lock.clear(self.data_directory)
        logged = _size(self.log_file)
        # pg_ctl hands -o to a shell: the one place where words must be quoted into a string.
        options = ("-o", shlex.join(self.options)) if self.options else ()
        done = self._pg_ctl("start", "-w", "-l", str(self.log_file), *options, cgroups=self.cgroups())
        if done.returncode != 0:
            raise RestartError(
                f'server in "{self.data_directory}" did not start',
                detail=_log_tail(self.log_file, logged) or done.stderr.strip() or done.stdout.strip(),
                hint=f'Read "{self.log_file}"; "pgdyno rollback" puts back a configuration that pgdyno changed.',
            )

    def stop(self, mode: str = "fast") -> None:
        """Stop the server and wait; see `Control.stop`."""
        _check_mode(mode)
        if not self.is_running():
            return
        done = self._pg_ctl("stop", "-w", "-m", mode)
        if done.returncode != 0 and self.is_running():
            raise RestartError(
                f'server in "{self.data_directory}" did not stop within {self.timeout_s:g} s',
                detail=done.stderr.strip() or done.stdout.strip(),
                hint="End the sessions that hold it up, or look for a slow disk: it is writing its checkpoint.",
            )

    def restart(self) -> None:
        """Stop the server fast and start it; see `Control.restart`."""
        self.stop()
        self.start()

    def reload(self) -> None:
        """Signal the postmaster; see `Control.reload`."""
        done = self._pg_ctl("reload")
        if done.returncode != 0:
            raise RestartError(f'server in "{self.data_directory}" could not be reloaded', detail=done.stderr.strip())

    def is_running(self) -> bool:
        """Tell whether a live postmaster serves the directory."""
        return processes.postmaster_pid(self.data_directory) is not None

    def _pg_ctl(self, action: str, *words: str, cgroups: Sequence[Path] = ()) -> Completed:
        seconds = str(int(self.timeout_s))
        command = [str(self.bin_dir / "pg_ctl"), action, "-D", str(self.data_directory)]
        waits = ["-t", seconds] if "-w" in words else []
        try:
            return self.runner.run(
                [*command, *waits, *words],
                env=dict(self.env),
                user=self.user,
                timeout_s=self.timeout_s + 30,
                check=False,
                cgroups=cgroups,
            )
        except EnvironmentUnsuitable as error:
            raise RestartError(f"cannot {action} the server: {error.message}", detail=error.detail) from error


@dataclass(frozen=True, slots=True)
class PgCtlCluster:
    """Debian's pg_ctlcluster, which knows where a cluster's configuration and log are, and asks systemd where it runs.

    Must run as root or as the cluster's owner.
    """

    runner: Runner
    version: str
    cluster: str
    data_directory: Path
    log_file: Path | None = None
    timeout_s: float = TIMEOUT_S

    def start(self) -> None:
        """Start the cluster and wait; see `Control.start`."""
        if self.is_running():
            return
        postmaster_lock.clear(self.data_directory)
        logged = _size(self.log_file) if self.log_file else 0
        done = self._pg_ctlcluster("start")
        if done.returncode != 0 or not self.is_running():
            raise RestartError(
                f'cluster "{self.version}/{self.cluster}" did not start',
                detail=(_log_tail(self.log_file, logged) if self.log_file else "") or done.stderr.strip(),
                hint='Read its log (pg_lsclusters shows where); "pgdyno rollback" puts back what pgdyno changed.',
            )

    def stop(self, mode: str = "fast") -> None:
        """Stop the cluster and wait; see `Control.stop`."""
        _check_mode(mode)
        if not self.is_running():
            return
        done = self._pg_ctlcluster("stop", "-m", mode)
        if self.is_running():
            raise RestartError(f'cluster "{self.version}/{self.cluster}" did not stop', detail=done.stderr.strip())

    def restart(self) -> None:
        """Stop the cluster fast and start it; see `Control.restart`."""
        self.stop()
        self.start()

    def reload(self) -> None:
        """Signal the postmaster; see `Control.reload`."""
        done = self._pg_ctlcluster("reload")
        if done.returncode != 0:
            raise RestartError(
                f'cluster "{self.version}/{self.cluster}" could not be reloaded', detail=done.stderr.strip()
            )

    def is_running(self) -> bool:
        """Tell whether a live postmaster serves the cluster's data directory."""
        return processes.postmaster_pid(self.data_directory) is not None

    def _pg_ctlcluster(self, action: str, *words: str) -> Completed:
        command = ["pg_ctlcluster", self.version, self.cluster, action, *words]
        return self.runner.run(command, timeout_s=self.timeout_s, check=False)


@dataclass(frozen=True, slots=True)
class CommandControl:
    """A command that the user names, as an argument list, for servers that something else manages.

    A word `{action}` in it stands for start, stop, restart or reload. Without one the command is taken to restart
    the server: reload goes through SQL then, and stop is impossible.
    """

    argv: tuple[str, ...]
    runner: Runner
    postgres: Postgres
    timeout_s: float = TIMEOUT_S
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        if not self.argv:
            raise UsageError("the restart command is empty", hint="Write --restart-command 'systemctl restart NAME'.")

    @property
    def takes_action(self) -> bool:
        """Tell whether the command has a word `{action}`."""
        return any(ACTION in word for word in self.argv)

    def start(self) -> None:
        """Run the command (a restart starts a server that is down) and wait; see `Control.start`."""
        if self.is_running():
            return
        self._run("start")
        self._wait_ready()

    def stop(self, mode: str = "fast") -> None:
        """Run the command with `stop`; its own mode counts, not `mode`. Raise RestartError without `{action}`."""
        _check_mode(mode)
        if not self.takes_action:
            raise RestartError(
                f'"{shlex.join(self.argv)}" can only restart the server, not stop it',
                hint="Write {action} where the command says restart: --restart-command 'systemctl {action} NAME'.",
            )
        if not self.is_running():
            return
        self._run("stop")
        deadline = self.clock() + self.timeout_s
        while self.is_running():
            if self.clock() >= deadline:
                raise RestartError(f'server "{self.postgres.label}" did not stop within {self.timeout_s:g} s')
            self.sleep(0.1)

    def restart(self) -> None:
        """Run the command and wait until the server accepts sessions; see `Control.restart`."""
        self._run("restart")
        self._wait_ready()

    def reload(self) -> None:
        """Run the command with `reload`, or call `pg_reload_conf()`, which needs the right to do so."""
        if self.takes_action:
            self._run("reload")
            return
        try:
            self.postgres.fetch("SELECT pg_reload_conf()")
        except EnvironmentUnsuitable as error:
            raise RestartError(
                f'server "{self.postgres.label}" could not be reloaded', detail=error.detail or error.message
            ) from error

    def is_running(self) -> bool:
        """Tell whether the server answers, even if it only says that it is starting or refuses us."""
        return self.postgres.answers()

    def _run(self, action: str) -> None:
        argv = [word.replace(ACTION, action) for word in self.argv]
        try:
            self.runner.run(argv, timeout_s=self.timeout_s)
        except EnvironmentUnsuitable as error:
            raise RestartError(
                f"cannot {action} the server: {error.message}",
                detail=error.detail,
                hint="Run the command by hand, and mend it or --restart-command.",
            ) from error

    def _wait_ready(self) -> None:
        try:
            self.postgres.wait_ready(self.timeout_s, clock=self.clock, sleep=self.sleep)
        except ConnectError as error:
            raise RestartError(
                f'server "{self.postgres.label}" did not come up within {self.timeout_s:g} s',
                detail=error.detail,
                hint='Read the server\'s log; "pgdyno rollback" puts back a configuration that pgdyno changed.',
            ) from error


def _check_mode(mode: str) -> None:
    if mode not in STOP_MODES:
        raise UsageError(f'stop mode "{mode}" is not one of {", ".join(STOP_MODES)}')


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _log_tail(path: Path, since: int, lines: int = 12) -> str:
    """Return the last lines that the log has grown by since that size."""
    try:
        with path.open("rb") as file:
            file.seek(max(since, _size(path) - 16_384))
            return "\n".join(file.read().decode(errors="replace").strip().splitlines()[-lines:])
    except OSError:
        return ""
