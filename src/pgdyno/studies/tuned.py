"""What a tune found out: its noise floor, its search, what pruning left and what the proof says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.study import Comparison
from pgdyno.model.verdict import Word
from pgdyno.studies.drowned import contradicts
from pgdyno.studies.noise_runs import NoiseRuns
from pgdyno.studies.proof import Proof
from pgdyno.studies.search import Search


@dataclass
class Tuned:
    """Everything that a tune found out. `proof` is None when the search's winner did not beat the baseline."""

    noise: NoiseRuns
    search: Search
    unpruned: Configuration
    winner: Configuration
    dropped: Configuration
    screening: Comparison | None
    proof: Proof | None
    dropped_because: Mapping[str, str] = field(default_factory=dict)
    taken_back: Configuration = BASELINE
    """What pruning had left, where the proof took it back; else the empty configuration."""
    notes: list[str] = field(default_factory=list)
    drowned: str = ""
    """Why server CPU per transaction decided instead of throughput; empty where the metric asked for did."""

    @property
    def is_offered(self) -> bool:
        """Return whether the winner is proved better, and throughput not worse where it does not decide."""
        if self.proof is None or self.proof.headline.verdict.word is not Word.BETTER:
            return False
        return not (self.drowned and contradicts(self.proof.headline))

    @property
    def headline(self) -> Comparison | None:
        """Return the comparison that the verdict is taken from: the proof, or the screening that ended the tune."""
        return self.proof.headline if self.proof else self.screening
