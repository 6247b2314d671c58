"""Rules on sessions: pooling, the knee, locks, and what divides the CPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import finding_of, make_case, make_host, make_server
from pgdyno.model.evidence import Concurrency, HostActivity, LogEvidence, Window
from pgdyno.model.finding import Answer, Severity


def crowd(active, **fields):
    return Concurrency(connected=active, active_mean=active, active_max=int(active), **fields)


@pytest.mark.requirement("R-PG-34")
def test_32_clients_on_2_cores_call_for_a_pool():
    finding = finding_of("pooling", make_case(make_host(cpus=2), concurrency=crowd(32.0)))
    assert (finding.answer, finding.changes) == (Answer.FINDING, ())
    assert "No parameter" in finding.why
    assert finding_of("pooling", make_case(make_host(cpus=2), concurrency=crowd(2.0))).answer is Answer.OK


@pytest.mark.requirement("R-PG-32", "R-PG-34", "R-PG-35")
@pytest.mark.parametrize("rule", ["pooling", "lock-growth", "resource-manager", "parallel-workers"])
def test_an_idle_server_shows_nothing_of_its_load(rule):
    server = make_server(changed={"max_parallel_workers_per_gather": "0"})
    idle = Concurrency(connected=3.0, active_mean=0.0, active_max=0, lock_waiters_mean=0.0)
    finding = finding_of(rule, make_case(server=server, concurrency=idle))
    assert (finding.answer, finding.changes) == (Answer.UNKNOWN, ())
    assert "none was active" in finding.reason


@pytest.mark.requirement("R-PG-34")
def test_busy_processors_call_for_a_pool_sooner():
    case = make_case(make_host(cpus=4), concurrency=crowd(5.0))
    assert finding_of("pooling", case).answer is Answer.OK
    busy = replace(case.evidence, host=HostActivity(Window(60, "sampled"), idle_pct=2.0))
    assert finding_of("pooling", replace(case, evidence=busy)).answer is Answer.FINDING


@pytest.mark.requirement("R-PG-41", "R-VER-12")
@pytest.mark.parametrize(
    ("flavour", "words"), [("EPAS", "EDB Resource Manager"), ("PostgreSQL", "no resource manager")]
)
def test_flavour_decides_what_is_said(flavour, words):
    server = make_server(14, flavour=flavour)
    calm = finding_of("resource-manager", make_case(server=server, concurrency=crowd(1.0)))
    assert words in calm.reason
    short = finding_of("resource-manager", make_case(make_host(cpus=2), server, concurrency=crowd(32.0)))
    assert words in short.why
    assert words in " ".join(
        finding_of("pooling", make_case(make_host(cpus=2), server, concurrency=crowd(32.0))).evidence
    )


@pytest.mark.requirement("R-PG-39")
def test_report_names_the_knee():
    finding = finding_of("connection-count", make_case(concurrency=crowd(448.0, knee_clients=224)))
    assert finding.title == "More sessions than the 224 that this target serves best"
    assert finding_of("connection-count", make_case(concurrency=crowd(112.0, knee_clients=224))).answer is Answer.OK
    unknown = finding_of("connection-count", make_case(concurrency=crowd(448.0)))
    assert unknown.answer is Answer.UNKNOWN
    assert "pgdyno bench" in unknown.reason


@pytest.mark.requirement("R-PG-35")
def test_growth_of_locks_is_seen():
    waits = {"Lock:transactionid": 9.0, "LWLock:LockManager": 2.0, "IO:WalSync": 1.0}
    seen = crowd(30.0, lock_waiters_mean=11.0, waits=waits)
    case = make_case(concurrency=seen, log=LogEvidence(("a",), 1, deadlocks=2))
    finding = finding_of("lock-growth", case)
    assert finding.severity is Severity.WARNING
    assert "Lock:transactionid 9" in finding.evidence[0]
    assert "LWLock" not in finding.evidence[0]  # no lock of a table or row, and not counted as one
    assert "2 deadlocks" in finding.evidence[1]
    few = crowd(2.0, lock_waiters_mean=0.1)
    assert finding_of("lock-growth", make_case(concurrency=few)).answer is Answer.OK
