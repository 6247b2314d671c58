"""Two of the three axes on which a database is classed before it is tuned (004): how busy, how large. Pure.

The third, what depends on it, no server knows. The source gives no limits; these are pgdyno's own.
"""

from __future__ import annotations

from pgdyno.model.classes import Utilization
from pgdyno.model.evidence import Bottleneck, BottleneckKind, Concurrency, DatabaseSize, HostActivity
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory

BUSY_PCT = 50.0
"""CPU busy from here on is high utilization: a second load of the same size would not fit."""
LARGE_FACTOR = 10
"""A database above ten times the memory is large: no cache then helps more than its hottest parts."""


def utilization(
    host: HostActivity | Unknown, found: Bottleneck | Unknown, sessions: Concurrency | Unknown, inventory: Inventory
) -> Utilization | Unknown:
    """Return high when something was the bottleneck, half of the CPU was busy, or sessions used half of the CPUs."""
    if not isinstance(found, Unknown) and found.kind is not BottleneckKind.NONE:
        return Utilization.HIGH
    signs = []
    if not isinstance(host, Unknown) and not isinstance(host.idle_pct, Unknown):
        iowait = 0.0 if isinstance(host.iowait_pct, Unknown) else host.iowait_pct
        signs.append(100.0 - host.idle_pct - iowait >= BUSY_PCT)
    cpus = inventory.host.processor.cpus
    if not isinstance(sessions, Unknown) and not isinstance(sessions.active_mean, Unknown) and isinstance(cpus, int):
        signs.append(sessions.active_mean >= cpus / 2)
    if not signs:
        return Unknown("neither the host nor the sessions were watched over a window")
    return Utilization.HIGH if any(signs) else Utilization.LOW


def size_class(inventory: Inventory) -> DatabaseSize | Unknown:
    """Return small when all databases fit in memory, medium up to ten times of it, else large."""
    server, memory = inventory.server, inventory.host.memory
    if isinstance(server, Unknown):
        return server
    if isinstance(server.databases, Unknown):
        return server.databases
    limit = memory.ram_bytes if isinstance(memory.limit_bytes, Unknown) else memory.limit_bytes
    if isinstance(limit, Unknown):
        return limit
    size = 0
    for database in server.databases:
        if isinstance(database.size_bytes, Unknown):
            return Unknown(f'the size of database "{database.name}" is unknown: {database.size_bytes.reason}')
        size += database.size_bytes
    if size <= limit:
        return DatabaseSize.SMALL
    return DatabaseSize.MEDIUM if size <= LARGE_FACTOR * limit else DatabaseSize.LARGE
