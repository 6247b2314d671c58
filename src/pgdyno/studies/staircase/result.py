"""The result of a staircase as one JSON object: what `--json` prints, the store keeps and the page draws."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from pgdyno.knobs.policy import ruling_of
from pgdyno.model.facts import Facts
from pgdyno.model.results.parts import Start, SweepFigures, SweepLevel
from pgdyno.model.results.staircase import (
    DriftRecord,
    Interaction,
    PhaseRecord,
    Product,
    QualifiedRuns,
    ReadBack,
    SameRecord,
    StaircaseResult,
    StairNoise,
    StepRecord,
)
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial
from pgdyno.model.verdict import Metric
from pgdyno.stats.compound import METHOD, interaction_word, inverse, product, quotient
from pgdyno.studies.pairs.judging import median_of, representative
from pgdyno.studies.pairs.result import (
    company_of,
    compared,
    current_text,
    inside,
    pairs_of,
    parts_of,
    plans_of,
    refusals,
    side_of,
)
from pgdyno.studies.staircase.course import StaircaseCourse, StepResult, candidates_of
from pgdyno.studies.staircase.manual_step import AFTER, BEFORE
from pgdyno.studies.staircase.options import StaircaseOptions
from pgdyno.studies.staircase.rules import DROP, SKIPPED, end_sentence
from pgdyno.studies.staircase.run import ALL, BASE, notes_on
from pgdyno.studies.sweep.run import SweepFound, level_numbers
from pgdyno.trial.laboratory import Laboratory


def staircase_result(
    laboratory: Laboratory, found: StaircaseCourse, options: StaircaseOptions, *, unfinished: str = ""
) -> StaircaseResult:
    """Return the result with title and sentences; every figure in them is computed from the runs.

    `found` is the course so far of the staircase that `options` ask for; the study, its facts and its trials are those
    of `laboratory`. `unfinished` is why it was stopped before its end, "" where it was not.
    """
    facts, noise = laboratory.facts, found.noise
    trials = laboratory.store.trials(laboratory.study.id)
    detectable = noise.detectable(6) if noise else None
    lost = sum(climb.outcome == DROP and climb.comparison is None for climb in found.climbs)
    outcomes = list(found.outcomes.values())
    ended = found.stopped or end_sentence(outcomes, detectable, stage=found.plan.stage, not_measurable=lost)
    starts = [min((t.outcome.began_at for t in c.trials if t.outcome), default=None) for c in found.climbs]
    result = StaircaseResult(
        **parts_of(laboratory),
        plan=options.source,
        mode=found.plan.mode,
        stage=found.plan.stage,
        candidates_from=options.candidates_from,
        candidates=tuple(candidates_of(found.climbs)),
        metric=options.metric,
        start=start_of(facts, found.plan.baseline),
        noise_floor=None if noise is None else StairNoise(pair_sd=noise.pair_sd, detectable=detectable),
        steps=tuple(
            _step(climb, laboratory, next((s for s in starts[at + 1 :] if s), None), options.metric)
            for at, climb in enumerate(found.climbs)
        ),
        kept=dict(setting for climb in found.kept for setting in climb.settings.items()),
        kept_steps=tuple(climb.step.name for climb in found.kept),
        stopped=unfinished or ended,
        drift=DriftRecord(sentence=found.drift.sentence(), rounds=tuple(found.drift.ratios)),
        refused=refusals(trials),
        beside_others=company_of(trials),
        sentences=_sentences(ended, found, options),
        unfinished=unfinished,
    )
    result = _with_ends(result, found, laboratory)
    if result.baseline is None and found.noise_runs:
        result = replace(result, baseline=side_of(BASE, found.baseline, found.noise_runs, facts))
    return result


def unfinished_result(laboratory: Laboratory, found: StaircaseCourse, options: StaircaseOptions) -> StaircaseResult:
    """Return the result after some steps: what a report shows of a staircase that never came to its end."""
    left = f"{len(found.climbs)} of {len(options.chosen(found.plan))} steps finished"
    return staircase_result(laboratory, found, options, unfinished=left)


def start_of(facts: Facts, baseline: Mapping[str, str]) -> Start:
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
    return Start(settings=dict(baseline), differs=differs, out_of_the_box=not differs and not baseline)


def _with_ends(result: StaircaseResult, found: StaircaseCourse, laboratory: Laboratory) -> StaircaseResult:
    """Return the result with the proof, the product of the kept steps and what the one leaves of the other."""
    steps = [climb.comparison.verdict.interval for climb in found.kept if climb.comparison and climb.settings]
    if not steps:
        return result
    expected = product(steps)
    result = replace(result, product=Product(interval=expected, method=METHOD))
    if found.proof is None:
        return result
    verdict, blocks = found.proof.comparison.verdict, found.proof.blocks
    rest = quotient(verdict.interval, expected)
    gained = rest if verdict.metric.higher_is_better else inverse(rest)
    return replace(
        result,
        **compared(found.proof.comparison, blocks, laboratory.facts),
        **inside(laboratory, blocks, BASE, ALL),
        interaction=Interaction(interval=rest, word=interaction_word(gained)),
        effects_left_out=dict(found.proof.effects),
        proof_runs=_qualified(blocks.complete, (BASE, ALL)),
    )


def _step(climb: StepResult, laboratory: Laboratory, following: float | None, metric: Metric) -> StepRecord:
    step, study, facts = climb.step, laboratory.study, laboratory.facts
    told = StepRecord(
        step=step.name,
        level=step.level.value,
        group=step.group,
        rules=tuple(step.rules),
        outcome=climb.outcome,
        why=climb.why,
        settings=dict(climb.settings or step.settings),
        before={knob: current_text(facts, knob) for knob in climb.settings},
        interleaved=climb.interleaved,
        sources=tuple(step.sources),
        expected=step.expected.text if step.expected else "",
        by_hand=tuple(step.by_hand.instructions if step.by_hand else step.commands),
        undo=tuple(step.by_hand.undo if step.by_hand else step.undo),
    )
    if climb.outcome == SKIPPED:
        return told
    told = replace(
        told,
        phases=phases_of(climb.trials, following),
        again=climb.again,
        baseline_runs=tuple(trial.id for trial in climb.baselines),
        sweep=None if climb.sweep is None else sweep_figures(climb.sweep, facts),
    )
    if climb.comparison is None or climb.blocks is None:
        return told
    before, after = climb.blocks.trials(BEFORE), climb.blocks.trials(AFTER)
    return replace(
        told,
        verdict=climb.comparison.verdict,
        others=climb.comparison.others,
        runs=_qualified(climb.blocks.complete, (BEFORE, AFTER)),
        same=SameRecord(
            before=common_fingerprint(study, before[0]),
            after=common_fingerprint(study, after[0]),
            differs=differences(before[0], after[0]),
        ),
        in_force=ReadBack(before=settings_fingerprints(before), after=settings_fingerprints(after)),
        pairs=pairs_of(climb.blocks, BEFORE, AFTER, metric),
        plans=plans_of(laboratory.store, climb.blocks, BEFORE, AFTER),
    )


def _qualified(blocks: Sequence[Mapping[str, Trial]], arms: Sequence[str]) -> dict[str, QualifiedRuns]:
    """Return for each arm the run that stands for it, the one nearest to the median, and all that were used."""
    by_arm = {arm: [block[arm] for block in blocks] for arm in arms}
    return {
        arm: QualifiedRuns(qualified=representative(runs), every=tuple(t.id for t in runs))
        for arm, runs in by_arm.items()
    }


def sweep_figures(found: SweepFound, facts: Facts) -> SweepFigures:
    """Return a sweep: a row a level, the region of the best and the plateau."""
    plateau = found.plateau
    numbers, unit = level_numbers(facts, found.knob, found.levels)
    rows = []
    for place, name in enumerate(found.levels):
        runs = found.blocks.trials(name)
        rows.append(
            SweepLevel(
                level=name,
                number=numbers[place],
                figure=sorted(found.figures[name])[len(found.figures[name]) // 2],
                figures=tuple(found.figures[name]),
                throughput=median_of(runs, Metric.THROUGHPUT),
                gain=plateau.over_first[place],
                in_region=place in plateau.region,
                run=representative(runs) if any(t.figure(Metric.THROUGHPUT) for t in runs) else None,
                runs=tuple(trial.id for trial in runs),
            )
        )
    return SweepFigures(
        knob=found.knob,
        unit=unit,
        before=current_text(facts, found.knob),
        levels=tuple(rows),
        best=found.levels[plateau.best],
        region=tuple(found.levels[place] for place in plateau.region),
        plateau=found.levels[plateau.start],
        proven=plateau.proven,
        at_most=plateau.at_most,
        flat=plateau.is_flat,
        chosen=found.chosen,
        sentence=plateau.sentence(found.levels),
        blocks=len(found.figures[found.levels[0]]),
    )


def _sentences(ended: str, found: StaircaseCourse, options: StaircaseOptions) -> tuple[str, ...]:
    said = []
    if found.proof is not None:
        verdict = found.proof.comparison.verdict
        said.append(verdict.sentence("the kept configuration", "the baseline"))
        said += [note for note in notes_on(found.proof.comparison, found.proof.blocks) if note]
        lost = found.proof.blocks.unmeasured.items()
        said += [f"{arm} could not be measured, and the proof does without: {why}" for arm, why in lost]
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
    return (*said, *([ended] if ended else []), *([found.drift.sentence()] if found.drift.drifted else []))


PHASES = ("prepare", "run and monitor", "analyse", "adjust")


def phases_of(trials: Sequence[Trial], next_began_at: float | None = None) -> tuple[PhaseRecord, ...]:
    """Return the phases of the runs of one step; empty when none of them has been measured.

    Prepare is the first run's configuration and data before its load; run and monitor reaches from there to the end
    of the last load; analyse is collection and verdict; adjust lasts until the next step's first load, where the
    decision is put in force.
    """
    known = [t.outcome for t in trials if t.outcome is not None and t.outcome.began_at and t.outcome.ended_at]
    if not known:
        return ()
    first, last = min(known, key=lambda o: o.began_at), max(known, key=lambda o: o.ended_at)
    spent = max(0.0, first.elapsed_s - (first.ended_at - first.began_at))
    collected = last.ended_at + min(1.0, max(0.0, last.elapsed_s - (last.ended_at - last.began_at)))
    after = collected if next_began_at is None else max(collected, next_began_at)
    edges = (first.began_at - spent, first.began_at, last.ended_at, collected, after)
    return tuple(
        PhaseRecord(phase=name, began_at=begin, ended_at=end)
        for name, begin, end in zip(PHASES, edges, edges[1:], strict=False)
    )


def common_fingerprint(study: Study, trial: Trial) -> str:
    """Return 12 hex digits for all that makes a run but its settings and its place in the order.

    Load, its scripts and parameters, ramp-up and duration, clients, data rule, seed, environment, and what people had
    done.
    """
    parts = {
        "workload": asdict(study.workload),
        "plan": asdict(study.plan),
        "environment": study.environment,
        "factors": dict(trial.spec.factors),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def differences(a: Trial, b: Trial) -> tuple[str, ...]:
    """Return the names of the settings and other factors in which two runs differ."""
    pairs = ((a.spec.configuration, b.spec.configuration), (a.spec.factors, b.spec.factors))
    names = {name for left, right in pairs for name in {*left, *right} if left.get(name) != right.get(name)}
    return tuple(sorted(names))


def settings_fingerprints(trials: Sequence[Trial]) -> tuple[str, ...]:
    """Return the fingerprints of what was read back from the server, each once; one for an honest arm."""
    found = {t.outcome.settings_fingerprint for t in trials if t.outcome and t.outcome.settings_fingerprint}
    return tuple(sorted(found))
