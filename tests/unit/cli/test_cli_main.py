"""The front door: quick, complete, and every error one of ours."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pgdyno.cli import main
from pgdyno.cli.main import VERBS, command
from pgdyno.errors import UsageError
from pgdyno.studies.project.file import TEMPLATE
from warm_program import run_pgdyno

NEEDLESS_TO_SERVE = (
    "psycopg", "numpy", "scipy", "pydantic", "rich", "statistics", "pgdyno.undo", "pgdyno.model.facts",
    "pgdyno.model.linux", "pgdyno.model.guard", "pgdyno.report.sections", "pgdyno.report.study_record",
)  # fmt: skip
HEAVY = ("numpy", "scipy", "sqlalchemy", "psycopg", "rich", "jinja2", "pydantic", "psutil")


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from click.testing import CliRunner; from pgdyno.cli.main import command; "
        "assert CliRunner().invoke(command, ['--help']).exit_code == 0; "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_lists_every_verb_once_in_a_group_and_a_new_one_last(monkeypatch):
    """Forty verbs in one list were nobody's to read."""
    monkeypatch.setitem(main.VERBS, "toy", "Throw dice.")
    told = CliRunner().invoke(command, ["--help"], terminal_width=80).output
    listed = re.findall(r"^  ([a-z]+) +[A-Z]", told.partition("Look:")[2], re.MULTILINE)
    assert sorted(listed) == sorted(main.VERBS)
    assert told.index("Look:") < told.index("  advise ") < told.index("Measure:") < told.index("  bench ")
    assert told.partition("Other verbs:\n")[2].split() == ["toy", "Throw", "dice."]


def test_the_commands_of_a_verb_are_listed_with_whole_sentences():
    groups = [verb for verb in VERBS if isinstance(command.get_command(click.Context(command), verb), click.Group)]
    assert len(groups) > 10
    for verb in groups:
        told = CliRunner().invoke(command, [verb, "--help"], terminal_width=80).output.partition("Commands:")[2]
        assert told.strip(), verb
        assert "..." not in told.replace("V1,V2,...", ""), told


@pytest.mark.parametrize(
    ("words", "needless"),
    [
        (("project", "check", "plan.toml"), HEAVY),
        (("store", "list", "--store", "s.db"), ("numpy", "scipy", "psycopg", "rich")),
        (("queue", "list", "--store", "s.db"), ("numpy", "scipy", "psycopg", "rich")),
        (("rollback", "--list"), ("scipy", "sqlalchemy", "rich")),
        (("knobs", "list"), ("numpy", "scipy", "sqlalchemy", "psycopg", "pydantic")),
        (("rules",), ("numpy", "scipy", "sqlalchemy", "psycopg")),
        (("bench", "--dry-run"), ("scipy", "sqlalchemy", "pydantic", "rich", "jinja2", "pgdyno.trial.laboratory")),
    ],
    ids=lambda given: " ".join(given[:2]),
)
def test_a_verb_that_only_reads_loads_what_it_reads_with(tmp_path, words, needless):
    (tmp_path / "plan.toml").write_text(TEMPLATE)
    code = (
        "import sys; from pgdyno.cli.main import command; "
        f"command.main({list(words)!r}, standalone_mode=False); "
        f"print([name for name in {needless!r} if name in sys.modules], file=sys.stderr)"
    )
    environment = {**os.environ, "PGDYNO_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("module", "needless"),
    [
        ("pgdyno.web.app", ("numpy", "scipy", "psycopg", "pydantic", "pgdyno.studies.reports", "pgdyno.trial")),
        (
            "pgdyno.studies.session.opening",
            ("numpy", "sqlalchemy", "pgdyno.sandbox.sandbox", "pgdyno.remote.host", "pgdyno.targets.connect_routes"),
        ),
        ("pgdyno.studies.session.study_session", ("scipy", "jinja2", "pydantic")),
        ("pgdyno.studies.bench.run", ("scipy", "jinja2", "rich", "pydantic")),
        ("pgdyno.studies.staircase.run", ("scipy", "jinja2", "rich")),
        ("pgdyno.report.inventory_page", ("rich", "pgdyno.model.results", "pgdyno.model.trial", "pgdyno.workloads")),
        ("pgdyno.owner.worker", ("tomllib", "pgdyno.model.facts", "pgdyno.model.linux")),
        ("pgdyno.advisor.rules.storage_server", ("pgdyno.advisor.storage_server",)),
        ("pgdyno.report.advice.text", ("numpy", "pgdyno.model.trial", "pgdyno.report.sections")),
        ("pgdyno.targets.connect", ("pgdyno.control", "pgdyno.routes")),
        (
            "pgdyno.studies.advice.advise",
            ("numpy", "scipy", "sqlalchemy", "pydantic", "pgdyno.studies.staircase", "pgdyno.control", "pgdyno.routes"),
        ),
    ],
)
def test_what_a_verb_begins_with_loads_no_more_than_that(module, needless):
    code = f"import sys, {module}; print([name for name in {needless!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_advice_without_an_open_session_loads_nothing_that_undoes_one(tmp_path):
    code = (
        "import sys; from types import SimpleNamespace; from pgdyno.studies.advice import advise; "
        "assert not advise._open_sessions(SimpleNamespace(remote=None)); "
        "print([name for name in ('pgdyno.undo.rollback', 'pgdyno.routes', 'pgdyno.control') if name in sys.modules])"
    )
    environment = {**os.environ, "PGDYNO_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "[]"


def test_a_dashboard_loads_nothing_of_a_server_before_a_study_is_silent(tmp_path):
    code = (
        "import sys; import pgdyno.web.server as server; server.run_server = lambda *_, **__: None; "
        "from pgdyno.cli.main import command; "
        f"command.main(['serve', '--port', '0', '--store', {str(tmp_path / 's.db')!r}], standalone_mode=False); "
        f"print([name for name in {NEEDLESS_TO_SERVE!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb):
    result = CliRunner().invoke(command, [verb, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage" in result.output


def test_an_unknown_verb_is_a_usage_error():
    assert run_pgdyno("no-such-verb").returncode == 2


def test_an_error_is_printed_in_three_lines_and_not_as_a_traceback(tmp_path):
    done = run_pgdyno("compare", "1", "2", "--store", str(tmp_path / "s.db"))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((Path(main.__file__).parents[3] / "pyproject.toml").read_text())
    assert run_pgdyno("--version").stdout.strip().endswith(project["project"]["version"])


def typed(tmp_path, *words):
    """Run pgdyno as a user does."""
    return run_pgdyno(*words, PGDYNO_HOME=str(tmp_path))


def test_an_error_is_json_where_json_was_asked_for(tmp_path):
    done = typed(tmp_path, "store", "show", "99", "--json", "--store", str(tmp_path / "s.db"))
    told = json.loads(done.stdout)["error"]
    assert done.returncode == told["exit_code"] != 0
    assert f"error: {told['message']}" in done.stderr
    assert told["hint"] in done.stderr
    wrong = typed(tmp_path, "bench", "--json", "--clients", "none")
    assert json.loads(wrong.stdout)["error"]["exit_code"] == wrong.returncode == 2
    plain = typed(tmp_path, "store", "show", "99", "--store", str(tmp_path / "s.db"))
    assert plain.stdout == ""


def test_without_a_verb_the_help_comes_and_no_error(tmp_path):
    for words in ((), ("store",)):
        done = typed(tmp_path, *words)
        assert done.returncode == 2
        assert done.stderr.lstrip().startswith("Usage: pgdyno")
        assert "error:" not in done.stderr


@pytest.mark.parametrize(("word", "verb"), [("benhc", "bench"), ("advice", "advise"), ("tuen", "tune")])
def test_a_verb_with_a_slip_is_answered_with_the_nearest(tmp_path, word, verb):
    done = typed(tmp_path, word)
    assert done.returncode == 2
    assert f'error: "{word}" is not a verb of pgdyno' in done.stderr
    assert f"pgdyno {verb}" in done.stderr


@pytest.mark.parametrize("verb", ["tune", "bench", "experiment", "matrix", "noise", "selftest", "advise"])
def test_long_help_is_in_groups_and_has_every_flag(verb):
    result = CliRunner().invoke(command, [verb, "--help"])
    titles = [line for line in result.output.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles[0] == f"Options of {verb}:"
    assert "The server:" in titles
    for option in main.command.get_command(None, verb).params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.opts[-1] in result.output


def test_an_interrupt_that_python_wraps_is_an_interrupt(monkeypatch, capsys):
    """Below 3.12 one that comes while a class is made, as in an import, is a RuntimeError: it was called a defect."""

    class Attribute:
        def __set_name__(self, owner, name):
            raise KeyboardInterrupt

    def interrupted(**_):
        type("Owner", (), {"attribute": Attribute()})

    monkeypatch.setattr(main.command, "main", interrupted)
    with pytest.raises(SystemExit) as ended:
        main._run()
    assert ended.value.code == main.INTERRUPTED
    assert "interrupted; nothing on the server" in capsys.readouterr().err


def test_who_leaves_something_behind_when_interrupted_says_what_goes_on(monkeypatch, capsys):
    def interrupted(**_):
        raise click.exceptions.Abort from KeyboardInterrupt("process 7 goes on")

    monkeypatch.setattr(main.command, "main", interrupted)
    with pytest.raises(SystemExit) as ended:
        main._run()
    assert ended.value.code == main.INTERRUPTED
    assert capsys.readouterr().err == "interrupted; process 7 goes on\n"


@pytest.mark.parametrize(
    "end", [lambda: main._end(UsageError("no")), lambda: main._end_interrupted(KeyboardInterrupt())]
)
def test_a_live_line_is_taken_away_before_an_error_is_printed_as_json(end, monkeypatch, capsys):
    printed = list[str]()
    monkeypatch.setattr(main, "begin_line", lambda: printed.append(capsys.readouterr().out))
    monkeypatch.setattr(sys, "argv", ["pgdyno", "tune", "--json"])
    with pytest.raises(SystemExit):
        end()
    assert printed[0] == "", "stdout may be the terminal of the line"
    assert '"exit_code"' in "".join(printed) + capsys.readouterr().out


def test_what_is_left_at_the_end_is_not_looked_through_for_garbage() -> None:
    code = """
import atexit, gc, sys
atexit.register(lambda: sys.stdout.write(f"frozen: {gc.get_freeze_count() > 0}"))
from pgdyno.cli.main import main
sys.argv = ["pgdyno", "--version"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("frozen: True")
