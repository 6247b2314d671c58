"""Who is told how a trial goes: the progress display."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pgdyno.model.guard import Indicator
from pgdyno.model.trial import Trial, TrialSpec
from pgdyno.probes.sampler import Sampler
from pgdyno.trial.pace import Outlook
from pgdyno.workloads.protocol import LoadReading


class Watcher(Protocol):
    """Hears each step of a trial. What it hears is for people; a study never depends on it."""

    def outlook(self, outlook: Outlook) -> None:
        """Hear before a trial, and after it, which one of how many it is, and the best so far."""

    def trial_began(self, spec: TrialSpec, number: int, run_id: int) -> None:
        """Hear that a trial begins; `number` counts the study's trials from 1, `run_id` is its name in the store."""

    def phase(self, text: str) -> None:
        """Hear what the trial does now."""

    def reading(self, elapsed_s: float, duration_s: float, load: LoadReading | None, sampler: Sampler) -> None:
        """Hear about once a second how the load goes; raise GuardTripped to end it."""

    def guards(self, indicators: Sequence[Indicator]) -> None:
        """Hear, before each `reading`, how the guards stand."""

    def notice(self, text: str) -> None:
        """Hear what must stay to be read: guards that are off, one that tripped, the baseline in force again."""

    def trial_ended(self, trial: Trial) -> None:
        """Hear the outcome."""
