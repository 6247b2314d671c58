"""Whole sessions over SQL alone and over Patroni: applied, proven by new sessions, refused, and put back."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fix_patroni import PatroniCluster
from pgdyno.control import PgCtl
from pgdyno.errors import ApplyError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.patroni_api import PatroniApi
from pgdyno.targets.connect_routes import open_patroni, open_sql_only
from pgdyno.undo.apply import Session

pytestmark = pytest.mark.pg
RELOADED = Configuration.of({"work_mem": "7MB", "random_page_cost": "1.5"})


def test_a_session_by_sql_alone(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    sandbox = make_sandbox("sql-only")
    sandbox.start()
    sandbox.target().postgres.execute("ALTER SYSTEM SET work_mem = '6MB'")
    sandbox.target().postgres.execute("SELECT pg_reload_conf()")
    path = sandbox.data_directory / "postgresql.auto.conf"
    before = path.read_bytes()
    target = open_sql_only(sandbox.target().postgres.conninfo)
    with Session.begin(target, study="s", undo_root=tmp_path) as session:
        applied = session.apply(RELOADED)
        assert applied.values == {"work_mem": "7168", "random_page_cost": "1.5"}
        assert not applied.restarted
        with pytest.raises(ApplyError, match="work_mem = plenty"):
            session.apply(Configuration.of({"work_mem": "plenty"}))
        assert target.postgres.fetch("SHOW work_mem") == [{"work_mem": "7MB"}]
        session.apply(BASELINE)
        assert path.read_bytes() == before
        session.apply(RELOADED)
    assert path.read_bytes() == before
    assert target.postgres.fetch("SHOW work_mem") == [{"work_mem": "6MB"}]


def test_a_restart_command_that_fails_once_is_given_another_try(
    make_sandbox: Callable[..., Sandbox], tmp_path: Path
) -> None:
    sandbox = make_sandbox("sql-restarts")
    sandbox.start()
    control = sandbox.target().control
    assert isinstance(control, PgCtl)
    restart = [control.bin_dir / "pg_ctl", "restart", "-w", "-D", control.data_directory, "-l", control.log_file]
    switch = ["setpriv", "--reuid", control.user, "--regid", control.user, "--clear-groups"] if control.user else []
    library = f"LD_LIBRARY_PATH={control.bin_dir.parent / 'lib'}"
    line = shlex.join(["env", library, *map(str, [*switch, *restart])])
    failing, tries = tmp_path / "failing", tmp_path / "tries"
    command = tmp_path / "restart"
    command.write_text(f"#!/bin/sh\necho >> {tries}\nif rm {failing} 2>/dev/null; then exit 1; fi\nexec {line}\n")
    command.chmod(0o755)
    target = open_sql_only(sandbox.target().postgres.conninfo, restart_command=[str(command)])
    with Session.begin(target, study="s", undo_root=tmp_path / "undo") as session:
        assert session.apply(Configuration.of({"shared_buffers": "64MB"})).restarted
        failing.touch()
    assert target.postgres.fetch("SHOW shared_buffers") != [{"shared_buffers": "64MB"}]
    assert tries.read_text().count("\n") == 3, "the trial's, the one that failed, the one that worked"


def test_by_sql_alone_undone_by_hand(make_sandbox: Callable[..., Sandbox], tmp_path: Path) -> None:
    """The commands of UNDO.md, as they are written: our lines go or get their old value, those of others stay."""
    if shutil.which("psql") is None:
        pytest.skip("needs psql")
    sandbox = make_sandbox("sql-by-hand")
    sandbox.start()
    postgres = sandbox.target().postgres
    postgres.execute("ALTER SYSTEM SET work_mem = '6MB'")
    postgres.execute("ALTER SYSTEM SET log_line_prefix = 'it''s \\ $5 /&'")
    postgres.execute("SELECT pg_reload_conf()")
    path = sandbox.data_directory / "postgresql.auto.conf"
    before = path.read_bytes()
    session = Session.begin(open_sql_only(postgres.conninfo), study="s", undo_root=tmp_path)
    session.apply(Configuration.of({**RELOADED, "maintenance_work_mem": "70MB", "jit": "off"}))
    postgres.execute("ALTER SYSTEM SET jit = on")
    text = (session.bundle.directory / "UNDO.md").read_text()
    block = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[0]
    done = subprocess.run(["sh", "-eu", "-c", block], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    assert sorted(path.read_bytes().splitlines()) == sorted([*before.splitlines(), b"jit = 'on'"])
    postgres.execute("ALTER SYSTEM RESET jit")
    assert session.rollback().is_whole
    assert path.read_bytes() == before


@pytest.mark.slow
@pytest.mark.xdist_group("patroni")
def test_a_session_through_patroni(patroni: PatroniCluster, tmp_path: Path) -> None:
    target = open_patroni(PatroniApi((patroni.api["alpha"],), patroni.auth_file), patroni.conninfo)
    document = patroni.document()
    with Session.begin(target, study="s", undo_root=tmp_path) as session:
        session.apply(RELOADED)
        assert patroni.show("work_mem") == {"alpha": "7MB", "beta": "7MB"}
        with pytest.raises(ApplyError, match="work_mem = plenty"):
            session.apply(Configuration.of({"work_mem": "plenty"}))
        assert patroni.show("work_mem") == {"alpha": "7MB", "beta": "7MB"}
        applied = session.apply(Configuration.of({**RELOADED, "shared_buffers": "32MB"}))
        assert applied.restarted
        assert patroni.show("shared_buffers") == {"alpha": "32MB", "beta": "32MB"}
    patroni.wait_whole()
    assert patroni.document() == document
    assert patroni.show("shared_buffers") == {"alpha": "24MB", "beta": "24MB"}


@pytest.mark.slow
@pytest.mark.xdist_group("patroni")
def test_a_session_that_ends_under_another_leader(patroni: PatroniCluster, tmp_path: Path) -> None:
    target = open_patroni(PatroniApi((patroni.api["alpha"],), patroni.auth_file), patroni.conninfo)
    document, leader = patroni.document(), patroni.leader
    with Session.begin(target, study="s", undo_root=tmp_path) as session:
        session.apply(RELOADED)
        patroni.switch_over()
        assert patroni.leader != leader
    assert session.bundle.is_closed()
    assert patroni.document() == document
    assert patroni.show("work_mem") == {"alpha": "5MB", "beta": "5MB"}
