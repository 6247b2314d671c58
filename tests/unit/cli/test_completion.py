"""Completion in a shell: verbs, flags, knobs, rules and studies, without anything heavy, and never an error."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from pgdyno.cli.main import VERBS
from pgdyno.knobs.linux import load_all_knobs
from pgdyno.knobs.names import knob_names
from pgdyno.store.catalogue import Store
from warm_program import RunningText, run_pgdyno

HEAVY = ("numpy", "scipy", "sqlalchemy", "psycopg", "rich", "jinja2", "pydantic", "psutil")


def completed(home: Path, *words: str) -> list[str]:
    """Return what the script of bash would be told for these words, the last of them not yet typed to its end."""
    environment = {
        "PGDYNO_HOME": str(home),
        "COMP_WORDS": " ".join(("pgdyno", *words)),
        "COMP_CWORD": str(len(words)),
        "_PGDYNO_COMPLETE": "bash_complete",
    }
    assert "PGDYNO_STORE" not in os.environ
    out, told = RunningText("from pgdyno.cli.main import main; main()", **environment).communicate(timeout=60)
    assert told == ""
    return [line.partition(",")[2] for line in out.splitlines()]


def test_verbs_and_flags_are_completed(tmp_path: Path) -> None:
    assert completed(tmp_path, "") == list(VERBS)
    assert completed(tmp_path, "ad") == ["advise"]
    assert "--window" in completed(tmp_path, "advise", "--w")
    assert "list" in completed(tmp_path, "store", "")
    assert completed(tmp_path, "report", "--format", "m") == ["md"]


@pytest.mark.parametrize("words", [("tune", "--only", "shared_bu"), ("knobs", "show", "shared_bu")])
def test_knobs_are_completed(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert completed(tmp_path, *words) == ["shared_buffers"]


def test_every_knob_of_the_catalogue_has_its_name_here() -> None:
    assert set(knob_names()) == set(load_all_knobs())


@pytest.mark.parametrize("words", [("apply",), ("experiment", "--rule"), ("advise", "--explain")])
def test_rules_are_completed(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert completed(tmp_path, *words, "dirty-b") == ["dirty-bytes"]


@pytest.mark.parametrize("words", [("report",), ("store", "show"), ("tune", "--resume"), ("apply", "--study")])
def test_studies_are_completed_the_newest_first(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert completed(tmp_path, *words, "") == ["last"]
    store = tmp_path / "data" / "pgdyno.db"
    store.parent.mkdir()
    Store.open(store).close()  # our own schema, which the quick reader must fit
    row = "INSERT INTO study VALUES (?, 'tune', 'a name', 'complete', ?, '', '', '{}', '{}', '{}', '{}', NULL)"
    with closing(sqlite3.connect(store)) as database:
        database.executemany(row, [("20260101-old", 1), ("20260102-new", 2), ("20260103-a b;$(x)", 3)])
        database.commit()
    assert completed(tmp_path, *words, "") == ["last", "20260102-new", "20260101-old"]
    assert completed(tmp_path, *words, "2026010") == ["20260102-new", "20260101-old"]


@pytest.mark.parametrize("words", [("frobnicate", ""), ("advise", "--root", ""), ("report", "--store", "x", "l")])
def test_nothing_to_complete_is_no_error(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "pgdyno.db").write_text("no database")
    completed(tmp_path, *words)
    assert completed(tmp_path, "report", "") == ["last"]


def test_completion_loads_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from contextlib import suppress; from pgdyno.cli.main import main\n"
        "with suppress(SystemExit): main()\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    for words in ("pgdyno", "pgdyno tune --only sh", "pgdyno report 2", "pgdyno apply d"):
        environment = {**os.environ, "PGDYNO_HOME": str(tmp_path), "COMP_WORDS": words}
        environment |= {"COMP_CWORD": str(max(1, words.count(" "))), "_PGDYNO_COMPLETE": "bash_complete"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        assert done.stderr.strip() == "[]", words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(tmp_path: Path, shell: str) -> None:
    done = run_pgdyno("completion", shell, PGDYNO_HOME=str(tmp_path))
    script = done.stdout
    assert done.returncode == 0
    assert f"_PGDYNO_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        checked = [shell, "--no-execute" if shell == "fish" else "-n"]
        assert subprocess.run(checked, input=script, text=True, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_itself_completes_with_it(tmp_path: Path) -> None:
    program = tmp_path / "pgdyno"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pgdyno "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(pgdyno completion bash)"; COMP_WORDS=(pgdyno matr); COMP_CWORD=1; _pgdyno_completion pgdyno; '
        'echo "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PGDYNO_HOME": str(tmp_path)}
    argv = ["bash", "--norc", "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment)
    assert (done.stdout.strip(), done.stderr) == ("matrix", "")
