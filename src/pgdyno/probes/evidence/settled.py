"""Until when the settings of a server may have been others: by its start, its last reload, and its log. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pgdyno.model.evidence import LogEvidence, Settled
from pgdyno.model.facts import Unknown
from pgdyno.model.inventory import Inventory
from pgdyno.probes.evidence.log_lines import seconds_of
from pgdyno.probes.evidence.snapshot import Snapshot


def settled(last: Snapshot | Unknown, log: LogEvidence | Unknown, inventory: Inventory) -> Settled | Unknown:
    """Return when settings last may have changed. The log's times are of log_timezone, all others of the epoch."""
    if isinstance(last, Unknown):
        return last
    row = (last.get("server") or [{}])[0]
    started, loaded = row.get("started_at"), row.get("loaded_at")
    if not isinstance(started, int | float) or not isinstance(loaded, int | float):
        return Unknown("this reading does not tell when the server last read its configuration")
    zone = _zone(inventory)
    if isinstance(log, Unknown) or zone is None:
        return Settled(started, loaded)
    began = _epoch(log.began, zone)
    changed = {name: at for name, text in log.changed.items() if (at := _epoch(text, zone)) is not None}
    if began is None or len(changed) < len(log.changed):
        return Settled(started, loaded)
    return Settled(started, loaded, began, changed)


def _zone(inventory: Inventory) -> ZoneInfo | None:
    server = inventory.server
    name = server if isinstance(server, Unknown) else server.text("log_timezone")
    if isinstance(name, Unknown):
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _epoch(at: str | Unknown, zone: ZoneInfo) -> float | None:
    seconds = seconds_of(at)
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=zone).timestamp()
