"""What a tune tells of its proofs: what was proved and what else was, what it lacks, and why there is none."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.configuration import Configuration
from pgdyno.report.wording import settings_text
from pgdyno.studies.pairs.blocks import FOUND, WINNER, ArmUnmeasured
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.proof import RIVAL, WITHOUT, WITHOUT_REST, GivenUp, Proof
from pgdyno.studies.tune.search import Search
from pgdyno.studies.tune.tuned import Tuned
from pgdyno.trial.laboratory import Laboratory
from pgdyno.units import plural

UNENDED = "another proof was begun and could not be ended, for lack of time or a quiet machine: it counts for nothing"


def which_settings(count: int, found: int) -> str:
    """Write so many of the settings found: `the setting`, `all 7 settings`, `1 of the 7 settings`."""
    if found == 1:
        return "the setting"
    return f"all {plural(found, 'setting')}" if count == found else f"{count} of the {plural(found, 'setting')}"


def lack_text(proof: Proof | GivenUp) -> str:
    """Say what of a part that was proved makes another proof worth while."""
    are = "is" if len(proof.blocks.arms[WINNER]) == 1 else "are"
    if isinstance(proof, GivenUp) or proof.is_vetoed or proof.is_given_up:
        return f"{are} worse than all of them"
    if proof.together is None:
        return f"{are} not shown to be better"
    return f"{are} not shown to be better, {'and all of them are' if proof.is_only_together else 'nor are all of them'}"


def note_proof(tuned: Tuned, proof: Proof, options: TuneOptions) -> None:
    """Note what a reader of the result has to know of how its winner was chosen."""
    found, left_out = tuned.found, tuned.search.left_out
    several = len(found) > 1
    whole = f"{which_settings(len(found), len(found))} that the search found"
    tuned.notes += [text for text in tuned.lowered if text.partition(" ")[0] in tuned.winner]
    if proof.is_vetoed and proof.unpruned is not None:
        tuned.notes.append(
            f"{proof.unpruned.sentence('what was proved', whole)}; which of them matter is not known, and a setting "
            "that is not explained is not offered: a longer --budget or more --trials"
        )
    unmeasured = proof.blocks.unmeasured
    tuned.notes += [
        f"{arm} could not be measured, and the proof does without: {why}" for arm, why in unmeasured.items()
    ]
    told = {*proof.effects, *proof.rest, *tuned.unexplained, *(arm.removeprefix(WITHOUT) for arm in unmeasured)}
    if bound := [name for name in tuned.winner if name not in told]:
        tuned.notes.append(f"without it the rest is refused here, so it was not measured alone: {', '.join(bound)}")
    gone = proof.rest if proof.answer == WITHOUT_REST else proof.gone
    if gone and len(tuned.winner) > 1:
        tuned.notes.append(f"the effects of single settings were measured with {', '.join(gone)}")
    if unexplained := tuned.unexplained:
        tuned.notes.append(f"not offered, as these settings were not measured alone: {', '.join(unexplained)}")
    if proof.together is None and FOUND not in unmeasured and proof.blocks.arms[WINNER] != found:
        left_out.append(f"whether {whole} {'do' if several else 'does'} better")
    if unknown := [name for name in options.rivals if name not in proof.rivals and RIVAL + name in proof.blocks.arms]:
        tuned.notes.append(f"rivals whose runs have too few figures to compare them: {', '.join(unknown)}")
    if left := [name for name in options.rivals if RIVAL + name not in {*proof.blocks.arms, *unmeasured}]:
        left_out.append(f"rivals {', '.join(left)}")


def other_proofs(proofs: Sequence[Proof | GivenUp], stricter: TuneOptions | None) -> list[str]:
    """Say what else was proved, so that nobody takes what is told for all; `stricter` judged what is, where one did."""
    said = []
    for proof in proofs:
        if isinstance(proof, GivenUp):
            count, settings = plural(len(proof.blocks.complete), "pair"), settings_text(proof.blocks.arms[WINNER])
            said.append(f"given up after {count}, as all that was found is better: {settings}")
        else:
            settings = settings_text(proof.blocks.arms[proof.answer])
            said.append(f"proved too, and not taken: {proof.headline.verdict.sentence(settings, 'the baseline')}")
    if stricter is not None:
        told = f"{100 * stricter.confidence:g} %"
        said.append(f"another proof came before the one that is told, so its intervals are of {told}")
    return said


def fails_text(settings: Configuration, error: ArmUnmeasured) -> str:
    """Say of a winner that failed in its proof why it is not offered."""
    told = settings_text(settings)
    return f"not offered, as it could not be measured in its proof ({error.detail or error.trial.state}): {told}"


def baseline_fails_text(error: ArmUnmeasured) -> str:
    """Say that a later proof ended because the baseline failed in it, which takes nothing from the one before."""
    why = error.detail or error.trial.state
    return f"another proof was begun and counts for nothing: the baseline could not be measured in it ({why})"


def no_proof_text(laboratory: Laboratory, options: TuneOptions, *, has_begun: bool) -> str:
    """Say why nothing was proved, by figures where time was short."""
    watch = laboratory.stopwatch
    if watch is None or watch.has_room(options.proof_trials):
        return "no restart was left for the proof, so nothing is claimed: more --restarts leave room for it"
    when = "to end the proof, which had begun" if has_begun else "for the proof"
    why = f"no time was left {when} ({watch.shortage(options.proof_trials)})"
    return f"{why}, so nothing is claimed: a longer --budget, or a shorter --warmup and --measure, leaves room for it"


def nothing_measured_text(search: Search) -> str:
    """Say why a search found nothing that could be proved."""
    if search.trials:
        return f"none of the {len(search.trials)} configurations that were tried could be measured"
    return (
        f"no configuration was tried: {search.stopped}; a longer --budget, or a shorter --warmup and "
        f"--measure, leaves room"
    )
