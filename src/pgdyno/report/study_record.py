"""What the store holds of a study, as far as its report needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.model.bottleneck import HeldBack
from pgdyno.model.change import ChangeRecord
from pgdyno.model.record import Record
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial
from pgdyno.report.traces import RunTrace


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """A study with its trials. `traces` are the runs of the flight recorder; `records` are by run.

    `held_back` are the bottleneck verdicts of the recorder's runs, by run.
    `store` is where it lies, a path or a URL without a password; `changes` are those on record for its target.
    """

    study: Study
    trials: tuple[Trial, ...]
    traces: tuple[RunTrace, ...] = ()
    records: Mapping[int, tuple[Record, ...]] = field(default_factory=dict)
    held_back: Mapping[int, HeldBack] = field(default_factory=dict)
    store: str = ""
    changes: tuple[ChangeRecord, ...] = ()
