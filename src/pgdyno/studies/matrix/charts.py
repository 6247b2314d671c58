"""The charts of a matrix: throughput, latency and locks by connections, one line a curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgdyno.model.figure import Axis, Figure, FigureKind, Series, Table
from pgdyno.model.matrix import LOCK_MODES, MatrixRow
from pgdyno.report.scales import nice_bounds
from pgdyno.report.sections import Charts, Section, TableBlock
from pgdyno.stats.matrix import Curve, curves
from pgdyno.studies.matrix.curves import curve_table
from pgdyno.studies.matrix.names import CellNames, load_text
from pgdyno.studies.matrix.words import figure
from pgdyno.units import plural


def curves_sections(rows: Sequence[MatrixRow]) -> list[Section]:
    """Return the section of charts, and the table of many curves; none where every curve is a single point."""
    if not any(len(curve) > 1 for curve in curves(rows)):
        return []
    figures = (
        _lines(rows, "throughput", "throughput", "transactions/s", lambda row: row.tps),
        _lines(rows, "latency", "mean latency", "ms", lambda row: row.latency_ms),
        *(
            _lines(rows, f"locks-{name}", f"{mode}s held", "locks", _held(name))
            for name, mode in LOCK_MODES.items()
            if any(row.locks for row in rows)
        ),
    )
    table = curve_table(rows)
    listed = () if table is None else (TableBlock(table, _BY_CURVE),)
    question = "How do throughput, latency and locks go with the load?"
    return [Section("curves", "By load", question, (*listed, Charts(figures)))]


_BY_CURVE = (
    "The knee is the smallest load with 95 % of the greatest throughput of its curve; beyond: the most load that was "
    "run has the greatest. The last columns are the largest load against the smallest."
)


def _held(name: str) -> Callable[[MatrixRow], float | None]:
    return lambda row: row.locks.get(name)


def _lines(
    rows: Sequence[MatrixRow], name: str, quantity: str, unit: str, value: Callable[[MatrixRow], float | None]
) -> Figure:
    names = CellNames.of_rows(rows)
    found = [(name, line) for curve in curves(rows) for name, line in _drawn(names.curve(curve), curve)]
    series = tuple(
        Series(
            label,
            tuple(float(row.cell.connections) for row in curve),
            tuple(value(row) for row in curve),
            labels=tuple(f"{row.cell.instances} x {load_text(row.cell)}" for row in curve),
            group="cell",
        )
        for label, curve in found
    )
    most = max((y for one in series for y in one.y if y is not None), default=1.0)
    last = max((x for one in series for x in one.x), default=1.0)
    return Figure(
        kind=FigureKind.LINES,
        id=f"matrix-{name}",
        title=f"{quantity[0].upper()}{quantity[1:]} by connections",
        question=f"How do {quantity} go with the load?"
        if unit == "locks"
        else f"How does {quantity} go with the load?",
        x=Axis("connections", "", lo=0.0, hi=last),
        y=Axis(quantity, unit, lo=0.0, hi=nice_bounds((0.0, most or 1.0))[1]),
        series=series,
        table=_numbers(series),
        caption="One point per cell; complete rows only.",
        n=sum(len(curve) for _, curve in found),
    )


def _drawn(name: str, curve: Curve) -> list[tuple[str, Curve]]:
    """Return the lines of a curve: one for each number of load generators where cells meet at equal connections."""
    if len({row.cell.connections for row in curve}) == len(curve):
        return [(name, curve)]
    counts = sorted({row.cell.instances for row in curve})
    lines = [(count, tuple(row for row in curve if row.cell.instances == count)) for count in counts]
    return [(f"{name}, {plural(count, 'load generator')}", line) for count, line in lines]


def _numbers(series: Sequence[Series]) -> Table:
    """Return one line a curve and one column for each number of connections."""
    loads = sorted({x for one in series for x in one.x})
    points = [(one.name, dict(zip(one.x, one.y, strict=True))) for one in series]
    columns = tuple(f"{load:g}" for load in loads)
    lines = tuple((name, *(figure(values.get(load)) for load in loads)) for name, values in points)
    return Table(("curve", *columns), lines, columns)
