"""What counters grew by: between two snapshots, or since they were reset. Pure; a reset in between is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pgdyno.model.evidence import SAMPLED, SINCE_RESET, Window
from pgdyno.model.facts import NoLoad, Unknown
from pgdyno.probes.evidence.snapshot import Snapshot

TOO_YOUNG_S = 60.0
"""Counters that are younger say how a server was started or loaded, not what it does."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of one row's counters over `seconds`."""

    values: Mapping[str, float]
    seconds: float

    def of(self, name: str, missing: str = "this version does not count it") -> float | Unknown:
        """Return a counter's growth."""
        return self.values[name] if name in self.values else Unknown(missing)

    def rate(self, name: str) -> float | Unknown:
        """Return a counter's growth per second."""
        return per_second(self.of(name), self.seconds)


def per_second(count: float | Unknown, seconds: float) -> float | Unknown:
    """Return a count per second; unknown for a window without length."""
    if isinstance(count, Unknown):
        return count
    return count / seconds if seconds > 0 else Unknown("the window has no length")


def moment(snapshot: Snapshot) -> float | None:
    """Return when a snapshot was taken, in seconds since the epoch by the server's clock."""
    server = snapshot.get("server") or [{}]
    t = server[0].get("t")
    return float(t) if isinstance(t, int | float) else None


def window_of(first: Snapshot | None, last: Snapshot) -> Window | Unknown:
    """Return the window of two snapshots or of one; a restart between them, makes it unknown."""
    end = moment(last)
    if end is None:
        return Unknown(f"the server's time could not be read: {reason(last, 'server')}")
    if first is not None:
        began = moment(first)
        if began is None or end <= began:
            return Unknown("the two readings are not in order of time")
        if abs(_server(first, "started_at") - _server(last, "started_at")) > 1.0:
            return Unknown("the server was restarted within the window")
        return Window(end - began, SAMPLED, _iso(began))
    resets = [row["reset_at"] for row in last.get("databases", ()) if row.get("reset_at") is not None]
    shared = shared_reset(last)
    since = min([*resets, *([] if shared is None else [shared])], default=None)
    if since is None or end <= since:
        return Unknown("the server does not say since when it counts")
    if end - since < TOO_YOUNG_S:
        return NoLoad(
            f"the statistics were reset {end - since:.0f} s ago, too short to tell; --window SECONDS watches the load"
        )
    return Window(end - since, SINCE_RESET, _iso(since))


def shared_reset(snapshot: Snapshot) -> float | None:
    """Return the oldest reset of the shared statistics: a database that never was reset counts from there."""
    names = ("checkpointer_reset", "wal_reset", "io_reset")
    found = [value for value in ((snapshot.get("server") or [{}])[0].get(name) for name in names) if value is not None]
    return min(found) if found else None


def row_growth(view: str, reset: str, first: Snapshot | None, last: Snapshot) -> Growth | Unknown:
    """Return the growth of a view with one row; `reset` names the column of `server` that tells its last reset.

    `view` is its key in a snapshot. The growth is that from `first` to `last`, with `first` None that since the reset.
    """
    rows = last.get(view)
    if not rows:
        return Unknown(reason(last, view))
    if first is None:
        since, now = (last.get("server") or [{}])[0].get(reset), moment(last)
        if since is None or now is None or now <= since:
            return Unknown("the server does not say since when it counts")
        return Growth(_numbers(rows[0]), now - since)
    if not first.get(view):
        return Unknown(reason(first, view))
    before, after = moment(first), moment(last)
    if before is None or after is None:
        return Unknown("the server's time could not be read")
    if (first.get("server") or [{}])[0].get(reset) != (last.get("server") or [{}])[0].get(reset):
        return Unknown("these statistics were reset within the window")
    return _difference(first[view][0], rows[0], after - before, view)


def database_growth(first: Snapshot | None, last: Snapshot) -> list[tuple[str, Growth]] | Unknown:
    """Return the growth of each database's counters; one that is new counts from 0."""
    rows = last.get("databases")
    now = moment(last)
    if not rows or now is None:
        return Unknown(reason(last, "databases"))
    if first is None:
        shared = shared_reset(last)
        ages = [(row, row.get("reset_at") or shared) for row in rows]
        return [
            (str(row["database"]), Growth(_numbers(row), now - at)) for row, at in ages if at is not None and now > at
        ]
    began = moment(first)
    if began is None or not first.get("databases"):
        return Unknown(reason(first, "databases"))
    earlier = {row["database"]: row for row in first["databases"]}
    found = []
    for row in rows:
        name = str(row["database"])
        was = earlier.get(row["database"])
        if was is not None and was.get("reset_at") != row.get("reset_at"):
            return Unknown(f'the statistics of database "{name}" were reset within the window')
        grown = _difference(was or {}, row, now - began, f'database "{name}"')
        if isinstance(grown, Unknown):
            return grown
        found.append((name, grown))
    return found


def keyed_growth(
    keys: tuple[str, ...], before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]], *, is_complete: bool
) -> list[tuple[Mapping[str, Any], Mapping[str, float]]] | Unknown:
    """Return (row, growth) of rows matched by their keys. One without an earlier row counts from 0 if `is_complete`.

    `before` and `after` are the rows of a view at both ends of the window, `keys` the columns that tell them apart. The
    growth is by column; rows of `before` that are gone, and new ones that do not count, are left out.
    """
    earlier = {tuple(row.get(key) for key in keys): row for row in before}
    found = []
    for row in after:
        was = earlier.get(tuple(row.get(key) for key in keys))
        if was is None and not is_complete:
            continue
        grown = _difference(was or {}, row, 1.0, "a row")
        if isinstance(grown, Unknown):
            return grown
        found.append((row, grown.values))
    return found


def total(parts: Iterable[Growth], name: str) -> float | Unknown:
    """Return the sum of a counter over several rows; unknown when no row has it."""
    values = [part.values[name] for part in parts if name in part.values]
    return sum(values) if values else Unknown("this version does not count it")


def total_rate(parts: Iterable[Growth], name: str) -> float | Unknown:
    """Return the sum of a counter's rates, each over its own time."""
    rates = [part.values[name] / part.seconds for part in parts if name in part.values and part.seconds > 0]
    return sum(rates) if rates else Unknown("this version does not count it")


def reason(snapshot: Snapshot, view: str) -> str:
    """Return why a view is missing."""
    failures: Mapping[str, str] = snapshot.get("failures", {})
    return failures.get(view, f"the server's version has no such view ({view})")


_NUMBERS = (int, float)
_GAUGES = frozenset({"reset_at", "bytes", "index_bytes", "live", "dead", "tables"})


def _difference(before: Mapping[str, Any], after: Mapping[str, Any], seconds: float, what: str) -> Growth | Unknown:
    numbers = _numbers(after)
    if not before and min(numbers.values(), default=0.0) >= 0:  # of one reading all counts from 0
        return Growth(numbers, seconds)
    grown = {}
    for name, value in numbers.items():
        gain = value - float(before.get(name) or 0)
        if gain < 0 and name not in _GAUGES:
            return Unknown(f"the counters of {what} went down within the window: they were reset")
        grown[name] = gain
    return Growth(grown, seconds)


def _numbers(row: Mapping[str, Any]) -> dict[str, float]:
    # By the type itself, which leaves out bool: of ten thousand tables each is asked for four times.
    return {name: float(value) for name, value in row.items() if type(value) in _NUMBERS}


def _server(snapshot: Snapshot, name: str) -> float:
    value = (snapshot.get("server") or [{}])[0].get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _iso(t: float) -> str:
    return datetime.fromtimestamp(t, UTC).isoformat(timespec="seconds")
