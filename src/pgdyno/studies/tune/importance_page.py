"""What a page says of the knobs of a search: their importance, their slices, and what was tried as lines. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgdyno.model.figure import Axis, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.results.tune import KnobImportance, SearchModel
from pgdyno.model.trial import Role, Trial
from pgdyno.model.verdict import Metric
from pgdyno.report.figures import ends_of, interval_series, intervals_table, ratio_axis
from pgdyno.report.neighbours import trial_points
from pgdyno.report.sections import Block, Charts, Prose, Section
from pgdyno.units import digits_text, plural

MOST_KNOBS = 12
"""Of more knobs the least important are not drawn as rows of lines: nobody follows one over so many."""
BEST, MOST_LINES = 5, 60


@dataclass(frozen=True, slots=True)
class SearchedRun:
    """A searched configuration, by its number, with its performance over that of the baseline beside it."""

    number: int
    settings: Mapping[str, str]
    ratio: float

    def value(self, knob: KnobImportance) -> str:
        """Return what it set the knob to."""
        return self.settings.get(knob.knob, knob.default)


def knobs_section(
    model: SearchModel, runs: Sequence[SearchedRun], *, called: str = "trial", by: str = "a single run"
) -> Section:
    """Return what the model and the `runs`, the best first, say of the knobs, or why that is unknown.

    `called` is what a configuration of the search is, and `by` what it was measured by.
    """
    question = "Which knobs moved the load, and where to?"
    if model.unknown or not model.knobs:
        why = model.unknown or "no knob was changed in a run that counts"
        return Section("knobs", "Knob by knob", question, (Prose((f"Importance of the knobs: unknown. {why}.",)),))
    figures = [_importance(model.knobs), *(_slice(one) for one in model.knobs if one.values)]
    if lines := _lines(model.knobs[:MOST_KNOBS], runs, called, by):
        figures.append(lines)
    said = (
        f"By the model of the search, each {called} being {by}: it proves nothing, and says where to look. Only the "
        "headline's fresh pairs do. Above 1 is better, for latency and CPU too."
    )
    blocks: tuple[Block, ...] = (Prose((said,)), Charts(tuple(figures)))
    return Section("knobs", "Knob by knob", question, blocks)


def _importance(knobs: Sequence[KnobImportance]) -> Figure:
    rows = [(f"{one.knob}\nbest {one.best}, worst {one.worst}", one.span) for one in knobs]
    axis = ratio_axis("performance at the best value over that at the worst", ends_of(span for _, span in rows))
    first = knobs[0]
    title = f"{first.knob} moves the load most, by the model: {first.span}"
    if first.span.lo <= 1:
        title = f"Each of {plural(len(knobs), 'knob')} may do nothing, by the model"
    return Figure(
        kind=FigureKind.FOREST,
        id="importance",
        title=title,
        question="How much does each knob matter?",
        x=Axis("knob"),
        y=axis,
        series=(interval_series("knob", rows, axis, "effect"),),
        marks=(Mark("y", 1.0, "nothing", "reference"),),
        table=intervals_table("knob", rows),
        caption="Averaged over the settings of the others that were tried. An interval that begins at 1 may be "
        "nothing. Best and worst were picked, so that small figures are too large; of knobs that changed together, "
        "one may have the effect of the other, which the intervals do not know.",
        n=len(rows),
    )


def _slice(knob: KnobImportance) -> Figure:
    rows = [
        (f"{one.value}{f'{chr(10)}the default' if one.value == knob.default else ''}", one.ratio) for one in knob.values
    ]
    axis = ratio_axis("performance over that at the default", ends_of(ratio for _, ratio in rows))
    return Figure(
        kind=FigureKind.FOREST,
        id=f"slice-{knob.knob}",
        title=f"{knob.knob}: best at {knob.best}, worst at {knob.worst}",
        question=f"What does {knob.knob} do at each value?",
        x=Axis("value"),
        y=axis,
        series=(interval_series("value", rows, axis, "effect"),),
        marks=(Mark("y", 1.0, "default", "reference"),),
        table=intervals_table("value", rows),
        caption=f"The others as they were tried. {plural(len(knob.tried), 'value')} of it ran; the model fills in the "
        "rest, and is less sure there.",
        n=len(rows),
    )


def searched_runs(trials: Sequence[Trial], metric: Metric) -> list[SearchedRun]:
    """Return the searched trials that have a figure, the best first."""
    found = [
        SearchedRun(point.trial, trial.spec.configuration, point.ratio)
        for trial, point in zip(trials, trial_points(trials, metric), strict=True)
        if trial.spec.role is Role.SEARCH and point.ratio is not None
    ]
    return sorted(found, key=lambda run: -run.ratio)


def _lines(knobs: Sequence[KnobImportance], runs: Sequence[SearchedRun], called: str, by: str) -> Figure | None:
    """Draw each configuration as a line from knob to knob; None where that would be one line, or one knob."""
    if len(runs) < 2 or len(knobs) < 2:
        return None
    places = {one.knob: _places(one) for one in knobs}
    rest = runs[BEST:]
    drawn = [*runs[:BEST], *rest[:: max(1, -(-len(rest) // MOST_LINES))]]
    return Figure(
        kind=FigureKind.TRACKS,
        id="lines",
        title=f"Where the best {plural(min(BEST, len(runs)), 'configuration')} of {len(runs)} lie",
        question="Which values do the good ones share?",
        x=Axis("knob"),
        y=Axis("rank among the values that ran", "%", lo=0.0, hi=100.0),
        series=tuple(
            _line(f"{called} {run.number}, {digits_text(run.ratio)}x", run, knobs, places, "best" if at < BEST else "")
            for at, run in enumerate(drawn)
        ),
        marks=tuple(
            Mark("x", float(row), f"{one.knob}\n{one.tried[0]} to {one.tried[-1]}", "row")
            for row, one in enumerate(knobs)
        ),
        table=_lines_table(knobs, runs, called),
        caption=f"A line a {called}, from knob to knob, the most important on top; the best are in front, and {called} "
        f"{runs[0].number} is the best of all. Each is {by}, and the best of many is lucky.",
        n=len(runs),
    )


def _places(knob: KnobImportance) -> Mapping[str, float]:
    last = max(1, len(knob.tried) - 1)
    return {value: 100.0 * at / last for at, value in enumerate(knob.tried)}


def _line(
    name: str, run: SearchedRun, knobs: Sequence[KnobImportance], places: Mapping[str, Mapping[str, float]], group: str
) -> Series:
    values = [run.value(one) for one in knobs]
    return Series(
        name,
        tuple(float(row) for row in range(len(knobs))),
        tuple(places[one.knob].get(value) for one, value in zip(knobs, values, strict=True)),
        labels=tuple(f"{name}\n{one.knob} = {value}" for one, value in zip(knobs, values, strict=True)),
        group=group,
    )


def _lines_table(knobs: Sequence[KnobImportance], runs: Sequence[SearchedRun], called: str) -> Table:
    columns = (called, "ratio", *(one.knob for one in knobs))
    rows = tuple((str(run.number), digits_text(run.ratio), *(run.value(one) for one in knobs)) for run in runs)
    return Table(columns, rows, columns[:2])
