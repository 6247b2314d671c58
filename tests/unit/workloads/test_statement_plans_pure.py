"""Statements of pgbench scripts, shapes of plans, and the latency of each client."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exact_log import folded
from pgdyno.model.record import PlanRecord
from pgdyno.trial.plan_changes import plan_changes
from pgdyno.workloads.pgbench.folded_log import joined
from pgdyno.workloads.pgbench.log import PgbenchLogFormat, parse_lines
from pgdyno.workloads.plan_shape import UNKNOWN_SHAPE, nodes, outline, shape_of
from pgdyno.workloads.result import client_records
from pgdyno.workloads.script import BUILTIN_STATEMENTS, Script
from pgdyno.workloads.script_statements import (
    BUILTIN_SQL,
    label,
    numbered,
    parameters_of,
    split_script,
    statements,
)

SCRIPT = r"""\set aid random(1, 100000 * :scale)
\set long 1 + \
  2
-- a comment; with a semicolon
BEGIN;
SELECT abalance::int FROM accounts WHERE aid = :aid AND ':no' <> ';' /* ; */;
SELECT 1 AS one \gset
UPDATE accounts SET filler = $$;:x$$ WHERE aid = :aid AND bid = :bid;
END;
"""


def test_a_script_is_split_at_its_statements_and_variables_become_parameters():
    assert split_script(SCRIPT)[0] == "BEGIN"
    assert statements([Script("own", 1, SCRIPT)]) == [
        "SELECT abalance::int FROM accounts WHERE aid = $1 AND ':no' <> ';'",
        "SELECT 1 AS one",
        "UPDATE accounts SET filler = $$;:x$$ WHERE aid = $1 AND bid = $2",
    ]


def test_equal_variables_are_one_parameter_and_statements_are_listed_once():
    assert numbered("SELECT :a + :b + :a") == "SELECT $1 + $2 + $1"
    assert parameters_of("SELECT $2 + $1, '$9', \"$7\"") == 2
    assert parameters_of("SELECT 1") == 0
    assert statements([Script("a", 1, "SELECT :x"), Script("b", 1, "SELECT :y;")]) == ["SELECT $1"]


def test_every_built_in_script_has_its_statements():
    assert set(BUILTIN_SQL) == set(BUILTIN_STATEMENTS)
    for name, texts in BUILTIN_SQL.items():
        assert len(statements([Script(name)])) == len(texts)


def test_a_label_is_one_line_of_bounded_length():
    assert label("SELECT\n  1") == "SELECT 1"
    assert len(label("SELECT " + "x, " * 500)) < 320


@given(st.text())
def test_any_text_can_be_split(text):
    for statement in split_script(text):
        assert statement == statement.strip()
        assert parameters_of(numbered(statement)) >= 0


INDEX = """Limit  (cost=0.29..8.31 rows=1 width=4)
  ->  Index Scan using t_pkey on t  (cost=0.29..8.31 rows=1 width=4)
        Index Cond: (a = $1)
        InitPlan 1
          ->  Seq Scan on u
                Filter: (b = 'x: ->')"""


def test_costs_rows_and_conditions_are_no_part_of_a_shape():
    assert nodes(INDEX) == (
        "Limit", "  Index Scan using t_pkey on t", "    InitPlan 1", "      Seq Scan on u"
    )  # fmt: skip
    other = INDEX.replace("8.31", "999").replace("rows=1", "rows=77").replace("(a = $1)", "(a = $2)")
    assert shape_of(other) == shape_of(INDEX)
    assert outline(INDEX) == "Limit < Index Scan using t_pkey on t < InitPlan 1 < Seq Scan on u"


@pytest.mark.parametrize(
    ("was", "now"),
    [("Index Scan using t_pkey", "Seq Scan"), ("t_pkey", "t_other"), ("Limit", "Sort"), ("on u", "on v")],
)
def test_another_node_index_or_table_is_another_shape(was, now):
    assert shape_of(INDEX.replace(was, now)) != shape_of(INDEX)


def record(statement, plan, shape=None):
    return PlanRecord(statement, shape or shape_of(plan), plan)


def test_changes_are_listed_first_and_unknown_is_no_change():
    seq = record("s1", "Seq Scan on t")
    same, gone = record("s2", "Result"), record("s3", "unknown: no such table", UNKNOWN_SHAPE)
    index = record("s1", "Index Scan using t_pkey on t")
    found = plan_changes([[same, seq, gone]], [[same, index, gone]])
    assert [(one.statement, one.word) for one in found] == [("s1", "changed"), ("s3", "unknown"), ("s2", "same")]
    assert (found[0].before, found[0].after) == (("Seq Scan on t",), ("Index Scan using t_pkey on t",))
    assert found[0].what == ("Seq Scan on t became Index Scan using t_pkey on t",)
    assert (found[1].what, found[2].what) == ((), ())
    assert found[0].shapes == ((seq.shape,), (index.shape,))
    assert found[0].shapes == ((seq.shape,), (index.shape,))


def test_a_plan_that_varies_within_a_side_is_a_change_only_without_a_common_shape():
    seq, index = record("s", "Seq Scan on t"), record("s", "Index Scan using t_pkey on t")
    (varied,) = plan_changes([[seq], [index]], [[index], [index]])
    assert (varied.word, len(varied.before)) == ("same", 2)
    (lost,) = plan_changes([[seq]], [[]])
    assert (lost.word, lost.after) == ("unknown", ("unknown: no plan was recorded",))


LOG = b"".join(
    b"%d 1 %d 0 1700000000 %06d\n" % (client, 1000 + 9000 * (client == 2), n * 10)
    for n in range(50)
    for client in (0, 2)
)


@pytest.mark.requirement("R-MON-10")
def test_each_client_has_its_own_percentiles():
    first, slow = client_records(folded(parse_lines(LOG, PgbenchLogFormat()).log))
    assert (first.client, first.transactions, first.p95_ms, first.max_ms) == (0, 50, 1.0, 1.0)
    assert (slow.client, slow.p50_ms, slow.mean_ms) == pytest.approx((2, 10.0, 10.0), rel=1e-3)


@pytest.mark.requirement("R-MON-10")
def test_clients_are_kept_when_logs_are_joined_and_missing_where_a_log_has_none():
    log = parse_lines(LOG, PgbenchLogFormat()).log
    whole = joined([folded(log), folded(log)])
    assert [one.transactions for one in client_records(whole)] == [100, 100]
    assert client_records(folded()) == client_records(folded(replace(log, client=None))) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 10**7)), min_size=1, max_size=60))
def test_the_clients_transactions_add_up_to_all(lines):
    data = b"".join(b"%d 1 %d 0 1700000000 %06d\n" % (client, us, n) for n, (client, us) in enumerate(lines))
    found = client_records(folded(parse_lines(data, PgbenchLogFormat()).log))
    assert sum(one.transactions for one in found) == len(lines)
    whole = np.array([us for _, us in lines]) / 1000
    assert max(one.max_ms for one in found) == pytest.approx(whole.max(), rel=1e-3)
    assert all(one.p50_ms <= one.p95_ms <= one.p99_ms <= one.max_ms for one in found)
