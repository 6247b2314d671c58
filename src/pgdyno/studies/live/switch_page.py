"""The page of two arms on a live load: pairs, statements with their states, guards, and what the study cost. Pure."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.model.figure import Axis, Band, Figure, FigureKind, Mark, Table
from pgdyno.model.results.live import LiveChange, LiveSwitch
from pgdyno.model.verdict import Word
from pgdyno.outside.quoting import conf_line
from pgdyno.report.figures import MetricRow, ends_of, interval_series, intervals_table, ratio_axis
from pgdyno.report.figures import pairs as pairs_figure
from pgdyno.report.run_details import plan_section
from pgdyno.report.sections import Block, Charts, FactList, Notice, Prose, Section, Snippet, TableBlock, Tile, Tone
from pgdyno.report.wording import (
    TONES,
    bare_range_text,
    capital,
    change_text,
    number_text,
    range_text,
    settings_text,
)
from pgdyno.stats.restart_pairs import FEWEST_PAIRS, PERIOD_S
from pgdyno.studies.live.course.figures import running
from pgdyno.studies.live.rationale import rationale
from pgdyno.studies.live.switch_result import NOT_WATCHED, SECOND, WATCHED
from pgdyno.units import agreeing, digits_text, plural, seconds_text

MOST_DRAWN = 20


def switch_tiles(switch: LiveSwitch) -> tuple[Tile, ...]:
    """Return the verdict as a tile; none without one."""
    verdict = switch.verdict
    if verdict is None:
        return ()
    interval = verdict.interval
    return (
        Tile(
            verdict.metric.label,
            change_text(interval.ratio),
            f"{100 * interval.confidence:.3g} % interval {range_text(interval)}",
            f"{plural(verdict.pairs, 'pair')} of {switch.period_s:g} s periods; "
            f"statements that hold {100 * switch.covered:.0f} % of the time",
            verdict.word.value,
            Tone.BAD if switch.against else TONES[verdict.word],
        ),
    )


def switch_sections(switch: LiveSwitch) -> tuple[Section, ...]:
    """Return what was compared and what came of it; of a plan that was rejected, what it would have been."""
    if not switch.session:
        return (_change(switch),)
    found = [_change(switch), _pairs(switch), *_restarts(switch), *_why(switch)]
    if (plans := plan_section(switch.plans, ("under A", "under B"))) is not None:
        found.append(plans)
    if switch.statements:
        found.append(_statements(switch))
    return (*found, _guards(switch))


def _restarts(switch: LiveSwitch) -> tuple[Section, ...]:
    """Return what the restarts were, and what too few pairs of them say."""
    if switch.restarts is None:
        return ()
    untimed = max(0, switch.restarts - len(switch.outages))
    took = [seconds_text(one) for one in switch.outages] + ([f"{untimed} not timed"] if untimed else [])
    rows = (
        ("restarts", f"{switch.restarts}; {switch.restarts_most} were announced at most"),
        ("outages", ", ".join(took) or "none"),
        ("windows", ", ".join(switch.windows)),
        ("a period", f"{seconds_text(switch.period_s)}, of which {seconds_text(switch.wash_s)} do not count"),
    )
    blocks: list[Block] = [FactList(rows)]
    notes = []
    if 0 < len(switch.pairs) < FEWEST_PAIRS:
        ratios = ", ".join(change_text(one.ratio) for one in switch.pairs)
        works = ", ".join(change_text(one.work) for one in switch.pairs)
        notes.append(
            f"{agreeing(len(switch.pairs), 'pair', 'is', 'are')} before and after, and no verdict: the "
            f"statements' time was {ratios} of A's, while the offered work of the two periods was {works}."
        )
    if switch.period_s < PERIOD_S:
        notes.append(
            f"Periods are shorter than the usual {seconds_text(PERIOD_S)}: a cache may not have been full when "
            "counting began, which makes either arm look slower."
        )
    if notes:
        blocks.insert(0, Notice(tuple(notes)))
    return (Section("restarted", "Restarts", "How often was the server restarted, and when?", tuple(blocks)),)


def _why(switch: LiveSwitch) -> tuple[Section, ...]:
    """Return what moved with the change, where there is a difference to explain."""
    told = rationale(switch)
    if switch.verdict is None or switch.verdict.word not in (Word.BETTER, Word.WORSE) or not told:
        return ()
    said = Prose(tuple(f"{one}." for one in told), points=True)
    return (Section("why", "What moved with it", "On what does the difference rest?", (said,)),)


def _change(switch: LiveSwitch) -> Section:
    rows = tuple(
        (name, before, switch.a.get(name, "as found"), switch.b.get(name, "as found"))
        for name, before in switch.before.items()
    )
    caption = "What the two arms set; all else stayed as it was."
    if not switch.session:
        caption = "What the two arms would have set."
    table = TableBlock(Table(("setting", "found", "A", "B"), rows), caption)
    blocks: list[Block] = [table]
    if switch.against:
        blocks.insert(0, Notice(tuple(f"Not to be accepted: {text}." for text in switch.against)))
    elif switch.is_acceptable:
        text = "\n".join(conf_line(name, value) for name, value in switch.b.items())
        blocks.append(Snippet("to keep B: pgdyno apply --study with this id, or for postgresql.conf", text))
    if switch.not_tested:
        blocks.insert(0, Notice((f"{capital(switch.not_tested)}.",)))
    if switch.stopped:
        blocks.insert(0, Notice((f"It ended early: {switch.stopped}." if switch.session else "Nothing was changed.",)))
    return Section("change", "What is compared", "In which settings do A and B differ?", tuple(blocks))


def _pairs(switch: LiveSwitch) -> Section:
    rows = [
        ("ended", switch.ending),
        ("periods", f"{switch.period_s:g} s each, the first {switch.wash_s:.3g} s do not count"),
        ("judged", plural(len(switch.pairs), "pair")),
        ("not judged", "; ".join(f"{count} x {cause}" for cause, count in switch.lost.items()) or "none"),
        ("in the claim", f"statements that hold {100 * switch.covered:.0f} % of the time"),
        ("the rest", "not known" if switch.tail is None else f"{switch.tail} of its time under A"),
        ("order", f"by coin in each pair, seed {switch.seed}" if switch.restarts is None else "A B, then B A"),
    ]
    blocks: list[Block] = [FactList(tuple(rows))]
    if switch.verdict is not None and switch.pairs:
        ratios = {f"pair {one.number}, {one.first} first\n{one.ratio:.3f}x": one.ratio for one in switch.pairs}
        estimate = pairs_figure([MetricRow(switch.verdict, ratios)], subject="B", reference="A")
        if switch.restarts is not None:
            estimate = replace(estimate, caption="The order of the pairs is A B, then B A.")
        course = running(switch, switch.verdict)
        blocks.insert(0, Charts((estimate,) if course is None else (estimate, course)))
        columns = ("pair", "first", "B / A", "offered work B / A")
        table = Table(
            columns,
            tuple((str(one.number), one.first, f"{one.ratio:.3f}", f"{one.work:.3f}") for one in switch.pairs),
            ("pair", *columns[2:]),
        )
        blocks.append(TableBlock(table, "Time of the body's statements, pair by pair.", folded=True))
    if switch.second:
        blocks.append(_second(switch))
    return Section("pairs", "Pairs", "How sure is it?", tuple(blocks))


def _second(switch: LiveSwitch) -> TableBlock:
    rows = tuple(
        (
            SECOND[one.name][0],
            f"{number_text(one.a)} {SECOND[one.name][1]}",
            f"{number_text(one.b)} {SECOND[one.name][1]}",
            "-" if one.verdict is None else f"{one.verdict.word.value} {range_text(one.verdict.interval)}",
        )
        for one in switch.second
    )
    caption = (
        "What the whole server used for a second of offered work. The time of commits and of cancelled statements is "
        "in database time alone. Blocks are read from disk or from the page cache, which PostgreSQL cannot tell apart."
    )
    columns = ("beside the claim", "A", "B", "verdict")
    return TableBlock(Table(columns, rows, columns[1:3]), caption)


def _statements(switch: LiveSwitch) -> Section:
    watched = (
        f"Not watched: {plural(switch.unwatched, 'statement')}, {100 * switch.unwatched_share:.1f} % of the time. Of "
        "what runs less than once a period, or takes less than a thousandth of the time, nothing is known."
    )
    columns = ("queryid", "state", "B / A", "interval", "calls A", "calls B", "share", "database", "role")
    rows = tuple(
        (
            one.queryid,
            one.state,
            "unknown" if one.ratio is None else digits_text(one.ratio.ratio),
            "" if one.ratio is None else bare_range_text(one.ratio),
            number_text(one.calls_a),
            number_text(one.calls_b),
            f"{100 * one.share:.1f} %",
            one.database,
            one.role,
        )
        for one in switch.statements
    )
    caption = (
        "Mean time under B over that under A. The intervals are of single statements, by the scatter of their calls: "
        "they make no claim; the indicator is what the veto says."
    )
    drawn = [one for one in switch.statements if one.ratio is not None and one.state != NOT_WATCHED][:MOST_DRAWN]
    blocks: list[Block] = [Prose((watched,))]
    if drawn:
        blocks.append(Charts((_forest(drawn),)))
    blocks.append(TableBlock(Table(columns, rows, columns[2:7]), caption))
    return Section("changes", "Statement by statement", "Has one become much slower?", tuple(blocks))


def _forest(drawn: list[LiveChange]) -> Figure:
    alarming = sum(one.state != WATCHED for one in drawn)  # they come first
    rows = [
        (f"{one.queryid}\n{one.state}, {100 * one.share:.1f} % of the time", one.ratio)
        for one in drawn
        if one.ratio is not None
    ]
    axis = ratio_axis("mean time under B over that under A", ends_of(interval for _, interval in rows))
    return Figure(
        kind=FigureKind.FOREST,
        id="statements-forest",
        title=f"{plural(len(drawn), 'watched statement')} by their share of the time, "
        f"{f'{alarming} vetoed or suspected first' if alarming else 'none vetoed or suspected'}",
        question="Which statements became slower or faster?",
        x=Axis("statement"),
        y=axis,
        series=tuple(
            interval_series(name, part, axis, group, first)
            for name, part, group, first in (
                ("vetoed or suspected", rows[:alarming], "drop", 0),
                ("watched", rows[alarming:], "effect", alarming),
            )
            if part
        ),
        bands=(Band("y", 1 / 1.2, 1.2, "tolerated (within 1.2 times)"),),
        marks=(Mark("y", 1.0, "no difference", "reference"),),
        table=intervals_table("statement", rows),
        caption="Left of 1 the statement is faster under B. Those that are not watched are in the table alone.",
        n=len(drawn),
    )


def _guards(switch: LiveSwitch) -> Section:
    said = [f"{one.guard}: {one.words}; blamed on the {one.kind}" for one in switch.breaches]
    text = Prose(tuple(said) or ("No guard tripped.",), points=bool(said))
    undo = (
        f"Undo session {switch.session}: the server is as it was found." if switch.session else "Nothing was changed."
    )
    return Section("guards", "Guards", "Was the server in danger?", (text, Prose((undo,))))


def switch_lead(switch: LiveSwitch, target: str, spent_s: float | None) -> str:
    """Return what was compared, where, in one line."""
    took = "" if spent_s is None else f", {seconds_text(spent_s)}"
    return f"B sets {settings_text(switch.b)}; the load of its users, on {target}{took}"
