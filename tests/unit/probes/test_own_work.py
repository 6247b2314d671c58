"""What pgdyno caused itself on a server is left out of its evidence, and named."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from pgdyno.model.evidence import Statistics, Window
from pgdyno.model.facts import Unknown
from pgdyno.probes.evidence.counters import SINCE_RESET
from pgdyno.probes.evidence.log_lines import LogLine
from pgdyno.probes.evidence.log_reader import LogReader
from pgdyno.probes.evidence.own_work import OwnStudy, OwnWork, is_own, without_own

OURS = "pgdyno_0123456789abcdef_load"
NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC).timestamp()
WORK = OwnWork((OwnStudy("bench-1", NOON, NOON + 600),))


@pytest.mark.parametrize(
    ("name", "ours"),
    [(OURS, True), (OURS.replace("load", "template"), True), (f"pgdyno_{'0f' * 16}_new", True), ("pgdyno_shop", False),
     ("pgdyno_0123456789abcdef_new", False), ("app", False), (None, False),
     (f"x{OURS}", False)],
)  # fmt: skip
def test_a_database_is_ours_by_the_whole_of_its_name(name, ours):
    assert is_own(name) is ours


def test_a_snapshot_loses_our_databases_and_the_statements_of_dropped_ones():
    snapshot = {
        "databases": [{"database": OURS}, {"database": "app"}, {"database": ""}],
        "tables": {OURS: [1], "app": [2]},
        "tables_t": {OURS: 1.0, "app": 2.0},
        "statements": [
            {"database": OURS, "query": "a"},
            {"database": None, "query": "b"},
            {"database": "app", "query": "c"},
            {"database": "postgres", "query": f'CREATE DATABASE "{OURS}"'},
        ],
    }
    left = without_own(snapshot)
    assert left["databases"] == [{"database": "app"}, {"database": ""}]
    assert (left["tables"], left["tables_t"]) == ({"app": [2]}, {"app": 2.0})
    assert [row["query"] for row in left["statements"]] == ["c"]


def numbers(began):
    return Statistics(
        window=Window(3600.0, SINCE_RESET, datetime.fromtimestamp(began, UTC).isoformat()),
        commits_s=5.0,
        wal_bytes_s=1e6,
        checkpoints_requested=40,
    )


def test_counters_of_the_whole_server_are_unknown_where_a_study_ran_and_kept_where_none_did():
    touched = WORK.left_out(numbers(NOON - 60))
    assert isinstance(touched.wal_bytes_s, Unknown)
    assert "study bench-1 of pgdyno" in touched.wal_bytes_s.reason
    assert isinstance(touched.checkpoints_requested, Unknown)
    assert touched.commits_s == 5.0, "commits are counted by database, and ours is left out"
    assert WORK.left_out(numbers(NOON + 601)) == numbers(NOON + 601)
    assert OwnWork().left_out(numbers(NOON)) == numbers(NOON)
    assert "bench-1" in WORK.remark(numbers(NOON), Unknown("no log"), None)
    assert WORK.remark(numbers(NOON + 601), Unknown("no log"), None) is None


@pytest.mark.parametrize(
    ("at", "zone", "message", "caused"),
    [
        ("2026-01-02 12:05:00.1 UTC", "UTC", "checkpoint starting: wal", True),
        ("2026-01-02 13:05:00 CET", "Europe/Berlin", "checkpoint starting: wal", True),
        ("2026-01-02 12:05:00 CET", "Europe/Berlin", "checkpoint starting: wal", False),
        ("2026-01-02 11:05:00 UTC", None, f'automatic vacuum of table "{OURS}.public.t": x', True),
        ("2026-01-02 12:05:00 UTC", None, "checkpoint starting: wal", False),
    ],
)
def test_a_line_of_the_log_is_ours_by_its_time_or_its_database(at, zone, message, caused):
    line = LogLine(at, "LOG", message)
    assert WORK.caused(line, zone and ZoneInfo(zone)) is caused


def test_the_log_without_the_time_of_a_study_has_the_servers_own_checkpoints():
    text = b"".join(
        f"2026-01-02 {hour}:05:00.000 UTC [1] LOG:  checkpoint starting: wal\n".encode() for hour in (11, 12, 13)
    )
    counted = []
    for work in (OwnWork(), WORK):
        reader = LogReader("C")
        reader.is_ours = lambda line, work=work: work.caused(line, ZoneInfo("UTC"))
        reader.read([text])
        counted.append(reader.evidence(("log",)).starts["wal"])
    assert counted == [3, 2]
