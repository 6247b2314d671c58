"""A search trial that runs far behind the best ends at half of its window; no other trial ever does."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from laboratory_parts import Parts, made
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.samples import Event
from pgdyno.model.trial import BESIDE_OTHERS, ENDED_EARLY, LoadPlan, Role, TrialSpec, TrialState
from pgdyno.trial.assess import Bounds
from pgdyno.trial.hopeless import FLOOR_SHARE, Rates, is_hopeless, poor_outcome
from pgdyno.workloads.protocol import LoadReading

PLAN = LoadPlan(clients=4, jobs=2, warmup_s=10.0, measure_s=40.0)


def heard(rate, floor_tps=75.0, plan=PLAN):
    """Return the rates of a load that is heard once a second, and the second at which it was ended, if it was."""
    rates = Rates(floor_tps, plan)
    for second in range(1, int(plan.duration_s) + 1):
        if rates.hear(float(second), LoadReading(1000.0 + second, rate(second), 1.0, 2.0, 100 * second, 0)):
            return rates, second
    return rates, None


def test_far_below_the_floor_it_ends_at_half_of_the_window_and_says_so():
    rates, at = heard(lambda s: 50.0 + s % 3)
    assert at == PLAN.warmup_s + PLAN.measure_s / 2
    assert "half of the window" in rates.sentence()
    outcome = poor_outcome(rates, [], Bounds(), used_by="", beside_others=False)
    assert outcome.state is TrialState.COMPLETE
    assert outcome.throughput == pytest.approx(51, abs=1)
    assert outcome.counters[ENDED_EARLY] == 1
    assert outcome.counters["window_s"] == outcome.ended_at - outcome.began_at == 20


@pytest.mark.parametrize(
    "rate",
    [
        lambda s: 80.0,
        lambda s: 74.0 + 20 * math.sin(s),
        lambda s: 2.0 * s,
        lambda s: 0.0 if s <= 10 else 90.0,
    ],
    ids=["above", "not surely below", "still rising", "only the warm-up was slow"],
)
def test_what_may_still_come_to_something_goes_on(rate):
    assert heard(rate)[1] is None


def test_without_a_floor_or_with_too_few_seconds_nothing_ends():
    assert heard(lambda s: 1.0, floor_tps=None)[1] is None
    assert heard(lambda s: 1.0, plan=LoadPlan(clients=4, jobs=2, warmup_s=3.0, measure_s=8.0))[1] is None
    assert not is_hopeless([(float(s), 1.0) for s in range(4)], 10.0, 75.0)


def test_a_reading_that_was_heard_before_counts_once():
    rates, same = Rates(75.0, PLAN), LoadReading(1.0, 10.0, 1.0, 2.0, 100, 0)
    assert not any(rates.hear(35.0, same) for _ in range(20))
    assert len(rates.seconds) == 1


def spec(role, settings):
    return TrialSpec(Configuration.of(settings) if settings else BASELINE, role, "arm", 1, 0)


@pytest.mark.parametrize("role", list(Role))
def test_only_a_search_trial_is_ended(monkeypatch, tmp_path, role):
    def hear(self, elapsed, reading):
        self.seconds.append((elapsed, 5.0))
        self.began_at, self.ended_at = 1.0, 2.0
        return self.floor_tps is not None

    monkeypatch.setattr(Rates, "hear", hear)
    monkeypatch.setattr(Parts, "poll", lambda self: self.said.count("reading") >= 2)
    parts = Parts(**({} if role is Role.SEARCH else {"finish load": KeyboardInterrupt()}))
    with made(monkeypatch, tmp_path, parts) as laboratory:
        if role is not Role.SEARCH:
            with pytest.raises(KeyboardInterrupt):  # it ran to its own end
                laboratory.run(spec(role, {"work_mem": "8MB"}), floor_tps=100.0)
            return
        trial = laboratory.run(spec(role, {"work_mem": "8MB"}), floor_tps=100.0)
    assert trial.state is TrialState.COMPLETE
    assert (trial.outcome.throughput, trial.outcome.counters[ENDED_EARLY]) == (5.0, 1.0)
    assert parts.said.index("terminate load") < parts.said.index("stop sampling")
    assert "discard logs" in parts.said


def test_beside_others_it_is_used_and_says_so_and_else_it_is_disturbed(monkeypatch):
    places = []
    monkeypatch.setattr(
        "pgdyno.trial.hopeless.foreign_cpu_pct", lambda *_, driver_is_here: places.append(driver_is_here) or 80.0
    )
    rates, _ = heard(lambda s: 50.0)
    states = [poor_outcome(rates, [], Bounds(), used_by="", beside_others=stays) for stays in (True, False)]
    assert [one.state for one in states] == [TrialState.COMPLETE, TrialState.DISTURBED]
    assert states[0].counters[BESIDE_OTHERS] == 1.0
    poor_outcome(rates, [], Bounds(), driver_is_here=False, used_by="", beside_others=True)
    assert places == [True, True, False]


@pytest.mark.parametrize(("at", "is_ours"), [(1.5, False), (2.5, True)])
def test_sessions_that_a_load_leaves_when_we_end_it_are_no_failure_of_the_server(monkeypatch, tmp_path, at, is_ours):
    def hear(self, elapsed, reading):
        self.seconds.append((elapsed, 5.0))
        self.began_at, self.ended_at = 1.0, 2.0
        return True

    fatal = Event(at, "session_fatal", "a session in the load's database ended by a fatal error")
    monkeypatch.setattr(Rates, "hear", hear)
    monkeypatch.setattr(Parts, "poll", lambda self: self.said.count("reading") >= 2)
    batch = SimpleNamespace(rows=[], events=[fatal], path={}, neighbours=(), driver_is_here=True)
    monkeypatch.setattr(Parts, "stop", lambda self: batch)
    with made(monkeypatch, tmp_path, Parts()) as laboratory:
        trial = laboratory.run(spec(Role.SEARCH, {"work_mem": "8MB"}), floor_tps=100.0)
        assert "cut short" in [event.kind for event in laboratory.store.events(trial.id)]
    assert (trial.outcome.warnings == ()) == is_ours


READINGS = [(1.0, 10.0), (2.0, 12.0), (3.0, 10.0), (4.0, 12.0), (5.0, 11.0)]
"""Their mean is 11, its error one over the root of five, and they rise by 0.2 a second about the third."""


@pytest.mark.parametrize(
    ("end_s", "floor_tps", "hopeless"),
    [(3.0, 12.34, False), (3.0, 12.35, True), (10.0, 12.39, False), (10.0, 12.41, True)],
    ids=["not surely below", "by three errors", "would reach it", "would not"],
)
def test_five_readings_are_judged_by_three_errors_and_by_where_they_rise_to(end_s, floor_tps, hopeless):
    assert is_hopeless(READINGS, end_s, floor_tps) is hopeless
    assert not is_hopeless(READINGS[:4], end_s, 1000.0)
    assert FLOOR_SHARE == 0.75


def test_rates_that_fall_do_not_rise():
    falling = [(at, 22.0 - tps) for at, tps in READINGS]
    assert is_hopeless(falling, 100.0, 12.35)
    assert not is_hopeless(falling, 100.0, 12.34)


def test_what_was_seen_until_then_is_counted_over_its_own_seconds(monkeypatch):
    monkeypatch.setattr("pgdyno.trial.hopeless.server_cpu_s", lambda *_, **__: 4.0)
    rates, _ = heard(lambda s: 50.0)
    outcome = poor_outcome(rates, [], Bounds(), used_by="", beside_others=False)
    assert (outcome.began_at, outcome.steady_from, outcome.ended_at) == (1010.0, 1010.0, 1030.0)
    assert (outcome.transactions, outcome.server_cpu_ms_per_tx) == (1000, 4.0)


def test_a_reading_is_heard_once_and_the_sentence_has_both_rates():
    rates = Rates(75.0, PLAN)
    for elapsed_s, t in ((10.0, 1010.0), (11.0, 1011.0), (11.5, 1011.0), (12.0, 1012.0)):
        rates.hear(elapsed_s, LoadReading(t, 40.0 + elapsed_s, 1.0, 2.0, 100, 0))
    assert rates.seconds == [(11.0, 51.0), (12.0, 52.0)], "at 10 s it warms up"
    assert rates.began_at == 1010.0
    assert rates.sentence().startswith("ended early: 52 tps at half of the window, below the 75 tps that")


def test_what_is_just_not_below_the_floor_by_three_errors_goes_on():
    falling = [(float(second), 60.0 - second) for second in range(9)]
    tps = np.array([rate for _, rate in falling])
    floor_tps = float(tps.mean()) + 3.0 * (float(tps.std(ddof=1)) / float(np.sqrt(tps.size)))
    assert not is_hopeless(falling, 20.0, floor_tps)
    assert is_hopeless(falling, 20.0, float(np.nextafter(floor_tps, np.inf)))


def test_what_would_rise_to_just_the_floor_goes_on():
    at, tps = (np.array(each) for each in zip(*READINGS, strict=True))
    spread = at - at.mean()
    floor_tps = float(tps.mean()) + float(spread @ tps) / float(spread @ spread) * (13.0 - float(at.mean()))
    assert not is_hopeless(READINGS, 13.0, floor_tps)
    assert is_hopeless(READINGS, 13.0, float(np.nextafter(floor_tps, np.inf)))
