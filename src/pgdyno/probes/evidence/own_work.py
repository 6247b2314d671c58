"""What of a server's evidence pgdyno caused itself: its databases, and the times in which its studies ran. Pure.

Its databases are left out everywhere. WAL, checkpoints and blocks written are counted for the whole server: where a
study ran in the time that they cover they are unknown, because a load at full speed outweighs days of a server's own.
Lines of the log from such a time are left out alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from pgdyno.model.evidence import SAMPLED, LogEvidence, Statistics
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory
from pgdyno.probes.evidence.log_lines import LogLine, seconds_of
from pgdyno.probes.evidence.snapshot import Snapshot
from pgdyno.server.own_databases import ANY_NAME
from pgdyno.units import some_text

_NAME = re.compile(ANY_NAME)
_NAMED = re.compile(ANY_NAME.strip("^$"))
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class OwnStudy:
    """When a study ran, in seconds since the epoch, its loading and its clearing up included."""

    id: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class OwnWork:
    """The studies that ran on a server, as far as the store knows them."""

    studies: tuple[OwnStudy, ...] = ()

    def during(self, began: float, ended: float) -> tuple[OwnStudy, ...]:
        """Return the studies that ran in a part of this time."""
        return tuple(study for study in self.studies if study.began < ended and began < study.ended)

    def left_out(self, numbers: Statistics | Unknown) -> Statistics | Unknown:
        """Return statistics without what a study's WAL and checkpoints are part of."""
        if isinstance(numbers, Unknown) or not (ours := self._in_window(numbers)):
            return numbers
        hint = "" if numbers.window.source == SAMPLED else "; --window SECONDS counts again"
        why = Unknown(f"{_named(ours)} of pgdyno ran in the time that is counted{hint}")
        return replace(
            numbers,
            checkpoints_timed=why,
            checkpoints_requested=why,
            buffers_checkpoint=why,
            buffers_backend=why,
            buffers_clean=why,
            maxwritten_clean=why,
            evictions_s=why,
            wal_bytes_s=why,
            wal_bytes_per_commit=why,
            full_page_image_share=why,
            wal_buffers_full=why,
        )

    def remark(self, numbers: Statistics | Unknown, log: LogEvidence | Unknown, zone: ZoneInfo | None) -> str | None:
        """Return what has to be said of studies in the time that the evidence covers, None where there is none."""
        ours = {} if isinstance(numbers, Unknown) else {study.id: study for study in self._in_window(numbers)}
        if not isinstance(log, Unknown):
            ends = [moment_of(at, zone) for at in (log.began, log.ended)]
            if ends[0] is not None and ends[1] is not None:
                ours |= {study.id: study for study in self.during(ends[0], ends[1])}
        if not ours:
            return None
        return (
            f"{_named(tuple(ours.values()))} of pgdyno ran on this server in the time that statistics and log cover: "
            "its databases, its WAL and its checkpoints are left out"
        )

    def _in_window(self, numbers: Statistics) -> tuple[OwnStudy, ...]:
        try:
            began = datetime.fromisoformat(str(numbers.window.began)).timestamp()
        except ValueError:
            return ()
        return self.during(began, began + numbers.window.seconds)

    def caused(self, line: LogLine, zone: ZoneInfo | None) -> bool:
        """Tell whether a line of the log is of a database of ours, or of a time in which a study ran."""
        if _NAMED.search(line.message):
            return True
        at = moment_of(line.at, zone) if self.studies else None
        return at is not None and bool(self.during(at, at + 1e-3))


def is_own(database: object) -> bool:
    """Tell whether a database has one of our names."""
    return isinstance(database, str) and _NAME.match(database) is not None


def without_own(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot without our databases: their counters, tables and statements, and those of dropped ones."""
    if not _is_row(snapshot):
        return snapshot
    found: dict[str, Any] = dict(snapshot)
    if isinstance(rows := found.get("databases"), list):
        found["databases"] = [row for row in rows if not (_is_row(row) and is_own(row.get("database")))]
    for name in ("tables", "tables_t"):
        if isinstance(by_database := found.get(name), Mapping):
            found[name] = {database: value for database, value in by_database.items() if not is_own(database)}
    if isinstance(rows := found.get("statements"), list):
        found["statements"] = [row for row in rows if not (_is_row(row) and _is_own_statement(row))]
    return found


def _is_row(row: object) -> bool:
    """Tell a row from what a damaged capture has in its place."""
    return isinstance(row, Mapping)


def _is_own_statement(row: Mapping[str, Any]) -> bool:
    is_of_dropped = "database" in row and row["database"] is None
    return is_of_dropped or is_own(row.get("database")) or _NAMED.search(str(row.get("query", ""))) is not None


def log_zone(inventory: Inventory) -> ZoneInfo | None:
    """Return the time zone of the server's log, None where it is not known."""
    server = inventory.server
    name = Unknown("no server") if isinstance(server, Unknown) else server.text("log_timezone")
    try:
        return None if isinstance(name, Unknown) else ZoneInfo("UTC" if name == "GMT" else name)
    except (LookupError, ValueError, OSError):
        return None


def moment_of(at: str | Unknown, zone: ZoneInfo | None) -> float | None:
    """Return a log's time in seconds since the epoch; None where it or its zone is not known."""
    local = seconds_of(at)
    if local is None or zone is None:
        return None
    return datetime.fromtimestamp(local, UTC).replace(tzinfo=zone).timestamp()


def _named(studies: Sequence[OwnStudy]) -> str:
    names = [study.id for study in (*studies[-_MOST_NAMED:], *studies[:-_MOST_NAMED])]  # the latest first
    return f"{'study' if len(studies) == 1 else 'studies'} {some_text(names, _MOST_NAMED, ', ')}"
