"""Figures that were printed elsewhere, fed through the command line: what follows is computed, never typed."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from matrix_example import TABLES, seed_table
from pgdyno.cli.main import command
from pgdyno.errors import PgdynoError
from pgdyno.store.catalogue import Store
from seed_tables import seed_rows

Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    shutil.copy(TABLES, tmp_path / "seed.json")
    runner = CliRunner()
    return lambda *words: runner.invoke(command, [str(word) for word in words], standalone_mode=False)


def kept(call: Call, file: str, *words: object) -> dict[str, Any]:
    done = call("import", "rows", file, "--scale", 1000, "--store", "s.db", "--json", *words)
    assert done.exception is None, done.exception
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def failure(result: Result) -> PgdynoError:
    assert isinstance(result.exception, PgdynoError), result.exception
    return result.exception


def changes(result: dict[str, Any]) -> list[float]:
    return [round(one["change_pct"], 2) for one in result["contrasts"]]


def csv_of(table: str, path: Path, **changed: object) -> None:
    """Write a table as people have it in a spreadsheet; `changed` replaces cells of its last row."""
    rows = seed_table(table)
    rows[-1].update(changed)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [name for name in rows[0] if not name.startswith("_")], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.requirement("R-CMP-01", "R-CMP-02", "R-CMP-03", "R-CMP-08", "R-REP-03")
def test_two_printed_platforms_are_compared_by_every_denominator(call: Call, tmp_path: Path) -> None:
    words = ("--count", "power.cores=8", "--count", "power.threads=64", "--json", "--store", "s.db")
    power = kept(call, "seed.json", "--table", "power_smt8")["study"]
    xeon = kept(call, "seed.json", "--table", "x86_ht", "--default", "No Tune")["study"]
    found = json.loads(call("compare", "--platforms", f"power={power}", f"x86={xeon}", *words).stdout)
    assert found["valid"]
    assert found["title"].startswith("Per core, power does 2.60 times what x86 does, each at its own best")
    told = " ".join(found["sentences"])
    assert "Tune, 32 instances of 7 clients: per core 2.72 times, per thread 0.68 times, in total 1.36 times" in told
    assert "Tune, 16 instances of 7 clients: per core 2.54 times" in told
    assert "two moments" not in " ".join(found["cautions"])
    assert "driver, period, configuration" in " ".join(found["cautions"]), "what a table does not say nobody checked"
    csv_of("x86_ht", tmp_path / "x86.csv", tps=50000)
    other = kept(call, "x86.csv", "--default", "No Tune")["study"]
    again = json.loads(call("compare", "--platforms", f"power={power}", f"x86={other}", *words).stdout)
    assert "per core 2.48 times, per thread 0.62 times" in " ".join(again["sentences"])
    assert again["title"].startswith("Per core, power does 2.48 times")


@pytest.mark.requirement("R-BEN-15", "R-BEN-16", "R-BEN-17")
@pytest.mark.parametrize(
    ("table", "default", "percent", "tps", "other"),
    [
        ("pgbench_N", "Without -N", 20.96, 60000, 15.43),
        ("fsync", "fsync On", 15.05, 60000, 10.18),
        ("network_adapter", "Diff N/W Adapter", 3.79, 60000, 19.81),
    ],
)
def test_the_gain_of_a_printed_factor_follows_its_rows(
    call: Call, tmp_path: Path, table: str, default: str, percent: float, tps: float, other: float
) -> None:
    assert changes(kept(call, "seed.json", "--table", table, "--default", default)) == [percent]
    csv_of(table, tmp_path / "rows.csv", tps=tps)
    assert changes(kept(call, "rows.csv", "--default", default)) == [other]


def test_the_tests_of_a_table_keep_their_names(call: Call) -> None:
    found = kept(call, "seed.json", "--table", "x86_ht", "--default", "No Tune")
    names = {row["cell"]["configuration"] for row in found["rows"]}
    assert names == {"No Tune", "Tune"}
    told = " ".join(call("report", found["study"], "--store", "s.db").output.split())
    assert "No Tune" in told
    assert "default" not in told.replace("default script", "")
    assert {one["a"]["configuration"] for one in found["contrasts"] if one["axis"] == "configuration"} == {"No Tune"}


def test_a_printed_matrix_says_that_nothing_of_it_was_measured(call: Call) -> None:
    study = kept(call, "seed.json", "--table", "power_smt8", "--label", "S1022")["study"]
    told = " ".join(call("report", study, "--store", "s.db").output.split())
    assert "6 cells, on S1022" in told
    assert "pgdyno measured none of them" in told
    assert "Every cell begins with fresh data" not in told
    assert "What limited it" not in told
    assert "pods of a cluster" not in told
    assert "interleaved in blocks" not in told, "nobody knows in which order they were run"
    assert "prepared protocol" not in told
    assert call("report", study, "-o", "page.md", "--store", "s.db").exception is None
    assert "as found" not in Path("page.md").read_text(), "what the tests had set the table does not tell"
    assert "host, storage, network unknown: the files do not tell it" in told
    with Store.open("s.db") as store:
        trials = store.trials(study)
    assert [trial.outcome.throughput for trial in trials if trial.outcome][:2] == [56470.1, 55241.3]
    assert all("placement" not in trial.spec.factors for trial in trials), "no table says that the load used a socket"


@pytest.mark.requirement("R-MON-12", "R-REP-04")
def test_imported_samples_claim_neither_a_load_nor_a_server(call: Call) -> None:
    sadf = TABLES.parents[1] / "iostat" / "sadf_A.json"
    assert call("import", "sadf", sadf, "--store", "s.db").exception is None
    told = " ".join(call("report", "last", "--store", "s.db").output.split())
    assert "PostgreSQL unknown: the files do not tell it CPUs 2" in told
    assert "clients unknown: the files do not tell it" in told
    for claim in ("block size", "at most data", "protocol", "closed loop", "extensions none"):
        assert claim not in told


@pytest.mark.requirement("R-REP-11")
def test_the_table_that_a_matrix_exports_is_read_back(call: Call, tmp_path: Path) -> None:
    first = kept(call, "seed.json", "--table", "power_smt8")
    assert call("report", first["study"], "--store", "s.db", "--format", "csv", "-o", "out").exception is None
    shutil.copy(next((tmp_path / "out").glob("*-matrix.csv")), tmp_path / "again.csv")
    again = kept(call, "again.csv")
    both = [[{**row, "trials": []} for row in found["rows"]] for found in (first, again)]
    assert [(row["tps"], row["locks"], row["cell"]) for row in both[0]] == [
        (row["tps"], row["locks"], row["cell"]) for row in both[1]
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("C/J,TPS\n4,fast\n", 'row 1 of "t.csv", column tps: "fast" is not a number above 0'),
        ("C/J,TPS\n4,-1\n", '"-1" is not a number above 0'),
        ("C/J,TPS\n4.5,10\n", 'column clients: "4.5" is not a whole number'),
        ("PODs,C/J\n4,10\n", "has no column tps"),
        ("C/J,TPS,colour\n4,10,red\n", 'has a column "colour" that is not known'),
        ("C/J,TPS\n4,10\n4,11\n", 'rows 1 and 2 of "t.csv" are the same cell'),
        ("C/J,TPS\n", '"t.csv" has no rows'),
        ("{", '"t.csv" is not JSON'),
        ("{}", '"t.csv" has no list of rows'),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_by_row_and_column(
    call: Call, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert words in failure(call("import", "rows", "t.csv", "--scale", 10, "--store", "s.db")).message
    assert not (tmp_path / "s.db").exists(), "nothing was begun"


def test_rows_without_latencies_say_so_and_the_default_must_be_one_of_the_tests(call: Call, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("Test,PODs,C/J,TPS\nAlpha,1,8,1000\nBeta,1,8,1100\n")
    words = ("import", "rows", "rows.csv", "--scale", 100, "--store", "s.db")
    page = " ".join(call(*words, "--default", "alpha").output.split())
    assert "1,100 transactions per second at an unknown mean latency" in page
    assert "mean latency there unknown" in page
    refused = failure(call(*words, "--default", "Gamma"))
    assert 'has no test "Gamma"' in refused.message
    assert "It has Alpha, Beta." in str(refused.hint)


@pytest.mark.requirement("R-EXP-03", "R-EXP-04", "R-REP-03")
def test_printed_steps_multiply(call: Call) -> None:
    rows = [row for row in seed_rows("tuning_steps_2017") if row["pct"] > 0]

    def steps(*, first: float) -> list[str]:
        percents = [first, *(row["pct"] for row in rows[1:])]
        return [word for at, percent in enumerate(percents) for word in ("--step", f"step {at}={percent}")]

    told = " ".join(call("compare", *steps(first=12), "--stated", 145, "--of", "throughput").output.split())
    assert "The 6 kept of 6 steps multiply to 144.1 %, beside 145.0 % as stated" in told
    assert "adding their percentages up would give 138.0 %" in told
    assert "without intervals" in told
    changed = json.loads(call("compare", *steps(first=20), "--json").stdout)
    assert round(100 * changed["product"], 1) == 154.3
    lossy = json.loads(call("compare", "--step", "a=10", "--step", "b=-2", "--step", "c=0", "--json").stdout)
    assert [one["outcome"] for one in lossy["steps"]] == ["keep", "drop", "null"]
    assert lossy["product"] == pytest.approx(1.1)
    for bad in ("a", "a=", "a=-100", "=3", "a=1e3"):
        assert "is not NAME=PERCENT" in failure(call("compare", "--step", bad)).message
