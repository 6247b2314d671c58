"""A workload whose data are measured before and after each run: the database, and its tables with their indexes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pgdyno.model.record import CheckRecord, Examination
from pgdyno.model.trial import LoadPlan, Outcome, WorkloadSpec
from pgdyno.server.postgres import Postgres, query_errors
from pgdyno.targets.target import Target
from pgdyno.workloads.gate import StartGate
from pgdyno.workloads.protocol import RunningLoad, Workload
from pgdyno.workloads.result import LoadResult

DATABASE = "database"
"""The name under which the size of the whole database stands among those of its tables."""
BEFORE, AFTER = "bytes_before.", "bytes_after."
"""What the counters of a run begin with that hold sizes."""
MOST = 30
"""So many tables are measured, the largest: a load of one's own may stand on thousands."""
_SIZES = """
SELECT c.relname AS name, pg_table_size(c.oid) + pg_indexes_size(c.oid) AS bytes
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname = 'public' ORDER BY 2 DESC, 1 LIMIT %s
"""


def relation_sizes(postgres: Postgres) -> dict[str, float]:
    """Return the bytes of the connected database and of its largest tables of schema public, indexes included.

    Reads only; takes a short lock on each table that waits for none but one that is exclusive.
    """
    with postgres.connect() as connection, query_errors(postgres.label):
        rows = connection.execute(_SIZES, [MOST]).fetchall()
        (whole,) = connection.execute("SELECT pg_database_size(current_database()) AS bytes").fetchall()
    return {str(row["name"]): float(str(row["bytes"])) for row in rows} | {DATABASE: float(str(whole["bytes"]))}


def counted(counters: Mapping[str, float], prefix: str) -> dict[str, float]:
    """Return the counters that begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in counters.items() if name.startswith(prefix)}


class SizedWorkload:
    """A `Workload` around another one, whose runs it leaves as they are.

    A subclass may look at more than sizes, and settle the server between the data and the first look.
    """

    def __init__(self, inner: Workload) -> None:
        self._inner = inner
        self._before: dict[str, float] = {}

    def spec(self) -> WorkloadSpec:
        """Return what is run."""
        return self._inner.spec()

    def prepare(self, target: Target, *, progress: Callable[[str], None]) -> None:
        """Make the template database, once. See `Workload.prepare`."""
        self._inner.prepare(target, progress=progress)

    def reset(self, target: Target, *, policy: str = "auto") -> str:
        """Give a run its data, and look at them."""
        dbname = self._inner.reset(target, policy=policy)
        self._settle(target)
        self._before = self._look(target, dbname, "before")
        return dbname

    def begin(
        self,
        target: Target,
        dbname: str,
        plan: LoadPlan,
        directory: Path,
        *,
        instance: int = 0,
        gate: StartGate | None = None,
    ) -> RunningLoad:
        """Start the load; `directory`, `instance` and `gate` as in `Workload.begin`."""
        return self._inner.begin(target, dbname, plan, directory, instance=instance, gate=gate)

    def examine(self, target: Target, dbname: str, load: LoadResult, outcome: Outcome) -> Examination:
        """Let the workload examine its data, and look at their size again. See `Workload.examine`."""
        found = self._inner.examine(target, dbname, load, outcome)
        after = self._look(target, dbname, "after")
        checks = (*found.checks, *self._checks(after, load))
        return replace(found, checks=checks, figures=(*found.figures, *self._before.items(), *after.items()))

    def drop(self, target: Target, *, template: bool = False) -> tuple[str, ...]:
        """Drop the load's database. See `Workload.drop`."""
        return self._inner.drop(target, template=template)

    def databases(self, target: Target) -> tuple[str, str]:
        """Return the names of the load's database and of the template. See `Workload.databases`."""
        return self._inner.databases(target)

    def _settle(self, target: Target) -> None:
        """Do to the server what every run begins with; nothing here."""

    def _look(self, target: Target, dbname: str, when: str) -> dict[str, float]:
        """Return the counters of one look; `when` is before or after."""
        sizes = relation_sizes(target.postgres.for_load(dbname))
        return {f"bytes_{when}.{name}": size for name, size in sizes.items()}

    def _checks(self, after: Mapping[str, float], load: LoadResult) -> tuple[CheckRecord, ...]:
        """Return what both looks together prove or break; nothing here."""
        del after, load
        return ()
