"""What a rehearsal came to, in words. Pure."""

from __future__ import annotations

import shlex
from pathlib import Path

from pgdyno.errors import ExitCode
from pgdyno.model.results.migrate import ItemEnd, MigrateResult, PhaseTiming, ReplayedLoad
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.units import BYTES, bytes_text, plural, seconds_text


def judgement(result: MigrateResult) -> Judgement:
    """Return whether the migration fits into its window, and is whole."""
    told = window_text(result)
    if result.exit_code is ExitCode.OK:
        word = "passes" if result.window_s is not None else "done"
        return Judgement(f"{result.plan}: {told}", word, Tone.GOOD, told)
    faults = "; ".join(result.faults)
    alert = f"rehearsal of migration {result.plan}: {faults}"
    return Judgement(f"{result.plan}: {faults} ({told})", "fails", Tone.BAD, told, result.exit_code, alert)


def window_text(result: MigrateResult) -> str:
    """Return total, window and margin."""
    if result.total_s is None:
        return "it did not finish"
    total = f"{seconds_text(result.total_s)} in all"
    if result.window_s is None or result.margin_s is None or result.margin_pct is None:
        return f"{total}; no window is named"
    word = "left" if result.margin_s >= 0 else "missing"
    margin = f"{seconds_text(abs(result.margin_s))} {word}, {result.margin_pct:.1f} %"
    return f"{total}, in a window of {seconds_text(result.window_s)} ({margin})"


def continue_text(path: Path, study: str) -> str:
    """Return the command by which a rehearsal that was ended continues."""
    return f"to continue: pgdyno migrate rehearse {shlex.quote(str(path))} --apply --resume {study}"


def back_text(result: MigrateResult) -> str:
    """Return what the rehearsal of the way back came to."""
    if result.back is None:
        return "not rehearsed: the rehearsal did not come to it"
    told = f"rehearsed in {seconds_text(result.back.seconds)}"
    differs = "; ".join(f"{one.what}: {one.found}" for one in result.back.differs)
    if differs:
        return f"{told}; the source is not as it was: {differs}"
    unknown = "; ".join(f"{one.what} {one.found}" for one in result.back.evidence if one.found.startswith("unknown"))
    return f"{told}: {f'nothing else differs, but {unknown}' if unknown else 'the source is proved untouched'}"


def replay_text(load: ReplayedLoad) -> str:
    """Return what the captured load on the target came to, and in which study it is told whole."""
    told = (
        f"{plural(load.sent, 'statement')} at speed {load.speed:g}, {load.unlike:,} answered differently than captured"
    )
    return f"{told}{f'; it does not count: {load.void}' if load.void else ''} (study {load.study})"


def rate_text(phase: PhaseTiming) -> tuple[str, str]:
    """Return MB/s, of as many bytes as the MB of a size here, and rows/s; empty where one is not known."""
    seconds = phase.seconds
    if not seconds:
        return "", ""
    size = "" if phase.bytes is None else f"{phase.bytes / BYTES['MB'] / seconds:.1f}"
    return size, "" if phase.rows is None else f"{phase.rows / seconds:,.0f}"


def size_text(value: int | None) -> str:
    """Return a size, or that it is unknown."""
    return "unknown" if value is None else bytes_text(value)


def against_plan(phase: PhaseTiming) -> str:
    """Return how much longer than planned a phase took; empty where the plan says nothing, or it is not done."""
    if phase.end is not ItemEnd.DONE or phase.planned_s is None or phase.seconds is None or not phase.planned_s:
        return ""
    return f"{100 * (phase.seconds / phase.planned_s - 1):+.0f} %"
