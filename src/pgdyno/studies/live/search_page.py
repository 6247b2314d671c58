"""The page of a search on a live load: what is offered, the candidates with their pairs, the finalists. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from pgdyno.model.figure import Axis, Figure, FigureKind, Mark, Table
from pgdyno.model.results.live import LiveCandidate, LiveSearch, LiveSwitch
from pgdyno.model.verdict import Interval
from pgdyno.report.figures import ends_of, interval_series, intervals_table, ratio_axis
from pgdyno.report.sections import Block, Charts, FactList, Notice, Prose, Section, TableBlock
from pgdyno.report.wording import STRATEGIES, bare_range_text, capital, settings_text
from pgdyno.studies.live.candidates import cheaper_neighbour
from pgdyno.studies.live.course.figures import knobs_of
from pgdyno.studies.live.switch_page import switch_sections
from pgdyno.studies.live.words import judgement
from pgdyno.studies.tune.importance_page import SearchedRun, knobs_section
from pgdyno.units import bytes_text, digits_text, plural, seconds_text

NORMAL_95 = 1.96


def search_sections(search: LiveSearch) -> tuple[Section, ...]:
    """Return what is offered, then how it was found."""
    winner = search.winner
    offered = (*switch_sections(winner), _decision(search, winner)) if winner is not None else ()
    found = [_candidates(search)]
    if search.finals:
        found.insert(0, _finals(search))
    if search.effects:
        found.insert(0, _effects(search))
    return (*offered, *found, *_importance(search), _knobs(search))


def _importance(search: LiveSearch) -> tuple[Section, ...]:
    """Return what the model says of the knobs, and the candidates as lines from knob to knob."""
    if search.model is None:
        return ()
    runs = [SearchedRun(one.number, one.settings, 1 / one.ratio) for one in search.candidates if one.ratio is not None]
    runs.sort(key=lambda run: -run.ratio)
    section = knobs_section(search.model, runs, called="candidate", by="two to four pairs")
    return (replace(section, id="model"),)


def _decision(search: LiveSearch, winner: LiveSwitch) -> Section:
    """Return what a person may do with it: until they do, the server is as it was."""
    lean = search.conservative or winner
    same = "the same: nothing that was confirmed needs less" if lean == winner else settings_text(lean.b)
    facts = (
        ("keep", f"{settings_text(winner.b)}: pgdyno apply --study with this id"),
        ("keep the conservative one", f"{same}: pgdyno apply --conservative --study with this id"),
        ("look again at times", "pgdyno live --again with this id, from a timer: what fits today may not fit in May"),
        ("leave it", "nothing has to be done: the server is as it was found"),
    )
    return Section("decision", "What now", "What can be done with it?", (FactList(facts),))


def search_lead(search: LiveSearch, target: str, spent_s: float | None) -> str:
    """Return what was searched, where, in one line."""
    took = "" if spent_s is None else f", {seconds_text(spent_s)}"
    tried = plural(len(search.candidates), "candidate")
    return f"{tried} over {plural(len(search.knobs), 'knob')}, on the load of its users, on {target}{took}"


def _candidates(search: LiveSearch) -> Section:
    columns = (
        "number", "settings", "B / A", "give or take", "pairs", "server CPU B / A", "blocks read B / A",
        "disk requests B / A", "memory at worst", "fate", "why tried",
    )  # fmt: skip
    rows = tuple(
        (
            str(one.number),
            settings_text(one.settings),
            "unknown" if one.ratio is None else digits_text(one.ratio),
            "" if one.error is None else f"{100 * one.error:.1f} %",
            str(one.pairs),
            *("unknown" if ratio is None else digits_text(ratio) for ratio in (one.cpu, one.reads, one.device)),
            "unknown" if one.memory_bytes is None else bytes_text(one.memory_bytes),
            one.fate if not one.why else f"{one.fate}: {one.why}",
            STRATEGIES.get(one.origin, one.origin),
        )
        for one in search.candidates
    )
    caption = (
        "Time of the body's statements over that under the server's own settings, in neighbouring periods. So few "
        "pairs prove nothing: they say which candidates are worth more. Blocks are read from disk or the page cache, "
        "which PostgreSQL cannot tell apart; disk requests are those of the whole host. Memory is what the settings "
        "allow all sessions together at worst, not what was used; memory that is not used caches files."
    )
    blocks: list[Block] = [TableBlock(Table(columns, rows, (*columns[2:9], "number")), caption)]
    measured = [one for one in search.candidates if one.ratio is not None]
    if measured:
        blocks += [knobs_of(measured), _moved(search, measured)]
        blocks.insert(0, Charts((_figure(measured),)))
    blocks.insert(0, Prose((f"No more were tried: {search.stopped or 'unknown why'}.",)))
    blocks = [*(() if search.finals else _notes(search)), *blocks]
    return Section("candidates", "Candidates", "What was tried, and what did it look like?", tuple(blocks))


def _moved(search: LiveSearch, measured: list[LiveCandidate]) -> TableBlock:
    rows = []
    for one in measured:
        cheaper = cheaper_neighbour(one, search.candidates)
        told = "none" if cheaper is None else f"candidate {cheaper.number}: {cost_text(cheaper, one)}"
        rows.append((str(one.number), "; ".join(one.reasons) or "not recorded", told))
    caption = (
        "A cheaper neighbour needs less memory or CPU, no more of either, and differs in time by no more than its own "
        "scatter and this one's."
    )
    columns = ("number", "what moved with it", "cheaper neighbour")
    return TableBlock(Table(columns, tuple(rows), ("number",)), caption, folded=True)


def cost_text(cheaper: LiveCandidate, one: LiveCandidate) -> str:
    """Return what a cheaper candidate takes and spares beside another one."""
    found = [f"{digits_text(cheaper.ratio or 1.0)} of the time, not {digits_text(one.ratio or 1.0)}"]
    if cheaper.memory_bytes is not None and one.memory_bytes is not None and cheaper.memory_bytes < one.memory_bytes:
        found.append(f"{bytes_text(one.memory_bytes - cheaper.memory_bytes)} less memory")
    if cheaper.cpu is not None and one.cpu is not None and cheaper.cpu < one.cpu:
        found.append(f"{100 * (1 - cheaper.cpu / one.cpu):.0f} % less CPU")
    return ", ".join(found)


def _figure(measured: list[LiveCandidate]) -> Figure:
    rows = [(f"candidate {one.number}\n{settings_text(one.settings)}", _range(one)) for one in measured]
    axis = ratio_axis("time under the candidate over time as it is", ends_of(interval for _, interval in rows))
    return Figure(
        kind=FigureKind.FOREST,
        id="candidates",
        title=f"{plural(len(measured), 'candidate')} in the order that they were tried",
        question="Which candidates looked faster than the server as it is?",
        x=Axis("candidate"),
        y=axis,
        series=(interval_series("candidate", rows, axis, "effect"),),
        marks=(Mark("y", 1.0, "as it is", "reference"),),
        table=intervals_table("candidate", rows),
        caption="Left of 1 the load took less time. Ranges are by the scatter of the reference, and claim nothing.",
        n=len(measured),
    )


def _range(one: LiveCandidate) -> Interval:
    assert one.ratio is not None, "it was measured"
    reach = math.exp(NORMAL_95 * (one.error or 0.0))
    return Interval(one.ratio, one.ratio / reach, one.ratio * reach, 0.95)


def _finals(search: LiveSearch) -> Section:
    rows = []
    for place, one in enumerate(search.finals):
        said = judgement(one)
        rows.append((
            settings_text(one.b),
            said.title,
            str(len(one.pairs)),
            "offered" if place == search.chosen else "",
        ))  # fmt: skip
    columns = ("settings (B)", "against the server as it is (A)", "pairs", "")
    caption = "Each by fresh pairs; the confidence of 95 % is shared among the finalists."
    table = TableBlock(Table(columns, tuple(rows), ("pairs",)), caption)
    return Section("finalists", "Finalists", "Which of them held in fresh pairs?", (*_notes(search), table))


def _notes(search: LiveSearch) -> tuple[Block, ...]:
    return (Notice(tuple(f"{capital(one)}." for one in search.notes)),) if search.notes else ()


def _effects(search: LiveSearch) -> Section:
    columns = ("setting", "with it against without", "interval", "pairs", "verdict")
    rows = tuple(
        (
            one.setting,
            digits_text(one.verdict.interval.ratio),
            bare_range_text(one.verdict.interval),
            str(one.verdict.pairs),
            one.verdict.word.value,
        )
        for one in search.effects
    )
    caption = "All that is offered against the same without one setting: what each adds beside the others."
    block = TableBlock(Table(columns, rows, columns[1:4]), caption)
    return Section("effects", "What each setting does", "Which settings matter?", (block,))


def _knobs(search: LiveSearch) -> Section:
    rows = tuple(search.left_out.items())
    blocks: list[Block] = [Prose((f"Searched: {', '.join(search.knobs)}.",))]
    if rows:
        blocks.append(TableBlock(Table(("knob", "not searched because it"), rows), "What was left out.", folded=True))
    return Section("knobs", "Knobs", "What could have been changed?", tuple(blocks))
