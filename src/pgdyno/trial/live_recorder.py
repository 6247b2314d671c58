"""A watcher between the laboratory and the display: keeps on the live board what a dashboard shows of a trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgdyno.model.guard import Indicator
from pgdyno.model.trial import Trial, TrialSpec
from pgdyno.probes.latest import latest_point
from pgdyno.probes.sampler import Sampler
from pgdyno.trial.live_row import LiveRow
from pgdyno.trial.pace import Outlook
from pgdyno.trial.watcher import Watcher
from pgdyno.workloads.protocol import LoadReading


@dataclass(frozen=True, slots=True)
class LiveRecorder:
    """Tells `watcher` all it hears, and the study's row on the board what a dashboard shows."""

    watcher: Watcher
    row: LiveRow

    def outlook(self, outlook: Outlook) -> None:
        """Keep which trial of how many it is, and the best so far."""
        self.row.ends_at = None if outlook.left_s is None else self.row.clock() + outlook.left_s
        self.row.put(metric=outlook.metric.value, place=outlook.place, best=outlook.best)
        self.watcher.outlook(outlook)

    def trial_began(self, spec: TrialSpec, number: int, run_id: int) -> None:
        """Begin a trial's state."""
        self.row.phase("begin")
        self.row.put(run=run_id, number=number, role=spec.role.value, arm=spec.arm)
        self.watcher.trial_began(spec, number, run_id)

    def phase(self, text: str) -> None:
        """Keep what the trial does now."""
        self.row.phase(text)
        self.watcher.phase(text)

    def reading(self, elapsed_s: float, duration_s: float, load: LoadReading | None, sampler: Sampler) -> None:
        """Keep a point where a second has passed; may raise what the watcher raises.

        `elapsed_s` of `duration_s` are over; `load` is None while the generator has said nothing, and the `sampler` has
        the newest samples of the server.
        """
        self.row.progress(elapsed_s, duration_s)
        now = self.row.clock()
        if self.row.is_due(now):
            point = latest_point(sampler.latest(), now)
            if load is not None:
                point = replace(point, tps=load.tps, p99_ms=load.p99_ms)
            self.row.add(point)
        self.watcher.reading(elapsed_s, duration_s, load, sampler)

    def guards(self, indicators: Sequence[Indicator]) -> None:
        """Keep the indicators."""
        self.row.guards(indicators)
        self.watcher.guards(indicators)

    def notice(self, text: str) -> None:
        """Keep the line."""
        self.row.notice(text)
        self.watcher.notice(text)

    def trial_ended(self, trial: Trial) -> None:
        """Between two trials nothing of the ended one's progress is shown."""
        self.row.phase("between trials")
        self.watcher.trial_ended(trial)
