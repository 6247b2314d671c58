"""Rules on statements: they come before any setting."""

from __future__ import annotations

import pytest

from advisor_case import finding_of, make_case
from pgdyno.advisor.engine import advise
from pgdyno.advisor.rulebook import shipped_rules
from pgdyno.model.evidence import Statement, Statistics, TinyRequests, Window
from pgdyno.model.finding import Answer, Severity

BAD = Statement("SELECT * FROM orders WHERE note LIKE $1", 20, 800.0, 0.9, 3.0, reads_per_call=40000.0)
POINT = Statement("SELECT abalance FROM accounts WHERE aid = $1", 90000, 0.03, 0.9, 1.0)
BATCH = Statement("SELECT abalance FROM accounts WHERE aid = ANY ($1)", 90, 9.0, 0.9, 1000.0)
WINDOW = Statistics(Window(60, "sampled"))


@pytest.mark.requirement("R-ADV-09", "R-ADV-18")
def test_bad_statement_comes_above_every_setting():
    case = make_case(statements=(BAD, POINT))
    findings = advise(case.inventory, case.evidence, shipped_rules())
    assert [finding.rule for finding in findings[:2]] == ["statements-first", "default-configuration"]
    assert "LIKE $1" in findings[0].evidence[0]
    assert findings[0].severity is Severity.WARNING


def test_sums_since_a_reset_say_that_they_do_not_show_what_was_done_since():
    month = Statistics(Window(30 * 86400, "since the statistics were reset"))
    old = Statement(BAD.query, 2000, 800.0, 0.9, 3.0, reads_per_call=40000.0)
    evidence = finding_of("statements-first", make_case(statements=(old,), statistics=month)).evidence
    assert "pg_stat_statements_reset()" in evidence[-1]
    watched = finding_of("statements-first", make_case(statements=(old,), statistics=WINDOW)).evidence
    assert not any("reset" in sentence for sentence in watched)


@pytest.mark.requirement("R-ADV-09")
def test_without_a_bad_statement_it_is_silent():
    assert finding_of("statements-first", make_case(statements=(POINT,))).answer is Answer.OK
    assert finding_of("statements-first", make_case()).answer is Answer.UNKNOWN


def test_what_took_no_time_or_is_no_query_is_not_named():
    once = Statement("SELECT * FROM orders WHERE note LIKE $1", 1, 900.0, 0.9, 3.0, reads_per_call=40000.0)
    utility = Statement("CREATE DATABASE other", 3, 800.0, 0.9, 0.0, reads_per_call=900.0)
    assert finding_of("statements-first", make_case(statements=(once, utility))).answer is Answer.OK


@pytest.mark.requirement("R-ADV-10")
def test_loop_of_single_rows_is_flagged_and_a_batch_is_not():
    begin = Statement("BEGIN", 90000, 0.001, 0.01, 0.0)
    assert finding_of("tiny-requests", make_case(statements=(POINT, begin), statistics=WINDOW)).answer is Answer.FINDING
    assert finding_of("tiny-requests", make_case(statements=(BATCH, begin), statistics=WINDOW)).answer is Answer.OK


@pytest.mark.requirement("R-ADV-10")
def test_few_tiny_calls_are_no_matter():
    few = Statement(POINT.query, 900, 0.03, 0.9, 1.0)
    since_reset = Statistics(Window(86400, "since the statistics were reset"))
    assert finding_of("tiny-requests", make_case(statements=(few,), statistics=since_reset)).answer is Answer.OK
    watched = Statistics(Window(86400, "sampled"))
    assert finding_of("tiny-requests", make_case(statements=(POINT,), statistics=watched)).answer is Answer.OK
    assert finding_of("tiny-requests", make_case(statements=())).answer is Answer.OK


def test_tiny_calls_since_a_reset_have_no_rate_that_idle_days_do_not_thin():
    """A million in an hour of load, after a month without, are not few."""
    month = Statistics(Window(30 * 86400, "since the statistics were reset"))
    many = Statement(POINT.query, 1_000_000, 0.03, 0.9, 1.0)
    finding = finding_of("tiny-requests", make_case(statements=(many,), statistics=month))
    assert finding.answer is Answer.UNKNOWN
    assert "--window" in finding.reason
    hour = Statistics(Window(3600, "since the statistics were reset"))
    assert finding_of("tiny-requests", make_case(statements=(many,), statistics=hour)).answer is Answer.FINDING


@pytest.mark.requirement("R-ADV-10")
@pytest.mark.parametrize(
    ("rate", "share", "answer"), [(900.0, 0.9, Answer.FINDING), (900.0, 0.2, Answer.OK), (5.0, 0.9, Answer.OK)]
)
def test_counted_tiny_requests_need_no_list_of_statements(rate, share, answer):
    counted = TinyRequests(calls_s=rate, calls_share=share, time_share=0.4, mean_ms=0.05)
    assert finding_of("tiny-requests", make_case(tiny_requests=counted)).answer is answer
