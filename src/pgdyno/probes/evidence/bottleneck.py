"""What held the load back: CPU, disks, network, locks, or none of them, with the figures. Pure.

The limits are the usual ones of capacity work; a verdict needs the resource busy and sessions waiting for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.evidence import Bottleneck, BottleneckKind, Concurrency, DeviceActivity, HostActivity
from pgdyno.model.facts import Unknown
from pgdyno.units import percent_text

CPU_BUSY_PCT = 85.0
"""Above it queues for a CPU grow fast (M/M/c); steal counts as busy, because it is not there to be used."""
NETWORK_BUSY = 0.8
DISK_QUEUE = 1.0
"""Requests under way on one device, with waits: %util says only that there was one (it is 100 on striped volumes)."""
WAITING_SESSIONS = 1.0
"""Fewer that wait for a lock, on average over the window, hold no load back, whatever share of all they are."""
WAITING_SHARE = 0.3
"""Part of the working sessions that wait for one thing."""


def bottleneck(
    host: HostActivity | Unknown, devices: Sequence[DeviceActivity] | Unknown, sessions: Concurrency | Unknown
) -> Bottleneck | Unknown:
    """Name what held the load back; unknown when neither host nor sessions were watched.

    That nothing did takes a host that was watched: sessions alone do not tell how busy its CPUs were.
    """
    if isinstance(host, Unknown) and isinstance(sessions, Unknown):
        return Unknown(f"{host.reason}; {sessions.reason}")
    for judge in (_locks(sessions), _disk(devices, sessions, host), _network(host), _cpu(host)):
        if judge is not None:
            return judge
    if isinstance(host, Unknown):
        return Unknown(f"no session waited for locks, and how busy the host was is unknown: {host.reason}")
    return Bottleneck(BottleneckKind.NONE, "no resource was busy and no sessions queued for one")


def _locks(sessions: Concurrency | Unknown) -> Bottleneck | None:
    waiting = _waiting(sessions, ("Lock:", "LWLock:"))
    if waiting is None or waiting[0] < WAITING_SHARE or waiting[2] < WAITING_SESSIONS:
        return None
    return Bottleneck(
        BottleneckKind.LOCKS, f"{percent_text(waiting[0])} of the working sessions waited for locks ({waiting[1]})"
    )


def _disk(
    devices: Sequence[DeviceActivity] | Unknown, sessions: Concurrency | Unknown, host: HostActivity | Unknown
) -> Bottleneck | None:
    rows = () if isinstance(devices, Unknown) else devices
    queues = [(row.queue, row) for row in rows if not isinstance(row.queue, Unknown)]
    longest = max(queues, key=lambda item: item[0], default=None)
    if longest is None or longest[0] < DISK_QUEUE:
        return None
    waiting = _waiting(sessions, ("IO:",))
    iowait = 0.0 if isinstance(host, Unknown) or isinstance(host.iowait_pct, Unknown) else host.iowait_pct
    if (waiting is None or waiting[0] < WAITING_SHARE) and iowait < 100 * WAITING_SHARE:
        return None
    words = f"{longest[0]:.1f} requests were under way on {longest[1].device}, {iowait:.0f} % iowait"
    share = "" if waiting is None else f", {percent_text(waiting[0])} of the working sessions waited for I/O"
    return Bottleneck(BottleneckKind.DISK, words + share)


def _network(host: HostActivity | Unknown) -> Bottleneck | None:
    used = host if isinstance(host, Unknown) else host.network_utilization
    if isinstance(used, Unknown) or used < NETWORK_BUSY:
        return None
    return Bottleneck(BottleneckKind.NETWORK, f"the busiest interface was used to {percent_text(used)} of its speed")


def _cpu(host: HostActivity | Unknown) -> Bottleneck | None:
    if isinstance(host, Unknown) or isinstance(host.idle_pct, Unknown):
        return None
    iowait = 0.0 if isinstance(host.iowait_pct, Unknown) else host.iowait_pct
    busy = 100.0 - host.idle_pct - iowait
    if busy < CPU_BUSY_PCT:
        return None
    queue = "" if isinstance(host.run_queue, Unknown) else f", {host.run_queue:.1f} threads ran or were ready"
    steal = "" if isinstance(host.steal_pct, Unknown) else f", {host.steal_pct:.0f} % steal"
    return Bottleneck(BottleneckKind.CPU, f"the CPUs were {busy:.0f} % busy{queue}{steal}")


def _waiting(sessions: Concurrency | Unknown, kinds: tuple[str, ...]) -> tuple[float, str, float] | None:
    """Return the share of working sessions that wait for these, the event that most wait for, and how many wait."""
    if isinstance(sessions, Unknown) or isinstance(sessions.active_mean, Unknown) or sessions.active_mean <= 0:
        return None
    found = {name: count for name, count in sessions.waits.items() if name.startswith(kinds)}
    if not found:
        return 0.0, "", 0.0
    waiting = sum(found.values())
    return waiting / sessions.active_mean, max(found, key=lambda name: found[name]), waiting
