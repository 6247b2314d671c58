"""Which rights a verb needs, and the statements that grant them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgdyno.errors import UsageError
from pgdyno.server.postgres import Postgres
from pgdyno.server.privileges import VERBS, RoleState, missing, privileges, read_role, restarting, script

NOBODY = RoleState(
    role="bench",
    database="app",
    version=180_004,
    superuser=False,
    createdb=False,
    monitor=False,
    file_view=False,
    file_function=False,
    reload=False,
    checkpoint=False,
    observer="postgres",
    connect=True,
    statements=False,
)


def lacks(verb: str) -> set[str]:
    return {privilege.name for privilege in missing(privileges(verb, NOBODY))}


def test_each_verb_needs_what_the_one_before_needs() -> None:
    needs = [lacks(verb) for verb in VERBS]
    assert needs[0] == {"pg_monitor"}
    assert needs[1] == {"pg_monitor", "CREATEDB"}
    assert needs[0] < needs[1] < needs[2]
    assert needs[2] == needs[3]
    with pytest.raises(UsageError, match='verb "report"'):
        privileges("report", NOBODY)


def test_verbs_that_need_a_part_are_asked_for_no_more() -> None:
    assert lacks("advise") == lacks("guards") == lacks("inspect")
    assert lacks("apply") == lacks("rollback") == lacks("tune") - {"CREATEDB"}
    assert lacks("preflight") == lacks("apply") - {"EXECUTE on pg_reload_conf()"}
    assert lacks("noise") == lacks("bench")


def test_a_verb_that_counts_statements_takes_the_extension_of_the_target_s_database_too() -> None:
    here = replace(NOBODY, statements_here=True)
    for verb in ("live", "watch"):
        assert "pg_stat_statements" in lacks(verb)
        assert "pg_stat_statements" not in {one.name for one in missing(privileges(verb, here))}
    (sampled,) = [one for one in privileges("bench", here) if one.name == "pg_stat_statements"]
    assert not sampled.held, "a sampler looks into the database that the load does not touch"


def test_a_database_is_entered_once_for_all_that_is_granted_in_it() -> None:
    entered = [line for line in script(privileges("tune", NOBODY)).splitlines() if line.startswith("\\connect")]
    assert len(entered) == len(set(entered))


def test_a_superuser_and_a_role_with_all_lack_nothing() -> None:
    assert missing(privileges("tune", replace(NOBODY, superuser=True))) == []
    able = replace(NOBODY, monitor=True, createdb=True, file_view=True, file_function=True, reload=True)
    assert missing(privileges("tune", able)) == []
    assert script(privileges("tune", replace(able, checkpoint=True, statements=True))) == ""


def test_by_sql_alone_each_parameter_needs_a_right_of_its_own() -> None:
    lacking = replace(NOBODY, by_sql=True, ungranted=("work_mem", "random_page_cost"))
    (one,) = [each for each in privileges("live", lacking) if each.name.startswith("ALTER SYSTEM")]
    assert (one.held, one.required) == (False, False), "what it lacks is left out, or refused by name"
    assert one.statement == 'GRANT ALTER SYSTEM ON PARAMETER "work_mem", "random_page_cost" TO "bench"'
    granted = privileges("live", replace(lacking, ungranted=()))
    assert [each.held for each in granted if each.name == one.name] == [True]
    for verb in ("live", "watch", "capture", "bench"):
        names = [each.name for each in privileges(verb, lacking)]
        assert (one.name in names) is (verb == "live")
    assert one.name not in [each.name for each in privileges("live", NOBODY)], "files need none"


def test_before_15_nobody_but_a_superuser_sets_by_sql_alone() -> None:
    old = replace(NOBODY, version=140_012, by_sql=True)
    assert "superuser" in {each.name for each in missing(privileges("live", old))}
    assert missing(privileges("live", replace(old, superuser=True, connect=True, statements=True))) == []


def test_before_15_nobody_can_be_given_a_checkpoint() -> None:
    old = privileges("bench", replace(NOBODY, version=140_012))
    assert [privilege.statement for privilege in old if privilege.name == "CHECKPOINT"] == [None]
    assert "pg_checkpoint" not in script(old)
    assert "GRANT pg_checkpoint TO" in script(privileges("bench", NOBODY))


def test_a_database_that_may_not_be_entered() -> None:
    shut = privileges("inspect", replace(NOBODY, connect=False, observer="Our DB"))
    assert 'GRANT CONNECT ON DATABASE "Our DB" TO "bench";' in script(shut)


def test_rights_on_catalogs_are_granted_where_they_hold() -> None:
    lines = script(privileges("tune", NOBODY)).splitlines()
    grant = next(line for line in lines if "pg_file_settings" in line)
    before = [line for line in lines[: lines.index(grant)] if line.startswith("\\connect")]
    assert before[-1] == '\\connect "app"'


@given(st.text(st.characters(blacklist_characters="\x00", blacklist_categories=["Cs"]), min_size=1))
def test_a_name_cannot_break_out_of_its_statement(role: str) -> None:
    quoted = '"' + role.replace('"', '""') + '"'
    found = [p for p in privileges("tune", replace(NOBODY, role=role)) if p.name != "pg_stat_statements"]
    assert all(p.statement is not None and quoted in p.statement for p in found)


def test_what_restarts_need_is_told_beside_the_rights_and_never_required() -> None:
    (lacking,) = restarting("live", is_possible=False, seen="only SQL is used (--sql-only)")
    assert "--allow-restart" in lacking.why
    assert "--restart-command" in lacking.why
    assert lacking.why.endswith("only SQL is used (--sql-only)")
    assert (missing([lacking]), script([lacking])) == ([], "")
    (able,) = restarting("tune", is_possible=True, seen="it is ours")
    assert able.held
    assert "it is ours" not in able.why
    assert "--allow-restart" not in able.why
    assert restarting("watch", is_possible=False) == restarting("capture", is_possible=False) == []


class _Answers:
    """A server that counts the sessions it gives: a query is answered by a word of its text."""

    label = "a server"

    def __init__(self, observer: str | None) -> None:
        self.sessions: list[str | None] = []
        state = {**asdict(NOBODY), "observer": observer}
        given = ("connect", "statements", "statements_here", "by_sql", "ungranted")
        state = {name: value for name, value in state.items() if name not in given}
        self._rows = {"pg_roles": [state], "has_database_privilege": [{"connect": True}], "pg_extension": [{"one": 1}],
                      "has_parameter_privilege": [{"name": "work_mem"}]}  # fmt: skip

    def execute(self, query: str, params: object = None) -> _Answers:
        self._last = next(rows for word, rows in self._rows.items() if word in query)
        return self

    def fetchall(self) -> list[dict[str, object]]:
        return self._last

    @contextmanager
    def connect(self, dbname: str | None = None) -> Iterator[_Answers]:
        self.sessions.append(dbname)
        yield self

    def fetch(self, query: str, params: object = None, dbname: str | None = None) -> list[dict[str, object]]:
        with self.connect(dbname) as session:
            return session.execute(query, params).fetchall()


@pytest.mark.parametrize(
    ("observer", "sessions", "connect", "counts"),
    [
        ("postgres", [None, "postgres"], True, True),
        ("app", [None], True, True),  # the database of the session itself
        (None, [None], False, False),
    ],
)
def test_a_role_is_read_in_one_session_and_one_of_the_observer_s_database(
    observer: str | None, sessions: list[str | None], connect: bool, counts: bool
) -> None:
    server = _Answers(observer)
    state = read_role(cast(Postgres, server), ["work_mem"])
    assert server.sessions == sessions
    assert (state.connect, state.statements, state.statements_here) == (connect, counts, True)
    assert (state.observer, state.by_sql, state.ungranted) == (observer or "postgres", True, ("work_mem",))
