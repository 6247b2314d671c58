"""Servers whose settings somebody made by ALTER SYSTEM, for roles and databases, or on the command line."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from fix_postgres import BUILDS, ONE_BUILD, find_build
from pgdyno.control import PgCtl
from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.knobs.budget import TrialBudget
from pgdyno.knobs.catalogue import load_catalogue
from pgdyno.knobs.policy import check_settings
from pgdyno.knobs.space import build_space
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Facts
from pgdyno.preflight.examine import examine
from pgdyno.preflight.result import State
from pgdyno.routes import mixed_route
from pgdyno.routes.auto_conf import Line
from pgdyno.routes.sql_route import alter_system
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server import snapshot
from pgdyno.server.postgres import Postgres
from pgdyno.server.snapshot import SettingState
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.undo import activation, rollback
from pgdyno.undo.apply import Session
from pgdyno.undo.bundle import UndoBundle
from pgdyno.undo.undo_plan import undo_plan

pytestmark = pytest.mark.pg

SEVEN = {
    "shared_buffers": "48MB", "work_mem": "5MB", "max_wal_size": "2GB", "effective_cache_size": "3GB",
    "random_page_cost": "3", "checkpoint_timeout": "7min", "wal_buffers": "2MB",
}  # fmt: skip
TRIAL = Configuration.of({"work_mem": "8MB", "random_page_cost": "1.1", "maintenance_work_mem": "70MB"})
RESTARTED = Configuration.of({"shared_buffers": "64MB", "wal_buffers": "-1", "work_mem": "9MB"})
BUDGET = TrialBudget(warmup_s=600, measure_s=3600, read_only=False, restores=False, connections=4)


def settings_of(target: Target) -> dict[str, SettingState]:
    with target.postgres.connect() as connection:
        return snapshot.read_settings(connection, label="test")


def alter(target: Target, **settings: str | None) -> None:
    for name, value in settings.items():
        target.postgres.execute(alter_system(Line(name, value)))


def searched(facts: Facts) -> tuple[set[str], dict[str, str]]:
    """Return the knobs that a search would move, and why not the others."""
    space = build_space(load_catalogue(), facts, budget=BUDGET)
    return set(space.names()), {out.name: out.reason for out in space.excluded}


every_build = pytest.mark.parametrize("server", BUILDS, indirect=True)
"""For what the server itself does; how a session is undone depends on no version."""


@pytest.fixture(scope="module", params=ONE_BUILD)
def server(request: pytest.FixtureRequest, server_home: Path) -> Iterator[Sandbox]:
    """A server with the seven settings in postgresql.auto.conf, restarted since."""
    name = request.param
    bin_dir = None if name == "embedded-18" else find_build(name)
    sandbox = Sandbox.open_or_create(f"altered-{name}", bin_dir=bin_dir, root=server_home)
    sandbox.start()
    alter(sandbox.target(), **SEVEN)
    sandbox.target().control.restart()  # type: ignore[union-attr]  # a sandbox has one
    yield sandbox
    sandbox.destroy()


@pytest.fixture
def whole(server: Sandbox) -> Iterator[bytes]:
    """The bytes of postgresql.auto.conf, as which it must end."""
    path = server.data_directory / "postgresql.auto.conf"
    before, settings = path.read_bytes(), settings_of(server.target())
    yield before
    assert path.read_bytes() == before
    assert not (server.data_directory / "pgdyno.conf").exists()
    assert snapshot.differences(settings, settings_of(server.target())) == ()


def auto_conf(server: Sandbox) -> bytes:
    return (server.data_directory / "postgresql.auto.conf").read_bytes()


@every_build
def test_knobs_of_auto_conf_are_searched_from_where_they_stand(server: Sandbox) -> None:
    facts = read_facts(server.target())
    assert facts.by_alter_system == SEVEN.keys()
    assert not facts.obstacles
    space = build_space(load_catalogue(), facts, budget=BUDGET)
    assert set(space.names()) >= SEVEN.keys() - {"wal_buffers"}
    assert (space["work_mem"].default, space["random_page_cost"].default) == (5120, 3.0)


@every_build
def test_lines_behind_our_file_are_no_obstacle_to_what_alter_system_has_set(server: Sandbox) -> None:
    """All of it was refused, as lines behind our file that somebody should remove."""
    path = server.data_directory / "postgresql.conf"
    before = path.read_bytes()
    path.write_bytes(before + b"random_page_cost = 2\njit = off\n")
    facts = read_facts(server.target())
    path.write_bytes(before)
    assert facts.by_alter_system == SEVEN.keys()
    assert list(facts.obstacles) == ["jit"]
    assert "postgresql.conf line" in facts.obstacles["jit"].reason


@every_build
def test_they_come_into_force_and_the_file_ends_byte_by_byte(server: Sandbox, whole: bytes, tmp_path: Path) -> None:
    target = server.target()
    with Session.begin(target, study="test", undo_root=tmp_path / "undo") as session:
        for trial in (TRIAL, RESTARTED, BASELINE, Configuration.of({"jit": "off"}), RESTARTED, TRIAL):
            session.apply(trial)
            now = settings_of(target)
            assert now["work_mem"].setting == {"8MB": "8192", "9MB": "9216"}.get(trial.get("work_mem", ""), "5120")
            dropin = server.data_directory / "pgdyno.conf"
            lines = dropin.read_text().splitlines() if dropin.exists() else []
            assert not [line for line in lines if line.split(" = ")[0] in SEVEN], "it would not win from our file"
        assert auto_conf(server) != whole
    assert not rollback.list_bundles(tmp_path / "undo")[0].damage


@every_build
def test_a_rejected_value_leaves_the_configuration_before(server: Sandbox, whole: bytes, tmp_path: Path) -> None:
    target = server.target()
    with Session.begin(target, study="test", undo_root=tmp_path / "undo") as session:
        session.apply(TRIAL)
        for bad in ({"work_mem": "1kB"}, {"jit": "off", "shared_buffers": "much"}):
            with pytest.raises(Exception, match="rejected") as caught:
                session.apply(Configuration.of(bad))
            assert caught.type.__name__ == "ApplyError"
            assert settings_of(target)["work_mem"].setting == "8192"
    assert auto_conf(server) == whole


class Killed:
    """A session of this server that was killed while a trial was in force."""

    def __init__(self, server: Sandbox, undo_root: Path, trial: Configuration) -> None:
        self.session = Session.begin(server.target(), study="killed", undo_root=undo_root)
        self.session.apply(trial)
        self.bundle = UndoBundle.open(self.session.bundle.directory)

    def roll_back(self, **given: object) -> rollback.Restored:
        return rollback.rollback(self.bundle, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("trial", [TRIAL, RESTARTED], ids=["reloaded", "restarted"])
@pytest.mark.parametrize("state", ["up", "crashed", "stopped by a person", "half staged"])
def test_a_killed_session_is_undone_with_the_server(
    server: Sandbox, whole: bytes, tmp_path: Path, trial: Configuration, state: str
) -> None:
    target = server.target()
    assert target.control is not None
    killed = Killed(server, tmp_path / "undo", trial)
    if state == "crashed":
        target.control.stop("immediate")
    elif state == "stopped by a person":
        target.control.stop()
    elif state == "half staged":
        alter(target, work_mem=SEVEN["work_mem"])
    restored = killed.roll_back()
    assert restored.is_whole
    assert restored.left_down is (state == "stopped by a person")
    target.control.start()


def run_by_hand(bundle: UndoBundle) -> None:
    """Run the commands of UNDO.md that put files back, as they are written."""
    text = (bundle.directory / "UNDO.md").read_text()
    block = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[0]
    done = subprocess.run(["sh", "-eu", "-c", block], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("state", ["up", "crashed"])
def test_undone_by_hand_with_nothing_but_a_shell(server: Sandbox, whole: bytes, tmp_path: Path, state: str) -> None:
    target = server.target()
    killed = Killed(server, tmp_path / "undo", RESTARTED)
    if state == "crashed":
        assert target.control is not None
        target.control.stop("immediate")
    run_by_hand(killed.bundle)
    assert sorted(auto_conf(server).splitlines()) == sorted(whole.splitlines())
    assert killed.roll_back().is_whole


def test_by_hand_what_a_person_set_stays(server: Sandbox, whole: bytes, tmp_path: Path) -> None:
    target = server.target()
    killed = Killed(server, tmp_path / "undo", TRIAL)
    alter(target, work_mem="6MB")
    run_by_hand(killed.bundle)
    assert b"work_mem = '6MB'" in auto_conf(server)
    assert b"random_page_cost = '3'" in auto_conf(server)
    alter(target, work_mem=SEVEN["work_mem"])
    assert killed.roll_back().is_whole


def test_undone_without_a_login_while_the_server_runs(server: Sandbox, whole: bytes, tmp_path: Path) -> None:
    target = server.target()
    killed = Killed(server, tmp_path / "undo", TRIAL)
    nobody = Postgres(make_conninfo(target.postgres.conninfo, user="nobody_like_this"))
    route = mixed_route.from_record(killed.bundle.manifest.route, killed.bundle, nobody)
    assert str(server.data_directory / "postgresql.auto.conf") in route.put_back()
    assert route.put_back() == []
    assert route.leftovers() == []
    assert auto_conf(server) == whole
    assert killed.roll_back().is_whole


@every_build
def test_what_a_person_sets_meanwhile_survives(server: Sandbox, tmp_path: Path) -> None:
    target, before = server.target(), auto_conf(server)
    session = Session.begin(target, study="test", undo_root=tmp_path / "undo")
    try:
        session.apply(TRIAL)
        alter(target, log_min_messages="error", work_mem="6MB")
        activation.reload(target.postgres, target.control)
        with pytest.raises(EnvironmentUnsuitable, match="work_mem was changed by ALTER SYSTEM during the session"):
            session.apply(RESTARTED)
        plan = undo_plan(session.bundle)
        assert {
            "  +random_page_cost = '3'",
            "  note: work_mem was changed by somebody else since; that value stays",
        } < {*plan}
        assert not [line for line in plan if line.startswith(("  +work_mem", "  -work_mem", "  -log_min_messages"))]
        restored = session.rollback()
        after = auto_conf(server)
        assert b"work_mem = '6MB'" in after
        assert b"log_min_messages = 'error'" in after
        assert b"random_page_cost = '3'" in after
        assert [one.name for one in restored.settings_differences if one.name != "log_min_messages"] == []
        kept = [path.read_bytes() for path in session.bundle.directory.glob("found-*.conf")]
        assert kept == [b"work_mem = '6MB'\n"]
    finally:
        alter(target, log_min_messages=None, work_mem="5MB")
        alter(target, **{name: value for name, value in SEVEN.items() if name not in ("shared_buffers", "work_mem")})
        activation.reload(target.postgres, target.control)
        assert auto_conf(server) == before


@every_build
def test_preflight_and_apply_agree_with_it(server: Sandbox, whole: bytes) -> None:
    target = server.target()
    files = examine(target, TRIAL)[0]
    assert files.state is State.OK
    assert "ALTER SYSTEM sets random_page_cost, work_mem" in files.sentence
    assert check_settings(dict(TRIAL), read_facts(target)) == TRIAL


@pytest.fixture
def tuner(server: Sandbox) -> Iterator[Target]:
    """The server as a role sees it that may all but ALTER SYSTEM."""
    target, admin = server.target(), server.target().postgres
    admin.execute("CREATE ROLE tuner LOGIN")
    admin.execute("GRANT pg_monitor TO tuner")
    admin.execute("GRANT SELECT ON pg_file_settings TO tuner")
    admin.execute("GRANT EXECUTE ON FUNCTION pg_show_all_file_settings() TO tuner")
    admin.execute("GRANT EXECUTE ON FUNCTION pg_reload_conf() TO tuner")
    yield replace(target, postgres=Postgres(make_conninfo(admin.conninfo, user="tuner")))
    admin.execute("DROP OWNED BY tuner")
    admin.execute("DROP ROLE tuner")


@every_build
def test_a_role_that_may_not_is_told_before_and_tunes_the_rest(
    server: Sandbox, whole: bytes, tuner: Target, tmp_path: Path
) -> None:
    facts = read_facts(tuner)
    assert facts.obstacles.keys() == SEVEN.keys()
    inside, out = searched(facts)
    assert not inside & SEVEN.keys()
    assert "postgresql.auto.conf" in out["work_mem"]
    old = server.record.version_num < 150_000
    assert ("superuser" if old else "may not change it by ALTER SYSTEM") in out["work_mem"]
    remedy = facts.obstacles["work_mem"].remedy
    assert old or remedy.startswith("GRANT ALTER SYSTEM ON PARAMETER work_mem TO ")
    with pytest.raises(EnvironmentUnsuitable, match=r"work_mem cannot be set here: it is set in postgresql\.auto"):
        check_settings({"work_mem": "8MB"}, facts)
    files = examine(tuner, Configuration.of({"work_mem": "8MB"}))[0]
    assert (files.state, "work_mem is set in postgresql.auto.conf" in files.sentence) == (State.REFUSED, True)
    with Session.begin(tuner, study="test", undo_root=tmp_path / "undo") as session:
        session.apply(Configuration.of({"maintenance_work_mem": "70MB"}))
        assert auto_conf(server) == whole


def test_a_right_to_one_parameter_is_enough_for_it(
    server: Sandbox, whole: bytes, tuner: Target, tmp_path: Path
) -> None:
    if server.record.version_num < 150_000:
        pytest.skip("before 15 the right cannot be granted")
    server.target().postgres.execute("GRANT ALTER SYSTEM ON PARAMETER work_mem TO tuner")
    facts = read_facts(tuner)
    assert facts.by_alter_system == {"work_mem"}
    assert facts.obstacles.keys() == SEVEN.keys() - {"work_mem"}
    with Session.begin(tuner, study="test", undo_root=tmp_path / "undo") as session:
        session.apply(Configuration.of({"work_mem": "8MB", "jit": "off"}))
        assert b"work_mem = '8MB'" in auto_conf(server)


def test_a_file_that_was_edited_by_hand_is_left_alone(server: Sandbox, whole: bytes) -> None:
    path = server.data_directory / "postgresql.auto.conf"
    path.write_bytes(whole + b"# why: see the ticket\n" + b"jit = 'on'\n")
    target = server.target()
    try:
        activation.reload(target.postgres, target.control)
        facts = read_facts(target)
        assert not facts.by_alter_system
        assert "edited by hand" in facts.obstacles["work_mem"].reason
    finally:
        path.write_bytes(whole)
        activation.reload(target.postgres, target.control)


@pytest.mark.parametrize(
    "subject", ["ROLE ALL", "ROLE {role}", "DATABASE {database}", "ROLE {role} IN DATABASE {database}"]
)
def test_settings_of_role_and_database_are_told_before(sandbox18: Sandbox, subject: str) -> None:
    target = sandbox18.target()
    (who,) = target.postgres.fetch("SELECT current_user::text AS role, current_database()::text AS database")
    names = {key: sql.Identifier(str(value)) for key, value in who.items()}
    target.postgres.execute(sql.SQL("ALTER " + subject + " SET work_mem = '8MB'").format(**names))
    try:
        facts = read_facts(target)
        inside, out = searched(facts)
        assert "work_mem" not in inside
        assert out["work_mem"].startswith("is set by ALTER ")
        with pytest.raises(EnvironmentUnsuitable, match="work_mem cannot be set here: it is set by ALTER") as caught:
            check_settings({"work_mem": "8MB"}, facts)
        assert "RESET work_mem" in (caught.value.hint or "")
        results = examine(target, Configuration.of({"work_mem": "8MB"}))
        assert "roles and databases" in [one.check for one in results if one.state is State.REFUSED]
    finally:
        target.postgres.execute(sql.SQL("ALTER " + subject + " RESET work_mem").format(**names))


def test_settings_of_others_are_no_obstacle(sandbox18: Sandbox) -> None:
    postgres = sandbox18.target().postgres
    postgres.execute("CREATE ROLE somebody_else")
    try:
        postgres.execute("ALTER ROLE somebody_else SET work_mem = '6MB'")
        assert "work_mem" not in read_facts(sandbox18.target()).obstacles
    finally:
        postgres.execute("DROP ROLE somebody_else")


def test_the_command_line_and_later_files_are_told_before(make_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = make_sandbox("outranked")
    (sandbox.data_directory / "late.conf").write_text("random_page_cost = 2\n")
    with (sandbox.data_directory / "postgresql.conf").open("a") as main:
        main.write("include 'late.conf'\njit = off\n")
    sandbox.start()
    control = sandbox.target().control
    assert isinstance(control, PgCtl)
    control = replace(control, options=("-c", "work_mem=6MB"))
    control.restart()
    target = replace(sandbox.target(), control=control)
    facts = read_facts(target)
    reasons = {name: obstacle.reason for name, obstacle in facts.obstacles.items()}
    assert "by the argument -c work_mem=6MB of the server" in reasons["work_mem"]
    assert "late.conf line 1" in reasons["random_page_cost"]
    assert "postgresql.conf line" in reasons["jit"]
    assert not searched(facts)[0] & {"work_mem", "random_page_cost", "jit"}
    for name in ("work_mem", "random_page_cost", "jit"):
        value = {"jit": "on"}.get(name, "7MB" if name == "work_mem" else "3")
        assert examine(target, Configuration.of({name: value}))[0].state is State.REFUSED
        with pytest.raises(EnvironmentUnsuitable, match=f"{name} cannot be set here"):
            check_settings({name: value}, facts)


def test_what_the_bundle_keeps_holds_no_secret(server: Sandbox, whole: bytes, tmp_path: Path) -> None:
    target = server.target()
    alter(target, primary_conninfo="host=h password=hush")
    activation.reload(target.postgres, target.control)
    before = auto_conf(server)
    try:
        with Session.begin(target, study="test", undo_root=tmp_path / "undo") as session:
            assert "hush" not in json.dumps(session.bundle.manifest.route)
            session.apply(TRIAL)
        assert auto_conf(server) == before
    finally:
        alter(target, primary_conninfo=None)
        activation.reload(target.postgres, target.control)
