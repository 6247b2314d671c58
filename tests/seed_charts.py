"""Charts of the sources from their own rows: scaling curve and locks (002), batch windows and delays (004)."""

from __future__ import annotations

from pgdyno.model.figure import Axis, Figure, FigureKind, Mark, Series, Table
from pgdyno.report.wording import rounded_text

CONNECTIONS = (112.0, 224.0, 448.0)
"""16, 32 and 64 drivers of seven clients each, lines 209 to 214 of seed 002."""
TPS = {"default": (56470.1, 55241.3, 51978.0), "tuned": (60642.3, 61963.9, 57459.9)}
LOCKS = {
    "Row Exclusive": (427.0, 915.0, 2095.0),
    "Access Share": (141.0, 254.0, 623.0),
    "Exclusive": (187.0, 361.0, 722.0),
}
WINDOWS = {"process 1": 54.0, "process 2": 40.0, "process 3": 67.0}
"""Per cent of production's window, lines 525 to 527 of seed 004."""
BELOW_HALF, ABOVE_ONE = 97.0, 0.68
"""Per cent of the delayed transactions below 0.5 s and above 1 s, lines 487 and 488; what lies between is the rest."""


def scaling() -> Figure:
    """Return throughput by connections of two configurations."""
    best = max(CONNECTIONS, key=lambda one: TPS["tuned"][CONNECTIONS.index(one)])
    title = f"Tuned throughput is highest at {best:g} connections"
    return _curves("scaling", title, Axis("throughput", "transactions/s"), TPS, best)


def locks() -> Figure:
    """Return locks by connections, a curve a mode."""
    rows = LOCKS["Row Exclusive"]
    span = f"from {CONNECTIONS[0]:g} to {CONNECTIONS[-1]:g} connections"
    title = f"Row Exclusive locks grow {rows[-1] / rows[0]:.1f} times {span}"
    return _curves("locks", title, Axis("locks held", "count"), LOCKS, None)


def _curves(name: str, title: str, y: Axis, rows: dict[str, tuple[float, ...]], best: float | None) -> Figure:
    marks = () if best is None else (Mark("x", best, "best", "limit"),)
    series = tuple(Series(one, CONNECTIONS, values) for one, values in rows.items())
    return Figure(
        FigureKind.LINES, name, title, "What do more clients do?", Axis("connections"), y, series, marks=marks
    )


def batch_windows() -> Figure:
    """Return the window of each batch process against that of production."""
    title = f"Every process ends in {max(WINDOWS.values()):g} % of production's window or less"
    return _bars("windows", title, "share of production's window", tuple(WINDOWS.items()), 100.0)


def delays() -> Figure:
    """Return the delayed transactions by how late they were; the middle class is what the two others leave."""
    between = 100 - BELOW_HALF - ABOVE_ONE
    classes = (("below 0.5 s", BELOW_HALF), ("0.5 to 1 s", between), ("above 1 s", ABOVE_ONE))
    return _bars(
        "delays", f"{rounded_text(ABOVE_ONE)} % of the delayed were late by more than 1 s", "share", classes, 100.0
    )


def _bars(name: str, title: str, label: str, rows: tuple[tuple[str, float], ...], most: float) -> Figure:
    bars = Series(label, tuple(float(at) for at in range(len(rows))), tuple(value for _, value in rows), style="bars",
                  labels=tuple(one for one, _ in rows), group="effect")  # fmt: skip
    table = Table(("what", label), tuple((one, f"{rounded_text(value)} %") for one, value in rows), (label,))
    return Figure(FigureKind.BARS, name, title, "How is it spread?", Axis("what"), Axis(label, "%", lo=0.0, hi=most),
                  (bars,), table=table)  # fmt: skip
