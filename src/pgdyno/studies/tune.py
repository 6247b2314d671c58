"""The tune: baseline and noise floor, search, pruning, proof; or "keep your configuration".

    noise     baseline runs alone: how small an effect can be seen here?
    search    single-shot trials asked by the optimiser, baselines interleaved
    prune     the winner against reduced versions of itself and the baseline, in interleaved blocks
    proof     fresh randomised blocks: baseline, pruned winner, leave-one-out arms, rivals

The whole is a pure function of options, seed and the trials' outcomes: a resumed tune runs it again from the top,
and the laboratory gives back the trials that the store has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.knobs.budget import TrialBudget
from pgdyno.knobs.catalogue import load_catalogue
from pgdyno.knobs.space import SearchSpace, build_space, starting_points
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.study import Comparison
from pgdyno.model.trial import LoadPlan, Role, WorkloadSpec
from pgdyno.model.verdict import Metric, Word
from pgdyno.stats.noninferiority import Removal, costs_nothing
from pgdyno.stats.sequential import is_final
from pgdyno.studies.blocks import Blocks, run_blocks
from pgdyno.studies.judging import compare_arms, verdict_of
from pgdyno.studies.noise_runs import NoiseRuns, measure_noise
from pgdyno.studies.options import TuneOptions
from pgdyno.studies.proof import BASE, Proof, prove
from pgdyno.studies.pruning import count_responsible, prune
from pgdyno.studies.search import Search
from pgdyno.trial.laboratory import Laboratory

PRUNE_BLOCKS, PROOF_BLOCKS = 10_000, 20_000
"""Block numbers begin here for pruning and proof, so that each phase draws its own orders."""
FULL, REDUCED = "full", "reduced"


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

    @property
    def headline(self) -> Comparison | None:
        """Return the comparison that the verdict is taken from: the proof, or the screening that ended the tune."""
        return self.proof.headline if self.proof else self.screening


def tune(laboratory: Laboratory, options: TuneOptions, announce: Callable[[str], None]) -> Tuned:
    """Run the whole tune. `announce` hears of each phase. Leaves the server in some trial's configuration."""
    study = laboratory.study
    plan = study.plan
    space = search_space(laboratory.facts, study.workload, plan, options)
    starts = tuple(
        starting_points(
            space,
            laboratory.facts,
            connections=plan.clients,
            read_only=study.workload.read_only,
        )
    )
    if options.never_restarts and not options.reload_only:
        announce(
            f"restart budget {options.restart_budget}: a proof alone takes about {options.proof_restarts}, so knobs "
            "that need a restart are not searched"
        )
    search = Search(laboratory, space, starts, options)
    announce(f"noise floor: {options.noise_runs} runs of the baseline")
    noise = measure_noise(search, options, announce)
    search.noise_sd = noise.floor.pair_sd / math.sqrt(2)
    announce(
        f"search: up to {options.trials} trials over {len(space.dimensions)} knobs; noise {100 * noise.floor.cv:.1f} %"
    )
    search.run()
    announce(f"search ended: {search.stopped}")
    unpruned = search.winner()
    tuned = Tuned(noise, search, unpruned, unpruned, BASELINE, None, None)
    if not unpruned:
        tuned.notes.append(_nothing_measured(search))
        return tuned
    pruner = _Pruner(laboratory, options, announce)
    tuned.screening = pruner.screen(unpruned)
    if tuned.screening.verdict.word is not Word.BETTER:
        tuned.notes.append("the search's best configuration did not beat the baseline in fresh pairs")
        if tuned.screening.verdict.word is Word.NOT_RESOLVED and pruner.is_time_spent():
            tuned.notes.append("the time for these pairs was spent: a longer --budget resolves smaller effects")
        return tuned
    losses = search.expected_losses(unpruned)
    tuned.winner = prune(unpruned, list(losses), pruner.is_free, first_kept=count_responsible(losses))
    tuned.dropped = unpruned.without(*tuned.winner)
    tuned.dropped_because = pruner.reasons
    if unasked := [name for name in reversed(losses) if name in pruner.unasked]:
        tuned.notes.append(f"no time was left to ask whether these settings can go: {', '.join(unasked)}")
    announce(f"proof: {len(tuned.winner)} of {len(unpruned)} settings stay; fresh pairs against the baseline")
    most_important = [name for name in reversed(losses) if name in tuned.winner]
    alone = most_important[: _affordable_effects(laboratory, tuned, options)]
    if left := [name for name in most_important if name not in alone]:
        tuned.notes.append(f"no time was left to measure what each of these settings does alone: {', '.join(left)}")
    tuned.proof = prove(laboratory, tuned.winner, unpruned, options, first_block=PROOF_BLOCKS, alone=alone)
    if tuned.proof.is_pruning_taken_back:
        announce(f"proof: the {len(tuned.winner)} that stayed are worse than all {len(unpruned)}: all of them stay")
        tuned.taken_back, tuned.winner, tuned.dropped, tuned.dropped_because = tuned.winner, unpruned, BASELINE, {}
        tuned.notes = [
            "pruning was taken back, and its settings were measured together, not alone: more --prune-pairs tell "
            "better which of them can go"
        ]
    return tuned


def _nothing_measured(search: Search) -> str:
    if search.trials:
        return f"none of the {len(search.trials)} configurations that were tried could be measured"
    return f"no configuration was tried: {search.stopped}; a longer --budget leaves room for the search"


def _affordable_effects(laboratory: Laboratory, tuned: Tuned, options: TuneOptions) -> int:
    """Return how many settings the time lets the proof leave out one by one, in its fewest blocks; at least one."""
    if options.budget_s is None:
        return len(tuned.winner)
    room_s = options.PROOF_SHARE * options.budget_s - laboratory.spent_s
    arms = room_s / (options.confirm_min * tuned.search.trial_s())
    others = 2 + len(options.rivals) + (tuned.unpruned != tuned.winner)
    return max(1, int(arms) - others)


def search_space(facts: Facts, workload: WorkloadSpec, plan: LoadPlan, options: TuneOptions) -> SearchSpace:
    """Return the knobs to search and their ranges on this target under this load, with the reasons of the others.

    Raises UsageError for a knob of `include`, `exclude` or `only` that does not exist, PolicyError for one that may
    not be touched, EnvironmentUnsuitable when nothing is left to search.
    """
    space = build_space(
        load_catalogue(),
        facts,
        include=options.include or None,
        exclude=options.exclude,
        only=options.only or None,
        reload_only=options.never_restarts,
        linux=options.linux,
        budget=TrialBudget(
            warmup_s=plan.warmup_s,
            measure_s=plan.measure_s,
            read_only=workload.read_only,
            restores=plan.reset != "never" and not workload.read_only,
            connections=plan.clients,
        ),
    )
    if not space.dimensions:
        asked = [out for out in space.excluded if not options.only or out.name in options.only]
        raise EnvironmentUnsuitable(
            "there is no knob to search",
            detail="; ".join(f"{out.name}: {out.reason}" for out in asked),
            hint="Lengthen --measure, allow restarts, or name knobs with --include.",
        )
    return space


@dataclass
class _Pruner:
    """Answers pruning's question by measurement, each time in fresh interleaved blocks."""

    laboratory: Laboratory
    options: TuneOptions
    announce: Callable[[str], None]
    next_block: int = PRUNE_BLOCKS
    reasons: dict[str, str] = field(default_factory=dict)
    """Why each setting that was dropped could go."""
    unasked: set[str] = field(default_factory=set)
    """Settings that stay because there was no time to ask."""

    def screen(self, winner: Configuration) -> Comparison:
        """Compare the search's winner with the baseline before anything is spent on pruning it."""
        self.announce(f"screening: the search's best ({len(winner)} settings) against the baseline, fresh pairs")
        design = self.options.design()

        def is_enough(blocks: Blocks) -> bool:
            verdict = verdict_of(blocks, BASE, FULL, self.options.metric, design)
            if verdict is None or verdict.pairs < design.min_pairs:
                return False
            return is_final(verdict, design) or self.is_time_spent()

        arms = {BASE: BASELINE, FULL: winner}
        blocks = self._run(arms, {BASE: Role.BASELINE, FULL: Role.CONFIRM}, self.options.confirm_max, is_enough)
        return compare_arms(blocks, BASE, FULL, self.options.metric, design)

    def is_time_spent(self) -> bool:
        """Return whether the time is over that screening and pruning may take; the rest is for the proof."""
        budget_s = self.options.budget_s
        return budget_s is not None and self.laboratory.spent_s > self.options.PRUNE_SHARE * budget_s

    def is_free(self, kept: Configuration, reduced: Configuration) -> bool:
        """Return True when going from `kept` to `reduced` costs nothing measurable, in the metric or in server CPU."""
        gone = tuple(kept.without(*reduced))
        if self.is_time_spent():
            if not self.unasked:
                self.announce(f"pruning: no time left to ask whether more of the {len(kept)} settings can go")
            self.unasked.update(gone)
            return False
        self.announce(f"pruning: does it cost anything to drop {', '.join(gone)}?")
        design = self.options.design(max_pairs=self.options.prune_pairs)
        metrics = dict.fromkeys((self.options.metric, Metric.SERVER_CPU))

        def answers(blocks: Blocks) -> list[Removal]:
            pairs = [(metric, *blocks.pairs(REDUCED, FULL, metric)) for metric in metrics]
            return [
                costs_nothing(r, f, design=design, metric=metric, may_suspect=metric is self.options.metric)
                for metric, r, f in pairs
                if len(r) > 1
            ]

        def is_enough(blocks: Blocks) -> bool:
            removals = answers(blocks)
            return bool(removals) and (all(r.final for r in removals) or any(r.shown for r in removals))

        arms, roles = {FULL: kept, REDUCED: reduced}, {FULL: Role.PRUNE, REDUCED: Role.PRUNE}
        removals = answers(self._run(arms, roles, self.options.prune_pairs, is_enough))
        costly = [removal for removal in removals if not removal.droppable]
        words = (costly or removals)[0].sentence(", ".join(gone))
        self.announce(f"pruning: {words}")
        if costly:
            return False
        self.reasons.update(dict.fromkeys(gone, words))
        return True

    def _run(
        self,
        arms: dict[str, Configuration],
        roles: dict[str, Role],
        max_blocks: int,
        is_enough: Callable[[Blocks], bool],
    ) -> Blocks:
        blocks = run_blocks(
            self.laboratory,
            arms,
            roles,
            seed=self.options.seed,
            first_block=self.next_block,
            max_blocks=max_blocks,
            is_enough=is_enough,
        )
        self.next_block += len(blocks.complete) + blocks.lost
        return blocks
