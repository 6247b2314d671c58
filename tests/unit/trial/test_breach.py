"""What a breach means for the study, and the baselines that a running load is held against."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from pgdyno.model.guard import Breach, Concurrent, GuardKind, GuardReading
from pgdyno.model.trial import LatencySummary, LoadPlan, Outcome, TrialState, WorkloadSpec
from pgdyno.trial.breach import BASELINES, Baselines, concurrent, ending

PLAN = LoadPlan(clients=2, jobs=1, warmup_s=1.0, measure_s=5.0)


def outcome(tps: float | None, p99: float | None = None) -> Outcome:
    latency = None if p99 is None else LatencySummary(1.0, 2.0, p99, 4.0, 5.0, 1.5)
    return Outcome(TrialState.COMPLETE, throughput=tps, latency_ms=latency)


def breach(kind: GuardKind) -> Breach:
    return Breach("disk", kind, 5.0, 4.0, GuardReading("disk", 5.0, 1.0), 2.0, "1 B, below 2 B")


def load(parameters: Mapping[str, int], fingerprint: str = "f") -> Any:
    return SimpleNamespace(spec=lambda: WorkloadSpec("w", parameters, fingerprint, "", False))


def test_throughputs_are_averaged_and_of_percentiles_the_largest_is_kept() -> None:
    assert concurrent([outcome(100.0, 5.0), outcome(200.0, 9.0), outcome(300.0)]) == Concurrent(200.0, 9.0)
    assert concurrent([outcome(100.0), outcome(None, 9.0)]) == Concurrent(100.0, None)
    assert concurrent([outcome(0.0, 5.0), outcome(None)]) is None
    assert concurrent([]) is None


def test_the_latest_three_of_the_very_same_load_count() -> None:
    baselines = Baselines()
    for tps in (1.0, 10.0, 20.0, 60.0):
        baselines.keep(outcome(tps), PLAN, load({"a": 1, "b": 2}))
    assert BASELINES == 3
    assert baselines.of(PLAN, load({"b": 2, "a": 1})) == Concurrent(30.0, None)
    others = (load({"a": 1, "b": 3}), load({"a": 1, "b": 2}, "g"))
    assert [baselines.of(PLAN, other) for other in others] == [None, None]
    other_plan = LoadPlan(clients=60, jobs=1, warmup_s=1.0, measure_s=5.0)
    assert baselines.of(other_plan, load({"a": 1, "b": 2})) is None


@pytest.mark.parametrize(
    ("kind", "is_baseline", "trips", "words"),
    [
        (GuardKind.ENVIRONMENT, False, 1, "No configuration is to blame"),
        (GuardKind.ENVIRONMENT, True, 9, "No configuration is to blame"),
        (GuardKind.CONFIGURATION, True, 1, "It was the baseline's trial"),
        (GuardKind.CONFIGURATION, False, 3, "Guards have rejected 3 configurations"),
        (GuardKind.CONFIGURATION, False, 4, "Guards have rejected 4 configurations"),
    ],
)
def test_what_ends_the_study(kind: GuardKind, is_baseline: bool, trips: int, words: str) -> None:
    found = ending(breach(kind), is_baseline=is_baseline, trips=trips, most=3)
    assert found is not None
    assert found.message == "guard disk: 1 B, below 2 B"
    assert (found.detail or "").startswith(words)
    assert "--guard disk=VALUE" in (found.hint or "")


def test_a_configuration_is_rejected_alone_until_the_user_has_enough() -> None:
    assert ending(breach(GuardKind.CONFIGURATION), is_baseline=False, trips=2, most=3) is None
