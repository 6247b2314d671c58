"""The mover `logical`: structures by pg_dump, rows by logical replication, and a cut-over whose length is the outage.

The source goes on working. What it gets is a publication and a slot, until the cut-over or any other end; a killed
rehearsal copies the tables anew, because a slot that nobody reads would fill the source's disk.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgdyno.contents.snapshot import snapshot
from pgdyno.errors import EnvironmentUnsuitable, PgdynoError, UsageError
from pgdyno.migration.mover import Announcement, ItemWatch, MoveItem, MovePlace, PhaseStep, TargetFiller
from pgdyno.migration.movers import target_database
from pgdyno.migration.movers.client_program import run_client
from pgdyno.migration.movers.item_pool import in_pool
from pgdyno.migration.movers.logical_link import LinkGuard, ReplicationLink, link_name, undo_lines, wait_for
from pgdyno.migration.movers.presence import StoredName, analyze, empty_tables, stored_tables
from pgdyno.migration.movers.target_database import DATABASE, ROLES, SETTINGS
from pgdyno.migration.validation.comparing import Definitions, definitions_of
from pgdyno.migration.validation.positions import standing
from pgdyno.model.results.migrate import MigrationPhase as P
from pgdyno.model.tables import near_hint
from pgdyno.server.postgres import refuse_secrets
from pgdyno.units import bytes_text, parse_quantity, some_text

OPTIONS = ("reach", "wal_limit")
WAL_LIMIT = 4 << 30
STRUCTURES = "structures"
CATCH_UP, CHANGES, VALUES = "what changed during the copy", "the last changes", "sequence values"
_FILE = "structures.dump"
_WHAT_IT_LEAVES = """
SELECT 'table ' || c.oid::pg_catalog.regclass::text || CASE WHEN c.relpersistence = 'u' THEN ' is unlogged'
  ELSE ' has neither primary key nor replica identity' END AS what
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
  AND (c.relpersistence = 'u' OR c.relreplident = 'n' OR c.relreplident = 'd' AND NOT EXISTS
       (SELECT FROM pg_catalog.pg_index AS i WHERE i.indrelid = c.oid AND i.indisprimary))
UNION ALL SELECT 'there are large objects' WHERE EXISTS (SELECT FROM pg_catalog.pg_largeobject_metadata)
ORDER BY 1
"""
_ROOM = """
SELECT pg_catalog.current_setting('max_replication_slots')::int
         - (SELECT pg_catalog.count(*)::int FROM pg_catalog.pg_replication_slots) AS slots,
       pg_catalog.current_setting('max_wal_senders')::int
         - (SELECT pg_catalog.count(*)::int FROM pg_catalog.pg_stat_replication) AS senders,
       pg_catalog.current_setting('wal_level') AS level
"""
_STATES = """
SELECT n.nspname AS schema, c.relname AS name, r.srsubstate::text AS state
FROM pg_catalog.pg_subscription AS s JOIN pg_catalog.pg_subscription_rel AS r ON r.srsubid = s.oid
JOIN pg_catalog.pg_class AS c ON c.oid = r.srrelid JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE s.subname = %s
"""
_CONFIRMED = """
SELECT confirmed_flush_lsn >= %s::pg_catalog.pg_lsn AS caught_up FROM pg_catalog.pg_replication_slots
WHERE slot_name = %s
"""


class LogicalReplication(TargetFiller):
    """Moves one database by publication and subscription."""

    name = "logical"

    def __init__(self) -> None:
        self._guard: LinkGuard | None = None
        self._structures: Definitions = {}
        self._outage_s: float | None = None

    def check(self, options: Mapping[str, str]) -> None:
        """Refuse unknown options, see `Mover.check`."""
        for key, value in options.items():
            if key not in OPTIONS:
                raise UsageError(f'mover "logical" has no option "{key}"', hint=near_hint(key, OPTIONS))
            if key == "wal_limit":
                parse_quantity(value, "B")
            if key == "reach":
                refuse_secrets(value, key)

    def steps(self, options: Mapping[str, str]) -> tuple[PhaseStep, ...]:
        """Return its phases: indexes and constraints are there before the rows."""
        return (
            PhaseStep(P.STRUCTURES),
            PhaseStep(P.IMPORT, (P.STRUCTURES,)),
            PhaseStep(P.STATISTICS, (P.IMPORT,)),
            PhaseStep(P.CATCH_UP, (P.IMPORT,)),
            PhaseStep(P.CUT_OVER, (P.CATCH_UP, P.STATISTICS)),
        )

    def refuse(self, place: MovePlace) -> None:
        """Refuse what logical replication cannot carry, and a source whose settings it would need changed."""
        source = place.source
        (room,) = source.server.fetch(_ROOM)
        if room["level"] != "logical":
            raise EnvironmentUnsuitable(
                f'{source.target.name} has wal_level "{room["level"]}", and logical replication needs "logical"',
                hint="A rehearsal does not change it: that restarts the source. Use mover dump, or set it yourself.",
            )
        if min(int(str(room["slots"])), int(str(room["senders"]))) < 2:
            raise EnvironmentUnsuitable(
                f"{source.target.name} has {room['slots']} replication slots and {room['senders']} WAL senders left",
                hint="At least two of each are needed: raise max_replication_slots and max_wal_senders.",
            )
        left = [str(row["what"]) for row in source.postgres.fetch(_WHAT_IT_LEAVES)]
        if left:
            raise EnvironmentUnsuitable(
                f'logical replication cannot move all of "{source.database}": {some_text(left, 10)}',
                hint="Once published, a table without a key refuses UPDATE and DELETE on the source. Give it a replica "
                "identity, or use mover dump.",
            )
        for name in ("pg_dump", "pg_restore"):
            place.program(name)
        target_database.require_replaceable(place.target)

    def announce(self, place: MovePlace) -> Announcement:
        """Say what the source gets; see `Mover.announce`."""
        limit = bytes_text(_wal_limit(place))
        return Announcement(
            (
                "a publication and a replication slot called pgdyno_migrate_..., until the cut-over or any other end",
                f"WAL is kept for the slot; more than {limit} end the rehearsal",
            ),
            "; ".join(undo_lines("pgdyno_migrate_...")) + "; a separate process does it if this one is killed",
            "from the beginning of the cut-over to its end: until then the source keeps working",
            "the source is untouched: what the target was given after the cut-over is not on it",
        )

    def bytes_needed(self, place: MovePlace) -> tuple[int, int]:
        """Return nothing for the structures, and the size of the database on the target."""
        return 0, place.source.size_bytes

    def items(self, phase: P, place: MovePlace) -> tuple[MoveItem, ...]:
        """Return the items of a phase; see `Mover.items`."""
        if phase is P.STRUCTURES:
            return tuple(MoveItem(key, "structures") for key in (DATABASE, ROLES, STRUCTURES, SETTINGS))
        if phase is P.CATCH_UP:
            return (MoveItem(CATCH_UP, "changes"),)
        if phase is P.CUT_OVER:
            return (MoveItem(CHANGES, "changes"), MoveItem(VALUES, "sequences"))
        kind = "table" if phase is P.IMPORT else "analyze"
        return tuple(MoveItem(key, kind, one.bytes) for key, one in stored_tables(place.source.postgres).items())

    def is_done(self, phase: P, item: MoveItem, place: MovePlace) -> bool:
        """Say no but of the database: the replication of a killed run is gone."""
        return phase is P.STRUCTURES and item.key == DATABASE and target_database.is_made(place)

    def run(self, phase: P, items: tuple[MoveItem, ...], place: MovePlace, watch: ItemWatch) -> None:
        """Do the items of a phase; see `Mover.run`."""
        if phase is P.IMPORT:
            if items:
                self._copy(place, watch, {one.key: one.bytes for one in items})
        elif phase is P.CUT_OVER:
            self._cut_over(items, place, watch)
        else:
            work = {P.STRUCTURES: self._structure, P.CATCH_UP: self._catch_up, P.STATISTICS: self._analyze}[phase]
            in_pool(items, 1, partial(work, place), place.halt, watch)

    def outage_s(self, place: MovePlace) -> float | None:
        """Return how long the cut-over took."""
        return self._outage_s

    def tidy(self, place: MovePlace) -> None:
        """Take publication, slot and subscription away; what cannot be reached now is left to the guard."""
        try:
            _link(place).take_away()
        except PgdynoError as error:
            place.tell(f"left behind: {'; '.join(undo_lines(_link(place).name))}: {error.one_line}")
            return  # the guard, if there is one, goes on trying when we are gone
        if self._guard is not None:
            self._guard.release()
            self._guard = None

    def _structure(self, place: MovePlace, item: MoveItem) -> bool:
        if item.key in target_database.MAKERS:
            target_database.MAKERS[item.key](place)
            return True
        file = _FILE if place.account is not None else str(place.folder / _FILE)
        whole = place.account is not None
        dump = [place.program("pg_dump"), "--schema-only", "--format=custom", f"--file={file}", "--no-password",
                "--no-publications", "--no-subscriptions"]  # fmt: skip
        load = [place.program("pg_restore"), "--single-transaction", "--no-password",
                f"--dbname={make_conninfo(dbname=place.target.database)}", file]  # fmt: skip
        source = place.source.postgres.environment(place.source.database, whole=whole)
        target = place.target.server.environment(place.target.database, whole=whole)
        return run_client(place, dump, source, "structures-dump") and run_client(place, load, target, "structures-load")

    def _begin(self, place: MovePlace, tables: Mapping[str, StoredName]) -> None:
        """Begin the replication with empty tables; what was there of it is taken away before."""
        link = _link(place)
        link.take_away()
        empty_tables(place.target.postgres, [*tables.values()])
        self._guarded(place)
        self._structures = _structures_of(place)
        source = place.source.postgres
        reach = place.options.get("reach") or source.with_secrets(source.secrets()[0]).conninfo
        link.make([*tables.values()], reach)

    def _guarded(self, place: MovePlace) -> None:
        """Start a guard where there is none, or it was killed."""
        if self._guard is None or not self._guard.lives:
            self._guard = LinkGuard(_link(place))

    def _see_to_it(self, place: MovePlace) -> None:
        _require_room(place)
        self._guarded(place)

    def _copy(self, place: MovePlace, watch: ItemWatch, sizes: Mapping[str, int | None]) -> None:
        tables = stored_tables(place.source.postgres)
        self._begin(place, tables)
        keys = {(one.schema, one.name): key for key, one in tables.items()}
        began, left = set[str](), set(sizes)

        def copied() -> bool:
            self._see_to_it(place)
            for row in place.target.postgres.fetch(_STATES, [_link(place).name]):
                name, state = keys.get((str(row["schema"]), str(row["name"])), ""), str(row["state"])
                if name in left and state != "i" and name not in began:
                    began.add(name)
                    watch.began(name)
                if name in left and state in ("f", "s", "r"):
                    left.discard(name)
                    watch.ended(name, bytes=sizes[name])
            return not left

        wait_for(copied, place.halt)

    def _catch_up(self, place: MovePlace, item: MoveItem) -> bool:
        tables = stored_tables(place.source.postgres)
        if tables and not _link(place).is_there():
            self._begin(place, tables)

        def ready() -> bool:
            self._see_to_it(place)
            states = {str(row["state"]) for row in place.target.postgres.fetch(_STATES, [_link(place).name])}
            return states <= {"r", "s"}

        return not tables or (wait_for(ready, place.halt) and self._applied(place))

    def _applied(self, place: MovePlace) -> bool:
        """Wait until the target has all that the source has by now; False where `halt` said so first."""
        link = _link(place)
        (row,) = link.source.fetch("SELECT pg_catalog.pg_current_wal_lsn()::text AS lsn")

        def caught_up() -> bool:
            self._see_to_it(place)
            rows = link.source.fetch(_CONFIRMED, [row["lsn"], link.name])
            if not rows:
                raise EnvironmentUnsuitable(f'replication slot "{link.name}" of the source is gone')
            return rows[0]["caught_up"] is True

        return wait_for(caught_up, place.halt, 0.02)

    def _analyze(self, place: MovePlace, item: MoveItem) -> bool:
        analyze(place.target.postgres, item.key, place.tag)
        return True

    def _cut_over(self, items: tuple[MoveItem, ...], place: MovePlace, watch: ItemWatch) -> None:
        """Do what keeps everybody from working: wait for the last change, then set the sequences."""
        if not self._catch_up(place, items[0]):  # anew, where a killed run had done it before
            return
        changed = sorted(_structures_of(place).items() ^ self._structures.items()) if self._structures else []
        if changed:
            named = "; ".join(dict.fromkeys(f"{topic} {name}" for (topic, name), _ in changed))
            raise EnvironmentUnsuitable(
                f"structures of the source were changed during the replication, which does not carry that: {named}",
                hint="Start a new rehearsal, and allow no schema changes until it ends.",
            )
        begin = time.monotonic()

        def work(item: MoveItem) -> bool:
            return _set_values(place) if item.key == VALUES else not self._structures or self._applied(place)

        in_pool(items, 1, work, place.halt, watch)
        self._outage_s = time.monotonic() - begin
        self.tidy(place)


def _link(place: MovePlace) -> ReplicationLink:
    return ReplicationLink(link_name(place.tag), place.source.postgres, place.target.postgres)


def _wal_limit(place: MovePlace) -> int:
    return int(parse_quantity(place.options["wal_limit"], "B")) if "wal_limit" in place.options else WAL_LIMIT


def _require_room(place: MovePlace) -> None:
    """Drop the slot and raise EnvironmentUnsuitable where it keeps more WAL on the source than it may."""
    kept, limit = _link(place).retained() or 0, _wal_limit(place)
    if kept > limit:
        _link(place).take_away()
        raise EnvironmentUnsuitable(
            f"the source keeps {bytes_text(kept)} of WAL for the replication, more than {bytes_text(limit)}",
            hint="The slot was dropped. Raise wal_limit where the source's disk has room, or copy at a quieter time.",
        )


def _set_values(place: MovePlace) -> bool:
    """Let each sequence of the target stand where that of the source does."""
    with snapshot(place.source.postgres) as rows:
        found, unread = standing(rows)
    if unread:
        raise EnvironmentUnsuitable("; ".join(unread))
    with place.target.postgres.connect() as session:
        for schema, name, value, is_called in found:
            sequence = sql.Identifier(schema, name).as_string(session)
            session.execute("SELECT pg_catalog.setval(%s::regclass, %s, %s)", [sequence, value, is_called])
    return True


def _structures_of(place: MovePlace) -> Definitions:
    with snapshot(place.source.postgres) as rows:
        return definitions_of(rows)
