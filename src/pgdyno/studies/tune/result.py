"""The result of a tune."""

from __future__ import annotations

from dataclasses import replace

from pgdyno.knobs.constraints import check_for_all
from pgdyno.knobs.linux import load_all_knobs
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.results.tune import (
    Excluded,
    JointEffect,
    Rival,
    SearchFigures,
    TuneResult,
)
from pgdyno.model.trial import ENDED_EARLY, Trial
from pgdyno.studies.pairs.blocks import BASE, WINNER
from pgdyno.studies.pairs.explain import explain
from pgdyno.studies.pairs.result import (
    company_of,
    compared,
    dropped_of,
    effects_of,
    fragment_text,
    inside,
    noise_floor,
    parts_of,
    refusals,
    side_of,
    undo_text,
    unmeasured_of,
)
from pgdyno.studies.tune.importance import search_model
from pgdyno.studies.tune.options import TuneOptions
from pgdyno.studies.tune.pareto import gain_against_memory
from pgdyno.studies.tune.proof import WITHOUT_REST, Proof
from pgdyno.studies.tune.tuned import Tuned
from pgdyno.trial.laboratory import Laboratory
from pgdyno.units import plural


def tune_result(laboratory: Laboratory, tuned: Tuned, options: TuneOptions) -> TuneResult:
    """Return the whole result. `keep` is True when the answer is "keep your configuration"."""
    facts, store, study = laboratory.facts, laboratory.store, laboratory.study
    trials, noise, proof = store.trials(study.id), tuned.noise, tuned.proof
    keep = not tuned.is_offered
    winner = BASELINE if keep else tuned.winner
    result = TuneResult(
        **parts_of(laboratory),
        keep=keep,
        noise_floor=noise_floor(noise.floor, noise.runs, noise.odd, noise.odd_ratio),
        dropped=dropped_of(tuned.dropped, tuned.dropped_because, facts),
        search=_search(tuned),
        pareto=gain_against_memory(laboratory, tuned, options),
        refused=refusals(trials),
        fragment=fragment_text(winner, facts),
        linux=dict(winner.linux()),
        undo=undo_text(winner, facts),
        warnings=_warnings(trials, study.workload.read_only),
        notes=(
            *tuned.notes,
            *([proof.headline.left_out] if proof and proof.headline.left_out else ()),
            *with_all_sessions(winner, facts, study.plan.connections),
        ),
        beside_others=company_of(trials),
        model=search_model(tuned.search.space.dimensions, tuned.search.history(), options.confidence),
    )
    if proof is None:
        baseline = side_of(BASE, BASELINE, tuned.search.baselines, facts)
        return replace(result, baseline=baseline, winner=baseline)
    catalogue = load_all_knobs()
    arms = proof.blocks.trials(BASE), proof.blocks.trials(proof.answer)
    return replace(
        result,
        **compared(proof.headline, proof.blocks, facts),
        **inside(laboratory, proof.blocks, BASE, proof.answer, b_is=WINNER),
        effects=effects_of(proof.effects, tuned.winner, facts, catalogue),
        unmeasured=unmeasured_of(proof.effects, tuned.winner, facts, catalogue),
        joint=_joint(proof),
        rivals=_rivals(proof, options),
        unpruned=proof.unpruned,
        together=proof.together,
        explanation=()
        if keep
        else tuple(
            explain(*arms, tuned.winner, facts, study.workload, (proof.headline.verdict, *proof.headline.others))
        ),
    )


def _search(tuned: Tuned) -> SearchFigures:
    space = tuned.search.space
    return SearchFigures(
        knobs=tuple(dimension.name for dimension in space.dimensions),
        excluded=tuple(Excluded(knob=one.name, reason=one.reason) for one in space.excluded),
        trials=len(tuned.search.trials),
        stopped=tuned.search.stopped,
        ended_early=sum(bool(t.outcome and t.outcome.counters.get(ENDED_EARLY)) for t in tuned.search.trials),
        best=dict(tuned.found),
    )


def _joint(proof: Proof) -> JointEffect | None:
    verdict = proof.rest_effect
    if verdict is None or proof.answer == WITHOUT_REST:
        return None
    return JointEffect(knobs=proof.rest, interval=verdict.interval, word=verdict.word)


def _rivals(proof: Proof, options: TuneOptions) -> tuple[Rival, ...]:
    return tuple(
        Rival(
            name=name,
            settings=dict(Configuration.of(options.rivals[name])),
            verdict=verdict,
            winner_over_rival=proof.rival_shares[name],
        )
        for name, verdict in proof.rivals.items()
    )


def with_all_sessions(winner: Configuration, facts: Facts, sessions: int) -> tuple[str, ...]:
    """Say so where a winner suits the sessions of the load, and `apply` refuses it as the server admits more."""
    found = check_for_all(winner, facts, measured=sessions) if winner else None
    if found is None:
        return ()
    most, refusal = found
    return (
        f"measured with {plural(sessions, 'session')}, and the server admits {most}: for that many pgdyno apply "
        f"refuses it without --force: {refusal.reason}",
    )


def _warnings(trials: list[Trial], read_only: bool) -> tuple[str, ...]:
    words = sorted({warning for trial in trials if trial.outcome for warning in trial.outcome.warnings})
    if read_only:
        words.append("the load only reads: nothing here is known of checkpoints, WAL and vacuum under writes")
    return tuple(words)
