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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pgdyno.errors import EnvironmentUnsuitable, OutOfTime
from pgdyno.knobs.budget import TrialBudget
from pgdyno.knobs.catalogue import load_catalogue
from pgdyno.knobs.constraints import check
from pgdyno.knobs.space import SearchSpace, build_space, starting_points
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.study import Comparison
from pgdyno.model.trial import LoadPlan, Role, WorkloadSpec
from pgdyno.model.verdict import Metric, Word
from pgdyno.stats.noninferiority import Removal, costs_nothing
from pgdyno.stats.sequential import is_final
from pgdyno.studies.blocks import JUDGEABLE, Blocks, run_blocks
from pgdyno.studies.drowned import contradicts, drowned
from pgdyno.studies.judging import compare_arms, verdict_of
from pgdyno.studies.noise_runs import floor_of, measure_noise
from pgdyno.studies.options import TuneOptions
from pgdyno.studies.proof import BASE, prove
from pgdyno.studies.pruning import count_responsible, prune
from pgdyno.studies.restart_room import arms_with_restarts, has_restarts
from pgdyno.studies.search import Search
from pgdyno.studies.tuned import Tuned
from pgdyno.trial.laboratory import Laboratory
from pgdyno.trial.stopwatch import BudgetSpent
from pgdyno.units import seconds_text

PRUNE_BLOCKS, PROOF_BLOCKS = 10_000, 20_000
"""Block numbers begin here for pruning and proof, so that each phase draws its own orders."""
FULL, REDUCED = "full", "reduced"
SCREENING_TRIALS = 6
"""The fewest trials that screening takes: three pairs."""


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
    for sentence in reach_sentences(space, laboratory.facts):
        announce(sentence)
    search = Search(laboratory, space, starts, options)
    announce(f"noise floor: {options.noise_runs} runs of the baseline")
    try:
        noise = measure_noise(search, options, announce)
    except BudgetSpent as spent:
        raise too_short(options, "before the baseline had been measured often enough") from spent
    if why := drowned(noise.runs, options.metric):
        announce(f"noise floor: {why}")
        options = search.options = replace(options, metric=Metric.SERVER_CPU)
        noise = replace(noise, floor=floor_of(noise.runs, Metric.SERVER_CPU))
    search.noise_sd = noise.floor.pair_sd / math.sqrt(2)
    announce(
        f"search: up to {options.trials} trials over {len(space.dimensions)} knobs; noise {100 * noise.floor.cv:.1f} %"
    )
    tuned = Tuned(noise, search, BASELINE, BASELINE, BASELINE, None, None, drowned=why or "")
    try:
        _search_and_prove(laboratory, tuned, options, announce)
    except BudgetSpent:
        search.stopped = search.stopped or "the time was over"
        if tuned.proof is None:
            tuned.screening = None
        tuned.notes.append("the time was over in mid-work; what was measured until then is kept: a longer --budget")
    if why:
        tuned.notes.insert(0, why)
    if tuned.drowned and tuned.proof is not None and contradicts(tuned.proof.headline):
        tuned.notes.append("throughput was worse with the winner, so that it is not offered")
    if search.left_out:
        want = "restarts" if laboratory.stopwatch is None else "time"
        tuned.notes.append(f"left out for want of {want}: {'; '.join(search.left_out)}")
    return tuned


def too_short(options: TuneOptions, when: str) -> OutOfTime:
    """Return the error for a budget that was over before anything could be told; the server is put back by then."""
    return OutOfTime(
        f"the budget of {seconds_text(options.budget_s or 0)} was over {when}",
        detail="It is the time from Enter to the prompt: start, data load, trials, the way back, the report.",
        hint="Give a longer --budget, or shorter --warmup and --measure. Data that were loaded whole are kept.",
    )


def _search_and_prove(
    laboratory: Laboratory, tuned: Tuned, options: TuneOptions, announce: Callable[[str], None]
) -> None:
    search, watch = tuned.search, laboratory.stopwatch
    search.run()
    announce(f"search ended: {search.stopped}")
    tuned.winner = tuned.unpruned = unpruned = search.winner()
    if not unpruned:
        tuned.notes.append(_nothing_measured(search))
        return
    losses = search.expected_losses(unpruned)
    if watch is None or watch.has_room(SCREENING_TRIALS + options.proof_trials):
        if not _screen_and_prune(laboratory, tuned, losses, options, announce):
            return
    else:
        search.left_out.append("screening and pruning: the proof is of all settings that the search found")
    if watch is not None and not watch.has_room(options.proof_trials):
        _give_up_proof(tuned)
        return
    announce(f"proof: {len(tuned.winner)} of {len(unpruned)} settings stay; fresh pairs against the baseline")
    most_important = [
        name
        for name in reversed(losses)
        if name in tuned.winner and is_possible(laboratory, tuned.winner.without(name))
    ]
    alone, rivals, with_unpruned = _affordable(laboratory, tuned, most_important, options)
    if left := [name for name in most_important if name not in alone]:
        short = "restart" if watch is None else "time"
        tuned.notes.append(f"no {short} was left to measure what each of these settings does alone: {', '.join(left)}")
    tuned.proof = prove(
        laboratory,
        tuned.winner,
        unpruned,
        options,
        first_block=PROOF_BLOCKS,
        alone=alone,
        rivals=rivals,
        with_unpruned=with_unpruned,
    )
    if tuned.proof is None:
        _give_up_proof(tuned)
    elif tuned.proof.is_pruning_taken_back:
        announce(f"proof: the {len(tuned.winner)} that stayed are worse than all {len(unpruned)}: all of them stay")
        tuned.taken_back, tuned.winner, tuned.dropped, tuned.dropped_because = tuned.winner, unpruned, BASELINE, {}
        tuned.notes = [
            "pruning was taken back, and its settings were measured together, not alone: more --prune-pairs tell "
            "better which of them can go"
        ]


def _screen_and_prune(
    laboratory: Laboratory,
    tuned: Tuned,
    losses: dict[str, float],
    options: TuneOptions,
    announce: Callable[[str], None],
) -> bool:
    """Return whether the search's winner is worth a proof; it is pruned then."""
    pruner = _Pruner(laboratory, options, announce)
    unpruned = tuned.unpruned
    tuned.screening = pruner.screen(unpruned)
    if tuned.screening is None:
        _give_up_proof(tuned)
        return False
    if tuned.screening.verdict.word is not Word.BETTER:
        tuned.notes.append("the search's best configuration did not beat the baseline in fresh pairs")
        if tuned.screening.verdict.word is Word.NOT_RESOLVED and pruner.is_time_spent():
            tuned.notes.append("the time for these pairs was spent: a longer --budget resolves smaller effects")
        return False
    tuned.winner = prune(unpruned, list(losses), pruner.is_free, first_kept=count_responsible(losses))
    tuned.dropped = unpruned.without(*tuned.winner)
    tuned.dropped_because = pruner.reasons
    if unasked := [name for name in reversed(losses) if name in pruner.unasked]:
        short = "restart" if laboratory.stopwatch is None else "time"
        tuned.notes.append(f"no {short} was left to ask whether these settings can go: {', '.join(unasked)}")
    return True


def _give_up_proof(tuned: Tuned) -> None:
    """Claim nothing: what the screening said of fresh pairs is a note, no verdict of the study."""
    if tuned.screening is not None:
        word, pairs = tuned.screening.verdict.word.value, tuned.screening.verdict.pairs
        tuned.notes.append(f"screening called the search's best configuration {word} after {pairs} pairs")
    tuned.screening, tuned.proof = None, None
    tuned.notes.append("no time was left for the proof, so nothing is claimed: a longer --budget leaves room for it")


def _nothing_measured(search: Search) -> str:
    if search.trials:
        return f"none of the {len(search.trials)} configurations that were tried could be measured"
    return f"no configuration was tried: {search.stopped}; a longer --budget leaves room for the search"


def _affordable(
    laboratory: Laboratory, tuned: Tuned, most_important: Sequence[str], options: TuneOptions
) -> tuple[list[str], list[str], bool]:
    """Return what the fewest blocks of the proof have time and restarts for beside baseline and winner.

    The settings to leave out one by one, the rivals, and whether the unpruned winner runs too; that one comes first,
    then the rivals, then the settings.
    """
    rivals, is_pruned = list(options.rivals), tuned.unpruned != tuned.winner
    watch = laboratory.stopwatch
    beside = (BASELINE, tuned.unpruned, *options.rival_configurations().values())
    bounds = [] if (arms := arms_with_restarts(laboratory, options, beside)) is None else [arms]
    if watch is not None and watch.trials:
        bounds.append(int((watch.end_s - watch.position_s) / (options.confirm_min * max(watch.trial_s, 1e-9))))
    if not bounds:
        return list(most_important), rivals, is_pruned
    spare = min(bounds) - 2
    with_unpruned = is_pruned and spare > 0
    spare -= with_unpruned
    some = rivals[: max(0, spare)]
    spare -= len(some)
    if is_pruned and not with_unpruned:
        tuned.search.left_out.append("whether pruning cost anything")
    if left := rivals[len(some) :]:
        tuned.search.left_out.append(f"rivals {', '.join(left)}")
    is_single = len(tuned.winner) == 1
    return list(most_important[: max(is_single, spare)]), some, with_unpruned


def is_possible(laboratory: Laboratory, configuration: Configuration) -> bool:
    """Tell whether the constraints accept this configuration: what is left of a winner may need what was taken."""
    return check(configuration, laboratory.facts, connections=laboratory.study.plan.clients) is None


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


def reach_sentences(space: SearchSpace, facts: Facts) -> list[str]:
    """Return, for the plan, which knobs ALTER SYSTEM sets here, and which could not come into force and why."""
    moved = [name for name in space.names() if name in facts.by_alter_system]
    said = [f"{', '.join(moved)} by ALTER SYSTEM, because postgresql.auto.conf sets them"] if moved else []
    out = [f"{out.name} {out.reason}" for out in space.excluded if out.name in facts.obstacles]
    return [*said, *(f"left out: {words}" for words in out)]


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

    def screen(self, winner: Configuration) -> Comparison | None:
        """Compare the search's winner with the baseline before anything is spent on pruning it.

        Returns None where the time was over before there were pairs to judge.
        """
        self.announce(f"screening: the search's best ({len(winner)} settings) against the baseline, fresh pairs")
        design = self.options.design()

        def is_enough(blocks: Blocks) -> bool:
            verdict = verdict_of(blocks, BASE, FULL, self.options.metric, design)
            if verdict is None or verdict.pairs < design.min_pairs:
                return False
            return is_final(verdict, design) or self.is_time_spent() or not self._has_restarts(arms)

        arms = {BASE: BASELINE, FULL: winner}
        blocks = self._run(arms, {BASE: Role.BASELINE, FULL: Role.CONFIRM}, self.options.confirm_max, is_enough)
        if blocks.stopped_short and len(blocks.complete) < JUDGEABLE:
            return None
        return compare_arms(blocks, BASE, FULL, self.options.metric, design)

    def is_time_spent(self) -> bool:
        """Return whether the time is over that screening and pruning may take; the rest is for the proof."""
        return not self._has_room(2)

    def _has_restarts(self, arms: Mapping[str, Configuration]) -> bool:
        """Return whether one block more leaves the restarts that the fewest pairs of the proof need."""
        options = self.options
        return has_restarts(self.laboratory, options, tuple(arms.values()), keep=options.proof_trials)

    def _has_room(self, trials: int) -> bool:
        watch = self.laboratory.stopwatch
        if watch is None:
            return True
        until = watch.share_s(self.options.PRUNE_SHARE)
        return watch.has_room(trials, until_s=until) and watch.has_room(trials + self.options.proof_trials)

    def is_free(self, kept: Configuration, reduced: Configuration) -> bool:
        """Return True when going from `kept` to `reduced` costs nothing measurable, in the metric or in server CPU."""
        gone = tuple(kept.without(*reduced))
        arms, roles = {FULL: kept, REDUCED: reduced}, {FULL: Role.PRUNE, REDUCED: Role.PRUNE}
        if not is_possible(self.laboratory, reduced):
            self.announce(f"pruning: {', '.join(gone)} cannot go, the rest would be refused without")
            return False
        if self.is_time_spent() or not self._has_restarts(arms):
            if not self.unasked:
                what = "time" if self.is_time_spent() else "restart"
                self.announce(f"pruning: no {what} left to ask whether more of the {len(kept)} settings can go")
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

        removals = answers(self._run(arms, roles, self.options.prune_pairs, is_enough))
        if not removals:
            self.unasked.update(gone)
            return False
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
            has_room=lambda trials: self._has_room(trials) and self._has_restarts(arms),
        )
        self.next_block += len(blocks.complete) + blocks.lost
        return blocks
