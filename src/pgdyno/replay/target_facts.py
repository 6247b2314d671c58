"""What must be known of a target before anything is sent: who it is, and whether it has room and roles for the load."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.facts import Facts, Unknown
from pgdyno.outside.files import open_file
from pgdyno.owner.durable import Attributes
from pgdyno.owner.hands import hands_of
from pgdyno.replay.copy_proof import (
    MARKER,
    CopyMarker,
    DirectoryIdentity,
    ReplayTarget,
    RunningServer,
    has_place,
    is_captured,
    place_doubt,
    read_marker,
    refusal,
    source_doubt,
)
from pgdyno.replay.passfile import passwords_in
from pgdyno.server import places
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.trace.engine.plan import EndPoint
from pgdyno.trace.schema import CapturedServer
from pgdyno.units import plural

ALLOWED = "allowed-targets"
"""In the data folder: one target a line, as `pgdyno` calls it; replays, migrations and levels may change its data."""
_BEFORE = "replay-targets"
"""What it was called first; both are read."""
_LONGEST_LIST = 1 << 20
_ROOM = """
    SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
           - coalesce(current_setting('reserved_connections', true)::int, 0) -- since 16
           - (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend')::int AS free"""
_ROLES = "SELECT rolname::text AS name FROM pg_catalog.pg_roles WHERE rolcanlogin"
_DATABASES = "SELECT datname::text AS name FROM pg_catalog.pg_database WHERE datallowconn"

_POSITION = "SELECT pg_catalog.pg_current_wal_lsn()::text AS lsn"
_RUNNING = """
SELECT
  to_char(pg_catalog.pg_postmaster_start_time() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') || '+00:00' AS at,
  coalesce((SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory'), '') AS directory,
  coalesce(pg_catalog.host(pg_catalog.inet_server_addr()), '') AS address,
  pg_catalog.current_setting('port')::int AS port
"""
_WHO_IS_WHO = "The target has to be the copy, and --mark-copy to name the server that was captured."


@dataclass(frozen=True, slots=True)
class TargetRoom:
    """What a target has for sessions: names of roles that may log in, of databases, and connections that are free."""

    roles: frozenset[str]
    databases: frozenset[str]
    free: int


def identify(target: Target, facts: Facts) -> ReplayTarget:
    """Return who the target is; its data directory is read with its owner's rights."""
    server = facts.server
    directory, marker = _directory_of(target), None
    if target.directory is not None and target.remote is None:
        hands = hands_of(target.directory)
        if hands.look(target.directory / MARKER) is not None:
            marker = read_marker(hands.read(target.directory / MARKER))
    identifier = server.system_identifier
    return ReplayTarget(
        name=target.name,
        system_identifier=None if isinstance(identifier, Unknown) else identifier,
        in_recovery=server.in_recovery is not False,
        disposable=target.disposable,
        is_allowed=target.name in allowed_targets(places.data_dir()),
        directory=directory,
        marker=marker,
    )


def _directory_of(target: Target) -> DirectoryIdentity | None:
    if target.directory is None or target.remote is not None:
        return None
    found = hands_of(target.directory).look(target.directory)
    if found is None or not stat.S_ISDIR(found.st_mode):
        return None
    return DirectoryIdentity(found.st_dev, found.st_ino, ProcessIdentity.own().boot_id)


def running(target: Target) -> RunningServer:
    """Return what a server says of itself, and its data directory where that is in reach."""
    found = target.postgres.fetch(_RUNNING)[0]
    address = str(found["address"])
    if address and ip_address(address).is_loopback:
        address = ""
    return RunningServer(
        str(found["at"]), _directory_of(target), str(found["directory"]), address, int(str(found["port"]))
    )


def captured_server(target: Target) -> CapturedServer:
    """Return what a capture keeps of its server, to tell it from its copies later."""
    found = running(target)
    seen = CapturedServer(found.started_at, data_directory=found.data_directory, address=found.address, port=found.port)
    if found.directory is None:
        return seen
    return replace(seen, device=found.directory.device, inode=found.directory.inode, boot=found.directory.boot)


def require_another(target: ReplayTarget, source_identifier: str | None) -> None:
    """Raise EnvironmentUnsuitable unless the target is proved to be another server than the source, and named."""
    found = refusal(target, source_identifier, str(places.data_dir() / ALLOWED))
    if found is not None:
        reason, hint = found
        raise EnvironmentUnsuitable(f'"{target.name}" is not replayed to: {reason}', hint=hint)


def allowed_targets(folder: Path) -> frozenset[str]:
    """Return the names in the list in a folder; EnvironmentUnsuitable where others may write it."""
    return _names_in(folder / ALLOWED) | _names_in(folder / _BEFORE)


def _names_in(path: Path) -> frozenset[str]:
    try:
        file = open_file(path, follow=False)
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise EnvironmentUnsuitable(
            f'"{path}", the list of servers whose data may be changed, cannot be read', detail=error.strerror
        ) from error
    with file:
        status, content = os.fstat(file.fileno()), file.read(_LONGEST_LIST)
    if status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise EnvironmentUnsuitable(
            f'"{path}", the list of servers whose data may be changed, can be changed by others',
            hint=f"chmod 600 {path}, and see that it is yours.",
        )
    lines = (line.strip() for line in content.decode(errors="replace").splitlines())
    return frozenset(line for line in lines if line and not line.startswith("#"))


def mark_copy(
    target: ReplayTarget,
    real: Target,
    source: Target,
    captured_identifier: str | None,
    captured_until: str,
    captured: CapturedServer,
) -> None:
    """Write the marker into the data directory of a copy, once it is proved that the copy is not its source.

    `real` is the copy and `target` what `identify` says of it. Both servers must answer now: a session that is opened
    on `source`, under a name nobody could guess, must be seen there and not on the copy. `captured_identifier` and
    `captured_until` are the captured server's system identifier and last WAL position, None and empty where unknown;
    `captured` is what else the trace knows of it. Raises EnvironmentUnsuitable where the session, or the directory,
    says that both are one, where the target is the server that was captured, or where `source` is not: any other one
    proves nothing.
    """
    if target.directory is None or real.directory is None or target.system_identifier is None:
        raise EnvironmentUnsuitable(
            f'the data directory of "{target.name}" cannot be reached, so that no mark can be left there',
            hint="Run pgdyno on the copy's host, as root or as the owner of the directory.",
        )
    if target.in_recovery:
        raise EnvironmentUnsuitable(
            f'"{target.name}" is not marked as a copy: it is a standby, and after a failover it would be the source',
            hint="Promote it first, so that it is a server of its own.",
        )
    copy = running(real)
    if is_captured(copy, captured) or has_place(copy, captured):
        raise EnvironmentUnsuitable(
            f'"{target.name}" is not marked as a copy: it is the server that was captured', hint=_WHO_IS_WHO
        )
    token = f"pgdyno {os.urandom(12).hex()}"
    with source.postgres.connect() as asked:
        asked.execute("SELECT pg_catalog.set_config('application_name', %s, false)", [token])
        on_source, on_copy = (_sees(server, token) for server in (source, real))
    same = source.directory is not None and _same_directory(source.directory, target.directory)
    if not on_source or on_copy or same:
        raise EnvironmentUnsuitable(
            f'"{target.name}" is not marked as a copy: it is the same server as "{source.name}"'
            if on_copy or same
            else f'"{target.name}" is not marked as a copy: the sessions of "{source.name}" cannot be seen',
            hint=_WHO_IS_WHO,
        )
    known = identify(source, read_facts(source))
    reached = None if known.in_recovery else str(source.postgres.fetch(_POSITION)[0]["lsn"])
    doubt = source_doubt(target, known, captured_identifier, reached=reached, captured_until=captured_until)
    doubt = doubt or place_doubt(running(source), captured, copy)
    if doubt is not None:
        raise EnvironmentUnsuitable(
            f'"{target.name}" is not marked as a copy: "{source.name}" is not the server that was captured, or nothing '
            f"proves that it is",
            detail=f'"{source.name}": {doubt}.',
            hint=_WHO_IS_WHO,
        )
    marker = CopyMarker(target.system_identifier, target.directory.device, target.directory.inode)
    hands = hands_of(real.directory)
    hands.replace(
        real.directory / MARKER, marker.text().encode(), Attributes(hands.account.uid, hands.account.gid, 0o600)
    )


def _sees(server: Target, token: str) -> bool:
    query = "SELECT 1 AS one FROM pg_catalog.pg_stat_activity WHERE application_name = %s"
    return bool(server.postgres.fetch(query, [token]))


def _same_directory(path: Path, other: DirectoryIdentity) -> bool:
    found = hands_of(path).look(path)
    return found is not None and (found.st_dev, found.st_ino) == (other.device, other.inode)


def room_of(target: Target) -> TargetRoom:
    """Return what the target has for sessions."""
    ask = target.postgres.fetch
    return TargetRoom(
        roles=frozenset(str(row["name"]) for row in ask(_ROLES)),
        databases=frozenset(str(row["name"]) for row in ask(_DATABASES)),
        free=int(str(ask(_ROOM)[0]["free"])),
    )


def require_room(room: TargetRoom, name: str, users: Sequence[str], databases: Sequence[str], sessions: int) -> None:
    """Raise EnvironmentUnsuitable that names every role and database that the target lacks, or too few connections.

    `room` is what the target has, and `name` is the target's; `users` and `databases` are those that sessions of the
    trace ask for, after --user-map and its like, and `sessions` is how many of them are open at one time.
    """
    roles = sorted(set(users) - room.roles)
    missing = sorted(set(databases) - room.databases)
    if roles or missing:
        named = [f'role "{one}"' for one in roles] + [f'database "{one}"' for one in missing]
        raise EnvironmentUnsuitable(
            f'"{name}" lacks what sessions of the trace ask for: {", ".join(named[:10])}',
            detail=f"{len(named) - 10} more are missing." if len(named) > 10 else None,
            hint="Restore the copy whole (pg_dumpall --globals-only has the roles), or map names: --user-map OLD=NEW.",
        )
    if sessions > room.free:
        raise EnvironmentUnsuitable(
            f'"{name}" has {plural(room.free, "connection")} free, and {plural(sessions, "session")} of '
            f"the trace are open at one time",
            hint="Raise max_connections of the target, or cut the trace by application or user.",
        )


def end_point_of(target: Target) -> EndPoint:
    """Return where sessions of the target are opened, and how their TLS is checked, as libpq found it."""
    with target.postgres.connect() as connection:
        info = connection.info
        asked = info.get_parameters()  # with what the environment and a service say
        host = info.host or info.hostaddr
        if not connection.pgconn.ssl_in_use:
            return EndPoint(host, info.port, "disable")
        mode = asked.get("sslmode", "prefer")
        return EndPoint(host, info.port, "require" if mode in ("allow", "prefer") else mode, _root_certificate(asked))


def _root_certificate(asked: Mapping[str, str]) -> str | None:
    """Return the file of roots that libpq checks a server by; None where it checks none, or by those of the system."""
    named = asked.get("sslrootcert")
    if named == "system":
        return None
    path = Path(named) if named else Path.home() / ".postgresql" / "root.crt"
    try:
        path.stat()
    except OSError:  # then libpq checks by none as well, or has refused to connect
        return None
    return str(path.absolute())


def passwords_of(target: Target, end_point: EndPoint, users: Sequence[str], databases: Sequence[str]) -> dict[str, str]:
    """Return the passwords that are known of roles: that of the target itself, and those of the password file.

    They are keyed by role: our own on `target`, where it logs in with a password, and those of `users` that the file
    knows at the host and port of `end_point`. Where it has several for a role, the first of `databases` decides.
    """
    with target.postgres.connect() as connection:
        asked, own, password = connection.info.get_parameters(), connection.info.user, connection.info.password
    found = {own: password} if password else {}
    path = Path(asked.get("passfile") or os.environ.get("PGPASSFILE") or Path.home() / ".pgpass")
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:  # libpq passes over such a file as well
            return found
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        return found
    for database in databases:
        found = passwords_in(text, end_point.host, end_point.port, database, users) | found
    return found
