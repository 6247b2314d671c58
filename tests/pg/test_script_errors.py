"""A script whose statement fails every time: told at the first run, by script, line, statement and SQLSTATE."""

from __future__ import annotations

import json

import pytest
from test_cli_studies import QUICK, pgdyno

pytestmark = pytest.mark.pg
DATA = "CREATE TABLE t AS SELECT 1 AS i;\n"


@pytest.mark.parametrize(
    ("script", "words", "said"),
    [
        (
            "\\set a random(1, 9)\n-- the table\nSELECT :a FROM nowhere;\n",
            [],
            ['script "s", line 3: relation "nowhere" does not exist', "SQLSTATE 42P01", "SELECT :a FROM nowhere"],
        ),
        ("SELECT 1 \\; SELECT i FROM t;\n", [], ["cannot insert multiple commands", "SQLSTATE 42601", "-M simple"]),
        (
            "SET LOCAL work_mem = ;\n",
            [],
            ['syntax error at or near ";"', "SQLSTATE 42601; the statement is: SET LOCAL"],
        ),
        ("SELECT i FROM t;\nSELECT 1/0;\n", ["-M", "simple"], ["line 2: division by zero", "SQLSTATE 22012"]),
        ("\\set a 0\nSELECT 1/(i * :a) FROM t;\n", ["-M", "simple"], ["division by zero", "SQLSTATE 22012, by"]),
        ("DO $$ BEGIN RAISE 'no such words' USING ERRCODE = 'AB123'; END $$;\n", [], ["SQLSTATE unknown: the error"]),
        ("\\set a nofunc(1)\nSELECT 1;\n", [], ['script "s", line 1', "unexpected function name"]),
    ],
)
def test_the_first_error_ends_the_study_and_is_told_with_its_place(shared_home, tmp_path, script, words, said):
    (tmp_path / "s.sql").write_text(script)
    (tmp_path / "init.sql").write_text(DATA)
    load = ["-w", "custom", "--script", str(tmp_path / "s.sql"), "--init", str(tmp_path / "init.sql"), "-c", "1"]
    options = ["--trials", "1", "--noise-runs", "3", "--only", "work_mem", "--reload-only"]
    store = str(tmp_path / "store.db")
    done = pgdyno(shared_home, "tune", *load, *QUICK, *words, *options, PGDYNO_STORE=store)
    assert done.returncode == 2, done.stderr
    assert [word for word in said if word not in done.stderr] == []
    assert "Quieten" not in done.stderr
    (study,) = json.loads(pgdyno(shared_home, "store", "list", "--store", store, "--json").stdout)
    assert (study["state"], sum(study["trials"].values())) == ("failed", 1)


@pytest.mark.parametrize(
    ("init", "said"),
    [
        ("CREATE TABLE t (i int);\n\nSELEC 1;\n", ['init script, line 3: syntax error at or near "SELEC"', "42601"]),
        ("SELECT 1/0;\n", ["init script, line 1: division by zero", "SQLSTATE 22012"]),
        ("\\nosuch\n", ["init script, line 1: invalid command"]),
    ],
)
def test_an_init_script_that_fails_is_told_with_its_place(shared_home, tmp_path, init, said):
    (tmp_path / "s.sql").write_text("SELECT 1;\n")
    (tmp_path / "init.sql").write_text(init)
    load = ["-w", "custom", "--script", str(tmp_path / "s.sql"), "--init", str(tmp_path / "init.sql"), "-c", "1"]
    done = pgdyno(shared_home, "bench", *load, *QUICK, PGDYNO_STORE=str(tmp_path / "store.db"))
    assert done.returncode == 2, done.stderr
    assert [word for word in said if word not in done.stderr] == []


def test_a_bench_that_fails_after_hundreds_of_transactions_says_one_thing(shared_home, tmp_path):
    """It was complete and failed at once, with exit code 6 and the hint to look into the server's log."""
    (tmp_path / "s.sql").write_text("SELECT 1/(300 - nextval('n'));\n")
    (tmp_path / "init.sql").write_text("CREATE SEQUENCE n;\n")
    load = ["-w", "custom", "--script", str(tmp_path / "s.sql"), "--init", str(tmp_path / "init.sql"), "-c", "1"]
    store = str(tmp_path / "store.db")
    done = pgdyno(shared_home, "bench", *load, *QUICK, "--runs", "3", PGDYNO_STORE=store)
    assert done.returncode == 2, done.stderr
    said = ('script "s", line 1: division by zero', "SELECT 1/(300", "after 299 transactions", "Fix the script")
    assert [word for word in said if word not in done.stderr] == []
    (study,) = json.loads(pgdyno(shared_home, "store", "list", "--store", store, "--json").stdout)
    assert (study["state"], study["trials"], study["judgement"]) == ("failed", {"failed": 1}, None)
    page = pgdyno(shared_home, "report", "last", "--store", store).stdout
    assert "the study failed" in page
    assert "division by zero" in page
