"""Whether what is advised could be proved and put in force from here, by facts that cost next to nothing. Reads only.

`apply` and `experiment` look again, at more than this: what is left out here is what they are sure to refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.errors import PgdynoError
from pgdyno.knobs.current import overridden
from pgdyno.model.advice import Advice, Hindrance
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Change, ChangeKind, Cost, Finding
from pgdyno.model.inventory import ServerInventory
from pgdyno.server.privileges import RoleState, missing, privileges, read_role
from pgdyno.targets.target import Target
from pgdyno.units import some_text

VERBS = ("apply", "experiment")
"""What a page of advice proposes to act with."""
_MOST_NAMED = 3
_GROW_WAL = ("max_wal_size", "min_wal_size")


def hindrance(target: Target, advice: Advice, findings: Sequence[Finding]) -> Hindrance:
    """Return what would refuse these findings on a live target."""
    server = advice.inventory.server
    if isinstance(server, Unknown):
        return Hindrance()
    try:
        role = read_role(target.postgres, () if _is_by_sql(target) else None)
    except PgdynoError as error:
        return Hindrance(error.message)
    lacks = {verb: tuple(right.name for right in missing(privileges(verb, role))) for verb in VERBS}
    if not lacks["apply"] and (whole := _whole(target, server)):
        return Hindrance(whole)
    found = ((one.rule, _outranked(one.changes, server, role) or _unreached(target, one)) for one in findings)
    return Hindrance(
        rules={rule: reason for rule, reason in found if reason},
        lacks=lacks,
    )


def _is_by_sql(target: Target) -> bool:
    """Tell whether settings go by ALTER SYSTEM, which takes rights that files and Patroni do not ask for."""
    if target.route is None:
        return False
    from pgdyno.routes.sql_route import SqlRoute  # advice on files goes without

    return isinstance(target.route, SqlRoute)


def _whole(target: Target, server: ServerInventory) -> str:
    """Return why no session could begin on this server; empty where nothing is known that would keep it from it."""
    if waiting := sorted(row.name for row in server.settings.values() if row.pending_restart):
        return f"what is set already waits for a restart ({some_text(waiting, _MOST_NAMED, ', ')})"
    if target.route is None and target.remote is None and target.directory is None:
        if target.local:
            who = f"as {target.os_user} or root" if target.os_user else "as its owner or root"
            return f"this account cannot reach the files of the server; run pgdyno {who}, or with --sql-only"
        return "the server's files are not on this host, and SQL alone was not asked for or cannot set anything"
    return ""


def _unreached(target: Target, finding: Finding) -> str:
    """Return what cannot be done or seen from here: a restart, and the disk that a larger WAL would fill.

    A way to restart a server of this host is looked for by who needs one.
    """
    if target.route is None:
        return ""
    if target.control is None and finding.cost is Cost.RESTART:
        return "it needs a restart, and how to make one is not known (--restart-command)"
    grown = next((change.knob for change in finding.changes if change.knob in _GROW_WAL), None)
    is_blind = target.directory is None and target.remote is None
    return f"{grown} lets the WAL grow, and the free disk cannot be seen from here" if grown and is_blind else ""


def _outranked(changes: Sequence[Change], server: ServerInventory, role: RoleState) -> str:
    """Return what outranks a file for a parameter that would be set; empty where nothing does."""
    overrides: Mapping[str, Mapping[str, str]] = {} if isinstance(server.overrides, Unknown) else server.overrides
    ours = {
        "all roles": "ALTER ROLE ALL",
        f"role {role.role}": f"ALTER ROLE {role.role}",
        f"database {role.database}": f"ALTER DATABASE {role.database}",
        f"role {role.role} in database {role.database}": f"ALTER ROLE {role.role} IN DATABASE {role.database}",
    }
    for change in changes:
        row = server.settings.get(change.knob) if change.kind is ChangeKind.POSTGRESQL else None
        if row is not None and (where := overridden(row)):
            return f"{change.knob} is set {where}"
        for who, statement in ours.items():
            if change.knob in overrides.get(who, {}):
                return f"{change.knob} is set by {statement}"
    return ""
