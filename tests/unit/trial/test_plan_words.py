"""What changed between two plans, in words; and which statements of a run are planned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.record import PlanRecord
from pgdyno.model.samples import SampleRow
from pgdyno.trial.plan_changes import changed_words, plan_changes
from pgdyno.trial.top_statements import CUT_AT, TOP, top_statement_plans, top_statements
from study_recording import sample_row


def words(before, after):
    return changed_words(before.split(" < "), after.split(" < "))


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("Seq Scan on t", "Index Scan using t_pkey on t", ("Seq Scan on t became Index Scan using t_pkey on t",)),
        ("Update on t < Index Scan using t_pkey on t", "Update on t < Seq Scan on t",
         ("Index Scan using t_pkey on t became Seq Scan on t",)),
        ("Hash Join < Seq Scan on a < Hash < Seq Scan on b", "Nested Loop < Seq Scan on a < Index Scan using i on b",
         ("Seq Scan on b became Index Scan using i on b", "Hash Join became Nested Loop", "Hash was dropped")),
        ("Aggregate < Seq Scan on t", "Finalize Aggregate < Gather < Partial Aggregate < Parallel Seq Scan on t",
         ("Seq Scan on t became Parallel Seq Scan on t", "Aggregate became Finalize Aggregate", "Gather was added",
          "Partial Aggregate was added")),
        ("Index Scan using t_pkey on t", "Bitmap Heap Scan on t < Bitmap Index Scan on t_pkey",
         ("Index Scan using t_pkey on t became Bitmap Heap Scan on t", "Bitmap Index Scan on t_pkey was added")),
        ("Index Scan using i on t", "Index Scan using j on t",
         ("Index Scan using i on t became Index Scan using j on t",)),
        ("Nested Loop < Seq Scan on a < Seq Scan on b", "Nested Loop < Seq Scan on b < Seq Scan on a",
         ("the same nodes in another order",)),
        ("Limit < Result", "Limit < Result", ()),
        ("Limit < Result", "Limit < Sort < Result", ("Sort was added",)),
    ],
)  # fmt: skip
def test_what_changed_is_said_by_table_and_by_kind_of_node(before, after, said):
    assert words(before, after) == said


NODES = st.lists(st.sampled_from(["Seq Scan on a", "Index Scan using i on a", "Hash", "Sort", "Hash Join", "Limit"]))


@given(NODES, NODES)
def test_every_node_that_differs_is_told_once(before, after):
    told = changed_words(before, after)
    became = sum(" became " in word for word in told)
    dropped, added = (sum(word.endswith(end) for word in told) for end in ("was dropped", "was added"))
    assert bool(told) == (before != after)
    if told != ("the same nodes in another order",):
        assert dropped + became - (added + became) == len(before) - len(after)


def statement(number, query, took):
    return sample_row("statements", 9.0, queryid=str(number), query=query, total_exec_time_ms=took)


ROWS: list[SampleRow] = [
    statement(1, "SELECT a FROM t WHERE b = $1", 10.0),
    statement(2, "BEGIN", 90.0),
    statement(3, "UPDATE t SET a = $1", 50.0),
    statement(0, "7 other statements", 70.0),
    statement(4, "CREATE TABLE x (a int)", 80.0),
    statement(5, "select count(*) from pgbench_branches", 85.0),
]


def test_the_longest_statements_that_the_planner_sees_are_asked_for_unless_known():
    assert top_statements(ROWS) == ["UPDATE t SET a = $1", "SELECT a FROM t WHERE b = $1"]
    assert top_statements(ROWS, but={"UPDATE t SET a = $1"}) == ["SELECT a FROM t WHERE b = $1"]
    many = [statement(n, f"SELECT {n} FROM t", float(n)) for n in range(1, 3 * TOP)]
    assert top_statements(many) == [f"SELECT {n} FROM t" for n in range(3 * TOP - 1, 2 * TOP - 1, -1)]
    assert len(top_statements(many)) == 10
    twice = [statement(n, text, took) for n, (text, took) in enumerate((("SELECT 1", 5.0), ("SELECT 2", 8.0)) * 2, 1)]
    assert top_statements([*twice, statement(9, "SELECT 3", 12.0)]) == ["SELECT 2", "SELECT 3", "SELECT 1"]
    assert top_statements([]) == []
    assert top_statements(ROWS, but={"UPDATE t SET a = 17", "SELECT a FROM t WHERE b = 'it''s'"}) == []


def test_a_text_that_was_cut_is_unknown_and_never_sent():
    long = "SELECT " + "x" * CUT_AT
    (found,) = top_statement_plans(None, "load", [statement(1, long[:CUT_AT], 5.0)], [])  # type: ignore[arg-type]
    assert (found.shape, "longer than the 1000 characters" in found.plan) == ("unknown", True)
    known = [PlanRecord("SELECT a FROM t WHERE b = $1", "abc", "Result"), PlanRecord("UPDATE t SET a = $1", "d", "x")]
    assert top_statement_plans(None, "load", ROWS, known) == []  # type: ignore[arg-type]  # nothing is asked


SCAN, INDEX, NONE = (
    PlanRecord("s", shape, plan)
    for shape, plan in (("a", "Seq Scan on t"), ("b", "Index Scan using i on t"), ("unknown", "unknown: no right"))
)


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ([SCAN], [SCAN], "same"),
        ([SCAN], [INDEX], "changed"),
        ([SCAN, INDEX], [INDEX], "same"),
        ([NONE, SCAN], [NONE, INDEX], "changed"),
        ([NONE], [SCAN], "unknown"),
        ([SCAN], [NONE], "unknown"),
        ([NONE], [NONE], "unknown"),
        ([SCAN], [], "unknown"),
    ],
)
def test_a_plan_changed_only_where_both_sides_are_known_and_have_no_shape_in_common(before, after, word):
    (found,) = plan_changes([[one] for one in before], [[one] for one in after])
    assert found.word == word
    assert bool(found.what) == (word == "changed")
    assert found.shapes == tuple(tuple(one.shape for one in side) for side in (before, after))


def test_a_plan_is_told_by_its_nodes_and_one_that_is_unknown_by_why():
    whole = PlanRecord(
        "s", "a", "Limit  (cost=0.00..1.00 rows=1 width=4)\n  ->  Seq Scan on t  (cost=0.00..1.00 rows=9)"
    )
    (found,) = plan_changes([[whole], [whole]], [[NONE]])
    assert (found.before, found.after) == (("Limit < Seq Scan on t",), ("unknown: no right",))
    (found,) = plan_changes([], [[whole]])
    assert (found.before, found.what) == (("unknown: no plan was recorded",), ())
