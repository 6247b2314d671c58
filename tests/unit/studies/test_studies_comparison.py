"""Two recorded runs: a verdict only from interleaved pairs."""

from dataclasses import fields, replace

import pytest

from pgdyno.cli.compare import _print
from pgdyno.errors import UsageError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.results.parts.pair import Different, Setting
from pgdyno.model.shapes import plain
from pgdyno.model.study import StudyKind
from pgdyno.model.trial import LoadPlan, Outcome, Role, TrialSpec, TrialState
from pgdyno.model.verdict import Metric, Word
from pgdyno.stats.sequential import Design
from pgdyno.store.catalogue import Store
from pgdyno.studies.pairs.comparison import _PLAN, compare_runs, run_meant
from simulated_laboratory import simulated_study

B = Configuration.of({"work_mem": "64MB"})


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store.db") as opened:
        yield opened


def add(store, study_id, arm, configuration, block, throughput, state=TrialState.COMPLETE):
    number = store.begin_trial(study_id, TrialSpec(configuration, Role.ARM, arm, block, 0))
    store.finish_trial(number, Outcome(state, throughput=throughput))
    return number


def study(store, name, kind=StudyKind.AB, **changes):
    store.add_study(replace(simulated_study(), id=name, kind=kind, **changes))
    return name


def with_server(**changes):
    """Return the facts of the simulated study, the server's changed."""
    facts = simulated_study().facts
    return {**facts, "server": {**facts.get("server", {}), **changes}}


def test_arms_of_one_study_are_compared_by_all_its_pairs(store):
    name = study(store, "ab1")
    runs = [
        (add(store, name, "A", BASELINE, block, 100.0 + block), add(store, name, "B", B, block, 300.0 + block))
        for block in range(1, 7)
    ]
    found = compare_runs(store, *runs[0], Metric.THROUGHPUT, Design())
    assert found.interleaved
    assert found.verdict.pairs == 6
    assert found.verdict.word is Word.BETTER
    assert found.differences == (Setting(knob="work_mem", a=None, b="64MB"),)


def test_a_study_with_one_complete_run_stands_for_it(store):
    """What `bench` prints at its end is the study: compare refused it as no number."""
    one, many = study(store, "b1-bench", StudyKind.BENCH), study(store, "ab1", StudyKind.AB)
    add(store, one, "bench", BASELINE, 1, 50.0, TrialState.DISTURBED)
    run = add(store, one, "bench", BASELINE, 2, 100.0)
    for word in (one, "b1", str(run)):
        assert run_meant(store, word) == run
    first, second = (add(store, many, "A", BASELINE, block, 100.0) for block in (1, 2))
    with pytest.raises(UsageError, match='study "ab1" has 2 complete runs, and compare needs one') as refused:
        run_meant(store, many)
    assert refused.value.detail == f"They are {first}, {second}."
    with pytest.raises(UsageError, match="has 0 complete runs") as refused:
        run_meant(store, study(store, "none", StudyKind.BENCH))
    assert refused.value.hint == "pgdyno store show none says why: none can be named, it has to be measured again."
    with pytest.raises(UsageError, match='study "12x" is not in the store'):
        run_meant(store, "12x")


def test_runs_of_two_studies_are_never_called_better(store):
    one, two = study(store, "b1", StudyKind.BENCH), study(store, "b2", StudyKind.BENCH)
    a, b = add(store, one, "bench", BASELINE, 1, 100.0), add(store, two, "bench", BASELINE, 1, 900.0)
    found = compare_runs(store, a, b, Metric.THROUGHPUT, Design())
    assert not found.interleaved
    assert found.verdict.word is Word.NOT_RESOLVED
    assert found.verdict.interval.ratio == pytest.approx(9)


@pytest.mark.requirement("R-PG-40", "R-VER-15")
def test_runs_of_two_versions_are_warned_of_their_checksums(store, capsys):
    old, new = (with_server(version=version, data_checksums=on) for version, on in (("17.9", False), ("18.3", True)))
    one, two = (study(store, name, StudyKind.BENCH, facts=facts) for name, facts in (("b17", old), ("b18", new)))
    a, b = (add(store, name, "bench", BASELINE, 1, figure) for name, figure in ((one, 100.0), (two, 120.0)))
    found = compare_runs(store, a, b, Metric.THROUGHPUT, Design())
    assert found.environment == (
        Different(what="PostgreSQL", a="17.9", b="18.3"),
        Different(what="data checksums", a="off", b="on"),
    )
    _print(found)
    assert "warning: data checksums differs: off and on" in capsys.readouterr().out
    assert plain(found)["environment"] == [
        {"what": "PostgreSQL", "a": "17.9", "b": "18.3"},
        {"what": "data checksums", "a": "off", "b": "on"},
    ]
    same = add(store, one, "bench", BASELINE, 2, 101.0)
    assert compare_runs(store, a, same, Metric.THROUGHPUT, Design()).environment == ()


def test_what_the_plan_varied_is_told_beside_the_settings(store):
    study(store, "m", StudyKind.MATRIX)
    for mode, jit in (("tpcb-like", "on"), ("select-only", "off")):
        spec = TrialSpec(Configuration.of({"jit": jit}), Role.CELL, mode, 1, 0, factors={"mode": mode, "clients": "4"})
        run = store.begin_trial("m", spec)
        store.finish_trial(run, Outcome(TrialState.COMPLETE, throughput=5.0))
    found = compare_runs(store, 1, 2, Metric.THROUGHPUT, Design())
    assert found.differences == (
        Setting(knob="jit", a="on", b="off"),
        Setting(knob="mode", a="tpcb-like", b="select-only"),
    )


def test_runs_under_unlike_loads_are_refused(store):
    plan = replace(simulated_study().plan, clients=64)
    one, two = study(store, "b1", StudyKind.BENCH), study(store, "b2", StudyKind.BENCH, plan=plan)
    a, b = add(store, one, "bench", BASELINE, 1, 100.0), add(store, two, "bench", BASELINE, 1, 100.0)
    with pytest.raises(UsageError, match="different loads"):
        compare_runs(store, a, b, Metric.THROUGHPUT, Design())


def test_a_run_without_a_score_is_refused(store):
    name = study(store, "ab1")
    good = add(store, name, "A", BASELINE, 1, 100.0)
    bad = add(store, name, "B", B, 1, None, TrialState.UNSTEADY)
    with pytest.raises(UsageError, match="unsteady"):
        compare_runs(store, good, bad, Metric.THROUGHPUT, Design())


def test_loads_that_differ_are_told_apart_in_words(store):
    plan = simulated_study().plan
    other = replace(plan, clients=plan.clients + 4, rate=200.0, cpus="2-3")
    one, two = study(store, "b1", StudyKind.BENCH), study(store, "b2", StudyKind.BENCH, plan=other)
    a, b = add(store, one, "bench", BASELINE, 1, 100.0), add(store, two, "bench", BASELINE, 1, 200.0)
    with pytest.raises(UsageError, match="different loads") as refused:
        compare_runs(store, a, b, Metric.THROUGHPUT, Design())
    assert refused.value.detail == (
        f"clients {plan.clients} and {plan.clients + 4}; rate not limited and 200/s; "
        "CPUs of the load generators all and 2-3"
    )


def test_every_field_of_a_plan_has_its_words():
    assert list(_PLAN) == [field.name for field in fields(LoadPlan)]
