"""What restarts cost: as earlier studies measured it on this server, else an estimate; then what this one measured."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.facts import Unknown
from pgdyno.model.results.live import LiveResult
from pgdyno.model.results.parts import OutageFigures, OutageRecord
from pgdyno.model.study import Study
from pgdyno.model.trial import OUTAGE, Trial
from pgdyno.server.outage import Outage, measured, read_outage
from pgdyno.store.catalogue import Store
from pgdyno.targets.target import Target

LATEST = 20
"""As many restarts count. Older ones were of another size of data, or of another disk."""


def expected_outage(target: Target, store: Store) -> Outage:
    """Return how long a restart of this server will take: measured by earlier studies in the store, else estimated.

    Read-only on the server; it is asked only where nothing was measured.
    """
    seconds: list[float] = []
    for study in store.studies(target=target.name):
        if len(seconds) >= LATEST:
            break
        seconds += reversed(_told(study) or _seconds(store.trials(study.id)))
    return measured(seconds[:LATEST]) if seconds else read_outage(target.postgres)


def outage_record(expected: Outage | None, trials: Sequence[Trial]) -> OutageRecord:
    """Return what was expected beside what this study's restarts took."""
    seconds = _seconds(trials)
    return OutageRecord(
        expected=None if expected is None else _figures(expected),
        measured=_figures(measured(seconds)) if seconds else None,
        restarts=len(seconds),
    )


def _figures(outage: Outage) -> OutageFigures:
    known = None if isinstance(outage.seconds, Unknown) else outage.seconds
    return OutageFigures(seconds=known, kind=outage.kind, basis=outage.basis, text=str(outage))


def outage_sentence(expected: Outage | None, trials: Sequence[Trial]) -> str | None:
    """Return the same as a line for people, None where no restart was made."""
    seconds = _seconds(trials)
    if not seconds:
        return None
    before = "" if expected is None else f"; expected was {expected}"
    return f"restarts before trials: {measured(seconds)}{before}"


def _told(study: Study) -> Sequence[float]:
    """Return how long each restart of a live study took, which has no trials."""
    told = study.told(LiveResult)
    return () if told is None or told.switch is None else told.switch.outages


def _seconds(trials: Sequence[Trial]) -> list[float]:
    """Return how long each restart before a trial took, in their order."""
    return [trial.outcome.counters[OUTAGE] for trial in trials if trial.outcome and OUTAGE in trial.outcome.counters]
