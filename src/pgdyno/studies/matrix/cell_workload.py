"""A workload as a cell of a matrix runs it: every cell begins alike, and its data are looked at when it has ended.

Before the load: the data again from their template, the server on its CPUs, a checkpoint, sizes and counts. After it:
sizes again, and whether the history table grew by exactly the transactions that the load generators reported.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from pgdyno.linux import processes
from pgdyno.model.cpus import parse_cpus
from pgdyno.model.matrix import WITH_HISTORY
from pgdyno.model.record import CheckRecord
from pgdyno.targets.target import Target
from pgdyno.units import agreeing, plural
from pgdyno.workloads.protocol import Workload
from pgdyno.workloads.result import LoadResult
from pgdyno.workloads.sized import SizedWorkload
from pgdyno.workloads.template import checkpoint

HISTORY = "history"
"""Name of the check that the history table grew by what was reported."""
_COUNTS = """
SELECT (SELECT count(*) FROM pgbench_history) AS history, (SELECT count(*) FROM pgbench_tellers) AS tellers,
       (SELECT count(*) FROM pgbench_branches) AS branches
"""


class CellWorkload(SizedWorkload):
    """A `Workload` around another one, for the cells of one mode; without CPUs the server runs where it will."""

    def __init__(self, inner: Workload, *, server_cpus: str = "", every_cpu: Sequence[int] = ()) -> None:
        super().__init__(inner)
        self._cpus = parse_cpus(server_cpus) if server_cpus else tuple(every_cpu)

    def _settle(self, target: Target) -> None:
        if self._cpus:
            pin_server(target, self._cpus)
        checkpoint(target.postgres)

    def _look(self, target: Target, dbname: str, when: str) -> dict[str, float]:
        found = super()._look(target, dbname, when)
        if self.spec().name in (*WITH_HISTORY, "select-only"):
            (counts,) = target.postgres.for_load(dbname).fetch(_COUNTS)
            found |= {f"rows_{when}.{name}": float(str(count)) for name, count in counts.items()}
        return found

    def _checks(self, after: Mapping[str, float], load: LoadResult) -> tuple[CheckRecord, ...]:
        """Hold the growth of the history against what was reported; a run in which they differ is void."""
        if self.spec().name not in WITH_HISTORY:
            return ()
        grown = int(after["rows_after.history"] - self._before["rows_before.history"])
        return (history_check(grown, load.transactions, load.partial),)


def history_check(grown: int, reported: int, partial: str | None) -> CheckRecord:
    """Return whether the history table grew by what the load generators reported.

    A generator that was killed took with it what its log had not yet been told: there the history may only be ahead.
    """
    told = agreeing(reported, "transaction", "was", "were")
    meaning = f"the history table grew by {plural(grown, 'row')}, and {told} reported"
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
