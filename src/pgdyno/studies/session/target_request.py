"""Which server a verb is asked to work on; apart from what studies ask for, so that looking loads little."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.errors import UsageError
from pgdyno.model.shapes import plain, shaped
from pgdyno.outside.secret_words import names_secret

if TYPE_CHECKING:
    from pgdyno.server.patroni_api import PatroniApi

_URI_PASSWORD = re.compile(r"^[a-z]+://[^/@]*:[^/@]*@")


@dataclass(frozen=True, slots=True)
class TargetRequest:
    """Which server: `dsn` None means the sandbox, whose other fields then count.

    With `host`, an address of ssh, `dsn` is meant as seen from there, and the agent works as `sudo_user` if given.
    `patroni` are addresses of the API of a Patroni cluster, of which `dsn` names role and database; its credentials
    are in the file `patroni_auth`. `sql_only` says that nothing but SQL may be used. `loopback` lets the sandbox listen
    on 127.0.0.1 while it is open.
    """

    dsn: str | None = None
    restart_command: tuple[str, ...] | None = None
    sandbox: str = "default"
    sandbox_bin: Path | None = None
    keep: bool = True
    host: str | None = None
    sudo_user: str | None = None
    patroni: tuple[str, ...] = ()
    patroni_auth: Path | None = None
    patroni_ca: Path | None = None
    patroni_cert: Path | None = None
    sql_only: bool = False
    loopback: bool = False
    sandbox_memory: int | None = None
    """Bound on the memory of the sandbox's server in bytes, page cache included."""
    keep_data: bool = False
    """Leave the databases of the load on the server when the study ends."""

    def __post_init__(self) -> None:
        if self.patroni and (self.sql_only or self.restart_command):
            other = "--sql-only" if self.sql_only else "--restart-command"
            raise UsageError(
                f"--patroni and {other} cannot be used together",
                hint="Patroni restarts its servers itself: leave it out.",
            )
        if self.host is not None and (self.patroni or self.sql_only):
            other = "--sql-only" if self.sql_only else "--patroni"
            raise UsageError(
                f"--host and {other} cannot be used together", hint="Leave --host out: the other way needs no host."
            )
        if self.sandbox_memory is not None and (self.dsn is not None or self.host is not None):
            raise UsageError("--sandbox-memory is for the sandbox", hint="Leave --target and --host out.")
        if self.sql_only and self.dsn is None:
            raise UsageError("--sql-only needs a server", hint="Name it: --target 'host=db1 dbname=app user=dba'.")

    def patroni_api(self) -> PatroniApi | None:
        """Return the API that was named, None when none was."""
        if not self.patroni:
            return None
        from pgdyno.server.patroni_api import PatroniApi

        return PatroniApi(self.patroni, self.patroni_auth, self.patroni_ca, self.patroni_cert)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values. A conninfo with a password in it is left out: it is asked for again on resume."""
        secret = self.dsn is not None and bool(names_secret(self.dsn) or _URI_PASSWORD.match(self.dsn))
        values = {name: plain(getattr(self, name)) for name in self.__slots__}
        return {**values, "dsn": None if secret else self.dsn, "needs_dsn": secret}

    @classmethod
    def from_json(cls, values: Mapping[str, object], dsn: str | None = None) -> TargetRequest:
        """Rebuild the request; `dsn` replaces a conninfo that was not kept."""
        if values.get("needs_dsn") and dsn is None:
            raise UsageError(
                "the study's target had a password in its conninfo, which was not kept",
                hint="Give --target again, or put the password into ~/.pgpass.",
            )
        request = shaped(cls, values, "the target", strict=False)
        return request if dsn is None else replace(request, dsn=dsn)
