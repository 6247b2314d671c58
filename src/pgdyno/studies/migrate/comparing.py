"""Two rehearsals phase by phase: other parallelism, other settings, another configuration of the target. Pure.

One run of each side says what it took and no more: no interval is drawn from it, and none is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.model.results.migrate import MigrateResult, MigrationPhase, PhaseTiming
from pgdyno.studies.migrate.words import rate_text
from pgdyno.units import plural, seconds_text

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
    if a.environment and b.environment and a.environment != b.environment:
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
