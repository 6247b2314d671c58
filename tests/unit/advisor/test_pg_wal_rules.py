"""Rules on the write-ahead log and on durability: what can lose data is flagged and never proposed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import GB, MB, finding_of, make_case, make_host, make_server
from pgdyno.advisor.planned import change_to
from pgdyno.errors import UsageError
from pgdyno.model.evidence import HostActivity, Statistics, Window, WorkloadClass
from pgdyno.model.facts import SUPPORTED_MAJORS, Unknown
from pgdyno.model.finding import Answer, Cost, ProofState, Severity

SMALL_HOST = make_host(ram_bytes=512 * MB)
"""A quarter of it is 128 MB of shared_buffers, so automatic wal_buffers are 4 MB."""


def counters(**fields):
    return Statistics(Window(60, "sampled"), **fields)


@pytest.mark.requirement("R-PG-19", "CON-21")
@pytest.mark.parametrize("major", SUPPORTED_MAJORS)
def test_wal_buffers_is_silent_with_large_buffers(major):
    server = make_server(major, changed={"shared_buffers": str(1024 * 1024), "wal_buffers": "2048"})
    finding = finding_of("wal-buffers", make_case(server=server, workload=WorkloadClass.OLTP))
    assert finding.answer is Answer.OK
    assert finding.resolutions[0].id == "CON-21"


@pytest.mark.requirement("R-PG-19", "CON-21")
def test_automatic_size_follows_the_buffers_that_are_proposed():
    finding = finding_of("wal-buffers", make_case(workload=WorkloadClass.OLTP))
    assert finding.answer is Answer.OK
    assert "16 MB" in finding.reason


@pytest.mark.requirement("R-PG-19", "CON-21")
@pytest.mark.parametrize(("size", "answer"), [(8 * GB, Answer.OK), (512 * MB, Answer.OK), (504 * MB, Answer.UNKNOWN)])
def test_a_segment_that_nobody_knows_matters_for_small_buffers_only(size, answer):
    """A configuration file says nothing of the segment's size."""
    server = make_server(16, changed={"shared_buffers": str(size // 8192)})
    settings = {name: row for name, row in server.settings.items() if name != "wal_segment_size"}
    finding = finding_of("wal-buffers", make_case(make_host(ram_bytes=2 * GB), replace(server, settings=settings)))
    assert finding.answer is answer


@pytest.mark.requirement("R-PG-19", "R-PG-20", "CON-21")
def test_small_buffers_are_offered_16mb():
    finding = finding_of("wal-buffers", make_case(SMALL_HOST, workload=WorkloadClass.OLTP))
    assert (finding.changes[0].value, finding.cost) == ("16MB", Cost.RESTART)
    assert "nothing that was acknowledged is lost" in finding.risk
    never = make_case(SMALL_HOST, workload=WorkloadClass.OLTP, statistics=counters(wal_buffers_full=0))
    assert finding_of("wal-buffers", never).answer is Answer.OK
    reads = make_case(SMALL_HOST, workload=WorkloadClass.READ_ONLY)
    assert finding_of("wal-buffers", reads).answer is Answer.OK


@pytest.mark.requirement("R-PG-22", "CON-22")
def test_synchronous_commit_off_is_flagged_and_not_changed():
    finding = finding_of("synchronous-commit", make_case(server=make_server(changed={"synchronous_commit": "off"})))
    assert (finding.answer, finding.severity, finding.changes) == (Answer.FINDING, Severity.WARNING, ())
    assert finding.resolutions[0].id == "CON-22"
    on = finding_of("synchronous-commit", make_case())
    assert (on.answer, on.resolutions[0].id) == (Answer.OK, "CON-22")


@pytest.mark.requirement("R-PG-22")
def test_synchronous_commit_of_a_role_is_seen():
    server = make_server(overrides={"role batch": {"synchronous_commit": "off"}})
    finding = finding_of("synchronous-commit", make_case(server=server))
    assert finding.title.startswith("synchronous_commit is off for role batch:")
    assert finding.proposed == "set by hand: ALTER ROLE batch RESET synchronous_commit"
    assert finding.cost is Cost.NONE, "a setting of a role needs no reload"
    both = make_server(changed={"synchronous_commit": "off"}, overrides={"role batch": {"synchronous_commit": "off"}})
    assert finding_of("synchronous-commit", make_case(server=both)).cost is Cost.RELOAD
    for word in ("OFF", "no", "0", "False"):  # as it was written: the server takes each of them for off
        server = make_server(overrides={"database shop": {"synchronous_commit": word}})
        assert finding_of("synchronous-commit", make_case(server=server)).answer is Answer.FINDING, word
    standby = finding_of("synchronous-commit", make_case(server=replace(server, in_recovery=True)))
    assert standby.proposed == "set by hand: ALTER DATABASE shop RESET synchronous_commit on its primary"
    row = replace(make_server().settings["synchronous_commit"], setting="off", source="global")
    every = make_server(overrides={"all roles": {"synchronous_commit": "off"}}, extra={"synchronous_commit": row})
    everybody = finding_of("synchronous-commit", make_case(server=every))
    assert everybody.current == "synchronous_commit = off for all roles"  # "the server, all roles": its file has on
    assert everybody.proposed == "set by hand: ALTER ROLE ALL RESET synchronous_commit"
    odd = make_server(overrides={"role x superuser; --": {"synchronous_commit": "off"}})
    told = finding_of("synchronous-commit", make_case(server=odd)).proposed
    assert told == "set by hand: ALTER ROLE or DATABASE ... RESET synchronous_commit"
    unseen = make_server(overrides=Unknown("no right to read them"))
    reason = finding_of("synchronous-commit", make_case(server=unseen)).reason
    assert "what roles and databases set is unknown (no right to read them)" in reason
    assert "roles" not in finding_of("synchronous-commit", make_case(server=make_server(overrides={}))).reason


@pytest.mark.requirement("R-PG-23", "R-PG-24")
@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_loss_of_durability_is_critical_unless_disposable(name):
    rule = name.replace("_", "-")
    finding = finding_of(rule, make_case(server=make_server(changed={name: "off"})))
    assert (finding.severity, finding.changes) == (Severity.CRITICAL, ())
    if name == "fsync":
        assert "15 % more transactions with 448 clients of 64 pods" in finding.effects[0].text
    thrown_away = make_server(changed={name: "off"}, disposable=True)
    assert finding_of(rule, make_case(server=thrown_away)).severity is Severity.NOTE
    assert finding_of(rule, make_case()).answer is Answer.OK


@pytest.mark.requirement("CON-12")
def test_durability_comes_from_fsync():
    resolution = finding_of("fsync", make_case()).resolutions[0]
    assert resolution.id == "CON-12"
    assert "fsync = on with wal_sync_method = fdatasync" in resolution.decided


@pytest.mark.requirement("R-PG-23", "R-PG-24", "R-PG-25")
@pytest.mark.parametrize("name", ["fsync", "full_page_writes", "synchronous_commit", "autovacuum"])
def test_class_x_cannot_even_be_written_as_a_change(name):
    with pytest.raises(UsageError, match="never proposed"):
        change_to(make_case(), name, "off")


@pytest.mark.requirement("R-PG-10", "R-VER-05")
@pytest.mark.parametrize(("major", "expected"), [(13, "on"), (14, "on"), (15, "lz4"), (18, "on")])
def test_compression_takes_a_word_that_the_build_knows(major, expected):
    images = counters(full_page_image_share=0.8)
    busy = HostActivity(Window(60, "sampled"), idle_pct=40.0)
    case = make_case(server=make_server(major), statistics=images)
    finding = finding_of("wal-compression", replace(case, evidence=replace(case.evidence, host=busy)))
    assert (finding.changes[0].value, finding.state) == (expected, ProofState.NEEDS_TEST)
    assert "up to 80 % of the WAL" in finding.evidence[0]
    full = HostActivity(Window(60, "sampled"), idle_pct=0.0)
    finding = finding_of("wal-compression", replace(case, evidence=replace(case.evidence, host=full)))
    assert "a loss is as likely" in finding.evidence[1]
