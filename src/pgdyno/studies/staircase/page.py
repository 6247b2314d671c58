"""The page of a staircase: what the steps bought together, each of them, and how sure that is. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from pgdyno.model.figure import Table
from pgdyno.model.results.staircase import PhaseRecord, StaircaseResult, StepRecord
from pgdyno.model.study import Study
from pgdyno.model.verdict import Interval, Verdict
from pgdyno.report import chapters
from pgdyno.report.digest import pointer
from pgdyno.report.judgement import Judgement
from pgdyno.report.page_frame import framed, inside_runs
from pgdyno.report.reads import reads_of_steps
from pgdyno.report.run_details import plans_of_sides
from pgdyno.report.runs_page import runs_table
from pgdyno.report.sections import (
    Block,
    Charts,
    Notice,
    Prose,
    Report,
    Section,
    Snippet,
    TableBlock,
    Tile,
    Tone,
)
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.tiles import COMPARED, tile
from pgdyno.report.wording import (
    capital,
    change_text,
    gained_text,
    settings_text,
)
from pgdyno.stats.compound import inverse
from pgdyno.studies.staircase.figure import StairRow, interaction_sentence, span_text, staircase
from pgdyno.studies.staircase.kind import judgement
from pgdyno.studies.sweep.page import sweep_figure
from pgdyno.units import first_text, plural

_SIDES = ("without it", "with it")


def staircase_page(record: StudyRecord) -> Report:
    """Return the report of a staircase; of an unfinished one the runs so far."""
    study, result = record.study, record.study.told(StaircaseResult)
    verdict = None if result is None else _closed(result.verdict)
    steps = () if result is None else result.steps
    sections = (
        *(_told(record, result, verdict) if result is not None else ()),
        *inside_runs(record, None if result is None else plans_of_sides(record, _sides(result), "step", _SIDES)),
        None if result is None else _sure(result),
        _record(record, result),
        chapters.about(study, record.trials),
    )
    short = (one for one in sections if one is not None and one.id in ("change", "proof"))
    table = Section("steps", "The steps", "", (TableBlock(_short_table(steps), "In the order of the plan."),))
    return framed(
        record,
        _unfinished(study) if result is None else judgement(study.state.value, result),
        sections,
        (table, *short, pointer(study)) if result else (),
        tiles=() if result is None else _tiles(result, verdict),
    )


def _told(record: StudyRecord, result: StaircaseResult, verdict: Verdict | None) -> tuple[Section | None, ...]:
    climb = _climb(result, verdict)
    return (
        Section("staircase", "The staircase", "What did each change buy?", climb),
        None if result.unfinished else _change(result),
        _proof(result, verdict),
        _sweeps(result),
        reads_of_steps(record.trials, _sides(result), _SIDES),
    )


def _unfinished(study: Study) -> Judgement:
    state = study.state.value
    return Judgement(f"No result: the staircase is {state}", state, Tone.UNSURE)


def _closed(verdict: Verdict | None) -> Verdict | None:
    return verdict if verdict is not None and verdict.interval.is_closed else None


def stair_rows(steps: Sequence[StepRecord]) -> tuple[StairRow, ...]:
    """Return the measured steps; of a metric where less is better the gain is the inverse ratio."""
    rows = []
    for step in steps:
        verdict = step.verdict
        if verdict is None:
            continue
        gain = _gain(verdict)
        notes = [verdict.word.value] if step.outcome == "null" else []
        notes += [] if step.interleaved else ["before and after, not interleaved"]
        note = "; ".join(notes)
        rows.append(StairRow(step.step, gain.ratio, gain, step.outcome, _what(step), note))
    return tuple(rows)


def _gain(verdict: Verdict) -> Interval:
    return verdict.interval if verdict.metric.higher_is_better else inverse(verdict.interval)


def _tiles(result: StaircaseResult, verdict: Verdict | None) -> tuple[Tile, ...]:
    before, after = result.baseline, result.winner
    if verdict is None or before is None or after is None:
        return ()
    others = {one.metric: one for one in result.closed_others}
    others[verdict.metric] = verdict
    metrics = dict.fromkeys((verdict.metric, *COMPARED))
    return tuple(tile(others.get(m), m, before.value(m), after.value(m)) for m in metrics)


def _climb(result: StaircaseResult, verdict: Verdict | None) -> tuple[Block, ...]:
    rows = stair_rows(result.steps)
    blocks: list[Block] = []
    if start := _start_text(result):
        blocks.append(Prose((start,)))
    if rows:
        end = _gain(verdict) if verdict else None
        metric = gained_text(result.metric)
        blocks.append(Charts((staircase(rows, end=end, mode=result.mode, metric=metric),)))
    skipped = tuple((step.step, step.why) for step in result.steps if step.outcome == "skipped")
    if skipped:
        blocks.append(
            TableBlock(Table(("step", "why it was not run"), skipped), f"{plural(len(skipped), 'step')} passed over.")
        )
    return tuple(blocks)


def _start_text(result: StaircaseResult) -> str:
    start = result.start
    if start.out_of_the_box:
        return (
            "The baseline is the server out of the box: no setting that bears on performance differs from the default."
        )
    own, differs = start.settings, start.differs
    said = [f"the plan's baseline sets {settings_text(own)}"] if own else []
    said += [f"the server as found differs from the defaults in {settings_text(differs)}"] if differs else []
    return f"{capital('; '.join(said))}." if said else ""


def _change(result: StaircaseResult) -> Section | None:
    names, kept = result.kept_steps, result.kept
    if not names:
        return None
    blocks: list[Block] = [Prose((f"Kept: {', '.join(names)}.",))]
    if kept:
        blocks.append(Snippet("Settings of the kept steps", _setting_lines(kept)))
    # The plan's baseline was in force in every run and is on the server no more: without it nothing was measured.
    below = {name: value for name, value in result.start.settings.items() if name not in kept}
    if below:
        said = "They were measured on top of the plan's baseline, which is not on the server now: its settings belong "
        blocks.append(Prose((f"{said}to what was proved.",)))
        blocks.append(Snippet("Settings of the plan's baseline", _setting_lines(below)))
    by_hand = tuple(
        (step.step, " ".join(step.by_hand), " ".join(step.undo) or "the plan does not say")
        for step in result.steps
        if step.step in names and not step.settings
    )
    if by_hand:
        table = Table(("step", "done by hand", "how it is taken back"), by_hand)
        blocks.append(TableBlock(table, "Kept as people did it: pgdyno takes none of this back."))
    return Section("change", "What to change", "What stayed?", tuple(blocks))


def _setting_lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{name} = '{value}'\n" for name, value in settings.items())


def _proof(result: StaircaseResult, verdict: Verdict | None) -> Section | None:
    if verdict is None or result.product is None or not result.product.interval.is_closed:
        return None
    expected = result.product.interval
    said = []
    if not verdict.metric.higher_is_better:  # as in the chart, so that more is better in what follows
        said = [f"Of {verdict.metric.label} less is better: gains are its inverse, as in the chart."]
        expected = inverse(expected)
    said.append(interaction_sentence(expected, _gain(verdict)))
    blocks: list[Block] = [Prose(tuple(said))]
    rows = [
        (name, change_text(effect.interval.ratio), span_text(effect.interval), effect.word.value)
        for name, effect in result.effects_left_out.items()
    ]
    if rows and len({*result.kept_steps, *result.effects_left_out}) > 1:  # of a single step it is the proof itself
        table = Table(("step", "all kept against all but it", "interval", "word"), tuple(rows), ("interval",))
        blocks.append(TableBlock(table, "Each kept step left out once, in the same fresh blocks."))
    return Section("proof", "The proof", "Do the steps hold together?", tuple(blocks))


def _sweeps(result: StaircaseResult) -> Section | None:
    swept = [step.sweep for step in result.steps if step.sweep is not None]
    if not swept:
        return None
    blocks: list[Block] = []
    for sweep in swept:
        blocks += [Prose((f"Taken into the pairs of the step: {sweep.knob} = {sweep.chosen}.",))]
        blocks += [Charts((sweep_figure(sweep, result.metric),))]
    return Section("sweeps", "Sweeps", "Which value is the right one?", tuple(blocks))


def _sides(result: StaircaseResult) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Return the runs without and with each step, and those of the baseline and of all kept in the proof."""
    places = [(f"step {step.step}", step.runs, "before", "after") for step in result.steps]
    ends = ("all kept against the baseline", result.proof_runs, "baseline", "all kept")
    return [
        (name, runs[before].every, runs[after].every)
        for name, runs, before, after in (*places, ends)
        if before in runs and after in runs
    ]


def _sure(result: StaircaseResult) -> Section | None:
    notices = [result.drift.sentence]
    notices += [
        f"step {step.step} was measured {step.why}"
        for step in result.steps
        if not step.interleaved and step.outcome != "skipped"
    ]
    known = tuple(f"{capital(text)}." for text in notices if text)
    said = tuple(f"{capital(text)}." for text in result.sentences)
    if not known and not said:
        return None
    blocks: list[Block] = [Prose(said, points=len(said) > 1)] if said else []
    blocks += [Notice(known)] if known else []
    return Section("confidence", "How sure is it?", "What weakens the figures?", tuple(blocks))


def _record(record: StudyRecord, result: StaircaseResult | None) -> Section | None:
    """List the phases of each step and every run; the qualified run of an arm is the one that charts show."""
    steps = () if result is None else result.steps
    rows = [(step.step, phase.phase, _clock(phase.began_at), _span(phase)) for step in steps for phase in step.phases]
    places = [step.runs for step in steps] + ([] if result is None else [result.proof_runs])
    qualified = {arm.qualified for place in places for arm in place.values()}
    runs = runs_table(record.trials, record.study.metric)
    marked = tuple((*row, "qualified" if int(row[0]) in qualified else "") for row in runs.rows)
    blocks: list[Block] = []
    if rows:
        table = Table(("step", "phase", "began, UTC", "seconds"), tuple(rows), ("seconds",))
        blocks.append(TableBlock(table, "The phases of each step.", folded=True))
    caption = "Every run in its order; the qualified one of an arm is the one nearest to its median."
    blocks.append(TableBlock(Table((*runs.columns, "charts"), marked, runs.numeric), caption, folded=True))
    return Section("record", "The record", "What was done, and when?", tuple(blocks))


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def _span(phase: PhaseRecord) -> str:
    return f"{phase.ended_at - phase.began_at:.0f}"


def _short_table(steps: Sequence[StepRecord]) -> Table:
    rows = []
    for step in steps:
        verdict = step.verdict
        effect = change_text(verdict.interval.ratio) if verdict else ""
        interval = span_text(verdict.interval) if verdict else ""
        became = step.outcome
        if verdict is not None and became == "null":
            became = f"{became}, {verdict.word.value}"
        rows.append((step.step, _what(step), effect, interval, became, step.why))
    return Table(("step", "what", "effect", "interval", "became", "why"), tuple(rows), ("effect", "interval"))


def _what(step: StepRecord) -> str:
    if step.settings:
        return settings_text(step.settings)
    return first_text(step.by_hand)
