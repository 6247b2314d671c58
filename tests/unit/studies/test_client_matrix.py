"""The knee of throughput comes from bench runs that this target did before, of one load only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import GB, make_host, make_server
from pgdyno.model.configuration import BASELINE
from pgdyno.model.facts import SettingFact, Unknown
from pgdyno.model.inventory import Inventory
from pgdyno.model.matrix import Cell
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.probes.evidence.concurrency import knee
from pgdyno.store.catalogue import Store
from pgdyno.studies.advice.client_matrix import client_matrix

FACTS = {
    "host": {"architecture": "x86_64", "kernel": "6.1.0", "page_size": 4096, "ram_bytes": 128 * GB},
    "server": {"version_num": 180000, "data_directory": "/data"},
}
DIRECTORY = SettingFact("data_directory", "/data", None, "string", "postmaster", "override")
HERE = Inventory(make_host(), make_server(extra={"data_directory": DIRECTORY}))


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store.db") as opened:
        yield opened


def bench(store, clients, *rates, state=TrialState.COMPLETE, fingerprint="a", **changed):
    number = len(store.studies())
    plan = LoadPlan(clients=clients, jobs=1, warmup_s=1, measure_s=2)
    workload = WorkloadSpec("ybio", {}, "f", "reads", False)
    known = {"kind": StudyKind.BENCH, "name": "n", "state": StudyState.RUNNING, "target": "t", "environment": "e"}
    values = {"facts": FACTS, "workload": workload, "plan": plan, **known, **changed}
    store.add_study(Study(id=f"s{number}", created_at=float(number), **values))
    for slot, rate in enumerate(rates):
        trial = store.begin_trial(f"s{number}", TrialSpec(BASELINE, Role.ARM, "run", 0, slot))
        store.finish_trial(trial, Outcome(state, throughput=rate, settings_fingerprint=fingerprint))


@pytest.mark.requirement("R-PG-39")
def test_three_numbers_of_clients_give_a_matrix_and_its_knee(store):
    for clients, rates in ((4, (100.0,)), (16, (390.0, 400.0, 250.0)), (64, (402.0,))):
        bench(store, clients, *rates)
    matrix = client_matrix(store, HERE)
    assert matrix == ((4, 100.0), (16, 390.0), (64, 402.0))
    assert knee(matrix) == 16


@pytest.mark.parametrize(
    "other",
    [
        {"workload": WorkloadSpec("ybio", {"wss": 0.4}, "f", "reads", False)},
        {"plan": LoadPlan(clients=64, jobs=1, warmup_s=1, measure_s=2, rate=50.0)},
        {"plan": LoadPlan(clients=64, jobs=1, warmup_s=1, measure_s=2, connect_each=True)},
        {"facts": {**FACTS, "server": {"version_num": 180000, "data_directory": "/other"}}},
        {"kind": StudyKind.AB},
        {"state_of_trial": TrialState.DISTURBED},
        {"fingerprint": "b"},
    ],
)
def test_runs_of_another_load_target_or_state_do_not_count(store, other):
    bench(store, 4, 100.0)
    bench(store, 16, 390.0)
    values = dict(other)
    state = values.pop("state_of_trial", TrialState.COMPLETE)
    bench(store, 64, 402.0, state=state, **values)
    assert client_matrix(store, HERE) == ()
    assert isinstance(knee(client_matrix(store, HERE)), Unknown)


def test_the_newest_load_with_enough_numbers_wins(store):
    for clients in (1, 2, 3):
        bench(store, clients, 10.0 * clients)
    for clients in (4, 5, 6):
        bench(store, clients, 10.0 * clients, fingerprint="b")
    bench(store, 7, 1.0, fingerprint="c")
    assert [clients for clients, _ in client_matrix(store, HERE)] == [4, 5, 6]


def test_cells_of_a_matrix_count_by_all_their_connections(store):
    bench(store, 1, kind=StudyKind.MATRIX)
    for instances, level, rate in ((1, "2", 10.0), (2, "2", 19.0), (4, "2", 20.0), (4, "4", 999.0)):
        cell = Cell(instances, 3, 1, "tpcb-like", 10, "default", smt=level)
        trial = store.begin_trial("s0", TrialSpec(BASELINE, Role.CELL, "cell", 1, instances, factors=cell.factors()))
        store.finish_trial(trial, Outcome(TrialState.COMPLETE, throughput=rate, settings_fingerprint="a"))
    assert client_matrix(store, HERE) == ((3, 10.0), (6, 19.0), (12, 20.0)), "the other SMT level is another load"


def test_a_server_that_is_not_known_has_none(store):
    assert client_matrix(store, replace(HERE, server=Unknown("not asked"))) == ()
