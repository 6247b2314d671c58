"""What starts jobs: their names on the server, a job of another scheduler as a row that is read again, examples."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batch_example import chain_of, recorded
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.model.results.batch import CheckedResult, JobEnd
from pgdyno.server.postgres import Postgres
from pgdyno.studies.batch import sql_program, wrapped
from pgdyno.studies.batch.chain import BatchOptions, Expects, JobCheck
from pgdyno.studies.batch.dry_run import plan_lines
from pgdyno.studies.batch.file import check_files, parse_chain
from pgdyno.studies.batch.job_process import (
    LONGEST_TAG,
    JobAttempt,
    JobStarter,
    last_words,
    program_of,
    read_own,
    require_own_files,
    restore_tag,
    tags_of,
)
from pgdyno.studies.batch.recorded import read_recorded
from pgdyno.studies.batch.wrapped import WrappedJob, run_wrapped

EXAMPLES = Path(__file__).parents[3] / "examples" / "batch"


def test_each_job_has_a_name_of_its_own_that_the_server_keeps_whole() -> None:
    long = "ü" * 70
    text = f'version = 1\n[chain]\nname = "c"\n[[process]]\nname = "{long}"\n'
    text += "".join(f'[[process.job]]\nname = "{long}{number}"\nargv = ["true"]\n' for number in (1, 2))
    tags = tags_of(chain_of(text), "ab12")
    assert len(set(tags.values())) == 2
    assert all(len(tag.encode()) <= LONGEST_TAG for tag in tags.values())
    assert next(iter(tags.values())).startswith("ab12.1 ")


@pytest.mark.parametrize(("code", "end"), [(0, JobEnd.SUCCEEDED), (4, JobEnd.FAILED)])
def test_a_wrapped_job_is_a_row_that_an_import_reads(code: int, end: JobEnd, tmp_path: Path) -> None:
    record = tmp_path / "jobs.csv"
    told = "import os, sys; sys.exit({} if os.environ['PGAPPNAME'] == 'load/fetch' else 9)"
    assert run_wrapped(WrappedJob("load", "fetch", 1), [sys.executable, "-c", told.format(code)], record) == code
    assert run_wrapped(WrappedJob("load", "copy", 1), [sys.executable, "-c", ""], record) == 0
    found = {one.key: one for one in recorded(chain_of(), record.read_text()).jobs}
    assert (found["load/fetch"].end, found["load/fetch"].code) == (end, code)
    assert found["load/copy"].end is JobEnd.SUCCEEDED
    assert found["load/copy"].cpu_s is not None
    assert found["close/sum"].end is JobEnd.NOT_RUN


def test_a_wrapped_job_that_a_signal_ended_was_cancelled(tmp_path: Path) -> None:
    record = tmp_path / "jobs.csv"
    told = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert run_wrapped(WrappedJob("load", "fetch", 1), [sys.executable, "-c", told], record) == 143
    assert next(iter(recorded(chain_of(), record.read_text()).jobs)).end is JobEnd.CANCELLED


SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_a_signal_that_comes_while_the_program_is_started_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, start = tmp_path / "jobs.csv", subprocess.Popen

    def cancelled_meanwhile(*words: Any, **named: Any) -> Any:
        started = start(*words, **named)
        os.kill(os.getpid(), signal.SIGTERM)
        return started

    monkeypatch.setattr(wrapped.subprocess, "Popen", cancelled_meanwhile)
    assert run_wrapped(WrappedJob("load", "fetch", 1), SLEEPS, record) == 143
    assert next(iter(recorded(chain_of(), record.read_text()).jobs)).end is JobEnd.CANCELLED


def test_a_signal_that_comes_when_the_program_has_ended_keeps_no_row_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, wait = tmp_path / "jobs.csv", os.wait4

    def cancelled_then(pid: int, options: int) -> Any:
        found = wait(pid, options)
        os.kill(os.getpid(), signal.SIGTERM)
        return found

    monkeypatch.setattr(wrapped.os, "wait4", cancelled_then)
    assert run_wrapped(WrappedJob("load", "fetch", 1), [sys.executable, "-c", ""], record) == 0
    assert next(iter(recorded(chain_of(), record.read_text()).jobs)).end is JobEnd.SUCCEEDED
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_signal_that_may_not_be_handed_on_keeps_no_row_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    record, start = tmp_path / "jobs.csv", subprocess.Popen

    def cancelled_meanwhile(*words: Any, **named: Any) -> Any:
        started = start(*words, **named)
        signal.raise_signal(signal.SIGTERM)
        return started

    def refuse(_pid: int, _number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(wrapped.subprocess, "Popen", cancelled_meanwhile)
    monkeypatch.setattr(wrapped.os, "kill", refuse)
    assert run_wrapped(WrappedJob("load", "fetch", 1), [sys.executable, "-c", ""], record) == 0
    assert "signal 15 is not handed on" in caplog.text
    assert next(iter(recorded(chain_of(), record.read_text()).jobs)).end is JobEnd.SUCCEEDED


def test_what_is_ignored_stays_ignored_as_nohup_wants_it(tmp_path: Path) -> None:
    record = tmp_path / "jobs.csv"
    told = "import signal, sys; sys.exit(signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN)"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert run_wrapped(WrappedJob("load", "fetch", 1), [sys.executable, "-c", told], record) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_no_job_runs_whose_record_cannot_be_written(tmp_path: Path) -> None:
    made = tmp_path / "made"
    with pytest.raises(UsageError, match="cannot be written"):
        run_wrapped(
            WrappedJob("load", "fetch", 1),
            [sys.executable, "-c", f"open({str(made)!r}, 'w')"],
            tmp_path / "nowhere" / "jobs.csv",
        )
    assert not made.exists()


def test_a_record_that_fails_at_the_end_changes_no_code_of_a_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record = tmp_path / "in" / "jobs.csv"
    record.parent.mkdir()
    told = f"import shutil, sys; shutil.rmtree({str(record.parent)!r}); sys.exit(4)"
    assert run_wrapped(WrappedJob("load", "fetch", 1), [sys.executable, "-c", told], record) == 4
    assert "job load/fetch ended with code 4, and is not recorded" in caplog.text


def test_a_job_whose_files_cannot_be_made_fails_and_ends_nothing_else(tmp_path: Path) -> None:
    job = chain_of().jobs["load/copy"]
    started = JobStarter(Postgres(""), "d", tmp_path / "gone", {job.key: "tag"}).start(job, 1)
    assert "no such file or directory" in started.poll().failed
    assert started.poll().cpu_s == 0.0


def test_no_further_check_begins_once_a_job_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = replace(chain_of().jobs["load/copy"], checks=(JobCheck(Expects.TRUE, "SELECT true"),) * 3)
    starter = JobStarter(Postgres(""), "d", tmp_path, {})
    attempt = JobAttempt(starter, job, None, "tag", tmp_path / "1")  # type: ignore[arg-type]  # it is over
    made = list[str]()

    def make(_server: object, _database: str, tag: str, _check: JobCheck) -> CheckedResult:
        made.append(tag)
        attempt.stopped = True
        return CheckedResult(check="", found="", passed=None)

    monkeypatch.setattr("pgdyno.studies.batch.job_process.make_check", make)
    assert len(attempt._make_checks()) == 1
    assert made == ["tag"]


def test_a_file_of_sql_that_is_gone_is_told_without_a_traceback(tmp_path: Path) -> None:
    words = [sys.executable, "-m", sql_program.__name__, str(tmp_path / "gone.sql")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f'"{tmp_path}/gone.sql" cannot be read: No such file or directory\n')


def test_the_sessions_of_a_restore_are_told_from_those_of_another_run() -> None:
    tag = restore_tag(chain_of(), "ab12")
    assert tag == "ab12.0 restore for night"
    assert tag not in tags_of(chain_of(), "ab12").values()


def test_a_record_that_somebody_keeps_locked_keeps_no_job_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "jobs.csv"
    monkeypatch.setattr(wrapped, "_LOCK_S", 0.1)
    with record.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert run_wrapped(WrappedJob("load", "fetch", 1), [sys.executable, "-c", ""], record) == 0
    assert recorded(chain_of(), record.read_text()).jobs[0].end is JobEnd.SUCCEEDED


@pytest.mark.parametrize("name", ["a/b", "", "two\nlines", "\udcff"])
def test_a_wrapped_job_has_a_name_that_a_chain_could_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a name"):
        run_wrapped(WrappedJob("load", name, 1), [sys.executable, "-c", ""], tmp_path / "jobs.csv")


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(EnvironmentUnsuitable, match='program "no-such-program" was not found') as caught:
        program_of("no-such-program")
    assert "whole path" in (caught.value.hint or "")


def test_a_script_without_an_interpreter_is_told_what_it_lacks(tmp_path: Path) -> None:
    script = tmp_path / "job"
    script.write_text("true\n")
    script.chmod(0o755)
    with pytest.raises(EnvironmentUnsuitable, match="cannot be run") as caught:
        run_wrapped(WrappedJob("load", "fetch", 1), [str(script)], tmp_path / "jobs.csv")
    assert "first line" in (caught.value.hint or "")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is careful about whose chain it is")
def test_root_takes_no_chain_that_another_account_can_change(tmp_path: Path) -> None:
    chain = tmp_path / "chain.toml"
    chain.write_text("version = 1")
    chain.chmod(0o644)
    assert read_own(chain) == "version = 1"
    chain.chmod(0o666)
    with pytest.raises(UsageError, match="another account can change it"):
        read_own(chain)
    chain.chmod(0o644)
    os.chown(chain, 65534, -1)
    with pytest.raises(UsageError, match="another account can change it"):
        read_own(chain)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is careful about whose chain it is")
def test_a_chain_that_comes_while_it_is_looked_for_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = tmp_path / "chain.toml"
    with pytest.raises(UsageError, match=rf'"{chain}" cannot be read'):
        read_own(chain)
    chain.write_text("version = 1")
    os.chown(chain, 65534, -1)
    monkeypatch.setattr(Path, "exists", lambda _: False)  # a moment ago
    with pytest.raises(UsageError, match="another account can change it"):
        read_own(chain)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is careful about whose files it sends")
def test_root_sends_no_file_that_another_account_leads_elsewhere(tmp_path: Path) -> None:
    theirs, secret = tmp_path / "theirs", tmp_path / "secret"
    theirs.mkdir()
    secret.write_text("root:hash")
    (theirs / "load.sql").symlink_to(secret)
    text = 'version = 1\n[chain]\nname = "c"\n[[process]]\nname = "p"\n[[process.job]]\nname = "j"\n'
    chain = chain_of(f'{text}sql_file = "{theirs}/load.sql"\n')
    require_own_files(chain)
    os.lchown(theirs / "load.sql", 65534, -1)
    with pytest.raises(UsageError, match="another account can change it"):
        require_own_files(chain)
    (started,) = [JobStarter(Postgres(""), "d", tmp_path, {"p/j": "tag"}).start(job, 1) for job in chain.jobs.values()]
    assert "another account can change it" in started.poll().failed, "it was exchanged after the look"
    (theirs / "load.sql").unlink()
    (theirs / "load.sql").write_text("SELECT 1")
    os.chown(theirs, 65534, -1)
    with pytest.raises(UsageError, match="another account can change it"):
        require_own_files(chain)


@pytest.mark.parametrize(
    ("wrote", "told"),
    [
        ("psql:f:1: ERROR:  no such role\nLINE 1: ALTER ROLE a PASSWORD 'geheim' X\n        ^\n", "no such role"),
        ("begin\ncannot reach postgresql://app:geheim@db/app\n", "cannot reach postgresql://app:***@db/app"),
        ("x" * 100_000 + "\nlast\n", "last"),
        ("\n", ""),
    ],
)
def test_the_reason_of_a_failed_job_is_what_it_said_and_no_password(wrote: str, told: str, tmp_path: Path) -> None:
    base = tmp_path / "1-1"
    base.with_suffix(".err").write_text(wrote)
    said = last_words(base)
    assert told in said
    assert "geheim" not in said


def test_a_plan_is_told_without_its_passwords() -> None:
    text = 'version = 1\n[chain]\nname = "c"\nrestore = ["load", "postgresql://app:geheim@db/app"]\n'
    text += '[[process]]\nname = "p"\n[[process.job]]\nname = "a"\nsql = "ALTER ROLE app PASSWORD \'geheim\'"\n'
    text += '[[process.job]]\nname = "b"\nargv = ["load", "postgresql://app:geheim@db/app"]\n'
    for name, words in (
        ("c", """["psql", "-c", "ALTER ROLE app PASSWORD 'geheim'"]"""),
        ("d", """["load", "host=db password='geheim und mehr'"]"""),
        ("e", """["load", "--password", "geheim", "-v", "--token=geheim"]"""),
    ):
        text += f'[[process.job]]\nname = "{name}"\nargv = {words}\n'
    lines = plan_lines(chain_of(text), BatchOptions(Path("c"), 3, 60.0, None), "the sandbox", "app")
    assert "geheim" not in "\n".join(lines)
    assert "  p/a: sql ALTER ROLE ... PASSWORD <removed>" in lines
    assert "  p/e: argv load --password '***' -v '--token=***'" in lines


def test_a_job_of_sql_without_any_is_refused_and_not_planned() -> None:
    text = 'version = 1\n[chain]\nname = "c"\n[[process]]\nname = "p"\n[[process.job]]\nname = "a"\nsql = " \\n"\n'
    with pytest.raises(UsageError, match="it does not say what to run"):
        chain_of(text)


def test_the_examples_are_read_and_their_plan_is_told() -> None:
    path = EXAMPLES / "month-end.toml"
    chain = parse_chain(path.read_text(), source=path.name, folder=EXAMPLES)
    check_files(chain, path.name, str)
    found = read_recorded((EXAMPLES / "month-end.csv").read_text(), chain, source="month-end.csv")
    assert len(found.executions) == 1
    lines = plan_lines(chain, BatchOptions(path, 3, 60.0, Path("stop")), "the sandbox", "app")
    assert lines[0].startswith("chain month-end: 7 jobs of 3 processes, 2 at a time, 3 executions in database app")
    assert "  hand over/tape: skipped, there is no tape library here" in lines
    assert "  load/tables: sql CREATE SCHEMA IF NOT EXISTS month_end; ..." in lines, "that there is more is shown"
    assert any(line.startswith("  load/bookings: sql_file ") and "tried up to 2 times" in line for line in lines)
    assert [line.partition(":")[0] for line in lines[-3:]] == ["undo", "outage", "ends"]
