"""Control by a command that the user names."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgdyno.control.protocol import TIMEOUT_S, check_mode, reload_by_sql
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, RestartError, UsageError
from pgdyno.owner.inherited import ProgramKind
from pgdyno.owner.runner import Runner
from pgdyno.server.postgres import Postgres

ACTION = "{action}"


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
        check_mode(mode)
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
        reload_by_sql(self.postgres, f'server "{self.postgres.label}" could not be reloaded')

    def is_running(self) -> bool:
        """Tell whether the server answers, even if it only says that it is starting or refuses us."""
        return self.postgres.answers()

    def _run(self, action: str) -> None:
        argv = [word.replace(ACTION, action) for word in self.argv]
        try:
            # An agent's socket is for ssh, not for a server that the command may start.
            kind = ProgramKind.PERSONAL if any(Path(word).name == "ssh" for word in argv) else ProgramKind.PROGRAM
            self.runner.run(argv, timeout_s=self.timeout_s, kind=kind)
        except EnvironmentUnsuitable as error:
            raise RestartError(
                f"cannot {action} the server: {error.message}",
                detail=error.detail,
                hint="Run the command by hand, and fix it or --restart-command.",
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
