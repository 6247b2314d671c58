"""Rules on work_mem, parallel workers and page costs: by concurrency and by what is cached."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor_case import GB, MB, finding_of, make_case, make_host, make_server
from facts_from_params import make_facts
from pgdyno.errors import UsageError
from pgdyno.knobs.policy import check_settings
from pgdyno.model.evidence import Concurrency, LogEvidence, Statistics, Window, WorkingSet, WorkingSetClass
from pgdyno.model.finding import Answer, ProofState, Severity
from pgdyno.units import parse_quantity

QUIET = Statistics(Window(60, "sampled"), temp_bytes_s=0.0)


def spilling(largest):
    return LogEvidence(("server.log",), 1, temp_files=3, temp_bytes=3 * largest, largest_temp_bytes=largest)


@pytest.mark.requirement("R-PG-33")
def test_83mb_for_500_sessions_is_more_than_there_is():
    server = make_server(changed={"work_mem": str(83 * 1024), "max_connections": "500"})
    finding = finding_of("work-mem", make_case(server=server, statistics=QUIET))
    assert finding.severity is Severity.WARNING
    assert "83MB x hash_mem_multiplier 2 x 2 nodes x (2 workers + 1) x 500 sessions" in finding.evidence[0]
    assert parse_quantity(finding.changes[0].value, "MB") == 32


@pytest.mark.requirement("R-PG-33")
@pytest.mark.parametrize(("logged", "answer"), [("-1", Answer.UNKNOWN), ("0", Answer.OK)])
def test_a_log_that_names_no_temporary_files_tells_nothing_of_them(logged, answer):
    server = make_server(changed={"log_temp_files": logged})
    finding = finding_of("work-mem", make_case(server=server, log=LogEvidence(("server.log",), 1)))
    assert finding.answer is answer
    assert ("log_temp_files is off" in finding.reason) is (answer is Answer.UNKNOWN)


@pytest.mark.requirement("R-PG-33")
def test_default_without_spills_is_in_order():
    assert finding_of("work-mem", make_case(statistics=QUIET)).answer is Answer.OK


@pytest.mark.requirement("R-PG-33")
@pytest.mark.parametrize(("sessions", "expected"), [(1.0, "64MB"), (200.0, "64MB"), (800.0, "16MB")])
def test_spills_ask_for_more_by_concurrency(sessions, expected):
    case = make_case(log=spilling(50 * MB), concurrency=Concurrency(connected=sessions))
    finding = finding_of("work-mem", case)
    assert (finding.changes[0].value, finding.state) == (expected, ProofState.NEEDS_TEST)


@pytest.mark.requirement("R-PG-33", "CON-34")
def test_4kb_is_below_the_minimum():
    with pytest.raises(UsageError, match="64kB"):
        check_settings({"work_mem": "4kB"}, make_facts(16))
    resolution = finding_of("work-mem", make_case(statistics=QUIET)).resolutions[0]
    assert resolution.id == "CON-34"
    assert "below 64kB" in resolution.decided


@pytest.mark.requirement("R-PG-33", "CON-34")
@given(
    ram=st.integers(128 * MB, 1 << 44),
    connections=st.integers(1, 20000),
    work_mem=st.integers(64, 1 << 22),
    largest=st.integers(0, 1 << 40),
)
def test_work_mem_stays_in_the_servers_range(ram, connections, work_mem, largest):
    server = make_server(changed={"work_mem": str(work_mem), "max_connections": str(connections)})
    finding = finding_of("work-mem", make_case(make_host(ram_bytes=ram), server, log=spilling(largest)))
    for change in finding.changes:
        assert 64 <= parse_quantity(change.value, "kB") <= 2147483647


@pytest.mark.requirement("R-PG-32", "CON-40")
@pytest.mark.parametrize(
    ("active", "current", "expected"), [(1.0, "0", "2"), (10.0, "2", "0"), (1.0, "2", None), (2.0, "2", None)]
)
def test_parallel_workers_by_concurrency(active, current, expected):
    server = make_server(changed={"max_parallel_workers_per_gather": current})
    finding = finding_of(
        "parallel-workers", make_case(make_host(cpus=4), server, concurrency=Concurrency(active_mean=active))
    )
    assert [change.value for change in finding.changes] == ([expected] if expected else [])
    assert finding.resolutions[0].id == "CON-40"
    assert "4 in a run with little memory" in finding.effects[0].text


def work(kind):
    return WorkingSet(kind, 2 * GB, 5 * GB, "pages of the top tables")


@pytest.mark.requirement("R-PG-31", "CON-39")
@pytest.mark.parametrize("kind", WorkingSetClass)
def test_page_costs_are_lowered_only_where_all_is_cached(kind):
    finding = finding_of("random-page-cost", make_case(working_set=work(kind)))
    cached = kind in (WorkingSetClass.SHARED_BUFFERS, WorkingSetClass.RAM_TWICE)
    assert [change.value for change in finding.changes] == (["1.1"] if cached else [])
    assert finding.resolutions[0].id == "CON-39"
    if cached:
        assert "EXPLAIN" in finding.risk


@pytest.mark.requirement("R-PG-31", "CON-39")
def test_equal_costs_without_a_cache_are_warned_about():
    server = make_server(changed={"random_page_cost": "1"})
    finding = finding_of("random-page-cost", make_case(server=server, working_set=work(WorkingSetClass.EXCEEDS)))
    assert (finding.answer, finding.changes) == (Answer.FINDING, ())


@pytest.mark.requirement("R-PG-33")
def test_work_mem_of_somebody_that_fits_is_left():
    server = make_server(changed={"work_mem": str(64 * 1024)})
    assert finding_of("work-mem", make_case(server=server, statistics=QUIET)).answer is Answer.OK
    assert finding_of("work-mem", make_case(server=server, log=spilling(10 * MB))).answer is Answer.OK


def test_multiplier_that_no_server_takes_divides_nothing():
    server = make_server(changed={"hash_mem_multiplier": "0"})
    assert finding_of("work-mem", make_case(server=server, log=spilling(50 * MB))).answer is Answer.FINDING


def test_what_roles_set_for_themselves_is_told_and_not_taken_for_the_servers():
    apart = {"role reporting": {"work_mem": "1GB"}, "database app": {"jit": "off"}}
    quiet = Statistics(Window(60, "sampled"), temp_bytes_s=0.0)
    finding = finding_of("work-mem", make_case(server=make_server(overrides=apart), statistics=quiet))
    assert finding.answer is Answer.OK
    assert finding.reason.endswith("It is set apart for role reporting: 1GB.")
    unseen = finding_of("work-mem", make_case(server=make_server(overrides=apart)))
    assert unseen.answer is Answer.UNKNOWN
    assert unseen.reason.endswith("it is set apart for role reporting: 1GB")
