"""What each guard compares with its limit, from the history of one trial. Pure: no clock, no server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from pgdyno.model.guard import Absent, Concurrent, Failed, GuardKind, GuardReading
from pgdyno.model.guard_table import GUARDS, P99_FLOOR_MS
from pgdyno.probes.guards.memory import MemoryReading
from pgdyno.probes.guards.reader import Tick
from pgdyno.probes.guards.server import GuardRow
from pgdyno.probes.guards.volumes import Volume, VolumesReading
from pgdyno.trial.guard_history import EARLY, LEAST_SPAN_S, History, kept_by_slots, load_counters, rate
from pgdyno.units import digits_text, plural

STOP_AGE = float(1 << 31)
"""Transactions after which PostgreSQL takes no more (routine-vacuuming, wraparound)."""
FEWEST = 20
"""Transactions in the window below which a share of failures, or of the baseline's throughput, says nothing."""
GRACE_S = 5.0
"""A load is not held against the baseline in its first seconds: its sessions connect and its caches are cold."""
NO_LOAD = Absent("no load is running")
UNLIKE = "answers unlike the captured ones; what failed in the capture too is not counted"
NO_STANDBY = Absent("no physical standby is attached")

Value = float | Absent | Failed


def readings(history: History, concurrent: Concurrent | None = None) -> list[GuardReading]:
    """Return the reading of every guard at the newest tick, in the order of the guards' table."""
    now = history.now
    found = [*_memory(history), *_volumes(history)]
    if isinstance(now.server, Failed):
        names = ("replication-lag", "replication-bytes", "slots", "slots-lost", "connections", "errors", "deadlocks")
        found += [GuardReading(name, now.t, now.server) for name in (*names, "xid-age")]
    else:
        found += [*_replication(history, now.server), *_server(history, now.server)]
    return [*found, *_load(now, concurrent), _failing(history)]


def with_clients(reading: GuardReading, tick: Tick, clients: int) -> GuardReading:
    """Return the reading of guard connections as it will be when the load's sessions are there; others unchanged."""
    if reading.name != "connections" or isinstance(tick.server, Failed) or not clients:
        return reading
    sessions, room = tick.server.sessions + clients, tick.server.room
    about = f"{sessions} of {room}, {clients} of them for the load"
    return replace(reading, value=100 * sessions / max(1, room), about=about)


def _memory(history: History) -> list[GuardReading]:
    now = history.now
    if not isinstance(now.memory, MemoryReading):
        return [GuardReading(name, now.t, now.memory) for name in ("memory", "memory-stall", "oom", "swap-in")]
    memory = now.memory
    window = [(tick.t, tick.memory) for tick in history.window() if isinstance(tick.memory, MemoryReading)]
    stalled = [(t, read.stalled_us / 1e4) for t, read in window if not isinstance(read.stalled_us, Absent)]
    swapped = [(t, float(read.swapped_in)) for t, read in window if not isinstance(read.swapped_in, Absent)]
    return [
        GuardReading("memory", now.t, memory.available, memory.bound, f"available of {memory.bounded_by}"),
        GuardReading(
            "memory-stall", now.t, memory.stalled_us if isinstance(memory.stalled_us, Absent) else rate(stalled)
        ),
        _oom(history, memory),
        GuardReading("swap-in", now.t, memory.swapped_in if isinstance(memory.swapped_in, Absent) else rate(swapped)),
    ]


def _oom(history: History, memory: MemoryReading) -> GuardReading:
    """Return the kills since the session began: the server's where its cgroup tells, else all of the host's.

    A kill elsewhere turns the indicator amber then: somebody lacked memory, and it was not the server that paid.
    """
    t, own, before = history.now.t, memory.own_kills, history.origin.own_kills
    everywhere = max(0, memory.kills - history.origin.kills)
    if isinstance(own, Absent) or isinstance(before, Absent) or own.group != before.group or own.count < before.count:
        reason = own.reason if isinstance(own, Absent) else "the server's cgroup is another one since"
        return GuardReading("oom", t, float(everywhere), about=f"killed on the whole host, because {reason}")
    killed = own.count - before.count
    elsewhere = max(0, everywhere - killed)
    about = f'killed in the server\'s cgroup "{own.group}"'
    about += f", {elsewhere} elsewhere on the host" if elsewhere else ""
    return GuardReading("oom", t, float(killed), about=about, warns=elsewhere > 0)


def _volumes(history: History) -> list[GuardReading]:
    now = history.now
    if not isinstance(now.volumes, VolumesReading):
        first = [GuardReading(name, now.t, now.volumes) for name in ("disk", "wal-disk")]
        return [*first, GuardReading("temp", now.t, _temp_rate(history))]
    wal = now.volumes.wal
    return [
        _volume("disk", now.t, now.volumes.data),
        GuardReading("wal-disk", now.t, wal) if isinstance(wal, Absent) else _volume("wal-disk", now.t, wal),
        GuardReading("temp", now.t, _temp_rate(history)),
    ]


def _volume(name: str, t: float, volume: Volume) -> GuardReading:
    return GuardReading(name, t, volume.free, volume.size, f'free around "{volume.path}"')


def _temp_rate(history: History) -> Value:
    """Return bytes written to temporary files per second.

    What grows is seen in the folder; what came and went between two ticks is in the counter, a moment later. A file
    is in both, one after the other, so the larger of the two growths is taken and not their sum.
    """
    if history.now.load is None:
        return NO_LOAD
    window = [tick for tick in history.window() if tick.load is not None]
    span = window[-1].t - window[0].t
    if span < LEAST_SPAN_S:
        return EARLY
    sizes = [tick.volumes.temp_bytes for tick in window if isinstance(tick.volumes, VolumesReading)]
    grown = sum(max(0, after - before) for before, after in pairwise(sizes))
    counted = rate([(tick.t, float(counters.temp_bytes)) for tick in window if (counters := load_counters(tick))])
    return max(grown / span, 0.0 if isinstance(counted, Absent) else counted)


def _replication(history: History, row: GuardRow) -> list[GuardReading]:
    t, origin = history.now.t, history.origin
    # one that our restart cut off has from the trial's first tick on to come back
    replayed = {name: (history.ticks[0].t, lsn) for name, lsn in origin.seen.items()}
    for tick in history.ticks:  # minutes of them, where most servers have no standby
        if not isinstance(tick.server, Failed) and tick.server.standbys:
            replayed |= {name: (tick.t, lsn) for name, lsn in tick.server.standbys.items()}
    lag: GuardReading = GuardReading("replication-lag", t, NO_STANDBY)
    behind: GuardReading = GuardReading("replication-bytes", t, NO_STANDBY)
    if replayed:
        ages = {name: _age(history, name, at, lsn) for name, (at, lsn) in replayed.items()}
        slowest = max(ages, key=lambda name: ages[name])
        lag = GuardReading("replication-lag", t, ages[slowest], about=f"standby {slowest}")
        bytes_ = {name: row.lsn - lsn - origin.behind.get(name, 0) for name, (_, lsn) in replayed.items()}
        furthest = max(bytes_, key=lambda name: bytes_[name])
        behind = GuardReading("replication-bytes", t, float(max(0, bytes_[furthest])), about=f"standby {furthest}")
    if not row.slots:
        none = Absent("there is no replication slot")
        return [lag, behind, GuardReading("slots", t, none), GuardReading("slots-lost", t, none)]
    kept = {name: size - origin.kept.get(name, 0) for name, size in kept_by_slots(row).items()}
    most = max(kept, key=lambda name: kept[name], default="")
    lost = [slot.name for slot in row.slots if slot.is_lost and slot.name not in origin.lost]
    return [
        lag,
        behind,
        GuardReading("slots", t, float(max(0, kept.get(most, 0))), about=f"slot {most}" if most else ""),
        GuardReading("slots-lost", t, float(len(lost)), about=", ".join(lost)),
    ]


def _age(history: History, name: str, seen_at: float, replayed: int) -> float:
    """Return for how long a standby has not replayed what was written first after its position."""
    now = history.now
    if not isinstance(now.server, GuardRow) or name not in now.server.standbys:
        return now.t - seen_at
    return next((now.t - t for t, row in history.rows() if row.lsn > replayed), 0.0)


def _server(history: History, row: GuardRow) -> list[GuardReading]:
    t = history.now.t
    # of minutes of ticks, twice a second, only the first and the last with a load are looked for
    first = next(filter(None, map(load_counters, history.ticks)), None)
    deadlocks: Value = NO_LOAD
    captured = 0 if history.now.load is None else history.now.load.captured_deadlocks
    if first is not None:
        last = next(filter(None, map(load_counters, reversed(history.ticks))))
        deadlocks = float(max(0, last.deadlocks - first.deadlocks - captured))
    return [
        GuardReading("connections", t, 100 * row.sessions / max(1, row.room), about=f"{row.sessions} of {row.room}"),
        _errors(history),
        GuardReading("deadlocks", t, deadlocks, about=f"and {captured} as in the capture" if captured else ""),
        GuardReading(
            "xid-age",
            t,
            100 * row.xid_age / STOP_AGE,
            about=f"age {row.xid_age:,}",
            warns=row.xid_age > row.freeze_max_age,
        ),
    ]


def _errors(history: History) -> GuardReading:
    """Return percent of transactions that failed, by the server's count or the load's, whichever is worse.

    A captured load rolls back and fails as it did in the capture, which the server counts like anything else: of it
    only the answers that the capture does not have say something of a change.
    """
    t, window = history.now.t, [tick for tick in history.window() if tick.load is not None]
    loads = [tick.load for tick in window if tick.load is not None]
    if not loads:
        return GuardReading("errors", t, NO_LOAD)
    failing = _share(loads[-1].failed - loads[0].failed, loads[-1].transactions - loads[0].transactions)
    if loads[-1].is_captured:
        return GuardReading("errors", t, failing, about=UNLIKE)
    counted = [counters for tick in window if (counters := load_counters(tick))]
    by_server = 0.0
    if counted:
        by_server = _share(counted[-1].rollbacks - counted[0].rollbacks, counted[-1].commits - counted[0].commits)
    return GuardReading("errors", t, max(by_server, failing))


def _share(bad: int, good: int) -> float:
    total = bad + good
    return 100 * max(0, bad) / total if good >= 0 and total >= FEWEST else 0.0


def _load(now: Tick, concurrent: Concurrent | None) -> list[GuardReading]:
    if now.load is None:
        return _unheld(now, NO_LOAD)
    if concurrent is None:
        return _unheld(now, Absent("no baseline trial of this load is complete yet"))
    if now.t - now.load.began_at < GRACE_S:
        return _unheld(now, Absent(f"the load is in its first {GRACE_S:.0f} s"))
    tps = now.load.tps or 0.0
    p99: Value = Absent("neither this load nor its baseline has a p99 yet")
    if now.load.p99_ms is not None and concurrent.p99_ms is not None:
        p99 = now.load.p99_ms / max(concurrent.p99_ms, P99_FLOOR_MS)
    about = "" if isinstance(p99, Absent) else f"{now.load.p99_ms:,.1f} ms against {concurrent.p99_ms:,.1f} ms"
    usual, hold_s = concurrent.throughput, GUARDS["throughput"].hold_s
    share: Value = 100 * tps / usual
    if usual * hold_s < FEWEST:  # seconds without a transaction are usual then
        share = Absent(
            f"the baseline's {plural(digits_text(usual), 'transaction')} a second are too few to judge {hold_s:g} s"
        )
    return [
        GuardReading("throughput", now.t, share, about=f"{digits_text(tps)} tps against {digits_text(usual)}"),
        GuardReading("p99", now.t, p99, about=about),
    ]


def _unheld(now: Tick, reason: Absent) -> list[GuardReading]:
    return [GuardReading(name, now.t, reason) for name in ("throughput", "p99")]


def _failing(history: History) -> GuardReading:
    """Return the age of the part that has failed for longest, and whom a breach is blamed on."""
    parts: dict[str, tuple[Callable[[Tick], object], GuardKind]] = {
        "memory": (lambda tick: tick.memory, GuardKind.CONFIGURATION),
        "volumes": (lambda tick: tick.volumes, GuardKind.ENVIRONMENT),
        "server": (lambda tick: tick.server, GuardKind.CONFIGURATION),
    }
    ages = {name: history.failing_s(part) for name, (part, _) in parts.items()}
    worst = max(ages, key=lambda name: ages[name])
    part, blame = parts[worst]
    failed = part(history.now)
    about = f"the {worst} cannot be read: {failed.reason}" if isinstance(failed, Failed) else ""
    return GuardReading("readings", history.now.t, ages[worst], about=about, blame=blame)
