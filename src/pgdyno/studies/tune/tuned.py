"""What a tune found out: its noise floor, its search, what part of it was proved and what the proof says of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.study import Comparison
from pgdyno.model.verdict import Word
from pgdyno.stats.noninferiority import Removal
from pgdyno.studies.pairs.blocks import WINNER
from pgdyno.studies.pairs.drowned import contradicts
from pgdyno.studies.tune.frugal import FrugalWinner
from pgdyno.studies.tune.noise_runs import NoiseRuns
from pgdyno.studies.tune.proof import WITHOUT, WITHOUT_REST, Proof
from pgdyno.studies.tune.search import Search


@dataclass
class Tuned:
    """Everything that a tune found out. `proof` is None where there was no time for one, or nothing to prove."""

    noise: NoiseRuns
    search: Search
    found: Configuration = BASELINE
    """The best configuration of the search, whole."""
    winner: Configuration = BASELINE
    """The part of it that was proved."""
    proof: Proof | None = None
    dropped: Configuration = BASELINE
    dropped_because: Mapping[str, str] = field(default_factory=dict)
    lowered: Sequence[str] = ()
    notes: list[str] = field(default_factory=list)
    drowned: str = ""
    """Why server CPU per transaction decided instead of throughput; empty where the metric asked for did."""

    def take(self, proof: Proof, part: FrugalWinner) -> None:
        """Make this proof the answer."""
        self.proof, self.winner, self.lowered = proof, proof.blocks.arms[proof.answer], part.lowered
        self.dropped = self.found.without(*self.winner)
        measured = _measured(proof.gone)
        if proof.answer == WITHOUT_REST and proof.rest_effect is not None:
            together = proof.rest_effect.sentence("the winner", f"the winner without {', '.join(proof.rest)}")
            measured = dict.fromkeys(proof.rest, f"together they were not shown to do anything: {together}")
        self.dropped_because = {**part.dropped_because, **measured}

    def take_smaller(self, proof: Proof) -> None:
        """Make the proof of a part of the answer the answer: it says what of it went, and why."""
        self.proof, self.winner = proof, proof.blocks.arms[proof.answer]
        self.dropped = self.found.without(*self.winner)
        self.dropped_because = {**self.dropped_because, **_measured(proof.gone)}

    @property
    def is_offered(self) -> bool:
        """Return whether the winner is proved better and explained, and throughput not worse where it decides not."""
        if self.proof is None or self.proof.headline.verdict.word is not Word.BETTER or self.unexplained:
            return False
        return not (self.drowned and contradicts(self.proof.headline))

    @property
    def unexplained(self) -> list[str]:
        """Return the settings of the winner that could have been left out of what was proved and were not."""
        if self.proof is None:
            return []
        is_told = self.proof.rest_effect is not None or WITHOUT_REST in self.proof.blocks.unmeasured
        rest = self.proof.rest if is_told else ()
        return [
            name
            for name in self.winner
            if name not in self.proof.effects
            and name not in rest
            and WITHOUT + name not in self.proof.blocks.unmeasured
            and self.search.accepts(self.proof.blocks.arms[WINNER].without(name))
        ]

    @property
    def headline(self) -> Comparison | None:
        """Return the comparison that the verdict is taken from."""
        return self.proof.headline if self.proof else None


def _measured(gone: Mapping[str, Removal]) -> dict[str, str]:
    """Return why each setting went; those that went together, by one removal, have one reason."""
    together = {name: [other for other in gone if gone[other] is removal] for name, removal in gone.items()}
    return {name: removal.sentence(", ".join(together[name])) for name, removal in gone.items()}
