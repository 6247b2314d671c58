"""What the log says of a setting counts from its last change on; when others changed nothing is thrown away."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from advisor_case import make_case, make_server
from pgdyno.model.evidence import LogEvidence
from pgdyno.model.facts import SettingFact, Unknown
from pgdyno.probes.evidence.derive import settled
from pgdyno.probes.evidence.log_reader import LogReader

BUSY = """2026-11-24 03:00:00.000 UTC [7] LOG:  starting PostgreSQL 15.18 on x86_64-pc-linux-gnu
2026-11-24 03:00:09.000 UTC [8] LOG:  checkpoints are occurring too frequently (9 seconds apart)
2026-11-24 03:00:09.000 UTC [8] HINT:  Consider increasing the configuration parameter "max_wal_size".
2026-11-24 03:00:09.000 UTC [8] LOG:  checkpoint starting: wal
2026-11-24 03:00:10.000 UTC [9] LOG:  temporary file: path "base/pgsql_tmp/pgsql_tmp9.0", size 900
2026-11-24 03:00:11.000 UTC [7] LOG:  server process (PID 11) was terminated by signal 9: Killed
"""
CHANGE = '2026-11-24 03:05:00.000 UTC [7] LOG:  parameter "{}" changed to "{}"\n'
REMOVED = '2026-11-24 03:05:00.000 UTC [7] LOG:  parameter "{}" removed from configuration file, reset to default\n'


def read(text: str, *, keep: int = 0) -> tuple[LogEvidence, list[str]]:
    reader = LogReader(keep_at_most=keep)
    reader.read([text.encode()])
    found = reader.evidence(("server.log",))
    assert isinstance(found, LogEvidence)
    return found, reader.counts.kept


@pytest.mark.parametrize("change", [CHANGE.format("max_wal_size", "8GB"), REMOVED.format("max_wal_size")])
def test_pressure_before_the_change_is_of_the_value_before(change: str) -> None:
    found, _ = read(BUSY + change)
    assert (found.too_frequent_s, dict(found.starts), found.hints) == ((), {}, ())
    assert not {"too_frequent", "wal_start"} & set(found.quotes)
    assert found.earlier == {"too_frequent": 1, "checkpoint_starts": 1}
    assert found.anew("max_wal_size") == "max_wal_size changed at 2026-11-24 03:05:00.000 UTC"
    assert (found.temp_files, found.killed_by_9) == (1, 1)


def test_another_setting_takes_nothing_away() -> None:
    found, _ = read(BUSY + CHANGE.format("random_page_cost", "1.1"))
    assert (found.too_frequent_s, found.temp_files, found.killed_by_9) == ((9,), 1, 1)
    assert found.anew("max_wal_size") == "the server started at 2026-11-24 03:00:00.000 UTC"


def test_a_change_that_the_log_tells_without_a_time_is_still_what_came_last() -> None:
    """As where log_line_prefix was emptied: the start has its time, and the change after it has none."""
    untimed = CHANGE.format("max_wal_size", "8GB").partition("[7] ")[2]
    found, _ = read(BUSY + untimed)
    assert found.earlier == {"too_frequent": 1, "checkpoint_starts": 1}
    assert found.anew("max_wal_size") == "max_wal_size changed"


def test_spills_begin_anew_with_work_mem() -> None:
    found, _ = read(BUSY + CHANGE.format("work_mem", "64MB"))
    assert (found.temp_files, found.temp_bytes, found.largest_temp_bytes, found.killed_by_9) == (0, 0, 0, 0)
    assert found.too_frequent_s == (9,)


def test_after_a_start_everything_may_be_another() -> None:
    found, _ = read(BUSY + CHANGE.format("work_mem", "1GB") + BUSY.splitlines()[0] + "\n")
    assert (found.too_frequent_s, found.temp_files, found.killed_by_9, dict(found.changed)) == ((), 0, 0, {})


def test_what_comes_after_the_change_counts() -> None:
    found, _ = read(BUSY + CHANGE.format("max_wal_size", "2GB") + BUSY.split("\n", 1)[1])
    assert found.too_frequent_s == (9,)
    assert found.earlier["too_frequent"] == 1


def test_a_capture_keeps_the_change_and_no_value() -> None:
    text = BUSY + CHANGE.format("primary_conninfo", "password=hidden") + CHANGE.format("max_wal_size", "8GB")
    found, kept = read(text, keep=100)
    assert "hidden" not in "".join(kept)
    again, _ = read("".join(f"{line}\n" for line in kept))
    assert (again.too_frequent_s, again.changed, again.earlier) == (found.too_frequent_s, found.changed, found.earlier)


def test_moments_without_a_log_are_those_of_the_server() -> None:
    snapshot = {"server": [{"started_at": 100.0, "loaded_at": 900.0}]}
    found = settled(snapshot, Unknown("no log"), make_case().inventory)
    assert not isinstance(found, Unknown)
    assert (found.since("work_mem", by_restart=False), found.since("wal_buffers", by_restart=True)) == (900.0, 100.0)
    old = settled({"server": [{"started_at": 100.0}]}, Unknown("no log"), make_case().inventory)
    assert isinstance(old, Unknown)


def test_times_of_the_log_are_read_in_its_zone() -> None:
    log, _ = read(BUSY.split("\n", 1)[1] + CHANGE.format("max_wal_size", "8GB"))
    changed = datetime(2026, 11, 24, 3, 5, tzinfo=ZoneInfo("GMT")).timestamp()
    snapshot = {"server": [{"started_at": changed - 9000, "loaded_at": changed}]}
    found = settled(snapshot, log, make_case(server=make_server(extra={"log_timezone": zone("GMT")})).inventory)
    assert not isinstance(found, Unknown)
    assert found.since("max_wal_size", by_restart=False) == changed
    assert found.since("work_mem", by_restart=False) == changed - 291  # no line of the log from there on names it
    nowhere = settled(snapshot, log, make_case(server=make_server(extra={"log_timezone": zone("No/Where")})).inventory)
    assert not isinstance(nowhere, Unknown)
    assert nowhere.since("work_mem", by_restart=False) == changed


def zone(name: str) -> SettingFact:
    return SettingFact("log_timezone", name, None, "string", "sighup", "configuration file")
