"""Control by systemd, for a server that is the main process of a unit (systemctl(1), systemd.unit(5))."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pgdyno.control.protocol import TIMEOUT_S, Control, check_mode, last_lines, reload_by_sql, restart_errors
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, RestartError
from pgdyno.owner.runner import Completed, Runner
from pgdyno.server import postmaster_lock
from pgdyno.server.postgres import Postgres

START_LIMIT = "start-limit-hit"
_PROPERTIES = ("ActiveState", "SubState", "Result", "MainPID", "CanReload")
_UP = ("active", "reloading", "activating", "deactivating")


@dataclass(frozen=True, slots=True)
class UnitState:
    """What systemd says of a unit. `result` is why it last failed, `success` when it did not."""

    active: str
    sub: str
    result: str
    main_pid: int
    can_reload: bool

    @property
    def is_limited(self) -> bool:
        """Return True when systemd starts it no more, because it was started too often (StartLimitBurst)."""
        return self.result == START_LIMIT


def parse_state(text: str) -> UnitState:
    """Read the `NAME=VALUE` lines of `systemctl show`; a property that is missing is empty."""
    fields: Mapping[str, str] = dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)
    pid = fields.get("MainPID", "")
    return UnitState(
        active=fields.get("ActiveState", ""),
        sub=fields.get("SubState", ""),
        result=fields.get("Result", ""),
        main_pid=int(pid) if pid.isdecimal() else 0,
        can_reload=fields.get("CanReload") == "yes",
    )


@dataclass(frozen=True, slots=True)
class SystemdControl:
    """systemctl on a unit, as root or through `sudo -n`; never asks for a password.

    `data_directory` is None when we may not read it: then the server counts as running while the unit is up or the
    server answers. The unit's own ExecStop decides how sessions end, not `mode`. With `resets_limit` a start that
    systemd refuses because there were too many is tried once more after `reset-failed`: right for a restore, while
    a study must learn that its configurations do not start.
    """

    runner: Runner
    postgres: Postgres
    unit: str
    data_directory: Path | None = None
    sudo: bool = False
    resets_limit: bool = False
    timeout_s: float = TIMEOUT_S
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def start(self) -> None:
        """Start the unit and wait; see `Control.start`."""
        if self.is_running() and self.state().active == "active":
            return
        self._bring_up("start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the unit and wait; see `Control.stop`."""
        check_mode(mode)
        if not self.is_running() and self.state().active not in _UP:
            return
        done = self._systemctl("stop", self.unit)
        if self.is_running():
            raise RestartError(
                f'unit "{self.unit}" did not stop', detail=done.stderr.strip() or None, hint=self._hint("stop")
            )

    def restart(self) -> None:
        """Restart the unit, which starts one that is down; see `Control.restart`."""
        self._bring_up("restart")

    def reload(self) -> None:
        """Reload the unit, or call `pg_reload_conf()` where its file has no ExecReload; see `Control.reload`."""
        if self.state().can_reload:
            done = self._systemctl("reload", self.unit)
            if done.returncode != 0:
                raise RestartError(
                    f'unit "{self.unit}" could not be reloaded', detail=done.stderr.strip(), hint=self._hint("reload")
                )
            return
        failed = f'unit "{self.unit}" has no ExecReload and the server could not be reloaded by SQL'
        reload_by_sql(self.postgres, failed)

    def is_running(self) -> bool:
        """Tell whether a postmaster serves the data directory; where that cannot be seen, whether the unit is up."""
        if self.data_directory is not None:
            return postmaster_lock.postmaster_pid(self.data_directory) is not None
        return self.state().active in _UP or self.postgres.answers()

    def state(self) -> UnitState:
        """Ask systemd about the unit. No right is needed. Raise RestartError when systemd does not answer."""
        argv = ["systemctl", "show", f"--property={','.join(_PROPERTIES)}", self.unit]
        try:
            done = self.runner.run(argv, timeout_s=30, check=False)
        except EnvironmentUnsuitable as error:
            raise RestartError(
                f'systemd does not tell the state of unit "{self.unit}"',
                detail=error.one_line,
                hint=error.hint or f"See systemctl status {self.unit}.",
            ) from error
        if done.returncode != 0:
            raise RestartError(
                f'systemd does not tell the state of unit "{self.unit}"',
                detail=done.stderr.strip(),
                hint=f"See systemctl status {self.unit}.",
            )
        return parse_state(done.stdout)

    def _bring_up(self, action: str) -> None:
        done = self._systemctl(action, self.unit)
        if done.returncode != 0 and self.resets_limit and self.state().is_limited:
            self._systemctl("reset-failed", self.unit)
            done = self._systemctl(action, self.unit)
        if done.returncode != 0:
            raise self._not_started(action, done)
        try:
            self.postgres.wait_ready(self.timeout_s, clock=self.clock, sleep=self.sleep)
        except ConnectError as error:
            raise RestartError(
                f'unit "{self.unit}" is up, but its server takes no session', detail=error.detail, hint=error.hint
            ) from error

    def _not_started(self, action: str, done: Completed) -> RestartError:
        detail = self._log_tail() or done.stderr.strip() or None
        if self.state().is_limited:
            return RestartError(
                f'systemd refuses to {action} unit "{self.unit}": it was started too often (StartLimitBurst)',
                detail=detail,
                hint=f"systemctl reset-failed {self.unit} lets it start again; see why it ended before.",
            )
        return RestartError(f'unit "{self.unit}" did not {action}', detail=detail, hint=self._hint(action))

    def _hint(self, action: str) -> str:
        if self.sudo:
            return f"sudo -n systemctl --no-ask-password {action} {self.unit} must work without a password."
        return f"See systemctl status {self.unit} and journalctl -u {self.unit}."

    def _systemctl(self, *words: str) -> Completed:
        argv = [*(("sudo", "-n") if self.sudo else ()), "systemctl", "--no-ask-password", *words]
        with restart_errors(f'cannot {words[0]} unit "{self.unit}"', self._hint(words[0])):
            return self.runner.run(argv, timeout_s=self.timeout_s, check=False)

    def _log_tail(self) -> str:
        """Return the last lines of the unit's journal; nothing where there is no journal or no right to read it."""
        argv = ["journalctl", "--unit", self.unit, "--lines=100", "--no-pager", "--output=cat", "--quiet"]
        try:
            return last_lines(self.runner.run(argv, timeout_s=30, check=False).stdout)
        except EnvironmentUnsuitable:
            return ""


def for_restore(control: Control | None) -> Control | None:
    """Return the control as a restore needs it: nothing that only limits a study may keep the server down."""
    return replace(control, resets_limit=True) if isinstance(control, SystemdControl) else control
