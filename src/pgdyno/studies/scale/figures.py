"""The charts of a scalability study: figures by level, and the client curve with the laws beside it. Pure."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.model.figure import Axis, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.results.scale import ClientCurve, LevelFigures, ScaleResult
from pgdyno.report.scales import nice_bounds
from pgdyno.report.wording import number_text
from pgdyno.studies.scale.words import response_text

_STEPS = 24


def level_figures(result: ScaleResult) -> tuple[Figure, ...]:
    """Return response time and path length by level: qualified runs only."""
    return (
        _by_level(result, "response", response_text(result), "ms", lambda one: one.response_ms),
        _by_level(result, "path", "path length", "CPU s per transaction", lambda one: one.path_s),
    )


def _by_level(
    result: ScaleResult, name: str, quantity: str, unit: str, value: Callable[[LevelFigures], float | None]
) -> Figure:
    points = [(one.percent, found) for one in result.levels if (found := value(one)) is not None]
    series = (
        Series("medians of qualified runs", tuple(x for x, _ in points), tuple(y for _, y in points), group="cell"),
    )
    return Figure(
        kind=FigureKind.LINES,
        id=f"scale-{name}",
        title=f"{quantity[0].upper()}{quantity[1:]} by level",
        question=f"Does {quantity} stay constant?",
        x=Axis("level, % of production", "", lo=0.0, hi=max((x for x, _ in points), default=100.0)),
        y=Axis(quantity, unit, lo=0.0, hi=nice_bounds((0.0, max((y for _, y in points), default=1.0) or 1.0))[1]),
        series=series if points else (),
        marks=(Mark("x", result.reference, "reference"),),
        table=Table(("level", quantity), tuple((f"{x:g} %", number_text(y)) for x, y in points), (quantity,)),
        caption="Only qualified runs are shown; the others are counted in the table.",
        n=sum(len(one.qualified) for one in result.levels),
    )


def curve_figure(curve: ClientCurve) -> Figure:
    """Return throughput by connections as measured, with each law that was fitted."""
    measured = [(float(one.connections), one) for one in curve.loads if one.throughput is not None]
    last = float(curve.loads[-1].connections)
    steps = [1 + (last - 1) * step / _STEPS for step in range(_STEPS + 1)]
    series = [
        Series(
            "measured",
            tuple(x for x, _ in measured),
            tuple(one.throughput for _, one in measured),
            tuple(min(one.runs) for _, one in measured),
            tuple(max(one.runs) for _, one in measured),
            group="cell",
        )
    ]
    laws = (("Universal Scalability Law", curve.usl), ("Amdahl's law", curve.amdahl))
    series += [Series(name, tuple(steps), tuple(law.at(steps))) for name, law in laws if law is not None]
    most = max((y for one in series for y in (*one.y, *one.hi) if y is not None), default=1.0)
    columns = ("connections", "measured", *(name for name, law in laws if law is not None))
    rows = tuple(
        (f"{x:g}", number_text(one.throughput), *(number_text(law.at([x])[0]) for _, law in laws if law is not None))
        for x, one in measured
    )
    return Figure(
        kind=FigureKind.LINES,
        id="scale-clients",
        title="Throughput by connections",
        question="Where does more load stop to help?",
        x=Axis("connections", "", lo=0.0, hi=last),
        y=Axis("throughput", "transactions/s", lo=0.0, hi=nice_bounds((0.0, most or 1.0))[1]),
        series=tuple(series) if measured else (),
        table=Table(columns, rows, columns),
        caption="Whiskers are the least and the greatest run. Beyond the loads that were run, laws are not measured.",
        n=sum(len(one.runs) for one in curve.loads),
    )
