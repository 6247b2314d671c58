"""Rows of iostat read with care: the guide's own rows queue, which %util does not show."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor_case import finding_of, make_case
from pgdyno.advisor.device_figures import DeviceLoad, inconsistencies, load_state
from pgdyno.model.evidence import DeviceActivity
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer
from storage_case import disk, iostat_rows, lvm_host, simple_host


@pytest.mark.requirement("R-STO-10", "CON-45")
def test_the_rows_of_the_guide_queue_and_are_not_called_saturated():
    finding = finding_of("device-queueing", make_case(lvm_host(), devices=iostat_rows("before")))
    assert finding.answer is Answer.FINDING
    said = " ".join((finding.title, finding.why, *finding.evidence))
    assert "edb_data_enc is queueing" in said
    assert "edb_logs_enc is busy, not queueing" in said
    assert "saturated" not in said
    assert [resolution.id for resolution in finding.resolutions] == ["CON-45"]


@pytest.mark.requirement("R-STO-10", "CON-45")
def test_full_utilization_alone_is_in_order():
    logs = tuple(row for row in iostat_rows("before") if row.device == "edb_logs_enc")
    finding = finding_of("device-queueing", make_case(lvm_host(), devices=logs))
    assert finding.answer is Answer.OK
    assert logs[0].util_pct == 100
    assert finding.resolutions[0].id == "CON-45"


@pytest.mark.requirement("R-STO-11")
def test_columns_that_were_cut_are_unknown_and_never_zero():
    row = DeviceActivity("sda", reads_s=10.0, util_pct=100.0)
    assert load_state(row).state is DeviceLoad.UNKNOWN
    assert finding_of("device-queueing", make_case(lvm_host(), devices=(row,))).answer is Answer.UNKNOWN
    without = tuple(replace(row, service_ms=Unknown("this iostat has no svctm")) for row in iostat_rows("before"))
    assert finding_of("device-queueing", make_case(lvm_host(), devices=without)).answer is Answer.FINDING


@pytest.mark.requirement("R-STO-13")
def test_the_rows_of_the_guide_agree_with_themselves():
    assert [
        problem for name in ("before", "after") for row in iostat_rows(name) for problem in inconsistencies(row)
    ] == []


@pytest.mark.requirement("R-STO-13")
@pytest.mark.parametrize("column", ["read_request_kb", "write_request_kb", "queue"])
def test_a_column_that_does_not_fit_is_named(column):
    row = iostat_rows("before")[0]
    odd = replace(row, **{column: 3 * getattr(row, column)})
    assert len(inconsistencies(odd)) == 1
    case = make_case(lvm_host(), devices=(replace(odd, write_await_ms=11.35),))
    assert finding_of("device-queueing", case).doubts


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 100), st.floats(0, 100), st.floats(1, 512), st.floats(1, 512))
def test_what_iostat_would_print_is_consistent(reads, writes, read_wait, write_wait, read_kb, write_kb):
    row = DeviceActivity(
        "sda",
        reads_s=round(reads, 2),
        writes_s=round(writes, 2),
        read_kb_s=round(round(reads, 2) * read_kb, 2),
        write_kb_s=round(round(writes, 2) * write_kb, 2),
        read_await_ms=round(read_wait, 2),
        write_await_ms=round(write_wait, 2),
        queue=round((reads * read_wait + writes * write_wait) / 1000, 2),
        read_request_kb=round(read_kb, 2),
        write_request_kb=round(write_kb, 2),
    )
    small = 0 < row.reads_s < 1 or 0 < row.writes_s < 1  # kB of so few requests are rounded away
    assert small or inconsistencies(row) == ()


@pytest.mark.requirement("R-STO-29")
@pytest.mark.parametrize(("reads", "answer"), [(0.0, Answer.OK), (20.0, Answer.OK), (500.0, Answer.FINDING)])
def test_reads_on_the_disks_of_the_log_are_found(reads, answer):
    host = simple_host(disk("sda"), disk("sdb"))
    rows = (DeviceActivity("sda", reads_s=9e3, writes_s=9e3), DeviceActivity("sdb", reads_s=reads, writes_s=2000.0))
    assert finding_of("wal-device-reads", make_case(host, devices=rows)).answer is answer
    idle = (rows[0], DeviceActivity("sdb", reads_s=reads / 1000, writes_s=0.0))
    assert finding_of("wal-device-reads", make_case(host, devices=idle)).answer is Answer.OK


def test_reads_on_shared_disks_are_a_matter_of_placement():
    finding = finding_of("wal-device-reads", make_case(lvm_host(), devices=iostat_rows("before")))
    assert finding.answer is Answer.NOT_APPLICABLE
    assert "wal-placement" in finding.reason


@pytest.mark.requirement("R-STO-18", "R-STO-19")
def test_hardware_is_spoken_of_where_requests_queue_only():
    case = make_case(lvm_host(), devices=iostat_rows("before"))
    finding = finding_of("storage-hardware", case)
    assert finding.answer is Answer.FINDING
    for word in ("Faster disks", "many small ones", "read cache", "non-volatile", "control units", "paths", "striping"):
        assert word in finding.why
    quiet = make_case(lvm_host(), devices=iostat_rows("before")[1:])
    assert finding_of("storage-hardware", quiet).answer is Answer.NOT_APPLICABLE
