"""The sections that say how far the verdict may be trusted: the pairs, and the runs that were not used. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.figure import Table
from pgdyno.model.results.parts import Compared, Pair, StudyResult
from pgdyno.model.trial import Trial
from pgdyno.model.verdict import Metric, Verdict
from pgdyno.report import figures, provenance
from pgdyno.report.judgement import SideNames
from pgdyno.report.sections import Block, Charts, Notice, Section, TableBlock
from pgdyno.report.wording import (
    STATE_MEANINGS,
)
from pgdyno.units import plural


def confidence(
    trials: Sequence[Trial],
    result: StudyResult | None,
    names: SideNames,
    warnings: Sequence[str] = (),
    more: Sequence[Block] = (),
) -> Section | None:
    """Show the warnings, the pairs behind the verdict, what `more` a kind knows, and the runs that were not used.

    `trials` are all of the study, and `result` is None while it has none. `names` are those of the sides in the figure
    of the pairs; `warnings` are sentences. Returns None where there is nothing to show.
    """
    verdict = result.headline if isinstance(result, Compared) else None
    blocks: list[Block] = [Notice(tuple(warnings))] if warnings else []
    if verdict is not None and isinstance(result, Compared):
        rows = _metric_rows(trials, result, verdict)
        blocks.append(Charts((figures.pairs(rows, subject=names.subject, reference=names.reference),)))
    blocks += more
    if len(trials) > 1:
        blocks.append(TableBlock(_states_table(trials), f"{plural(len(trials), 'trial')} by how they ended."))
    title = "What to mind" if verdict is None else "How sure is it?"
    question = "What stands behind the verdict, and how large is the noise?" if verdict else "What weakens the numbers?"
    return Section("confidence", title, question, tuple(blocks)) if blocks else None


def _metric_rows(trials: Sequence[Trial], result: Compared, verdict: Verdict) -> list[figures.MetricRow]:
    by_run, pairs = {trial.id: trial for trial in trials}, result.confirmation.pairs
    others = [one for one in result.closed_others if one.metric is not verdict.metric]
    return [
        figures.MetricRow(
            one,
            {
                f"block {pair.block}": ratio
                for pair in pairs
                if (ratio := _pair_ratio(pair, by_run, one.metric, primary=one is verdict)) is not None
            },
        )
        for one in (verdict, *others)
    ]


def _pair_ratio(pair: Pair, runs: dict[int, Trial], metric: Metric, *, primary: bool) -> float | None:
    a, b = (runs[run].figure(metric) if run in runs else None for run in (pair.a_run, pair.b_run))
    if primary and pair.a is not None and pair.b is not None:
        a, b = pair.a, pair.b
    return b / a if a and b else None


def _states_table(trials: Sequence[Trial]) -> Table:
    counts = provenance.state_counts(trials)
    rows = tuple((state.value, str(count), STATE_MEANINGS[state]) for state, count in counts.items())
    return Table(("state", "trials", "meaning"), rows, ("trials",))
