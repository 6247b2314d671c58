"""The staircase: 100 % at the left, one bar a step, gains multiplied, and an honest bar for what the steps leave open.

Pure: rows in, `Figure` out. A bar stands at the level that the kept steps before it reached, times its own ratio; its
interval compounds theirs with its own (`stats.compound`). A dropped or null step is drawn where it would have led, and
the next one goes on from where it began. The last bars are the end as it was measured and end against product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.model.figure import Axis, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.verdict import Interval
from pgdyno.report.scales import edge
from pgdyno.report.wording import bare_range_text, capital, change_text, number_text, range_text
from pgdyno.stats.compound import EXPLAINS, interaction_word, product, quotient
from pgdyno.units import digits_text, plural

GROUPS = {"keep": "kept", "candidate": "candidate", "null": "no effect shown", "drop": "dropped"}
INTERACTIONS = {"keep": "more than the product", "drop": "less than the product", "null": "no interaction shown"}
"""What the last bar says, by its group: it has the look of a step's bar, and is none."""
AS_MULTIPLE = 10.0
"""From here on a level is told as a multiple: nobody reads 3600 %."""
CUT = "Intervals that reach beyond the axis end at its edge; the table has them whole."
COLUMNS = ("step", "what", "step's own effect", "interval", "level, %", "level's interval", "became of it")


@dataclass(frozen=True, slots=True)
class StairRow:
    """One measured step. `ratio` is its gain, above 1 for a better one; `interval` None where only a figure is known.

    `outcome` is keep, drop, null or candidate.
    """

    name: str
    ratio: float
    interval: Interval | None
    outcome: str
    what: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Bar:
    label: str
    group: str
    level: float
    lo: float | None
    hi: float | None


def staircase(
    rows: Sequence[StairRow],
    *,
    end: Interval | None = None,
    stated_end: float | None = None,
    mode: str = "accumulate",
    metric: str = "throughput",
) -> Figure:
    """Draw the steps in their order; `end` is all kept steps against the baseline in fresh runs.

    `rows` are the measured steps. Like theirs, the ratio of `end` is a gain, above 1 for a better one; None where it
    was not measured. `stated_end` is a ratio that a document states without an interval, drawn where `end` is None;
    None where there is none. In the `mode` "isolate" each step stands on the baseline, and only the last bars compound;
    in "accumulate" each stands on the kept ones before it. `metric` names what grows, for title and axis.
    """
    bars = [_Bar("baseline", "baseline", 100.0, None, None)]
    kept: list[StairRow] = []
    cells: list[tuple[str, ...]] = []
    for row in rows:
        bar = _step_bar(row, [] if mode == "isolate" else kept)
        bars.append(bar)
        cells.append(_cells(row, bar))
        if row.outcome == "keep":
            kept.append(row)
    expected = product([row.interval or _exactly(row.ratio) for row in kept])
    known = all(row.interval is not None for row in kept)
    if kept:
        bars += _ends(expected, end, stated_end, known=known)
    cells += [(bar.label, "", "", "", number_text(bar.level), _bounds(bar), "") for bar in bars[1 + len(rows) :]]
    top = edge([bar.level for bar in bars], [bar.hi for bar in bars if bar.hi is not None])
    return Figure(
        kind=FigureKind.STAIRCASE,
        id="staircase",
        title=_title(rows, kept, expected, end, stated_end, metric, known=known),
        question="What did each change buy?",
        x=Axis("step"),
        y=Axis(f"{metric}, baseline = 100", unit="%", lo=0.0, hi=top),
        series=_series(bars, "candidate" if any(row.outcome == "candidate" for row in rows) else "kept"),
        marks=(Mark("y", 100.0, "baseline", "reference"),),
        table=Table(COLUMNS, tuple(cells), COLUMNS[2:6]),
        caption=" ".join([_caption(mode, end), *([CUT] if top is not None else [])]),
        n=len(rows),
    )


def _step_bar(row: StairRow, before: Sequence[StairRow]) -> _Bar:
    level = product([one.interval or _exactly(one.ratio) for one in (*before, row)])
    known = all(one.interval is not None for one in (*before, row))
    return _bar(row.name, row.outcome if row.outcome != "candidate" else "keep", level, known=known)


def _bar(label: str, group: str, level: Interval, *, known: bool) -> _Bar:
    hi = 100 * level.hi if known and level.hi != float("inf") else None
    return _Bar(label, group, 100 * level.ratio, 100 * level.lo if known and hi is not None else None, hi)


def _ends(expected: Interval, end: Interval | None, stated: float | None, *, known: bool) -> list[_Bar]:
    bars = [_bar("product of the kept", "total", expected, known=known)]
    if end is not None:
        bars.append(_bar("all kept, measured", "total", end, known=True))
        rest = quotient(end, expected)
        group = "null" if rest.lo <= 1 <= rest.hi else "keep" if rest.lo > 1 else "drop"
        bars.append(_bar("interaction", group, rest, known=known))
    elif stated is not None:
        bars.append(_Bar("end as stated", "total", 100 * stated, None, None))
        bars.append(_Bar("interaction", "null", 100 * stated / expected.ratio, None, None))
    return bars


def _series(bars: Sequence[_Bar], good: str) -> tuple[Series, ...]:
    names = {"baseline": "baseline", "keep": good, "drop": "dropped", "null": "no effect shown", "total": "end"}
    found = []
    last = len(bars) - 1 if len(bars) > 1 and bars[-2].group == "total" else None
    kinds = [(group, name, False) for group, name in names.items()]
    kinds += [(group, name, True) for group, name in INTERACTIONS.items()]
    for group, name, is_last in kinds:
        placed = [(float(at), bar) for at, bar in enumerate(bars) if bar.group == group]
        chosen = [(at, bar) for at, bar in placed if (at == last) is is_last]
        if chosen:
            found.append(
                Series(
                    name,
                    tuple(at for at, _ in chosen),
                    tuple(bar.level for _, bar in chosen),
                    tuple(bar.lo for _, bar in chosen),
                    tuple(bar.hi for _, bar in chosen),
                    style="bars",
                    labels=tuple(bar.label for _, bar in chosen),
                    group=group,
                )
            )
    return tuple(found)


def _cells(row: StairRow, bar: _Bar) -> tuple[str, ...]:
    interval = "unknown" if row.interval is None else span_text(row.interval)
    became = "; ".join(text for text in (GROUPS.get(row.outcome, row.outcome), row.note) if text)
    return (row.name, row.what, change_text(row.ratio), interval, number_text(bar.level), _bounds(bar), became)


def span_text(found: Interval) -> str:
    """Write the bounds of a step's own effect; too few pairs leave it without an upper one."""
    return "unbounded" if found.hi == float("inf") else range_text(found)


def _bounds(bar: _Bar) -> str:
    return "unknown" if bar.lo is None or bar.hi is None else f"[{number_text(bar.lo)}, {number_text(bar.hi)}]"


def _title(
    rows: Sequence[StairRow],
    kept: Sequence[StairRow],
    expected: Interval,
    end: Interval | None,
    stated: float | None,
    metric: str,
    *,
    known: bool,
) -> str:
    if not kept:
        proposed = sum(row.outcome == "candidate" for row in rows)
        found = f"{plural(proposed, 'candidate')} found" if proposed else "none kept"
        return f"{plural(len(rows), 'step')} measured, {found}"
    steps = f"the {len(kept)} kept of {plural(len(rows), 'step')} multiply to"
    if len(kept) == 1:
        steps = f"the one kept of {plural(len(rows), 'step')} gave"
    multiplied = f"{steps} {_level(expected)}{f' {_bracket(expected)}' if known else ''}"
    if end is not None:
        return f"{capital(metric)} ends at {_level(end)} {_bracket(end)} of the baseline; {multiplied}"
    return capital(f"{multiplied}, beside {100 * stated:.1f} % as stated" if stated is not None else multiplied)


def _level(found: Interval) -> str:
    return f"{digits_text(found.ratio)}x" if found.ratio >= AS_MULTIPLE else f"{100 * found.ratio:.1f} %"


def _bracket(found: Interval) -> str:
    if found.hi == float("inf"):
        return "[unbounded]"
    if found.ratio >= AS_MULTIPLE:
        return bare_range_text(found)
    return f"[{100 * found.lo:.1f}, {100 * found.hi:.1f}]"


def _caption(mode: str, end: Interval | None) -> str:
    stands = "on the baseline" if mode == "isolate" else "on the steps kept before it"
    said = [f"Each bar stands {stands}; levels multiply, and intervals compound on the scale of logarithms (MOVER)."]
    if end is not None:
        said.append(
            "Steps were kept because they did well, so their product is too optimistic: the end is measured in fresh "
            "runs. The last bar is end over product; 100 means that the steps explain the end, as far as its interval "
            "goes."
        )
    return " ".join(said)


def interaction_sentence(expected: Interval, end: Interval) -> str:
    """Say whether the measured end is the product of the steps."""
    rest = quotient(end, expected)
    figures = f"measured end over product {bare_range_text(rest)} around {digits_text(rest.ratio)}"
    word, bound = interaction_word(rest), f"{100 * EXPLAINS:g} %"
    if word == "explained":
        return f"The product of the kept steps explains the measured end within {bound}: {figures}, which includes 1."
    if word == "not resolved":
        open_ = f"an interval that includes 1 and reaches more than {bound} away from it"
        return (
            f"It is not resolved whether the product of the kept steps explains the measured end: {figures}, {open_}."
        )
    whole = f"The whole is {word} than the product of its steps: {figures}"
    return f"{whole}; some steps act on each other, or were flattered when they were kept."


def _exactly(ratio: float) -> Interval:
    return Interval(ratio, ratio, ratio, 1.0)
