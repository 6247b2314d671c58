"""The executor: what each ending leaves in the store, and what goes on up."""

import pytest

from laboratory_parts import Parts, made
from pgdyno.errors import ApplyError, EnvironmentUnsuitable, GuardTripped, RollbackError, StoreError, WorkloadError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.trial import OUTAGE, Role, TrialSpec, TrialState
from pgdyno.store.catalogue import Store

SPEC = TrialSpec(BASELINE, Role.BASELINE, "baseline", 0, 0)


@pytest.mark.parametrize(
    ("where", "error", "state"),
    [
        ("apply", ApplyError("not in force"), TrialState.VOID),
        ("begin load", WorkloadError("no"), TrialState.FAILED),
        ("finish load", WorkloadError("no"), TrialState.FAILED),
    ],
)
def test_what_belongs_to_the_configuration_ends_the_trial_only(monkeypatch, tmp_path, where, error, state):
    parts = Parts(**{where: error})
    with made(monkeypatch, tmp_path, parts) as laboratory:
        trial = laboratory.run(SPEC)
    assert trial.state is state
    assert trial.outcome is not None
    assert trial.outcome.reason == error.message
    assert trial.outcome.counters.get(OUTAGE) == (None if where == "apply" else 0.5), "what the restart took is kept"


@pytest.mark.parametrize(
    ("where", "error", "state"),
    [
        ("apply", RollbackError("broken"), TrialState.FAILED),
        ("apply", EnvironmentUnsuitable("disk full"), TrialState.ABANDONED),
        ("reset", EnvironmentUnsuitable("disk full"), TrialState.ABANDONED),
        ("reading", GuardTripped("memory"), TrialState.FAILED),
        ("reading", KeyboardInterrupt(), TrialState.ABANDONED),
        ("apply", KeyboardInterrupt(), TrialState.ABANDONED),
    ],
)
def test_what_belongs_to_the_machine_or_the_user_ends_the_study(monkeypatch, tmp_path, where, error, state):
    parts = Parts(**{where: error})
    with made(monkeypatch, tmp_path, parts) as laboratory:
        with pytest.raises(type(error)):
            laboratory.run(SPEC)
        (trial,) = laboratory.store.trials("s1")
    assert trial.state is state


def test_a_load_is_never_left_running(monkeypatch, tmp_path):
    parts = Parts(reading=KeyboardInterrupt())
    with made(monkeypatch, tmp_path, parts) as laboratory, pytest.raises(KeyboardInterrupt):
        laboratory.run(SPEC)
    assert parts.said[-3:] == ["terminate load", "stop sampling", "trial abandoned"]


def test_an_impossible_configuration_never_reaches_the_server(monkeypatch, tmp_path):
    parts = Parts()
    with made(monkeypatch, tmp_path, parts) as laboratory:
        trial = laboratory.run(TrialSpec(Configuration.of({"shared_buffers": "900GB"}), Role.SEARCH, "model", 1, 0))
    assert trial.state is TrialState.REFUSED
    assert "apply" not in parts.said


def test_recorded_trials_are_handed_back_and_a_misfit_is_an_error(monkeypatch, tmp_path):
    parts = Parts(apply=ApplyError("not in force"))
    with made(monkeypatch, tmp_path, parts) as laboratory:
        first = laboratory.run(SPEC)
    again = Parts(apply=AssertionError("measured twice"))
    monkeypatch.setattr(Store, "add_study", lambda *_: None)
    with made(monkeypatch, tmp_path, again) as laboratory:
        assert laboratory.is_replaying
        assert laboratory.run(SPEC) == first
        assert not laboratory.is_replaying
    with made(monkeypatch, tmp_path, again) as laboratory, pytest.raises(StoreError, match="not the one"):
        laboratory.run(TrialSpec(BASELINE, Role.SEARCH, "model", 0, 0))


def test_the_watchdog_is_told_what_comes_and_by_when(monkeypatch, tmp_path):
    parts = Parts(**{"finish load": WorkloadError("no")})
    with made(monkeypatch, tmp_path, parts) as laboratory:
        laboratory.run(SPEC)
        duration_s = laboratory.study.plan.duration_s
    promises = dict(parts.promises)
    assert [*promises] == ["apply", "reset", "load"]
    assert promises["reset"] is None, "data are cloned for as long as that takes"
    assert promises["load"] > duration_s
