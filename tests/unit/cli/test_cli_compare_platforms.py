"""`pgdyno bundle` and `pgdyno compare --platforms|--iostat|--generation`, as a user calls them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pgdyno.cli.main import command
from pgdyno.errors import ExitCode, PgdynoError, UsageError
from pgdyno.model.configuration import BASELINE
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.store.catalogue import Store

IOSTAT = Path(__file__).parents[2] / "data" / "iostat"
Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    return lambda *words: runner.invoke(command, [str(word) for word in words], standalone_mode=False)


def bench(place: Path, study_id: str, architecture: str, cores: int, tps: float, scale: int = 10) -> None:
    host = {"architecture": architecture, "physical_cores": cores, "cores": cores * 2, "sockets": 1}
    workload = WorkloadSpec("tpcb-like", {"scale": scale}, "f00d", "TPC-B like", False)
    study = Study(
        study_id, StudyKind.BENCH, "n", StudyState.COMPLETE, 1.0, "db", study_id, {"host": host}, workload,
        LoadPlan(clients=4, jobs=2, warmup_s=1, measure_s=2),
    )  # fmt: skip
    with Store.open(place) as store:
        store.add_study(study)
        for factor in (0.99, 1.0, 1.01):
            run = store.begin_trial(study.id, TrialSpec(BASELINE, Role.ARM, "bench", 1, 0))
            store.finish_trial(run, Outcome(TrialState.COMPLETE, throughput=tps * factor))


def failure(result: Result) -> PgdynoError:
    assert isinstance(result.exception, PgdynoError), result.exception
    return result.exception


@pytest.mark.requirement("R-CMP-01", "R-CMP-08")
def test_a_study_of_the_store_against_a_bundle_of_another_machine(call: Call, tmp_path: Path) -> None:
    bench(tmp_path / "a.db", "p1", "ppc64le", 8, 60000)
    bench(tmp_path / "b.db", "x1", "x86_64", 16, 40000)
    assert call("bundle", "export", "x1", "-o", "x86.pgdyno", "--store", "b.db").exception is None
    listed = json.loads(call("bundle", "show", "x86.pgdyno", "--json").stdout)
    assert [(one["id"], one["trials"]) for one in listed["studies"]] == [("x1", 3)]
    found = call("compare", "--platforms", "p1", "x86.pgdyno", "--store", "a.db", "--json")
    values = json.loads(found.stdout)
    assert (found.return_value, values["valid"]) == (ExitCode.OK, True)
    assert values["title"].startswith("Per core, ppc64le does 3.00 times what x86_64 does")
    with Store.open(tmp_path / "a.db") as store:
        assert [study.id for study in store.studies()] == ["p1"], "reading a bundle for a comparison keeps nothing"
    imported = call("bundle", "import", "x86.pgdyno", "--store", "a.db", "--json")
    assert json.loads(imported.stdout) == [{"study": "x1", "trials": 3, "unchanged": False}]
    assert "unchanged" in call("bundle", "import", "x86.pgdyno", "--store", "a.db").output
    again = json.loads(call("compare", "--platforms", "p1", "x1", "--store", "a.db", "--json").stdout)
    assert [one["ratio"] for one in again["best"]["ratios"]] == [one["ratio"] for one in values["best"]["ratios"]]


@pytest.mark.requirement("R-CMP-07")
def test_another_data_set_makes_it_invalid_with_an_exit_code(call: Call, tmp_path: Path) -> None:
    bench(tmp_path / "a.db", "p1", "ppc64le", 8, 60000)
    bench(tmp_path / "a.db", "x1", "x86_64", 16, 40000, scale=20)
    found = call("compare", "--platforms", "new=p1", "old=x1", "--store", "a.db")
    assert found.return_value == ExitCode.NOT_RESOLVED
    assert "invalid" in found.output
    assert "data set differs: scale 10 on new, scale 20 on old" in " ".join(found.output.split())


@pytest.mark.requirement("R-CMP-06")
def test_prices_and_counts_by_name_and_by_place(call: Call, tmp_path: Path) -> None:
    bench(tmp_path / "a.db", "p1", "ppc64le", 8, 60000)
    bench(tmp_path / "a.db", "x1", "x86_64", 16, 40000)
    words = ("compare", "--platforms", "new=p1", "x1", "--store", "a.db", "--json")
    found = json.loads(call(*words, "--price", "new=1000/core", "--price", "B=4000", "--count", "A.sockets=2").stdout)
    ratios = {one["denominator"]: one["ratio"] for one in found["best"]["ratios"]}
    assert ratios["per price"] == pytest.approx(0.75)
    assert ratios["per socket"] == pytest.approx(0.75)
    assert found["b"]["name"] == "x86_64"
    for bad in ("--price=A=x", "--price=C=1", "--price=A=1/thread", "--price=A=-1", "--count=A=8", "--count=A.legs=4"):
        assert isinstance(failure(call(*words, bad)), UsageError)


def test_reports_in_every_form(call: Call, tmp_path: Path) -> None:
    bench(tmp_path / "a.db", "p1", "ppc64le", 8, 60000)
    bench(tmp_path / "a.db", "x1", "x86_64", 16, 40000)
    for name, beginning in (("r.html", "<!DOCTYPE html>"), ("r.md", "# Per core"), ("r.txt", "Per core")):
        assert call("compare", "--platforms", "p1", "x1", "--store", "a.db", "-o", name).return_value == ExitCode.OK
        assert (tmp_path / name).read_text().lstrip().lower().startswith(beginning.lower())


def test_the_ways_of_comparing_exclude_each_other(call: Call, tmp_path: Path) -> None:
    for words in ((), ("1",), ("1", "2", "3"), ("1", "2", "--platforms", "a", "b")):
        assert "needs two runs" in failure(call("compare", *words, "--store", "a.db")).message
    bench(tmp_path / "a.db", "p1", "ppc64le", 8, 60000)
    assert "is called" not in failure(call("compare", "--platforms", "p1", "nothing", "--store", "a.db")).message
    named = failure(call("compare", "--platforms", "x=p1", "x=p1", "--store", "a.db"))
    assert 'both platforms are called "x"' in named.message


@pytest.mark.requirement("R-CMP-08")
def test_a_study_is_not_compared_with_itself_where_last_is_the_imported_one(call: Call, tmp_path: Path) -> None:
    bench(tmp_path / "b.db", "x1", "x86_64", 16, 40000)
    call("bundle", "export", "x1", "-o", "x86.pgdyno", "--store", "b.db")
    call("bundle", "import", "x86.pgdyno", "--store", "a.db")
    refused = failure(call("compare", "--platforms", "power=last", "x86=x86.pgdyno", "--store", "a.db"))
    assert '"last" and "x86.pgdyno" are the same study, x1' in refused.message
    assert "also where it was imported" in str(refused.detail)
    assert refused.exit_code == ExitCode.USAGE


def test_a_place_that_cannot_be_looked_at_is_refused_as_unknown(call: Call, tmp_path: Path) -> None:
    bench(tmp_path / "a.db", "p1", "x86_64", 8, 60000)
    place = "n" * 300  # longer than a file's name may be: the kernel's refusal stands for that of a closed folder
    assert place in failure(call("compare", "--platforms", "p1", place, "--store", "a.db")).message


def test_a_bundle_of_several_studies_has_to_be_imported_first(call: Call, tmp_path: Path) -> None:
    for name in ("p1", "x1"):
        bench(tmp_path / "a.db", name, "x86_64", 8, 60000)
    call("bundle", "export", "p1", "x1", "-o", "two.pgdyno", "--store", "a.db")
    assert "has 2 studies" in failure(call("compare", "--platforms", "p1", "two.pgdyno", "--store", "a.db")).message


@pytest.mark.requirement("R-STO-12")
def test_iostat_before_and_after(call: Call) -> None:
    words = ("compare", "--iostat", IOSTAT / "iostat_before.txt", IOSTAT / "iostat_after.txt")
    found = json.loads(call(*words, "--device", "edb_data_enc", "--device", "edb_stock_enc", "--json").stdout)
    assert "Mean write wait 11.35 ms before, 7.06 ms after: −37.8 %." in found["sentences"]
    assert "edb_stock_enc, new afterwards, carries 64.3 % of the data." in found["sentences"]
    with_log = " ".join(call(*words).output.split())
    assert "carries 55.7 % of the data" in with_log
    assert "none of these devices" in failure(call(*words, "--device", "sda")).message


@pytest.mark.requirement("R-CMP-09")
def test_generations(call: Call) -> None:
    found = call("compare", "--generation", "z900->z990=2.2/1.6", "--generation", "z990->z9=1.6/1.4", "--json")
    assert [round(one["beyond_clock"], 3) for one in json.loads(found.stdout)["steps"]] == [1.375, 1.143]
    for bad in ("a", "a=1", "a=0/1", "a=1/0", "a=x/1"):
        assert "is not STEP=METRIC/CLOCK" in failure(call("compare", "--generation", bad)).message


def test_a_study_that_came_in_a_bundle_is_not_resumed(tmp_path: Path) -> None:
    from pgdyno.studies.session.ownership import owning

    bench(tmp_path / "a.db", "p1", "x86_64", 8, 60000)
    with Store.open(tmp_path / "a.db") as store:
        study = replace(store.study("p1"), id="p2", state=StudyState.INTERRUPTED, options={"imported": {}})
        store.add_study(study)
        with pytest.raises(UsageError, match="measured on another machine"), owning(store, "p2", 0.0, resumes=True):
            pass
