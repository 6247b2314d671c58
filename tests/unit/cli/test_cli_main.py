"""The front door: quick, complete, and every error one of ours."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from pgdyno.cli import main
from pgdyno.cli.main import VERBS, command
from pgdyno.studies.project_file import TEMPLATE

HEAVY = ("numpy", "scipy", "sqlalchemy", "psycopg", "rich", "jinja2", "pydantic", "psutil")


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from click.testing import CliRunner; from pgdyno.cli.main import command; "
        "assert CliRunner().invoke(command, ['--help']).exit_code == 0; "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("words", "needless"),
    [
        (("project", "check", "plan.toml"), HEAVY),
        (("store", "list", "--store", "s.db"), ("numpy", "scipy", "psycopg", "rich")),
        (("queue", "list", "--store", "s.db"), ("numpy", "scipy", "psycopg", "rich")),
        (("rollback", "--list"), ("scipy", "sqlalchemy", "rich")),
        (("knobs", "list"), ("numpy", "scipy", "sqlalchemy", "psycopg")),
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
        ("pgdyno.web.app", ("numpy", "scipy", "psycopg", "pydantic", "pgdyno.report.build", "pgdyno.trial")),
        (
            "pgdyno.studies.opening",
            ("numpy", "sqlalchemy", "pgdyno.target.sandbox", "pgdyno.target.remote.host"),
        ),
        ("pgdyno.studies.stand", ("scipy", "jinja2")),
    ],
)
def test_what_a_verb_begins_with_loads_no_more_than_that(module, needless):
    code = f"import sys, {module}; print([name for name in {needless!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb):
    result = CliRunner().invoke(command, [verb, "--help"])
    assert result.exit_code == 0, result.output
    assert "Usage" in result.output


def test_an_unknown_verb_is_a_usage_error():
    assert run("no-such-verb").returncode == 2


def test_an_error_is_printed_in_three_lines_and_not_as_a_traceback(tmp_path):
    done = run("compare", "1", "2", "--store", str(tmp_path / "s.db"))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_version_is_that_of_the_project():
    project = tomllib.loads((Path(main.__file__).parents[3] / "pyproject.toml").read_text())
    assert run("--version").stdout.strip().endswith(project["project"]["version"])


def run(*words):
    return subprocess.run([sys.executable, "-m", "pgdyno", *words], capture_output=True, text=True, check=False)
