"""In which times studies of ours loaded a server, whatever kind they were and however they ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor_case import GB, make_host, make_server
from pgdyno.model.configuration import BASELINE
from pgdyno.model.facts import SettingFact
from pgdyno.model.inventory import Inventory
from pgdyno.model.live import Live
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import Outcome, Role, TrialSpec, TrialState
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.studies.advice.proofs import AFTER_S, own_work
from result_example import made
from simulated_laboratory import simulated_study

BEGAN = 1_000.0


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store.db") as opened:
        yield opened


def here():
    place = SettingFact("data_directory", "/data", None, "string", "postmaster", "override")
    return Inventory(make_host(sysctls={"vm.swappiness": "60"}), make_server(extra={"data_directory": place}))


def study(**fields) -> Study:
    host = {"architecture": "x86_64", "kernel": "6.1.0", "page_size": 4096, "ram_bytes": 128 * GB}
    facts = {"host": host, "server": {"version_num": 180000, "data_directory": "/data"}, "kernel": {}}
    return replace(simulated_study(), id="s1", created_at=BEGAN, facts=facts, **fields)


def lasted(store, one, *, ended=(), alive=None):
    """Return for how long a study is taken to have loaded the server, None where it is not."""
    store.add_study(one)
    for end in ended:
        run = store.begin_trial(one.id, TrialSpec(BASELINE, Role.BASELINE, "baseline", 0, 0))
        store.finish_trial(run, Outcome(TrialState.COMPLETE, began_at=BEGAN, ended_at=end))
    if one.result is not None:
        store.update_study(one.id, state=one.state, result=one.result)
    if alive is not None:
        LiveBoard(store).show(Live(one.id, alive, BEGAN, "h", 1))
    found = own_work(store, here()).studies
    return found[0].ended - found[0].began - AFTER_S if found else None


def test_a_study_that_runs_lasts_until_its_last_sign_of_life(store):
    assert lasted(store, study(state=StudyState.RUNNING), ended=(1_100.0,), alive=1_400.0) == 400.0


def test_one_that_was_killed_does_not_last_for_ever(store):
    assert lasted(store, study(state=StudyState.RUNNING), alive=1_050.0) == 50.0


@pytest.mark.parametrize("kind", [StudyKind.BENCH, StudyKind.REPLAY])
def test_one_without_trials_lasts_as_long_as_its_result_says(store, kind):
    result = replace(made(kind, {}), elapsed_s=900.0)
    assert lasted(store, study(kind=kind, state=StudyState.COMPLETE, result=result)) == 900.0


@pytest.mark.parametrize("kind", [StudyKind.LIVE, StudyKind.WATCH])
def test_what_was_counted_while_a_server_was_only_watched_is_its_users(store, kind):
    assert lasted(store, study(kind=kind, state=StudyState.RUNNING), alive=5_000.0) is None


@pytest.mark.parametrize(
    ("part", "name", "value", "is_ours"),
    [
        ("host", "kernel", "6.18.0", True),  # it was updated since; what was counted then is ours as before
        ("kernel", "vm.swappiness", "1", True),
        ("server", "version_num", 170_000, True),
        ("server", "data_directory", "/other", False),
        ("host", "architecture", "s390x", False),
        ("host", "ram_bytes", 64 * GB, False),
    ],
)
def test_a_server_is_the_same_after_an_update(store, part, name, value, is_ours):
    one = study()
    facts = {**one.facts, part: {**one.facts[part], name: value}}
    assert (lasted(store, replace(one, facts=facts), ended=(1_100.0,)) is not None) is is_ours
