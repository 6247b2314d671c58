"""The rule on pg_stat_statements: the list of libraries keeps what it holds."""

from __future__ import annotations

import pytest

from advisor_case import finding_of, make_case, make_server
from pgdyno.model.facts import Unknown
from pgdyno.model.finding import Answer, ChangeKind, Cost


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


@pytest.mark.requirement("R-PG-36")
@pytest.mark.parametrize("loaded", ["", "auto_explain"])
def test_a_library_that_is_not_installed_is_never_put_into_the_configuration(loaded):
    server = make_server(changed={"shared_preload_libraries": loaded}, available_extensions=frozenset({"plpgsql"}))
    finding = finding_of("pg-stat-statements", make_case(server=server))
    assert (finding.answer, finding.changes) == (Answer.FINDING, ())
    assert "install the contrib package first" in finding.evidence[-1]


@pytest.mark.requirement("R-ADV-06")
@pytest.mark.parametrize(
    ("extensions", "undo"),
    [({"plpgsql": "1.0"}, ("DROP EXTENSION IF EXISTS pg_stat_statements;",)), (Unknown("not captured"), ())],
)
def test_the_undo_drops_no_extension_that_may_have_been_there(extensions, undo):
    finding = finding_of("pg-stat-statements", make_case(server=make_server(extensions=extensions)))
    assert [change.undo for change in finding.changes if change.kind is ChangeKind.DDL] == [undo]
