"""A load that a real server logged, replayed on real copies of it: nothing is lost, and what fails is told."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from fix_captured_load import Captured, marked, options
from pgdyno.errors import EnvironmentUnsuitable, ExitCode
from pgdyno.model.results.replay import ReplayResult
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.store.catalogue import Store
from pgdyno.studies.replay import check as checks
from pgdyno.studies.replay import run as replays
from pgdyno.studies.replay.amendments import FixedBefore, fixed_before
from pgdyno.studies.replay.check import check
from pgdyno.studies.replay.options import ReplayOptions
from pgdyno.studies.replay.run import prepare, replay
from pgdyno.studies.session.opening import opened
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.trace.gates import Order
from pgdyno.trace.outcome_file import KILLED, TAPE, recover
from pgdyno.trace.outcome_file import read_facts as read_facts_of
from pgdyno.trace.parquet import connection, read_meta, read_rows, write_meta, write_rows
from pgdyno.trace.refusals import Barred
from pgdyno.trace.schema import TRACE, TraceMeta
from warm_program import RunningPgdyno, run_pgdyno

pytestmark = [pytest.mark.pg, pytest.mark.xdist_group("replay")]


def run(captured: Captured, request: TargetRequest, folder: Path, **more: object) -> ReplayResult:
    asked = options(captured, folder / "run.outcome", **more)
    with opened(request) as target, Store.open(folder / "store.db") as store:
        ready = prepare(target, asked)
        ready = replace(ready, plan=replace(ready.plan, stall_ms=60_000))  # no gate opens because the machine is busy
        found = replay(store, ready, request, asked, announce=lambda _: None, tell=lambda _: None)
        assert store.study(found.study).told(ReplayResult) == found
    return found


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
    assert meta.refused.keys() == {Barred.OURS}
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
        for name in (f"run-{number}" for number in range(20)):
            asked = ReplayOptions(trace, tmp_path / name)
            ready = prepare(target, asked)
            results.append(replay(store, ready, TargetRequest(), asked, announce=lambda _: None, tell=lambda _: None))
            assert fixed_before(name, read_facts_of(tmp_path / name), store) == FixedBefore(1.0)
            nearest = overlap_s(tmp_path.glob(f"{name}/part-*.parquet"), "sent_us")
            if len(results) > 1 and nearest == pytest.approx(captured, rel=0.05):
                break  # a busy machine may hold up most of them
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
        assert not (folder / TAPE).exists(), "it holds what users typed"
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
