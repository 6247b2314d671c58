"""Each trial's performance relative to the baseline runs next to it in time, so that drift is not taken for gain.

Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgdyno.model.trial import TUNE_PROOF_BLOCKS, Role, Trial, TrialState
from pgdyno.model.verdict import Metric
from pgdyno.report.figures import TrialPoint
from pgdyno.report.wording import STRATEGIES


def performance(trial: Trial, metric: Metric) -> float | None:
    """Return the figure of a usable trial, turned so that more is better; None for every other trial."""
    value = trial.figure(metric)
    if trial.state is not TrialState.COMPLETE or value is None or value <= 0:
        return None
    return value if metric.higher_is_better else 1 / value


def trial_points(trials: Sequence[Trial], metric: Metric) -> list[TrialPoint]:
    """Return the history: every trial with the ratio to the nearest usable baseline before and after it.

    The level between two baselines is their geometric mean; a baseline is compared with the others beside it. The
    ratio is above 1 when the trial did better, for latency and CPU too.
    """
    scored = [performance(trial, metric) for trial in trials]
    levels = [score if trial.spec.role is Role.BASELINE else None for trial, score in zip(trials, scored, strict=True)]
    return [_point(*one) for one in zip(trials, scored, _neighbours(levels), strict=True)]


def phases(points: Sequence[TrialPoint]) -> list[tuple[int, str]]:
    """Return the first trial of each phase of a tune with its name, told by the roles that share a block."""
    roles: dict[int, set[Role]] = {}
    for point in points:
        roles.setdefault(point.block, set()).add(point.role)
    found: list[tuple[int, str]] = []
    for point in points:
        name = _phase(point.block, roles[point.block], found[-1][1] if found else "noise")
        if not found or found[-1][1] != name:
            found.append((point.trial, name))
    return found


def _phase(block: int, roles: set[Role], before: str) -> str:
    if block >= TUNE_PROOF_BLOCKS:
        return "proof"
    if Role.SEARCH in roles:
        return "search"
    if Role.PRUNE in roles:
        return "pruning"
    if roles & {Role.EFFECT, Role.RIVAL} or (Role.CONFIRM in roles and before in ("pruning", "proof")):
        return "proof"
    return "screening" if Role.CONFIRM in roles else before


def _neighbours(levels: Sequence[float | None]) -> list[float | None]:
    """Return for each place the geometric mean of the nearest level before and of the nearest after it."""
    after = [*reversed(_latest(levels[::-1]))]
    found: list[float | None] = []
    for pair in zip(_latest(levels), after, strict=True):
        known = [level for level in pair if level is not None]
        found.append(math.prod(known) ** (1 / len(known)) if known else None)
    return found


def _latest(levels: Sequence[float | None]) -> list[float | None]:
    """Return for each place the last level before it; one pass, since a study may have ten thousand trials."""
    found: list[float | None] = []
    latest: float | None = None
    for level in levels:
        found.append(latest)
        latest = latest if level is None else level
    return found


def _point(trial: Trial, score: float | None, level: float | None) -> TrialPoint:
    settings = ", ".join(f"{name} = {value}" for name, value in trial.spec.configuration.items())
    named = STRATEGIES.get(trial.spec.arm, trial.spec.arm) if trial.spec.role is Role.SEARCH else trial.spec.arm
    arm = "" if named in ("baseline", "search", "", settings) else f"{named}: "
    return TrialPoint(
        trial=trial.id,
        role=trial.spec.role,
        state=trial.state,
        ratio=None if score is None or level is None else score / level,
        settings=f"{arm}{settings or 'as found'}",
        reason=trial.reason,
        block=trial.spec.block,
    )
