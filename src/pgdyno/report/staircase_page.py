"""The page of a staircase: what the steps bought together, each of them, and how sure that is. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from pgdyno.model.figure import Table
from pgdyno.model.verdict import Interval, Metric, Verdict
from pgdyno.report import chapters, provenance
from pgdyno.report.held_back_section import held_back_section
from pgdyno.report.reading import Fields, interval_of, open_verdict_of, sides_of, verdict_of
from pgdyno.report.reads import reads_of_steps
from pgdyno.report.run_details import run_details
from pgdyno.report.runs_page import runs_table
from pgdyno.report.sections import (
    Block,
    Charts,
    FactList,
    Notice,
    Prose,
    Report,
    Section,
    Snippet,
    TableBlock,
    Tile,
    Tone,
)
from pgdyno.report.side_plans import plans_of_sides
from pgdyno.report.staircase_figure import StairRow, interaction_sentence, span_text, staircase
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.sweep_figure import sweep_figure
from pgdyno.report.wording import (
    TONES,
    capital,
    change_text,
    gained_text,
    plural,
    sentence,
    settings_text,
    tile,
)
from pgdyno.stats.compound import inverse

_SIDES = ("without it", "with it")


def staircase_page(record: StudyRecord) -> Report:
    """Return the report of a staircase; of an unfinished one the runs so far."""
    study, result = record.study, Fields(record.study.result or {})
    verdict = verdict_of(result.child("verdict"))
    steps = result.children("steps")
    title, word, tone = _headline(study.state.value, result, verdict)
    climb = Section("staircase", "The staircase", "What did each change buy?", _climb(result, steps, verdict))
    found = [
        climb if result.members else None,
        None if result.text("unfinished") else _change(result, steps),
        _proof(result, verdict),
        _sweeps(steps, result.text("metric")),
        reads_of_steps(record.trials, _sides(result, steps), _SIDES),
        held_back_section(record.held_back),
        _plans(record, result, steps),
        chapters.flight(record.traces),
        run_details(record.judged),
        _sure(result, steps),
        _record(record, steps),
        chapters.about(study, record.trials),
    ]
    sections = tuple(section for section in found if section is not None)
    short = tuple(s for s in sections if s.id in ("change", "proof"))
    table = Section("steps", "The steps", "", (TableBlock(_short_table(steps), "In the order of the plan."),))
    return Report(
        study=study.id,
        kind=study.kind.value,
        title=title,
        word=word,
        tone=tone,
        lead=capital(f"{study.workload.description or study.workload.name}, on {study.target}"),
        stamp=provenance.stamp(study, record.trials, ()),
        tiles=_tiles(result, verdict),
        sections=sections,
        digest=(table, *short, _pointer(study.id)) if result.members else (),
        provenance=provenance.provenance(study, record.trials, result.number("elapsed_s")),
    )


def stair_rows(steps: Sequence[Fields]) -> tuple[StairRow, ...]:
    """Return the measured steps; of a metric where less is better the gain is the inverse ratio."""
    rows = []
    for step in steps:
        verdict = open_verdict_of(step.child("verdict"))
        if verdict is None:
            continue
        gain = _gain(verdict)
        notes = [verdict.word.value] if step.text("outcome") == "null" else []
        notes += [] if step.flag("interleaved") else ["before and after, not interleaved"]
        note = "; ".join(notes)
        rows.append(StairRow(step.text("step"), gain.ratio, gain, step.text("outcome"), _what(step), note))
    return tuple(rows)


def _gain(verdict: Verdict) -> Interval:
    return verdict.interval if verdict.metric.higher_is_better else inverse(verdict.interval)


def _headline(state: str, result: Fields, verdict: Verdict | None) -> tuple[str, str, Tone]:
    if not result.members:
        return f"No result: the staircase is {state}", state, Tone.UNSURE
    if result.text("unfinished"):
        return f"Not finished: the staircase is {state}, {result.text('unfinished')}", state, Tone.UNSURE
    if verdict is not None:
        return sentence(verdict, "the kept configuration", "the baseline"), verdict.word.value, TONES[verdict.word]
    if result.text("stage") == "sandbox":
        count = result.count("candidates")
        return f"Sandbox stage: {plural(count, 'candidate')} for the large environment", "candidates", Tone.NEUTRAL
    if result.count("kept_steps"):
        return f"{plural(result.count('kept_steps'), 'step')} kept, without a proof of the whole", "", Tone.UNSURE
    return f"Keep your configuration: {result.text('stopped') or 'no step was kept'}", "keep", Tone.NEUTRAL


def _tiles(result: Fields, verdict: Verdict | None) -> tuple[Tile, ...]:
    if verdict is None:
        return ()
    before, after = sides_of(result)
    others = {one.metric: one for one in map(verdict_of, result.children("others")) if one is not None}
    others[verdict.metric] = verdict
    metrics = (Metric.THROUGHPUT, Metric.LATENCY_P99, Metric.SERVER_CPU)
    return tuple(tile(others.get(m), m, before.value(m), after.value(m)) for m in metrics)


def _climb(result: Fields, steps: Sequence[Fields], verdict: Verdict | None) -> tuple[Block, ...]:
    rows = stair_rows(steps)
    blocks: list[Block] = []
    if start := _start_text(result):
        blocks.append(Prose((start,)))
    if rows:
        end = _gain(verdict) if verdict else None
        metric = gained_text(result.text("metric"))
        blocks.append(Charts((staircase(rows, end=end, mode=result.text("mode"), metric=metric),)))
    skipped = tuple((step.text("step"), step.text("why")) for step in steps if step.text("outcome") == "skipped")
    if skipped:
        blocks.append(
            TableBlock(Table(("step", "why it was not run"), skipped), f"{plural(len(skipped), 'step')} passed over.")
        )
    return tuple(blocks)


def _start_text(result: Fields) -> str:
    start = result.child("start")
    if start.flag("out_of_the_box"):
        return (
            "The baseline is the server out of the box: no setting that bears on performance differs from the default."
        )
    own, differs = start.settings("settings"), start.settings("differs")
    said = [f"the plan's baseline sets {settings_text(own)}"] if own else []
    said += [f"the server as found differs from the defaults in {settings_text(differs)}"] if differs else []
    return f"{capital('; '.join(said))}." if said else ""


def _change(result: Fields, steps: Sequence[Fields]) -> Section | None:
    names = result.texts("kept_steps")
    if not names:
        return None
    kept = result.settings("kept")
    blocks: list[Block] = [Prose((f"Kept: {', '.join(names)}.",))]
    if kept:
        blocks.append(Snippet("Settings of the kept steps", _setting_lines(kept)))
    # The plan's baseline was in force in every run and is on the server no more: without it nothing was measured.
    below = {name: value for name, value in result.child("start").settings("settings").items() if name not in kept}
    if below:
        said = "They were measured on top of the plan's baseline, which is not on the server now: its settings belong "
        blocks.append(Prose((f"{said}to what was proved.",)))
        blocks.append(Snippet("Settings of the plan's baseline", _setting_lines(below)))
    by_hand = tuple(
        (step.text("step"), " ".join(step.texts("by_hand")), " ".join(step.texts("undo")) or "the plan does not say")
        for step in steps
        if step.text("step") in names and not step.settings("settings")
    )
    if by_hand:
        table = Table(("step", "done by hand", "how it is taken back"), by_hand)
        blocks.append(TableBlock(table, "Kept as people did it: pgdyno takes none of this back."))
    return Section("change", "What to change", "What stayed?", tuple(blocks))


def _setting_lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{name} = '{value}'\n" for name, value in settings.items())


def _proof(result: Fields, verdict: Verdict | None) -> Section | None:
    expected = interval_of(result.child("product"))
    if verdict is None or expected is None:
        return None
    said = []
    if not verdict.metric.higher_is_better:  # as in the chart, so that more is better in what follows
        said = [f"Of {verdict.metric.label} less is better: gains are its inverse, as in the chart."]
        expected = inverse(expected)
    said.append(interaction_sentence(expected, _gain(verdict)))
    blocks: list[Block] = [Prose(tuple(said))]
    left_out = result.child("effects_left_out").members
    rows = []
    for name in left_out:
        effect = open_verdict_of(result.child("effects_left_out").child(name))
        if effect is not None:
            rows.append((name, change_text(effect.interval.ratio), span_text(effect.interval), effect.word.value))
    if len(rows) > 1:
        table = Table(("step", "all kept against all but it", "interval", "word"), tuple(rows), ("interval",))
        blocks.append(TableBlock(table, "Each kept step left out once, in the same fresh blocks."))
    return Section("proof", "The proof", "Do the steps hold together?", tuple(blocks))


def _sweeps(steps: Sequence[Fields], metric: str) -> Section | None:
    swept = [step.child("sweep") for step in steps if step.child("sweep").members]
    if not swept:
        return None
    blocks: list[Block] = []
    for sweep in swept:
        blocks += [Prose((f"Taken into the pairs of the step: {sweep.text('knob')} = {sweep.text('chosen')}.",))]
        blocks += [Charts((sweep_figure(sweep, metric),))]
    return Section("sweeps", "Sweeps", "Which value is the right one?", tuple(blocks))


def _plans(record: StudyRecord, result: Fields, steps: Sequence[Fields]) -> Section | None:
    """List the plans that each step changed, and those of all kept against the baseline, from the runs' records."""
    return plans_of_sides(record, _sides(result, steps), "step", _SIDES)


def _sides(result: Fields, steps: Sequence[Fields]) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Return the runs without and with each step, and those of the baseline and of all kept in the proof."""
    places = [(f"step {step.text('step')}", step.child("runs"), "before", "after") for step in steps]
    ends = ("all kept against the baseline", result.child("proof_runs"), "baseline", "all kept")
    return [
        (name, runs.child(before).wholes("all"), runs.child(after).wholes("all"))
        for name, runs, before, after in (*places, ends)
        if runs.members
    ]


def _sure(result: Fields, steps: Sequence[Fields]) -> Section | None:
    notices = [result.child("drift").text("sentence")]
    notices += [
        f"step {step.text('step')} was measured {step.text('why')}"
        for step in steps
        if step.members.get("interleaved") is False and step.text("outcome") != "skipped"
    ]
    known = tuple(f"{capital(text)}." for text in notices if text)
    said = tuple(f"{capital(text)}." for text in result.texts("sentences"))
    if not known and not said:
        return None
    blocks: list[Block] = [Prose(said, points=len(said) > 1)] if said else []
    blocks += [Notice(known)] if known else []
    return Section("confidence", "How sure is it?", "What weakens the figures?", tuple(blocks))


def _record(record: StudyRecord, steps: Sequence[Fields]) -> Section | None:
    """List the phases of each step and every run; the qualified run of an arm is the one that charts show."""
    rows = [
        (step.text("step"), phase.text("phase"), _clock(phase.number("began_at")), _span(phase))
        for step in steps
        for phase in step.children("phases")
    ]
    qualified = {
        run
        for place in [*(step.child("runs") for step in steps), Fields(record.study.result or {}).child("proof_runs")]
        for arm in place.members
        if (run := place.child(arm).whole("qualified")) is not None
    }
    runs = runs_table(record.trials)
    marked = tuple((*row, "qualified" if int(row[0]) in qualified else "") for row in runs.rows)
    blocks: list[Block] = []
    if rows:
        table = Table(("step", "phase", "began, UTC", "seconds"), tuple(rows), ("seconds",))
        blocks.append(TableBlock(table, "The phases of each step.", folded=True))
    caption = "Every run in its order; the qualified one of an arm is the one nearest to its median."
    blocks.append(TableBlock(Table((*runs.columns, "charts"), marked, runs.numeric), caption, folded=True))
    return Section("record", "The record", "What was done, and when?", tuple(blocks))


def _clock(at: float | None) -> str:
    return "" if at is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))


def _span(phase: Fields) -> str:
    began, ended = phase.number("began_at"), phase.number("ended_at")
    return "" if began is None or ended is None else f"{ended - began:.0f}"


def _short_table(steps: Sequence[Fields]) -> Table:
    rows = []
    for step in steps:
        verdict = open_verdict_of(step.child("verdict"))
        effect = change_text(verdict.interval.ratio) if verdict else ""
        interval = span_text(verdict.interval) if verdict else ""
        became = step.text("outcome")
        if verdict is not None and became == "null":
            became = f"{became}, {verdict.word.value}"
        rows.append((step.text("step"), _what(step), effect, interval, became, step.text("why")))
    return Table(("step", "what", "effect", "interval", "became", "why"), tuple(rows), ("effect", "interval"))


def _what(step: Fields) -> str:
    settings = step.settings("settings")
    if settings:
        return settings_text(settings)
    first, *more = step.texts("by_hand") or ("",)
    return f"{first} (and {len(more)} more)" if more else first


def _pointer(study: str) -> Section:
    rows = (("in the terminal", f"pgdyno report {study}"), ("as a page", f"pgdyno report {study} -o report.html"))
    return Section("report", "The full report", "", (FactList(rows),))
