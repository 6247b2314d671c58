"""What a sweep or a factorial is asked for, as the store keeps it."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.errors import UsageError
from pgdyno.knobs.policy import check_settings
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Facts
from pgdyno.stats.sequential import Design
from pgdyno.studies.sweep.run import FACTORIAL, SweepRules
from pgdyno.units import plural


@dataclass(frozen=True, slots=True)
class SweepOptions(SweepRules):
    """A sweep of `knob` over `values`, or where `factors` holds two knobs with values, their factorial."""

    knob: str = ""
    values: tuple[str, ...] = ()
    factors: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Return the study's name."""
        if self.factors:
            return f"factorial of {' and '.join(knob for knob, _ in self.factors)}"
        return f"sweep of {self.knob}"

    @property
    def words(self) -> str:
        """Return what will be done, for the owner of the server."""
        if self.factors:
            return f"four configurations in up to {plural(self.max_pairs, 'block')}"
        return f"{plural(len(self.values), 'level')} of {self.knob} in {plural(self.sweep_blocks, 'block')}"

    @property
    def knobs(self) -> tuple[str, ...]:
        """Return what may be set."""
        return tuple(knob for knob, _ in self.factors) or (self.knob,)

    def design(self) -> Design:
        """Return the rule for the verdicts of a factorial."""
        return self.design_of(self.max_pairs)

    def configurations(self, facts: Facts) -> dict[str, Configuration]:
        """Return the arms. Raises what `check_settings` does, and UsageError for one knob as both factors."""
        if not self.factors:
            return {value: check_settings({self.knob: value}, facts) for value in self.values}
        a, b = (check_settings(dict([factor]), facts) for factor in self.factors)
        if set(a) == set(b):
            raise UsageError(f"both factors are {next(iter(a))}", hint="Two values of one knob are a --sweep.")
        return dict(zip(FACTORIAL, (BASELINE, a, b, check_settings({**a, **b}, facts)), strict=True))
