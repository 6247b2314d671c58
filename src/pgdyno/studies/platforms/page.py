"""The page of a platform comparison: what one did over the other by every denominator, and all that is unlike. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno import __version__
from pgdyno.model.facts import Unknown
from pgdyno.model.figure import Table
from pgdyno.model.platform import Denominator, Matchup, Platform, PlatformComparison, PlatformRow, Ratio
from pgdyno.report.sections import Block, Charts, FactList, Notice, Prose, Report, Section, TableBlock, Tile, Tone
from pgdyno.stats.ratios import rounded
from pgdyno.studies.platforms.figures import Generation, generations, ratio_bars, throughput_lines
from pgdyno.studies.platforms.words import (
    caution_sentences,
    equal_load_sentences,
    headroom_sentences,
    kind_names,
    load_text,
    number,
    place_text,
    title,
    unknown_sentences,
)
from pgdyno.units import plural

METHOD = (
    "The headline is each platform at its own best, per core: at an equal load one of the two may be past its best, "
    "and the ratio then shows that and not the platform.",
    "Runs of two machines cannot be interleaved, so that no verdict is given. Where both sides have repeated runs, "
    "the interval is Welch's, of the scatter from run to run; what differs between the machines and the days is in "
    "the ratio, and no interval shows it.",
    "Figures per core kept busy are an estimate: they take it that the CPU which was left would have brought as much "
    "as the CPU that was used. CPU % of different processors and SMT levels does not measure the same.",
)
LIMITS = (
    "These figures hold for this load, these versions and these settings; another load, or another database, may "
    "put the two in another order.",
    "Energy was not measured. The CPU that is left at the best row says how much room there is, not what it costs.",
)


def platforms_page(comparison: PlatformComparison) -> Report:
    """Return the report of a comparison."""
    a, b = comparison.a, comparison.b
    return Report(
        study=" and ".join(one.study or one.name for one in (a, b)),
        kind="comparison",
        title=title(comparison),
        word="invalid" if comparison.invalid else "",
        tone=Tone.BAD if comparison.invalid else Tone.NEUTRAL,
        lead=f"{a.name} over {b.name}: {a.same.get('workload', 'an unknown load')}",
        stamp=" · ".join(f"{one.name}: {_size(one)}" for one in (a, b)),
        tiles=() if comparison.invalid else _tiles(comparison),
        sections=tuple(_sections(comparison)),
        provenance={
            **{one.name: f"study {one.study}, environment {one.environment or 'unknown'}" for one in (a, b)},
            "written by": f"pgdyno {__version__}",
        },
        label="platform comparison",
    )


def _tiles(comparison: PlatformComparison) -> tuple[Tile, ...]:
    if comparison.best is None:
        return ()
    shown = [one for one in comparison.best.ratios if isinstance(one.ratio, float)]
    return tuple(
        Tile(
            f"{one.denominator.value}{' (estimate)' if one.is_estimate else ''}",
            f"{rounded(number(one))}x",
            "" if one.interval is None else f"{_interval(one)}, {one.interval.confidence * 100:g} %, run to run",
            f"{_figure(one.a)} and {plural(_figure(one.b), 'transaction')}/s",
            "",
            Tone.NEUTRAL,
        )
        for one in shown
    )


def _sections(comparison: PlatformComparison) -> list[Section]:
    a, b = comparison.a, comparison.b
    doubts = [Notice(comparison.invalid)] if comparison.invalid else []
    if cautions := caution_sentences(comparison):
        doubts.append(Notice(cautions))
    said = equal_load_sentences(comparison) or ("No ratio is stated: it would compare what was not measured alike.",)
    answer: list[Block] = [*doubts, Prose(said, points=len(said) > 1)]
    if comparison.best is not None:
        answer.append(TableBlock(ratio_table(comparison), f"Throughput of {a.name} over that of {b.name}."))
        answer += [Prose(gaps, points=True)] if (gaps := unknown_sentences(comparison.best)) else []
    sections = [Section("answer", "Answer", f"What does {a.name} do over {b.name}?", tuple(answer))]
    figures = [figure for figure in (ratio_bars(comparison), throughput_lines(comparison)) if figure is not None]
    if figures:
        sections.append(Section("charts", "Charts", "Which order, by which denominator?", (Charts(tuple(figures)),)))
    left = headroom_sentences(comparison)
    rows = tuple(TableBlock(_rows_table(one), f"{one.name}: {_size(one)}.") for one in (a, b))
    sections += [
        Section("rows", "Rows", "What was measured on each?", rows),
        *([Section("headroom", "Headroom", "How much was left?", (Prose(left, points=True),))] if left else []),
        Section("unlike", "Unlike things", "What else differs between the two?", (unlike_block(comparison),)),
        Section("method", "Method", "What do the figures mean?", (Prose((*METHOD, *LIMITS), points=True),)),
        Section("origin", "Origin", "Where are the runs?", (FactList((*_origin(a), *_origin(b))),)),
    ]
    return sections


def ratio_table(comparison: PlatformComparison) -> Table:
    """Return the ratios by denominator, each column one: at each one's best, and at every load that both had."""
    best = comparison.best
    head = ", ".join(["headline: each at its own best", *(kind_names(comparison, best) if best else ())])
    lines = [(head, best)] if best is not None else []
    lines += [(place_text(comparison, one), one) for one in comparison.equal]
    names = list(dict.fromkeys(one.denominator for _, matchup in lines for one in matchup.ratios))
    scatter = any(one.interval for _, matchup in lines for one in matchup.ratios)
    rows = []
    for head, matchup in lines:
        interval = (_interval(matchup.by(Denominator.TOTAL)) or "single runs",) if scatter else ()
        rows.append((head, *(_cell(matchup, name) for name in names), *interval))
    heads = (*(_label(name) for name in names), *(("interval in total",) if scatter else ()))
    return Table(("load", *heads), tuple(rows), heads)


def unlike_block(comparison: PlatformComparison) -> Block:
    """Return the table of what is unlike; a value that is not known says so."""
    rows = tuple((one.what, one.a or "unknown", one.b or "unknown") for one in comparison.unlike)
    if not rows:
        return Prose(("Nothing that was recorded differs.",))
    caption = f"{plural(len(rows), 'thing')} that the ratio may come from, beside the platform."
    return TableBlock(Table(("what", comparison.a.name, comparison.b.name), rows), caption)


def _label(name: Denominator) -> str:
    return f"{name.value} (estimate)" if name is Denominator.BUSY_CORE else name.value


def _cell(matchup: Matchup, name: Denominator) -> str:
    one = matchup.by(name)
    if isinstance(one.ratio, Unknown):
        return "unknown"
    return rounded(one.ratio)


def _interval(one: Ratio) -> str:
    return "" if one.interval is None else f"[{rounded(one.interval.lo)}, {rounded(one.interval.hi)}]"


def _figure(value: float | Unknown) -> str:
    return str(value) if isinstance(value, Unknown) else rounded(value)


def _rows_table(platform: Platform) -> Table:
    columns = ("configuration", "mode", "load", "transactions/s", "latency ms", "CPU %", "runs")
    rows = tuple(_row(row) for row in platform.rows)
    return Table(columns, rows, columns[3:6])


def _row(row: PlatformRow) -> tuple[str, ...]:
    latency, cpu = ("unknown" if one is None else rounded(one) for one in (row.latency_ms, row.cpu_pct))
    runs = ", ".join(map(str, row.runs)) or "as imported"
    return (row.configuration, row.mode, load_text(row), rounded(row.tps), latency, cpu, runs)


def _size(platform: Platform) -> str:
    counts = (
        ("core", platform.cores),
        ("thread", platform.threads),
        ("socket", platform.sockets),
        ("vCPU", platform.vcpus),
    )
    known = [plural(count, name) for name, count in counts if not isinstance(count, Unknown)]
    missing = [f"{name}s unknown" for name, count in counts if isinstance(count, Unknown)]
    return ", ".join([*known, *missing])


def _origin(platform: Platform) -> Sequence[tuple[str, str]]:
    agreed = ", ".join(f"{what} {value}" for what, value in platform.same.items())
    return (
        (platform.name, f"study {platform.study}, environment {platform.environment or 'unknown'}"),
        (f"{platform.name} measured", agreed or "unknown"),
    )


_METHOD = (
    "Factors are over the generation before, and multiply over several. What a metric gains beyond the clock is the "
    "work of everything else: caches, memory, instructions, and the software of that year."
)


def generations_page(steps: Sequence[Generation], metric: str) -> Report:
    """Return the report of one step or more. Raises nothing for what was typed: factors are positive."""
    figure = generations(steps, metric)
    return Report(
        study="generations",
        kind="comparison",
        title=figure.title,
        word="",
        tone=Tone.NEUTRAL,
        lead=f"{plural(len(steps), 'step')} from one generation to the next",
        stamp="factors as they were given",
        sections=(
            Section("answer", "Answer", "What is the clock, and what is not?", (Prose(step_sentences(steps, metric)),)),
            Section("charts", "Chart", "How large is each factor?", (Charts((figure,)),)),
            Section("method", "Method", "What do the figures mean?", (Prose((_METHOD,)),)),
        ),
        provenance={"written by": f"pgdyno {__version__}"},
        label="generations",
    )


def step_sentences(steps: Sequence[Generation], metric: str) -> tuple[str, ...]:
    """Say each step in one sentence."""
    return tuple(
        f"{step.step}: {metric} {rounded(step.metric)}x, clock {rounded(step.clock)}x, so {rounded(step.per_clock)}x "
        "beyond the clock."
        for step in steps
    )
