"""A study goes from one store to another and keeps every number, between SQLite and PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fix_postgres import NIGHT
from pgdyno.errors import UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.model.record import CheckRecord, InstanceRecord, PlanRecord, TextRecord
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import Event, HistogramRow, SampleRow
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LatencySummary, LoadPlan, Outcome, Role, Trial, TrialSpec, TrialState, WorkloadSpec
from pgdyno.store.catalogue import Store
from pgdyno.studies.bundles import export_studies, import_studies
from result_example import made

WORKLOAD = WorkloadSpec("tpcb-like", {"scale": 10}, "f00d", "TPC-B like", False)
PLAN = LoadPlan(clients=4, jobs=2, warmup_s=1, measure_s=2, instances=2)
FACTS = {"host": {"cores": 2, "swap": {"unknown": "not read"}}, "settings": {"work_mem": "4096"}}
KINDS = (InstanceRecord, CheckRecord, PlanRecord, TextRecord)
number = st.floats(allow_nan=False, allow_infinity=False)
word = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@pytest.fixture
def stores(new_store: Callable[[], str]) -> Iterator[tuple[Store, Store]]:
    with Store.open(new_store()) as here, Store.open(new_store()) as there:
        yield here, there


def make(store: Store, name: str, outcome: Outcome | None = None, note: str = "note", values: float = 1.5) -> Study:
    """Write a matrix of three finished trials and one that is still running, with a row in every table."""
    study = Study(
        name, StudyKind.STAIRCASE, note, StudyState.RUNNING, 7.25, "db1", "e1", FACTS, WORKLOAD, PLAN, {"seed": 1}
    )
    store.add_study(study)
    runs: list[int] = []
    for slot in range(4):
        spec = TrialSpec(
            Configuration.of({"work_mem": f"{slot + 1}MB"}), Role.CELL, "cell", 1, slot,
            repeats=runs[-1] if runs else None, factors={"clients": str(slot)},
        )  # fmt: skip
        run = store.begin_trial(study.id, spec)
        for table, shape in TABLES.items():
            cells = {"float": values, "int": 2**40 + slot, "text": note}
            row = tuple(cells[column.kind] for column in shape.columns)
            store.add_samples(run, [SampleRow(table, 10.0 + second, row) for second in range(2)])
        store.add_histograms(run, [HistogramRow(10, 0, "s", 5, 2**40, 1, 2, 3, bytes(range(256)))])
        store.add_events(run, [Event(10.5, "reload", note)])
        store.add_records(run, [
            InstanceRecord(0, 4, 1.0, 2.0, 9, 0, values, None, 0.1), CheckRecord("c", None, note),
            PlanRecord("q", "s", note), TextRecord("log", note),
        ])  # fmt: skip
        if slot < 3:
            store.finish_trial(run, outcome or Outcome(TrialState.COMPLETE, throughput=1234.5 + slot))
            runs.append(run)
    store.update_study(study.id, result=result_of(runs))
    return study


def result_of(runs: list[int]) -> StudyResult:
    """Return a result that names these runs in each of the ways in which one can."""
    step = {
        "baseline_runs": runs[:2],
        "runs": {"before": {"qualified": runs[1], "all": runs}},
        "pairs": [{"block": 1, "a_run": runs[0], "b_run": runs[2]}],
    }
    members = {"baseline": {"run": runs[0]}, "trials": {"complete": 3}, "elapsed_s": 3.5, "steps": [step]}
    return made(StudyKind.STAIRCASE, members)


def told(store: Store, trial: Trial) -> list[Any]:
    """Return all that a store knows of a trial, without its number."""
    samples = {table: store.samples(trial.id, table) for table in TABLES}
    records = [store.records(trial.id, kind) for kind in KINDS]
    spec = replace(trial.spec, repeats=None)
    return [spec, trial.state, trial.outcome, samples, store.histograms(trial.id), store.events(trial.id), records]


def finished(store: Store, study: Study) -> list[Trial]:
    return [trial for trial in store.trials(study.id) if trial.state is not TrialState.RUNNING]


@pytest.mark.requirement("R-CMP-08")
def test_every_number_arrives_and_trials_are_renumbered(stores: tuple[Store, Store], tmp_path: Path) -> None:
    here, there = stores
    make(there, "other")
    study = make(here, "20260101-matrix")
    export_studies(here, [study.id], tmp_path / "a.pgdyno")
    (done,) = import_studies(there, tmp_path / "a.pgdyno", lambda: 99.0)
    assert (done.study, done.trials, done.unchanged) == (study.id, 3, False)
    before, after = finished(here, study), there.trials(study.id)
    assert [told(here, trial) for trial in before] == [told(there, trial) for trial in after]
    ids = {old.id: new.id for old, new in zip(before, after, strict=True)}
    assert set(ids).isdisjoint(ids.values())
    assert [trial.spec.repeats for trial in after] == [None, after[0].id, after[1].id]
    arrived = there.study(study.id)
    numbers = [trial.id for trial in after]
    assert arrived.result == result_of(numbers)
    assert (arrived.state, arrived.environment, arrived.facts) == (StudyState.INTERRUPTED, "e1", FACTS)
    mark = arrived.options["imported"]
    assert isinstance(mark, dict)
    assert mark["trials"] == {str(old): new for old, new in ids.items()}
    assert (mark["environment"], mark["at"]) == ("e1", 99.0)


@pytest.mark.requirement("R-CMP-08")
def test_a_second_import_changes_nothing_and_another_content_is_refused(
    stores: tuple[Store, Store], tmp_path: Path
) -> None:
    here, there = stores
    study = make(here, "s1")
    export_studies(here, ["s1"], tmp_path / "a.pgdyno")
    import_studies(there, tmp_path / "a.pgdyno")
    before = there.study("s1")
    assert [one.unchanged for one in import_studies(there, tmp_path / "a.pgdyno")] == [True]
    assert [one.unchanged for one in import_studies(here, tmp_path / "a.pgdyno")] == [True]
    assert (there.study("s1"), len(there.trials("s1"))) == (before, 3)
    here.update_study(study.id, state=StudyState.FAILED, ended="the budget ran out")
    make(here, "s2")
    export_studies(here, ["s2", "s1"], tmp_path / "b.pgdyno")
    with pytest.raises(UsageError, match="already, with other contents"):
        import_studies(there, tmp_path / "b.pgdyno")
    assert [one.id for one in there.studies()] == ["s1"]


def test_a_bundle_goes_on_from_the_store_that_it_came_to(stores: tuple[Store, Store], tmp_path: Path) -> None:
    here, there = stores
    make(there, "other")
    study = make(here, "s1")
    export_studies(here, ["s1"], tmp_path / "a.pgdyno")
    import_studies(there, tmp_path / "a.pgdyno")
    export_studies(there, ["s1"], tmp_path / "b.pgdyno")
    import_third = Store.open(tmp_path / "third.db")
    import_studies(import_third, tmp_path / "b.pgdyno")
    assert [told(here, t) for t in finished(here, study)] == [told(import_third, t) for t in import_third.trials("s1")]
    import_third.close()


@settings(max_examples=8 if NIGHT else 3, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
@given(values=st.lists(number, min_size=6, max_size=6), count=st.integers(0, 2**62), text=word, note=word)
def test_any_number_and_any_word_arrives(
    stores: tuple[Store, Store], tmp_path: Path, values: list[float], count: int, text: str, note: str
) -> None:
    here, there = stores
    outcome = Outcome(
        TrialState.DISTURBED, reason=text, throughput=values[0], latency_ms=LatencySummary(*values[:5], 1.0),
        transactions=count, counters={text: values[5]}, warnings=(note,),
    )  # fmt: skip
    name = f"s{len(here.studies())}"
    study = make(here, name, outcome, note, values[3])
    path = tmp_path / f"{name}.pgdyno"
    export_studies(here, [name], path)
    import_studies(there, path)
    assert [told(here, t) for t in finished(here, study)] == [told(there, t) for t in there.trials(name)]
