"""What the store holds of a study, as far as its report needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.model.bottleneck import BottleneckVerdict
from pgdyno.model.change import ChangeRecord
from pgdyno.model.record import Record
from pgdyno.model.run_evidence import RunEvidence
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial
from pgdyno.report.traces import RunTrace
from pgdyno.units import plural


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """A study with its trials. `traces` are the runs of the flight recorder; `records` are by run.

    `evidence` is what the samples of the recorder's runs say, by run. `store` is where the study lies, a path or a URL
    without a password; `changes` are those on record for its target.
    """

    study: Study
    trials: tuple[Trial, ...]
    traces: tuple[RunTrace, ...] = ()
    records: Mapping[int, tuple[Record, ...]] = field(default_factory=dict)
    evidence: Mapping[int, RunEvidence] = field(default_factory=dict)
    store: str = ""
    changes: tuple[ChangeRecord, ...] = ()

    @property
    def load(self) -> str:
        """Return what ran, with how many clients, and on which target."""
        study = self.study
        clients = plural(study.plan.clients, "client")
        return f"{study.workload.description or study.workload.name}, {clients}, on {study.target}"

    @property
    def judged(self) -> list[tuple[str, int, RunEvidence]]:
        """Return what is known beside the score of each run of the recorder: its name there, its number, the rest."""
        return [(one.name, one.run, self.evidence[one.run]) for one in self.traces if one.run in self.evidence]

    @property
    def bottlenecks(self) -> list[tuple[str, int, BottleneckVerdict]]:
        """Return what held each of these runs back."""
        return [(name, run, one.bottleneck) for name, run, one in self.judged]
