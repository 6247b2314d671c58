"""A session as those see it who run trials: on this host `apply.Session`, on another one `remote.session`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

from pgdyno.model.configuration import Configuration
from pgdyno.undo.applied import Applied, When
from pgdyno.undo.restore import Restored


class ServerSession(Protocol):
    """The one writer of a server's configuration; its end restores the server. See `apply.Session`."""

    @property
    def id(self) -> str:
        """Return the session's name, for `pgdyno rollback`."""

    def record_process(self, pid: int, kind: str) -> None:
        """Note a process of this machine that must not outlive the session, such as a load generator."""

    def apply(
        self, configuration: Configuration, *, restart: When = "as-needed", databases: Sequence[str] = ()
    ) -> Applied:
        """Bring a configuration into force and prove it; see `apply.Session.apply`."""

    def keep(self) -> None:
        """End the session with its configuration in force; see `apply.Session.keep`."""

    def expect(self, doing: str, within_s: float | None = None) -> None:
        """Tell the watchdog what comes now, and by when we will be heard of again."""

    def rollback(self) -> Restored:
        """Restore the server as it was found; idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
