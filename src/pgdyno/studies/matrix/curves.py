"""The curves of a matrix: knees and the growth of locks in sentences, or as a table for many; their charts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pgdyno.model.figure import Axis, Figure, FigureKind, Series, Table
from pgdyno.model.matrix import LOCK_MODES, MatrixRow
from pgdyno.report.scales import nice_bounds
from pgdyno.report.sections import Charts, Section, TableBlock
from pgdyno.stats.matrix import Curve, LockGrowth, curves, knee, lock_growth
from pgdyno.stats.ratios import signed
from pgdyno.studies.matrix.names import CellNames, load_text
from pgdyno.studies.matrix.words import LOCK_COLUMNS, figure
from pgdyno.units import digits_text, plural

MANY = 4
"""From so many curves on, sentences about each would hide the answer: a table has them."""


def curve_sentences(rows: Sequence[MatrixRow]) -> list[str]:
    """Name the knee of every curve and how its locks grew; of many curves only how often."""
    found = curves(rows)
    if len([curve for curve in found if len(curve) > 1]) < MANY:
        return [*knee_sentences(rows), *growth_sentences(rows)]
    knees = [(curve, row) for curve in found if (row := knee(curve)) is not None]
    grown = [growth for curve in found if (growth := lock_growth(curve)) is not None]
    sentences = []
    if knees:
        within = sum(row.cell.connections < curve[-1].cell.connections for curve, row in knees)
        sentences.append(
            f"Of {plural(len(knees), 'curve')} {within or 'none'} with a knee within the loads that were run."
        )
    if grown:
        outgrown = sum(bool(growth.outgrown) and growth.throughput < growth.load for growth in grown)
        sentences.append(
            f"Of {plural(len(grown), 'curve')} {outgrown or 'none'} with locks that grew faster than the load."
        )
    return sentences or [_NO_KNEE]


_NO_KNEE = "No knee can be named: that takes three loads of one curve."


def knee_sentences(rows: Sequence[MatrixRow]) -> list[str]:
    """Name the knee of every curve that has one, and say where no curve has why not."""
    names = CellNames.of_rows(rows)
    found = [sentence for curve in curves(rows) if (sentence := _knee_sentence(curve, names)) is not None]
    return found or [_NO_KNEE]


def _knee_sentence(curve: Curve, names: CellNames) -> str | None:
    row = knee(curve)
    if row is None:
        return None
    name, here = names.curve(curve), row.cell.connections
    if here == curve[-1].cell.connections:
        return (
            f"Knee of {name}: not within the loads that were run; the most, {plural(here, 'connection')}, "
            "has the greatest throughput."
        )
    most = _greatest(curve)
    if row is most:
        reached = f"the greatest throughput is that of {plural(here, 'connection')}, and more load does not raise it"
    else:
        give = "gives" if here == 1 else "give"
        reached = (
            f"{plural(here, 'connection')} already {give} {_share(row, most)} % of the greatest throughput, "
            f"which {most.cell.connections} reach"
        )
    return f"Knee of {name}: {reached}."


def _greatest(curve: Curve) -> MatrixRow:
    return max(curve, key=lambda row: row.rate)


def _share(row: MatrixRow, most: MatrixRow) -> str:
    return figure(100 * row.rate / most.rate, 1)


def growth_sentences(rows: Sequence[MatrixRow]) -> list[str]:
    """Say how locks grew with the load on each curve."""
    names = CellNames.of_rows(rows)
    return [
        _growth_sentence(names.curve(curve), growth)
        for curve in curves(rows)
        if (growth := lock_growth(curve)) is not None
    ]


def _growth_sentence(name: str, growth: LockGrowth) -> str:
    locks = ", ".join(f"{LOCK_MODES[mode]} {digits_text(ratio)} times" for mode, ratio in growth.locks.items())
    change = signed(100 * (growth.throughput - 1), 1)
    said = (
        f"{name}: from {growth.first.cell.connections} to {plural(growth.last.cell.connections, 'connection')} "
        f"({digits_text(growth.load)} times) locks held changed: {locks}; throughput changed by {change} %."
    )
    if growth.outgrown and growth.throughput < growth.load:
        *first, last = (LOCK_MODES[mode] for mode in growth.outgrown)
        kinds = f"{', '.join(first)} and {last}" if first else last
        return f"{said} {kinds} grew faster than the load, as locks do where sessions hold them while they wait."
    return said


def curve_table(rows: Sequence[MatrixRow]) -> Table | None:
    """Return one line for each curve of several loads; None when there are so few that sentences tell them."""
    names, found = CellNames.of_rows(rows), [curve for curve in curves(rows) if len(curve) > 1]
    if len(found) < MANY:
        return None
    told = ("curve", "connections", "knee at", "% of greatest", "greatest TPS", "at", "throughput")
    columns = (*told, *LOCK_COLUMNS)
    return Table(columns, tuple(_curve_line(curve, names) for curve in found), columns[2:])


def _curve_line(curve: Curve, names: CellNames) -> tuple[str, ...]:
    row, most, growth = knee(curve), _greatest(curve), lock_growth(curve)
    first, last = curve[0].cell.connections, curve[-1].cell.connections
    inside = row is not None and row.cell.connections < last
    throughput = curve[-1].rate / curve[0].rate
    locks = [None if growth is None else growth.locks.get(mode) for mode in LOCK_MODES]
    return (
        names.curve(curve),
        f"{first} to {last}, x {digits_text(last / first)}",
        "too few loads" if row is None else str(row.cell.connections) if inside else "beyond",
        _share(row, most) if row is not None and inside else "",
        figure(most.tps),
        str(most.cell.connections),
        *("" if ratio is None else f"x {figure(ratio)}" for ratio in (throughput, *locks)),
    )


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
