"""Rules on autovacuum: on, with one exception that is text for people."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import GB, MB, finding_of, make_case, make_server
from pgdyno.advisor.rules.vacuum import MOST_TABLES, MOSTLY_READ
from pgdyno.model.evidence import Statistics, TableActivity, Window
from pgdyno.model.finding import Answer, ProofState, Severity
from pgdyno.model.inventory import Database


def counters(share):
    return Statistics(Window(60, "sampled"), write_share=share)


def table(dead=0.0, growth=0, size=1 * GB, **more):
    return TableActivity("public", "stock", "app", size, 0, 0.5, 0.5, growth_bytes=growth, dead_share=dead, **more)


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


@pytest.mark.requirement("R-PG-25")
@pytest.mark.parametrize(("dead", "severity"), [(0.02, Severity.NOTE), (0.5, Severity.WARNING)])
def test_a_table_without_autovacuum_is_named_with_what_turns_it_on(dead, severity):
    """The server's autovacuum was on, and no rule saw the table that it passes over."""
    finding = finding_of("autovacuum-tables", make_case(tables=(table(dead=dead, autovacuum_off=True), table())))
    assert (finding.answer, finding.severity) == (Answer.FINDING, severity)
    assert "public.stock" in finding.title
    assert 'ALTER TABLE "public"."stock" RESET (autovacuum_enabled);' in finding.proposed
    assert "stock" in finding.evidence[0]
    assert finding.changes == ()  # no step of an experiment, whose load has tables of its own


def test_tables_without_autovacuum_that_are_small_or_that_none_looks_after_are_let_be():
    small = make_case(tables=(table(dead=0.9, size=1 * MB, autovacuum_off=True),))
    assert finding_of("autovacuum-tables", small).answer is Answer.OK
    everywhere = make_case(
        server=make_server(changed={"autovacuum": "off"}), tables=(table(dead=0.9, autovacuum_off=True),)
    )
    assert finding_of("autovacuum-tables", everywhere).answer is Answer.OK
    assert finding_of("autovacuum-tables", make_case()).answer is Answer.UNKNOWN


def test_many_tables_without_autovacuum_are_counted_and_the_worst_named():
    tables = tuple(
        replace(table(dead=number / 100, autovacuum_off=True), name=f"t{number}") for number in range(MOST_TABLES + 3)
    )
    finding = finding_of("autovacuum-tables", make_case(tables=tables))
    assert finding.title.endswith("public.t3 and 3 more")
    assert finding.proposed.count("ALTER TABLE") == len(finding.evidence) == MOST_TABLES


def test_a_cost_limit_is_not_raised_for_a_table_that_autovacuum_passes_over():
    case = make_case(tables=(table(dead=0.4, autovacuum_off=True),))
    assert finding_of("autovacuum-cost", case).answer is Answer.OK
