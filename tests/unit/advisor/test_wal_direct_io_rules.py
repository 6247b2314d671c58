"""Direct I/O: the flags that every version really opens their log with, and what follows from them."""

from __future__ import annotations

import re

import pytest

from advisor_case import GB, finding_of, make_case, make_host, make_server
from pgdyno.advisor.rules.wal_direct_io import wal_is_direct
from pgdyno.model.evidence import WorkingSet, WorkingSetClass
from pgdyno.model.finding import Answer, ChangeKind, Cost, Severity
from pgdyno.model.inventory import Memory
from storage_case import DATA, disk, lvm_host, simple_host

RULE = "wal-direct-io"
MATRIX = (DATA / "wal_flags_13_18.txt").read_text()
ROWS = re.findall(r"PG(\d+) \[(.*?)\] flags=(\d+) O_DIRECT=(True|False)", MATRIX)
O_DIRECT = 0o40000


def options(text: str) -> dict[str, str]:
    return dict(re.findall(r"-c (\w+)=(\w+)", text))


@pytest.mark.requirement("R-DIO-01", "R-DIO-02", "CON-10")
@pytest.mark.parametrize(("major", "settings", "flags", "direct"), ROWS)
def test_the_answer_is_what_the_open_file_of_each_version_showed(major, settings, flags, direct):
    given = options(settings)
    answer = wal_is_direct(
        int(major), given["wal_sync_method"], given.get("wal_level", "replica"), given.get("debug_io_direct", "")
    )
    assert answer is (direct == "True")
    assert answer is bool(int(flags, 8) & O_DIRECT)


def test_the_matrix_covers_every_version():
    assert {int(row[0]) for row in ROWS} == set(range(13, 19))
    assert len(ROWS) == 15


@pytest.mark.parametrize("method", ["fdatasync", "fsync", "open_sync"])
def test_from_16_the_method_does_not_matter(method):
    assert wal_is_direct(17, method, "replica", "data, wal")
    assert not wal_is_direct(17, method, "minimal", "data")


@pytest.mark.requirement("R-DIO-02", "R-DIO-03", "R-DIO-04", "R-DIO-05", "CON-10")
@pytest.mark.parametrize("major", [14, 18])
def test_open_sync_for_the_sake_of_direct_io_is_answered(major):
    server = make_server(major, changed={"wal_sync_method": "open_sync"})
    finding = finding_of(RULE, make_case(lvm_host(), server))
    assert (finding.answer, finding.severity) == (Answer.FINDING, Severity.NOTE)
    assert "without O_DIRECT" in finding.evidence[0]
    assert "not to the medium" in finding.why
    assert [change.commands for change in finding.changes] == [
        ("pg_test_fsync -s 1 -f /edb_logs/pg_wal/pg_test_fsync.out",)
    ]
    assert all(change.kind is ChangeKind.COMMAND for change in finding.changes)
    assert max(effect.high for effect in finding.effects) == 0.01
    assert finding.resolutions[0].id == "CON-10"


@pytest.mark.requirement("R-DIO-03", "R-DIO-05")
def test_the_default_is_in_order_and_durable_and_pg_test_fsync_is_offered():
    finding = finding_of(RULE, make_case(lvm_host()))
    assert finding.answer is Answer.OK
    assert "through the page cache and flushed by fdatasync" in finding.reason
    assert "pg_test_fsync -s 1" in finding.reason


@pytest.mark.requirement("R-DIO-01")
def test_minimal_up_to_15_gets_what_it_asks_for():
    server = make_server(15, changed={"wal_sync_method": "open_sync", "wal_level": "minimal"})
    finding = finding_of(RULE, make_case(lvm_host(), server))
    assert finding.answer is Answer.OK
    assert "O_DIRECT" in finding.reason


def test_without_fsync_there_is_nothing_to_say_of_direct_io():
    server = make_server(changed={"fsync": "off"})
    assert finding_of(RULE, make_case(lvm_host(), server)).answer is Answer.NOT_APPLICABLE


@pytest.mark.requirement("R-DIO-09")
@pytest.mark.parametrize("value", ["data", "wal", "data, wal, wal_init"])
def test_the_developer_option_is_warned_of_and_never_proposed(value):
    finding = finding_of("debug-io-direct", make_case(server=make_server(changed={"debug_io_direct": value})))
    assert (finding.answer, finding.severity, finding.cost) == (Answer.FINDING, Severity.WARNING, Cost.RESTART)
    assert [(change.knob, change.value) for change in finding.changes] == [("debug_io_direct", "")]


@pytest.mark.requirement("R-DIO-09")
def test_the_developer_option_unset_or_unknown_to_the_version():
    assert finding_of("debug-io-direct", make_case()).answer is Answer.OK
    assert finding_of("debug-io-direct", make_case(server=make_server(15))).answer is Answer.NOT_APPLICABLE


@pytest.mark.requirement("R-DIO-08")
@pytest.mark.parametrize(("sector", "answer"), [(512, Answer.OK), (4096, Answer.FINDING), (16384, Answer.FINDING)])
def test_sectors_and_wal_blocks(sector, answer):
    host = simple_host(disk("dasda", "dasd", logical_sector=sector, physical_sector=sector))
    finding = finding_of("direct-io-alignment", make_case(host))
    assert finding.answer is answer
    if answer is Answer.FINDING:
        assert ("is aligned" in finding.evidence[0]) is (sector == 4096)


@pytest.mark.requirement("R-DIO-06", "CON-11", "CON-28")
def test_two_caches_are_explained_with_this_machines_figures():
    host = make_host(memory=Memory(ram_bytes=16 * GB, page_cache_bytes=9 * GB))
    server = make_server(changed={"shared_buffers": str(4 * GB // 8192)})
    working = WorkingSet(WorkingSetClass.RAM_ONCE, 8 * GB, 10 * GB, "relation sizes")
    finding = finding_of("double-caching", make_case(host, server, working_set=working))
    said = " ".join(finding.evidence).replace(" ", "")
    for figure in ("4GB", "9GB", "16GB", "25.0%"):
        assert figure in said
    assert finding.changes == ()
    assert [resolution.id for resolution in finding.resolutions] == ["CON-11", "CON-28"]


@pytest.mark.requirement("R-DIO-07", "CON-11")
@pytest.mark.parametrize(("major", "word"), [(18, "io_method = worker"), (17, "no asynchronous I/O")])
def test_asynchronous_io_is_named_where_there_is_some(major, word):
    finding = finding_of("double-caching", make_case(server=make_server(major)))
    assert word in finding.resolutions[0].decided
