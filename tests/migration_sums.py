"""Whether the phases of a rehearsal add up to its whole, wherever this machine stood still."""

from __future__ import annotations

import pytest

from pgdyno.model.results.migrate import AFTERWARDS, ItemEnd, MigrateResult, MigrationPhase, PhaseTiming
from pgdyno.studies.migrate.timing import path_of


def assert_adds_up(result: MigrateResult) -> None:
    """Assert that the phases that waited for each other are the total, with short pauses between them but for one.

    What stops the machine for seconds, as a test's neighbours do, falls into one pause at the most.
    """
    assert result.total_s is not None
    phases = {one.phase: one for one in result.phases if one.phase not in AFTERWARDS}
    done = [one for one in phases.values() if one.end is ItemEnd.DONE]
    began_s = min(_times(one)[0] for one in done)
    last: PhaseTiming | None = max(done, key=lambda one: _times(one)[1])
    chain_s, pauses = 0.0, list[float]()
    while last is not None:
        begin, end = _times(last)
        before = _before(last, phases)
        chain_s += end - begin
        pauses.append(begin - (began_s if before is None else _times(before)[1]))
        last = before
    assert chain_s + sum(pauses) == pytest.approx(result.total_s, abs=1e-3)
    assert chain_s - 1e-3 <= path_of(result).end_s <= result.total_s + 1e-3, "no other hangs together for longer"
    assert sum(pauses) - max(pauses) < 1.0 + 0.1 * result.total_s, pauses


def _times(one: PhaseTiming) -> tuple[float, float]:
    assert one.began_s is not None
    assert one.ended_s is not None
    return one.began_s, one.ended_s


def _before(one: PhaseTiming, phases: dict[MigrationPhase, PhaseTiming]) -> PhaseTiming | None:
    """Return the phase that this one waited for last; what was left out hands on what it waited for itself."""
    found = [phases[phase] for phase in one.after if phase in phases]
    there = [other if other.end is ItemEnd.DONE else _before(other, phases) for other in found]
    return max((other for other in there if other is not None), key=lambda other: _times(other)[1], default=None)
