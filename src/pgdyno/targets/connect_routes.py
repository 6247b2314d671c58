"""Make a target of a server that is not reached through its files: a Patroni cluster, or SQL and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from psycopg.conninfo import make_conninfo

from pgdyno.control import CommandControl, PatroniControl
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux.cpu import CpuGroup, ServerCpu
from pgdyno.owner.runner import LocalRunner
from pgdyno.routes.patroni_route import PatroniRoute
from pgdyno.routes.sql_route import SqlRoute
from pgdyno.server import binaries, postmaster_lock
from pgdyno.server.patroni_api import PatroniApi
from pgdyno.server.postgres import Postgres
from pgdyno.targets.connect import look, meet, open_target, seen_target, server_cpu
from pgdyno.targets.target import Target


def open_server(
    dsn: str | None,
    *,
    restart_command: Sequence[str] | None = None,
    api: PatroniApi | None = None,
    sql_only: bool = False,
    to_read: bool = False,
) -> Target:
    """Open a server the way that was asked for: behind Patroni, by SQL alone, or by its files (`open_target`).

    `dsn` is libpq's, None for its defaults. `api` is that of the Patroni cluster, None where there is none, and goes
    before `sql_only`. `restart_command` is a person's own way to restart the server, as an argument list, None for
    none; Patroni restarts without it. With `to_read`, which counts for SQL alone, a role that may set nothing that way
    is taken, too.
    """
    if api is not None:
        return open_patroni(api, dsn)
    if sql_only:
        return open_sql_only(dsn, restart_command=restart_command, to_read=to_read)
    return open_target(dsn, restart_command=restart_command)


def open_patroni(api: PatroniApi, dsn: str | None = None) -> Target:
    """Return the cluster behind Patroni's API as a target: its sessions follow the leader, its control is Patroni.

    `dsn` gives role and database; hosts in it overrule the addresses that Patroni publishes. Changes nothing. Raises
    ConnectError when neither API nor leader answers, EnvironmentUnsuitable for a cluster without members.
    """
    api = api.with_members()
    postgres = _following_leader(api, dsn or "")
    _, sighting = look(postgres)
    found, pid, _ = seen_target(postgres, sighting, LocalRunner())
    return replace(
        found,
        name=f"Patroni {postgres.label}",
        control=PatroniControl(api, postgres),
        cpu=_leader_cpu(found.directory, pid, sighting.unseen),
        route=PatroniRoute.open(api, postgres),
    )


def open_sql_only(dsn: str | None, *, restart_command: Sequence[str] | None = None, to_read: bool = False) -> Target:
    """Return a server of which only SQL is used: settings by ALTER SYSTEM, no look at its host, its files or CPU.

    Without `restart_command` it cannot be restarted. Changes nothing. Raises ConnectError when there is no session,
    and what `SqlRoute.open` raises; with `to_read` there is no route then.
    """
    runner = LocalRunner()
    postgres, _ = meet(dsn or "")
    client = binaries.client_bin_dir(None)
    route: SqlRoute | None = None
    try:
        route = SqlRoute.open(postgres)
    except EnvironmentUnsuitable:
        if not to_read:
            raise
    return Target(
        name=postgres.label,
        postgres=postgres,
        runner=runner,
        control=None if restart_command is None else CommandControl(tuple(restart_command), runner, postgres),
        bin_dir=client or Path("/usr/bin"),
        os_user=None,
        disposable=False,
        directory=None,
        cpu=ServerCpu.unavailable("only SQL is used (--sql-only)"),
        client_bin_dir=client,
        local=False,
        route=route,
        no_control=None if restart_command else "only SQL is used (--sql-only), and SQL cannot restart a server",
    )


def _following_leader(api: PatroniApi, dsn: str) -> Postgres:
    given = Postgres(dsn).parameters
    if "host" in given or "hostaddr" in given:
        return Postgres(make_conninfo(dsn, target_session_attrs="read-write"))
    members = [member for member in api.members() if member.host]
    if not members:
        raise EnvironmentUnsuitable("the Patroni cluster has no members", hint="See patronictl list.")
    hosts = ",".join(member.host for member in members)
    ports = ",".join(str(member.port) for member in members)
    return Postgres(make_conninfo(dsn, host=hosts, port=ports, target_session_attrs="read-write"))


def _leader_cpu(directory: Path | None, pid: int | None, unseen: str) -> ServerCpu:
    """Return the meter of this host's node while it leads: after a failover its CPU time is not the leader's."""
    if directory is None or pid is None:
        return server_cpu(directory, pid, unseen)

    def postmaster() -> int | None:
        return None if (directory / "standby.signal").exists() else postmaster_lock.postmaster_pid(directory)

    return ServerCpu(postmaster, CpuGroup.holding(pid) or CpuGroup.dedicated(pid))
