"""Add up what several load generators measured. Pure.

Counts and CPU are sums; a throughput or a latency is taken from the joined transactions of the window in which all
generators ran, so that no start or end of one of them weighs in it, and no percentile is ever averaged.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgdyno.model.record import InstanceRecord
from pgdyno.model.trial import LoadPlan
from pgdyno.units import plural
from pgdyno.workloads.load_warnings import LoadFacts, judge_load
from pgdyno.workloads.pgbench.folded_log import QUARTER_S, ceil_quarter, joined
from pgdyno.workloads.pgbench.transaction_log import Tally
from pgdyno.workloads.result import Gap, LoadResult, SecondHistograms, count_bins


@dataclass(frozen=True, slots=True)
class Part:
    """What one load generator came to: a result, or nothing at all and the reason why."""

    instance: int
    result: LoadResult | None
    failure: str | None = None

    @property
    def reason(self) -> str | None:
        """Return None when it ran to its end with all its clients."""
        return self.failure if self.result is None else self.result.reason


def merge(
    parts: Sequence[Part],
    plan: LoadPlan,
    *,
    began_at: float,
    scale: int | None = None,
    cores: int | None = None,
    throttled_pct: float | None = None,
) -> LoadResult:
    """Return the load as a whole; at least one part must have a result.

    With a generator that was killed or ended short the load is partial: its transactions are counted, while window and
    series are those of the others, whose figures hold among themselves. When all ended early the load has a `reason`,
    as a single one would, and a `failure` where the script of any of them failed.

    `parts` are in the order of the load generators, `plan` is what each of them ran, and `began_at` is when they began,
    in seconds since the epoch. `scale` is that of tables on whose branches the clients meet, None where they do not;
    `cores` is the number that the load generators may use, None for this process's. `throttled_pct` is in how many per
    cent of its periods the worst of them was stopped by its CPU quota, None without a quota.
    """
    measured = [part.result for part in parts if part.result is not None]
    whole = [result for result in measured if result.reason is None] or measured
    log = joined([result.log for result in whole])
    began = ceil_quarter(max(result.log.first_end_us for result in whole) / 1e6) * QUARTER_S
    ended = max(min(result.ended_at for result in whole), began)
    if len(whole) > 1:
        ended = max(ended // QUARTER_S * QUARTER_S, began)  # the others went on: the window ends with a quarter second
    early = [part for part in parts if part.reason is not None]
    counts = Tally(*(sum(getattr(result, name) for result in measured) for name in _COUNTS))
    cpu = sum(result.driver_cpu_s for result in measured)
    malformed = sum(result.malformed_lines for result in measured)
    away = next((result.partial for result in measured if result.partial), None)
    return LoadResult(
        began_at=began_at,
        ended_at=ended,
        transactions=counts.committed,
        failed=counts.failed,
        retried=counts.retried,
        skipped=counts.skipped,
        driver_cpu_s=cpu,
        bins=count_bins(log.between(began, ended), began_at=began),
        histograms=SecondHistograms(tuple(part for result in measured for part in result.histograms.parts)),
        warnings=judge_load(
            LoadFacts(
                plan=_whole_plan(plan),
                seconds=ended - began_at,
                cores=len(os.sched_getaffinity(0)) if cores is None else cores,
                driver_cpu_s=cpu,
                counts=counts,
                malformed_lines=malformed,
                scale=scale,
                plans=measured[0].plans,
                pauses=any(result.pauses for result in measured),
                throttled_pct=throttled_pct,
            ),
            log,
        ),
        log_files=tuple(file for result in measured for file in result.log_files),
        argv=measured[0].argv,
        exit_code=next((result.exit_code for result in measured if result.exit_code), 0),
        aborted_clients=sum(result.aborted_clients for result in measured),
        malformed_lines=malformed,
        reason=_all_early(early) if len(early) == len(parts) else None,
        failure=next((result.failure for result in measured if result.failure is not None), None),
        plans=measured[0].plans,
        pauses=any(result.pauses for result in measured),
        instances=tuple(_record(part, plan, began_at, began, ended) for part in parts),
        partial=_some_early(early, len(parts)) if 0 < len(early) < len(parts) else away,
        gaps=_gaps(measured, plan),
        device_reads=measured[0].device_reads,
        round_trips=_round_trips(measured),
        pause_s=_pause_s(measured),
        log=log,
    )


def _round_trips(results: Sequence[LoadResult]) -> float | None:
    known = [(result.transactions, result.round_trips) for result in results if result.round_trips is not None]
    counted = sum(count for count, _ in known)
    if len(known) < len(results) or not counted:
        return None
    return sum(count * trips for count, trips in known) / counted


def _pause_s(results: Sequence[LoadResult]) -> float:
    counted = sum(result.transactions for result in results)
    return sum(result.transactions * result.pause_s for result in results) / counted if counted else 0.0


def _gaps(results: Sequence[LoadResult], plan: LoadPlan) -> tuple[Gap, ...]:
    """Return the gaps of all generators, their sessions numbered through."""
    every = [(number * plan.clients, gap) for number, result in enumerate(results) for gap in result.gaps]
    return tuple(replace(gap, session=first + gap.session) for first, gap in every)


_COUNTS = ("transactions", "failed", "retried", "skipped")


def _whole_plan(plan: LoadPlan) -> LoadPlan:
    """Return the plan of one generator with the clients and threads of all, as the warnings judge one."""
    rate = None if plan.rate is None else plan.rate * plan.instances
    return replace(plan, clients=plan.connections, jobs=plan.instances * min(plan.jobs, plan.clients), rate=rate)


def _record(part: Part, plan: LoadPlan, load_began: float, began: float, ended: float) -> InstanceRecord:
    result = part.result
    if result is None:
        return InstanceRecord(part.instance, plan.clients, load_began, load_began, 0, 0, None, None, None, part.reason)
    window = result.window(began, ended) if ended > began else None
    return InstanceRecord(
        instance=part.instance,
        clients=plan.clients,
        began_at=result.log.first_began_us / 1e6,
        ended_at=result.ended_at,
        transactions=result.transactions,
        failed=result.failed,
        throughput=None if window is None else window.throughput,
        latency_ms=None if window is None or window.latency is None else window.latency.mean,
        driver_cpu_s=result.driver_cpu_s,
        reason=part.reason,
    )


def _some_early(early: Sequence[Part], count: int) -> str:
    first = early[0]
    others = f", and {len(early) - 1} more" if len(early) > 1 else ""
    return f"{len(early)} of {count} load generators ended early: number {first.instance}, {first.reason}{others}"


def _all_early(early: Sequence[Part]) -> str:
    return f"all {plural(len(early), 'load generator')} ended early: {early[0].reason}"
