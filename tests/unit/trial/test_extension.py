"""How long a load is let run whose throughput has not settled in its planned time."""

from dataclasses import replace

import numpy as np
import pytest

from laboratory_parts import Parts, made
from pgdyno.model.configuration import BASELINE
from pgdyno.model.trial import EXTENDED, LoadPlan, Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.studies.pairs.blocks import run_repeating
from pgdyno.trial import extension as module
from pgdyno.trial import work
from pgdyno.trial.assess import Bounds, Settling
from pgdyno.trial.extension import Extension, reserve_s
from pgdyno.trial.stopwatch import Stopwatch
from pgdyno.workloads.result import CountBins

PLAN = LoadPlan(clients=2, jobs=1, warmup_s=3.0, measure_s=5.0)


def bins(rates):
    """Make a series of so many transactions in each second, of which a client waits for one at a time."""
    counts = np.repeat(np.array(rates, np.int64) // 4, 4)
    return CountBins(0.0, 0.25, counts, np.full(counts.size, 2 * 250_000, np.int64))


def ends(rates, plan=PLAN, reserve=None):
    """Return the second at which a load of these rates is told that its time is over, and what decided that."""
    extension = Extension(plan, Bounds(), plan.duration_s if reserve is None else reserve)
    second = round(plan.duration_s)
    while not extension.is_over(float(second), bins(rates[:second])):
        second += 1
    return second, extension


def test_a_load_that_is_steady_in_its_time_ends_with_it():
    second, extension = ends([200] * 16)
    assert (second, extension.reason, extension.extended_s) == (8, "", 0.0)


@pytest.mark.requirement("R-TUN-03")
def test_a_load_that_settles_late_goes_on_until_it_had_a_whole_window():
    """A large cold cache: it settles after seven of eight seconds, and five seconds of it are measured all the same."""
    second, extension = ends([20, 40, 60, 80, 110, 140, 170] + [200] * 9)
    assert 11 <= second <= 13
    assert extension.extended_s == second - 8
    assert "did not settle" in extension.sentence or "steady only after" in extension.sentence
    told = extension.told(Outcome(TrialState.COMPLETE))
    assert told.counters == {EXTENDED: second - 8}
    assert told.warnings == (extension.sentence,)


def test_a_load_that_rises_all_along_ends_with_its_reserve():
    assert ends([50 * (second + 1) for second in range(24)], reserve=16.0)[0] == 24


def test_a_load_that_lost_its_level_late_is_not_extended():
    """More time would have to be four times as long as what came before the fall: a repetition costs less."""
    assert ends([200] * 6 + [100] * 10)[0] == 8


def test_a_load_whose_log_tells_too_little_ends_as_planned():
    rising = [20, 40, 60, 80, 110, 140, 170, 200]
    extension = Extension(PLAN, Bounds(), 8.0)
    assert extension.is_over(8.0, bins(rising[:5]))
    assert extension.is_over(8.0, None)
    assert extension.is_over(8.0, bins(rising[:7]), True), "others used the machine: it is repeated whatever it does"
    assert not extension.is_over(8.0, bins(rising[:7]))


@pytest.mark.parametrize(("counters", "runs"), [({}, 3), ({EXTENDED: 4.0}, 2)])
def test_a_load_that_was_extended_in_vain_is_repeated_once(counters, runs):
    specs = []

    def run(spec):
        specs.append(spec)
        told = counters if spec.repeats is None else {}
        return Trial(len(specs), "s1", spec, TrialState.UNSTEADY, Outcome(TrialState.UNSTEADY, counters=told))

    run_repeating(run, TrialSpec(BASELINE, Role.BASELINE, "baseline", 0, 0))
    assert len(specs) == runs


def test_what_a_load_may_be_extended_by():
    told = {"left_s": None, "repeats_extended": False, "beside_others": False}
    assert reserve_s(PLAN, **told) == 16.0
    assert reserve_s(PLAN, **{**told, "left_s": 11.0}) == 2.0
    assert reserve_s(PLAN, **{**told, "left_s": 5.0}) == 0.0
    assert reserve_s(PLAN, **{**told, "repeats_extended": True}) == 0.0
    assert reserve_s(PLAN, **{**told, "beside_others": True}) == 0.0
    assert reserve_s(replace(PLAN, rate=100.0), **told) == 16.0
    assert reserve_s(replace(PLAN, rate=1.0), **told) == 0.0, "its clients sleep for longer than a second"


def test_an_extension_does_not_lengthen_what_later_trials_are_expected_to_take():
    watch = Stopwatch(100.0, began=0.0, clock=lambda: 0.0)
    for end, extended in ((10.0, 0.0), (28.0, 8.0)):
        watch.mark(
            Outcome(TrialState.COMPLETE, elapsed_s=10.0, counters={"wall_s": end, EXTENDED: extended}), recorded=False
        )
    assert (watch.longest_s, watch.trial_s) == (10.0, 14.0)


class Warming(Parts):
    """A load that warms up for longer than planned, by a clock that each wait moves on."""

    def __init__(self, rates):
        super().__init__()
        self.now, self.rates, self.is_stopped, self.plans = 0.0, rates, False, []

    def begin(self, target, dbname, plan, folder):
        self.plans.append(plan)
        self.is_stopped, self.began = False, self.now
        return super().begin(target, dbname, plan, folder)

    def wait(self, seconds, alarm=None):
        self.now += seconds
        return self.is_stopped

    def series(self):
        return bins(self.rates[: int(self.now - self.began)])

    def let_end(self):
        self._happens("load let end")
        self.is_stopped = True


def test_a_trial_is_extended_once_and_its_repetition_is_not(monkeypatch, tmp_path):
    parts = Warming([50 * (second + 1) for second in range(100)])
    monkeypatch.setattr(work, "assess", lambda *_, **__: Outcome(TrialState.UNSTEADY))
    with made(monkeypatch, tmp_path, parts) as laboratory:
        laboratory._timer = lambda: parts.now
        spec, length = TrialSpec(BASELINE, Role.BASELINE, "baseline", 0, 0), laboratory.study.plan.duration_s
        first = laboratory.run(spec)
        took = parts.now
        second = laboratory.run(replace(spec, repeats=first.id))
    assert first.outcome.counters[EXTENDED] == pytest.approx(2 * length, abs=1.5)
    assert "rose" in first.outcome.warnings[0]
    assert took == pytest.approx(3 * length, abs=1.5)
    assert EXTENDED not in second.outcome.counters
    assert [plan.duration_s for plan in parts.plans] == [3 * length, length]


def test_clients_that_sleep_for_a_second_may_be_extended_and_a_log_that_is_a_quarter_late_is_judged():
    told = {"left_s": None, "repeats_extended": False, "beside_others": False}
    assert reserve_s(replace(PLAN, rate=2.0), **told) == 16.0
    assert reserve_s(replace(PLAN, rate=1.99), **told) == 0.0
    rising = [20, 40, 60, 80, 110, 140, 170, 200]
    assert not Extension(PLAN, Bounds(), 8.0).is_over(8.0, bins(rising[:6]))
    assert Extension(PLAN, Bounds(), 8.0).is_over(8.01, bins(rising[:6]))


@pytest.mark.parametrize(("may_settle_s", "is_over"), [(16.0, False), (16.25, True), (None, True)])
def test_a_load_that_may_settle_at_the_very_end_of_its_reserve_goes_on(monkeypatch, may_settle_s, is_over):
    monkeypatch.setattr(module, "settling", lambda *_: Settling(0.0, "rises", may_settle_s))
    assert Extension(PLAN, Bounds(), 8.0).is_over(8.0, bins([200] * 8)) is is_over


def test_a_load_that_goes_on_ends_once_it_was_steady_for_a_whole_window(monkeypatch):
    monkeypatch.setattr(module, "settling", lambda *_: Settling(5.25))
    extension = Extension(PLAN, Bounds(), 8.0, reason="rises")
    assert [extension.is_over(seconds, bins([200] * 10)) for seconds in (10.0, 10.25)] == [False, True]
    assert extension.extended_s == 2.25
