"""Bad files, names and numbers of a user end in one error with a hint and the documented exit code."""

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import click
import psycopg
import pytest

from pgdyno.cli import main, store
from pgdyno.cli.terminal.files import write_text
from pgdyno.errors import EnvironmentUnsuitable, ExitCode, UsageError

HUGE = str(1 << 70)
BINARY = bytes(range(256)) * 16
Said = tuple[int, str]


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """Return what a command says on stderr, and its exit code; its files and folders are in the current folder."""
    monkeypatch.setenv("PGDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PGDYNO_STORE", raising=False)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "binary").write_bytes(BINARY)
    (work / "empty").touch()
    os.mkfifo(work / "fifo")
    (work / "folder").mkdir()
    (work / "broken.toml").write_text("x = [1,\n")
    (work / "ok.conf").write_text("work_mem = 4MB\n")
    (work / "typo.toml").write_text("[laod]\nmeasure = 3\n")
    (work / "endless.toml").write_text("[load]\nmeasure = nan\n")
    (work / "twice.conf").write_text("work_mem = 4MB\nWORK_MEM = 5MB\n")

    def call(*words: str) -> Said:
        if "huge.toml" in words:  # of the hundred tests one asks for it
            (work / "huge.toml").write_bytes(b"# " + b"x" * (17 << 20))
        monkeypatch.setattr("sys.argv", ["pgdyno", *words])
        with pytest.raises(SystemExit) as ended:
            main.main()
        return int(ended.value.code or 0), capsys.readouterr().err

    return call


OFFLINE = ("--pg-conf", "ok.conf", "--pg-version", "16")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("store", "show", HUGE), HUGE),
        (("compare", HUGE, "1"), HUGE),
        (("queue", "remove", HUGE), HUGE),
        (("report", "nonsense"), "nonsense"),
        (("disks", "binary"), "binary"),
        (("disks", "huge.toml"), "larger than 16 MB"),
        (("project", "fix", "empty"), "version"),
        (("project", "check", "broken.toml"), "not TOML"),
        (("project", "report", "folder"), "folder"),
        (("preflight", "missing"), "missing"),
        (("preflight", "twice.conf"), "set twice"),
        (("persist", "binary"), "binary"),
        (("experiment", "--plan", "broken.toml"), "not TOML"),
        (("experiment", "--plan", "binary"), "binary"),
        (("matrix", "missing.toml"), "missing.toml"),
        (("import", "sadf", "folder"), "folder"),
        (("compare", "--iostat", "binary", "empty"), "binary"),
        (("advise", "--pg-conf", "binary", "--pg-version", "16"), "is not text"),
        (("advise", *OFFLINE, "--log", "fifo"), "fifo"),
        (("advise", *OFFLINE, "--log", "binary"), "binary"),
        (("advise", *OFFLINE, "--log", "ok.conf"), "ok.conf"),
        (("advise", *OFFLINE, "--sadf", "fifo"), "fifo"),
        (("advise", *OFFLINE, "--sadf", "binary"), "binary"),
        (("advise", *OFFLINE, "--sadf", "empty"), "empty"),
        (("advise", *OFFLINE, "--iostat", "fifo"), "fifo"),
        (("advise", *OFFLINE, "--iostat", "binary"), "binary"),
        (("advise", *OFFLINE, "--emit", "conf", "--output", "/proc/none"), "/proc/none"),
        (("advise", *OFFLINE, "--report", "/proc/none/x.html"), "/proc/none/x.html"),
        (("advise", "--emit", "nonsense"), "nonsense"),
        (("advise", "--explain", "nonsense"), "nonsense"),
        (("advise", "--source", "nonsense"), "nonsense"),
        (("advise", "--rules", "folder"), "folder"),
        (("advise", "--root", "missing"), "missing"),
        (("inspect", "--root", "missing"), "missing"),
        (("bench", "--sandbox-memory", "1e999GB"), "1e999GB"),
        (("bench", "--plan", "typo.toml"), "laod"),
        (("bench", "--plan", "endless.toml"), "a number without an end"),
        (("matrix", "--instances", "0"), "instances 0"),
        (("matrix", "--mode", "nonsense"), "nonsense"),
        (("matrix", "--driver-cpus", "8191"), "CPU 8191"),
        (("apply", "nonsense"), "nonsense"),
        (("apply", "max-wal-sise"), "max-wal-sise"),
        (("apply", "--conservative", "max-wal-size"), "--conservative is for --study"),
        (("experiment", "--rule", "nonsense"), "nonsense"),
        (("apply", "max-wal-size", "--log", "missing"), "missing"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else None,
)
def test_bad_input_is_one_error_with_its_name_and_a_hint(said, words, named):
    code, error = said(*words)
    assert code == ExitCode.USAGE, error
    assert [line for line in error.splitlines() if line.startswith("error: ") and named in line], error
    assert "\nhint: " in error
    assert "defect" not in error


AB = ("experiment", "--ab", "ok.conf", "empty")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ((*AB, "--step", "one"), "hint: Leave it out, or add --plan FILE."),
        ((*AB, "--confirm", "one"), "hint: Continue with pgdyno experiment --resume STUDY."),
        ((*AB, "--source", "x"), "hint: Leave it out, or add --from-advice."),
        (("experiment", "--sweep", "work_mem=4MB"), "pgdyno knobs show work_mem has its range."),
        (("experiment", "--sweep", "work_mem=4MB,4MB"), "--sweep work_mem=VALUE1,VALUE2"),
        (("matrix", "--conf", "a=ok.conf", "--conf", "a=empty"), "hint: Give each --conf a name of its own."),
        (("queue", "add", "--", "bench", "--help"), "hint: Leave it out: pgdyno queue add -- VERB FLAGS."),
        (("bench", "-w", "ybio", "-D", "shape=round"), "hint: docs/reference/workloads.md has every parameter."),
        (("project", "check", "broken.toml"), "pgdyno project new FILE writes an example."),
        (("bundle", "show", "binary"), "hint: "),
        (("demo", "--output", "/proc/none"), "hint: Name a folder that you may write with --output."),
        (("import", "pods", "ok.conf"), "hint: Fetch it with kubectl logs POD"),
    ],
    ids=lambda given: " ".join(given[:4]) if isinstance(given, tuple) else "",
)
def test_an_error_says_what_to_type_next(said, words, hint):
    code, err = said(*words)
    assert code == ExitCode.USAGE, err
    assert hint in err.splitlines()[-1], err


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (UsageError("a word is wrong"), "hint: Run pgdyno bench --help for the flags and their values."),
        (EnvironmentUnsuitable("a program failed"), "pgdyno rollback --list"),
    ],
)
def test_an_error_without_a_hint_of_its_own_gets_one(error, hint, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["pgdyno", "bench"])
    main.print_error(error)
    assert hint in capsys.readouterr().err.splitlines()[-1]


def test_names_are_refused_before_a_server_is_looked_for(said):
    code, error = said("advise", "--target", "host=/nonexistent", "--explain", "nonsense")
    assert (code, 'there is no rule "nonsense"' in error) == (ExitCode.USAGE, True)


def test_settings_in_utf_16_are_read_as_windows_consoles_redirect_them(said):
    Path("wide.csv").write_text("name,setting\nwork_mem,4096\n", encoding="utf-16")
    code, error = said("advise", "--pg-settings", "wide.csv", "--fail-on", "never")
    assert code == ExitCode.OK, error


def test_the_program_is_called_by_its_name_however_it_was_started(said):
    assert "Run pgdyno --help" in said("nonsense")[1]


def test_a_flag_that_lacks_a_value_names_its_verb(said):
    assert "Run pgdyno tune --help" in said("tune", "--pairs", "5")[1]


def raises(error: Exception) -> click.Command:
    @click.command("store")
    @click.argument("words", nargs=-1)
    def verb(words: tuple[str, ...]) -> None:
        raise error

    return verb


@pytest.mark.requirement("R-SAF-10")
def test_a_defect_is_told_in_one_error_and_its_traceback_kept_without_passwords(said, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "command", raises(KeyError("postgresql://me:s3cr3t@db1/x refused s3cr3t")))
    code, error = said("store", "postgresql://me:s3cr3t@db1/x")
    (kept,) = (tmp_path / "home" / "state").glob("defect-*.txt")
    text = kept.read_text()
    assert (code, "Traceback" in error, "defect of pgdyno: KeyError at " in error) == (ExitCode.UNSUITABLE, False, True)
    assert str(kept) in error
    assert ("Traceback" in text, "s3cr3t" in text + error) == (True, False)
    assert kept.stat().st_mode & 0o077 == 0


def test_a_defect_is_told_where_nothing_can_be_kept(said, monkeypatch):
    monkeypatch.setenv("PGDYNO_HOME", "/proc/none")
    monkeypatch.setattr(store, "command", raises(KeyError("x")))
    code, error = said("store")
    assert (code, "Traceback" in error, "defect of pgdyno" in error) == (ExitCode.UNSUITABLE, False, True)


def test_what_the_system_refuses_is_named_with_its_file(said, monkeypatch):
    monkeypatch.setattr(store, "command", raises(OSError(errno.ENOSPC, "No space left on device", "/x/y")))
    code, error = said("store")
    assert code == ExitCode.UNSUITABLE
    assert error.startswith('error: "/x/y": no space left on device\nhint: ')


@pytest.mark.parametrize("error", [psycopg.errors.AdminShutdown("shut"), psycopg.OperationalError("closed")])
def test_a_session_that_the_server_ends_is_no_defect(said, monkeypatch, error):
    monkeypatch.setattr(store, "command", raises(error))
    code, text = said("store")
    assert code == ExitCode.UNSUITABLE
    assert text.startswith('error: the session with "the server" was lost\n')


def test_help_names_a_number_and_not_the_type_of_a_flag(capsys, monkeypatch):
    for verb in ("tune", "queue"):
        monkeypatch.setattr("sys.argv", ["pgdyno", verb, *(["run"] if verb == "queue" else []), "--help"])
        with pytest.raises(SystemExit):
            main.main()
        assert "RANGE" not in capsys.readouterr().out


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e400"])
@pytest.mark.parametrize("flag", ["--measure", "--rate", "--foreign-cpu"])
def test_a_number_without_an_end_is_refused(said, flag, number):
    code, error = said("bench", flag, number)
    assert (code, flag in error) == (ExitCode.USAGE, True)
    code, error = said("queue", "add", "--", "bench", flag, number)
    assert (code, flag in error) == (ExitCode.USAGE, True)


@pytest.mark.parametrize("flag", ["--script", "--init"])
def test_a_script_without_its_workload_says_which_to_add(said, flag):
    code, error = said("bench", flag, "ok.conf")
    assert (code, f"{flag} is for workload custom" in error) == (ExitCode.USAGE, True)


@pytest.mark.parametrize("size", ["-1GB", "0", "banana"])
def test_a_sandbox_needs_memory(said, size):
    code, error = said("bench", "--sandbox-memory", size)
    assert (code, f'"{size}"' in error) == (ExitCode.USAGE, True)


@pytest.mark.parametrize("redirect", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_a_closed_stream_is_no_defect(tmp_path, redirect):
    shell = ["sh", "-c", f'"$0" -m pgdyno knobs list {redirect}', sys.executable]
    done = subprocess.run(shell, capture_output=True, text=True, env={**os.environ, "PGDYNO_HOME": str(tmp_path)})
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")


def test_a_terminal_without_utf_8_gets_what_it_can_show(tmp_path):
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PGDYNO_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pgdyno", "rules"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **plain})
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")
    assert done.stdout.isascii()


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    shell = ["sh", "-c", '"$0" -m pgdyno rules | head -1', sys.executable]
    done = subprocess.run(shell, capture_output=True, text=True, env={**os.environ, "PGDYNO_HOME": str(tmp_path)})
    assert (len(done.stdout.splitlines()), done.stderr) == (1, "")


@pytest.mark.parametrize("words", [("rules",), ("rules", "--json"), ("rules", "--json", "no-such-rule")])
def test_output_to_a_full_disk_ends_in_words(words, tmp_path):
    """As JSON it ended in a traceback, and with the exit code of findings."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "pgdyno", *words]
        env = {**os.environ, "PGDYNO_HOME": str(tmp_path)}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=env)
    assert done.returncode == (ExitCode.USAGE if "no-such-rule" in words else ExitCode.UNSUITABLE)
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_file_that_cannot_be_written_whole_is_as_it_was(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))  # as a full disk: one byte, and no more
    try:
        with pytest.raises(UsageError, match=r"report\.html.*cannot be written") as caught:
            write_text(path, "new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (path.read_text(), list(tmp_path.iterdir()), bool(caught.value.hint)) == ("old", [path], True)


def test_a_file_is_written_through_its_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_text(tmp_path / "link", "one")
    write_text(tmp_path / "link", "two")
    assert ((tmp_path / "file").read_text(), (tmp_path / "link").is_symlink()) == ("two", True)


def test_last_of_a_store_without_a_study_says_that_it_is_empty(said):
    code, error = said("report", "last")
    assert (code, "holds no study" in error, "pgdyno bench" in error) == (ExitCode.USAGE, True, True)


def test_a_matrix_takes_a_script_by_its_mode(said):
    Path("read.sql").write_text("SELECT 1;\n")
    assert said("matrix", "--mode", "custom", "--script", "read.sql", "--dry-run")[0] == ExitCode.OK


@pytest.mark.requirement("R-SAF-10")
@pytest.mark.parametrize(
    ("words", "flag"),
    [
        (("guards", "--target", "host=/nowhere user=dba password=hunter2"), "--target"),
        (("preflight", "ok.conf", "--target", "postgresql://dba:hunter2@127.0.0.1:1/app"), "--target"),
        (("store", "list", "--store", "postgresql://dba:hunter2@127.0.0.1:1/app"), "--store"),
    ],
)
def test_a_password_on_the_command_line_is_warned_of_once_and_never_repeated(said, words, flag):
    code, text = said(*words)
    assert code == ExitCode.UNSUITABLE
    assert text.count(f"warning: the password in {flag} is visible to every user") == 1
    assert "PGPASSFILE" in text
    assert "service file" in text
    assert "hunter2" not in text


def test_without_a_password_nothing_is_warned_of(said, monkeypatch):
    assert "warning" not in said("guards", "--target", "host=/nowhere user=dba")[1]
    monkeypatch.setenv("PGDYNO_STORE", "postgresql://dba:hunter2@127.0.0.1:1/app")
    assert "warning" not in said("store", "list")[1], "the environment is not the command line"
