"""Which SQL file is chosen, and the rows that two readings of a view make."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow, SampleValue
from pgdyno.probes import views
from pgdyno.probes.views import ViewsReading, server_rows, statement_rows

SHIPPED = views.load_views()


def named(row: SampleRow) -> dict[str, SampleValue]:
    return dict(zip(TABLES[row.table].column_names()[1:], row.values, strict=True))


@pytest.mark.parametrize("version", range(130000, 190000, 10000))
def test_every_version_has_its_views(version: int) -> None:
    queries = views.queries_for(version, SHIPPED)
    missing = set(views.VIEWS) - set(queries)
    assert missing == ({"io"} if version < 160000 else set())


@pytest.mark.parametrize(
    ("version", "view", "expected"),
    [
        (130000, "wal", 130000),
        (150018, "wal", 140000),
        (170004, "wal", 140000),
        (180000, "wal", 180000),
        (160000, "checkpointer", 130000),
        (170000, "checkpointer", 170000),
        (200000, "checkpointer", 180000),
        (170000, "io", 160000),
    ],
)
def test_the_newest_file_that_is_not_too_new_is_chosen(version: int, view: str, expected: int) -> None:
    chosen = next(file for file in SHIPPED if (file.view, file.min_version_num) == (view, expected))
    assert views.queries_for(version, SHIPPED)[view] == chosen.sql


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: f"{file.view}.{file.min_version_num}")
def test_no_query_writes_or_names_a_column_that_its_table_lacks(file: views.ViewFile) -> None:
    text = re.sub(r"--.*", "", file.sql)
    assert re.search(r"\b(INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|SET|pg_stat_reset)\b", text) is None
    if file.view in TABLES:
        known = {column.name for column in TABLES[file.view].columns}
        assert set(re.findall(r"\bAS ([a-z_]+)", text)) - known <= {"c", "b", "w", "io", "here", "lsn"}


def test_counters_become_deltas_and_gauges_stay() -> None:
    before = [{"backends": 3, "xact_commit": 100, "blk_read_time_ms": 1.5}]
    after = [{"backends": 2, "xact_commit": 130, "blk_read_time_ms": 2.0}]
    (row,) = views.delta_rows("database", 9.0, 0.5, before, after)
    values = named(row)
    assert (row.t, values["interval_s"]) == (9.0, 0.5)
    assert (values["backends"], values["xact_commit"], values["blk_read_time_ms"]) == (2, 30, 0.5)
    assert (values["deadlocks"], values["active_time_ms"]) == (None, None)


def test_a_counter_that_went_down_was_reset_and_gives_no_row() -> None:
    before, after = [{"xact_commit": 100, "blks_hit": 5}], [{"xact_commit": 3, "blks_hit": 7}]
    assert views.delta_rows("database", 9.0, 1.0, before, after) == []
    assert views.was_reset("database", before, after)
    assert not views.was_reset("database", before, before)


def test_a_gauge_that_went_down_is_no_reset() -> None:
    assert not views.was_reset("database", [{"backends": 5}], [{"backends": 1}])


def io(context: str, reads: int | None) -> dict[str, SampleValue]:
    return {"backend_type": "client backend", "object": "relation", "context": context, "reads": reads}


def test_rows_of_a_keyed_view_are_matched_by_key_and_idle_ones_left_out() -> None:
    before = [io("normal", 10), io("vacuum", 5), io("bulkread", None)]
    after = [io("vacuum", 5), io("bulkread", None), io("normal", 14), io("bulkwrite", 2)]
    found = {named(row)["context"]: named(row)["reads"] for row in views.delta_rows("io", 1.0, 1.0, before, after)}
    assert found == {"normal": 4, "bulkwrite": 2}


def activity(kind: str, state: str | None, event_type: str | None, event: str | None, n: int) -> dict[str, SampleValue]:
    return {"backend_type": kind, "state": state, "wait_event_type": event_type, "wait_event": event, "sessions": n}


def test_sessions_by_state_and_active_ones_by_wait() -> None:
    client = "client backend"
    rows = views.session_rows(
        5.0,
        [
            activity(client, "active", None, None, 3),
            activity(client, "active", "IO", "DataFileRead", 2),
            activity(client, "idle", "Client", "ClientRead", 4),
            activity(client, "idle in transaction", "Client", "ClientRead", 1),
            activity(client, "idle in transaction (aborted)", "Client", "ClientRead", 1),
            activity(client, None, None, None, 1),
            activity("autovacuum worker", "active", "IO", "x", 2),
        ],
    )
    assert named(rows[0]) == {
        "total": 12,
        "active": 5,
        "waiting": 2,
        "idle": 4,
        "idle_in_transaction": 2,
        "autovacuum_workers": 2,
        "foreign_busy": 0,
    }
    assert [row.values for row in rows[1:]] == [("CPU", "CPU", 3), ("IO", "DataFileRead", 2)]


def test_nobody_there_is_a_row_of_zeros() -> None:
    (row,) = views.session_rows(5.0, [])
    assert set(row.values) == {0}


def statement(queryid: int, ms: float) -> dict[str, SampleValue]:
    return {"queryid": str(queryid), "query": f"SELECT {queryid}", "calls": 2 * queryid, "total_exec_time_ms": ms}


def test_statements_that_took_longest_and_the_others_together() -> None:
    before = ViewsReading(1.0, {"statements": [statement(1, 5.0)]}, {})
    after = ViewsReading(3.0, {"statements": [statement(1, 5.0), *(statement(n, n) for n in range(2, 40))]}, {})
    rows = statement_rows(before, after)
    assert len(rows) == 31
    assert [named(row)["queryid"] for row in rows[:2]] == ["39", "38"]
    others = named(rows[-1])
    assert (others["queryid"], others["query"]) == ("0", "8 other statements")
    assert (others["calls"], others["total_exec_time_ms"]) == (2 * sum(range(2, 10)), sum(range(2, 10)))
    assert {named(row)["interval_s"] for row in rows} == {2.0}


def test_statements_need_both_readings() -> None:
    empty, full = ViewsReading(1.0, {}, {}), ViewsReading(2.0, {"statements": [statement(1, 5.0)]}, {})
    assert statement_rows(empty, full) == []


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=20))
def test_deltas_add_up_to_the_whole_growth(steps: list[int]) -> None:
    totals = [sum(steps[: n + 1]) for n in range(len(steps))]
    readings = [ViewsReading(float(t), {"wal": [{"bytes": total}]}, {}) for t, total in enumerate(totals)]
    rows = [row for pair in pairwise(readings) for row in server_rows(*pair)]
    assert sum(int(named(row)["bytes"] or 0) for row in rows) == totals[-1] - totals[0]


def test_a_view_that_failed_once_is_compared_with_nothing() -> None:
    good, bad = ViewsReading(1.0, {"wal": [{"bytes": 1}]}, {}), ViewsReading(2.0, {}, {"wal": "timeout"})
    assert server_rows(good, bad) == []
    assert server_rows(bad, good) == []


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: f"{file.view}.{file.min_version_num}")
def test_a_standby_answers_too(file: views.ViewFile) -> None:
    """Where WAL is written it has no place on a standby: the server raises an error there."""
    text = re.sub(r"--.*", "", file.sql)
    assert text.count("pg_current_wal") == text.count("ELSE pg_current_wal") <= text.count("WHEN pg_is_in_recovery()")
