"""setup and runit as procedures, on every PostgreSQL that is here: signatures, data, batches, shares, history."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.workloads.ybio.table import procedures, scattered_keys

pytestmark = pytest.mark.pg
DATABASE = "ybio_by_hand"


@pytest.fixture(scope="module")
def postgres(any_postgres: Sandbox) -> Iterator[Postgres]:
    server = any_postgres.target().postgres
    server.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    there = server.for_load(DATABASE)
    there.execute(procedures().encode())
    there.execute("CALL setup(tab_prefix => 'bench', tab_num => 1, tab_rows => 1e5::int, batch_size => 10000)")
    there.execute("VACUUM ANALYZE bench0001")
    yield there
    any_postgres.drop_database(DATABASE)


def one(postgres: Postgres, query: str) -> dict[str, object]:
    (row,) = postgres.fetch(query)
    return row


def whole(value: object) -> int:
    return int(str(value))


@pytest.mark.requirement("R-YBI-01", "R-YBI-09")
def test_setup_makes_scattered_rows_with_an_index_in_batches_that_commit(postgres: Postgres) -> None:
    found = one(
        postgres,
        "SELECT count(*) AS n, count(DISTINCT mykey) AS keys, min(mykey) AS least, max(mykey) AS most,"
        " count(DISTINCT xmin::text) AS commits FROM bench0001",
    )
    assert [whole(found[name]) for name in ("n", "keys", "least", "most")] == [100_000, 100_000, 1, 100_000]
    assert whole(found["commits"]) >= 100_000 // 10_000
    statistics = one(postgres, "SELECT correlation FROM pg_stats WHERE tablename = 'bench0001' AND attname = 'mykey'")
    assert abs(float(str(statistics["correlation"]))) < 0.1
    size = one(postgres, "SELECT pg_table_size('bench0001') AS heap, pg_indexes_size('bench0001') AS indexes")
    assert whole(size["heap"]) > whole(size["indexes"]) > 0


def test_setup_and_copy_give_the_same_order(postgres: Postgres) -> None:
    for rows, segments in ((3000, 1), (9001, 3)):
        postgres.execute(f"CALL setup(tab_num => 7, tab_rows => {rows}, segments => {segments}, recreate => true)")
        found = [whole(row["mykey"]) for row in postgres.fetch("SELECT mykey FROM bench0007 ORDER BY ctid")]
        assert found == [key for keys, _ in scattered_keys(rows, segments) for key in keys.tolist()]


@pytest.mark.requirement("R-YBI-02")
def test_runit_takes_the_parameters_of_the_source_and_one_batch_at_no_duration(postgres: Postgres) -> None:
    call = (
        "CALL runit(tab_prefix=>'bench', tab_num=>1, tab_rows=>1e4::int, batch_size=>1000,"
        " run_duration=>interval '0 seconds', pct_update=>0)"
    )
    found = one(postgres, call)
    assert whole(found["total_rows"]) == 1000
    assert float(str(found["response_ms"])) > 0
    assert float(str(found["rows_per_s"])) > 0
    job = one(postgres, "SELECT * FROM benchruns ORDER BY job_id DESC LIMIT 1")
    assert [whole(job[name]) for name in ("batches", "rows_read", "rows_updated")] == [1, 1000, 0]
    # Of small batches: one of a thousand rows may take all of that time on a machine that is busy.
    again = one(postgres, call.replace("'0 seconds'", "'0.3 seconds'").replace("=>1000,", "=>10,"))
    job = one(postgres, "SELECT *, ended - began >= '0.3 s' AS lasted FROM benchruns ORDER BY job_id DESC LIMIT 1")
    assert whole(job["batches"]) > 1
    assert job["lasted"]
    assert whole(again["total_rows"]) == 10 * whole(job["batches"])
    for wrong in ("batch_size => 0", "batch_size => 2000000", "pct_update => 101"):
        with pytest.raises(Exception, match="out of range"):
            postgres.execute(f"CALL runit({wrong})")
    for share in (0, 100):
        with pytest.raises(EnvironmentUnsuitable, match="runit: bench0001 has 0 of the 10 rows from key") as caught:
            postgres.execute(f"CALL runit(tab_rows => {10**12}, batch_size => 10, pct_update => {share})")
        assert "tab_rows as setup had it" in str(caught.value.hint)


@pytest.mark.requirement("R-YBI-05")
def test_ten_percent_of_updates_are_ten_percent(postgres: Postgres) -> None:
    postgres.execute("CALL setup(tab_num => 2, tab_rows => 2000, filler => 10)")
    with postgres.connect() as connection:
        for _ in range(1000):
            connection.execute("CALL runit('bench', 2, 2000, 10, '0 s', 10, 'one each')")
    single = one(postgres, "SELECT sum(rows_updated) * 100.0 / sum(rows_updated + rows_read) AS share"
                 " FROM benchruns WHERE comments = 'one each'")  # fmt: skip
    assert float(str(single["share"])) == pytest.approx(10, abs=6), "drawn by lot: 6 standard deviations"
    postgres.execute("CALL runit('bench', 2, 2000, 10, '1 s', 10, 'many')")
    many = one(postgres, "SELECT *, rows_updated * 100.0 / (rows_updated + rows_read) AS share"
               " FROM benchruns WHERE comments = 'many'")  # fmt: skip
    assert float(str(many["share"])) == pytest.approx(10, abs=max(1.0, 100 / whole(many["batches"])))


@pytest.mark.requirement("R-YBI-03")
def test_fewer_rows_touch_fewer_blocks_where_the_table_is_cut(postgres: Postgres) -> None:
    postgres.execute("CALL setup(tab_num => 3, tab_rows => 100000, filler => 100, segments => 5)")
    pages = [
        whole(
            one(
                postgres,
                "SELECT count(DISTINCT (ctid::text::point)[0]) AS pages"
                f" FROM bench0003 WHERE mykey <= {share * 20_000}",
            )["pages"]
        )
        for share in (1, 2, 5)
    ]
    assert pages[0] / pages[2] == pytest.approx(1 / 5, rel=0.15)
    assert pages[1] / pages[2] == pytest.approx(2 / 5, rel=0.15)


def test_history_is_kept_and_a_table_is_not_replaced_unasked(postgres: Postgres) -> None:
    postgres.execute("CALL runit(tab_rows => 1000, batch_size => 10, run_duration => '0 s')")
    before = whole(one(postgres, "SELECT count(*) AS n FROM benchruns")["n"])
    with pytest.raises(Exception, match="already exists"):
        postgres.execute("CALL setup(tab_num => 1, tab_rows => 10)")
    postgres.execute("CALL setup(tab_num => 8, tab_rows => 10, recreate => true)")
    postgres.execute(procedures().encode())
    assert whole(one(postgres, "SELECT count(*) AS n FROM benchruns")["n"]) == before


def test_runit_says_nothing_between_its_batches(postgres: Postgres) -> None:
    heard: list[str] = []
    with postgres.connect() as connection:
        connection.add_notice_handler(lambda notice: heard.append(str(notice.message_primary)))
        connection.execute("CALL runit(tab_rows => 1000, batch_size => 10, run_duration => '0.2 s', pct_update => 50)")
        assert connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
    assert heard == []
