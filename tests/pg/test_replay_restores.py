"""How a copy comes back to its state between replays: by files, a base backup, a template or a command, and marked."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from psycopg import sql

from fix_captured_load import Captured, marked, options, owned
from pgdyno.errors import EnvironmentUnsuitable, ExitCode
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.replay import exchange
from pgdyno.replay.restore import Restore, restore_of
from pgdyno.replay.target_facts import identify
from pgdyno.store.catalogue import Store
from pgdyno.studies.replay.rounds import NEW, OLD, ReplayArm, run_rounds
from pgdyno.studies.session.leftovers import LeftoverKind, on_server
from pgdyno.studies.session.opening import opened
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("replay")]


@pytest.mark.requirement("R-RPL-16")
def test_the_state_comes_back_by_a_copy_of_files_that_is_marked(
    captured: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = restore_of(f"directory:{captured.before}")
    rows = "SELECT count(*) AS n FROM pg_catalog.pg_tables WHERE schemaname = 'public'"
    with captured.copy("brought") as request, opened(request) as copy:
        unmarked = identify(copy, read_facts(copy))
        with pytest.raises(EnvironmentUnsuitable, match="nothing marks them"):
            way.check(copy, unmarked)
        marked(captured, request)
        assert copy.directory is not None
        (copy.directory / "pgdyno.replaced").mkdir()  # what a restore left that was killed
        assert LeftoverKind.RESTORE in {one.kind for one in on_server(copy, tmp_path)}
        asked = options(captured, tmp_path / "run.outcome")
        arms = [ReplayArm(name, copy, request, asked) for name in (OLD, NEW)]
        copy.postgres.execute("CREATE TABLE public.left_over (id int)", dbname="postgres")
        conf = (copy.directory / "postgresql.conf").read_bytes()
        with Store.open(tmp_path / "store.db") as store:
            found = run_rounds(store, arms, 1, way, announce=lambda _: None, teller=lambda _: lambda _: None)
        assert [Path(one.outcome).name for one in found.results] == ["run-old-1.outcome", "run-new-1.outcome"]
        assert [one.restored_by for one in found.results] == [f"a copy of {captured.before}"] * 2
        assert [one.cache.partition(":")[0] for one in found.results] == ["cold"] * 2
        left = "SELECT 1 AS one FROM pg_catalog.pg_tables WHERE tablename = 'left_over'"
        assert copy.postgres.fetch(left, dbname="postgres") == []
        assert len(found.pairs) == 1
        assert found.exit_code == ExitCode.NOT_RESOLVED, "one pair has no verdict"
        way.restore(copy, identify(copy, read_facts(copy)))
        assert copy.postgres.fetch(rows, dbname="postgres") == [{"n": 0}]
        assert identify(copy, read_facts(copy)).is_marked
        assert (copy.directory / "postgresql.conf").read_bytes() == conf, "configuration stays the target's"
        assert not [one for one in copy.directory.iterdir() if one.name in ("pgdyno.restore", "pgdyno.replaced")]
        with monkeypatch.context() as killed:
            killed.setattr(exchange, "mark_directory", lambda *_: os.kill(os.getpid(), signal.SIGINT))
            with pytest.raises(KeyboardInterrupt):
                way.restore(copy, identify(copy, read_facts(copy)))
        assert copy.control is not None
        assert not copy.control.is_running()
        monkeypatch.setattr(ProcessIdentity, "is_alive", lambda _: False)
        told = list[str]()
        exchange.finish_all_left(told.append)
        assert [one for one in told if "that is finished, and it runs" in one], told
        assert copy.postgres.fetch(rows, dbname="postgres") == [{"n": 0}]
        assert identify(copy, read_facts(copy)).is_marked


def test_tablespaces_come_back_inside_of_the_data_directory(captured: Captured) -> None:
    rows = "SELECT count(*) AS n FROM public.kept"
    place = "SELECT oid::text AS oid, pg_tablespace_location(oid) AS place FROM pg_tablespace WHERE spcname = 'aside'"

    def restored(way: Restore, copy: Target, inside: str = "pgdyno.tablespaces") -> None:
        assert copy.directory is not None
        known = identify(copy, read_facts(copy))
        way.check(copy, known)
        way.restore(copy, known)
        assert copy.postgres.fetch(rows, dbname="postgres") == [{"n": 1}]
        (row,) = copy.postgres.fetch(place)
        assert row["place"] == str(copy.directory / inside / str(row["oid"]))
        copy.postgres.execute("DELETE FROM public.kept; CHECKPOINT", dbname="postgres")

    with captured.copy("holder") as keeper, captured.copy("spaced") as request, opened(request) as copy:
        marked(captured, request)
        assert copy.directory is not None
        aside, kept = captured.home / "a=side", captured.home / "kept"
        aside.mkdir()
        owned(captured, aside)
        with opened(keeper) as server:
            server.postgres.execute(sql.SQL("CREATE TABLESPACE aside LOCATION {}").format(sql.Literal(str(aside))))
            server.postgres.execute("CREATE TABLE public.kept TABLESPACE aside AS SELECT 7 AS id", dbname="postgres")
            way = restore_of(f"basebackup:{keeper.dsn}")
            restored(way, copy)
            restored(way, copy)
            assert server.postgres.fetch(rows, dbname="postgres") == [{"n": 1}], "its files are its own"
            (row,) = server.postgres.fetch(place)
            assert row["place"] == str(aside)
        assert copy.control is not None
        way.restore(copy, identify(copy, read_facts(copy)))
        with captured.copy("again") as other, opened(other) as again:
            marked(captured, other)
            restored(restore_of(f"basebackup:{request.dsn}"), again, "pgdyno.tablespaces.2")
        copy.control.stop()
        shutil.copytree(copy.directory, kept, symlinks=True)
        owned(captured, kept)
        copy.control.start()
        restored(restore_of(f"directory:{kept}"), copy)
        (link,) = (kept / "pg_tblspc").iterdir()
        link.unlink()
        link.symlink_to(aside)
        with pytest.raises(EnvironmentUnsuitable, match=r'leads to ".*a=side", out of the copy'):
            restore_of(f"directory:{kept}").check(copy, identify(copy, read_facts(copy)))
    shutil.rmtree(kept)
    shutil.rmtree(aside)


def test_a_base_backup_a_template_and_a_command_bring_a_state_back(captured: Captured, tmp_path: Path) -> None:
    rows = "SELECT count(*) AS n FROM public.kept"
    source = captured.target
    with captured.copy("keeper") as keeper, captured.copy("several") as request, opened(request) as copy:
        marked(captured, request)
        with opened(keeper) as server:
            server.postgres.execute(
                "CREATE TABLE public.kept (id int); INSERT INTO public.kept VALUES (7)", dbname="postgres"
            )
        way = restore_of(f"basebackup:{keeper.dsn}")
        known = identify(copy, read_facts(copy))
        way.check(copy, known)
        way.restore(copy, known)
        assert copy.postgres.fetch(rows, dbname="postgres") == [{"n": 1}]
        known = identify(copy, read_facts(copy))
        assert known.is_marked
        assert known.system_identifier == read_facts(source).server.system_identifier
        template = restore_of("template:before=shop_replay")
        with pytest.raises(EnvironmentUnsuitable, match='no database "before"'):
            template.check(copy, known)
        copy.postgres.execute("CREATE DATABASE before")
        copy.postgres.execute("CREATE TABLE public.kept AS SELECT 1 AS id", dbname="before")
        for _ in range(2):
            template.check(copy, known)
            template.restore(copy, known)
            assert copy.postgres.fetch(rows, dbname="shop_replay") == [{"n": 1}]
            copy.postgres.execute("DELETE FROM public.kept", dbname="shop_replay")
        with pytest.raises(EnvironmentUnsuitable, match="was not made by a restore"):
            restore_of("template:before=postgres").check(copy, known)
        command = restore_of("command:/bin/true")
        command.check(copy, known)
        with pytest.raises(EnvironmentUnsuitable, match="was not started by the restore command"):
            command.restore(copy, known)
        assert identify(copy, read_facts(copy)).is_marked
