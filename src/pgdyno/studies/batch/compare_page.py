"""The page of a chain against its reference: windows, jobs, means, what was left out, critical path. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pgdyno import __version__
from pgdyno.model.figure import Table
from pgdyno.model.results.batch import BatchResult
from pgdyno.model.results.parts import PlanChange
from pgdyno.model.shapes import Json
from pgdyno.report.run_details import plan_section
from pgdyno.report.sections import Block, Charts, FactList, Notice, Prose, Report, Section, TableBlock
from pgdyno.stats.precedence import critical_path
from pgdyno.studies.batch.chain import Chain, waits_of
from pgdyno.studies.batch.comparing import BatchComparison, ComparedProcess, LeftOutJob, by_key, mean_seconds
from pgdyno.studies.batch.page import gantt, sizing, trouble
from pgdyno.studies.batch.words import TONES, few_text, footnotes, means_sentences, title_of, window_sentence
from pgdyno.units import plural, seconds_text

SIDES = ("reference", "new")
_BY = {True: "recorded by another scheduler", False: "run by pgdyno"}
_GAPS = (
    "A window is of the jobs that neither side skips. Where others waited for one that the reference ran, its time is "
    "still in the reference's window."
)


def compare_page(
    chain: Chain,
    reference: BatchResult,
    found: BatchResult,
    said: BatchComparison,
    plans: Sequence[PlanChange] = (),
) -> Report:
    """Return the report; `plans` are those of the jobs' statements on both sides.

    `said` is what the comparison of `found`, the new side, with `reference` came to; `chain` gives the dependencies and
    starts for the critical path of each side. Without `plans` the page has no section on them.
    """
    sides = (reference, found)
    sections = (_answer(said, found), _jobs(said), trouble(found), _left_out(said), _critical(chain, sides),
                _charts(sides), plan_section(plans, SIDES), sizing(found), _about(sides))  # fmt: skip
    known = tuple(one for one in sections if one is not None)
    return Report(
        study="",
        kind="batch",
        title=title_of(said),
        word=said.standing.value,
        tone=TONES[said.standing],
        lead=f"Batch chain {chain.name}: study {found.study} against the reference, study {reference.study}",
        stamp=f"{plural(len(found.executions), 'execution')} against {len(reference.executions)}",
        sections=known,
        digest=known[:2],
        provenance={"written by": f"pgdyno {__version__}"},
        label=f"batch chain {chain.name}",
    )


def _answer(said: BatchComparison, found: BatchResult) -> Section:
    rows = tuple(
        (
            one.name,
            "unknown" if one.reference_s is None else seconds_text(one.reference_s),
            ", ".join(seconds_text(window) for window in one.windows) or "none that counts",
            "unknown" if one.share_pct is None else f"{one.share_pct:.1f}",
            one.standing.value,
        )
        for one in said.processes
    )
    columns = ("process", "reference window", "new windows", "% of the reference", "verdict")
    few = few_text(found)
    blocks: list[Block] = [Notice((few,))] if few else []
    blocks += [
        TableBlock(Table(columns, rows, columns[1:4]), "Pass: the window is not longer than in the reference."),
        Prose(tuple(map(window_sentence, said.processes)), points=True),
    ]
    return Section("answer", "Windows", "Does each process keep to the window of today?", tuple(blocks))


def _jobs(said: BatchComparison) -> Section:
    columns = ("process", "compared jobs", "share of all jobs, %", "jobs with less time", "improvement, %",
               "mean of the jobs, %")  # fmt: skip
    rows = tuple(
        (
            one.name,
            str(len(one.compared)),
            f"{one.compared_pct:.0f}{'*' * bool(one.threshold_s)}",
            str(one.shorter),
            _percent(one.saved_pct),
            _percent(one.mean_saved_pct),
        )
        for one in said.processes
    )
    caption = (
        "Improvement is of the summed times of the compared jobs; the mean of the jobs counts each alike. "
        "A job's time is the mean of the executions in which it succeeded."
    )
    blocks = (
        TableBlock(Table(columns, rows, columns[1:]), caption),
        Prose((*footnotes(said), *means_sentences(said)), points=True),
    )
    return Section("jobs", "Jobs", "How many jobs were compared, and what did they save?", blocks)


def _percent(value: float | None) -> str:
    return "none compared" if value is None else f"{value:.0f}"


def _left_out(said: BatchComparison) -> Section | None:
    every = [one for process in said.processes for one in process.left_out]
    if not every:
        return None
    skipped = [one for one in every if one.is_skipped]
    others = [one for one in every if not one.is_skipped]
    blocks: list[Block] = []
    if skipped:
        blocks.append(TableBlock(_reasons(skipped), "Skipped jobs, with their reasons."))
        blocks.append(Prose((_GAPS,)))
    if others:
        blocks.append(TableBlock(_reasons(others), f"{plural(len(others), 'job')} more, not compared.", folded=True))
    return Section("left-out", "Jobs that are not compared", "What was left out, and why?", tuple(blocks))


def _reasons(rows: Sequence[LeftOutJob]) -> Table:
    return Table(("job", "reason"), tuple((one.key, one.reason) for one in rows))


def _critical(chain: Chain, sides: Sequence[BatchResult]) -> Section:
    blocks: list[Block] = []
    for name, side in zip(SIDES, sides, strict=True):
        runs = by_key(side.jobs)
        means = {key: seconds for key in chain.jobs if (seconds := mean_seconds(runs.get(key, ()))) is not None}
        if not means:
            blocks.append(Prose((f"Critical path of the {name} side: unknown, as no job of it succeeded.",)))
            continue
        found = critical_path(waits_of(chain), means, {key: job.starts_s for key, job in chain.jobs.items()})
        rows = tuple(
            (key, seconds_text(found.jobs[key].start_s), seconds_text(found.jobs[key].end_s))
            for key in found.path
            if key in means  # one that is skipped only hands on for whom it would have waited
        )
        caption = (
            f"Critical path of the {name} side: the window ends after {seconds_text(found.end_s)} at the earliest."
        )
        blocks.append(TableBlock(Table(("job", "starts", "ends"), rows, ("starts", "ends")), caption))
        slack = sorted((one for one in found.jobs.values() if one.key in means), key=lambda one: one.slack_s)
        table = Table(("job", "slack"), tuple((one.key, seconds_text(one.slack_s)) for one in slack), ("slack",))
        blocks.append(TableBlock(table, f"Slack on the {name} side: so much later a job could end.", folded=True))
    told = "By dependencies and calendar; a job that waits for a free slot ends later than this shows."
    question = "Which jobs decide when the window ends?"
    return Section("critical", "Critical path", question, (*blocks, Prose((told,))))


def _charts(sides: Sequence[BatchResult]) -> Section | None:
    figures = []
    for name, side in zip(SIDES, sides, strict=True):
        last = side.executions[-1].number if side.executions else 0
        figure = gantt(side.jobs, last)
        if figure is not None:
            figures.append(replace(figure, id=f"{figure.id}-{name}", title=f"{name.capitalize()}: {figure.title}"))
    return (
        Section("gantt", "The last executions", "Which job ran when?", (Charts(tuple(figures)),)) if figures else None
    )


def _about(sides: Sequence[BatchResult]) -> Section:
    rows = tuple(
        (name, f"study {side.study} of chain {side.chain}, {_BY[side.imported]}")
        for name, side in zip(SIDES, sides, strict=True)
    )
    told = (
        "The reference is taken as a fixed limit: the interval has the scatter of the new windows alone, not its own.",
        "The two sides were not interleaved: whatever else differed between their days is part of the figures.",
    )
    blocks = (FactList(rows), Prose(told, points=True))
    return Section("about", "Sources and limits", "Where do the figures come from?", blocks)


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
