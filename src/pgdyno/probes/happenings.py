"""What happened between two readings: checkpoints, swapping, deadlocks, restarts, crashes, autovacuum. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.model.samples import Event
from pgdyno.probes.host.reading import HostCounters
from pgdyno.probes.views import ViewsReading, was_reset
from pgdyno.units import agreeing, plural

_RESET_VIEWS = ("database", "checkpointer", "wal")


def host_events(before: HostCounters, after: HostCounters) -> list[Event]:
    """Return what the counters of /proc/vmstat say happened to the host."""
    found = []
    kills = _growth(before, after, "oom_kill")
    if kills:
        found.append(Event(after.t, "oom_kill", f"the kernel killed {plural(kills, 'process')} for lack of memory"))
    swapped_in, swapped_out = _growth(before, after, "pswpin"), _growth(before, after, "pswpout")
    if swapped_in or swapped_out:
        found.append(
            Event(after.t, "swap", f"{agreeing(swapped_out, 'page', 'was', 'were')} swapped out and {swapped_in} in")
        )
    return found


def server_events(before: ViewsReading, after: ViewsReading) -> list[Event]:
    """Return what the views say happened to the server."""
    found = []
    started = _pair(before, after, "server", "started_at")
    if started is not None and started[1] != started[0]:
        found.append(Event(after.t, "restart", "the server was restarted"))
    if not found and _recovered(before, after):
        found.append(Event(after.t, "crash", "a process of the server died: all sessions were ended and it recovered"))
    loaded = _pair(before, after, "server", "loaded_at")
    if loaded is not None and loaded[1] != loaded[0] and not found:
        found.append(Event(after.t, "reload", "the configuration was read again"))
    for view in _RESET_VIEWS:
        was, now = before.views.get(view), after.views.get(view)
        if was is not None and now is not None and was_reset(view, was, now):
            found.append(Event(after.t, "stats_reset", f"the counters of {view} were reset: this interval has no row"))
    return found + _counted(before, after) + _autovacuum(before, after)


def _recovered(before: ViewsReading, after: ViewsReading) -> bool:
    """Tell whether the server began again without being started again: its checkpointer is another one."""
    was, now = (reading.value("server", "checkpointer_at") for reading in (before, after))
    return was is not None and now is not None and was != now


def failure_events(t: float, failures: Mapping[str, str], known: Mapping[str, str]) -> list[Event]:
    """Return an event for each probe that failed for a reason not told before, and for each that works again."""
    found = [
        Event(t, "probe", f"{name} cannot be read: {reason}")
        for name, reason in failures.items()
        if known.get(name) != reason
    ]
    return found + [Event(t, "probe", f"{name} can be read again") for name in known if name not in failures]


def _growth(before: HostCounters, after: HostCounters, name: str) -> int:
    was, now = (before.vmstat or {}).get(name), (after.vmstat or {}).get(name)
    return 0 if was is None or now is None else now - was


def _counted(before: ViewsReading, after: ViewsReading) -> list[Event]:
    texts = (
        ("checkpointer", "timed", "checkpoint", "checkpoint_timeout was over"),
        ("checkpointer", "requested", "checkpoint", "max_wal_size was reached, or a command asked"),
        ("checkpointer", "done", "checkpoint_done", "a checkpoint was completed"),
        ("database", "deadlocks", "deadlock", "deadlock in the load's database"),
        ("database", "conflicts", "conflict", "a query was cancelled by recovery"),
        ("database", "sessions_killed", "session_killed", "a session in the load's database was ended by an operator"),
        ("database", "sessions_fatal", "session_fatal", "a session in the load's database ended by a fatal error"),
    )
    found = []
    for view, column, kind, text in texts:
        pair = _pair(before, after, view, column)
        if pair is not None and pair[1] > pair[0]:
            count = round(pair[1] - pair[0])
            found.append(Event(after.t, kind, text if count == 1 else f"{text} ({count} times)"))
    return found


def _autovacuum(before: ViewsReading, after: ViewsReading) -> list[Event]:
    was, now = _workers(before), _workers(after)
    if was is None or now is None or bool(was) == bool(now):
        return []
    text = f"{plural(now, 'autovacuum worker')} began" if now else "the autovacuum workers are done"
    return [Event(after.t, "autovacuum", text)]


def _workers(reading: ViewsReading) -> int | None:
    if "activity" not in reading.views:
        return None
    rows = (row for row in reading.views["activity"] if row["backend_type"] == "autovacuum worker")
    return sum(int(row["sessions"] or 0) for row in rows)


def _pair(before: ViewsReading, after: ViewsReading, view: str, column: str) -> tuple[float, float] | None:
    was, now = before.value(view, column), after.value(view, column)
    return None if was is None or now is None else (was, now)
