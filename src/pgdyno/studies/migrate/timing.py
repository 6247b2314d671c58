"""Phases and items of a rehearsal from its journal, what held each phase back, and the critical path. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pgdyno.migration.journal import JournalState
from pgdyno.migration.mover import PhaseStep
from pgdyno.migration.plan import MigrationPlan
from pgdyno.model.bottleneck import BottleneckVerdict, Resource
from pgdyno.model.results.migrate import (
    AFTERWARDS,
    ItemEnd,
    ItemTiming,
    MigrateResult,
    MigrationPhase,
    PhaseTiming,
)
from pgdyno.model.samples import SampleRow
from pgdyno.probes.bottleneck_judge import judge_bottleneck
from pgdyno.probes.run_figures import LoadShape, read_figures
from pgdyno.stats.precedence import CriticalPath, critical_path

_TOTALS = ("archive",)
"""Kinds of items that are the sum of others."""


def phase_timings(
    plan: MigrationPlan, steps: Sequence[PhaseStep], state: JournalState, jobs: int
) -> tuple[PhaseTiming, ...]:
    """Return every phase as the journal has it, in the order in which they began; `jobs` is that of this run.

    `steps` are the phases of the rehearsal, of which `state` has begins, ends and items, and `plan` the planned times.
    A phase that never began comes last; `jobs` is how many items are worked on at a time.
    """
    found = [_timing(plan, one, state, jobs) for one in steps]
    return tuple(sorted(found, key=lambda one: (one.began_s is None, one.began_s or 0.0)))


def _timing(plan: MigrationPlan, step: PhaseStep, state: JournalState, jobs: int) -> PhaseTiming:
    phase = step.phase
    items = [one for (of, _), one in state.items.items() if of is phase and one.end is ItemEnd.DONE]
    own = [one for one in items if one.kind not in _TOTALS]
    end = ItemEnd.NOT_RUN
    if step.left_out:
        end = ItemEnd.LEFT_OUT
    elif phase in state.failed:
        end = ItemEnd.FAILED
    elif phase in state.ended:
        end = ItemEnd.DONE
    planned = plan.phases.get(phase)
    return PhaseTiming(
        phase=phase,
        end=end,
        after=step.after,
        began_s=state.began.get(phase),
        ended_s=state.ended.get(phase),
        jobs=jobs,
        items=len(own),
        bytes=_sum([one.bytes for one in own]),
        rows=_sum([one.rows for one in own]),
        planned_s=None if planned is None else planned.planned_s,
        reason=step.left_out or state.failed.get(phase, ""),
    )


def _sum(values: Sequence[int | None]) -> int | None:
    known = [one for one in values if one is not None]
    return sum(known) if known else None


def item_timings(state: JournalState) -> tuple[ItemTiming, ...]:
    """Return every item that was begun, in the order of its begin."""
    return tuple(sorted(state.items.values(), key=lambda one: one.began_s or 0.0))


def total_of(phases: Sequence[PhaseTiming]) -> float | None:
    """Return from the first begin to the last end of what is not done afterwards; None where a phase is not done."""
    own = [one for one in phases if one.phase not in AFTERWARDS and one.end is not ItemEnd.LEFT_OUT]
    if any(one.end is not ItemEnd.DONE for one in own):
        return None
    begins, ends = [one.began_s or 0.0 for one in own], [one.ended_s or 0.0 for one in own]
    return max(ends) - min(begins) if ends else None


def outage_of(measured_s: float | None, phases: Sequence[PhaseTiming], total_s: float | None) -> float | None:
    """Return how long nobody could have worked: as measured, else the cut-over, else the whole.

    Where a killed run had the cut-over, what it measured is gone; its phase is a little longer.
    """
    cut = next((one for one in phases if one.phase is MigrationPhase.CUT_OVER and one.end is ItemEnd.DONE), None)
    return measured_s if measured_s is not None else total_s if cut is None else cut.seconds


def path_of(result: MigrateResult) -> CriticalPath:
    """Return which phases the whole hangs on, by their measured times and dependencies."""
    own = [one for one in result.phases if one.phase not in AFTERWARDS]
    after: Mapping[str, Sequence[str]] = {one.phase.value: [other.value for other in one.after] for one in own}
    return critical_path(after, {one.phase.value: one.seconds for one in own if one.seconds is not None})


SHORTEST_S = 3.0
"""Of a phase that is shorter too few seconds are sampled."""
NOT_SEEN = "it took less than 3 s: too short to judge from one sample a second"


def judged_phases(
    phases: Sequence[PhaseTiming],
    sides: dict[str, tuple[Collection[SampleRow], bool]],
    began_at: float,
) -> tuple[PhaseTiming, ...]:
    """Return the phases with what held them back; `sides` has rows by side, and whether its host was sampled here.

    `began_at` is the moment, in seconds since the epoch, from which the phases' times count.
    """
    found = []
    for one in phases:
        limits, words = dict(one.limits), dict[str, str]()
        for side, (rows, own_host) in sides.items():
            if one.began_s is None or one.ended_s is None:
                continue
            span = (began_at + one.began_s, began_at + one.ended_s)
            verdict = _verdict(one.jobs, span, rows, own_host=own_host)
            words[side] = verdict.resource.value
            limits[side] = verdict.evidence[0] if verdict.evidence else ""
        found.append(
            replace(one, source_limit=words.get("source", ""), target_limit=words.get("target", ""), limits=limits)
        )
    return tuple(found)


def _verdict(jobs: int, span: tuple[float, float], rows: Collection[SampleRow], *, own_host: bool) -> BottleneckVerdict:
    begin, end = span
    if end - begin < SHORTEST_S:
        return BottleneckVerdict(Resource.UNKNOWN, None, (NOT_SEEN,))
    load = LoadShape(clients=jobs, jobs=jobs, load_s=end - begin)
    figures = read_figures(rows, load, begin, end, {})
    return judge_bottleneck(replace(figures, own_host=own_host, own_devices=own_host))
