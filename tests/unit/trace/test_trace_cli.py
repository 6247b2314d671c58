"""`pgdyno trace` on the example: what it prints, its exit codes, and traces that are not what they say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from made_trace import made_trace
from pgdyno.cli.main import command
from pgdyno.errors import UsageError
from pgdyno.replay.captured import asked_of
from pgdyno.trace.cut import reads_alone
from pgdyno.trace.parquet import read_meta, read_rows, write_meta, write_rows
from pgdyno.trace.schema import TRACE

EXAMPLE = Path(__file__).parents[3] / "examples" / "traces" / "load.csv"


def run(*words: object) -> Result:
    return CliRunner().invoke(command, ["trace", *map(str, words)], standalone_mode=False)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trace") / "load.parquet"
    done = run("build", EXAMPLE, "--output", out)
    assert done.return_value == 0
    assert done.stdout == "csvlog B: 48 statements, 6 sessions, 37 transactions, 11 errors in 0.7 s\n"
    return out


def test_show_masks_what_users_typed(trace: Path, tmp_path: Path) -> None:
    masked, plain = run("show", trace), run("show", trace, "--values")
    assert "ünïcode" not in masked.output
    assert "insert into things values ($1, $2, $3)" in " ".join(masked.output.split())
    assert "where id = 1 " in " ".join(plain.output.split())
    assert "where id = 1 " not in " ".join(masked.output.split())
    assert run("show", trace, "--report", tmp_path / "load.html").exception is None
    assert "48 statements of 6 sessions" in (tmp_path / "load.html").read_text()


def test_show_as_json(trace: Path) -> None:
    found = json.loads(run("show", trace, "--json").stdout)
    assert found["errors"] == {"22012": 3, "23505": 3, "42P01": 2, "25P02": 1, "42601": 1, "P0042": 1}
    assert found["kinds"] == {"simple": 24, "extended": 21, "connect": 6, "disconnect": 6, "parse": 3}
    assert sum(one["statements"] for one in found["slices"]) == 48
    assert found["most_sessions"] == 1


def test_check_of_a_trace_and_of_logs(trace: Path, tmp_path: Path) -> None:
    assert run("check", trace).return_value == 0
    assert json.loads(run("check", trace, "--json").stdout)["whole"] is True
    assert run("check", EXAMPLE).return_value == 0
    log = tmp_path / "pg.csv"
    log.write_bytes(EXAMPLE.read_bytes().replace(b"unnamed portal with parameters: $1 = '0'", b""))
    done = run("check", log)
    assert done.return_value == 1
    assert "missing: 1 statement whose bound values are not in the log" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["pg.csv"]


def test_a_trace_that_was_changed_is_not_checked(trace: Path, tmp_path: Path) -> None:
    other = tmp_path / "load.parquet"
    write_rows(other, TRACE, list(read_rows(trace))[:-1])
    other.with_suffix(".json").write_bytes(trace.with_suffix(".json").read_bytes())
    assert "is not the file" in str(run("check", other).exception)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 3}, "has version 3, this program knows 2"),
        ({"version": "x"}, "does not hold the facts"),
        ({"statements": "many"}, "does not hold the facts"),
        ({"lost": 5}, "does not hold the facts"),
    ],
)
def test_facts_of_another_version_or_none(trace: Path, tmp_path: Path, change: dict[str, Any], words: str) -> None:
    other = tmp_path / "load.parquet"
    other.write_bytes(trace.read_bytes())
    facts = json.loads(trace.with_suffix(".json").read_text())
    other.with_suffix(".json").write_text(json.dumps(facts | change))
    for verb in ("show", "check"):
        error = run(verb, other).exception
        assert isinstance(error, UsageError)
        assert words in str(error)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + b"\x00\xff" * 500, b"not a trace", b"PAR1PAR1"])
def test_what_is_no_parquet_file(trace: Path, tmp_path: Path, content: bytes) -> None:
    other = tmp_path / "load.parquet"
    other.write_bytes(content)
    other.with_suffix(".json").write_bytes(trace.with_suffix(".json").read_bytes())
    error = run("show", other).exception
    assert isinstance(error, UsageError)
    assert "Parquet" in str(error)


def test_a_trace_whose_footer_is_damaged_is_refused_in_words(trace: Path, tmp_path: Path) -> None:
    other, whole = tmp_path / "load.parquet", trace.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    other.write_bytes(whole[: -8 - length] + b"\xff" * length + whole[-8:])
    other.with_suffix(".json").write_bytes(trace.with_suffix(".json").read_bytes())
    for words in (("show", other), ("cut", other, "--output", tmp_path / "part.parquet")):
        error = run(*words).exception
        assert isinstance(error, UsageError), words
        assert "Parquet" in str(error)


def test_another_table_is_no_trace(trace: Path, tmp_path: Path) -> None:
    other = tmp_path / "load.parquet"
    write_rows(other, TRACE[:3], [(1, 2, "x")])
    other.with_suffix(".json").write_bytes(trace.with_suffix(".json").read_bytes())
    assert 'is no trace: column "due_us" is missing' in str(run("show", other).exception)


@pytest.mark.parametrize("folder", [".", "/"])
@pytest.mark.parametrize("words", [("trace", "show"), ("replay", "--sandbox", "new")])
def test_a_folder_without_a_name_is_no_trace(words: tuple[str, ...], folder: str) -> None:
    error = CliRunner().invoke(command, [*words, folder], standalone_mode=False).exception
    assert f'"{folder}" is a folder and no trace' in str(error)


def test_a_replay_reads_its_trace_before_it_opens_a_target(trace: Path, tmp_path: Path) -> None:
    """A path that is no trace makes no sandbox, and is told as what it is while another replay has the sandbox."""
    (tmp_path / "half.json").write_bytes(trace.with_suffix(".json").read_bytes())
    (tmp_path / "half.parquet").write_bytes(b"PAR1 and no more")
    for path, words in (
        (tmp_path / "none.parquet", "cannot be read"),
        (tmp_path / "half.parquet", "is no Parquet file that can be read"),
    ):
        with patch("pgdyno.studies.session.opening.opened", side_effect=AssertionError("a target was opened")):
            asked = CliRunner().invoke(command, ["replay", "--sandbox", "new", str(path)], standalone_mode=False)
        assert words in str(asked.exception)


def test_cut_by_application_and_what_reads(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "part.parquet"
    words = ("--application", "prepared-0", "--application", "simple-0", "--read-only", "--mask", "--json")
    facts = json.loads(run("cut", trace, "--output", out, *words).stdout)
    assert (facts["sessions"], facts["masked"], facts["refused"]) == (2, True, {"writes, or may write": 5})
    rows = list(read_rows(out, ("session", "seq", "kind", "sql", "params", "refused")))
    assert {row[0] for row in rows} == {0, 1}
    assert all(row[1] == place for place, row in enumerate(one for one in rows if one[0] == 1))
    assert {value for row in rows for value in row[4] or () if value} == {"?"}
    assert not any("ünïcode" in (row[3] or "") for row in rows)
    assert run("check", out).return_value == 0


def test_cut_by_time_makes_up_the_edges(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "part.parquet"
    whole = list(read_rows(trace, ("due_us", "kind")))
    middle = [due for due, kind in whole if kind == "extended"][8] / 1e6
    assert run("cut", trace, "--output", out, "--from", f"{middle:.6f}").exception is None
    rows = list(read_rows(out, ("session", "kind", "due_us", "implied")))
    assert rows[0] == (0, "connect", 0, True)
    assert min(row[2] for row in rows) == 0
    out = tmp_path / "nothing.parquet"
    assert "nothing is left" in str(run("cut", trace, "--output", out, "--from", 99).exception)
    assert "nothing of trace" in str(run("cut", trace, "--output", out, "--user", "nobody").exception)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("select 1", True), ("with x as (select 1) select * from x", True), ("begin", True), ("show work_mem", True),
        ("select * from t for update", False), ("select * into u from t", False), ("select nextval('s')", False),
        ("with x as (delete from t returning 1) select * from x", False), ("insert into t values (1)", False),
        ("prepare p as insert into t values (1)", False), ("call p()", False), ("selec 1", False), ("", True),
        ("do $$ begin end $$", False), ("explain analyze delete from t", False), ("vacuum", False),
    ],
)  # fmt: skip
def test_what_reads_alone(text: str, reads: bool) -> None:
    assert reads_alone(text) is reads


def test_an_output_of_another_name(trace: Path, tmp_path: Path) -> None:
    assert "no such file or directory" in str(run("build", EXAMPLE, "--output", tmp_path / "a" / "x.parquet").exception)
    assert list(tmp_path.iterdir()) == []
    assert "does not end in .parquet" in str(run("build", EXAMPLE, "--output", tmp_path / "x.db").exception)
    assert 'encoding "KLINGON" is unknown' in str(
        run("build", EXAMPLE, "--output", tmp_path / "x.parquet", "--encoding", "a=KLINGON").exception
    )


@pytest.mark.parametrize("verb", ["show", "check"])
def test_a_trace_that_is_cut_is_named(trace: Path, tmp_path: Path, verb: str) -> None:
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(trace.read_bytes()[:2000])
    cut.with_suffix(".json").write_bytes(trace.with_suffix(".json").read_bytes())
    error = run(verb, cut).exception
    assert isinstance(error, UsageError)
    assert "cut.parquet" in error.one_line
    with pytest.raises(UsageError, match='" is no Parquet file that can be read'):
        asked_of(cut)


@pytest.mark.parametrize("words", [("show",), ("check",), ("cut", "--output", "part.parquet", "--to", "1")])
def test_a_trace_whose_facts_are_of_another_file_is_refused(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    other = made_trace(tmp_path / "other.parquet", sessions=1, seconds=3.0)
    other.with_suffix(".json").write_bytes(trace.with_suffix(".json").read_bytes())
    error = run(words[0], other, *words[1:]).exception
    assert isinstance(error, UsageError)
    assert f'trace "{other}" is not the file that "other.json" is about' in str(error)


def test_a_trace_without_rows_is_shown_and_has_nothing_to_cut(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "none.parquet"
    digest = write_rows(path, TRACE, [])
    write_meta(path, replace(read_meta(trace), digest=digest, sessions=0, statements=0, transactions=0, errors=0))
    assert run("check", path).exception is None
    assert run("show", path).exception is None
    error = run("cut", path, "--output", tmp_path / "part.parquet", "--to", "0.5").exception
    assert isinstance(error, UsageError)
    assert "is left" in str(error)
