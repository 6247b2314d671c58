"""The result of a tune as one JSON object, and its exit code."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.knobs.linux import load_all_knobs
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.trial import Trial
from pgdyno.studies.explain import explain
from pgdyno.studies.inside import inside_json
from pgdyno.studies.judging import representative, summarise
from pgdyno.studies.options import TuneOptions
from pgdyno.studies.pareto import gain_against_memory
from pgdyno.studies.proof import BASE, WINNER, Proof
from pgdyno.studies.result import (
    arm_json,
    company_json,
    comparison_json,
    count_states,
    dropped_json,
    effects_json,
    interval_json,
    noise_json,
    refused_json,
    undo_text,
    unmeasured_json,
    verdict_json,
)
from pgdyno.studies.tuned import Tuned
from pgdyno.trial.laboratory import Laboratory


def tune_result(laboratory: Laboratory, tuned: Tuned, options: TuneOptions) -> dict[str, object]:
    """Return the whole result. `keep` is True when the answer is "keep your configuration"."""
    facts, store, study = laboratory.facts, laboratory.store, laboratory.study
    trials = store.trials(study.id)
    keep = not tuned.is_offered
    winner = BASELINE if keep else tuned.winner
    result: dict[str, object] = {
        "study": study.id,
        "keep": keep,
        "verdict": None,
        "others": [],
        "noise_floor": noise_json(tuned.noise.floor, tuned.noise.runs, tuned.noise.odd, tuned.noise.odd_ratio),
        **_sides(tuned, facts),
        "effects": [],
        "unmeasured": [],
        "dropped": dropped_json(tuned.dropped, tuned.dropped_because, facts),
        "rivals": [],
        "search": _search_json(tuned),
        "pareto": [point.to_json() for point in gain_against_memory(laboratory, tuned, options)],
        "refused": refused_json(trials),
        "trials": count_states(trials),
        "elapsed_s": laboratory.spent_s,
        "report": None,
        "fragment": winner.postgresql().fragment(),
        "linux": dict(winner.linux()),
        "undo": undo_text(winner, facts),
        "warnings": _warnings(trials, study.workload.read_only),
        "notes": [*tuned.notes, *_left_out(tuned)],
        "environment": study.environment,
        **company_json(trials),
    }
    if tuned.proof is not None:
        catalogue = load_all_knobs()
        result["effects"] = effects_json(tuned.proof.effects, tuned.winner, facts, catalogue)
        result["unmeasured"] = unmeasured_json(tuned.proof.effects, tuned.winner, facts, catalogue)
        result["rivals"] = _rivals_json(tuned.proof, options)
        result["unpruned"] = verdict_json(tuned.proof.unpruned) if tuned.proof.unpruned else None
        result["together"] = verdict_json(tuned.proof.together) if tuned.proof.together else None
        blocks, answer = tuned.proof.blocks, tuned.proof.answer
        result |= inside_json(laboratory, blocks, BASE, answer, b_is=WINNER)
        arms = blocks.trials(BASE), blocks.trials(answer)
        result["explanation"] = [] if keep else explain(*arms, tuned.winner, facts, study.workload)
    return result


def _left_out(tuned: Tuned) -> list[str]:
    return [tuned.proof.headline.left_out] if tuned.proof is not None and tuned.proof.headline.left_out else []


def _sides(tuned: Tuned, facts: Facts) -> Mapping[str, object]:
    if tuned.proof is not None:
        return comparison_json(tuned.proof.headline, tuned.proof.blocks, facts)
    baseline = arm_json(
        summarise(BASE, BASELINE, tuned.search.baselines), representative(tuned.search.baselines), facts
    )
    return {"baseline": baseline, "winner": baseline}


def _search_json(tuned: Tuned) -> dict[str, object]:
    space = tuned.search.space
    return {
        "knobs": [dimension.name for dimension in space.dimensions],
        "excluded": [{"knob": e.name, "reason": e.reason} for e in space.excluded],
        "trials": len(tuned.search.trials),
        "stopped": tuned.search.stopped,
        "best": dict(tuned.found),
    }


def _rivals_json(proof: Proof, options: TuneOptions) -> list[object]:
    return [
        {
            "name": name,
            "settings": dict(Configuration.of(options.rivals[name])),
            "verdict": verdict_json(verdict),
            "winner_over_rival": interval_json(proof.rival_shares[name]),
        }
        for name, verdict in proof.rivals.items()
    ]


def _warnings(trials: list[Trial], read_only: bool) -> list[str]:
    words = sorted({warning for trial in trials if trial.outcome for warning in trial.outcome.warnings})
    if read_only:
        words.append("the load only reads: nothing here is known of checkpoints, WAL and vacuum under writes")
    return words
