"""The rule on pg_stat_statements: the list of libraries keeps what it holds."""

from __future__ import annotations

import pytest

from advisor_case import finding_of, make_case, make_server
from pgdyno.model.finding import Answer, Cost


@pytest.mark.requirement("R-PG-36")
def test_missing_library_is_found_and_needs_a_restart():
    finding = finding_of("pg-stat-statements", make_case())
    assert (finding.answer, finding.cost) == (Answer.FINDING, Cost.RESTART)
    assert [change.commands for change in finding.changes if change.commands] == [
        ("CREATE EXTENSION IF NOT EXISTS pg_stat_statements;",)
    ]


@pytest.mark.requirement("R-PG-36")
def test_libraries_that_are_loaded_stay_loaded():
    server = make_server(changed={"shared_preload_libraries": "auto_explain, $libdir/other"})
    finding = finding_of("pg-stat-statements", make_case(server=server))
    assert finding.changes[0].value == "auto_explain,$libdir/other,pg_stat_statements"


def test_loaded_library_is_in_order():
    server = make_server(
        changed={"shared_preload_libraries": "auto_explain, pg_stat_statements"},
        extensions={"pg_stat_statements": "1.12"},
    )
    assert finding_of("pg-stat-statements", make_case(server=server)).answer is Answer.OK


def test_loaded_library_without_its_extension_needs_no_restart():
    server = make_server(changed={"shared_preload_libraries": "pg_stat_statements"})
    finding = finding_of("pg-stat-statements", make_case(server=server))
    assert (finding.answer, finding.cost) == (Answer.FINDING, Cost.NONE)
    assert [change.knob for change in finding.changes] == [""]
    assert finding.evidence[0].endswith("No other library is loaded.")
    beside = make_server(changed={"shared_preload_libraries": "auto_explain, pg_stat_statements"})
    assert "auto_explain stays loaded." in finding_of("pg-stat-statements", make_case(server=beside)).evidence[0]
