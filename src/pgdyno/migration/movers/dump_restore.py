"""The mover `dump`: pg_dump into a directory, pg_restore from it by sections, a run of pg_restore for each item.

An item is restored in one transaction, so that it is there as a whole or not at all, and a killed rehearsal goes on
with those that are missing. The archive itself is taken anew where pg_dump did not come to its end.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from psycopg.conninfo import make_conninfo

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.migration.mover import Announcement, ItemWatch, MoveItem, MovePlace, PhaseStep, TargetFiller
from pgdyno.migration.movers import target_database
from pgdyno.migration.movers.archive_list import ArchiveEntry, ArchiveParts, keys_of, parts_of, read_list
from pgdyno.migration.movers.client_program import (
    ProgramFailed,
    handed_over,
    program_major,
    refused_compression,
    run_client,
)
from pgdyno.migration.movers.dump_log import DumpLog
from pgdyno.migration.movers.item_pool import in_pool
from pgdyno.migration.movers.presence import (
    analyze,
    constraint_name,
    has_any,
    has_constraint,
    has_relation,
    has_rows,
    has_statistics,
    indexes_of_views,
    loaded_rows,
    relation_name,
    stored_tables,
    with_extended_statistics,
)
from pgdyno.migration.movers.target_database import DATABASE, ROLES, SETTINGS
from pgdyno.migration.own_folder import require_own, require_reach
from pgdyno.model.results.migrate import MigrationPhase as P
from pgdyno.model.tables import near_hint
from pgdyno.outside.files import open_file

DUMP = "dump"
ARCHIVE, STRUCTURES = "archive", "structures"
LARGE, OTHERS, VALUES, STATISTICS = "large objects", "the others", "sequence values", "statistics"
TRIES = 3
"""Foreign keys between two tables, each to the other, can stand in each other's way; the server ends one of them."""
STATISTICS_SINCE = 18
OPTIONS = ("compress", "statistics", "transfer_to")
_PARTS = {LARGE: P.IMPORT, OTHERS: P.CONSTRAINTS, VALUES: P.SEQUENCES, STATISTICS: P.STATISTICS}


_CATALOGS = {
    "TRIGGER": "pg_trigger",
    "POLICY": "pg_policy",
    "RULE": "pg_rewrite",
    "STATISTICS": "pg_statistic_ext",
    "EVENT TRIGGER": "pg_event_trigger",
}
_MADE = ("pg_class", "pg_proc", "pg_type", "pg_namespace", "pg_extension")


class DumpRestore(TargetFiller):
    """Moves one database by pg_dump and pg_restore."""

    name = "dump"

    def __init__(self) -> None:
        self._listed: ArchiveParts | None = None
        self._lock = threading.Lock()

    def check(self, options: Mapping[str, str]) -> None:
        """Refuse unknown options, see `Mover.check`."""
        for key, value in options.items():
            if key not in OPTIONS:
                raise UsageError(f'mover "dump" has no option "{key}"', hint=near_hint(key, OPTIONS))
            if key == "statistics" and value not in ("analyze", "transfer"):
                raise UsageError(f'statistics "{value}" is not one of analyze, transfer')
            if key == "transfer_to" and not value.startswith("/"):
                raise UsageError(f'transfer_to "{value}" is not the absolute path of a folder')

    def steps(self, options: Mapping[str, str]) -> tuple[PhaseStep, ...]:
        """Return its phases; sequences beside the import, statistics beside the constraints.

        Statistics that are transferred come after them: some are of materialized views, which are made with them.
        """
        stays = "" if "transfer_to" in options else "the dump lies where pg_restore reads it"
        before = P.CONSTRAINTS if options.get("statistics") == "transfer" else P.INDEXES
        return (
            PhaseStep(P.EXPORT),
            PhaseStep(P.TRANSFER, (P.EXPORT,), stays),
            PhaseStep(P.STRUCTURES, (P.TRANSFER,)),
            PhaseStep(P.IMPORT, (P.STRUCTURES,)),
            PhaseStep(P.SEQUENCES, (P.STRUCTURES,)),
            PhaseStep(P.INDEXES, (P.IMPORT,)),
            PhaseStep(P.CONSTRAINTS, (P.INDEXES, P.SEQUENCES)),
            PhaseStep(P.STATISTICS, (before,)),
        )

    def refuse(self, place: MovePlace) -> None:
        """Refuse a target that is older, or has a database of that name; see `Mover.refuse`."""
        source, target = place.source, place.target
        if target.major < source.major:
            raise EnvironmentUnsuitable(
                f"{target.target.name} is PostgreSQL {target.major}, older than the source's {source.major}",
                hint="Dumps are for the same version or a newer one.",
            )
        for name in ("pg_dump", "pg_restore"):
            place.program(name)
        major = program_major(Path(place.program("pg_dump")), place.account)
        if place.options.get("statistics") == "transfer" and major < STATISTICS_SINCE:
            raise UsageError(
                "only pg_dump of PostgreSQL 18 or later can transfer statistics",
                hint='Write statistics = "analyze", or name a newer build.',
            )
        compression = place.options.get("compress", "")
        refused = refused_compression(place.program("pg_dump"), compression, place.account) if compression else ""
        if refused:
            raise UsageError(
                f'this pg_dump does not support compress "{compression}"',
                detail=refused,
                hint='Write a level, such as compress = 1, or name a build that has it: programs = "/usr/.../bin".',
            )
        if "transfer_to" in place.options:
            require_reach(Path(place.options["transfer_to"]), place.account, writes=True)
        target_database.require_replaceable(target)

    def announce(self, place: MovePlace) -> Announcement:
        """Say what comes; see `Mover.announce`."""
        said = target_database.comment_of(place.target)
        replaced = f'drop database "{place.target.database}", {target_database.MADE}' if said is not None else ""
        return Announcement(
            (),
            f'drop database "{place.target.database}" on the target, and delete the folder of the dump'
            + (f"; before: {replaced}" if replaced else ""),
            "from the beginning of the export to the end of the validation: what is written meanwhile is not moved",
            "the source is untouched: keep using it, and leave the target alone",
        )

    def bytes_needed(self, place: MovePlace) -> tuple[int, int]:
        """Return the size of the database for both: how well it packs nobody knows beforehand."""
        size = place.source.size_bytes
        return size * (2 if "transfer_to" in place.options else 1), size

    def items(self, phase: P, place: MovePlace) -> tuple[MoveItem, ...]:
        """Return the items of a phase; see `Mover.items`."""
        if phase is P.EXPORT:
            tables = stored_tables(place.source.postgres)
            return (*(MoveItem(key, "table", one.bytes) for key, one in tables.items()), MoveItem(ARCHIVE, "archive"))
        if phase is P.TRANSFER:
            found = sorted(os.scandir(place.folder / DUMP), key=lambda one: one.name)
            return tuple(MoveItem(one.name, "file", one.stat(follow_symlinks=False).st_size) for one in found)
        parts = self._parts(place)
        if phase is P.STRUCTURES:
            kinds = {DATABASE: "database", ROLES: "roles", STRUCTURES: "structures", SETTINGS: "settings"}
            return tuple(MoveItem(key, kind) for key, kind in kinds.items())
        sizes = stored_tables(place.source.postgres) if phase is P.IMPORT else {}
        single = [
            MoveItem(
                key, one.kind.removesuffix(" DATA").lower(), sizes[one.label].bytes if one.label in sizes else None
            )
            for key, one in keys_of(parts.of(phase)).items()
        ]
        single.sort(key=lambda one: -(one.bytes or 0))  # the largest first, so that no place is idle at the end
        if phase is P.STATISTICS:
            target = place.target.postgres
            # a dump has none of several columns: their tables are analyzed all the same
            only = with_extended_statistics(target) if place.options.get("statistics") == "transfer" else None
            single = [MoveItem(key, "analyze") for key, one in stored_tables(target).items()
                      if only is None or (one.schema, one.name) in only]  # fmt: skip
        together = [MoveItem(key, key) for key, of in _PARTS.items() if of is phase and _together(parts, key)]
        return (*single, *together)

    def is_done(self, phase: P, item: MoveItem, place: MovePlace) -> bool:
        """Ask the target whether an item is there; see `Mover.is_done`."""
        target = place.target.postgres
        if phase is P.EXPORT:
            return False  # a dump is of one snapshot: it is taken again as a whole
        if phase is P.TRANSFER:
            with os.scandir(self._archive(place)) as found:
                return any(one.name == item.key and one.stat().st_size == item.bytes for one in found)
        if phase is P.STRUCTURES:
            if item.key == DATABASE:
                return target_database.is_made(place)
            return item.key == STRUCTURES and any(has_any(target, one) for one in _MADE)
        if item.key == OTHERS:
            return self._has_others(place)
        if item.key == LARGE:
            return has_rows(target, "pg_catalog", "pg_largeobject")
        if item.key in _PARTS or phase is P.STATISTICS:
            return False  # said again, it says the same
        entry = keys_of(self._parts(place).of(phase))[item.key]
        source = place.source.postgres
        if phase is P.IMPORT:
            return has_rows(target, *relation_name(source, entry.oid))
        if entry.kind == "INDEX":
            return has_relation(target, *relation_name(source, entry.oid))
        if entry.kind == "STATISTICS":
            return has_statistics(source, target, entry.oid)
        return has_constraint(target, *constraint_name(source, entry.oid))

    def run(self, phase: P, items: tuple[MoveItem, ...], place: MovePlace, watch: ItemWatch) -> None:
        """Do the items of a phase; see `Mover.run`."""
        if phase is P.EXPORT:
            self._export(items, place, watch)
            return
        work = partial(self._one, phase, place)
        if phase is P.TRANSFER:
            run_client(place, ["mkdir", "-p", "-m", "700", str(self._archive(place))], {}, "mkdir")
            require_own(self._archive(place), place.account)
        together = [one for one in items if one.key in _PARTS]
        in_turn = phase is P.STRUCTURES
        in_pool(items if in_turn else [one for one in items if one not in together], 1 if in_turn else place.jobs,
                work, place.halt, watch)  # fmt: skip
        in_pool([] if in_turn else together, 1, work, place.halt, watch)
        if phase is P.IMPORT and not place.halt():
            for key, rows in loaded_rows(place.target.postgres).items():
                watch.sized(key, rows=rows)

    def _one(self, phase: P, place: MovePlace, item: MoveItem) -> bool:
        """Do one item; False where it was ended because of `halt`."""
        if phase is P.TRANSFER:
            return run_client(place, ["cp", "--", f"{DUMP}/{item.key}", str(self._archive(place))], {}, item.key)
        if phase is P.STRUCTURES and item.key in target_database.MAKERS:
            target_database.MAKERS[item.key](place)
            return True
        if item.kind == "analyze":
            analyze(place.target.postgres, item.key, place.tag)
            return True
        parts = self._parts(place)
        if item.key == STRUCTURES and phase is P.STRUCTURES:
            entries: Sequence[ArchiveEntry] = parts.structures
        elif item.key in _PARTS:
            entries = _together(parts, item.key)
        else:
            entries = (keys_of(parts.of(phase))[item.key],)
        return self._restore(place, entries, f"{phase.value}-{entries[0].number}" if entries else phase.value)

    def _export(self, items: tuple[MoveItem, ...], place: MovePlace, watch: ItemWatch) -> None:
        self._listed = None
        shutil.rmtree(place.folder / DUMP, ignore_errors=True)
        left = {one.key for one in items if one.key != ARCHIVE}
        sizes = {one.key: one.bytes for one in items}
        log = DumpLog(is_parallel=place.jobs > 1)

        def hear(line: str) -> None:
            for name, begins in log.read(line):
                note(name, begins=begins)

        def note(name: str, *, begins: bool) -> None:
            if begins:
                watch.began(name)
            else:
                left.discard(name)
                watch.ended(name, bytes=sizes.get(name))

        watch.began(ARCHIVE)
        argv = [place.program("pg_dump"), "--format=directory", f"--jobs={place.jobs}", f"--file={DUMP}", "--verbose",
                "--no-password", "--no-publications", "--no-subscriptions"]  # fmt: skip
        if "compress" in place.options:
            argv.append(f"--compress={place.options['compress']}")
        if place.options.get("statistics") == "transfer":
            argv.append("--statistics")
        source = place.source.postgres
        try:
            whole = run_client(
                place, argv, source.environment(place.source.database, whole=place.account is not None), "pg_dump",
                told=hear,
            )  # fmt: skip
        except ProgramFailed as error:
            watch.failed(ARCHIVE, error.one_line)
            raise
        if not whole:
            return
        for name, _ in log.rest():
            note(name, begins=False)
        for name in sorted(left):  # nothing was to be dumped of it
            watch.began(name)
            watch.ended(name, bytes=sizes.get(name))
        total = sum(one.stat(follow_symlinks=False).st_size for one in os.scandir(place.folder / DUMP))
        watch.ended(ARCHIVE, bytes=total)

    def _restore(self, place: MovePlace, entries: Sequence[ArchiveEntry], log: str) -> bool:
        if not entries:
            return True
        target = place.target
        with handed_over("".join(f"{one.line}\n" for one in entries)) as (path, descriptor):
            argv = [place.program("pg_restore"), "--single-transaction", "--no-password", f"--use-list={path}",
                    f"--dbname={make_conninfo(dbname=target.database)}", str(self._archive(place))]  # fmt: skip
            environment = target.server.environment(target.database, whole=place.account is not None)
            for tried in range(1, TRIES + 1):
                try:
                    return run_client(place, argv, environment, log, fds=(descriptor,))
                except ProgramFailed as error:
                    if tried == TRIES or "deadlock detected" not in str(error.detail):
                        raise
        raise AssertionError("the last try returns or raises")

    def _archive(self, place: MovePlace) -> Path:
        """Return the folder of the archive, from which it is restored."""
        if "transfer_to" in place.options:
            return Path(place.options["transfer_to"]) / place.folder.name
        return Path(DUMP) if place.account is not None else place.folder / DUMP

    def _parts(self, place: MovePlace) -> ArchiveParts:
        """Return what the archive has, by phase; it is listed once."""
        with self._lock:
            if self._listed is None:
                self._listed = self._list(place)
            return self._listed

    def _list(self, place: MovePlace) -> ArchiveParts:
        views = indexes_of_views(place.source.postgres)
        before, data, after = (self._section(place, name) for name in ("pre-data", "data", "post-data"))
        return parts_of(before, data, after, views)

    def _section(self, place: MovePlace, section: str) -> tuple[ArchiveEntry, ...]:
        log = f"list-{section}"
        argv = [place.program("pg_restore"), "--list", f"--section={section}", str(self._archive(place))]
        run_client(place, argv, {}, log)
        with open_file(place.folder / f"log-{log}.out", follow=False) as file:
            return read_list(file.read().decode(errors="replace"))

    def _has_others(self, place: MovePlace) -> bool:
        """Tell whether what is restored together is there: one of it is enough, it came in one transaction."""
        kinds = {one.kind for one in self._parts(place).others}
        return any(has_any(place.target.postgres, _CATALOGS[kind]) for kind in kinds if kind in _CATALOGS)


def _together(parts: ArchiveParts, key: str) -> tuple[ArchiveEntry, ...]:
    return {
        LARGE: parts.large_objects,
        OTHERS: parts.others,
        VALUES: parts.sequences,
        STATISTICS: parts.statistics,
    }[key]
