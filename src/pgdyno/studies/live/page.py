"""The page of a live study: what this server's own load lets one tell, in which time, and by which statements."""

from __future__ import annotations

from pgdyno.model.figure import Table
from pgdyno.model.results.live import LivePeriod, LiveReference, LiveResult, LiveStatement
from pgdyno.report.judgement import Judgement, standing_text
from pgdyno.report.page_frame import observed
from pgdyno.report.sections import Charts, FactList, Notice, Report, Section, TableBlock, Tile, Tone
from pgdyno.report.study_record import StudyRecord
from pgdyno.report.wording import number_text
from pgdyno.stats.restart_pairs import COLD_S, PERIOD_S, USUAL_SD, restart_pairs
from pgdyno.stats.sequential import Design
from pgdyno.studies.live.course.figures import timeline
from pgdyno.studies.live.kind import KIND
from pgdyno.studies.live.search_page import search_lead, search_sections
from pgdyno.studies.live.switch_page import switch_lead, switch_sections, switch_tiles
from pgdyno.studies.noise.page import percent
from pgdyno.units import digits_text, moment_text, plural, seconds_text

WINDOW_S = 7200.0
"""A maintenance window, as an example."""
NONE_BELOW = "none below a doubling"
_METHOD = (
    "The counters of pg_stat_statements are read every five seconds (every two while an arm is in force), without "
    "texts, and sessions are counted every second. No statement of the users is run, no statistics are reset, "
    "nothing is installed.",
    "The index is a mean of log ratios of each statement's mean time, with weights from this reference, none "
    "above a quarter. Only periods with about the same offered work are compared.",
)


def live_page(record: StudyRecord) -> Report:
    """Return the report."""
    study, result = record.study, record.study.told(LiveResult)
    sections = () if result is None else _sections(result)
    switch, search = (None, None) if result is None else (result.switch, result.search)
    ours = search_sections(search) if search is not None else () if switch is None else switch_sections(switch)
    told = KIND.judged(study) or Judgement(f"No answer: {standing_text(study)}", study.state.value, Tone.UNSURE)
    lead = f"The load of its users, watched on {study.target}; nothing was changed"
    if search is not None:
        switch = search.winner
        lead = search_lead(search, study.target, result.elapsed_s if result else None)
    elif switch is not None:
        lead = switch_lead(switch, study.target, result.elapsed_s if result else None)
    tiles: tuple[Tile, ...] = ()
    if result is not None and (switch is not None or search is None):
        tiles = _tiles(result) if switch is None else switch_tiles(switch)
    shown = (*ours, *_course(result), *_decisions(result), *sections)
    return observed(record, told, shown, ours or sections, _METHOD, done="watched", lead=lead, tiles=tiles)


def _tiles(result: LiveResult) -> tuple[Tile, ...]:
    best = result.chosen
    if best is None:
        return ()
    return tuple(
        Tile(
            f"statement time, in {plural(one.minutes, 'minute')}",
            effect_text(one.effect),
            f"at most {effect_text(one.at_most)}, with 90 % confidence",
            f"{plural(one.pairs, 'pair')} of {best.period_s:g} s periods",
            "detectable",
            Tone.NEUTRAL,
        )
        for one in best.effects
    )


def _sections(result: LiveResult) -> tuple[Section, ...]:
    found = [
        Section(
            "resolution",
            "What could be shown",
            "Which change of the statements' time would a study show, and in which time?",
            (
                *((Notice(result.notes),) if result.notes else ()),
                TableBlock(
                    _periods_table(result.periods),
                    "The smallest change of the statements' time that pairs of such periods show with 80 % probability "
                    f"at {100 * result.confidence:g} % confidence. Neighbouring periods of the reference stood for the "
                    "two arms.",
                ),
            ),
        ),
        Section("load", "The load", "What ran while it was watched?", (_load(result.reference),)),
    ]
    if any(one.pair_sd is not None for one in result.periods):
        found.append(_restarts(result))
    rows = (*result.body, *result.beside)
    if rows:
        caption = (
            "The claim rests on the statements with a weight; those that a period does not resolve are listed after "
            "them. Texts are not kept: SELECT query FROM pg_stat_statements WHERE queryid = ..."
        )
        block = TableBlock(_statements_table(rows), caption)
        found.append(Section("statements", "Statements", "By which statements would a change be judged?", (block,)))
    return tuple(found)


def _restarts(result: LiveResult) -> Section:
    found = restart_pairs([one.pair_sd for one in result.periods], Design(confidence=result.confidence))
    columns = ("pairs", "restarts", "time", "windows of 2 hours", "shows from")
    rows = tuple(
        (
            str(one.pairs),
            str(one.restarts),
            seconds_text(one.seconds),
            str(one.windows(WINDOW_S)),
            effect_text(one.effect),
        )
        for one in found
    )
    caption = (
        f"All such settings as one bundle against the server as it is, in periods of {seconds_text(PERIOD_S)}, the "
        f"first {seconds_text(COLD_S)} of which are left out for the cold cache. A pair of them scatters by "
        f"{percent(USUAL_SD)} on simulated loads, and at least as much as the longest periods above. Each restart is "
        "an outage. Fewer than three pairs are before and after, and no verdict. To prove them here: pgdyno "
        "live --b ... --allow-restart --windows 01:00-05:00. On a copy, pgdyno experiment shows smaller effects sooner."
    )
    table = TableBlock(Table(columns, rows, columns), caption, folded=True)
    return Section("restarts", "Settings that need a restart", "What would proving them here cost?", (table,))


def _periods_table(periods: tuple[LivePeriod, ...]) -> Table:
    columns = ("period s", "a pair scatters by", "pairs kept", "time covered", "calls", "10 min", "30 min", "60 min")
    rows = tuple(
        (
            number_text(one.period_s),
            "unknown" if one.pair_sd is None else percent(one.pair_sd),
            f"{100 * one.kept:.0f} % of {one.pairs}",
            f"{100 * one.covered:.0f} %, {plural(one.statements, 'statement')}",
            number_text(round(one.calls)),
            *("unknown" if one.pair_sd is None else effect_text(effect.effect) for effect in one.effects),
        )
        for one in periods
    )
    return Table(columns, rows, columns)


def effect_text(effect: float | None) -> str:
    """Write a smallest effect, a ratio distance, in percent."""
    return NONE_BELOW if effect is None else f"{digits_text(100 * effect, 2)} %"


def _load(seen: LiveReference) -> FactList:
    lost = ", ".join(f"{count} x {cause}" for cause, count in seen.void.items())
    rows = (
        (
            "watched",
            f"{seconds_text(seen.seconds)} in {plural(seen.steps, 'reading')}{f'; lost: {lost}' if lost else ''}",
        ),
        ("statements", f"{seen.statements} ran, of {seen.entries} in pg_stat_statements"),
        ("calls", f"{number_text(seen.calls_a_second)} a second"),
        ("commits", f"{number_text(seen.commits_a_second)} a second; their own time is in no statement"),
        ("time in statements", f"{plural(number_text(seen.statement_ms_a_second / 1000), 'session')} busy on average"),
        (
            "of the time that sessions were at work",
            "unknown: sessions did not report it"
            if seen.visible is None
            else f"{100 * seen.visible:.0f} % is in statements",
        ),
        ("sessions", f"{number_text(seen.sessions)}, {100 * seen.old_share:.0f} % of them from before"),
        ("at work", f"median {number_text(seen.active_median)}, at most {seen.active_most}"),
        (
            "computing, or waiting for a CPU",
            "unknown: not counted then"
            if seen.computing_median is None
            else f"median {number_text(seen.computing_median)}, parallel workers included",
        ),
        ("longest statement seen", seconds_text(seen.oldest_s)),
        ("new statements", f"{100 * seen.new_share:.1f} % of the time"),
        ("our own role", f"{100 * seen.own_share:.1f} % of the time, left out"),
    )
    return FactList(rows)


def _statements_table(rows: tuple[LiveStatement, ...]) -> Table:
    columns = ("queryid", "database", "role", "share", "weight", "calls a period", "mean ms", "cv")
    found = tuple(
        (
            one.queryid,
            one.database,
            one.role,
            f"{100 * one.share:.1f} %",
            "-" if one.weight is None else f"{100 * one.weight:.1f} %",
            number_text(one.calls),
            number_text(one.mean_ms),
            "unknown" if one.cv is None else digits_text(one.cv, 2),
        )
        for one in rows
    )
    return Table(columns, found, columns[3:])


def _decisions(result: LiveResult | None) -> tuple[Section, ...]:
    if result is None or not result.decisions:
        return ()
    columns = ("when", "who", "where", "asked", "answer", "why")
    rows = tuple(
        (
            moment_text(one.at),
            one.who,
            one.where,
            one.asked or "unasked",
            one.answer,
            one.why,
        )
        for one in result.decisions
    )
    caption = "What persons decided, in the terminal or the dashboard. Nothing else than this was put in force."
    block = TableBlock(Table(columns, rows), caption)
    return (Section("decisions", "Decisions", "Who approved what, and why?", (block,)),)


def _course(result: LiveResult | None) -> tuple[Section, ...]:
    figure = None if result is None else timeline(result.moments)
    if figure is None:
        return ()
    question = "What happened while the server was switched?"
    return (Section("course", "What happened when", question, (Charts((figure,)),)),)
