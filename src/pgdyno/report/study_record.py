"""What the store holds of a study, as far as its report needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.model.change import ChangeRecord
from pgdyno.model.record import Record
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial
from pgdyno.report.traces import RunTrace
from pgdyno.trial.run_evidence import RunEvidence


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
