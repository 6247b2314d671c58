"""The rule on pg_stat_statements, which has expressions only."""

from __future__ import annotations

import pytest

from advisor_case import finding_of, make_case, make_server
from pgdyno.model.finding import Answer, Cost


@pytest.mark.requirement("R-PG-36")
def test_missing_library_is_found_and_needs_a_restart():
    finding = finding_of("pg-stat-statements", make_case())
    assert (finding.answer, finding.cost) == (Answer.FINDING, Cost.RESTART)
    assert [change.commands for change in finding.changes if change.commands] == [
        ("CREATE EXTENSION pg_stat_statements;",)
    ]


def test_loaded_library_is_in_order():
    server = make_server(changed={"shared_preload_libraries": "auto_explain, pg_stat_statements"})
    assert finding_of("pg-stat-statements", make_case(server=server)).answer is Answer.OK
