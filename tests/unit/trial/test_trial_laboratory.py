"""The executor: what each ending leaves in the store, and what goes on up."""

import time
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from laboratory_parts import Parts, made
from pgdyno.errors import ApplyError, EnvironmentUnsuitable, GuardTripped, RollbackError, StoreError, WorkloadError
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.record import CheckRecord, Examination, TextRecord
from pgdyno.model.trial import OUTAGE, LoadPlan, Outcome, Role, TrialSpec, TrialState
from pgdyno.store.catalogue import Store
from pgdyno.trial import laboratory as module
from pgdyno.trial import work
from pgdyno.trial.stopwatch import WALL, Stopwatch

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


@pytest.mark.parametrize(("detail", "reason"), [(None, "not in force"), ("too large", "not in force: too large")])
def test_the_reason_has_the_detail_of_the_error_where_it_has_one(monkeypatch, tmp_path, detail, reason):
    with made(monkeypatch, tmp_path, Parts(apply=ApplyError("not in force", detail=detail))) as laboratory:
        assert laboratory.run(SPEC).outcome.reason == reason


def test_a_sampled_second_ends_with_the_load(monkeypatch, tmp_path):
    """Else the server's CPU in the window is thinned by the idle rest of that second."""
    parts = Parts()
    monkeypatch.setattr(work, "assess", lambda *_, **__: Outcome(TrialState.COMPLETE))
    with made(monkeypatch, tmp_path, parts) as laboratory:
        laboratory.run(SPEC)
    order = [word for word in parts.said if word in ("mark", "finish load", "stop sampling")]
    assert order == ["mark", "finish load", "stop sampling"]


def test_the_logs_of_a_load_are_deleted_once_its_figures_are_kept(monkeypatch, tmp_path):
    """A night's logs would fill the disk."""
    parts, kept = Parts(), []
    monkeypatch.setattr(work, "assess", lambda *_, **__: Outcome(TrialState.COMPLETE))
    add, finish = Store.add_histograms, Store.finish_trial
    monkeypatch.setattr(Store, "add_histograms", lambda *words: (parts.said.append("histograms"), add(*words)))
    monkeypatch.setattr(Store, "finish_trial", lambda *words: (kept.append(words), finish(*words)))
    with made(monkeypatch, tmp_path, parts) as laboratory:
        laboratory.run(SPEC)
    assert [word for word in parts.said if word in ("histograms", "discard logs")] == ["histograms", "discard logs"]
    assert len(kept) == 1


@pytest.mark.parametrize("where", ["record driver", "reading"])
def test_a_load_is_never_left_running(monkeypatch, tmp_path, where):
    parts = Parts(**{where: KeyboardInterrupt()})
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
    reserve_s = 2 * duration_s
    assert promises["load"] == duration_s + reserve_s + 60.0 + 300.0, "a load that hangs, and what is between trials"
    assert promises["apply"] == 900.0


def test_data_that_break_their_conditions_make_the_run_void_and_are_kept(monkeypatch, tmp_path):
    parts = Parts()
    broken, sound = CheckRecord("C1", 3, "sums agree"), CheckRecord("C2", 0, "numbers follow")
    parts.examination = Examination((broken, sound), (("nopm", 12.0),), texts=(TextRecord("log", "x"),))
    monkeypatch.setattr(work, "assess", lambda *_, **__: Outcome(TrialState.COMPLETE, throughput=5.0))
    with made(monkeypatch, tmp_path, parts) as laboratory:
        trial = laboratory.run(SPEC)
        assert laboratory.store.records(trial.id, CheckRecord) == [broken, sound]
        assert laboratory.store.records(trial.id, TextRecord) == [TextRecord("log", "x")]
    assert trial.state is TrialState.VOID
    assert trial.outcome is not None
    assert trial.outcome.reason == "the data break their own conditions (C1: 3)"
    assert (trial.outcome.throughput, trial.outcome.counters["nopm"]) == (None, 12.0)


def test_a_cell_brings_its_own_plan_and_workload(monkeypatch, tmp_path):
    parts, own = Parts(**{"begin load": AssertionError("the study's own workload was asked")}), Parts()
    plan = LoadPlan(clients=7, jobs=7, warmup_s=0.0, measure_s=3.0)
    begun = []
    own.said.append("reading")  # its load ends at once
    monkeypatch.setattr(module, "begin_load", lambda *words: begun.append(words) or own)
    monkeypatch.setattr(work, "assess", lambda *words, **_: begun.append(words) or Outcome(TrialState.COMPLETE))
    with made(monkeypatch, tmp_path, parts) as laboratory:
        laboratory.run(SPEC, plan=plan, workload=own)
    (started, assessed) = begun
    assert (started[0], started[3], assessed[2]) == (own, replace(plan, measure_s=9.0), plan)
    assert "reset" in own.said
    assert "reset" not in parts.said


@pytest.mark.requirement("R-BEN-01")
def test_a_running_load_is_held_against_the_baseline_of_its_own_load_alone(monkeypatch, tmp_path):
    """60 clients answer later than one, and a select is faster than an update: no configuration is to blame."""
    told = []

    class Hearing:
        alarm, patience_left_s = None, 2.0

        def compare_with(self, concurrent):
            told.append(concurrent and concurrent.throughput)

        def begin(self, clients):
            return []

        def __getattr__(self, name):
            return lambda *_, **__: nullcontext()

    one, many = (LoadPlan(clients=clients, jobs=1, warmup_s=0.0, measure_s=3.0) for clients in (1, 60))
    throughputs = iter([5.0, 50.0, 500.0, 5.0, 50.0, 500.0])
    monkeypatch.setattr(work, "assess", lambda *_, **__: Outcome(TrialState.COMPLETE, throughput=next(throughputs)))
    monkeypatch.setattr(module, "off_text", lambda indicators: "")
    parts, selects = Parts(), Parts()
    selects.spec = lambda: replace(parts.spec(), name="select-only")
    parts.notice = parts.guards = lambda _: None
    selects.said.append("reading")
    with made(monkeypatch, tmp_path, parts) as laboratory:
        laboratory._sentry = Hearing()
        for plan, workload in ((one, None), (many, None), (one, selects), (one, None), (many, None), (one, selects)):
            laboratory.run(SPEC, plan=plan, workload=workload)
    assert told == [None, None, None, 5.0, 50.0, 500.0]


@pytest.mark.parametrize("clock", ["", "schedule"])
def test_guards_are_told_whether_the_load_is_a_captured_one(monkeypatch, tmp_path, clock):
    told = []

    class Hearing:
        alarm, patience_left_s = None, 2.0

        def begin(self, clients):
            return []

        def load_begins(self, dbname, *, is_captured):
            told.append(is_captured)

        def __getattr__(self, name):
            return lambda *_, **__: nullcontext()

    parts = Parts()
    parts.notice = parts.guards = lambda _: None
    monkeypatch.setattr(parts, "spec", lambda: replace(Parts().spec(), clock=clock))
    monkeypatch.setattr(work, "assess", lambda *_, **__: Outcome(TrialState.COMPLETE, throughput=5.0))
    monkeypatch.setattr(module, "off_text", lambda indicators: "")
    with made(monkeypatch, tmp_path, parts) as laboratory:
        laboratory._sentry = Hearing()
        laboratory.run(SPEC)
        planned_s = laboratory.study.plan.duration_s
    assert told == [bool(clock)]
    assert dict(parts.promises)["load"] == planned_s * (1 if clock else 3) + 360.0, "nothing extends a captured one"


@pytest.mark.parametrize("restarted", [True, False])
def test_shared_buffers_are_warmed_between_a_restart_and_the_sampling(monkeypatch, tmp_path, restarted):
    parts = Parts(**{"begin load": WorkloadError("no")})
    with made(monkeypatch, tmp_path, parts) as laboratory:
        monkeypatch.setattr(module, "warm_buffers", lambda *_: parts.said.append("warm") or (1 << 20, None))
        if not restarted:
            monkeypatch.setattr(parts, "apply", lambda *_, **__: SimpleNamespace(fingerprint="f1", outage_s=None))
        laboratory.run(SPEC)
    told = [what for what in parts.said if what in ("warm", "start sampling")]
    assert told == (["warm"] if restarted else []) + ["start sampling"]


def test_buffers_that_stay_cold_are_told_once(monkeypatch, tmp_path):
    parts, told = Parts(**{"begin load": WorkloadError("no")}), []
    parts.warmed = (0, "permission denied to create extension")
    parts.notice = told.append
    with made(monkeypatch, tmp_path, parts) as laboratory:
        laboratory.run(SPEC)
        laboratory.run(SPEC)
    (text,) = told
    assert "pg_prewarm cannot be used: permission denied" in text


def test_of_all_runs_only_a_complete_one_of_the_baseline_is_kept_for_others_to_be_held_against(monkeypatch, tmp_path):
    other = replace(SPEC, configuration=Configuration.of({"work_mem": "64MB"}), role=Role.SEARCH)
    runs = [(SPEC, TrialState.COMPLETE), (SPEC, TrialState.UNSTEADY), (other, TrialState.COMPLETE)]
    outcomes = iter([Outcome(state, throughput=5.0) for _, state in runs])
    monkeypatch.setattr(work, "assess", lambda *_, **__: next(outcomes))
    kept, through = [], []
    with made(monkeypatch, tmp_path, Parts()) as laboratory:
        laboratory._script_errors = SimpleNamespace(note_complete=lambda: through.append(laboratory._count))
        laboratory._baselines = SimpleNamespace(keep=lambda *words: kept.append(words[0].state))
        trials = [laboratory.run(spec) for spec, _ in runs]
        assert laboratory.spent_s == pytest.approx(sum(trial.outcome.elapsed_s for trial in trials))
    assert [trial.state for trial in trials] == [state for _, state in runs]
    assert kept == [TrialState.COMPLETE]
    assert through == [1, 3], "its script came to its end"
    assert all(0 <= trial.outcome.counters["reset_s"] <= trial.outcome.elapsed_s for trial in trials)


def test_trials_are_numbered_from_one_and_keep_what_their_restart_and_the_budget_took(monkeypatch, tmp_path):
    numbers, parts = [], Parts(**{"begin load": WorkloadError("no")})
    parts.trial_began = lambda spec, number, run_id: numbers.append(number)
    seconds = iter(range(100, 200))
    with made(monkeypatch, tmp_path, parts) as laboratory:
        laboratory.stopwatch = Stopwatch(1000.0, began=0.0, clock=lambda: 50.0)
        laboratory._timer = lambda: float(next(seconds))
        trials = [laboratory.run(SPEC), laboratory.run(SPEC)]
        assert laboratory.stopwatch.trials == 2
        assert laboratory.restarts.used == 2, "each trial begins with one"
        assert laboratory.spent_s == sum(trial.outcome.elapsed_s for trial in trials)
    assert all(0 < trial.outcome.elapsed_s < 100 for trial in trials), "of a clock that began at a hundred"
    assert numbers == [1, 2]
    assert [trial.outcome.counters[WALL] for trial in trials] == [50.0, 50.0]
    assert [trial.outcome.counters[OUTAGE] for trial in trials] == [0.5, 0.5]


def test_a_server_that_is_left_as_it_is_needs_no_session(monkeypatch, tmp_path):
    parts = Parts()
    monkeypatch.setattr(work, "assess", lambda *_, **__: Outcome(TrialState.COMPLETE))
    monkeypatch.setattr(module, "fingerprint_of", lambda _: "as found")
    with made(monkeypatch, tmp_path, parts) as laboratory:
        laboratory._session = None
        assert laboratory._timer is time.monotonic, "the wall clock may be set"
        trial = laboratory.run(SPEC)
    assert (trial.state, trial.outcome.settings_fingerprint) == (TrialState.COMPLETE, "as found")
    assert "apply" not in parts.said
    assert parts.promises == []
