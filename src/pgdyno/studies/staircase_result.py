"""The result of a staircase as one JSON object: what `--json` prints, the store keeps and the page draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgdyno.errors import ExitCode
from pgdyno.knobs.policy import ruling_of
from pgdyno.model.facts import Facts
from pgdyno.model.trial import Trial
from pgdyno.model.verdict import Metric, Word
from pgdyno.stats.compound import METHOD, interaction_word, inverse, product, quotient
from pgdyno.studies.blocks import metric_of
from pgdyno.studies.inside import inside_json, plans_json
from pgdyno.studies.judging import representative, summarise
from pgdyno.studies.manual_step import AFTER, BEFORE
from pgdyno.studies.phases import phases_of
from pgdyno.studies.result import (
    arm_json,
    comparison_json,
    count_states,
    current_text,
    interval_json,
    pairs_json,
    refused_json,
    verdict_json,
)
from pgdyno.studies.run_identity import common_fingerprint, differences, settings_fingerprints
from pgdyno.studies.staircase import ALL, BASE, StaircaseResult, StepResult, candidates_of
from pgdyno.studies.staircase_options import StaircaseOptions
from pgdyno.studies.staircase_rules import DROP, SKIPPED, end_sentence
from pgdyno.studies.sweep import SweepFound, level_numbers
from pgdyno.trial.laboratory import Laboratory


def staircase_result(laboratory: Laboratory, found: StaircaseResult, options: StaircaseOptions) -> dict[str, object]:
    """Return the result with title and sentences; every figure in them is computed from the runs."""
    study, facts = laboratory.study, laboratory.facts
    trials = laboratory.store.trials(study.id)
    detectable = found.noise.detectable(6) if found.noise else None
    lost = sum(climb.outcome == DROP and climb.comparison is None for climb in found.climbs)
    outcomes = list(found.outcomes.values())
    ended = found.stopped or end_sentence(outcomes, detectable, stage=found.plan.stage, not_measurable=lost)
    kept = dict(setting for climb in found.kept for setting in climb.settings.items())
    starts = [min((t.outcome.began_at for t in c.trials if t.outcome), default=None) for c in found.climbs]
    result: dict[str, object] = {
        "study": study.id,
        "plan": options.source,
        "mode": found.plan.mode,
        "stage": found.plan.stage,
        "candidates_from": options.candidates_from,
        "candidates": list(candidates_of(found.climbs)),
        "metric": options.metric.value,
        "start": start_json(facts, found.plan.baseline),
        "noise_floor": None if found.noise is None else {"pair_sd": found.noise.pair_sd, "detectable": detectable},
        "steps": [
            _step_json(climb, laboratory, next((s for s in starts[at + 1 :] if s), None), options.metric)
            for at, climb in enumerate(found.climbs)
        ],
        "kept": kept,
        "kept_steps": [climb.step.name for climb in found.kept],
        "stopped": ended,
        "drift": {
            "sentence": found.drift.sentence(),
            "rounds": [interval_json(one) for one in found.drift.ratios],
        },
        **_ends(found, laboratory),
        "refused": refused_json(trials),
        "trials": count_states(trials),
        "environment": study.environment,
        "elapsed_s": laboratory.spent_s,
    }
    if "baseline" not in result and found.noise_runs:
        arm = summarise(BASE, found.baseline, found.noise_runs)
        result["baseline"] = arm_json(arm, representative(found.noise_runs), facts)
    result["sentences"] = _sentences(result, found, options)
    return result


def unfinished_result(laboratory: Laboratory, found: StaircaseResult, options: StaircaseOptions) -> dict[str, object]:
    """Return the result after some steps: what a report shows of a staircase that never came to its end."""
    steps = len(options.chosen(found.plan))
    left = f"{len(found.climbs)} of {steps} steps were finished"
    return {**staircase_result(laboratory, found, options), "stopped": left, "unfinished": left}


def exit_code(result: Mapping[str, object]) -> ExitCode:
    """Return 0 when a step was kept or proposed, 1 when the kept steps together proved worse, else 3."""
    verdict = result.get("verdict")
    if isinstance(verdict, Mapping) and verdict.get("word") == Word.WORSE.value:
        return ExitCode.FINDINGS
    return ExitCode.OK if result["kept_steps"] or result["candidates"] else ExitCode.NOT_RESOLVED


def start_json(facts: Facts, baseline: Mapping[str, str]) -> dict[str, object]:
    """Return from where the staircase starts: out of the box, or with which settings that are not the built-in ones.

    Only settings that bear on performance count (those that the policy lets a person set).
    """
    differs = {
        name: current_text(facts, name)
        for name, row in sorted(facts.settings.items())
        if row.boot_val is not None
        and row.setting != row.boot_val
        and row.source not in ("default", "override", "client", "session")
        and (ruling := ruling_of(name)) is not None
        and ruling.settable
    }
    return {"settings": dict(baseline), "differs": differs, "out_of_the_box": not differs and not baseline}


def _ends(found: StaircaseResult, laboratory: Laboratory) -> dict[str, object]:
    """Return the proof, the product of the kept steps and what the one leaves of the other."""
    steps = [climb.comparison.verdict.interval for climb in found.kept if climb.comparison and climb.settings]
    if not steps:
        return {}
    expected = product(steps)
    ends: dict[str, object] = {"product": {**interval_json(expected), "method": METHOD}}
    if found.proof is None:
        return ends
    measured = found.proof.comparison.verdict.interval
    rest = quotient(measured, expected)
    gained = rest if found.proof.comparison.verdict.metric.higher_is_better else inverse(rest)
    return {
        **ends,
        **comparison_json(found.proof.comparison, found.proof.blocks, laboratory.facts),
        **inside_json(laboratory, found.proof.blocks, BASE, ALL),
        "interaction": {**interval_json(rest), "word": interaction_word(gained)},
        "effects_left_out": {name: verdict_json(verdict) for name, verdict in found.proof.effects.items()},
        "proof_runs": _qualified(found.proof.blocks.complete, (BASE, ALL)),
    }


def _step_json(climb: StepResult, laboratory: Laboratory, following: float | None, metric: Metric) -> dict[str, object]:
    step, study, facts = climb.step, laboratory.study, laboratory.facts
    told: dict[str, object] = {
        "step": step.name,
        "level": step.level.value,
        "group": step.group,
        "rules": list(step.rules),
        "outcome": climb.outcome,
        "why": climb.why,
        "settings": dict(climb.settings or step.settings),
        "from": {knob: current_text(facts, knob) for knob in climb.settings},
        "interleaved": climb.interleaved,
        "sources": list(step.sources),
        "expected": step.expected.text if step.expected else "",
        "by_hand": list(step.by_hand.instructions) if step.by_hand else list(step.commands),
        "undo": list(step.by_hand.undo) if step.by_hand else list(step.undo),
    }
    if climb.outcome == SKIPPED:
        return told
    told["phases"] = [
        {"phase": one.phase, "began_at": one.began_at, "ended_at": one.ended_at}
        for one in phases_of(climb.trials, following)
    ]
    if climb.again is not None:
        told["again"] = interval_json(climb.again)
    told["baseline_runs"] = [trial.id for trial in climb.baselines]
    if climb.sweep is not None:
        told["sweep"] = sweep_json(climb.sweep, facts)
    if climb.comparison is None or climb.blocks is None:
        return told
    before, after = climb.blocks.trials(BEFORE), climb.blocks.trials(AFTER)
    return {
        **told,
        "verdict": verdict_json(climb.comparison.verdict),
        "others": [verdict_json(verdict) for verdict in climb.comparison.others],
        "runs": _qualified(climb.blocks.complete, (BEFORE, AFTER)),
        "same": {
            "before": common_fingerprint(study, before[0]),
            "after": common_fingerprint(study, after[0]),
            "differs": list(differences(before[0], after[0])),
        },
        "in_force": {"before": settings_fingerprints(before), "after": settings_fingerprints(after)},
        "pairs": pairs_json(climb.blocks, BEFORE, AFTER, metric),
        "plans": plans_json(laboratory.store, climb.blocks, BEFORE, AFTER),
    }


def _qualified(blocks: Sequence[Mapping[str, Trial]], arms: Sequence[str]) -> dict[str, object]:
    """Return for each arm the run that stands for it, the one nearest to the median, and all that were used."""
    by_arm = {arm: [block[arm] for block in blocks] for arm in arms}
    return {arm: {"qualified": representative(runs), "all": [t.id for t in runs]} for arm, runs in by_arm.items()}


def sweep_json(found: SweepFound, facts: Facts) -> dict[str, object]:
    """Return a sweep: a row a level, the region of the best and the plateau."""
    plateau, metric = found.plateau, Metric.THROUGHPUT
    numbers, unit = level_numbers(facts, found.knob, found.levels)
    rows = []
    for place, name in enumerate(found.levels):
        runs = found.blocks.trials(name)
        rows.append({
            "level": name,
            "number": numbers[place],
            "figure": sorted(found.figures[name])[len(found.figures[name]) // 2],
            "figures": list(found.figures[name]),
            "throughput": summarise(name, found.blocks.arms[name], runs).throughput,
            "gain": interval_json(plateau.over_first[place]),
            "in_region": place in plateau.region,
            "run": representative(runs) if any(metric_of(t.outcome, metric) for t in runs if t.outcome) else None,
            "runs": [trial.id for trial in runs],
        })  # fmt: skip
    return {
        "knob": found.knob,
        "unit": unit,
        "from": current_text(facts, found.knob),
        "levels": rows,
        "best": found.levels[plateau.best],
        "region": [found.levels[place] for place in plateau.region],
        "plateau": found.levels[plateau.start],
        "proven": plateau.proven,
        "at_most": plateau.at_most,
        "flat": plateau.is_flat,
        "chosen": found.chosen,
        "sentence": plateau.sentence(found.levels),
        "blocks": len(found.figures[found.levels[0]]),
    }


def _sentences(result: Mapping[str, object], found: StaircaseResult, options: StaircaseOptions) -> list[str]:
    said = []
    if found.proof is not None:
        verdict = found.proof.comparison.verdict
        said.append(verdict.sentence("the kept configuration", "the baseline"))
        said += [found.proof.comparison.left_out] if found.proof.comparison.left_out else []
    if found.unproven:
        said.append(found.unproven)
    if found.plan.stage == "large":
        said.append(
            f"only the candidates of sandbox study {options.candidates_from} were measured; none of its figures is here"
            if options.candidates_from
            else "begun in the large environment with its baseline, without a sandbox stage before it"
        )
    if found.plan.stage == "sandbox":
        names = ", ".join(candidates_of(found.climbs))
        said.append(
            f"sandbox stage: short runs that choose candidates and prove nothing; candidates: {names or 'none'}"
        )
    ended = str(result["stopped"])
    return [*said, *([ended] if ended else []), *([found.drift.sentence()] if found.drift.drifted else [])]
