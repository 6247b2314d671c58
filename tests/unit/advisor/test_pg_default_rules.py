"""Rules on the untouched configuration, the background writer and the use of huge pages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import GB, MB, advise, finding_of, make_case, make_host, make_server, shipped_rules
from pgdyno.model.evidence import SINCE_RESET, Settled, Statistics, Window
from pgdyno.model.facts import SUPPORTED_MAJORS
from pgdyno.model.finding import Answer, ProofState, Severity


@pytest.mark.requirement("R-ADV-18")
@pytest.mark.parametrize("major", SUPPORTED_MAJORS)
def test_fresh_cluster_is_flagged_first(major):
    case = make_case(server=make_server(major))
    assert advise(case.inventory, case.evidence, shipped_rules())[0].rule == "default-configuration"


@pytest.mark.requirement("R-ADV-18")
@pytest.mark.parametrize("changed", [{"shared_buffers": "524288"}, {"work_mem": "65536"}, {"max_wal_size": "16384"}])
def test_touched_configuration_is_in_order(changed):
    finding = finding_of("default-configuration", make_case(server=make_server(changed=changed)))
    assert finding.answer is Answer.OK
    assert next(iter(changed)) in finding.reason


def test_configuration_that_waits_for_a_restart_is_touched():
    server = make_server()
    waiting = replace(server.settings["shared_buffers"], pending_restart=True)
    server = replace(server, settings={**server.settings, "shared_buffers": waiting})
    assert finding_of("default-configuration", make_case(server=server)).answer is Answer.OK


@pytest.mark.requirement("R-PG-42")
def test_background_writer_is_an_experiment_with_history_only():
    counters = Statistics(Window(60, "sampled"), maxwritten_clean=17)
    finding = finding_of("background-writer", make_case(statistics=counters))
    assert (finding.changes[0].value, finding.state) == ("200", ProofState.NEEDS_TEST)
    assert all(effect.text.startswith("history, DB2") and effect.low is None for effect in finding.effects)
    assert "no counterpart" in finding.why
    assert "bgwriter_delay = 100ms" in finding.alternatives[0]
    assert "bgwriter_lru_multiplier = 4 " in finding.alternatives[0]
    calm = Statistics(Window(60, "sampled"), maxwritten_clean=0)
    assert finding_of("background-writer", make_case(statistics=calm)).answer is Answer.OK


@pytest.mark.parametrize(
    ("seconds", "stopped", "answer"),
    [(30 * 86400, 9, Answer.OK), (30 * 86400, 100_000, Answer.UNKNOWN), (3600, 1000, Answer.FINDING)],
)
def test_background_writer_is_not_judged_by_rounds_of_idle_days(seconds, stopped, answer):
    """A share of all rounds since the reset is too small by as much as the server was idle."""
    counters = Statistics(Window(seconds, SINCE_RESET, "2026-01-01T00:00:00+00:00"), maxwritten_clean=stopped)
    case = make_case(statistics=counters, settled=Settled(0.0, 0.0))
    finding = finding_of("background-writer", case)
    assert finding.answer is answer
    assert answer is not Answer.UNKNOWN or "--window" in finding.reason


def huge_host(total):
    host = make_host()
    return replace(host, memory=replace(host.memory, huge_pages_total=total))


@pytest.mark.requirement("R-PG-29")
def test_on_with_a_small_pool_keeps_the_server_from_starting():
    server = make_server(changed={"huge_pages": "on"}, huge_pages_in_use=True, huge_pages_needed=80)
    case = make_case(huge_host(100), server)
    assert finding_of("huge-page-use", case).answer is Answer.NOT_APPLICABLE
    finding = finding_of("huge-page-pool", case)
    assert finding.severity is Severity.CRITICAL
    assert "with huge_pages = on the server" in finding.evidence[0]
    large = make_server(changed={"huge_pages": "on", "shared_buffers": str(32 * GB // 8192)}, huge_pages_in_use=True)
    assert finding_of("huge-page-use", make_case(huge_host(17000), large)).answer is Answer.OK


@pytest.mark.requirement("R-PG-29")
@pytest.mark.parametrize("total", [0, 100])
def test_one_rule_alone_tells_that_the_pool_is_too_small(total):
    case = make_case(huge_host(total), make_server(changed={"huge_pages": "on"}, huge_pages_in_use=False))
    rules = ("huge-pages", "huge-page-pool", "huge-page-use")
    critical = [rule for rule in rules if finding_of(rule, case).severity is Severity.CRITICAL
                and finding_of(rule, case).answer is Answer.FINDING]  # fmt: skip
    assert critical == ["huge-page-pool" if total else "huge-pages"]


@pytest.mark.requirement("R-PG-29")
def test_on_where_the_machine_has_no_huge_pages_is_still_told():
    host = huge_host(0)
    host = replace(host, memory=replace(host.memory, huge_pages_supported=False))
    finding = finding_of("huge-page-use", make_case(host, make_server(changed={"huge_pages": "on"})))
    assert (finding.answer, finding.severity) == (Answer.FINDING, Severity.CRITICAL)


@pytest.mark.parametrize("text", ["", "abc"])
def test_a_setting_that_is_no_number_leaves_the_need_unknown(text):
    case = make_case(huge_host(100), make_server(changed={"huge_pages": "on", "max_connections": text}))
    assert finding_of("huge-page-use", case).answer is Answer.UNKNOWN


@pytest.mark.requirement("R-PG-30")
def test_try_that_fell_back_is_found():
    finding = finding_of("huge-page-use", make_case(server=make_server(huge_pages_in_use=False)))
    assert finding.title == "huge_pages: configured try, and not in use"
    used = make_server(huge_pages_in_use=True)
    assert finding_of("huge-page-use", make_case(huge_host(20000), used)).answer is Answer.OK
    off = make_server(changed={"huge_pages": "off"})
    assert finding_of("huge-page-use", make_case(server=off)).answer is Answer.OK


@pytest.mark.requirement("R-ADV-18")
def test_small_machines_are_told_their_share():
    finding = finding_of("default-configuration", make_case(make_host(ram_bytes=512 * MB)))
    assert "25.0 % of the 512 MB" in finding.evidence[1]
