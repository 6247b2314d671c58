"""The page of an A/B experiment: in which settings A and B differ, and the verdict. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.figure import Table
from pgdyno.model.results.ab import AbResult
from pgdyno.model.trial import Trial
from pgdyno.report import chapters, digest, reliability, tiles
from pgdyno.report.figures import verdict_table
from pgdyno.report.page_frame import framed, inside_runs
from pgdyno.report.reads import reads_section
from pgdyno.report.run_details import plan_section
from pgdyno.report.sections import Block, Prose, Report, Section, TableBlock
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import told_once
from pgdyno.studies.ab.kind import KIND
from pgdyno.studies.kinds import judged
from pgdyno.units import plural

_ARMS = (KIND.sides.reference, KIND.sides.subject)


def ab_page(record: StudyRecord) -> Report:
    """Return the report; an unfinished one has no verdict and shows the runs so far."""
    study, trials, result = record.study, record.trials, record.study.told(AbResult)
    said = judged(study)
    return framed(
        record,
        said,
        (
            None if result is None else arms(result),
            reliability.confidence(trials, result, KIND.sides, () if result is None else told_once(result.notes)),
            reads_section(trials, () if result is None else result.confirmation.pairs, _ARMS),
            *inside_runs(record, None if result is None else plan_section(result.plans, _ARMS)),
            chapters.about(study, trials),
        ),
        (*(() if result is None else _digest(trials, result)), digest.pointer(study)),
        lead=record.load,
        tiles=() if result is None else tiles.of_both(result),
    )


def arms(result: AbResult) -> Section:
    """Say in which settings the two arms of an A/B experiment differ."""
    a, b = ({} if side is None else side.settings for side in (result.baseline, result.winner))
    names = sorted({name for name in (*a, *b) if a.get(name) != b.get(name)})
    rows = tuple((name, a.get(name, "as found"), b.get(name, "as found")) for name in names)
    table = TableBlock(Table(("setting", "A", "B"), rows), f"A and B differ in {plural(len(names), 'setting')}.")
    same = Prose(("Both arms have the same settings: an A/A experiment, which ought to show no difference.",))
    return Section("change", "What is compared", "In which settings do A and B differ?", (table if rows else same,))


def _digest(trials: Sequence[Trial], result: AbResult) -> tuple[Section | None, ...]:
    verdicts = (*((result.verdict,) if result.verdict else ()), *result.closed_others)
    judged: tuple[Block, ...] = ()
    if verdicts:
        judged = (TableBlock(verdict_table(verdicts), "B against A, by metric."),)
    held = [
        row
        for arm in ("A", "B")
        if (run := result.inside.get(arm)) is not None
        for row in digest.bottleneck_rows(f"{arm} limited by", run.evidence)
    ]
    plans = [
        ("another plan", ": ".join(part for part in (one.statement, ", ".join(one.what)) if part))
        for one in result.plans
        if one.word == "changed"
    ]
    notes = [("note", text) for text in told_once(result.notes)]
    facts = digest.facts([digest.states(trials), *held, *plans, *notes])
    return (arms(result), digest.short("confidence", "How sure is it?", (*judged, *facts)))
