"""A platform as it is read from a study of the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from pgdyno.errors import UsageError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Unknown
from pgdyno.model.platform import Denominator
from pgdyno.model.sample_tables import TABLES
from pgdyno.model.samples import SampleRow, SampleValue
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LatencySummary, LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.report.drawing import markdown
from pgdyno.store.catalogue import Store
from pgdyno.studies.platforms.comparing import compare_platforms
from pgdyno.studies.platforms.page import platforms_page
from pgdyno.studies.platforms.reading import read_platform

HOST = {"cores": 4, "physical_cores": 2, "sockets": 1, "kernel": "6.1", "page_size": 65536, "architecture": "ppc64le"}
WORKLOAD = WorkloadSpec("tpcb-like", {"scale": 10}, "f00d", "TPC-B like", False)
PLAN = LoadPlan(clients=8, jobs=8, warmup_s=5, measure_s=30)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "s.db") as opened:
        yield opened


def matrix(store: Store, name: str, host: dict[str, object], speed: float, **changed: object) -> Study:
    """Write a matrix of two loads and two configurations, each measured twice, and one run that was disturbed."""
    facts = {"host": host, "server": {"version": "18.1"}, "settings": {"work_mem": "4096", "port": "5433"}}
    study = Study(name, StudyKind.MATRIX, "m", StudyState.COMPLETE, 1.0, "t", f"env-{name}", facts, WORKLOAD, PLAN)
    study = replace(study, **changed)  # type: ignore[arg-type]  # fields by name
    store.add_study(study)
    for slot in range(8):
        instances, tuned = 1 + slot % 2, slot // 2 % 2
        factors = {"instances": str(instances), "clients": "4", "jobs": "4", "mode": "tpcb-like", "scale": "10"}
        configuration = Configuration.of({"max_wal_size": "8GB"}) if tuned else BASELINE
        names = {"configuration": "tuned" if tuned else "default", "smt": "4" if instances == 2 else ""}
        spec = TrialSpec(configuration, Role.CELL, "cell", slot // 4, slot, factors={**factors, **names})
        run = store.begin_trial(study.id, spec)
        columns = [column.name for column in TABLES["cpu"].columns]
        shares: dict[str, SampleValue] = {"interval_s": 1.0, "usr_pct": 40.0, "sys_pct": 20.0, "irq_pct": 5.0}
        late = {**shares, "usr_pct": 90.0}
        for t, values in ((5.0, late), (11.0, shares), (12.0, shares)):
            store.add_samples(run, [SampleRow("cpu", t, tuple(values.get(column) for column in columns))])
        tps = speed * (1000 + 100 * slot % 2 + 300 * tuned) * (1 + slot // 4 * 0.01)
        latency = LatencySummary(1, 2, 3, 4, 5, 4000 * instances / tps)
        state = TrialState.DISTURBED if slot == 7 else TrialState.COMPLETE
        store.finish_trial(
            run, Outcome(state, steady_from=10.0, ended_at=20.0, throughput=tps, latency_ms=latency, transactions=100)
        )
    return study


@pytest.mark.requirement("R-CMP-02", "R-CMP-05")
def test_the_rows_of_a_matrix(store: Store) -> None:
    found = read_platform(store, matrix(store, "a", HOST, 1.0), "power")
    assert (found.cores, found.threads, found.sockets, found.vcpus) == (2, 4, 1, 4)
    loads = [(row.configuration, row.instances, row.clients, len(row.throughputs)) for row in found.rows]
    assert loads == [("default", 1, 4, 2), ("default", 2, 4, 2), ("tuned", 1, 4, 2), ("tuned", 2, 4, 1)]
    first = found.rows[0]
    assert first.tps == pytest.approx(1005.0)
    assert first.runs == (1, 5)
    assert first.throughputs == pytest.approx((1000.0, 1010.0))
    assert first.cpu_pct == 65.0
    assert first.mode == "tpcb-like, scale 10"
    assert (first.threads, found.rows[1].threads) == (None, 8)
    assert found.unlike["page size"] == "64 kB"
    assert found.same["configuration"] == "work_mem = 4096"
    assert found.same["configuration tuned"] == "max_wal_size = 8GB"


@pytest.mark.requirement("R-CMP-01", "R-CMP-03")
def test_two_matrices_of_the_store_are_compared(store: Store) -> None:
    a = read_platform(store, matrix(store, "a", HOST, 3.0), "power")
    b = read_platform(store, matrix(store, "b", {**HOST, "physical_cores": 4}, 1.0), "x86")
    found = compare_platforms(a, b)
    assert (found.invalid, len(found.equal)) == ((), 4)
    assert found.best is not None
    assert found.best.by(Denominator.CORE).ratio == pytest.approx(6.0)
    assert {one.what for one in found.unlike} == {"cores"}


@pytest.mark.requirement("R-BEN-16", "R-CMP-03")
def test_rows_that_can_lose_data_are_marked_and_never_the_headline(store: Store) -> None:
    for name in ("a", "b"):
        matrix(store, name, HOST, 1.0)
    for name in ("a", "b"):
        for block in range(2):
            names = {"instances": "1", "clients": "4", "jobs": "1", "configuration": "reckless", "mode": "tpcb-like"}
            spec = TrialSpec(Configuration.of({"fsync": "off"}), Role.CELL, "cell", block, 9, factors=names)
            run = store.begin_trial(name, spec)
            store.finish_trial(run, Outcome(TrialState.COMPLETE, steady_from=1.0, ended_at=9.0, throughput=9e6))
    a, b = (read_platform(store, store.study(name), name) for name in ("a", "b"))
    reckless = [row for row in a.rows if row.durability == "X"]
    assert [(row.configuration, row.mode) for row in reckless] == [("reckless [X]", "tpcb-like, 1 thread each")]
    found = compare_platforms(a, b)
    assert found.best is not None
    assert (found.best.a.durability, found.best.a.configuration) == ("", "tuned")
    told = " ".join(markdown.render(platforms_page(found)).replace("\\", "").split())
    assert "rows marked [X] were measured with settings that can lose committed data" in told
    assert "At equal load, reckless [X], tpcb-like, 1 thread each, 4 clients" in told
    assert "headline: each at its own best, tuned" in told


@pytest.mark.requirement("R-CMP-07")
@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"workload": replace(WORKLOAD, fingerprint="beef")}, "workload"),
        ({"workload": replace(WORKLOAD, parameters={"scale": 20})}, "data set"),
        ({"plan": replace(PLAN, measure_s=60)}, "period"),
        ({"plan": replace(PLAN, protocol="simple")}, "driver"),
        ({"facts": {"host": HOST, "settings": {"work_mem": "65536"}}}, "configuration"),
    ],
)
def test_studies_that_were_not_measured_alike_are_invalid(store: Store, changed: dict[str, object], what: str) -> None:
    a, b = (matrix(store, name, HOST, 1.0, **more) for name, more in (("a", {}), ("b", changed)))
    found = compare_platforms(read_platform(store, a, "A"), read_platform(store, b, "B"))
    assert [one.split(" differs")[0] for one in found.invalid] == [what]


def test_the_number_of_statements_does_not_grow_with_the_runs(store: Store) -> None:
    asked: list[str] = []

    def note(connection: object, cursor: object, statement: str, *_: object) -> None:
        asked.append(statement)

    small, large = (matrix(store, name, HOST, 1.0) for name in ("a", "b"))
    spec = TrialSpec(BASELINE, Role.CELL, "cell", 9, 9, factors={"instances": "3"})
    for _ in range(20):
        run = store.begin_trial(large.id, spec)
        store.finish_trial(run, Outcome(TrialState.COMPLETE, steady_from=1.0, ended_at=2.0, throughput=5.0))
    counts = []
    event.listen(Engine, "before_cursor_execute", note)
    try:
        for study in (small, large):
            asked.clear()
            read_platform(store, study, "a")
            counts.append(len(asked))
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert counts[0] == counts[1] > 0


def test_counts_that_a_study_lacks_are_unknown_until_they_are_told(store: Store) -> None:
    study = matrix(store, "a", {"cores": 4, "sockets": {"unknown": "not shown"}}, 1.0)
    found = read_platform(store, study, "A")
    assert isinstance(found.cores, Unknown)
    assert "--count" in found.cores.reason
    assert found.sockets == Unknown("not shown")
    assert read_platform(store, study, "A", {"cores": 2}).rows[1].threads == 8


def test_other_studies_and_empty_ones_are_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="is of kind tune"):
        read_platform(store, matrix(store, "t", HOST, 1.0, kind=StudyKind.TUNE), "A")
    empty = Study("e", StudyKind.BENCH, "n", StudyState.COMPLETE, 1.0, "t", "e", {}, WORKLOAD, PLAN)
    store.add_study(empty)
    with pytest.raises(UsageError, match="no complete run"):
        read_platform(store, empty, "A")


def test_runs_of_unequal_length_are_pooled_as_a_matrix_does_it(store: Store) -> None:
    study = Study("u", StudyKind.BENCH, "n", StudyState.COMPLETE, 1.0, "t", "e", {"host": HOST}, WORKLOAD, PLAN)
    store.add_study(study)
    for tps, seconds, counters in ((100.0, 30.0, {}), (200.0, 99.0, {"window_s": 10.0})):
        run = store.begin_trial("u", TrialSpec(BASELINE, Role.ARM, "bench", 1, 0))
        outcome = Outcome(TrialState.COMPLETE, steady_from=1.0, ended_at=1.0 + seconds, throughput=tps)
        store.finish_trial(run, replace(outcome, counters=counters))
    (row,) = read_platform(store, study, "A").rows
    assert row.tps == pytest.approx((100 * 30 + 200 * 10) / 40)
