"""How busy a database is: of the three axes on which it is classed before it is tuned (004) the one of a window. Pure.

How large it is says the inventory; what depends on it no server knows. The source gives no limits; these are ours.
"""

from __future__ import annotations

from pgdyno.model.classes import Utilization
from pgdyno.model.evidence import Bottleneck, BottleneckKind, Concurrency, HostActivity
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory

BUSY_PCT = 50.0
"""CPU busy from here on is high utilization: a second load of the same size would not fit."""


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
