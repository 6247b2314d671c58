"""The page of a noise study: the smallest effect that can be told here, by window, pairs and minutes."""

from __future__ import annotations

from pgdyno.model.figure import Axis, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.study import StudyState
from pgdyno.model.verdict import Metric
from pgdyno.report import chapters, provenance
from pgdyno.report.reading import Fields, verdict_of
from pgdyno.report.runs_page import runs_table
from pgdyno.report.sections import Block, Charts, Notice, Prose, Report, Section, TableBlock, Tile, Tone
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import capital, number_text, plural, sentence
from pgdyno.units import digits_text

_NOTHING = "-"


def noise_page(record: StudyRecord) -> Report:
    """Return the report."""
    study, result = record.study, Fields(record.study.result or {})
    metrics = [one for one in result.children("metrics") if one.text("metric") in {*Metric}]
    sections = [_section(one, result) for one in metrics]
    about_runs = TableBlock(runs_table(record.trials), f"{plural(len(record.trials), 'run')} of one configuration.")
    runs = Section("runs", "Runs", "What was measured?", (about_runs,))
    return Report(
        study=study.id,
        kind=study.kind.value,
        title=result.text("title") or f"No answer: the study is {study.state.value}",
        word=result.text("word") or study.state.value,
        tone=Tone.NEUTRAL if study.state is StudyState.COMPLETE else Tone.UNSURE,
        lead=capital(f"{study.workload.description or study.workload.name}, on {study.target}"),
        stamp=provenance.stamp(study, record.trials, ()),
        tiles=tuple(tile for one in metrics if (tile := _tile(one)) is not None),
        sections=(*sections, runs, chapters.about(study, record.trials)),
        digest=(*[Section(s.id, s.title, s.question, _short(s.blocks)) for s in sections],),
        provenance=provenance.provenance(study, record.trials, result.number("elapsed_s")),
    )


def _short(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    return tuple(block for block in blocks if not isinstance(block, Charts))


def _name(metric: Fields) -> str:
    return Metric(metric.text("metric")).label


def _tile(metric: Fields) -> Tile | None:
    hour = metric.child("hour")
    smallest = hour.number("detectable")
    if smallest is None:
        return None
    how = f"{plural(hour.whole('pairs') or 0, 'pair')} of {number_text(hour.number('window_s'))} s windows"
    worst = hour.number("at_most")
    bound = "how large at most is open" if worst is None else f"at most {percent(worst)}, with 90 % confidence"
    return Tile(f"{_name(metric)}, in one hour", percent(smallest), bound, how, "detectable", Tone.NEUTRAL)


def _section(metric: Fields, result: Fields) -> Section:
    name, windows = _name(metric), metric.children("windows")
    question = f"Which effects on {name} can be told from noise, and in which time?"
    if not windows:
        return Section(
            metric.text("metric"), capital(name), question, (Notice((f"Unknown: {metric.text('reason')}.",)),)
        )
    design = result.child("design")
    caption = (
        "Smallest effect that a comparison of so many interleaved pairs shows with 80 % probability, at "
        f"{100 * (design.number('confidence') or 0.95):g} % confidence: percent in minutes, in an hour "
        "percent (pairs); - is none below a doubling. * extrapolated from the windows above."
    )
    blocks: tuple[Block, ...] = (
        Prose(_sentences(metric, result), points=True),
        TableBlock(_table(windows), caption),
        Charts((_figure(metric, windows, result),)),
    )
    return Section(metric.text("metric"), capital(name), question, blocks)


def _sentences(metric: Fields, result: Fields) -> tuple[str, ...]:
    name, found = _name(metric), []
    runs, beside = result.count("runs"), result.number("beside_s")
    found.append(
        f"{capital(name)} of {plural(runs, 'equal run')} scatters by {percent(metric.number('cv') or 0.0)} (CV); "
        f"a run costs {number_text(beside)} s beside its window."
    )
    early = result.number("early_s")
    if early:
        found.append(
            f"Of the {number_text(result.number('warmup_s'))} s of --warmup the load did not need "
            f"{number_text(early)} s: they belong to the window, so that --measure is that much shorter."
        )
    advice = metric.child("advice")
    effect = percent(result.child("design").number("smallest_effect") or 0.0)
    if advice.members:
        how = "" if advice.flag("measured") else " (extrapolated)"
        found.append(
            f"For an effect of {effect}: {_flags(advice, result)}{how} and up to {advice.whole('pairs')} pairs, "
            f"{number_text(advice.number('minutes'))} minutes.{_sure(advice, runs)}"
        )
    else:
        found.append(f"An effect of {effect} cannot be shown here with 1000 pairs: quieten the machine first.")
    like = metric.number("neighbours")
    if like is not None and like > 0.5:
        found.append(
            f"Neighbouring runs resemble each other (correlation {like:.2f}): the machine drifts, which pairs cancel "
            "and single runs do not."
        )
    verdict = verdict_of(metric.child("aa"))
    if verdict is not None:
        found.append(f"The runs against themselves: {sentence(verdict, 'one half', 'the other')}.")
    odd = result.child("odd")
    if odd.members:
        found.append(f"Run {odd.whole('run')} stands apart from all the others and is left out.")
    return tuple(found)


def _flags(advice: Fields, result: Fields) -> str:
    """Return the flags of a run with the proposed window; a study of an earlier version knows no warm-up."""
    if "measure_s" not in advice.members:
        return f"--measure {number_text(advice.number('window_s'))}"
    warmup = number_text(result.number("warmup_s"))
    return f"--warmup {warmup} --measure {_measure(advice)} (windows of {number_text(advice.number('window_s'))} s)"


def _measure(window: Fields) -> str:
    measure = window.number("measure_s")
    return number_text(window.number("window_s") if measure is None else round(measure, 1))


def _sure(advice: Fields, runs: int) -> str:
    if "at_most" not in advice.members:  # a study of an earlier version
        return ""
    most, whence = advice.child("at_most"), f"the noise is known from {plural(runs, 'run')} only"
    if not most.members:
        return f" How many it could take is open, because {whence}: measure longer."
    minutes = number_text(most.number("minutes"))
    return f" Plan {most.whole('pairs')} pairs, {minutes} minutes, to be 90 % sure of it: {whence}."


def _table(windows: tuple[Fields, ...]) -> Table:
    pairs = [cell.whole("pairs") or 0 for cell in windows[0].children("cells")]
    told = all("measure_s" in window.members for window in windows)  # a study of an earlier version does not know
    columns = (
        "window s",
        *(("--measure",) if told else ()),
        "noise of a pair",
        *(f"{count} pairs" for count in pairs),
        "in one hour",
    )
    rows = []
    for window in windows:
        star = "" if window.flag("measured") else " *"
        cells = [cell_text(cell.number("detectable"), cell.number("minutes")) for cell in window.children("cells")]
        hour = window.child("hour")
        last = f"{_effect(hour.number('detectable'))} ({hour.whole('pairs')})"
        noise = percent(window.number("pair_sd") or 0.0)
        measure = (_measure(window),) if told else ()
        rows.append((f"{number_text(window.number('window_s'))}{star}", *measure, noise, *cells, last))
    return Table(columns, tuple(rows), columns)


def cell_text(effect: float | None, minutes: float | None) -> str:
    """Write the smallest effect in percent, "-" for none, and the minutes that it takes: `8 in 120`."""
    return f"{_effect(effect)} in {digits_text(minutes or 0.0, 2)}"


def _effect(effect: float | None) -> str:
    return _NOTHING if effect is None else digits_text(100 * effect, 2)


def percent(share: float) -> str:
    """Write a share in percent with two digits, as far as an estimate of a few runs goes."""
    return f"{digits_text(100 * share, 2)} %"


def _figure(metric: Fields, windows: tuple[Fields, ...], result: Fields) -> Figure:
    series = []
    for window in windows:
        cells = [cell for cell in window.children("cells") if cell.number("detectable") is not None]
        hour = window.child("hour")
        points = [(cell.number("minutes") or 0.0, 100 * (cell.number("detectable") or 0.0)) for cell in cells]
        if hour.number("detectable") is not None:
            points.append((60.0, 100 * (hour.number("detectable") or 0.0)))
        points.sort()
        if points:
            name = f"{number_text(window.number('window_s'))} s" + (
                "" if window.flag("measured") else " (extrapolated)"
            )
            series.append(Series(name, tuple(x for x, _ in points), tuple(y for _, y in points)))
    effect = 100 * (result.child("design").number("smallest_effect") or 0.0)
    smallest = metric.child("hour").number("detectable")
    title = "nothing below a doubling in an hour" if smallest is None else f"from {percent(smallest)} on in an hour"
    return Figure(
        kind=FigureKind.LINES,
        id=f"noise-{metric.text('metric')}",
        title=f"{capital(_name(metric))}: {title}",
        question="What does more time buy?",
        x=Axis("time of measuring", "min", scale="log"),
        y=Axis("smallest effect", "%", scale="log"),
        series=tuple(series),
        marks=(Mark("y", effect, "effect of interest"),) if effect else (),
        table=_table(windows),
        caption="One line a window length; lower is better.",
        n=result.count("runs"),
    )
