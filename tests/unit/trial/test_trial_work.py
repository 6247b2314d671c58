"""What one trial has gathered by its end: the way to its server, its clients' window, and what its outcome counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from facts_from_params import make_facts
from pgdyno.model.configuration import BASELINE
from pgdyno.model.trial import LoadPlan, Outcome, Role, TrialSpec, TrialState
from pgdyno.trial import work as module
from pgdyno.trial.assess import Bounds
from pgdyno.trial.work import Work

PLAN = LoadPlan(clients=2, jobs=1, warmup_s=1.0, measure_s=5.0)


def work_of(plan: LoadPlan = PLAN, *, clock: str = "", **load: Any) -> Work:
    workload: Any = SimpleNamespace(spec=lambda: SimpleNamespace(clock=clock))
    work = Work(7, TrialSpec(BASELINE, Role.ARM, "A", 0, 0), plan, workload, None, 0.0, 0.0)
    work.load = SimpleNamespace(**{"round_trips": None, "pause_s": 0.0, "began_at": 100.0, "ended_at": 110.0, **load})  # type: ignore[assignment]  # what is asked of it
    work.batch = SimpleNamespace(rows=[], path={"over_network": 0.0}, neighbours=(), driver_is_here=False)  # type: ignore[assignment]
    return work


def test_the_way_to_the_server_is_the_driver_s_own_or_the_one_that_was_sampled() -> None:
    assert work_of().network_counters() == {"over_network": 0.0}
    told = work_of(round_trips=3.5, pause_s=0.25).network_counters()
    assert told == {"over_network": 0.0, "round_trips": 3.5, "script_pause_s": 0.25}
    own = work_of(LoadPlan(clients=2, jobs=1, warmup_s=1.0, measure_s=5.0, host="/run/postgresql"))
    assert own.network_counters() == {"over_network": 0.0}
    own.batch.path["over_network"] = 1.0  # type: ignore[union-attr]  # it was set above
    assert (own.network_counters(), work_of().is_captured) == ({"over_network": 0.0}, False)
    assert work_of(clock="schedule").is_captured


@pytest.mark.parametrize(("steady_from", "begin"), [(None, 100.0), (103.0, 103.0)])
def test_clients_are_told_of_the_window_and_of_the_whole_load_without_one(
    monkeypatch: pytest.MonkeyPatch, steady_from: float | None, begin: float
) -> None:
    asked: list[tuple[float, float]] = []
    monkeypatch.setattr(module, "client_records", lambda log: log)
    log = SimpleNamespace(between=lambda *window: asked.append(window) or ["client"])
    found: object = work_of(log=log).clients(Outcome(TrialState.COMPLETE, steady_from=steady_from))
    assert (asked, found) == ([(begin, 110.0)], ["client"])


@pytest.mark.parametrize(("warmed", "more"), [(0, {}), (4096, {"warmed_bytes": 4096.0})])
def test_an_outcome_counts_what_the_trial_took_besides(
    monkeypatch: pytest.MonkeyPatch, warmed: int, more: dict[str, float]
) -> None:
    told: list[dict[str, Any]] = []
    seen = Outcome(TrialState.COMPLETE, counters={"seen": 1.0})
    monkeypatch.setattr(module, "assess", lambda *_, **words: told.append(words) or seen)
    work = work_of(clock="schedule")
    work.database_bytes, work.reset_s, work.warmed_bytes = 5e6, 2.5, warmed
    outcome = work.assessed(make_facts(18), Bounds(), beside_others=True)
    assert outcome.counters == {"seen": 1.0, "database_bytes": 5e6, "reset_s": 2.5, "over_network": 0.0, **more}
    assert told == [
        {"own_devices": True, "driver_is_here": False, "used_by": "", "beside_others": True, "is_captured": True}
    ]
    monkeypatch.setattr(module, "poor_outcome", lambda *_, **words: told.append(words) or seen)
    work.ended_early = SimpleNamespace()  # type: ignore[assignment]  # it is only handed on
    work.assessed(make_facts(18), Bounds(), beside_others=False)
    assert told[1:] == [{"driver_is_here": False, "used_by": "", "beside_others": False}]


def test_of_a_load_that_runs_its_processes_are_no_foreign_ones() -> None:
    work = work_of()
    assert work.driver_pids() == ()
    work.running = SimpleNamespace(pids=(11, 12))  # type: ignore[assignment]  # what is asked of it
    assert work.driver_pids() == (11, 12)
