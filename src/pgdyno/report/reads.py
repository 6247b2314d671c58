"""Rows, responses and reads of the YBIO shape: logical ones beside those that reached a disk, and gaps. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from pgdyno.model.figure import Table
from pgdyno.model.results.parts import Pair
from pgdyno.model.trial import Trial
from pgdyno.report.sections import Block, Notice, Section, TableBlock
from pgdyno.report.wording import number_text
from pgdyno.units import plural

COLUMNS = ("run", "rows/s", "response ms", "logical reads/s", "of them not in buffers/s", "physical reads/s", "away s")
_NAMES = ("rows_per_s", "response_ms", "logical_reads_per_s", "buffer_misses_per_s")
_OWN, _HOST = "physical_reads_per_s", "physical_reads_per_s_of_host"
_OF_ROWS = "physical_reads_per_1000_rows"
_OPTIONAL = ("away s", "physical reads/1,000 rows")
CAPTION = (
    "Logical reads are blocks of 8 kB that the load's database asked shared buffers for; what was not there came from "
    "the page cache or a disk. Response is the mean of a call."
)
HOST_WIDE = "Physical reads are requests to all disks of the host, whoever made them."
OWN = "Physical reads are requests to disks by the server's own cgroup."
SIDES = "Medians of the runs behind the verdict."


def reads_section(trials: Sequence[Trial], pairs: Sequence[Pair], sides: tuple[str, str]) -> Section | None:
    """Return the table of reads, one row a run; None when no run counted them.

    Where the verdict rests on pairs of runs their two sides come first, and the runs, of a tune many, are folded.
    """
    counted = [
        (trial, trial.outcome.counters) for trial in trials if trial.outcome and "rows_per_s" in trial.outcome.counters
    ]
    if not counted:
        return None
    rows = tuple(_row(trial, counters) for trial, counters in counted)
    own = any(_OWN in counters for _, counters in counted)
    meanings = f"{CAPTION} {OWN if own else HOST_WIDE}"
    compared = _sides(counted, pairs, sides)
    blocks: list[Block] = []
    if compared:
        blocks.append(TableBlock(_table(("side", "runs", *COLUMNS[1:]), compared), f"{meanings} {SIDES}"))
        blocks.append(TableBlock(_table(COLUMNS, rows), f"{plural(len(rows), 'run')}, one by one.", folded=True))
    else:
        blocks.append(TableBlock(_table(COLUMNS, rows), meanings))
    gaps = [trial.outcome.reason for trial, counters in counted if trial.outcome and "away_s" in counters]
    if gaps:
        blocks.append(Notice(tuple(f"{reason}. Rows per second include the gap." for reason in gaps)))
    return Section("reads", "Reads", "How many rows, and where did they come from?", tuple(blocks))


def reads_of_steps(
    trials: Sequence[Trial], steps: Sequence[tuple[str, Sequence[int], Sequence[int]]], sides: tuple[str, str]
) -> Section | None:
    """Return the reads of each step, medians of its runs without and with it; None when no run counted them.

    A step is its name and the runs of either side. One without a counted run on either side is left out.
    """
    counted = [(trial.id, trial.outcome.counters) for trial in trials if trial.outcome]
    by_run = {
        run: (*_figures(counters), counters.get(_OF_ROWS)) for run, counters in counted if "rows_per_s" in counters
    }
    rows = []
    for name, *runs in steps:
        lots = [[by_run[run] for run in lot if run in by_run] for lot in runs]
        if all(lots):
            for side, lot in zip(sides, lots, strict=True):
                rows.append((name, side, str(len(lot)), *(_median(column) for column in zip(*lot, strict=True))))
    if not rows:
        return None
    columns = ("step", "side", "runs", *COLUMNS[1:], "physical reads/1,000 rows")
    used = [place for place, name in enumerate(columns) if name not in _OPTIONAL or any(row[place] for row in rows)]
    table = Table(
        tuple(columns[place] for place in used),
        tuple(tuple(row[place] for place in used) for row in rows),
        tuple(columns[place] for place in used[2:]),
    )
    own = any(_OWN in counters for _, counters in counted)
    said = f"{CAPTION} {OWN if own else HOST_WIDE} Medians of the runs; see the staircase for what a step proved."
    return Section("reads", "Reads", "How many rows, and where did they come from?", (TableBlock(table, said),))


def reads_facts(trial: Trial) -> tuple[tuple[str, str], ...]:
    """Return the same of one run as names and values; empty when it did not count them."""
    counters = trial.outcome.counters if trial.outcome else {}
    if "rows_per_s" not in counters:
        return ()
    _, rows, response, logical, missed, physical, away = _row(trial, counters)
    whose = "by the server" if _OWN in counters else "by the whole host"
    facts = [("rows", f"{rows} a second, {response} ms a call")]
    if logical:
        facts.append(("logical reads", f"{logical} blocks a second, {missed} of them not in shared buffers"))
    if physical:
        facts.append(("physical reads", f"{physical} requests a second {whose}"))
    if away:
        facts.append(("server away", f"{away} s, {counters.get('sessions_reopened', 0):.0f} sessions opened again"))
    return tuple(facts)


def _table(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Table:
    """Return the table, its last column left out where no server was away."""
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], tuple(row[:-1] for row in rows)
    return Table(columns, rows, tuple(name for name in columns if name != "side"))


def _sides(
    counted: Sequence[tuple[Trial, Mapping[str, float]]], pairs: Sequence[Pair], names: tuple[str, str]
) -> tuple[tuple[str, ...], ...]:
    """Return a row for each side of the pairs, empty where either has no counted run."""
    by_run = {trial.id: _figures(counters) for trial, counters in counted}
    rows = []
    for name, runs in zip(names, zip(*((pair.a_run, pair.b_run) for pair in pairs), strict=True), strict=False):
        figures = [by_run[run] for run in runs if run in by_run]
        if not figures:
            return ()
        rows.append((name, str(len(figures)), *(_median(column) for column in zip(*figures, strict=True))))
    return tuple(rows)


def _median(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return number_text(median(known)) if known else ""


def _row(trial: Trial, counters: Mapping[str, float]) -> tuple[str, ...]:
    return (str(trial.id), *("" if value is None else number_text(value) for value in _figures(counters)))


def _figures(counters: Mapping[str, float]) -> tuple[float | None, ...]:
    """Return the figures of one run, in the order of COLUMNS."""
    return (*(counters.get(name) for name in _NAMES), counters.get(_OWN, counters.get(_HOST)), counters.get("away_s"))
