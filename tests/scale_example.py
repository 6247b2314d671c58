"""A scalability study without a server: its plan, and runs of made figures."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from pgdyno.model.trial import LatencySummary, Outcome, Trial, TrialState
from pgdyno.studies.scale.file import parse_plan
from pgdyno.studies.scale.plan import CONNECTIONS, LEVEL, ScalePlan
from pgdyno.studies.scale.runs import BottleneckWords, ScaleRun

PLAN = """\
version = 1

[scale]
name = "certification"
repetitions = 6

[load]
workload = "select-only"
rate = 400
clients = 8
warmup = "5s"
measure = "20s"
parameters = { scale = 1 }

[criterion]
success = "1 %"
response = "10 %"
path_length = "5 %"
response_time = "latency_p95"

[[level]]
percent = 60
cpus = 0.3

[[level]]
percent = 100
cpus = 0.5

[[level]]
percent = 125
cpus = 0.625

[[level]]
percent = 150
cpus = 0.75

[clients]
connections = [1, 2, 4, 8, 16, 32]
cpus = 0.5
"""
Shape = Callable[[float], float]
"""A factor on a figure by the level in per cent."""


def planned(text: str = PLAN) -> ScalePlan:
    return parse_plan(text, source="plan.toml", folder=Path("/plans"))


def made_runs(
    plan: ScalePlan,
    *,
    response: Shape = lambda _: 1.0,
    path: Shape = lambda _: 1.0,
    reached: Shape = lambda _: 1.0,
    throughput: Shape = lambda n: 1000 * n / (1 + 0.08 * (n - 1) + 0.004 * n * (n - 1)),
    noise: float = 0.01,
    seed: int = 3,
) -> list[ScaleRun]:
    """Return every run of the plan: response, path length and reached rate by level, throughput by connections."""
    rng, found = random.Random(seed), list[ScaleRun]()

    def around(value: float) -> float:
        return value * rng.lognormvariate(0, noise)

    for repetition in range(1, plan.repetitions + 1):
        for spec in plan.specs(repetition):
            level, seconds = spec.factors.get(LEVEL), 25.0
            if level is None:
                tps, share = around(throughput(float(spec.factors[CONNECTIONS]))), 0.0
            else:
                share = float(level)
                tps = (plan.rate or 0.0) * share / 100 * reached(share)
            behind = level is not None and reached(share) < 0.95
            latency = around(8.0 * response(share))
            outcome = Outcome(
                state=TrialState.UNSTEADY if behind else TrialState.COMPLETE,
                reason="never steady" if behind else None,
                began_at=1000.0,
                ended_at=1000.0 + seconds,
                throughput=None if behind else tps,
                latency_ms=None
                if behind
                else LatencySummary(latency / 2, latency, latency * 2, latency * 3, 90, latency),
                transactions=round(tps * seconds),
                server_cpu_s=around(0.0005 * path(share)) * tps * seconds,
                server_cpu_ms_per_tx=None if behind else around(0.5 * path(share)),
                elapsed_s=30.0,
                counters={"window_s": seconds, "window_transactions": tps * seconds},
            )
            locks = {"row_exclusive": 2.0, "access_share": 3.0, "exclusive": 1.0}
            found.append(
                ScaleRun(
                    trial=Trial(len(found) + 1, "scale-1", spec, outcome.state, outcome), cpu_pct=50.0, locks=locks
                )
            )
    return found


def judged(_trial: Trial, busy: float | None) -> BottleneckWords:
    return BottleneckWords(words="nothing" if (busy or 0) < 0.9 else "the level's CPUs", evidence=("seen",))
