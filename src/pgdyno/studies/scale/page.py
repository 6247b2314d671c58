"""The page of a scalability study: levels against the reference, the client curve, what held each back. Pure."""

from __future__ import annotations

from collections.abc import Callable

from pgdyno.model.figure import Axis, Figure, FigureKind, Mark, Series, Table
from pgdyno.model.matrix import LOCK_MODES
from pgdyno.model.results.scale import ClientCurve, LevelFigures, ScaleResult
from pgdyno.report import chapters
from pgdyno.report.page_frame import framed, unfinished
from pgdyno.report.scales import nice_bounds
from pgdyno.report.sections import Block, Charts, Notice, Prose, Report, Section, TableBlock
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import number_text
from pgdyno.studies.scale.words import (
    curve_sentences,
    judgement,
    law_text,
    level_sentence,
    proportion_text,
    ratio_text,
    response_text,
    runs_text,
)
from pgdyno.units import binary_text

METHOD = (
    "A level is a per cent of production: its load, and the hardware that the server may use for it.",
    "Every repetition runs each level once, in a freshly drawn order; levels are compared within repetitions.",
    "Constant is an equivalence test: the 95 % interval of the ratio lies within the tolerance of the plan.",
    "Path length is the server's CPU time for each transaction. The load generator runs outside of the level's limits.",
    "A run qualifies when it is whole and steady and reached 97 % of its rate.",
    chapters.COUNTED,
)
LAW_CAPTION = (
    "X(n) = rate n / (1 + contention (n - 1) + coherency n (n - 1)), fitted to every qualified run; 95 % intervals. "
    "The knee is where a straight ascent would reach the limit."
)


def scale_page(record: StudyRecord) -> Report:
    """Return the page; of a study without a result only how it stands."""
    result = record.study.told(ScaleResult)
    about = chapters.about(record.study, record.trials, METHOD)
    if result is None:
        return unfinished(record, about)
    answer = Section("answer", "Answer", "Does every level answer as the reference does?", _answer(result))
    levels = Section("levels", "The levels", "What did each level reach?", _levels(result))
    criteria = _criteria(result)
    charts = Section("charts", "By level", "Do response time and path length stay constant?",
                     (Charts(level_figures(result)),))  # fmt: skip
    curve = None if result.curve is None else _curve(result.curve)
    sections = (answer, levels, _servers(result), criteria, charts, curve, _bottlenecks(result), about)
    return framed(record, judgement(result), sections, (answer, levels, criteria, curve))


def _answer(result: ScaleResult) -> tuple[Block, ...]:
    blocks: list[Block] = [Prose(tuple(level_sentence(one, result) for one in result.levels), points=True)]
    if result.ended:
        blocks.append(Notice((f"The study ended before all runs were made: {result.ended}.",)))
    return tuple(blocks)


def _levels(result: ScaleResult) -> tuple[Block, ...]:
    memory = ("memory",) if any(one.memory_bytes is not None for one in result.levels) else ()  # one column less
    figures = ("qualified runs", "throughput", f"{response_text(result)}, ms", "success", "CPU s/transaction",
               "CPUs used")  # fmt: skip
    rows = tuple(
        (
            f"{one.percent:g} %",
            "reference" if one.percent == result.reference else one.standing.value,
            "as found" if one.cpus is None else f"{one.cpus:g}",
            *("as found" if one.memory_bytes is None else binary_text(one.memory_bytes) for _ in memory),
            one.load,
            f"{len(one.qualified)} of {one.runs}",
            number_text(one.throughput),
            number_text(one.response_ms),
            _percent(one.success, 2),
            _seconds(one.path_s),
            _percent(one.busy, 0),
        )
        for one in result.levels
    )
    caption = f"Medians of the qualified runs, which alone are shown. {runs_text(result)}"
    columns = ("level", "verdict", "CPUs", *memory, "load", *figures)
    return (TableBlock(Table(columns, rows, ("CPUs", *memory, *figures)), caption),)


def _servers(result: ScaleResult) -> Section | None:
    """Return on which server each level ran, where that is not the same for all."""
    if len({one.target for one in result.levels}) < 2 and not result.part_of:
        return None
    rows = tuple(
        (f"{one.percent:g} %", one.target, one.environment, one.study or result.study) for one in result.levels
    )
    told = f"Each level was measured by a study of its server. {proportion_text(result)}"
    if result.part_of:
        told = f"These are the levels of one server; study {result.part_of} has all, and the reference."
    table = TableBlock(Table(("level", "server", "environment", "study"), rows), told)
    return Section("servers", "The servers", "On which server did each level run?", (table,))


def _criteria(result: ScaleResult) -> Section | None:
    rows = tuple(
        (
            f"{one.percent:g} %",
            check.criterion,
            ratio_text(check),
            f"{100 * check.tolerance:g} %",
            check.word.value,
            str(check.pairs),
        )
        for one in result.levels
        for check in one.checks
    )
    columns = ("level", "criterion", "against the reference", "tolerance", "verdict", "pairs")
    return Section.of_table(
        "criteria",
        "The criterion",
        "Which figure stays within its tolerance?",
        Table(columns, rows, ("tolerance", "pairs")),
        "Fixed in the plan beforehand. Not resolved means that the runs do not decide it, not that nothing was found.",
    )


def _curve(curve: ClientCurve) -> Section:
    modes = tuple(LOCK_MODES.values())
    columns = ("connections", "runs", "qualified", "throughput", "latency, ms", "host CPU", *modes, "limited by")
    rows = tuple(
        (
            str(one.connections),
            str(one.of),
            str(len(one.runs)),
            number_text(one.throughput),
            number_text(one.latency_ms),
            "unknown" if one.cpu_pct is None else f"{one.cpu_pct:.0f} %",
            *("unknown" if mode not in one.locks else number_text(one.locks[mode]) for mode in LOCK_MODES),
            one.bottleneck,
        )
        for one in curve.loads
    )
    blocks: list[Block] = [
        Prose(tuple(curve_sentences(curve)), points=True),
        TableBlock(Table(columns, rows, columns[:-1]), "A closed loop; medians of qualified runs, locks held by mode."),
        Charts((curve_figure(curve),)),
    ]
    laws = [(name, law) for name, law in (("Universal Scalability Law", curve.usl), ("Amdahl's law", curve.amdahl))
            if law is not None]  # fmt: skip
    if laws:
        names = ("rate", "contention", "coherency", "peak", "limit", "knee")
        told = tuple((name, *(law_text(getattr(law, one)) for one in names)) for name, law in laws)
        blocks.append(TableBlock(Table(("law", *names), told, names), LAW_CAPTION))
    return Section("clients", "By connections", "Where is the peak, and what comes after it?", tuple(blocks))


def _bottlenecks(result: ScaleResult) -> Section | None:
    found = [one for one in result.levels if one.bottleneck]
    rows = tuple((f"{one.percent:g} %", str(one.run), one.bottleneck, " ".join(one.evidence[:2])) for one in found)
    table, question = (
        Table(("level", "run", "limited by", "evidence"), rows, ("run",)),
        "Which resource was short at each level?",
    )
    return Section.of_table("bottleneck", "What limited it?", question, table, "Of the run that stands for each level.")


def _percent(value: float | None, digits: int) -> str:
    return "unknown" if value is None else f"{100 * value:.{digits}f} %"


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.6f}"


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
