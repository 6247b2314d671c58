"""The way back to a source that was only read, rehearsed: it is there, takes sessions, and is as it was. Reads only.

What was seen of it before is kept in the journal, so values of settings and definitions are digests there.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.contents.snapshot import snapshot
from pgdyno.contents.tables import AskRows
from pgdyno.migration.validation.comparing import definitions_of
from pgdyno.model.results.migrate import WayBack, WayBackEvidence
from pgdyno.server.postgres import Postgres
from pgdyno.units import bytes_text, plural, some_text

_NAMED = 5
_SERVER = """
SELECT pg_postmaster_start_time()::text, pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on',
  CASE WHEN pg_is_in_recovery() THEN 0 ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::int8 END
"""
_WRITTEN = "SELECT schemaname || '.' || relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables"
_SETTINGS = "SELECT name, setting FROM pg_settings WHERE context <> 'internal' AND source NOT IN ('session', 'client')"
_LINKS = """
SELECT 'slot ' || slot_name FROM pg_replication_slots WHERE NOT temporary
UNION ALL SELECT 'publication ' || pubname FROM pg_publication
UNION ALL SELECT 'subscription ' || subname FROM pg_subscription
"""

_UNCOUNTED = WayBackEvidence(what="rows", found="unknown: track_counts is off, and the server counts none")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSeen:
    """What a source said of itself. `written` counts the rows written by table, as the server does; `wal` is bytes."""

    since: str
    is_read_only: bool
    wal: int
    written: Mapping[str, int] = field(default_factory=dict)
    definitions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    links: tuple[str, ...] = ()


def look_at(source: Postgres) -> SourceSeen:
    """Return how the source stands, asked by a session as anybody's who works on it. Errors as `Postgres.fetch`."""
    with snapshot(source) as rows:
        ((since, read_only, wal),) = rows(_SERVER)
        return SourceSeen(
            since=str(since),
            is_read_only=read_only is True,
            wal=int(str(wal)),
            written={str(name): int(str(count)) for name, count in rows(_WRITTEN)},
            definitions=_definitions(rows),
            settings={str(name): _digest(value) for name, value in rows(_SETTINGS)},
            links=tuple(sorted(str(name) for (name,) in rows(_LINKS))),
        )


def rehearse_way_back(source: Postgres, before: SourceSeen) -> WayBack:
    """Go back to the source, and return how long that took and what proves that it is as it was."""
    begin = time.monotonic()
    found = look_at(source)
    return WayBack(evidence=evidence_of(before, found), seconds=time.monotonic() - begin)


def evidence_of(before: SourceSeen, after: SourceSeen) -> tuple[WayBackEvidence, ...]:
    """Return what is as it was, or how it differs. Pure."""
    written = {name: count - before.written.get(name, 0) for name, count in after.written.items()}
    told = [f"{plural(count, 'row')} of {name}" if count > 0 else f"the counters of {name} were reset"
            for name, count in written.items() if count]  # fmt: skip
    links = [f"{one} is new" for one in after.links if one not in before.links]
    links += [f"{one} is gone" for one in before.links if one not in after.links]
    refused = ["the source takes no writes"] if after.is_read_only else []
    is_uncounted = _digest("off") in (before.settings.get("track_counts"), after.settings.get("track_counts"))
    others = "" if before.since == after.since else f"since {after.since}, and before since {before.since}"
    return (
        _one("sessions", "a session is given, and may write", refused),
        _UNCOUNTED if is_uncounted and not told else _one("rows", "none written, as the server counts", told),
        _one("definitions", "as before", _changed(before.definitions, after.definitions)),
        _one("settings", "as before", _changed(before.settings, after.settings)),
        _one("replication", "as before", links),
        _one("server", "running since before the rehearsal", [others] if others else []),
        WayBackEvidence(what="WAL", found=f"{bytes_text(max(0, after.wal - before.wal))} written, by whomever"),
    )  # fmt: skip


def _one(what: str, alike: str, differs: list[str]) -> WayBackEvidence:
    return WayBackEvidence(what=what, found=some_text(differs, _NAMED) or alike, is_alike=not differs)


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    return [
        f"{name} is another" for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)
    ]


def _definitions(rows: AskRows) -> dict[str, str]:
    """Return a digest of all objects of each topic."""
    topics = dict[str, list[str]]()
    for (topic, name), values in definitions_of(rows).items():
        topics.setdefault(topic, []).append(repr((name, values)))
    return {topic: _digest(sorted(texts)) for topic, texts in topics.items()}


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
