"""Whether a host and a server are left to us: foreign CPU, disk activity and sessions, while we do nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from pgdyno.errors import PgdynoError
from pgdyno.linux.block_devices import find_places
from pgdyno.model.facts import Unknown
from pgdyno.probes.host.cpu import CpuShares
from pgdyno.probes.host.reading import HostCounters, parse_host, read_host
from pgdyno.probes.window import is_physical
from pgdyno.server.postgres import Postgres
from pgdyno.targets.target import Target
from pgdyno.trial.assess import Bounds

LOOK_S = 10.0
"""How long to look: a cron job's minute is not missed by much, and a burst of a second does not decide alone."""
_SESSIONS = """
SELECT count(*) FILTER (WHERE state <> 'idle') AS busy, count(*) FILTER (WHERE state IS NULL) AS hidden
FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name NOT LIKE 'pgdyno%'
"""
Reader = Callable[[], HostCounters]


@dataclass(frozen=True, slots=True)
class ExclusiveLimits:
    """What others may do at most before a night run begins and while it measures.

    `cpu_pct` of one core is the bound that trials have (`trial.assess.Bounds`, measured by the project).
    `disk_mb_per_s` on the data's disks: an idle host writes well below 1 MB/s of logs and journals, a backup tens of
    it; the default lies between the two. `sessions` that are not idle: none, because the published night runs had
    host and storage to themselves (PostgreSQL on Linux on Z, 2017: exclusive use, for reproducible results).
    """

    cpu_pct: float = Bounds().foreign_cpu_pct
    disk_mb_per_s: float = 5.0
    sessions: int = 0


@dataclass(frozen=True, slots=True)
class Activity:
    """What went on while we looked: CPU in percent of one core, MB/s by device, sessions that were not idle."""

    cpu_pct: float | Unknown
    disks: Mapping[str, float] | Unknown
    sessions: int | Unknown


def disturbance(activity: Activity, limits: ExclusiveLimits) -> str | None:
    """Say what is above its limit, None when nothing is. What is unknown is above nothing: see `unknowns`."""
    found = []
    if not isinstance(activity.cpu_pct, Unknown) and activity.cpu_pct > limits.cpu_pct:
        found.append(f"foreign CPU is {activity.cpu_pct:.0f} % of a core, above {limits.cpu_pct:.0f} %")
    for device, rate in ({} if isinstance(activity.disks, Unknown) else activity.disks).items():
        if rate > limits.disk_mb_per_s:
            found.append(f"{device} moves {rate:.1f} MB/s, above {limits.disk_mb_per_s:g} MB/s")
    if not isinstance(activity.sessions, Unknown) and activity.sessions > limits.sessions:
        found.append(f"{activity.sessions} sessions of others are not idle, more than {limits.sessions}")
    return "; ".join(found) or None


def unknowns(activity: Activity) -> str | None:
    """Name what could not be looked at, with the reasons; None when all was."""
    parts = {"foreign CPU": activity.cpu_pct, "disk activity": activity.disks, "sessions": activity.sessions}
    found = [f"{name} is unknown: {part.reason}" for name, part in parts.items() if isinstance(part, Unknown)]
    return "; ".join(found) or None


def look(
    target: Target | None,
    *,
    seconds: float = LOOK_S,
    reader: Reader | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Activity:
    """Look at a server and its host for a while. Reads only.

    `target` None is a sandbox that is not started yet, on this host. `reader` reads the counters of the host before and
    after the `seconds` that `sleep` waits; None reads the target's host, by the agent where that is another one. The
    server's own work counts as foreign: nothing of ours has begun. Never raises for what cannot be read.
    """
    read = reader or reader_of(target)
    try:
        first = read()
        sleep(seconds)
        last = read()
    except PgdynoError as error:
        reason = Unknown(error.message)
        return Activity(reason, reason, _sessions(target))
    wanted = None
    if target is not None and target.directory is not None:
        wanted = find_places(target.directory).disks or None
    return Activity(_cpu(first, last), _disks(first, last, wanted), _sessions(target))


def reader_of(target: Target | None) -> Reader:
    """Return what reads the host of a target: this one, or the other by its agent."""
    remote = None if target is None else target.remote

    def read() -> HostCounters:
        if remote is None:
            return read_host(time.time(), CpuShares(0.0, 0.0, time.process_time()))
        there = remote.read_host()
        return parse_host(time.time(), CpuShares(0.0, 0.0, there.own_cpu_s), there.texts)

    return read


def _cpu(first: HostCounters, last: HostCounters) -> float | Unknown:
    if first.cpu is None or last.cpu is None or last.t <= first.t:
        return Unknown(last.failures.get("cpu", "the host could not be read"))
    busy = last.cpu.busy - first.cpu.busy - (last.shares.own - first.shares.own)
    return max(0.0, 100 * busy / (last.t - first.t))


def _disks(first: HostCounters, last: HostCounters, wanted: Collection[str] | None) -> Mapping[str, float] | Unknown:
    """Return MB/s of the data's disks; of every physical one where those are not known."""
    if first.disks is None or last.disks is None or last.t <= first.t:
        return Unknown(last.failures.get("disk", "the host could not be read"))
    both = [name for name in last.disks if name in first.disks]
    chosen = [name for name in both if (name in wanted if wanted else is_physical(name))]
    if not chosen:
        return Unknown("no physical block device is seen here")
    rates = {}
    for name in chosen:
        before, after = first.disks[name], last.disks[name]
        kb = after.reads.kb - before.reads.kb + after.writes.kb - before.writes.kb
        rates[name] = kb / 1024 / (last.t - first.t)
    return rates


def _sessions(target: Target | None) -> int | Unknown:
    return 0 if target is None else busy_sessions(target.postgres)


def busy_sessions(postgres: Postgres) -> int | Unknown:
    """Return how many client sessions of others are not idle."""
    try:
        (row,) = postgres.fetch(_SESSIONS)
    except PgdynoError as error:
        return Unknown(error.message)
    hidden = int(str(row["hidden"]))
    if hidden:
        return Unknown(f"{hidden} sessions hide their state from this role; GRANT pg_monitor shows them")
    return int(str(row["busy"]))
