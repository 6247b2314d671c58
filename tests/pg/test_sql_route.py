"""ALTER SYSTEM as the only way in: staged, refused, interrupted, and put back line by line, on every build."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from psycopg.conninfo import make_conninfo

from pgdyno.control import PgCtl
from pgdyno.errors import ApplyError, EnvironmentUnsuitable, PolicyError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Unknown
from pgdyno.model.guard import Absent
from pgdyno.probes.guards.reader import BY_SQL_ALONE, GuardReader
from pgdyno.routes.auto_conf import Line
from pgdyno.routes.sql_route import SqlRoute, alter_system
from pgdyno.routes.written import Written
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from pgdyno.server.snapshot import SettingState, read_settings
from pgdyno.targets.connect_routes import open_sql_only
from pgdyno.targets.inspect import read_facts
from pgdyno.undo import activation

pytestmark = pytest.mark.pg

FOUND = {"random_page_cost": "3", "work_mem": "5MB", "jit": "off", "app.secret": "hush"}
ASKED = Configuration.of({"work_mem": "7MB", "maintenance_work_mem": "70MB", "shared_buffers": "64MB"})


@pytest.fixture
def server(any_postgres: Sandbox) -> Iterator[Sandbox]:
    """A server whose postgresql.auto.conf holds FOUND, and that ends as it was. Only 17 and later take app.secret."""
    postgres = any_postgres.target().postgres
    path = any_postgres.data_directory / "postgresql.auto.conf"
    before = path.read_bytes()
    for name, value in FOUND.items():
        if "." not in name or any_postgres.record.version_num >= 170_000:
            postgres.execute(alter_system(Line(name, value)))
    activation.reload(postgres, None)
    yield any_postgres
    postgres.execute("ALTER SYSTEM RESET ALL")
    activation.reload(postgres, None)
    assert path.read_bytes() == before


def settings(server: Sandbox) -> dict[str, SettingState]:
    postgres = server.target().postgres
    with postgres.connect() as connection:
        return read_settings(connection, label=postgres.label)


def auto_conf(server: Sandbox) -> bytes:
    return (server.data_directory / "postgresql.auto.conf").read_bytes()


def test_staged_checked_in_force_and_put_back_byte_by_byte(server: Sandbox) -> None:
    before, found = auto_conf(server), settings(server)
    postgres = server.target().postgres
    route = SqlRoute.open(postgres)
    assert route.source == server.data_directory / "postgresql.auto.conf"
    route.stage(ASKED, session="s")
    route.check(ASKED)
    activation.reload(postgres, None)
    now = settings(server)
    assert (now["work_mem"].setting, now["work_mem"].sourcefile) == ("7168", str(route.source))
    assert now["shared_buffers"].pending_restart
    assert route.leftovers()
    again = SqlRoute.from_record(json.loads(json.dumps(route.record())), postgres=postgres)
    assert again == route
    assert again.put_back()
    assert again.put_back() == []
    assert again.leftovers() == []
    activation.reload(postgres, None)
    assert auto_conf(server) == before
    assert settings(server) == found


def test_the_empty_configuration_stages_the_original(server: Sandbox) -> None:
    before = auto_conf(server)
    route = SqlRoute.open(server.target().postgres)
    route.stage(ASKED, session="s")
    route.stage(Configuration.of({"jit": "on"}), session="s")
    values = {line.split(b" = ")[0]: line for line in auto_conf(server).splitlines()[2:]}
    assert b"maintenance_work_mem" not in values
    assert values[b"work_mem"] == b"work_mem = '5MB'"
    assert values[b"jit"] == b"jit = 'on'"
    route.stage(BASELINE, session="s")
    assert auto_conf(server) == before


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_stage_or_a_way_back_that_died_in_the_middle_is_put_right(server: Sandbox, steps: int) -> None:
    before = auto_conf(server)
    postgres = server.target().postgres
    route = SqlRoute.open(postgres)
    meant = {"jit": "on", "shared_buffers": "64MB", "random_page_cost": "2", "maintenance_work_mem": "64MB"}
    for name, value in list(meant.items())[:steps]:
        postgres.execute(alter_system(Line(name, value)))
    record = json.loads(json.dumps(route.record()))
    SqlRoute.from_record(record, postgres=postgres, written=Written((Configuration.of(meant),))).put_back()
    assert auto_conf(server) == before


def test_a_damaged_journal_leaves_the_policy_to_tell_what_is_ours(server: Sandbox) -> None:
    before = auto_conf(server)
    postgres = server.target().postgres
    route = SqlRoute.open(postgres)
    route.stage(ASKED, session="s")
    SqlRoute.from_record(route.record(), postgres=postgres, written=Written((), is_known=False)).put_back()
    assert auto_conf(server) == before


def test_what_somebody_else_sets_meanwhile_stays_and_is_not_overwritten(server: Sandbox) -> None:
    """A name that pgdyno may set, one that was there, and one that the session has set itself: all stay theirs."""
    postgres = server.target().postgres
    route = SqlRoute.open(postgres)
    route.stage(ASKED, session="s")
    for name, value in {"effective_cache_size": "3GB", "jit": "on", "maintenance_work_mem": "71MB"}.items():
        postgres.execute(alter_system(Line(name, value)))
    with pytest.raises(ApplyError, match="maintenance_work_mem was set by somebody else"):
        route.stage(Configuration.of({**ASKED, "maintenance_work_mem": "72MB"}), session="s")
    route.stage(Configuration.of({"work_mem": "8MB"}), session="s")
    written = Written((ASKED, Configuration.of({"work_mem": "8MB"})))
    for again in (SqlRoute.from_record(route.record(), postgres=postgres, written=written), route):
        again.put_back()
        assert again.leftovers() == []
        assert again.put_back() == []
        found = {line.split(b" = ")[0]: line for line in auto_conf(server).splitlines()[2:]}
        assert found[b"effective_cache_size"] == b"effective_cache_size = '3GB'"
        assert found[b"jit"] == b"jit = 'on'"
        assert found[b"maintenance_work_mem"] == b"maintenance_work_mem = '71MB'"
        assert found[b"work_mem"] == b"work_mem = '5MB'"
        assert b"shared_buffers" not in found


@pytest.mark.parametrize("bad", ["plenty", "1kB", "99999GB"])
def test_a_value_that_is_refused_leaves_what_was_staged_before(server: Sandbox, bad: str) -> None:
    route = SqlRoute.open(server.target().postgres)
    route.stage(ASKED, session="s")
    before = auto_conf(server)
    with pytest.raises(ApplyError, match=f"the server rejected work_mem = {bad}") as caught:
        route.stage(Configuration.of({"jit": "on", "work_mem": bad}), session="s")
    assert "work_mem" in (caught.value.detail or "")
    assert set(auto_conf(server).splitlines()) == set(before.splitlines())
    route.put_back()


def test_what_is_not_ours_is_neither_set_nor_taken_away(server: Sandbox) -> None:
    postgres, before = server.target().postgres, auto_conf(server)
    route = SqlRoute.open(postgres)
    assert "hush" not in json.dumps(route.record())
    for name in ("app.secret", "fsync"):
        with pytest.raises(PolicyError, match=name):
            route.stage(Configuration.of({name: "off"}), session="s")
    route.stage(ASKED, session="s")
    postgres.execute("ALTER SYSTEM SET log_min_messages = 'error'")  # somebody else's, meanwhile
    route.put_back()
    assert b"log_min_messages = 'error'" in auto_conf(server)
    assert (b"app.secret = 'hush'" in auto_conf(server)) == (b"app.secret" in before)
    assert route.leftovers() == []


def test_a_list_of_libraries_stays_a_list(server: Sandbox) -> None:
    postgres = server.target().postgres
    postgres.execute(alter_system(Line("shared_preload_libraries", "pg_stat_statements, auto_explain")))
    postgres.execute(alter_system(Line("search_path", '"$user", public')))
    before = auto_conf(server)
    assert b"shared_preload_libraries = 'pg_stat_statements, auto_explain'" in before
    route = SqlRoute.open(postgres)
    route.stage(Configuration.of({"random_page_cost": "1.1"}), session="s")
    route.put_back()
    assert auto_conf(server) == before


def test_a_file_that_was_edited_by_hand_is_refused(server: Sandbox) -> None:
    path = server.data_directory / "postgresql.auto.conf"
    before = path.read_bytes()
    path.write_bytes(before + b"# why: see the ticket\nwork_mem = '6MB'\n")
    try:
        with pytest.raises(EnvironmentUnsuitable, match="edited by hand") as caught:
            SqlRoute.open(server.target().postgres)
        assert "ALTER SYSTEM SET" in (caught.value.hint or "")
    finally:
        path.write_bytes(before)


def test_a_line_that_could_not_be_set_again_is_refused_before_17(server: Sandbox) -> None:
    path = server.data_directory / "postgresql.auto.conf"
    before = path.read_bytes()
    path.write_bytes(before + b"app.name = 'x'\n")
    postgres = server.target().postgres
    try:
        if server.record.version_num >= 170_000:
            SqlRoute.open(postgres)
        else:
            with pytest.raises(EnvironmentUnsuitable, match=r"sets app\.name, which the server does not know"):
                SqlRoute.open(postgres)
    finally:
        path.write_bytes(before)


def test_rights_are_named_with_the_grant(server: Sandbox) -> None:
    admin = server.target().postgres
    admin.execute('CREATE ROLE "Tuner" LOGIN')
    plain = Postgres(make_conninfo(admin.conninfo, user="Tuner"))
    grants = [
        ("pg_read_all_settings", 'GRANT pg_read_all_settings TO "Tuner"'),
        ("pg_reload_conf", 'GRANT EXECUTE ON FUNCTION pg_reload_conf() TO "Tuner"'),
    ]
    try:
        if server.record.version_num < 150_000:  # no grant helps, and none is asked for
            with pytest.raises(EnvironmentUnsuitable, match="needs a superuser"):
                SqlRoute.open(plain)
            return
        for words, grant in grants:
            with pytest.raises(EnvironmentUnsuitable) as caught:
                SqlRoute.open(plain)
            assert words in (caught.value.hint or "")
            admin.execute(grant)  # type: ignore[arg-type]  # the literal is above
        with pytest.raises(EnvironmentUnsuitable, match="pg_file_settings"):
            SqlRoute.open(plain)
        admin.execute('GRANT SELECT ON pg_file_settings TO "Tuner"')
        admin.execute('GRANT EXECUTE ON FUNCTION pg_show_all_file_settings() TO "Tuner"')
        before = auto_conf(server)
        if server.record.version_num >= 170_000:
            admin.execute("ALTER SYSTEM RESET app.secret")  # a right to a name nobody knows cannot be granted
            before = auto_conf(server)
        route = SqlRoute.open(plain)
        with pytest.raises(EnvironmentUnsuitable, match="may not change") as caught:
            route.stage(ASKED, session="s")
        assert auto_conf(server) == before
        grant = (caught.value.hint or "").rstrip(";")
        assert grant.startswith("GRANT ALTER SYSTEM ON PARAMETER ")
        admin.execute(grant)  # type: ignore[arg-type]  # the hint must be a statement that works
        route.stage(ASKED, session="s")
        route.put_back()
        assert auto_conf(server) == before
    finally:
        admin.execute('DROP OWNED BY "Tuner"')
        admin.execute('DROP ROLE "Tuner"')


def test_alter_system_that_is_switched_off_is_refused(make_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = make_sandbox("no-alter-system")
    sandbox.start()
    own = sandbox.target().control
    assert isinstance(own, PgCtl)
    postgres = sandbox.target().postgres
    (sandbox.data_directory / "pgdyno.conf").write_text("allow_alter_system = off\n")
    (sandbox.data_directory / "pgdyno.conf").chmod(0o644)
    activation.reload(postgres, own)
    with pytest.raises(EnvironmentUnsuitable, match="ALTER SYSTEM is switched off"):
        SqlRoute.open(postgres)


def test_a_target_of_sql_alone_claims_nothing_about_the_host(server: Sandbox) -> None:
    target = open_sql_only(server.target().postgres.conninfo)
    assert not target.local
    assert target.control is None
    assert "--sql-only" in (target.no_control or "")
    facts = read_facts(target)
    assert isinstance(facts.host.ram_bytes, Unknown)
    assert "--sql-only" in facts.host.ram_bytes.reason
    assert isinstance(target.cpu.seconds(), Unknown)
    reader = GuardReader(target)
    tick = reader.read(1.0)
    reader.close()
    assert (tick.memory, tick.volumes) == (Absent(BY_SQL_ALONE), Absent(BY_SQL_ALONE))
    with_command = open_sql_only(server.target().postgres.conninfo, restart_command=["ssh", "db", "restart"])
    assert with_command.control is not None
