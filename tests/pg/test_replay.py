"""A load that a real server logged, replayed on real copies of it: what is refused, and that nothing is lost.

Past 400 lines: one captured load, made once a module, serves the tests here.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from fix_postgres import public_dir
from free_ports import free_ports
from pgdyno.errors import EnvironmentUnsuitable, ExitCode
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.model.results.replay import ReplayResult
from pgdyno.replay import exchange
from pgdyno.replay.restore import Restore, restore_of
from pgdyno.replay.target_facts import captured_server, identify, mark_copy
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.store.catalogue import Store
from pgdyno.studies.replay import check as checks
from pgdyno.studies.replay import run as replays
from pgdyno.studies.replay.amendments import FixedBefore, fixed_before
from pgdyno.studies.replay.check import check
from pgdyno.studies.replay.options import ReplayOptions
from pgdyno.studies.replay.rounds import NEW, OLD, ReplayArm, run_rounds
from pgdyno.studies.replay.run import prepare, replay
from pgdyno.studies.session.leftovers import LeftoverKind, on_server
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.inspect import read_facts
from pgdyno.targets.target import Target
from pgdyno.trace.build import BuildOptions, build_trace
from pgdyno.trace.gates import Order
from pgdyno.trace.outcome_file import KILLED, recover
from pgdyno.trace.outcome_file import read_facts as read_facts_of
from pgdyno.trace.parquet import connection, read_meta, read_rows, write_meta, write_rows
from pgdyno.trace.refusals import OURS
from pgdyno.trace.schema import TRACE, CapturedServer, TraceMeta
from server_image import write_as_owner
from trace_load import run_load
from warm_program import RunningPgdyno, run_pgdyno

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("replay")]

LOGGING = {
    "logging_collector": "on", "log_destination": "csvlog", "log_min_duration_statement": "0", "log_timezone": "UTC",
    "log_connections": "on", "log_disconnections": "on", "log_parameter_max_length_on_error": "-1", "log_filename": "x",
    "log_directory": "captured",
}  # fmt: skip


UNKNOWN = CapturedServer()
"""What a trace of a log that no capture of ours made says of its server."""


@dataclass(frozen=True)
class Captured:
    """A source that runs, its load as a trace, and the bytes of its data directory from before the load."""

    source: Sandbox
    trace: Path
    before: Path
    home: Path

    @property
    def target(self) -> Target:
        return self.source.target()

    @contextmanager
    def copy(self, name: str, *, standby: bool = False) -> Iterator[TargetRequest]:
        """Start a copy of the source as it was before the load."""
        folder, (port,) = self.home / name, free_ports(1)
        shutil.copytree(self.before, folder, symlinks=True)
        account = pwd.getpwnam(self.target.os_user) if self.target.os_user else pwd.getpwuid(os.geteuid())
        for path in (folder, *folder.rglob("*")):
            os.chown(path, account.pw_uid, account.pw_gid)
        if standby:
            (folder / "standby.signal").touch()
            os.chown(folder / "standby.signal", account.pw_uid, account.pw_gid)
        words = f"-p {port} -k {folder} -c listen_addresses= -c log_directory=own -c hot_standby=on"
        ctl = [str(self.target.program("pg_ctl")), "-D", str(folder), "-w", "-l", str(folder / "ctl.log")]
        run = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if os.geteuid() == 0 else {}
        subprocess.run([*ctl, "-o", words, "start"], check=True, stdout=subprocess.DEVNULL, cwd="/", **run)
        try:
            yield TargetRequest(dsn=make_conninfo(host=str(folder), port=port, user="postgres", dbname="postgres"))
        finally:
            subprocess.run([*ctl, "-m", "immediate", "stop"], check=True, stdout=subprocess.DEVNULL, cwd="/", **run)
            shutil.rmtree(folder)


@pytest.fixture(scope="module")
def captured() -> Iterator[Captured]:
    home = public_dir()
    source = Sandbox.open_or_create("source", root=home)
    try:
        settings = "".join(f"{name} = '{value}'\n" for name, value in LOGGING.items())
        write_as_owner(source.data_directory / "postgresql.auto.conf", settings)
        source.start()
        source.stop()
        before = home / "before"
        shutil.copytree(source.data_directory, before, symlinks=True)
        shutil.rmtree(before / "captured", ignore_errors=True)
        source.start()
        given = source.target().postgres.parameters
        run_load(make_conninfo(host=given["host"], port=given.get("port"), user=given["user"], dbname="postgres"))
        source.stop()
        logs = sorted((source.data_directory / "captured").glob("*.csv"))
        trace = home / "load.parquet"
        meta = build_trace(logs, trace, BuildOptions())
        source.start()
        identifier = read_facts(source.target()).server.system_identifier
        facts = json.loads((home / "load.json").read_text())
        (home / "load.json").write_text(json.dumps({**facts, "system_identifier": identifier}))
        assert meta.statements > 80
        yield Captured(source, trace, before, home)
    finally:
        source.destroy()
        shutil.rmtree(home)


def options(captured: Captured, output: Path, **more: object) -> ReplayOptions:
    return replace(ReplayOptions(captured.trace, output), **more)


def owned(captured: Captured, folder: Path) -> None:
    """Give files to the account of the servers, who copies them."""
    if captured.target.os_user:
        account = pwd.getpwnam(captured.target.os_user)
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, account.pw_uid, account.pw_gid)


def marked(captured: Captured, request: TargetRequest) -> None:
    with opened(request) as copy:
        mark_copy(identify(copy, read_facts(copy)), copy, captured.target, None, "", UNKNOWN)


def run(captured: Captured, request: TargetRequest, folder: Path, **more: object) -> ReplayResult:
    asked = options(captured, folder / "run.outcome", **more)
    with opened(request) as target, Store.open(folder / "store.db") as store:
        ready = prepare(target, asked)
        ready = replace(ready, plan=replace(ready.plan, stall_ms=60_000))  # no gate opens because the machine is busy
        found = replay(store, ready, request, asked, announce=lambda _: None, tell=lambda _: None)
        assert store.study(found.study).told(ReplayResult) == found
    return found


@pytest.mark.requirement("R-RPL-16", "R-SAF-09")
def test_the_source_its_standby_and_an_unmarked_copy_are_refused(captured: Captured, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentUnsuitable, match="the system identifier of the source"):
        prepare(captured.target, options(captured, tmp_path / "x"))
    for name, is_standby, why in (
        ("plain", False, "the system identifier of the source"),
        ("second", True, "a standby"),
    ):
        with captured.copy(name, standby=is_standby) as request, opened(request) as copy:  # noqa: SIM117 - one refuses
            with pytest.raises(EnvironmentUnsuitable, match=why):
                prepare(copy, options(captured, tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []


def test_a_source_cannot_be_marked_as_its_own_copy(captured: Captured) -> None:
    target = captured.target
    with pytest.raises(EnvironmentUnsuitable, match="the same server"):
        mark_copy(identify(target, read_facts(target)), target, target, None, "", UNKNOWN)
    with pytest.raises(EnvironmentUnsuitable, match="the system identifier of the source"):
        prepare(target, options(captured, captured.home / "x"))


def test_a_source_is_not_marked_by_naming_its_copy_or_another_server_in_its_place(captured: Captured) -> None:
    target = captured.target
    known = identify(target, read_facts(target))
    until = str(target.postgres.fetch("SELECT pg_catalog.pg_current_wal_lsn()::text AS lsn")[0]["lsn"])
    with captured.copy("standby", standby=True) as request, opened(request) as standby:
        with pytest.raises(EnvironmentUnsuitable) as refused:
            mark_copy(known, target, standby, known.system_identifier, "", UNKNOWN)
        assert "a standby" in str(refused.value.detail)
        with pytest.raises(EnvironmentUnsuitable, match="after a failover it would be the source"):
            mark_copy(identify(standby, read_facts(standby)), standby, target, None, "", UNKNOWN)
        assert identify(standby, read_facts(standby)).marker is None
    with captured.copy("swapped") as request, opened(request) as copy:
        with pytest.raises(EnvironmentUnsuitable) as refused:
            mark_copy(known, target, copy, known.system_identifier, f"FF{until}", UNKNOWN)
        assert "its WAL is at" in str(refused.value.detail)
        with pytest.raises(EnvironmentUnsuitable) as refused:
            mark_copy(known, target, copy, "1", "", UNKNOWN)
        assert "system identifier" in str(refused.value.detail)
        marked(captured, request)
        with pytest.raises(EnvironmentUnsuitable) as refused:
            mark_copy(known, target, copy, known.system_identifier, "", UNKNOWN)
        assert "marked as a copy itself" in str(refused.value.detail)
    assert identify(target, read_facts(target)).marker is None


@pytest.mark.requirement("R-RPL-16", "R-SAF-09")
def test_of_two_copies_of_one_source_the_captured_one_is_never_marked(captured: Captured) -> None:
    with captured.copy("one") as first, captured.copy("two") as second, opened(first) as one, opened(second) as two:
        seen = captured_server(one)
        assert (seen.inode, seen.boot) == (one.directory.stat().st_ino, ProcessIdentity.own().boot_id)
        restarted = replace(seen, started_at="2026-11-27T10:00:00.000000+00:00")
        moved = replace(restarted, inode=seen.inode + 1)
        known = identify(one, read_facts(one))
        for server in (seen, restarted, CapturedServer(seen.started_at)):
            with pytest.raises(EnvironmentUnsuitable, match="it is the server that was captured"):
                mark_copy(known, one, two, known.system_identifier, "", server)
        with pytest.raises(EnvironmentUnsuitable) as refused:
            mark_copy(identify(two, read_facts(two)), two, one, known.system_identifier, "", moved)
        assert f"is inode {seen.inode} on device" in str(refused.value.detail)
        assert identify(one, read_facts(one)).marker is None
        assert identify(two, read_facts(two)).marker is None
        mark_copy(identify(two, read_facts(two)), two, one, known.system_identifier, "", restarted)
        assert identify(two, read_facts(two)).is_marked


@pytest.mark.requirement("R-RPL-01")
def test_a_marked_copy_answers_every_statement_as_the_source_did(captured: Captured, tmp_path: Path) -> None:
    meta = read_meta(captured.trace)
    with captured.copy("marked") as request:
        marked(captured, request)
        # Under session order an insert may pass its CREATE TABLE.
        found = run(captured, request, tmp_path, order=Order.ROW, data_of=captured.target.postgres.conninfo)
    data = {one.database: one for one in found.data}
    assert (data["postgres"].is_same, data["postgres"].tables) == (True, 1), data
    assert data["postgres"].rows > 3
    assert found.ended == "complete"
    assert found.reasons == {}
    assert {name: found.answers[name] for name in ("expected", "new", "missing", "changed")} == {
        "expected": meta.errors, "new": 0, "missing": 0, "changed": 0,
    }  # fmt: skip
    assert meta.refused.keys() == {OURS}
    assert found.fidelity.refused == 0, "which is no part of the load"
    with connection() as db:
        unsent = db.execute("SELECT count(*) FROM read_parquet(?) WHERE refused IS NOT NULL", [str(captured.trace)])
        assert unsent.fetchall() == [(found.answers["skipped"],)], "with connects and disconnects of pgdyno's sessions"
        parts = [str(part) for part in (tmp_path / "run.outcome").glob("part-*.parquet")]
        lost = db.execute(
            "SELECT count(*) FROM read_parquet(?) t ANTI JOIN read_parquet(?) o USING (session, seq)",
            [str(captured.trace), parts],
        ).fetchone()
    assert lost == (0,)
    assert (tmp_path / "run.outcome").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "run.outcome").iterdir()} == {0o600}


def test_what_would_fail_is_listed_and_nothing_is_executed(captured: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    with captured.copy("checked") as request:
        marked(captured, request)
        with opened(request) as copy:
            ready = prepare(copy, options(captured, captured.home / "x"))
            before = check(captured.trace, ready.plan)
            copy.postgres.execute("CREATE TABLE public.things (id int, word text)", dbname="postgres")
            after = check(captured.trace, ready.plan)
            assert copy.postgres.fetch("SELECT * FROM public.things", dbname="postgres") == []
            monkeypatch.setattr(checks, "LOCK_TIMEOUT", "10ms")
            with copy.postgres.connect("postgres") as other, other.transaction():
                other.execute("LOCK public.things")
                held = check(captured.trace, ready.plan)
    assert (before.failing, {one.sqlstate for one in before.made}) == ((), {"42P01"}), "the load makes the table itself"
    assert any("a statement of the load makes" in line and '"things"' in line for line in checks.lines_of(before))
    assert after.made == ()
    assert {one.sqlstate for one in after.failing} == {"42601", "42703"}  # more values than columns, and no "amount"
    assert {one.sqlstate for one in held.failing} >= {checks.LOCKED}, "who holds a table is not waited for"
    assert any("may fail" in line and "somebody holds" in line for line in checks.lines_of(held))
    assert after.prepared > before.prepared > 0
    assert before.unknown == after.unknown > 0


@pytest.mark.requirement("R-RPL-02", "R-RPL-14")
def test_sessions_overlap_as_captured_and_each_step_is_on_record(sandbox18: Sandbox, tmp_path: Path) -> None:
    target, sessions, statements = sandbox18.target(), 6, 12
    given = target.postgres.parameters
    people = {"user": given["user"], "database": "postgres", "application": "app", "implied": False}
    rows = list[dict[str, object]]()
    for session in range(sessions):
        begin = session * 150_000
        own = [
            {"kind": "connect"},
            *({"kind": "simple", "sql": f"SELECT {n}"} for n in range(statements)),
            {"kind": "disconnect"},
        ]
        for seq, row in enumerate(own):
            rows.append(
                {**people, **row, "session": session, "seq": seq, "due_us": begin + seq * (40_000 + 10_000 * session)}
            )
    trace = tmp_path / "made.parquet"
    names = [column.name for column in TRACE]
    rows.sort(key=lambda row: (row["due_us"], row["session"], row["seq"]))
    digest = write_rows(trace, TRACE, ([row.get(name) for name in names] for row in rows))
    write_meta(
        trace,
        TraceMeta(
            1, "csvlog B", None, "1", "2026-01-01T00:00:00Z", 2.0, sessions, sessions * statements, 72, 0, digest=digest
        ),
    )
    results = []
    captured = overlap_s([trace], "due_us")
    assert captured > 1
    with Store.open(tmp_path / "store.db") as store:
        for name in ("first", "second", "third", "fourth", "fifth"):
            asked = ReplayOptions(trace, tmp_path / name)
            ready = prepare(target, asked)
            results.append(replay(store, ready, TargetRequest(), asked, announce=lambda _: None, tell=lambda _: None))
            assert fixed_before(name, read_facts_of(tmp_path / name), store) == FixedBefore(1.0)
            nearest = overlap_s(tmp_path.glob(f"{name}/part-*.parquet"), "sent_us")
            if len(results) > 1 and nearest == pytest.approx(captured, rel=0.05):
                break  # a busy machine may hold up one and another
    assert set(results[0].phases) == {"prepare", "inject", "analyse"}
    assert set(results[1].phases) == {"prepare", "inject", "analyse", "tune"}
    assert nearest == pytest.approx(captured, rel=0.05)


def overlap_s(parts: Iterable[Path], column: str) -> float:
    """Return the time that pairs of sessions are open together, added up."""
    query = f"""
        WITH lives AS (SELECT session, min({column}) AS a, max({column}) AS b FROM read_parquet(?) GROUP BY session)
        SELECT sum(greatest(least(x.b, y.b) - greatest(x.a, y.a), 0)) / 1e6
        FROM lives x JOIN lives y ON x.session < y.session"""
    with connection() as db:
        found = db.execute(query, [[str(part) for part in parts]]).fetchone()
    assert found is not None
    return float(found[0])


@pytest.mark.requirement("R-RPL-16")
def test_the_state_comes_back_by_a_copy_of_files_that_is_marked(
    captured: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = restore_of(f"directory:{captured.before}")
    owned(captured, captured.before)
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


def test_the_verb_ends_with_the_words_and_the_code_of_what_it_found(captured: Captured, tmp_path: Path) -> None:
    def told(*words: str) -> subprocess.CompletedProcess[str]:
        return run_pgdyno("replay", str(captured.trace), *words, PGDYNO_HOME=str(tmp_path))

    with captured.copy("asked") as request:
        assert request.dsn is not None
        refused = told("--target", request.dsn, "--yes", "--output", str(tmp_path / "x"))
        assert refused.returncode == ExitCode.UNSUITABLE, refused.stderr
        assert "hint: Mark a copy" in refused.stderr
        marked(captured, request)
        unasked = told("--target", request.dsn)
        assert unasked.returncode == ExitCode.USAGE
        dry = told("--target", request.dsn, "--dry-run")
        assert (dry.returncode, "would be sent" in dry.stderr) == (0, True)
        report = tmp_path / "page.html"
        sent = told(
            "--target", request.dsn, "--yes", "--json", "--output", str(tmp_path / "y"), "--report", str(report)
        )
        assert sent.returncode in (ExitCode.OK, ExitCode.NOT_RESOLVED), sent.stderr
        assert {"expected", "new", "missing", "changed"} <= set(json.loads(sent.stdout)["answers"])
        assert "Was the schedule kept?" in report.read_text()


@pytest.mark.parametrize("engine", ["python", "compiled"])
def test_a_replay_that_is_killed_leaves_no_session_and_what_was_answered(
    captured: Captured, tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "compiled":
        request.getfixturevalue("compiled_engine")
    folder = tmp_path / "x"
    with captured.copy("killed") as copy:
        assert copy.dsn is not None
        marked(captured, copy)
        words = ["replay", str(captured.trace), "--target", copy.dsn, "--yes", "--engine", engine, "--speed", "0.01"]
        process = RunningPgdyno(*words, "--output", str(folder), PGDYNO_HOME=str(tmp_path))
        records = folder / "engine-0.records"
        while not (records.exists() and records.stat().st_size):
            assert process.poll() is None
            time.sleep(0.05)
        with opened(copy) as target:
            sessions = (
                "SELECT count(*) AS n FROM pg_catalog.pg_stat_activity WHERE application_name NOT LIKE 'pgdyno%%'"
            )
            sessions += " AND backend_type = 'client backend'"
            process.kill()
            process.wait()
            deadline = time.monotonic() + 60
            while target.postgres.fetch(sessions) != [{"n": 0}]:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        recover(folder)
        assert read_facts_of(folder).ended == KILLED
        assert len(list(read_rows(folder / "part-recovered-0.parquet", ["seq"]))) > 0
        assert sorted(path.name for path in folder.iterdir()) == ["outcome.json", "part-recovered-0.parquet"]


def test_a_tape_that_has_no_room_is_one_error_and_the_run_has_failed(
    captured: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(replays, "write_tape", full)
    with captured.copy("full") as copy:
        marked(captured, copy)
        with pytest.raises(EnvironmentUnsuitable, match="the tape of the replay cannot be written") as raised:
            run(captured, copy, tmp_path)
    assert raised.value.detail == "No space left on device"
    assert read_facts_of(tmp_path / "run.outcome").ended == "failed"
