"""The four phases of a step, from the clock of its runs: prepare, run and monitor, analyse, adjust. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgdyno.model.trial import Trial

PHASES = ("prepare", "run and monitor", "analyse", "adjust")


@dataclass(frozen=True, slots=True)
class PhaseTime:
    """One phase; times are epoch seconds of the machine that measured, to about a second."""

    phase: str
    began_at: float
    ended_at: float


def phases_of(trials: Sequence[Trial], next_began_at: float | None = None) -> tuple[PhaseTime, ...]:
    """Return the phases of the runs of one step; empty when none of them has been measured.

    Prepare is the first run's configuration and data before its load; run and monitor reaches from there to the end
    of the last load; analyse is collection and verdict; adjust lasts until the next step's first load, where the
    decision is put in force.
    """
    known = [t.outcome for t in trials if t.outcome is not None and t.outcome.began_at and t.outcome.ended_at]
    if not known:
        return ()
    first, last = min(known, key=lambda o: o.began_at), max(known, key=lambda o: o.ended_at)
    spent = max(0.0, first.elapsed_s - (first.ended_at - first.began_at))
    collected = last.ended_at + min(1.0, max(0.0, last.elapsed_s - (last.ended_at - last.began_at)))
    after = collected if next_began_at is None else max(collected, next_began_at)
    edges = (first.began_at - spent, first.began_at, last.ended_at, collected, after)
    return tuple(PhaseTime(name, edges[place], edges[place + 1]) for place, name in enumerate(PHASES))
