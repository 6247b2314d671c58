"""The tune: baseline and noise floor, search, proof; or "keep your configuration".

    noise     baseline runs alone: how small an effect can be seen here?
    search    single-shot trials asked by the optimiser, baselines interleaved
    proof     fresh randomised blocks: baseline, the frugal part of what was found, that part without each of its
              settings, all that was found, rivals. Where the part is worse than the whole, or only the whole is
              shown to be better, the model that chose it learns from these blocks and chooses another one for the
              next; all of it goes into the last. What is not shown to matter goes, of what was left out together half
              by half. Where nothing stood out in the search, it goes on if its one proof shows a gain, and else ends.

The whole is a pure function of options, seed and the trials' outcomes: a resumed tune runs it again from the top,
and the laboratory gives back the trials that the store has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from pgdyno.errors import OutOfTime
from pgdyno.knobs.space import starting_points
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Unknown
from pgdyno.model.trial import TUNE_PROOF_BLOCKS, Role, Trial
from pgdyno.model.verdict import Metric, Word
from pgdyno.optimizer.frugal import LEAST_PARTS
from pgdyno.server.outage import Outage
from pgdyno.studies.pairs.blocks import WINNER, ArmUnmeasured
from pgdyno.studies.pairs.drowned import contradicts, drowned
from pgdyno.studies.pairs.judging import Unjudged
from pgdyno.studies.tune.frugal import FrugalWinner, frugal, lacking
from pgdyno.studies.tune.halves import split_group
from pgdyno.studies.tune.missing import LOOK_TRIALS, SEEN_TRIALS, loss_at_a_look, loss_in_proof, seek_seen
from pgdyno.studies.tune.noise_runs import floor_of, measure_noise
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.proof import GivenUp, Proof, needed_settings, prove, shows_a_gain
from pgdyno.studies.tune.proof_notes import (
    UNENDED,
    baseline_fails_text,
    fails_text,
    lack_text,
    no_proof_text,
    note_proof,
    nothing_measured_text,
    other_proofs,
    which_settings,
)
from pgdyno.studies.tune.restart_room import arms_with_restarts
from pgdyno.studies.tune.search import Search
from pgdyno.studies.tune.smaller import leave_out_unshown
from pgdyno.studies.tune.space import reach_sentences, search_space
from pgdyno.studies.tune.tuned import Tuned
from pgdyno.trial.laboratory import Laboratory
from pgdyno.trial.stopwatch import BudgetSpent, Stopwatch
from pgdyno.units import plural, seconds_text

MOST_IN_TIME, MOST_SETTINGS = 3, 5
"""More are not left out one by one: each takes an arm in every block, and the fewer blocks fit into a bounded time."""
SMALLER_ARMS = 2
"""Baseline and what is left, where several settings prove to do nothing."""
REPAIR_ARMS = 4
"""Baseline, winner, and the winner without each of two settings: with fewer a second try helps little."""


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
    for sentence in reach_sentences(space, laboratory.facts, options):
        announce(sentence)
    search = Search(laboratory, space, starts, options)
    announce(f"noise floor: {plural(options.noise_runs, 'run')} of the baseline")
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
        f"search: up to {plural(options.trials, 'trial')} over {plural(len(space.dimensions), 'knob')}; "
        f"noise {100 * noise.floor.cv:.1f} %"
    )
    tuned = Tuned(noise, search, drowned=why or "")
    try:
        search_and_prove(laboratory, tuned, options, announce)
    except BudgetSpent:
        search.stopped = search.stopped or "time ran out"
        tuned.notes.append("time ran out in mid-work; what was measured until then is kept: a longer --budget")
    if why:
        tuned.notes.insert(0, why)
    if tuned.drowned and tuned.proof is not None and contradicts(tuned.proof.headline):
        tuned.notes.append("throughput was worse with the winner, so that it is not offered")
    if search.left_out:
        want = "restarts" if laboratory.stopwatch is None else "time"
        tuned.notes.append(f"left out for lack of {want}: {'; '.join(search.left_out)}")
    return tuned


def keep_restarts(watch: Stopwatch, outage: Outage, options: TuneOptions) -> None:
    """Keep time for the restarts of the way back, as long as one is expected to take; a tune without restarts has none.

    Raises OutOfTime, with how long that is, where no time is left for a trial.
    """
    if options.never_restarts or isinstance(outage.seconds, Unknown):
        return
    watch.expect_restart(outage.seconds)
    if watch.left_s() <= 0:
        raise too_short(
            options,
            "before the first trial",
            f"It keeps two restarts for the way back: {outage}.",
            "Give a longer --budget, or --restarts none, which leaves out the knobs that need one.",
        )


def too_short(options: TuneOptions, when: str, why: str = "", hint: str = "") -> OutOfTime:
    """Return the error for a budget that was over before anything could be told; the server is restored by then.

    `options` has the budget in seconds; `when` ends the sentence that says when it ran out. `why` and `hint` are the
    error's detail and hint, empty for general ones.
    """
    return OutOfTime(
        f"the budget of {seconds_text(options.budget_s or 0)} ran out {when}",
        detail=why or "It is the time from Enter to the prompt: start, data load, trials, restore and report.",
        hint=hint
        or "Give a longer --budget, or shorter --warmup and --measure; --keep-data keeps the data for the next try.",
    )


def search_and_prove(
    laboratory: Laboratory, tuned: Tuned, options: TuneOptions, announce: Callable[[str], None]
) -> None:
    """Run the search of a tune and prove what it found: all that comes after the noise floor is put into `tuned`.

    `laboratory` tells what time and restarts are left; `options` are those of the search. `announce` takes a sentence
    for each phase, and for what changes its course.
    """
    search = tuned.search
    search.run()
    announce(f"search ended: {search.stopped}")
    tuned.found = found = search.winner()
    if not found:
        tuned.notes.append(nothing_measured_text(search))
        return
    first_block, refused = TUNE_PROOF_BLOCKS, [BASELINE]
    needed: Sequence[str] = ()
    held: list[str] = []
    idle, aside, is_told, whole = frozenset[str](), frozenset[str](), False, False
    before = _timed(laboratory)
    if _can_look(laboratory, options):
        needed, poor = _look(search, found, options, first_block, announce)
        refused += poor
        first_block += 2
    proofs: list[Proof | GivenUp] = []
    asked, judged_by = options, options
    for turn in range(options.MOST_PROOFS):
        arms = _affordable(laboratory, found, options)
        if arms is not None and arms < 2:
            break
        most = _most_settings(arms, options, again=turn > 0)
        kept = [*needed, *(name for name in held if name not in needed and most >= LEAST_PARTS)]
        part = frugal(search, found, most=most, refused=refused, needed=kept, idle=idle | aside, whole=whole)
        if part.settings in refused:
            announce("proof: no other part of it is worth one")
            break
        which = f"{which_settings(len(part.settings), len(found))} that the search found"
        announce(f"proof: {which}; fresh pairs against the baseline")
        again, is_last = turn > 0, turn == options.MOST_PROOFS - 1
        try:
            proof = _prove(
                search,
                part,
                found,
                arms,
                options,
                first_block,
                again=again,
                is_last=is_last,
                is_needed=tuned.proof is None,
            )
        except ArmUnmeasured as error:
            if error.arm != WINNER:
                if tuned.proof is None:
                    raise
                first_block = error.trial.spec.block + 1
                tuned.notes.append(baseline_fails_text(error))
                announce(tuned.notes[-1])
                break
            is_told = True
            tuned.notes.append(fails_text(part.settings, error))
            announce(tuned.notes[-1])
            search.failed.append(error.trial)
            first_block = error.trial.spec.block + 1
            refused.append(part.settings)
            held += lacking(part.settings, found)  # one of them may be what keeps the whole from failing
            found = search.winner()
            if not found:
                break
            tuned.found = found if tuned.proof is None else tuned.found
            continue
        except Unjudged as error:
            is_told = True
            tuned.notes.append("; ".join(filter(None, (error.message, error.detail, error.hint))))
            break
        if proof is None:
            tuned.notes += [UNENDED] if tuned.proof else []
            break
        proofs.append(proof)
        first_block += len(proof.blocks.complete) + proof.blocks.lost + len(proof.blocks.unmeasured)
        if isinstance(proof, Proof):
            is_better = proof.headline.verdict.word is Word.BETTER
            is_told_more = not tuned.is_offered and proof.headline.verdict.interval.is_closed
            if tuned.proof is None or is_told_more or is_better:
                tuned.found, judged_by = found, options
                tuned.take(proof, part)
        if search.seems_flat and len(proofs) == 1 and not is_last:
            if not shows_a_gain(proof):
                break  # the search and fresh pairs agree
            announce("proof: fresh pairs show a gain: the space is not flat, and the search goes on")
            search.go_on()  # as if nobody had looked; the model knows these pairs where it chooses
            announce(f"search ended: {search.stopped}")
            options = asked.of_proof(isinstance(proof, Proof))
            search.fresh += [trial for trial in _trials(proof) if trial.spec.role is not Role.RIVAL]
            if not tuned.is_offered:
                refused.append(part.settings)
            known, found = found, search.winner()
            if not found or (found == known and tuned.is_offered):
                break
            continue
        if isinstance(proof, Proof):
            ends = tuned.is_offered or is_better or is_last or not _can_repair(laboratory, options)
            if not proof.lacks_something and ends:
                break
        announce(f"proof: {which} {lack_text(proof)}: the model learns from that")
        options = asked.of_proof(sum(isinstance(one, Proof) for one in proofs))
        search.fresh += [trial for trial in _trials(proof) if trial.spec.role is not Role.RIVAL]
        refused.append(part.settings)
        if isinstance(proof, Proof) and not proof.lacks_something:
            needed, idle, aside, whole = (), frozenset(), frozenset(), False
            found = search.winner()  # another draw
            if not found:
                announce("proof: the model expects nothing to be better now")
                break
            continue
        needed, aside = needed_settings(proof.blocks, options, search.noise_sd), frozenset()
        if part.rest or (turn + 2 == options.MOST_PROOFS and most >= LEAST_PARTS):
            whole, idle = True, frozenset()  # no single setting is missing: all of them explain the gain together
            continue
        if isinstance(proof, Proof) and not (proof.is_vetoed or proof.is_given_up):
            continue  # no loss is shown that halving could find, and none of its settings is known to do nothing
        idle |= frozenset(part.settings) - frozenset(needed)
        if is_last or not _can_repair(laboratory, options):
            needed = needed[:1]
        elif loss := loss_in_proof(proof, search):
            missing = seek_seen(search, loss, needed, block=first_block)
            first_block += 1
            if missing is not None:
                needed, aside = missing, frozenset(found) - frozenset(missing)
            elif most >= LEAST_PARTS:
                whole, idle = True, frozenset()
    others = [proof for proof in proofs if proof is not tuned.proof]
    first_block = leave_out_unshown(tuned, judged_by, first_block=first_block, announce=announce)
    split_group(tuned, judged_by, first_block=first_block, announce=announce)
    if tuned.proof is not None:
        note_proof(tuned, tuned.proof, options)
        tuned.notes += other_proofs(others, None if judged_by is asked else judged_by)
    elif not is_told:
        tuned.notes.append(no_proof_text(laboratory, options, has_begun=_timed(laboratory) > before))


def _trials(proof: Proof | GivenUp) -> list[Trial]:
    return sorted((trial for block in proof.blocks.complete for trial in block.values()), key=lambda trial: trial.id)


def _affordable(laboratory: Laboratory, found: Configuration, options: TuneOptions) -> int | None:
    """Return for how many arms there are time and restarts in the fewest blocks of a proof; None without a bound."""
    watch, beside = laboratory.stopwatch, (BASELINE, found, *options.rival_configurations().values())
    bounds = [] if (arms := arms_with_restarts(laboratory, options, beside)) is None else [arms]
    if watch is not None and watch.trials:
        bounds.append(int((watch.end_s - watch.position_s) / (options.confirm_min * max(watch.trial_s, 1e-9))))
        if not watch.has_room(options.proof_trials):
            bounds.append(0)
    return min(bounds, default=None)


def _can_repair(laboratory: Laboratory, options: TuneOptions) -> bool:
    """Tell whether there is room to find what a vetoed winner lacks, and to prove another one in the fewest blocks."""
    watch, arms = laboratory.stopwatch, arms_with_restarts(laboratory, options, (BASELINE,))
    has_restarts = arms is None or arms >= REPAIR_ARMS
    return has_restarts and (watch is None or watch.has_room(SEEN_TRIALS + REPAIR_ARMS * options.confirm_min))


def _can_look(laboratory: Laboratory, options: TuneOptions) -> bool:
    """Tell whether a part is to be looked at before its proof: time is bounded, and has room for look and proof."""
    watch, arms = laboratory.stopwatch, arms_with_restarts(laboratory, options, (BASELINE,))
    has_restarts = arms is None or arms >= REPAIR_ARMS + math.ceil(LOOK_TRIALS / options.confirm_min)
    return has_restarts and watch is not None and watch.has_room(LOOK_TRIALS + REPAIR_ARMS * options.confirm_min)


def _look(
    search: Search, found: Configuration, options: TuneOptions, block: int, announce: Callable[[str], None]
) -> tuple[tuple[str, ...], list[Configuration]]:
    """Look at the part that would be proved first; return what has most of the gain if it has not, and what is poor."""
    most = _most_settings(_affordable(search.laboratory, found, options), options)
    part = frugal(search, found, most=most, refused=[BASELINE]).settings
    which = f"{which_settings(len(part), len(found))} that the search found"
    try:
        loss = None if part == found else loss_at_a_look(search, part, found, block=block)
    except ArmUnmeasured as error:
        announce(f"a trial of {which} fails ({error.detail or error.trial.state}): another part is proved")
        search.failed.append(error.trial)
        return (), [part]
    if loss is None:
        return (), []
    announce(f"a trial of {which} has less than half of their gain: what they lack is sought")
    return seek_seen(search, loss, block=block + 1) or (), [part]


def _most_settings(arms: int | None, options: TuneOptions, *, again: bool = False) -> int:
    """Return how many parts can be left out: settings, or the rest of them together.

    They run beside baseline, winner, what was found and the rivals.

    One alone needs no arm of its own. Rivals give way to a second setting: what is offered matters more. So does what
    was found, where it has vetoed a part already.
    """
    if arms is None:
        return MOST_SETTINGS
    beside = arms - (2 if again else 3)
    few = max(1, min(MOST_IN_TIME, max(beside - len(options.rivals), min(beside, 2))))
    if beside - len(options.rivals) < few + SMALLER_ARMS:
        few = min(few, 2)  # of two, one is left out by an arm that ran; of more, the rest has to be proved anew
    return few


def _prove(
    search: Search,
    part: FrugalWinner,
    found: Configuration,
    arms: int | None,
    options: TuneOptions,
    first_block: int,
    *,
    again: bool,
    is_last: bool,
    is_needed: bool,
) -> Proof | GivenUp | None:
    """Measure a part of what was found; of the arms that there is room for, rivals are the last."""

    def has_another_try() -> bool:
        return not is_last and _can_repair(search.laboratory, options)

    winner, rest = part.settings, part.rest
    alone = [name for name in winner if len(winner) > 1 and name not in rest and search.accepts(winner.without(name))]
    alone = alone[: _most_settings(arms, options, again=again) - bool(rest)]
    parts = len(alone) + bool(rest)
    with_found = winner != found and (arms is None or arms > 2 + (parts if again else 0))
    spare = None if arms is None else max(0, arms - 2 - with_found - parts)
    return prove(
        search.laboratory,
        winner,
        found,
        options,
        first_block=first_block,
        alone=alone,
        rest=rest,
        rivals=list(options.rivals)[:spare],
        with_found=with_found,
        noise_sd=search.noise_sd,
        has_another_try=has_another_try,
        is_needed=is_needed,
    )


def _timed(laboratory: Laboratory) -> int:
    return 0 if laboratory.stopwatch is None else laboratory.stopwatch.trials
