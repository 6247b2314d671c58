"""Rows L5, L6, L8, L9, L12 and L13 on a real server, under loads whose answer is planted, each with what it promises.

`live_real` runs them one after the other and keeps a line of each; here is what is planted, and when a row is kept.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from live_load import ROLE
from pgdyno.server.postgres import Postgres

VALUE = "64MB"
MS, RATE = (20.0, 40.0, 60.0), 8.0
"""Whole milliseconds under every factor but one; a class has a session of its own and keeps its rate."""
MOST_S, HELD_S = 10.0, 1.0
"""R-TUN-11: a change that cripples is back so soon after its start, and so soon after the guard or the veto."""
MIDST_S = 12.0
"""After a verdict, this lies in the midst of the next pair."""
NEW_STATEMENTS = 6000
LONGEST_SEARCH_S = 0.5 * 30 * 300
Row = Mapping[str, object]


@dataclass(frozen=True)
class Case:
    """What is planted: the `factor` of every statement's time under B, times `each` for single classes.

    `truth` is set where the interval is to hold it; `keeps` says of a row whether it keeps its promise. `meanwhile` is
    done to the server once, in the midst of the third pair. `minutes` is about how long one takes.
    """

    name: str
    factor: float = 1.0
    truth: float | None = None
    minutes: float = 15.0
    each: Sequence[float] | None = None
    other: float = 1.0
    timeout_ms: int = 0
    prepared: bool = False
    b: Mapping[str, str] = field(default_factory=lambda: {"work_mem": VALUE})
    guards: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    meanwhile: Callable[[Postgres], None] | None = None
    keeps: Callable[[Row], bool] | None = None
    candidates: int = 0
    """Of a search; 0 is two arms."""

    @property
    def row(self) -> str:
        """Return the row's number, such as L5."""
        return self.name.partition(" ")[0]


def _reset(postgres: Postgres) -> None:
    time.sleep(MIDST_S)
    postgres.execute("SELECT public.pg_stat_statements_reset()", None, "postgres")


def _many_statements(postgres: Postgres) -> None:
    """Run more statements than pg_stat_statements has room for; a sum with other signs is another one."""
    time.sleep(MIDST_S)
    signs = itertools.islice(itertools.product("+-", repeat=13), NEW_STATEMENTS)
    with postgres.connect("postgres") as session:
        session.execute(f"SET ROLE {ROLE}")
        for one in signs:
            session.execute("SELECT 1" + "1".join(("", *one, "")))


def _number(row: Row, name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else float("inf")


def _vetoed(row: Row) -> bool:
    named = row["states"] == ["vetoed"]
    return named and not row["acceptable"] and _number(row, "pairs") <= 6 and _number(row, "held_s") <= HELD_S


def _vanished(row: Row) -> bool:
    return not row["acceptable"] and "vanished" in str(row["states"])


def _untested(row: Row) -> bool:
    return row["word"] != "equivalent" and bool(row["not_tested"])


def _stopped(row: Row) -> bool:
    stopped = bool(row["breaches"]) and not row["pairs"]
    return stopped and _number(row, "arm_s") <= MOST_S and _number(row, "held_s") <= HELD_S and bool(row["readable"])


def _unharmed(row: Row) -> bool:
    lost = row["lost"]
    return isinstance(lost, Mapping) and any("pg_stat_statements" in one for one in lost) and row["word"] == "better"


def _found_soon(row: Row) -> bool:
    return bool(row["acceptable"]) and _number(row, "seconds") <= LONGEST_SEARCH_S and bool(row["reproduced"])


ARMS = (
    Case("L1 equal", truth=1.0),
    Case("L2 a tenth less", 0.9, 0.9),
    Case("L3 a twentieth less", 0.95, 0.95),
    Case("L3 30 % less", 0.7, 0.7, minutes=8),
    Case("L3 a tenth more", 1.1, 1.1),
)
PROMISES = (
    Case("L5 one statement 2.5 times slower", each=(2.5, 0.7, 0.5), keeps=_vetoed, minutes=8),
    Case("L6 a small statement runs into its timeout", each=(6.0, 0.7, 0.7), timeout_ms=100, guards=("errors=off",),
         keeps=_vanished, minutes=8),
    Case("L6 a statement runs into its timeout", each=(0.7, 0.7, 3.0), timeout_ms=100, guards=("errors=off",),
         keeps=_vanished, minutes=8),
    Case("L8 a planner's setting under cached plans", prepared=True, b={"random_page_cost": "1.5"},
         settings={"pg_stat_statements.track_planning": "on"}, keeps=_untested, minutes=10),
    Case("L9 ten times slower", 10.0, keeps=_stopped, minutes=5),
    Case("L9 nothing ends", 300.0, keeps=_stopped, minutes=5),
    Case("L12 a reset in mid-pair", 0.9, meanwhile=_reset, keeps=_unharmed),
    Case("L12 6000 new statements in mid-pair", 0.9, meanwhile=_many_statements, keeps=_unharmed),
    Case("L13 a search on a crippled server", other=0.6, b={}, candidates=12, keeps=_found_soon, minutes=90),
)  # fmt: skip
