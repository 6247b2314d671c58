"""The server's own side of the guards: one row of `postgres/guards.*.sql` as a frozen record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pgdyno.model.samples import SampleValue


@dataclass(frozen=True, slots=True)
class LoadCounters:
    """Counters of the load's database since its statistics began."""

    commits: int
    rollbacks: int
    deadlocks: int
    temp_bytes: int


@dataclass(frozen=True, slots=True)
class SlotReading:
    """A replication slot: the oldest byte of WAL that it keeps, None when it keeps nothing, and whether it is lost."""

    name: str
    lsn: int | None
    is_lost: bool


@dataclass(frozen=True, slots=True)
class GuardRow:
    """The server at one moment. Positions in WAL are bytes since its beginning; `load` None before there is one."""

    lsn: int
    sessions: int
    room: int
    xid_age: int
    freeze_max_age: int
    load: LoadCounters | None
    standbys: Mapping[str, int]
    """What each physical standby has replayed, by name and address; the furthest behind of equal names."""
    slots: tuple[SlotReading, ...]


def parse_row(row: Mapping[str, SampleValue]) -> GuardRow:
    """Return the record of one row. Raises KeyError, TypeError or ValueError on a row that is not of this view."""
    standbys: dict[str, int] = {}
    for entry in json.loads(str(row["standbys"])):
        if entry["lsn"] is not None:  # hidden from this role
            standbys[entry["name"]] = min(entry["lsn"], standbys.get(entry["name"], entry["lsn"]))
    counts = [row[name] for name in ("xact_commit", "xact_rollback", "deadlocks", "temp_bytes")]
    known = [_whole(count) for count in counts if count is not None]
    return GuardRow(
        lsn=_whole(row["lsn"]),
        sessions=_whole(row["sessions"]),
        room=_whole(row["room"]),
        xid_age=_whole(row["xid_age"]),
        freeze_max_age=_whole(row["freeze_max_age"]),
        load=LoadCounters(*known) if len(known) == len(counts) else None,
        standbys=standbys,
        slots=tuple(SlotReading(s["name"], s["lsn"], s["lost"]) for s in json.loads(str(row["slots"]))),
    )


def _whole(value: SampleValue) -> int:
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return int(value)
