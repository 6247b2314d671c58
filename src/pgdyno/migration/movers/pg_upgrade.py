"""The mover `pg_upgrade`: a copy of the source's files, upgraded by pg_upgrade to a cluster of the target's version.

The whole cluster is moved, and never the source itself: its files are copied by a base backup, or from a snapshot of a
stopped one. The plan's target says the version and whose programs; it is not changed, for the upgraded cluster is a
server of its own, in the rehearsal's folder, that is validated there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import LiteralString

from pgdyno.errors import EnvironmentUnsuitable, PgdynoError, UsageError
from pgdyno.migration.mover import Announcement, ItemWatch, MigrationSide, MoveItem, MovePlace, PhaseStep
from pgdyno.migration.movers.cluster_pair import ClusterPair
from pgdyno.migration.movers.item_pool import in_pool
from pgdyno.migration.movers.upgrade_words import (
    COPY,
    MODES,
    analyze_words,
    initdb_words,
    require_versions,
    upgrade_words,
    way_back_words,
)
from pgdyno.model.results.migrate import MigrationPhase as P
from pgdyno.model.tables import near_hint
from pgdyno.replay.base_backup import BaseBackup
from pgdyno.replay.file_copy import FileCopy
from pgdyno.server.postgres import Postgres

OPTIONS = ("mode", "afterwards", "old_programs", "snapshot")
FILES, REST, CLUSTER, CHECK, UPGRADE, START = (
    "files of the source", "recovery and stop", "new cluster", "check", "pg_upgrade", "start",
)  # fmt: skip
_BEGUN = "upgrade-begun"
_TABLESPACES = "SELECT spcname AS name FROM pg_catalog.pg_tablespace WHERE spcname !~ '^pg_' ORDER BY 1"
_PREPARED = "SELECT gid AS name FROM pg_catalog.pg_prepared_xacts ORDER BY 1"
_UNLOGGED = (
    "SELECT n.nspname || '.' || c.relname AS name FROM pg_catalog.pg_class AS c"
    " JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND c.relpersistence = 'u'"
    " AND pg_catalog.pg_relation_size(c.oid) > 0 ORDER BY 1"
)
_DATABASES = "SELECT datname AS name FROM pg_catalog.pg_database WHERE datallowconn ORDER BY 1"
_EXTENSIONS = "SELECT extname AS name FROM pg_catalog.pg_extension ORDER BY 1"
_AVAILABLE = "SELECT name FROM pg_catalog.pg_available_extensions"


class PgUpgrade:
    """Moves a whole cluster by pg_upgrade, on a copy of its files."""

    name = "pg_upgrade"
    fills_target = False

    def __init__(self) -> None:
        self._pairs: dict[Path, ClusterPair] = {}
        self._upgrade_s: float | None = None
        self._start_s: float | None = None

    def check(self, options: Mapping[str, str]) -> None:
        """Refuse unknown options, see `Mover.check`."""
        for key, value in options.items():
            if key not in OPTIONS:
                raise UsageError(f'mover "pg_upgrade" has no option "{key}"', hint=near_hint(key, OPTIONS))
            if key == "mode" and value not in MODES:
                raise UsageError(f'mode "{value}" is not one of {", ".join(MODES)}')
            if key == "afterwards" and value not in ("drop", "keep"):
                raise UsageError(f'afterwards "{value}" is not one of drop, keep')
            if key in ("old_programs", "snapshot") and not value.startswith("/"):
                raise UsageError(f'{key} "{value}" is not the absolute path of a folder')

    def steps(self, options: Mapping[str, str]) -> tuple[PhaseStep, ...]:
        """Return its phases: the new cluster is made while the files are copied."""
        return (
            PhaseStep(P.TRANSFER),
            PhaseStep(P.STRUCTURES),
            PhaseStep(P.UPGRADE, (P.TRANSFER, P.STRUCTURES)),
            PhaseStep(P.STATISTICS, (P.UPGRADE,)),
        )

    def refuse(self, place: MovePlace) -> None:
        """Refuse versions, programs and contents that pg_upgrade cannot do; see `Mover.refuse`."""
        source, target = place.source, place.target
        require_versions(source.major, target.major, place.options)
        if not target.target.local:
            raise EnvironmentUnsuitable(
                f'"{target.target.name}" is on another host, and pg_upgrade works on files of this one',
                hint="Rehearse it on the target's host.",
            )
        if names := _names(source.server, _TABLESPACES):
            raise EnvironmentUnsuitable(
                f"the source has tablespaces, whose files would lie outside of the copy: {', '.join(names)}",
                hint="Use mover dump.",
            )
        if names := _names(source.server, _PREPARED):
            raise EnvironmentUnsuitable(
                f"the source has prepared transactions, which pg_upgrade refuses: {', '.join(names[:10])}",
                hint="COMMIT PREPARED or ROLLBACK PREPARED each of them.",
            )
        if "snapshot" not in place.options and (names := _names(source.postgres, _UNLOGGED)):
            raise EnvironmentUnsuitable(
                f"the rows of unlogged tables are in no base backup: {', '.join(names[:10])}",
                hint="Name the files of a stopped server with the same data by snapshot in [mover], or empty them.",
            )
        self._refuse_extensions(place)
        pair = self._pair(place)
        pair.require_programs()
        if "snapshot" in place.options:
            FileCopy(Path(place.options["snapshot"])).bytes_needed(pair.as_owner())

    def announce(self, place: MovePlace) -> Announcement:
        """Say what comes; see `Mover.announce`."""
        taken = "a base backup is taken: a checkpoint at once, and a temporary slot and two WAL senders while it lasts"
        kept = "; the upgraded cluster stays in it, stopped and marked as a copy" if self.keeps(place.options) else ""
        return Announcement(
            () if "snapshot" in place.options else (taken,),
            f"delete the rehearsal's folder in {place.folder}: source and target are not changed{kept}",
            "from the beginning of pg_upgrade to the start of the new server, once its check is over. The copy is the "
            "rehearsal's alone; statistics that are missing make plans worse until they are there",
            way_back_words(_mode(place)),
        )

    def bytes_needed(self, place: MovePlace) -> tuple[int, int]:
        """Return the size of the cluster, twice where files are copied, and nothing on the target."""
        return self._size(place) * (2 if _mode(place) == COPY else 1), 0

    def items(self, phase: P, place: MovePlace) -> tuple[MoveItem, ...]:
        """Return the items of a phase; see `Mover.items`."""
        if phase is P.TRANSFER:
            return (MoveItem(FILES, "copy", self._size(place)), MoveItem(REST, "recovery"))
        if phase is P.STRUCTURES:
            return (MoveItem(CLUSTER, "initdb"),)
        if phase is P.UPGRADE:
            return (MoveItem(CHECK, "check"), MoveItem(UPGRADE, _mode(place)), MoveItem(START, "start"))
        return tuple(MoveItem(key, "vacuumdb") for key in self._analyze(place))

    def is_done(self, phase: P, item: MoveItem, place: MovePlace) -> bool:
        """Say no: a program that was killed is run again, on new copies where it had begun to change them."""
        return False

    def run(self, phase: P, items: tuple[MoveItem, ...], place: MovePlace, watch: ItemWatch) -> None:
        """Do the items of a phase; see `Mover.run`."""
        if phase is P.STATISTICS:
            self._pair(place).start_new()  # a run before this one may have ended after it was started
        in_pool(items, 1, partial(self._do, place), place.halt, watch)

    def outage_s(self, place: MovePlace) -> float | None:
        """Return how long pg_upgrade and the start took; None where an earlier run did one of them."""
        return None if self._upgrade_s is None or self._start_s is None else self._upgrade_s + self._start_s

    def validated(self, place: MovePlace) -> MigrationSide:
        """Return the upgraded cluster, and let it run; see `Mover.validated`."""
        pair = self._pair(place)
        pair.start_new()
        return pair.upgraded

    def keeps(self, options: Mapping[str, str]) -> str:
        """Return the folder of the new cluster where the plan says that it stays."""
        return "new" if options.get("afterwards") == "keep" else ""

    def tidy(self, place: MovePlace) -> None:
        """Stop both servers of the rehearsal; nothing of it is on the source."""
        self._pair(place).stop()

    def _do(self, place: MovePlace, item: MoveItem) -> bool:
        pair = self._pair(place)
        if item.key == FILES:
            return pair.copy()
        if item.key == REST:
            return pair.recover()
        if item.key == CLUSTER:
            return pair.make_new(self._initdb(pair))
        if item.key == CHECK:
            return self._pg_upgrade(pair, check=True)
        if item.key == UPGRADE:
            return self._upgrade(pair)
        if item.key == START:
            begin = time.monotonic()
            pair.start_new()
            self._start_s = time.monotonic() - begin
            return True
        return pair.run("statistics", self._analyze(place)[item.key])

    def _upgrade(self, pair: ClusterPair) -> bool:
        """Upgrade, on new copies where a killed or failed run had begun to."""
        if pair.is_noted(_BEGUN):
            pair.place.tell(
                "an upgrade was started and did not finish: the files are copied and the cluster is made again"
            )
            again = pair.copy() and pair.recover() and pair.make_new(self._initdb(pair))
            if not (again and self._pg_upgrade(pair, check=True)):
                return False
        pair.note(_BEGUN)
        begin = time.monotonic()
        done = self._pg_upgrade(pair)
        self._upgrade_s = time.monotonic() - begin
        return done

    def _pg_upgrade(self, pair: ClusterPair, *, check: bool = False) -> bool:
        bins = (pair.old_build.bin_dir, pair.new_build.bin_dir)
        pair.make_sockets()
        argv = upgrade_words(
            str(bins[1] / "pg_upgrade"), bins, (pair.old, pair.new), pair.shape.superuser, pair.sockets,
            mode=_mode(pair.place), jobs=pair.place.jobs, check=check,
        )  # fmt: skip
        return pair.run(CHECK if check else "upgrade", argv)

    def _initdb(self, pair: ClusterPair) -> list[str]:
        return initdb_words(str(pair.new_build.bin_dir / "initdb"), pair.new, pair.shape, pair.new_build.major)

    def _analyze(self, place: MovePlace) -> dict[str, list[str]]:
        pair = self._pair(place)
        program = str(pair.new_build.bin_dir / "vacuumdb")
        return analyze_words(program, pair.shape.superuser, pair.sockets, place.jobs, pair.new_build.major)

    def _size(self, place: MovePlace) -> int:
        """Return the bytes of all of the source's databases."""
        return BaseBackup(place.source.server).bytes_needed(place.source.target)

    def _pair(self, place: MovePlace) -> ClusterPair:
        """Return the clusters in the place's folder; what was found of their programs is kept."""
        return self._pairs.setdefault(place.folder, ClusterPair(place))

    def _refuse_extensions(self, place: MovePlace) -> None:
        available = {*_names(place.target.server, _AVAILABLE)}
        missing = dict[str, str]()
        for database in _names(place.source.server, _DATABASES):
            with suppress(PgdynoError):  # one that this role may not enter: pg_upgrade's own check looks there
                rows = place.source.server.in_database(database).fetch(_EXTENSIONS)
                missing |= {str(row["name"]): database for row in rows if str(row["name"]) not in available}
        if missing:
            told = ", ".join(f'{name} (database "{database}")' for name, database in sorted(missing.items()))
            raise EnvironmentUnsuitable(
                f"the target's version lacks extensions of the source: {told}",
                hint="Install them for the target's PostgreSQL: all databases of a cluster are upgraded.",
            )


def _mode(place: MovePlace) -> str:
    return place.options.get("mode", COPY)


def _names(server: Postgres, query: LiteralString) -> list[str]:
    return [str(row["name"]) for row in server.fetch(query)]
