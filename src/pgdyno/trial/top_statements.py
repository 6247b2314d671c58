"""The plans of the statements that took longest in a run, by pg_stat_statements: also those inside of functions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Sequence

from pgdyno.model.record import PlanRecord
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow
from pgdyno.server.postgres import Postgres
from pgdyno.store.sampled_rows import rows_of
from pgdyno.workloads.others_plans import others_plans
from pgdyno.workloads.plan_shape import UNKNOWN_SHAPE
from pgdyno.workloads.script_statements import is_planned, label

TOP = 10
CUT_AT = 1000
"""Where the sampler cuts a statement's text."""
_PGBENCH_ASKS = ("select count(*) from pgbench_branches", "select o.n, p.partstrat,")
"""What pgbench asks once when it starts, to learn scale and partitions: no part of the load."""


_CONSTANT = re.compile(r"'(?:[^']|'')*'|\$\d+|\b\d+(?:\.\d+)?\b")


def top_statements(rows: Collection[SampleRow], *, but: Collection[str] = ()) -> list[str]:
    """Return the texts of the statements with a plan that took longest, the longest first. Pure.

    `but` are statements that are known; constants do not tell two apart, because pg_stat_statements replaces them.
    """
    names = TABLES["statements"].column_names()[1:]
    found: defaultdict[str, float] = defaultdict(float)
    for row in rows_of(rows, "statements"):
        each = dict(zip(names, row.values, strict=True))
        took, text = each["total_exec_time_ms"], str(each["query"]).strip()
        is_load = each["queryid"] != "0" and is_planned(text) and not text.startswith(_PGBENCH_ASKS)
        if is_load and isinstance(took, int | float):
            found[text] += took
    longest = sorted(found, key=lambda text: -found[text])[:TOP]
    known = {_without_constants(text) for text in but}
    return [text for text in longest if _without_constants(text) not in known]


def top_statement_plans(
    postgres: Postgres, dbname: str, rows: Collection[SampleRow], known: Sequence[PlanRecord]
) -> list[PlanRecord]:
    """Return the generic plans of the run's top statements beyond those that are known; errors as `others_plans`.

    `rows` are the samples of the run, those of pg_stat_statements among them, and `known` the plans that it has
    already. `dbname` is the load's database on `postgres`.

    Whoever runs statements in that database has them here: the load's own role plans none that would run their code.
    A text that was cut cannot be planned and is unknown.
    """
    wanted = top_statements(rows, but={record.statement for record in known})
    cut = [text for text in wanted if len(text) >= CUT_AT]
    reason = f"unknown: its text is longer than the {CUT_AT} characters that are kept"
    found = others_plans(postgres, dbname, {label(text): text for text in wanted if text not in cut})
    return found + [PlanRecord(label(text), UNKNOWN_SHAPE, reason) for text in cut]


def _without_constants(statement: str) -> str:
    return _CONSTANT.sub("?", label(statement))
