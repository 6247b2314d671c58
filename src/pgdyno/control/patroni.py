"""Control of a cluster that Patroni runs, through its REST API: the cluster is addressed, never a node."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from pgdyno.control.protocol import TIMEOUT_S, check_mode, restart_errors
from pgdyno.errors import ConnectError, EnvironmentUnsuitable, RestartError
from pgdyno.server.patroni_api import Member, PatroniApi
from pgdyno.server.postgres import Postgres

_BUSY = "already in progress"
"""How Patroni refuses a restart while it promotes, demotes or restarts a member (HTTP 503, 2.1 to 4)."""


@dataclass(frozen=True, slots=True)
class PatroniControl:
    """Restart and reload every member that needs it; `postgres` names all members and follows the leader.

    Standbys that wait for a restart go first, one after another, then the leader: a configuration with which
    PostgreSQL does not start fails on a standby, while the leader still serves.
    """

    api: PatroniApi
    postgres: Postgres
    timeout_s: float = TIMEOUT_S
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def start(self) -> None:
        """Wait until the cluster has a leader that takes sessions, and restart members that are down meanwhile."""
        deadline = self.clock() + self.timeout_s
        tried: set[str] = set()
        while not self.is_running():
            if self.clock() >= deadline:
                raise RestartError(
                    f"the Patroni cluster has no running leader after {self.timeout_s:g} s",
                    detail=self._states(),
                    hint="See patronictl list and the logs of the nodes.",
                )
            for member in self._members():
                if member.state in ("stopped", "start failed", "crashed") and member.name not in tried:
                    tried.add(member.name)
                    self._revive(member)
            self.sleep(0.5)
        self._wait_ready()

    def stop(self, mode: str = "fast") -> None:
        """Refuse: Patroni keeps PostgreSQL running, and starts one that somebody stops."""
        check_mode(mode)
        raise RestartError(
            "a server that Patroni runs cannot be stopped", hint="systemctl stop patroni on its node stops both."
        )

    def restart(self) -> None:
        """Restart standbys that wait for it, then the leader, and wait; see `Control.restart`."""
        self.start()
        for member in self._members():
            if not member.is_leader and member.is_up and self._waits(member):
                self._restart(member)
        leader = self._leader()
        self._restart(leader)
        self._wait_ready()
        after = self._leader()
        if after.name != leader.name and self._waits(after):  # a failover during the restart
            self._restart(after)
            self._wait_ready()

    def reload(self) -> None:
        """Make every running member reload; see `Control.reload`."""
        members = [member for member in self._members() if member.is_up]
        if not any(member.is_leader for member in members):
            raise RestartError("the Patroni cluster has no running leader", detail=self._states())
        for member in members:
            try:
                self.api.reload(member)
            except ConnectError as error:
                if member.is_leader:
                    raise RestartError(
                        f'leader "{member.name}" could not be reloaded', detail=error.detail, hint=error.hint
                    ) from error
            except EnvironmentUnsuitable as error:
                raise RestartError(
                    f'member "{member.name}" could not be reloaded', detail=error.one_line, hint=error.hint
                ) from error

    def is_running(self) -> bool:
        """Tell whether the cluster has a leader whose PostgreSQL runs; without an answer, whether the server has."""
        try:
            leader = self.api.leader()
        except EnvironmentUnsuitable:
            return self.postgres.answers()
        return leader is not None and leader.is_up

    def _restart(self, member: Member) -> None:
        deadline = self.clock() + self.timeout_s
        while not self._has_restarted(member, deadline):
            self.sleep(1.0)
        while not any(other.name == member.name and other.is_up for other in self._members()):
            if self.clock() >= deadline:
                raise RestartError(f'member "{member.name}" did not come up', detail=self._states())
            self.sleep(0.2)

    def _has_restarted(self, member: Member, deadline: float) -> bool:
        """Restart a member; False while Patroni is busy with something else there, such as a promotion."""
        try:
            self.api.restart(member, self.timeout_s)
        except EnvironmentUnsuitable as error:
            said = error.detail or error.message
            if _BUSY in said and self.clock() < deadline:
                return False
            raise RestartError(
                f'Patroni did not restart member "{member.name}"',
                detail=said,
                hint=f"See the log of PostgreSQL on {member.host}.",
            ) from error
        return True

    def _revive(self, member: Member) -> None:
        try:
            self.api.restart(member, self.timeout_s)
        except EnvironmentUnsuitable:
            return  # Patroni goes on trying, and says in its log why it fails

    def _leader(self) -> Member:
        leader = next((member for member in self._members() if member.is_leader), None)
        if leader is None:
            raise RestartError("the Patroni cluster has no leader", detail=self._states())
        return leader

    def _members(self) -> tuple[Member, ...]:
        with restart_errors("cannot ask Patroni"):
            return self.api.members()

    def _waits(self, member: Member) -> bool:
        try:
            return self.api.pending_restart(member)
        except EnvironmentUnsuitable as error:
            raise RestartError(
                f'cannot ask member "{member.name}"', detail=error.detail or error.message, hint=error.hint
            ) from error

    def _states(self) -> str:
        return ", ".join(f"{member.name} ({member.role}): {member.state}" for member in self._members())

    def _wait_ready(self) -> None:
        try:
            self.postgres.wait_ready(self.timeout_s, clock=self.clock, sleep=self.sleep)
        except ConnectError as error:
            raise RestartError("the leader takes no session", detail=error.detail, hint=error.hint) from error
