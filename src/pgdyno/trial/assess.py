"""Turn what a load and the probes brought back into an outcome. Pure: no clock, no server."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from pgdyno.model.record import Examination
from pgdyno.model.samples import Event, SampleRow
from pgdyno.model.trial import BESIDE_OTHERS, LEAST_WARMUP_S, LEAST_WINDOW_S, LoadPlan, Outcome, TrialState
from pgdyno.probes.server_failures import count_failures, failure_warning, without_our_own
from pgdyno.probes.window import (
    counters,
    foreign_cpu_pct,
    foreign_disk_mb_per_s,
    foreign_sessions,
    server_cpu_s,
    steal_pct,
)
from pgdyno.stats.steady import find_steady
from pgdyno.workloads.result import CountBins, LoadResult, WindowResult

LEAST_SHARE = 1 / 3
"""Of the planned window, a load that settled late must have this much left to be scored."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a measurement must hold to be used.

    `foreign_cpu_pct` is CPU time of neither server nor driver nor pgdyno, in percent of one core, and `steal_pct` of
    all cores: above either, the trial is disturbed and repeated. The default of 15 % lies above what the kernel's own
    threads need for a busy server and below the 20 % at which throughput visibly suffered on two shared cores
    (measured by the project: correlation of throughput with foreign CPU -0.84 to -0.97).
    `foreign_disk_mb_per_s` is what the disks moved beyond what the server accounts for, `foreign_sessions` the mean
    number of busy sessions in other databases; None judges neither, as for studies on machines that are shared anyway.
    `min_warmup_s` is dropped even from a series that is steady at once; `min_window_s` is the shortest window that
    gives a score.
    """

    foreign_cpu_pct: float = 15.0
    steal_pct: float = 5.0
    min_warmup_s: float = LEAST_WARMUP_S
    min_window_s: float = LEAST_WINDOW_S
    foreign_disk_mb_per_s: float | None = None
    foreign_sessions: float | None = None


def assess(
    load: LoadResult,
    rows: Collection[SampleRow],
    plan: LoadPlan,
    bounds: Bounds,
    *,
    own_devices: bool = True,
    driver_is_here: bool = True,
    used_by: str = "",
    beside_others: bool = False,
    is_captured: bool = False,
) -> Outcome:
    """Return the outcome of a load that ran to its end; one that lacks a load generator is PARTIAL whatever else.

    `load` is what its driver brought back, and `rows` are the samples of server and host taken meanwhile; without any,
    what others used is unknown and disturbs nothing. `plan` is what was asked for, `bounds` what a run must hold.

    The measured window begins where the counts per bin and the latencies in them become steady, at the earliest after
    `bounds.min_warmup_s`. A load that settled after `plan.warmup_s` is scored by the steady rest, where that is
    `bounds.min_window_s` and LEAST_SHARE of the plan's window. A series that leaves less, or never is steady, is
    UNSTEADY and has no score, or DISTURBED where others used the machine meanwhile: the load is not to blame then.
    `own_devices` is False where the data lie on none of the devices that were watched: what those read is not counted.
    `driver_is_here` is False where the load generator ran on another host than the server.
    `used_by` names the processes of others that used CPU meanwhile. `beside_others` takes a machine whose CPUs others
    use as it is: the run is COMPLETE with a warning, and where they kept it from being steady the window is the plan's.
    `is_captured` is a load that is sent as it was captured, steady or not: its window is the plan's. One whose load
    generator was late is UNSTEADY, one that was not the load that was asked for is VOID.
    """
    measured = Outcome(
        state=TrialState.UNSTEADY if load.partial is None else TrialState.PARTIAL,
        reason=load.partial,
        began_at=load.began_at,
        ended_at=load.ended_at,
        transactions=load.transactions,
        failed=load.failed,
        retried=load.retried,
        skipped=load.skipped,
        driver_cpu_s=load.driver_cpu_s,
        warnings=tuple(warning.text for warning in load.warnings),
    )
    if load.void is not None:
        return replace(measured, state=TrialState.VOID, reason=load.void)
    machine = _Machine(rows, bounds, used_by, own_devices, driver_is_here)
    if load.late is not None:
        return machine.without_score(measured, load.late)
    bins = load.bins
    found = Settling(plan.warmup_s) if is_captured else settling(bins, plan, bounds)
    settled_s, unsettled = found.settled_s, found.unsettled
    if load.partial is not None:
        settled_s = min(settled_s, plan.warmup_s)  # a load that lost something is not steady: its figures are shown
    elif unsettled is not None:
        lost = machine.without_score(measured, unsettled)
        is_short = bins.bin_s * len(bins.counts) - plan.warmup_s < bounds.min_window_s
        if not beside_others or is_short or not _is_shared(lost, bounds):
            return lost
        settled_s = plan.warmup_s
    shortest_s = math.ceil(bounds.min_warmup_s / bins.bin_s) * bins.bin_s
    begin = bins.origin_s + max(settled_s, shortest_s)
    window = load.window(begin, load.ended_at)
    if window.transactions == 0:
        return replace(measured, reason=load.partial or "no transaction ended in the measured window")
    others = machine.others(begin, load.ended_at)
    judged = measured if load.partial is not None else _judged(measured, others, unsettled, beside_others=beside_others)
    return machine.scored(judged, window, others, begin)


@dataclass(frozen=True, slots=True)
class _OthersUse:
    """What others used of the machine meanwhile, None where it is not known, and what of it disturbs a run."""

    foreign_cpu_pct: float | None
    steal_pct: float | None
    rest: Mapping[str, float | None]
    of_cpu: str | None
    of_rest: str | None


@dataclass(frozen=True, slots=True)
class _Machine:
    """What was read of server and machine while a load ran; the fields are arguments of `assess`."""

    rows: Collection[SampleRow]
    bounds: Bounds
    used_by: str
    own_devices: bool
    driver_is_here: bool

    def others(self, begin: float, end: float) -> _OthersUse:
        foreign = foreign_cpu_pct(self.rows, begin, end, driver_is_here=self.driver_is_here)
        steal = steal_pct(self.rows, begin, end)
        rest = {
            "foreign_disk_mb_per_s": foreign_disk_mb_per_s(self.rows, begin, end),
            "foreign_sessions": foreign_sessions(self.rows, begin, end),
        }
        of_cpu = disturbance(foreign, steal, self.bounds, self.used_by)
        return _OthersUse(foreign, steal, rest, of_cpu, _by_others(rest, self.bounds))

    def without_score(self, measured: Outcome, reason: str | None) -> Outcome:
        """Return a series that never was steady, judged over the whole load: what others used may be why."""
        begin = measured.began_at + self.bounds.min_warmup_s
        if measured.ended_at <= begin:
            return replace(measured, reason=reason)
        others = self.others(begin, measured.ended_at)
        disturbed = others.of_cpu or others.of_rest
        state = TrialState.DISTURBED if disturbed else TrialState.UNSTEADY
        judged = replace(measured, state=state, reason="; ".join(filter(None, (disturbed, reason))))
        return self._with_counters(judged, others, measured.began_at)

    def scored(self, judged: Outcome, window: WindowResult, others: _OthersUse, begin: float) -> Outcome:
        """Return the outcome with the figures of its window, which goes on to the end of the load."""
        end = judged.ended_at
        server = server_cpu_s(self.rows, begin, end, load_ended_at=end)
        judged = self._with_counters(judged, others, begin)
        return replace(
            judged,
            steady_from=begin,
            throughput=window.throughput,
            latency_ms=window.latency,
            server_cpu_s=server,
            server_cpu_ms_per_tx=None if server is None else 1000 * server / window.transactions,
            warnings=(*judged.warnings, *_unknown(others.rest, self.bounds)),
            counters={
                **judged.counters,
                "window_s": end - begin,
                "window_transactions": window.transactions,
                "window_edges_s": window.edges_s,
            },
        )

    def _with_counters(self, judged: Outcome, others: _OthersUse, begin: float) -> Outcome:
        end = judged.ended_at
        found = counters(self.rows, begin, end, load_ended_at=end, own_devices=self.own_devices)
        rest = {name: value for name, value in others.rest.items() if value is not None}
        return replace(
            judged,
            foreign_cpu_pct=others.foreign_cpu_pct,
            steal_pct=others.steal_pct,
            counters={**judged.counters, **found, **rest},
        )


def _judged(measured: Outcome, others: _OthersUse, unsettled: str | None, *, beside_others: bool) -> Outcome:
    """Return the state of a run with a window: what others used disturbs it, or is taken as it is with a warning."""
    disturbed = others.of_cpu or others.of_rest
    if not (beside_others and others.of_rest is None and (disturbed or unsettled)):
        return replace(measured, state=TrialState.DISTURBED if disturbed else TrialState.COMPLETE, reason=disturbed)
    why = f"{disturbed or unsettled}: used anyway, as others stayed on this machine"
    marked, warnings = {**measured.counters, BESIDE_OTHERS: 1.0}, (*measured.warnings, why)
    return replace(measured, state=TrialState.COMPLETE, counters=marked, warnings=warnings)


@dataclass(frozen=True, slots=True)
class Settling:
    """After how many seconds a series became steady, and why its rest is none that counts, None where it is.

    `may_settle_s` is how long the series would have to be to become one that counts, as `Steady` has it.
    """

    settled_s: float
    unsettled: str | None = None
    may_settle_s: float | None = None


def settling(bins: CountBins, plan: LoadPlan, bounds: Bounds) -> Settling:
    """Tell whether and when a load has settled, as a window of it needs."""
    steady = find_steady(
        bins.counts, bin_s=bins.bin_s, min_window_s=bounds.min_window_s, latency_per_bin=bins.latency_us
    )
    if steady.start is None:
        return Settling(0.0, steady.reason, steady.may_settle_s)
    settled_s = steady.start * bins.bin_s
    rest_s, least_s = bins.bin_s * len(bins.counts) - settled_s, max(bounds.min_window_s, LEAST_SHARE * plan.measure_s)
    if settled_s <= plan.warmup_s + bins.bin_s or rest_s >= least_s - bins.bin_s / 2:
        return Settling(settled_s)
    why = f"steady only after {settled_s:.1f} s, {rest_s:.1f} s before its end: less than {least_s:.1f} s"
    return Settling(settled_s, why, settled_s + least_s)


def _is_shared(outcome: Outcome, bounds: Bounds) -> bool:
    """Tell whether others used the CPUs, and that alone is why an outcome is disturbed."""
    others = {name: outcome.counters.get(name) for name in _OTHERS}
    cpu = disturbance(outcome.foreign_cpu_pct, outcome.steal_pct, bounds, "")
    return cpu is not None and _by_others(others, bounds) is None


def with_failures(outcome: Outcome, events: Sequence[Event]) -> Outcome:
    """Return the outcome with the counts of what failed in the server, and a warning where anything grave did."""
    theirs = without_our_own(events)
    counts = count_failures(theirs)
    warning = failure_warning(counts, theirs)
    warnings = outcome.warnings if warning is None else (*outcome.warnings, warning)
    return replace(outcome, counters={**outcome.counters, **counts}, warnings=warnings)


def examined(outcome: Outcome, found: Examination) -> Outcome:
    """Return the outcome with what the workload says of its own data: where they break their conditions it is void."""
    counters, warnings = {**outcome.counters, **dict(found.figures)}, (*outcome.warnings, *found.warnings)
    outcome = replace(outcome, counters=counters, warnings=warnings)
    if found.violation is None:
        return outcome
    return replace(outcome, state=TrialState.VOID, reason=found.violation, throughput=None)


def disturbance(foreign: float | None, steal: float | None, bounds: Bounds, used_by: str) -> str | None:
    """Return why the CPU that others used spoils a run, None where it does not.

    `foreign` is in per cent of one core, `steal` of all CPUs, either None where it is not known; `bounds` has the
    limits of both. `used_by` names the processes, "" where unknown.
    """
    if foreign is not None and foreign > bounds.foreign_cpu_pct:
        by = f": {used_by}" if used_by else ""
        return f"foreign CPU was {foreign:.0f} % of a core, above the bound of {bounds.foreign_cpu_pct:.0f} %{by}"
    if steal is not None and steal > bounds.steal_pct:
        return f"steal was {steal:.1f} %, above the bound of {bounds.steal_pct:.1f} %"
    return None


_OTHERS = {
    "foreign_disk_mb_per_s": "disk traffic of others was {value:.1f} MB/s, above the bound of {bound:g} MB/s",
    "foreign_sessions": "{value:.1f} sessions of others were busy on average, above the bound of {bound:g}",
}


def _by_others(found: Mapping[str, float | None], bounds: Bounds) -> str | None:
    for name, words in _OTHERS.items():
        value, bound = found[name], getattr(bounds, name)
        if value is not None and bound is not None and value > bound:
            return words.format(value=value, bound=bound)
    return None


def _unknown(found: Mapping[str, float | None], bounds: Bounds) -> list[str]:
    """Return a warning for each bound that could not be judged."""
    unjudged = [name for name in _OTHERS if found[name] is None and getattr(bounds, name) is not None]
    why = "server or host could not be read"
    return [f"{name} is unknown and was not judged: {why}" for name in unjudged]
