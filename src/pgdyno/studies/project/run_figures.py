"""What the steps of a scenario come to together: figures for its criterion, and rows for its headline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdyno.model.project import Measured, ProjectRow
from pgdyno.model.replay_comparison import ReplayComparison
from pgdyno.model.results.batch import BatchResult
from pgdyno.model.results.migrate import MigrateResult
from pgdyno.model.results.replay import ReplayResult
from pgdyno.model.results.scale import ScaleResult
from pgdyno.model.study import Study
from pgdyno.studies.batch.chain import Chain
from pgdyno.studies.batch.comparing import BatchComparison, compare
from pgdyno.studies.project.certified import BATCH_SHARE, NOT_SLOWER, NOT_SLOWER_POINTS, RESPONSE_SAVED
from pgdyno.studies.replay.rounds import NEW, OLD, compared_pair
from pgdyno.units import plural

Figures = dict[str, Measured]


@dataclass(frozen=True, slots=True)
class ScenarioFound:
    """Figures by the name that a criterion has for them, rows, and what keeps something from counting."""

    figures: Figures
    rows: tuple[ProjectRow, ...] = ()
    notes: tuple[str, ...] = ()


def of_migration(study: Study) -> ScenarioFound:
    """Return the window as a row: what it may take, and what it took."""
    result = study.told(MigrateResult)
    if result is None or result.total_s is None or result.window_s is None:
        return ScenarioFound({})
    return ScenarioFound({}, (ProjectRow("window, s", before=result.window_s, after=round(result.total_s, 3)),))


def of_levels(study: Study) -> ScenarioFound:
    """Return the path length of every level as a row, in milliseconds of CPU for each transaction."""
    result = study.told(ScaleResult)
    levels = () if result is None else result.levels
    rows = tuple(
        ProjectRow(
            f"path length at the {one.percent:g} % level, ms",
            value=round(1000 * one.path_s, 4),
            count=len(one.qualified),
        )
        for one in levels
        if one.path_s is not None
    )
    return ScenarioFound({}, rows)


def of_chain(chain: Chain, old: Study, new: Study) -> ScenarioFound:
    """Return the worst process's window in per cent of the reference, and a row for each process."""
    reference, found = old.told(BatchResult), new.told(BatchResult)
    if reference is None or found is None:
        return ScenarioFound({})
    return chain_found(compare(chain, reference, found))


def chain_found(said: BatchComparison) -> ScenarioFound:
    """Return what a comparison of two sides says. Pure."""
    rows, shares = list[ProjectRow](), list[Measured]()
    left = [f"{one.name}: {one.reason}" for one in said.processes if one.share_pct is None]
    for one in said.processes:
        if one.reference_s is None or not one.windows or one.share_pct is None:
            continue
        mean = sum(one.windows) / len(one.windows)
        rows.append(
            ProjectRow(
                f"{one.name}, s",
                count=len(one.compared),
                of=one.jobs,
                before=round(one.reference_s, 3),
                after=round(mean, 3),
            )
        )
        told = plural(len(one.windows), "execution")
        if one.interval is None:
            left.append(f"{one.name}: {told} has no interval, so that no criterion is judged by it")
            continue
        how = f'process "{one.name}", {told} against the reference'
        shares.append(Measured(one.share_pct, 100 * one.interval.lo, 100 * one.interval.hi, how))
    if left or not shares:
        return ScenarioFound({}, tuple(rows), tuple(left))
    return ScenarioFound({BATCH_SHARE: max(shares, key=lambda one: one.hi)}, tuple(rows))


def of_replays(trace: Path, old: Sequence[Study], new: Sequence[Study]) -> ScenarioFound:
    """Compare each replay on the new platform with one on the old; reads the outcomes, which have to be there yet."""
    sides = [[result for study in some if (result := study.told(ReplayResult)) is not None] for some in (old, new)]
    runs = min(map(len, sides))
    results = {(name, number): side[number - 1] for name, side in zip((OLD, NEW), sides, strict=True)
               for number in range(1, runs + 1)}  # fmt: skip
    said, notes = list[ReplayComparison](), list[str]()
    for number in range(1, runs + 1):
        found = compared_pair(trace, results, number, runs)
        if isinstance(found, str):
            notes.append(f"pair {number}: {found}")
        else:
            said.append(found)
    return replays_found(said, notes)


def replays_found(said: Sequence[ReplayComparison], notes: Sequence[str] = ()) -> ScenarioFound:
    """Return what the pairs say: shares of transactions that are not slower, beside that of equal platforms. Pure."""
    rows, figures = list[ProjectRow](), Figures()
    for number, one in enumerate(said, 1):
        rows.append(
            ProjectRow(f"transactions of pair {number}, s", count=one.share.not_slower, of=one.share.of,
                       before=round(one.change.a_seconds, 3), after=round(one.change.b_seconds, 3))
        )  # fmt: skip
    if len(said) == 1:
        notes = (*notes, "one pair alone says nothing of how far pairs differ, so that no criterion is judged by it")
    elif said:
        pairs = plural(len(said), "pair")
        shares = [one.share.percent for one in said if one.share.percent is not None]
        saved = [gain for one in said if (gain := one.change.improvement_percent) is not None]
        for name, values in ((NOT_SLOWER, shares), (RESPONSE_SAVED, saved)):
            if values:
                figures[name] = Measured(sum(values) / len(values), min(values), max(values), f"mean of {pairs}")
        points = [one.difference for one in said if one.difference is not None]
        if points:
            mean = sum(one.points for one in points) / len(points)
            how = f"points beyond what two runs of the reference have, mean of {pairs}"
            ends = (min(one.lo for one in points), max(one.hi for one in points))
            figures[NOT_SLOWER_POINTS] = Measured(mean, *ends, how)
    return ScenarioFound(figures, tuple(rows), tuple(notes))
