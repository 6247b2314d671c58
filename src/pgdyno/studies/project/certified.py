"""Batch chains, levels and migrations as the scenarios of a project: figures of the newest study of each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pgdyno.model.project import Measured
from pgdyno.model.results.batch import BatchResult
from pgdyno.model.results.migrate import MigrateResult
from pgdyno.model.results.scale import PATH, RESPONSE, Constancy, ScaleResult
from pgdyno.model.study import Study
from pgdyno.units import plural

Figure = Callable[[Study], Measured | None]


def _window(study: Study) -> Measured | None:
    """Return the mean window of the executions in which every job succeeded, between the least and the greatest."""
    result = study.told(BatchResult)
    if result is None:
        return None
    spoilt = {one.execution for one in result.unsuccessful}
    whole = [one.window_s for one in result.executions if one.number not in spoilt and not one.ended]
    if not whole:
        return None
    how = f"study {study.id}, mean of {plural(len(whole), 'execution')} of {len(result.executions)}"
    return Measured(sum(whole) / len(whole), min(whole), max(whole), how)


def _unsuccessful(study: Study) -> Measured | None:
    result = study.told(BatchResult)
    if result is None or not result.jobs:
        return None
    count = float(len(result.unsuccessful))
    return Measured(count, count, count, f"study {study.id}, jobs of {plural(len(result.executions), 'execution')}")


def _total(study: Study) -> Measured | None:
    """Return how long a migration took, of a rehearsal by which all arrived."""
    result = study.told(MigrateResult)
    if result is None or result.total_s is None or result.validation is None or not result.validation.is_same:
        return None
    return Measured(result.total_s, result.total_s, result.total_s, f"study {study.id}, one rehearsal")


def _differences(study: Study) -> Measured | None:
    result = study.told(MigrateResult)
    if result is None or result.validation is None or result.validation.unread:
        return None
    count = float(len(result.validation.findings))
    return Measured(count, count, count, f"study {study.id}, the validation of one rehearsal")


def _constant(study: Study) -> Measured | None:
    """Return the share of levels that are constant; those that are not resolved may be or not."""
    result = study.told(ScaleResult)
    words = [] if result is None else [one.standing for one in result.levels if one.percent != result.reference]
    if not words:
        return None
    sure, open_ = words.count(Constancy.CONSTANT), words.count(Constancy.NOT_RESOLVED)
    least, most = 100 * sure / len(words), 100 * (sure + open_) / len(words)
    return Measured(least, least, most, f"study {study.id}, {plural(len(words), 'level')}")


def _change(criterion: str) -> Figure:
    """Return what reads the greatest change of a criterion over the levels, either way, in per cent."""

    def read(study: Study) -> Measured | None:
        result = study.told(ScaleResult)
        checks = [
            (check.ratio, one.percent)
            for one in (() if result is None else result.levels)
            for check in one.checks
            if check.criterion == criterion and check.ratio is not None
        ]
        if not checks:
            return None
        ratio, percent = max(checks, key=lambda found: abs(found[0].ratio - 1))
        ends = sorted((abs(ratio.lo - 1), abs(ratio.hi - 1)))
        least = 0.0 if ratio.lo <= 1 <= ratio.hi else ends[0]
        how = f"study {study.id}, the {percent:g} % level against the reference"
        return Measured(100 * abs(ratio.ratio - 1), 100 * least, 100 * ends[1], how)

    return read


CERTIFIED: Mapping[str, Figure] = {
    "batch_window_s": _window,
    "batch_unsuccessful_jobs": _unsuccessful,
    "migrate_total_s": _total,
    "migrate_differences": _differences,
    "scale_constant_pct": _constant,
    "scale_path_change_pct": _change(PATH),
    "scale_response_change_pct": _change(RESPONSE),
}
"""What a criterion may name of batch chains, migrations and scalability levels."""


BATCH_SHARE = "batch_window_pct"
NOT_SLOWER, NOT_SLOWER_POINTS, RESPONSE_SAVED = "replay_not_slower_pct", "replay_not_slower_points", "replay_saved_pct"
OF_RUNS = (BATCH_SHARE, NOT_SLOWER, NOT_SLOWER_POINTS, RESPONSE_SAVED)
"""What a criterion may name of two sides that a run has held against each other (`pgdyno project run`)."""


def has_figures(study: Study) -> bool:
    """Tell whether a study is one of these: its own words say what came of it, not the throughput of its runs."""
    return isinstance(study.result, BatchResult | MigrateResult | ScaleResult)


def of_newest(metric: str, studies: Sequence[Study]) -> Measured | None:
    """Return the figure of the newest study that has it, None where none does."""
    for study in sorted(studies, key=lambda one: one.created_at, reverse=True):
        found = CERTIFIED[metric](study)
        if found is not None:
            return found
    return None
