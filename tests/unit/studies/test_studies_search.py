"""The search of a tune on response surfaces that are known: what is asked, what is never asked again, when it ends."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgdyno.knobs.space import starting_points
from pgdyno.model.trial import ENDED_EARLY, Outcome, Role, TrialState
from pgdyno.model.verdict import Metric
from pgdyno.studies.pairs.blocks import REPEATS
from pgdyno.studies.tune import search as tune_search
from pgdyno.studies.tune.noise_runs import measure_noise
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.search import Search
from pgdyno.studies.tune.space import search_space
from pgdyno.trial.hopeless import FLOOR_SHARE
from simulated_asks import asked_anew
from simulated_laboratory import SimulatedLaboratory, flat, shared_buffers_cliff

pytestmark = pytest.mark.usefixtures("kept_asks")
OPTIONS = TuneOptions(trials=16, noise_runs=4)


def searched(laboratory, options=OPTIONS):
    laboratory.budget(options.budget_s)
    study, facts = laboratory.study, laboratory.facts
    space = search_space(facts, study.workload, study.plan, options)
    starts = tuple(starting_points(space, facts, connections=study.plan.clients, read_only=True))
    search = Search(laboratory, space, starts, options)
    measure_noise(search, options, lambda _: None)
    search.run()
    return search


def asked(search):
    return [tuple(sorted(trial.spec.configuration.items())) for trial in search.trials]


def is_large(configuration):
    return "shared_buffers" in configuration


@pytest.mark.parametrize("spoils", ["disturbed", "unsteady"])
def test_a_configuration_that_is_never_measured_is_asked_once(spoils):
    """It ate the whole search: 20 suggestions, 60 runs, one configuration."""
    how = {"disturbed": lambda _number, conf: is_large(conf)} if spoils == "disturbed" else {"unsteady": is_large}
    laboratory = SimulatedLaboratory(flat, **how)
    search = searched(laboratory)
    assert max(Counter(asked(search)).values()) == 1
    runs = Counter(tuple(sorted(t.spec.configuration.items())) for t in laboratory.store.kept if t.spec.configuration)
    assert max(runs.values()) <= 1 + REPEATS
    assert {t.state for t in search.trials} > {TrialState.COMPLETE}


def test_where_a_region_is_never_steady_the_search_goes_elsewhere():
    search = searched(SimulatedLaboratory(shared_buffers_cliff, unsteady=is_large), replace(OPTIONS, trials=30))
    late = search.trials[15:]
    assert sum(trial.state is TrialState.COMPLETE for trial in late) > len(late) / 2


def test_a_trial_without_the_figure_that_is_asked_for_counts_as_tried(monkeypatch):
    laboratory = SimulatedLaboratory(flat)
    measure = laboratory._outcome

    def without(spec, chance):
        outcome = measure(spec, chance)
        return replace(outcome, throughput=None) if spec.configuration else outcome

    monkeypatch.setattr(laboratory, "_outcome", without)
    search = searched(laboratory)
    assert max(Counter(asked(search)).values()) == 1
    assert len(search.skipped()) == len(search.trials)
    assert not search.winner()


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 70), st.integers(0, 9))
def test_a_killed_search_asks_the_same_again_whatever_was_spoilt(kill_after, seed):
    def spoilt(number, configuration):
        return bool(configuration) and number % 5 < 3 + is_large(configuration)

    options = replace(OPTIONS, seed=seed, trials=12)
    whole = SimulatedLaboratory(flat, seed=seed, disturbed=spoilt)
    expected = asked(searched(whole, options))
    killed = SimulatedLaboratory(flat, seed=seed, disturbed=spoilt, kill_after=kill_after)
    with contextlib.suppress(KeyboardInterrupt):
        searched(killed, options)
    while killed.store.kept and killed.store.kept[-1].state is not TrialState.COMPLETE:
        killed.store.kept.pop()  # spoilt at the end is measured anew: the machine's numbers must stay the same here
    resumed = SimulatedLaboratory(flat, seed=seed, disturbed=spoilt, recorded=killed.store.kept)
    with asked_anew():
        assert asked(searched(resumed, options)) == expected


def test_a_flat_space_ends_the_search_in_the_first_quarter_of_its_trials(monkeypatch):
    """No search of 60 trials on a flat space ended before its last trial."""
    should_stop = tune_search.should_stop

    def cut(promises, noise_sd):  # what one that goes on would do until its last trial is not looked at
        return "it went on" if len(promises) > 15 else should_stop(promises, noise_sd)

    monkeypatch.setattr(tune_search, "should_stop", cut)
    ends = [searched(SimulatedLaboratory(flat, seed=seed), replace(OPTIONS, trials=60, seed=seed)) for seed in range(8)]
    early = [search for search in ends if len(search.trials) <= 15]
    assert len(early) >= 7
    assert all("stands out from the noise" in search.stopped for search in early)


def test_a_gain_that_shows_keeps_the_search_going():
    for seed in range(4):
        search = searched(SimulatedLaboratory(shared_buffers_cliff, seed=seed), replace(OPTIONS, seed=seed))
        assert search.stopped == "the 16 search trials are used up"


def test_a_model_that_promises_next_to_nothing_ends_the_search(monkeypatch):
    asked_of = []

    def promised(promises, noise_sd):
        asked_of.append((len(promises), noise_sd))
        return "nothing more is promised" if len(promises) == 6 else None

    monkeypatch.setattr(tune_search, "should_stop", promised)
    search = searched(SimulatedLaboratory(shared_buffers_cliff))
    assert (search.stopped, len(search.trials)) == ("nothing more is promised", 6)
    assert asked_of == [(count, search.noise_sd) for count in range(7)], "asked before each trial, by the noise"


def test_a_space_of_which_every_point_was_tried_ends_the_search():
    options = replace(OPTIONS, trials=30, only=("jit", "wal_compression"), include=("jit", "wal_compression"))
    laboratory = SimulatedLaboratory(lambda settings: 1 + 0.5 * (settings.get("jit") == "off"))
    search = searched(laboratory, options)
    assert "every configuration" in search.stopped
    assert len(search.trials) == len(set(asked(search))) < 10


def test_hopeless_trials_take_half_of_their_time_and_the_search_asks_the_same():
    options = replace(OPTIONS, only=("shared_buffers", "work_mem", "jit", "random_page_cost"))
    floors = []

    class Whole(SimulatedLaboratory):
        def run(self, spec, *, floor_tps=None):
            floors.append((spec.role, floor_tps))
            return super().run(spec)

    whole, cut = Whole(shared_buffers_cliff), SimulatedLaboratory(shared_buffers_cliff)
    assert asked(searched(whole, options)) == asked(searched(cut, options))
    early = [trial for trial in cut.store.kept if ENDED_EARLY in trial.outcome.counters]
    assert early
    assert {trial.spec.role for trial in early} == {Role.SEARCH}
    assert all("shared_buffers" not in t.spec.configuration or not is_cached(t.spec.configuration) for t in early)
    assert cut.spent_s < whole.spent_s
    assert all(floor is None for role, floor in floors if role is not Role.SEARCH)
    assert any(floor is not None for _, floor in floors)


def test_what_is_hopeless_lies_below_the_best_by_more_the_noisier_its_trials_are():
    """The best of many is a lucky one: with no allowance for that, its equals would be cut."""
    search, floors = searched(SimulatedLaboratory(shared_buffers_cliff)), []
    for noise_sd in (0.0, 0.1, 9.0):
        search.noise_sd = noise_sd
        floors.append(search.floor_tps())
    assert floors[1] == pytest.approx(floors[0] * math.exp(-2 * 0.1))
    baseline = statistics.fmean(trial.outcome.throughput for trial in search.baselines)
    assert floors[2] == pytest.approx(FLOOR_SHARE * baseline, rel=0.1), "never below that of the baseline itself"


@pytest.mark.parametrize(("every", "ends"), [(1, True), (2, False)])
def test_void_trials_end_a_search_only_where_nothing_lies_between_them(monkeypatch, every, ends):
    """One that did not come into force says nothing of the others, and is not counted against them."""
    laboratory, tried = SimulatedLaboratory(shared_buffers_cliff), []
    measure = laboratory._outcome

    def void(spec, chance):
        tried.extend([spec] if spec.configuration else [])
        is_void = spec.configuration and len(tried) % every == 0
        return Outcome(TrialState.VOID, reason="not in force") if is_void else measure(spec, chance)

    monkeypatch.setattr(laboratory, "_outcome", void)
    search = searched(laboratory)
    whole, lost = "the 16 search trials are used up", "5 trials in a row were void: not in force"
    assert search.stopped == (lost if ends else whole)
    states = Counter(trial.state for trial in search.trials)
    assert states[TrialState.VOID] >= 5
    assert states[TrialState.COMPLETE] == (0 if ends else 16)


@pytest.mark.parametrize(("spare", "may"), [(-1, False), (0, True), (1, True)])
def test_a_trial_that_restarts_leaves_the_proof_its_restarts_and_needs_one_back(monkeypatch, spare, may):
    search = searched(SimulatedLaboratory(flat))
    left = OPTIONS.proof_restarts + 2 + spare
    monkeypatch.setattr(tune_search, "restarts_left", lambda *_: left)
    assert search._may_restart() is may


def is_cached(configuration):
    return shared_buffers_cliff(configuration) > 1


def test_where_nothing_is_hopeless_or_another_figure_is_asked_for_no_trial_is_cut():
    for surface, metric in ((flat, Metric.THROUGHPUT), (shared_buffers_cliff, Metric.LATENCY_P99)):
        laboratory = SimulatedLaboratory(surface)
        searched(laboratory, replace(OPTIONS, metric=metric))
        assert not [trial for trial in laboratory.store.kept if ENDED_EARLY in trial.outcome.counters]


@pytest.mark.parametrize("metric", [Metric.LATENCY_P99, Metric.SERVER_CPU, Metric.THROUGHPUT])
def test_a_search_goes_the_way_that_its_metric_gets_better(metric):
    search = searched(SimulatedLaboratory(shared_buffers_cliff, cv=0.02), replace(OPTIONS, metric=metric))
    assert shared_buffers_cliff(search.winner()) > 1.0
