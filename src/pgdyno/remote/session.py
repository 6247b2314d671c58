"""A session on another host: each call is carried out by the `apply.Session` of the agent there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from pgdyno.errors import ConnectError, PgdynoError, RollbackError
from pgdyno.model.configuration import Configuration
from pgdyno.model.shapes import shaped
from pgdyno.remote import wire
from pgdyno.remote.client import AgentClient
from pgdyno.undo.applied import Applied, When, damage_error
from pgdyno.undo.restore import Restored

log = logging.getLogger(__name__)


class RemoteSession:
    """A `session.ServerSession` of an agent.

    When the line is cut, the host restores the server by itself: the agent at once, its watchdog if the agent was
    killed. The end of the session then connects again (`again` gives another agent) and sees that this was done.
    """

    def __init__(
        self,
        name: str,
        client: AgentClient,
        again: Callable[[], AgentClient],
        reword: Callable[[PgdynoError], PgdynoError] = lambda error: error,
    ) -> None:
        self._name = name
        self._client = client
        self._again = again
        self._reword = reword
        self._is_cut_off = False

    @property
    def id(self) -> str:
        """Return the session's name, for `pgdyno rollback --host`."""
        return self._name

    def __enter__(self) -> RemoteSession:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            restored = self.rollback()
        except PgdynoError:
            raise
        except BaseException:
            self.rollback()  # an interrupt came while we waited for the host: it must not be left behind
            raise
        if not restored.is_whole:
            raise self._reword(damage_error(self.id, restored))

    def record_process(self, pid: int, kind: str) -> None:
        """Do nothing: the load generator runs here, where its number means a process, and is ended from here."""

    def apply(
        self, configuration: Configuration, *, restart: When = "as-needed", databases: Sequence[str] = ()
    ) -> Applied:
        """Bring a configuration into force on the host; see `apply.Session.apply` for what is raised."""
        given = {"settings": dict(configuration), "restart": restart, "databases": list(databases)}
        answer = self._client.call("apply", given)
        with wire.understood("the host"):
            return shaped(Applied, answer)

    def keep(self) -> None:
        """End the session on the host with its configuration in force; see `apply.Session.keep`."""
        self._client.call("keep")

    def expect(self, doing: str, within_s: float | None = None) -> None:
        """Tell the host's watchdog what comes now."""
        self._client.call("expect", {"doing": doing, "within_s": within_s})

    def rollback(self) -> Restored:
        """Restore the server; idempotent. Raises RollbackError when the host cannot say whether it did."""
        restored = self._rolled_back()
        for note in restored.notes:
            log.warning("session %s: %s", self.id, note)
        return restored

    def _rolled_back(self) -> Restored:
        if not self._is_cut_off and not self._client.is_cut:
            try:
                return self._restored(self._client.call("rollback"))
            except ConnectError:
                if not self._client.is_cut:
                    raise
        return self._rollback_over_another()

    def _rollback_over_another(self) -> Restored:
        self._is_cut_off = True
        try:
            if self._client.is_cut:
                self._client = self._again()
            answer = self._client.call("roll_back", {"id": self._name, "wait": True})
        except ConnectError as error:
            raise RollbackError(
                f"the connection was cut, and whether session {self._name} was rolled back could not be seen",
                detail=f"The host does it without us: its agent at once, else its watchdog. {error.message}",
                hint=f"See it with pgdyno rollback --list, roll back with pgdyno rollback {self._name}; both take "
                "the same --host.",
            ) from error
        return self._restored(answer)

    def _restored(self, answer: object) -> Restored:
        try:
            return shaped(Restored, answer)
        except ValueError as error:
            raise RollbackError(
                f"what the host said of the rollback of session {self._name} cannot be understood",
                detail=str(error),
                hint=f"See it with pgdyno rollback --list, roll back with pgdyno rollback {self._name}; both take "
                "the same --host.",
            ) from error
