"""What an examination tells of a run: transactions a minute are the load's."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from exact_log import folded
from pgdyno.workloads.pgbench.transaction_log import TransactionLog
from pgdyno.workloads.tprocc.examiner import Examiner

COUNTED = {"new_orders": 300, "deadlocks": 0, "ended": 625, "dead": None}


class CountingServer:
    """A server whose counters have 25 transactions more than the driver's log."""

    label = "it"

    def fetch(self, query: str, parameters: object = None) -> list[dict[str, object]]:
        return [{"n": 0, "at_once": True}]

    def for_load(self, dbname: str) -> CountingServer:
        return self

    def connect(self) -> Any:
        ran = SimpleNamespace(fetchone=lambda: COUNTED)
        return nullcontext(SimpleNamespace(execute=lambda query: ran))


@pytest.mark.requirement("R-TPC-01")
def test_transactions_a_minute_are_those_of_the_load_alone() -> None:
    """What vacuum and our own sessions did in the load's database is counted by the database alone."""
    ends = (1000e6 + np.arange(600) * 1e5).astype(np.int64)  # ten a second, for a minute
    scripts = (np.arange(600) % 2).astype(np.int16)
    log = folded(TransactionLog(ends, np.full(600, 500, np.int64), scripts, np.zeros(600, np.int8)))
    load = SimpleNamespace(log=log, partial=None, reason=None, malformed_lines=0)
    outcome = SimpleNamespace(steady_from=1030.0, ended_at=1060.0)
    target = SimpleNamespace(postgres=CountingServer())
    examine = Examiner(("new_order", "payment"), check=False)
    figures = dict(examine(cast(Any, target), "d", cast(Any, load), cast(Any, outcome)).figures)
    assert (figures["nopm"], figures["tpm"]) == (300.0, 600.0)
    assert figures["database_transactions"] == 625.0
