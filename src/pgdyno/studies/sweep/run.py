"""Sweeps and factorials: all levels in every block, the number of blocks fixed beforehand, all statements joint."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pgdyno.errors import UsageError
from pgdyno.knobs.policy import check_settings
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.trial import Role
from pgdyno.model.verdict import STRICT_CONFIDENCE, STRICT_MIN_PAIRS, Metric, Verdict
from pgdyno.stats.plateau import Plateau, find_plateau
from pgdyno.stats.sequential import Design, is_final, judge
from pgdyno.studies.pairs.blocks import Blocks, Runs, run_blocks
from pgdyno.studies.pairs.judging import Unjudged, is_too_thin, left_out_note, thin_error, verdict_of, without_thin
from pgdyno.units import parse_quantity, plural, split_unit

FACTORIAL = ("neither", "a", "b", "both")
"""The arms of a factorial of two factors."""
_MEMORY_UNITS = (("GB", 1 << 20), ("MB", 1 << 10), ("kB", 1))
"""Units of memory, the largest first, in kB."""
JOINT_CONFIDENCE = 0.95
"""Confidence that all statements on one sweep hold together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRules:
    """What sweeps, and the pairs beside them, are asked for; `sweep_blocks` is how many blocks a sweep runs."""

    metric: Metric = Metric.THROUGHPUT
    smallest_effect: float = 0.02
    confidence: float = STRICT_CONFIDENCE
    min_pairs: int = STRICT_MIN_PAIRS
    max_pairs: int = 48
    seed: int = 1
    sweep_blocks: int = 6

    def design_of(self, max_pairs: int) -> Design:
        """Return the rule for the verdicts of so many pairs at most."""
        return Design(self.smallest_effect, self.confidence, self.min_pairs, max_pairs)


@dataclass(frozen=True)
class SweepFound:
    """A sweep of one knob: its levels as texts, their blocks, and what they say."""

    knob: str
    levels: tuple[str, ...]
    blocks: Blocks
    plateau: Plateau
    figures: Mapping[str, tuple[float, ...]]

    @property
    def chosen(self) -> str:
        """Return the level where the plateau begins: as good as any later one that was shown, and the first of them."""
        start, region = self.plateau.start, self.plateau.region
        return self.levels[start if start in region else region[0]]


def run_sweep(
    runs: Runs,
    knob: str,
    levels: Mapping[str, Configuration],
    rules: SweepRules,
    *,
    first_block: int,
    factors: Mapping[str, str] | None = None,
    announce: Callable[[str], None],
) -> SweepFound:
    """Run every level once in each block, and find optimum region and plateau.

    `runs` makes the runs, in blocks numbered from `first_block` on. `knob` names what is swept, for people; `levels`
    are configurations by the text of their value, the reference first. `rules` has metric, smallest effect, seed and
    number of blocks. `factors` are kept with each run (`TrialSpec`), None for none. `announce` takes a sentence after
    each block, and the answer. A level that cannot be measured leaves the sweep; the reference must not. Raises
    Unjudged when a level lacks its figure of the metric, or has too few transactions for it, and as `run_blocks` does.
    """

    def is_enough(blocks: Blocks) -> bool:
        announce(
            f"sweep of {knob}: block {len(blocks.complete)} of {rules.sweep_blocks}, "
            f"{plural(len(levels), 'level')} each"
        )
        return len(blocks.complete) >= rules.sweep_blocks

    blocks = run_blocks(
        runs,
        levels,
        dict.fromkeys(levels, Role.CELL),
        seed=rules.seed,
        first_block=first_block,
        max_blocks=rules.sweep_blocks,
        is_enough=is_enough,
        factors=factors,
        spare=tuple(levels)[1:],
    )
    names = tuple(blocks.arms)
    if len(names) < 2:
        raise Unjudged(f"no level of {knob} but the first could be measured", detail=unmeasured_text(blocks))
    if blocks.unmeasured:
        announce(f"sweep of {knob}: {unmeasured_text(blocks)}")
    kept = without_thin(blocks, names, rules.metric)
    if kept is None:
        raise thin_error(blocks, names, rules.metric)
    if note := left_out_note(blocks, names, rules.metric):
        announce(f"sweep of {knob}: {note}")
    figures = kept.figures(names, rules.metric)
    known, made = len(figures[names[0]]), len(kept.complete)
    if known < 2:
        raise _not_measured(rules.metric, f"at every level of {made - known} of {made} blocks")
    if known < made:
        announce(f"sweep of {knob}: {made - known} of {made} blocks left out: {rules.metric.label} is not in every run")
    plateau = find_plateau(
        [figures[name] for name in names],
        higher_is_better=rules.metric.higher_is_better,
        smallest_effect=rules.smallest_effect,
        confidence=JOINT_CONFIDENCE,
    )
    announce(f"sweep of {knob}: {plateau.sentence(names)}")
    return SweepFound(knob, names, blocks, plateau, figures)


def unmeasured_text(blocks: Blocks) -> str:
    """Name the levels that could not be measured, with the reason; empty where all were."""
    return "; ".join(f"{level} could not be measured: {why}" for level, why in blocks.unmeasured.items())


def _not_measured(metric: Metric, where: str) -> Unjudged:
    return Unjudged(f"{metric.label} was not measured {where}", hint="Lengthen --measure, or choose another --metric.")


@dataclass(frozen=True)
class FactorialFound:
    """Two factors, each with and without the other. `interaction`: both times neither, over a times b."""

    names: tuple[str, str]
    blocks: Blocks
    effects: Mapping[str, Verdict]
    """Of a, b and both, each against neither."""
    interaction: Verdict

    def sentence(self) -> str:
        """Return the answer; the word is read off the interval of the interaction ratio."""
        a, b = self.names
        found = self.interaction.interval
        figures = f"interaction ratio {found}, {self.interaction.pairs} interleaved blocks"
        within = math.log1p(self.interaction.smallest_effect)
        if found.lo > 0 and max(abs(math.log(found.lo)), abs(math.log(found.hi))) <= within:
            return f"{a} and {b} act independently within {100 * self.interaction.smallest_effect:g} %: {figures}"
        if found.lo <= 1 <= found.hi:
            return f"not resolved whether {a} and {b} interact: {figures}"
        helps = (found.lo > 1) is self.interaction.metric.higher_is_better
        return f"{a} and {b} {'strengthen' if helps else 'weaken'} each other: {figures}"


def run_factorial(
    runs: Runs,
    names: tuple[str, str],
    configurations: Mapping[str, Configuration],
    *,
    metric: Metric,
    design: Design,
    seed: int,
    announce: Callable[[str], None],
) -> FactorialFound:
    """Run the four arms in interleaved blocks until effects and interaction are resolved, or the blocks are spent.

    `runs` makes the runs. `names` are the two factors for people, such as "work_mem = 64MB"; `configurations` the arms
    by the names of `FACTORIAL`. Effects and interaction are judged in `metric` by `design`, whose `max_pairs` bounds
    the blocks; `seed` draws the order of the arms in each. `announce` takes the interaction ratio after each block that
    tells one.
    """

    def is_enough(blocks: Blocks) -> bool:
        kept = without_thin(blocks, FACTORIAL, metric)
        if kept is None or len(kept.figures(FACTORIAL, metric)[FACTORIAL[0]]) < 2:
            return is_too_thin(blocks, FACTORIAL, metric, design.min_pairs)
        found = interaction_of(blocks, metric, design)
        announce(f"block {found.pairs}: interaction ratio {found.interval}")
        others = [verdict_of(blocks, FACTORIAL[0], arm, metric, design) for arm in FACTORIAL[1:]]
        return is_final(found, design) and all(one is not None and is_final(one, design) for one in others)

    blocks = run_blocks(
        runs,
        configurations,
        dict.fromkeys(FACTORIAL, Role.CELL),
        seed=seed,
        first_block=1,
        max_blocks=design.max_pairs,
        is_enough=is_enough,
    )
    verdicts = {arm: verdict_of(blocks, FACTORIAL[0], arm, metric, design) for arm in FACTORIAL[1:]}
    effects = {arm: verdict for arm, verdict in verdicts.items() if verdict is not None}
    return FactorialFound(names, blocks, effects, interaction_of(blocks, metric, design))


def interaction_of(blocks: Blocks, metric: Metric, design: Design) -> Verdict:
    """Judge both x neither over a x b, block by block: 1 when the two effects multiply.

    Raises Unjudged when fewer than two blocks have all four figures.
    """
    kept = without_thin(blocks, FACTORIAL, metric)
    if kept is None:
        raise thin_error(blocks, FACTORIAL, metric)
    neither, one, other, both = kept.figures(FACTORIAL, metric).values()
    if len(neither) < 2:
        made = len(kept.complete)
        raise _not_measured(metric, f"in every run of {made - len(neither)} of {made} blocks")
    apart = [a * b for a, b in zip(one, other, strict=True)]
    together = [a * b for a, b in zip(neither, both, strict=True)]
    return judge(apart, together, metric=metric, design=design)


def level_numbers(facts: Facts, knob: str, values: Sequence[str]) -> tuple[list[float | None], str]:
    """Return levels as numbers with their unit: memory in the largest one that leaves none below 1.

    Words are None and have no unit, and so does memory of a special value such as -1.
    """
    row = facts.row(knob)
    if row is None or row.vartype not in ("integer", "real"):
        return [None for _ in values], ""
    numbers, unit = [parse_quantity(value, row.unit) for value in values], row.unit or ""
    if not unit.endswith("B"):
        return [*numbers], unit
    if min(numbers) < 0:
        return [None for _ in values], ""
    blocks, name = split_unit(unit)
    kilobytes = [number * blocks * parse_quantity(f"1{name}", "kB") for number in numbers]
    least = min((size for size in kilobytes if size), default=0.0)
    named, kb = next(((each, size) for each, size in _MEMORY_UNITS if size <= least), _MEMORY_UNITS[-1])
    return [size / kb for size in kilobytes], named


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
