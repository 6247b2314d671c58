"""The mover `pgcopydb`: one run of `pgcopydb clone`, where that is installed; one item, which it resumes itself."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from psycopg.conninfo import make_conninfo

from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.migration.mover import Announcement, ItemWatch, MoveItem, MovePlace, PhaseStep, TargetFiller
from pgdyno.migration.movers import target_database
from pgdyno.migration.movers.client_program import ProgramFailed, run_client
from pgdyno.migration.movers.item_pool import in_pool
from pgdyno.migration.movers.target_database import DATABASE, ROLES
from pgdyno.model.results.migrate import MigrationPhase as P
from pgdyno.owner.programs import check_program
from pgdyno.server.postgres import redact

_ERROR = re.compile(r" (?:ERROR|FATAL) +(.*)")
_NAMED = 8
PROGRAM, CLONE = "pgcopydb", "clone"


class PgCopyDb(TargetFiller):
    """Moves one database by pgcopydb, structures, data, indexes and all in one phase."""

    name = "pgcopydb"

    def check(self, options: Mapping[str, str]) -> None:
        """Refuse any option, see `Mover.check`."""
        for key in options:
            raise UsageError(f'mover "pgcopydb" has no option "{key}"', hint="Leave the table [mover] out.")

    def steps(self, options: Mapping[str, str]) -> tuple[PhaseStep, ...]:
        """Return its phases."""
        return (PhaseStep(P.STRUCTURES), PhaseStep(P.IMPORT, (P.STRUCTURES,)))

    def refuse(self, place: MovePlace) -> None:
        """Refuse where it is not installed; see `Mover.refuse`."""
        self._program()
        target_database.require_replaceable(place.target)

    def announce(self, place: MovePlace) -> Announcement:
        """Say what comes; see `Mover.announce`."""
        return Announcement(
            (),
            f'drop database "{place.target.database}" on the target',
            "from the beginning of the copy to the end of the validation: what is written meanwhile is not moved",
            "the source is untouched: keep using it, and leave the target alone",
        )

    def bytes_needed(self, place: MovePlace) -> tuple[int, int]:
        """Return nothing for its folder, and the size of the database for the target."""
        return 0, place.source.size_bytes

    def items(self, phase: P, place: MovePlace) -> tuple[MoveItem, ...]:
        """Return the database, then the whole of its contents."""
        if phase is P.STRUCTURES:
            return (MoveItem(DATABASE, DATABASE), MoveItem(ROLES, ROLES))
        return (MoveItem(CLONE, "database", self.bytes_needed(place)[1]),)

    def is_done(self, phase: P, item: MoveItem, place: MovePlace) -> bool:
        """Tell whether the database is made; what is left of a copy it resumes itself."""
        return item.key == DATABASE and target_database.is_made(place)

    def run(self, phase: P, items: tuple[MoveItem, ...], place: MovePlace, watch: ItemWatch) -> None:
        """Do the items of a phase; see `Mover.run`."""

        def work(item: MoveItem) -> bool:
            if item.key != CLONE:
                target_database.MAKERS[item.key](place)
                return True
            return self._clone(place)

        in_pool(items, 1, work, place.halt, watch)

    def _clone(self, place: MovePlace) -> bool:
        begun = (place.folder / "pgcopydb").exists()
        argv = [self._program(), "clone", f"--table-jobs={place.jobs}", f"--index-jobs={place.jobs}", "--dir=pgcopydb"]
        environment = {
            # it runs pg_dump and psql as it finds them: those of the version that suits, not a distribution's wrapper
            "PATH": f"{Path(place.program('pg_dump')).parent}:/usr/bin:/bin",
            "PGCOPYDB_SOURCE_PGURI": make_conninfo(place.source.server.conninfo, dbname=place.source.database),
            "PGCOPYDB_TARGET_PGURI": make_conninfo(place.target.server.conninfo, dbname=place.target.database),
        }
        argv += ["--resume", "--not-consistent"] if begun else []
        said = list[str]()
        try:
            return run_client(place, argv, environment, PROGRAM, told=said.append)
        except ProgramFailed as error:  # its last words are those of a process that ends with the others
            faults = [found[1].strip() for line in said if (found := _ERROR.search(line)) and found[1].strip()]
            detail = redact("; ".join(faults[:_NAMED])) or error.detail
            raise ProgramFailed(error.message, detail=detail) from error

    def _program(self) -> str:
        found = shutil.which(PROGRAM)
        if found is None:
            raise EnvironmentUnsuitable(
                'mover "pgcopydb" needs the program pgcopydb, which is not installed',
                hint='Install it, or write mover = "dump" in the plan.',
            )
        return check_program(found, os.geteuid())
