"""The page of a noise study: the smallest effect that can be told here, by window, pairs and minutes."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.model.figure import Axis, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.results.noise import MetricNoise, NoiseAdvice, NoiseResult, WindowFigures, WindowLength
from pgdyno.report import chapters
from pgdyno.report.digest import shortened
from pgdyno.report.judgement import Judgement, standing_text
from pgdyno.report.page_frame import framed
from pgdyno.report.runs_page import runs_table
from pgdyno.report.sections import Block, Charts, Notice, Prose, Report, Section, TableBlock, Tile, Tone
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import capital, number_text, sentence
from pgdyno.studies.noise.kind import KIND
from pgdyno.units import digits_text, plural

_NOTHING = "-"


def noise_page(record: StudyRecord) -> Report:
    """Return the report."""
    study, result = record.study, record.study.told(NoiseResult)
    metrics = () if result is None else result.metrics
    sections = [] if result is None else [_section(one, result) for one in metrics]
    about_runs = TableBlock(
        runs_table(record.trials, record.study.metric), f"{plural(len(record.trials), 'run')} of one configuration."
    )
    runs = Section("runs", "Runs", "What was measured?", (about_runs,))
    return framed(
        record,
        KIND.judged(study) or Judgement(f"No answer: {standing_text(study)}", study.state.value, Tone.UNSURE),
        (*sections, runs, chapters.about(study, record.trials, (chapters.COUNTED,))),
        (replace(shortened(one), question=one.question) for one in sections),
        tiles=tuple(tile for one in metrics if (tile := _tile(one)) is not None),
    )


def _name(metric: MetricNoise) -> str:
    return metric.metric.label


def _tile(metric: MetricNoise) -> Tile | None:
    if metric.hour is None or metric.hour.hour.detectable is None:
        return None
    hour, smallest = metric.hour.hour, metric.hour.hour.detectable
    how = f"{plural(hour.pairs, 'pair')} of {number_text(metric.hour.length.window_s)} s windows"
    worst = hour.at_most
    bound = "how large at most is open" if worst is None else f"at most {percent(worst)}, with 90 % confidence"
    return Tile(f"{_name(metric)}, in one hour", percent(smallest), bound, how, "detectable", Tone.NEUTRAL)


def _section(metric: MetricNoise, result: NoiseResult) -> Section:
    name, windows = _name(metric), metric.windows
    question = f"Which effects on {name} can be told from noise, and in which time?"
    if not windows:
        return Section(metric.metric.value, capital(name), question, (Notice((f"Unknown: {metric.reason}.",)),))
    caption = (
        "Smallest effect that a comparison of so many interleaved pairs shows with 80 % probability, at "
        f"{100 * result.design.confidence:g} % confidence: percent in minutes, in an hour "
        "percent (pairs); - is none below a doubling. * extrapolated from the windows above."
    )
    blocks: tuple[Block, ...] = (
        Prose(_sentences(metric, result), points=True),
        TableBlock(_table(windows), caption),
        Charts((_figure(metric, windows, result),)),
    )
    return Section(metric.metric.value, capital(name), question, blocks)


def _sentences(metric: MetricNoise, result: NoiseResult) -> tuple[str, ...]:
    name, found = _name(metric), []
    runs, beside = len(result.runs), result.beside_s
    found.append(
        f"{capital(name)} of {plural(runs, 'equal run')} scatters by {percent(metric.cv or 0.0)} (CV); "
        f"a run costs {number_text(beside)} s beside its window."
    )
    if result.early_s:
        found.append(
            f"Of the {number_text(result.warmup_s)} s of --warmup the load did not need "
            f"{number_text(result.early_s)} s: they belong to the window, so that --measure is that much shorter."
        )
    advice = metric.advice
    effect = percent(result.design.smallest_effect)
    if advice is not None:
        how = "" if advice.length.measured else " (extrapolated)"
        found.append(
            f"For an effect of {effect}: {_flags(advice, result)}{how} and up to {plural(advice.need.pairs, 'pair')}, "
            f"{plural(number_text(advice.need.minutes), 'minute')}.{_sure(advice, runs)}"
        )
    else:
        found.append(f"An effect of {effect} cannot be shown here with 1000 pairs: quieten the machine first.")
    like = metric.neighbours
    if like is not None and like > 0.5:
        found.append(
            f"Neighbouring runs resemble each other (correlation {like:.2f}): the machine drifts, which pairs cancel "
            "and single runs do not."
        )
    if metric.aa is not None and metric.aa.interval.is_closed:
        found.append(f"The runs against themselves: {sentence(metric.aa, 'one half', 'the other')}.")
    if result.odd is not None:
        found.append(f"Run {result.odd.run} is an outlier and is left out.")
    return tuple(found)


def _flags(advice: NoiseAdvice, result: NoiseResult) -> str:
    """Return the flags of a run with the proposed window; a study of an earlier version knows no warm-up."""
    window = number_text(advice.length.window_s)
    if advice.length.measure_s is None:
        return f"--measure {window}"
    return f"--warmup {number_text(result.warmup_s)} --measure {_measure(advice.length)} (windows of {window} s)"


def _measure(window: WindowLength) -> str:
    return number_text(window.window_s if window.measure_s is None else round(window.measure_s, 1))


def _sure(advice: NoiseAdvice, runs: int) -> str:
    whence = f"the noise is known from {plural(runs, 'run')} only"
    most = advice.at_most
    if most is None:
        return f" How many it could take is open, because {whence}: measure longer."
    return (
        f" Plan {plural(most.pairs, 'pair')}, {plural(number_text(most.minutes), 'minute')}, to be 90 "
        f"% sure of it: {whence}."
    )


def _table(windows: tuple[WindowFigures, ...]) -> Table:
    pairs = [cell.pairs for cell in windows[0].cells]
    told = all(window.length.measure_s is not None for window in windows)  # a study of an earlier version does not know
    columns = (
        "window s",
        *(("--measure",) if told else ()),
        "noise of a pair",
        *(plural(count, "pair") for count in pairs),
        "in one hour",
    )
    rows = []
    for window in windows:
        star = "" if window.length.measured else " *"
        cells = [cell_text(cell.detectable, cell.minutes) for cell in window.cells]
        last = f"{_effect(window.hour.detectable)} ({window.hour.pairs})"
        noise = percent(window.pair_sd)
        measure = (_measure(window.length),) if told else ()
        rows.append((f"{number_text(window.length.window_s)}{star}", *measure, noise, *cells, last))
    return Table(columns, tuple(rows), columns)


def cell_text(effect: float | None, minutes: float | None) -> str:
    """Write the smallest effect in percent, "-" for none, and the minutes that it takes: `8 in 120`."""
    return f"{_effect(effect)} in {digits_text(minutes or 0.0, 2)}"


def _effect(effect: float | None) -> str:
    return _NOTHING if effect is None else digits_text(100 * effect, 2)


def percent(share: float) -> str:
    """Write a share in percent with two digits, as far as an estimate of a few runs goes."""
    return f"{digits_text(100 * share, 2)} %"


def _figure(metric: MetricNoise, windows: tuple[WindowFigures, ...], result: NoiseResult) -> Figure:
    series = []
    for window in windows:
        points = [(cell.minutes, 100 * cell.detectable) for cell in window.cells if cell.detectable is not None]
        if window.hour.detectable is not None:
            points.append((60.0, 100 * window.hour.detectable))
        points.sort()
        if points:
            name = f"{number_text(window.length.window_s)} s{'' if window.length.measured else ' (extrapolated)'}"
            series.append(Series(name, tuple(x for x, _ in points), tuple(y for _, y in points)))
    effect = 100 * result.design.smallest_effect
    smallest = None if metric.hour is None else metric.hour.hour.detectable
    title = "nothing below a doubling in an hour" if smallest is None else f"from {percent(smallest)} on in an hour"
    return Figure(
        kind=FigureKind.LINES,
        id=f"noise-{metric.metric.value}",
        title=f"{capital(_name(metric))}: {title}",
        question="What does more time buy?",
        x=Axis("time of measuring", "min", scale="log"),
        y=Axis("smallest effect", "%", scale="log"),
        series=tuple(series),
        marks=(Mark("y", effect, "effect of interest"),) if effect else (),
        table=_table(windows),
        caption="One line a window length; lower is better.",
        n=len(result.runs),
    )
