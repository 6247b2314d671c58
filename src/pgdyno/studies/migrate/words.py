"""What a rehearsal came to, in words, and two of them phase by phase. Pure.

One run of each side says what it took and no more: no interval is drawn from it, and none is claimed.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import ExitCode
from pgdyno.model.environment import same_environment
from pgdyno.model.results.migrate import ItemEnd, MigrateResult, MigrationPhase, PhaseTiming, ReplayedLoad
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


AT_ONCE_S = 0.1
"""A phase that is shorter on both sides is one of moments: its share says nothing."""


@dataclass(frozen=True, slots=True)
class PhasePair:
    """A phase on both sides, in seconds and MB/s; None and empty where it did not run."""

    phase: MigrationPhase
    a_s: float | None
    b_s: float | None
    a_rate: str
    b_rate: str

    @property
    def change_pct(self) -> float | None:
        """Return how much longer B took than A, in percent; of what is over at once on both sides nothing."""
        if not self.a_s or self.b_s is None or max(self.a_s, self.b_s) < AT_ONCE_S:
            return None
        return 100 * (self.b_s / self.a_s - 1)


def phase_pairs(a: MigrateResult, b: MigrateResult) -> tuple[PhasePair, ...]:
    """Return the phases that ran on either side, in the order of A."""
    ours, theirs = ({one.phase: one for one in side.phases if one.seconds is not None} for side in (a, b))
    return tuple(_pair(phase, ours.get(phase), theirs.get(phase)) for phase in dict.fromkeys((*ours, *theirs)))


def _pair(phase: MigrationPhase, a: PhaseTiming | None, b: PhaseTiming | None) -> PhasePair:
    times = [None if one is None else one.seconds for one in (a, b)]
    rates = ["" if one is None else rate_text(one)[0] for one in (a, b)]
    return PhasePair(phase, times[0], times[1], rates[0], rates[1])


def compare_lines(a: MigrateResult, b: MigrateResult) -> list[str]:
    """Return the comparison as lines: what differs between the sides, then phases, then the whole."""
    lines = [f"A {a.study}: {_side(a)}", f"B {b.study}: {_side(b)}"]
    if a.fingerprint != b.fingerprint:
        lines.append("these are rehearsals of different plans: their times are not of the same work")
    if a.environment and b.environment and not same_environment(a.environment, b.environment):
        lines.append("the targets are not of one environment: another host, kernel or version makes other times, too")
    if a.source_bytes and b.source_bytes and abs(b.source_bytes / a.source_bytes - 1) > 0.1:
        lines.append(f"the source had {100 * (b.source_bytes / a.source_bytes - 1):+.0f} % more data in B")
    for one in phase_pairs(a, b):
        lines.append(f"  {one.phase.value:<18} {_time(one.a_s):>10} {_time(one.b_s):>10} {_change(one.change_pct):>8}"
                     + (f"   {one.a_rate} / {one.b_rate} MB/s" if one.a_rate and one.b_rate else ""))  # fmt: skip
    change = None if not a.total_s or b.total_s is None else 100 * (b.total_s / a.total_s - 1)
    lines.append(f"  {'in all':<18} {_time(a.total_s):>10} {_time(b.total_s):>10} {_change(change):>8}")
    lines.append("One run a side: no interval, and so no verdict; rehearse each again to see how much they scatter.")
    return lines


def _side(one: MigrateResult) -> str:
    settings = ", ".join(f"{setting.name} = {setting.during}" for setting in one.settings)
    return f"{plural(one.jobs, 'job')}{f', {settings}' if settings else ''}"


def _time(value: float | None) -> str:
    return "-" if value is None else seconds_text(value)


def _change(value: float | None) -> str:
    return "" if value is None else f"{value:+.0f} %"
