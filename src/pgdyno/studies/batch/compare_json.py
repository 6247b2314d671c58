"""A comparison as `--json` prints it: the same figures as on the page. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.results.parts import PlanChange
from pgdyno.model.shapes import Json
from pgdyno.studies.batch.comparing import BatchComparison, ComparedProcess


def comparison_json(said: BatchComparison, plans: Sequence[PlanChange] = ()) -> dict[str, Json]:
    """Return the comparison; figures that there are not are null."""
    return {
        "chain": said.chain,
        "verdict": said.standing.value,
        "processes": [_process(one) for one in said.processes],
        "improvement_pct": {one.name: one.saved_pct for one in said.means},
        "plans_changed": {one.statement: list(one.what) for one in plans if one.word == "changed"},
    }


def _process(one: ComparedProcess) -> Json:
    return {
        "process": one.name,
        "verdict": one.standing.value,
        "reason": one.reason,
        "reference_window_s": one.reference_s,
        "windows_s": list(one.windows),
        "window_pct": one.share_pct,
        "window_pct_interval": None if one.interval is None else [100 * one.interval.lo, 100 * one.interval.hi],
        "jobs": one.jobs,
        "compared": len(one.compared),
        "compared_pct": one.compared_pct,
        "shorter": one.shorter,
        "threshold_s": one.threshold_s,
        "improvement_of_sums_pct": one.saved_pct,
        "improvement_mean_of_jobs_pct": one.mean_saved_pct,
        "left_out": {left.key: left.reason for left in one.left_out},
    }
