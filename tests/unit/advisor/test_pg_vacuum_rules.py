"""Rules on autovacuum: on, with one exception that is text for people."""

from __future__ import annotations

import pytest

from advisor_case import GB, MB, finding_of, make_case, make_server
from pgdyno.advisor.rules.vacuum import MOSTLY_READ
from pgdyno.model.evidence import Statistics, TableActivity, Window
from pgdyno.model.finding import Answer, ProofState, Severity
from pgdyno.model.inventory import Database


def counters(share):
    return Statistics(Window(60, "sampled"), write_share=share)


def table(dead=0.0, growth=0, size=1 * GB):
    return TableActivity("public", "stock", "app", size, 0, 0.5, 0.5, growth_bytes=growth, dead_share=dead)


def off(**evidence):
    server = make_server(
        changed={"autovacuum": "off"},
        databases=(Database("app", 10 * GB, frozen_xid_age=150_000_000),),
    )
    return finding_of("autovacuum", make_case(server=server, **evidence))


@pytest.mark.requirement("R-PG-25", "R-PG-27", "CON-23")
def test_off_under_writes_is_critical_and_names_why_it_exists():
    finding = off(statistics=counters(0.4), tables=(table(),))
    assert (finding.severity, finding.changes) == (Severity.CRITICAL, ())
    words = " ".join(finding.evidence)
    for reason in ("space", "statistics", "wrap around", "150,000,000"):
        assert reason in words
    assert not any("vacuumdb" in text for text in finding.alternatives)


@pytest.mark.requirement("R-PG-25")
def test_off_with_nothing_known_is_critical():
    assert off().severity is Severity.CRITICAL


@pytest.mark.requirement("R-PG-26", "CON-23")
def test_off_for_reads_needs_the_schedule():
    finding = off(statistics=counters(0.001), tables=(table(),))
    assert (finding.severity, finding.changes) == (Severity.WARNING, ())
    words = " ".join(finding.alternatives)
    assert "/etc/cron.d" in words
    assert "--on-calendar" in words


@pytest.mark.requirement("R-PG-26", "R-PG-28", "CON-23")
def test_exception_is_text_with_the_schedule_and_cost_limits():
    finding = finding_of("autovacuum-exception", make_case(statistics=counters(0.0), tables=(table(),)))
    assert (finding.answer, finding.changes, finding.state) == (Answer.FINDING, (), ProofState.NEEDS_TEST)
    words = " ".join(finding.alternatives)
    assert "vacuumdb --all --analyze" in words
    assert "cost_limit" in words


@pytest.mark.requirement("R-PG-26", "R-PG-27")
@pytest.mark.parametrize(
    ("share", "tables", "offered"),
    [
        (MOSTLY_READ, (table(),), True),
        (MOSTLY_READ + 0.001, (table(),), False),
        (0.01, (table(dead=0.2),), False),
        (0.01, (table(growth=200 * MB),), False),
    ],
)
def test_threshold_of_mostly_read_only(share, tables, offered):
    finding = finding_of("autovacuum-exception", make_case(statistics=counters(share), tables=tables))
    assert (finding.answer is Answer.FINDING) is offered


@pytest.mark.requirement("R-PG-25", "CON-23")
def test_on_is_in_order():
    finding = finding_of("autovacuum", make_case())
    assert (finding.answer, finding.resolutions[0].id) == (Answer.OK, "CON-23")
    broken = make_server(changed={"track_counts": "off"})
    assert finding_of("autovacuum", make_case(server=broken)).severity is Severity.CRITICAL


@pytest.mark.requirement("R-PG-28")
def test_bloat_asks_for_a_higher_limit():
    finding = finding_of("autovacuum-cost", make_case(tables=(table(dead=0.4),)))
    assert [(change.knob, change.value) for change in finding.changes] == [("autovacuum_vacuum_cost_limit", "400")]
    assert finding_of("autovacuum-cost", make_case(tables=(table(dead=0.1),))).answer is Answer.OK
