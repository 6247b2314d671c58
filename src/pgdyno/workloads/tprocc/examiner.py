"""After a run: check the data, count new orders and transactions. Reads only.

NOPM is the rate of committed New-Orders in the measured window, from the driver's log. What makes it trustworthy is
that over the whole run the log and the growth of d_next_o_id must agree to the last order; else the run is void.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pgdyno.model.record import MIX, P90, CheckRecord, Examination
from pgdyno.model.trial import Outcome
from pgdyno.server.postgres import Postgres, query_errors
from pgdyno.targets.target import Target
from pgdyno.workloads.pgbench.folded_log import FoldedLog, quantiles_us
from pgdyno.workloads.result import LoadResult
from pgdyno.workloads.template import APPLICATION_NAME
from pgdyno.workloads.tprocc.conditions import CONDITIONS, INITIAL, ask_together
from pgdyno.workloads.tprocc.mix import NEW_ORDER

SETTLE_S = 1.0
"""Backends hand their counters in at most once a second; up to version 14 by way of a process that takes its time."""
_WAIT_S = 10.0
_KEEP_START = """
DROP TABLE IF EXISTS pgdyno_workload.run_start;
CREATE TABLE pgdyno_workload.run_start AS
SELECT (SELECT sum(d_next_o_id) FROM district) AS next_orders, deadlocks, xact_commit + xact_rollback AS ended
FROM pg_stat_database WHERE datname = current_database();
"""
_COUNTED = """
SELECT (SELECT sum(d_next_o_id) FROM district) - next_orders AS new_orders, d.deadlocks - s.deadlocks AS deadlocks,
       xact_commit + xact_rollback - ended AS ended,
       (SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'new_order') AS dead
FROM pgdyno_workload.run_start AS s, pg_stat_database AS d WHERE datname = current_database()
"""
_SESSIONS = "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = %s AND application_name = %s"


def keep_start(target: Target, dbname: str) -> None:
    """Keep in the load's database what the counts of the coming run begin at."""
    target.postgres.for_load(dbname).execute(_KEEP_START)


@dataclass(frozen=True, slots=True)
class Examiner:
    """Examines the data of one mix: `scripts` are the names in the driver's order. `check` False only counts."""

    scripts: Sequence[str]
    check: bool = True

    def __call__(
        self,
        target: Target,
        dbname: str,
        load: LoadResult,
        outcome: Outcome,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> Examination:
        """Return the checks and the figures of a run that ended. Waits until its sessions are gone."""
        _wait_for_counters(target.postgres, dbname, sleep)
        postgres = target.postgres.for_load(dbname)
        with postgres.connect() as connection, query_errors(target.postgres.label):
            counted = connection.execute(_COUNTED).fetchone()
            checks = _checks(postgres) if self.check else [_unchecked()]
        assert counted is not None, "the counts of the run's beginning are kept by its reset"
        orders, deadlocks = int(counted["new_orders"]), int(counted["deadlocks"])
        checks += [_agreement(orders, load, self._count(load.log)), CheckRecord("D1", deadlocks, "no deadlock")]
        figures = {
            **self._rates(load, outcome),
            **self._mix(load.log),
            "new_orders": float(orders),
            "database_transactions": float(counted["ended"]),
            "new_order_dead_tuples": float(counted["dead"] or 0),
        }
        return Examination(tuple(checks), tuple(figures.items()))

    def _count(self, log: FoldedLog) -> int:
        if NEW_ORDER not in self.scripts:
            return 0
        return log.committed_by_script(len(self.scripts))[self.scripts.index(NEW_ORDER)]

    def _rates(self, load: LoadResult, outcome: Outcome) -> dict[str, float]:
        """Return NOPM and TPM of the measured window; nothing where there is none.

        Both by the driver's log: the database also counts what vacuum and our own sessions did there.
        """
        if outcome.steady_from is None or outcome.ended_at <= outcome.steady_from or not len(load.log):
            return {}
        minutes = (outcome.ended_at - outcome.steady_from) / 60
        window = load.log.between(outcome.steady_from, outcome.ended_at)
        return {
            "nopm": self._count(window) / minutes,
            "tpm": len(window) / minutes,
            **self._p90(window),
        }

    def _p90(self, window: FoldedLog) -> dict[str, float]:
        """Return the 90th percentile of each transaction that committed in the window, in milliseconds."""
        counts = window.histograms_by_script(len(self.scripts))
        return {
            f"{P90}{name}_ms": quantiles_us(one, (0.9,))[0] / 1000
            for name, one in zip(self.scripts, counts, strict=True)
            if one.any()
        }

    def _mix(self, log: FoldedLog) -> dict[str, float]:
        counts = log.committed_by_script(len(self.scripts))
        every = max(1, sum(counts))
        return {f"{MIX}{name}_pct": 100 * count / every for name, count in zip(self.scripts, counts, strict=True)}


def _checks(postgres: Postgres) -> list[CheckRecord]:
    """Return what every condition says, and of the one that can no longer hold, why it is not asked."""
    found: list[CheckRecord] = []
    for condition, counts in ask_together(postgres, CONDITIONS):
        found += map(CheckRecord, condition.names, counts, condition.meanings)
    why = f"{INITIAL.meaning}: true of the first population alone, and was checked when that was loaded"
    return [*found, CheckRecord(INITIAL.names[0], None, why)]


def _unchecked() -> CheckRecord:
    return CheckRecord("C01-C12, X1-X4", None, "not checked, because the load was run with check=false")


def _agreement(orders: int, load: LoadResult, counted: int) -> CheckRecord:
    meaning = "d_next_o_id grew by exactly the new orders that the driver's log counts"
    if load.partial is not None or load.reason is not None or load.malformed_lines:
        return CheckRecord("X5", None, f"{meaning}: not comparable, because the driver's log is not whole")
    return CheckRecord("X5", abs(orders - counted), meaning)


def _wait_for_counters(postgres: Postgres, dbname: str, sleep: Callable[[float], None]) -> None:
    """Wait until the load's sessions have ended, because a session hands in the rest of its counters then."""
    waited = 0.0
    while waited < _WAIT_S and postgres.fetch(_SESSIONS, [dbname, APPLICATION_NAME])[0]["n"]:
        sleep(0.1)
        waited += 0.1
    (row,) = postgres.fetch("SELECT current_setting('server_version_num')::int >= 150000 AS at_once")
    if not row["at_once"]:
        sleep(SETTLE_S)
