"""Which server a verb is asked to work on; apart from what studies ask for, so that looking loads little."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import UsageError
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
                f"--patroni and {other} exclude each other", hint="Patroni restarts its servers itself: leave it out."
            )
        if self.host is not None and (self.patroni or self.sql_only):
            other = "--sql-only" if self.sql_only else "--patroni"
            raise UsageError(
                f"--host and {other} exclude each other", hint="Leave --host out: the other way needs no host."
            )
        if self.sandbox_memory is not None and (self.dsn is not None or self.host is not None):
            raise UsageError("--sandbox-memory is for the sandbox", hint="Leave --target and --host out.")
        if self.sql_only and self.dsn is None:
            raise UsageError("--sql-only needs a server", hint="Name it: --target 'host=db1 dbname=app user=dba'.")

    def patroni_api(self) -> PatroniApi | None:
        """Return the API that was named, None when none was."""
        if not self.patroni:
            return None
        return PatroniApi(self.patroni, self.patroni_auth, self.patroni_ca, self.patroni_cert)

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values. A conninfo with a password in it is left out: it is asked for again on resume."""
        secret = self.dsn is not None and ("password" in self.dsn or _URI_PASSWORD.match(self.dsn))
        return {
            "dsn": None if secret else self.dsn,
            "needs_dsn": bool(secret),
            "restart_command": list(self.restart_command) if self.restart_command else None,
            "sandbox": self.sandbox,
            "sandbox_bin": str(self.sandbox_bin) if self.sandbox_bin else None,
            "keep": self.keep,
            "host": self.host,
            "sudo_user": self.sudo_user,
            "patroni": list(self.patroni),
            "patroni_auth": str(self.patroni_auth) if self.patroni_auth else None,
            "patroni_ca": str(self.patroni_ca) if self.patroni_ca else None,
            "patroni_cert": str(self.patroni_cert) if self.patroni_cert else None,
            "sql_only": self.sql_only,
            "loopback": self.loopback,
            "sandbox_memory": self.sandbox_memory,
            "keep_data": self.keep_data,
        }

    @classmethod
    def from_json(cls, values: Mapping[str, object], dsn: str | None = None) -> TargetRequest:
        """Rebuild the request; `dsn` replaces a conninfo that was not kept."""
        if values.get("needs_dsn") and dsn is None:
            raise UsageError(
                "the study's target had a password in its conninfo, which was not kept",
                hint="Give --target again, or put the password into ~/.pgpass.",
            )
        command, folder = values.get("restart_command"), values.get("sandbox_bin")
        stored, host, sudo_user = values.get("dsn"), values.get("host"), values.get("sudo_user")
        return cls(
            dsn=dsn if dsn is not None else (None if stored is None else str(stored)),
            restart_command=tuple(words(command)) or None,
            sandbox=str(values["sandbox"]),
            sandbox_bin=Path(str(folder)) if folder else None,
            keep=bool(values["keep"]),
            host=None if host is None else str(host),
            sudo_user=None if sudo_user is None else str(sudo_user),
            patroni=tuple(words(values.get("patroni"))),
            patroni_auth=_path(values.get("patroni_auth")),
            patroni_ca=_path(values.get("patroni_ca")),
            patroni_cert=_path(values.get("patroni_cert")),
            sql_only=bool(values.get("sql_only")),
            loopback=bool(values.get("loopback")),
            sandbox_memory=None if (bound := values.get("sandbox_memory")) is None else int(str(bound)),
            keep_data=bool(values.get("keep_data")),
        )


def words(value: object) -> list[str]:
    """Return a list of texts as it was stored; an empty one for anything else."""
    return [str(word) for word in value] if isinstance(value, list | tuple) else []


def _path(value: object) -> Path | None:
    return Path(str(value)) if value else None
