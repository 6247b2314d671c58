"""What keeps a server from being watched, with the command that changes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from facts_from_params import make_facts
from pgdyno.errors import EnvironmentUnsuitable, ExitCode
from pgdyno.model.facts import SettingFact
from pgdyno.model.guard import Indicator
from pgdyno.model.live import Colour
from pgdyno.server.role_settings import Override
from pgdyno.studies.live.checking import (
    LiveAccess,
    refusals,
    require_own_role,
    require_watchable,
    surroundings,
    watch_notes,
)

GOOD = LiveAccess("app", "watcher", True, 300)
USUAL = {"pg_stat_statements.track": "top", "pg_stat_statements.max": "5000", "compute_query_id": "auto"}


def facts(major=18, **settings):
    found = make_facts(major)
    rows = {
        name: SettingFact(name, value, None, "enum", "superuser", "default")
        for name, value in {**USUAL, **settings}.items()
        if value is not None
    }
    return replace(found, settings={**found.settings, **rows})


def test_a_server_that_counts_is_watched():
    assert refusals(facts(), GOOD) == ()
    require_watchable("db", ())


@pytest.mark.parametrize(
    ("major", "settings", "access", "reason", "command"),
    [
        (18, {"pg_stat_statements.track": None}, GOOD, "not preloaded", "shared_preload_libraries"),
        (18, {}, replace(GOOD, database=None), "has the extension", "CREATE EXTENSION pg_stat_statements"),
        (18, {}, replace(GOOD, sees_all=False), '"watcher" does not see', 'GRANT pg_monitor TO "watcher"'),
        (18, {}, replace(GOOD, sees_all=False, role='a"b'), "does not see", 'TO "a""b"'),
        (18, {"pg_stat_statements.track": "none"}, GOOD, "is none", "track = 'top'"),
        (13, {"pg_stat_statements.track": "all"}, GOOD, "inside functions", "track = 'top'"),
        (15, {"compute_query_id": "off"}, GOOD, "compute_query_id is off", "compute_query_id = 'auto'"),
        (18, {"pg_stat_statements.max": "500"}, GOOD, "given up", "pg_stat_statements.max = 1200"),
    ],
)
def test_what_is_missing_is_told_with_what_to_run(major, settings, access, reason, command):
    (found,) = refusals(facts(major, **settings), access)
    assert reason in found.reason
    assert command in found.remedy


def test_nested_statements_are_no_obstacle_where_they_can_be_told():
    assert refusals(facts(14, **{"pg_stat_statements.track": "all"}), GOOD) == ()


def test_all_that_is_missing_is_told_at_once():
    found = refusals(facts(compute_query_id="off"), replace(GOOD, sees_all=False))
    with pytest.raises(EnvironmentUnsuitable) as caught:
        require_watchable("db", found)
    assert caught.value.exit_code is ExitCode.UNSUITABLE
    assert "does not see" in caught.value.message
    assert "compute_query_id" in (caught.value.detail or "")
    assert "GRANT pg_monitor" in (caught.value.hint or "")
    assert "auto" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("settings", "access", "hint"),
    [
        (
            {"compute_query_id": "off", "pg_stat_statements.track": "none"},
            replace(GOOD, sees_all=False),
            "GRANT pg_monitor TO \"watcher\"; ALTER SYSTEM SET pg_stat_statements.track = 'top'; "
            "ALTER SYSTEM SET compute_query_id = 'auto'; SELECT pg_reload_conf(). "
            "pgdyno privileges --for live lists all rights.",
        ),
        (
            {"pg_stat_statements.track": "none", "pg_stat_statements.max": "500"},
            GOOD,
            "ALTER SYSTEM SET pg_stat_statements.track = 'top'; ALTER SYSTEM SET pg_stat_statements.max = 1200, "
            "then restart the server.",
        ),
        (
            {"pg_stat_statements.track": None, "compute_query_id": "off"},
            GOOD,
            "add pg_stat_statements to shared_preload_libraries; ALTER SYSTEM SET compute_query_id = 'auto', "
            "then restart the server, then CREATE EXTENSION pg_stat_statements.",
        ),
    ],
)
def test_the_hint_has_one_reload_or_restart_in_its_place(settings, access, hint):
    """A setting came after the restart and the extension, and a reload after each setting."""
    with pytest.raises(EnvironmentUnsuitable) as caught:
        require_watchable("db", refusals(facts(**settings), access))
    assert caught.value.hint == f"Run as a superuser: {hint}"


def test_a_standby_is_not_watched():
    standby = facts()
    standby = replace(standby, server=replace(standby.server, in_recovery=True))
    found = refusals(standby, replace(GOOD, sees_all=False))
    assert "standby" in found[0].reason
    with pytest.raises(EnvironmentUnsuitable) as caught:
        require_watchable("db", found)
    assert caught.value.hint == "Name its primary in --target."


def test_what_the_counters_leave_out_is_told():
    assert len(watch_notes(facts())) == 1
    assert watch_notes(facts(**{"pg_stat_statements.track_planning": "on"})) == ()
    assert "PostgreSQL 13" in watch_notes(facts(13))[1]
    assert watch_notes(facts(), is_restarted=True) == (), "no plan outlives a restart"


def test_what_a_study_would_meet_is_told_without_the_values_of_others():
    found = facts()
    found = replace(found, server=replace(found.server, standbys=2))
    overrides = [
        Override("app", None, "work_mem", "64MB"),
        Override("app", None, "jit", "off"),
        Override(None, "shop", "work_mem", "1MB"),
        Override("app", None, "app.secret", "hunter2"),
    ]
    indicators = [Indicator("disk", Colour.RED, "1 MB free"), Indicator("memory", Colour.GREEN, "fine")]
    outranks, standbys, red = surroundings(found, overrides, indicators)
    assert "ALTER ROLE app sets jit, work_mem" in outranks.replace('"', "")
    assert "ALTER DATABASE shop sets work_mem" in outranks.replace('"', "")
    assert "64MB" not in outranks
    assert "secret" not in outranks
    assert "2" in standbys
    assert "disk" in red
    assert "memory" not in red
    assert surroundings(facts(), [], []) == ()


@pytest.mark.parametrize(
    ("sessions", "own", "own_ms", "is_refused"),
    [(10, 9, 900.0, True), (10, 1, 900.0, False), (10, 9, 10.0, False), (0, 0, 900.0, False)],
)
def test_the_load_s_own_role_is_refused_before_a_minute_is_watched(sessions, own, own_ms, is_refused):
    if not is_refused:
        require_own_role("app", sessions, own, own_ms, 100.0)
        return
    with pytest.raises(EnvironmentUnsuitable, match='role "app"') as raised:
        require_own_role("app", sessions, own, own_ms, 100.0)
    assert "CREATE ROLE" in str(raised.value.hint)
