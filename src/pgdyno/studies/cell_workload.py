"""A workload as a cell of a matrix runs it: every cell begins alike, and its data are looked at when it has ended.

Before the load: the data anew from their template, the server on its CPUs, a checkpoint, sizes and counts. After it:
sizes again, and whether the history table grew by exactly the transactions that the load generators reported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from pgdyno.model.cpus import parse_cpus
from pgdyno.model.matrix import WITH_HISTORY
from pgdyno.model.record import CheckRecord, Examination
from pgdyno.model.trial import LoadPlan, Outcome, WorkloadSpec
from pgdyno.target import processes
from pgdyno.target.target import Target
from pgdyno.workloads.gate import Gate
from pgdyno.workloads.protocol import LoadResult, RunningLoad, Workload
from pgdyno.workloads.sized import relation_sizes
from pgdyno.workloads.template import checkpoint

HISTORY = "history"
"""Name of the check that the history table grew by what was reported."""
_COUNTS = """
SELECT (SELECT count(*) FROM pgbench_history) AS history, (SELECT count(*) FROM pgbench_tellers) AS tellers,
       (SELECT count(*) FROM pgbench_branches) AS branches
"""


class CellWorkload:
    """A `Workload` around another one, for the cells of one mode; without CPUs the server runs where it will."""

    def __init__(self, inner: Workload, *, server_cpus: str = "", every_cpu: Sequence[int] = ()) -> None:
        self._inner = inner
        self._cpus = parse_cpus(server_cpus) if server_cpus else tuple(every_cpu)
        self._before: dict[str, float] = {}

    def spec(self) -> WorkloadSpec:
        """Return what is run."""
        return self._inner.spec()

    def prepare(self, target: Target, *, progress: Callable[[str], None]) -> None:
        """Make the template database, once. See `Workload.prepare`."""
        self._inner.prepare(target, progress=progress)

    def reset(self, target: Target, *, policy: str = "auto") -> str:
        """Give the cell its first state: data, CPUs of the server, a checkpoint; and look at it."""
        dbname = self._inner.reset(target, policy=policy)
        if self._cpus:
            pin_server(target, self._cpus)
        checkpoint(target.postgres)
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
        gate: Gate | None = None,
    ) -> RunningLoad:
        """Start the load. See `Workload.begin`."""
        return self._inner.begin(target, dbname, plan, directory, instance=instance, gate=gate)

    def examine(self, target: Target, dbname: str, load: LoadResult, outcome: Outcome) -> Examination:
        """Look at the data again; a history that did not grow by what was reported makes the run void."""
        inner = self._inner.examine(target, dbname, load, outcome)
        after = self._look(target, dbname, "after")
        checks: tuple[CheckRecord, ...] = ()
        if self.spec().name in WITH_HISTORY:
            grown = int(after["rows_after.history"] - self._before["rows_before.history"])
            checks = (history_check(grown, load.transactions, load.partial),)
        return Examination(
            checks=(*inner.checks, *checks),
            figures=(*inner.figures, *self._before.items(), *after.items()),
            plans=inner.plans,
            texts=inner.texts,
            warnings=inner.warnings,
        )

    def drop(self, target: Target, *, template: bool = False) -> tuple[str, ...]:
        """Drop the load's database. See `Workload.drop`."""
        return self._inner.drop(target, template=template)

    def _look(self, target: Target, dbname: str, when: str) -> dict[str, float]:
        postgres = target.postgres.for_database(dbname)
        found = {f"bytes_{when}.{name}": size for name, size in relation_sizes(postgres).items()}
        if self.spec().name in (*WITH_HISTORY, "select-only"):
            (counts,) = postgres.fetch(_COUNTS)
            found |= {f"rows_{when}.{name}": float(str(count)) for name, count in counts.items()}
        return found


def history_check(grown: int, reported: int, partial: str | None) -> CheckRecord:
    """Return whether the history table grew by what the load generators reported.

    A generator that was killed took with it what its log had not yet been told: there the history may only be ahead.
    """
    meaning = f"the history table grew by {grown} rows, and {reported} transactions were reported"
    if partial is None:
        return CheckRecord(HISTORY, abs(grown - reported), meaning)
    if grown < reported:
        return CheckRecord(HISTORY, reported - grown, meaning)
    return CheckRecord(HISTORY, None, f"{meaning}: not comparable, a killed load generator reports late ({partial})")


def pin_server(target: Target, cpus: Sequence[int]) -> None:
    """Let every process of a server on this host run on these CPUs only; new ones inherit it from the postmaster.

    Side effect on the server until it is restarted, or given its CPUs back. Raises OSError without the right.
    """
    postmaster = target.cpu.postmaster()
    if postmaster is None:
        return
    for pid in (postmaster, *(stat.pid for stat in processes.children_of(postmaster))):
        try:
            os.sched_setaffinity(pid, cpus)
        except ProcessLookupError:
            continue
