"""Rules on the asynchronous I/O of PostgreSQL 18."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import GB, finding_of, make_case, make_host, make_server
from pgdyno.model.evidence import WorkingSet, WorkingSetClass
from pgdyno.model.facts import SUPPORTED_MAJORS
from pgdyno.model.finding import Answer, Cost, ProofState

RULES = ("io-method", "io-workers", "effective-io-concurrency")
EXCEEDS = WorkingSet(WorkingSetClass.EXCEEDS, 200 * GB, 300 * GB, "pages of the top tables")


@pytest.mark.requirement("R-DIO-07")
@pytest.mark.parametrize("major", [version for version in SUPPORTED_MAJORS if version < 18])
@pytest.mark.parametrize("rule", RULES)
def test_older_versions_have_none(major, rule):
    assert finding_of(rule, make_case(server=make_server(major))).answer is Answer.NOT_APPLICABLE


@pytest.mark.requirement("R-DIO-07")
def test_sync_is_put_back_to_worker():
    finding = finding_of("io-method", make_case(server=make_server(changed={"io_method": "sync"})))
    assert (finding.changes[0].value, finding.cost) == ("worker", Cost.RESTART)
    assert finding_of("io-method", make_case(working_set=EXCEEDS)).answer is Answer.OK


@pytest.mark.requirement("R-DIO-07")
def test_io_uring_is_offered_where_the_build_has_it_and_reads_matter():
    fact = replace(make_server().settings["io_method"], enumvals=("sync", "worker", "io_uring"))
    server = make_server(extra={"io_method": fact})
    finding = finding_of("io-method", make_case(server=server, working_set=EXCEEDS))
    assert (finding.changes[0].value, finding.state) == ("io_uring", ProofState.NEEDS_TEST)
    assert finding_of("io-workers", make_case(make_host(cpus=64), server, working_set=EXCEEDS)).answer is Answer.OK
    assert finding_of("io-method", make_case(server=server)).answer is Answer.OK


@pytest.mark.requirement("R-DIO-07")
def test_workers_by_processors_when_reads_go_to_disk():
    finding = finding_of("io-workers", make_case(make_host(cpus=32), working_set=EXCEEDS))
    assert (finding.changes[0].value, finding.cost) == ("8", Cost.RELOAD)
    assert finding_of("io-workers", make_case(make_host(cpus=4), working_set=EXCEEDS)).answer is Answer.OK


@pytest.mark.requirement("R-DIO-07", "R-VER-02")
def test_concurrency_of_an_older_version_is_raised():
    assert finding_of("effective-io-concurrency", make_case()).answer is Answer.OK
    server = make_server(changed={"effective_io_concurrency": "1"})
    assert finding_of("effective-io-concurrency", make_case(server=server)).changes[0].value == "16"
