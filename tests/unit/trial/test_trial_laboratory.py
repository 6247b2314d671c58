"""The executor: what each ending leaves in the store, and what goes on up."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from facts_from_params import make_facts
from pgdyno.errors import ApplyError, EnvironmentUnsuitable, GuardTripped, RollbackError, StoreError, WorkloadError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.trial import Role, TrialSpec, TrialState
from pgdyno.store.catalogue import Store
from pgdyno.trial import laboratory as module
from pgdyno.trial.laboratory import Laboratory
from simulated_laboratory import simulated_study

SPEC = TrialSpec(BASELINE, Role.BASELINE, "baseline", 0, 0)


class Parts:
    """Session, workload, load, sampler and watcher in one: writes down what happens and raises what it is told to."""

    pid, pids, reason, histograms = 4711, (4711,), None, []

    def __init__(self, **errors):
        self.said, self._errors, self.postgres = [], errors, self

    def _happens(self, what):
        self.said.append(what)
        if what in self._errors:
            raise self._errors[what]

    def apply(self, configuration, *, restart):
        self._happens("apply")
        return SimpleNamespace(fingerprint="f1")

    def record_process(self, pid, kind):
        self._happens("record driver")

    def reset(self, target, *, policy):
        self._happens("reset")
        return "load"

    def fetch(self, query, params=None):
        return [{"bytes": 1000}]

    def begin(self, target, dbname, plan, folder):
        self._happens("begin load")
        return self

    def poll(self):
        return self.said.count("reading") >= 1

    def live(self):
        return None

    def terminate(self):
        self._happens("terminate load")

    def finish(self):
        self._happens("finish load")
        return self

    def discard_logs(self):
        self._happens("discard logs")

    def start(self):
        self._happens("start sampling")

    def mark(self):
        self._happens("mark")

    def stop(self):
        self._happens("stop sampling")
        return SimpleNamespace(rows=[], events=[])

    def trial_began(self, spec, number, run_id):
        self._happens("trial began")

    def phase(self, text):
        pass

    def reading(self, *_):
        self._happens("reading")

    def trial_ended(self, trial):
        self._happens(f"trial {trial.state}")


@contextmanager
def made(monkeypatch, tmp_path, parts):
    monkeypatch.setattr(module, "Sampler", lambda *_, **__: parts)
    with Store.open(tmp_path / "store.db") as store:
        study = simulated_study()
        store.add_study(study)
        yield Laboratory(
            study=study,
            target=parts,
            workload=parts,
            store=store,
            facts=make_facts(18),
            session=parts,
            watcher=parts,
            folder=tmp_path,
            sleep=lambda _: None,
        )


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
