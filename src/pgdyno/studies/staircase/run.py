"""The staircase: one factor a step in fresh interleaved pairs, then the kept steps left out one by one, then the proof.

    noise    baseline runs alone: how small an effect can be seen here?
    steps    each against what was kept before it (accumulate) or against the baseline (isolate), both measured again;
             a sweep first chooses its value in blocks of its own
    between  the baseline is measured again, to see whether the machine drifts
    proof    fresh blocks in which baseline, all kept steps, and all but one of them run

A pure function of options, plan and the trials' outcomes: a resumed staircase runs it again from the top, and the
laboratory gives back the trials that the store has (docs/adr/0008).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from pgdyno.errors import ApplyError
from pgdyno.knobs.policy import check_settings
from pgdyno.model.configuration import Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.study import Comparison
from pgdyno.model.trial import Role, Trial, TrialSpec, TrialState
from pgdyno.model.verdict import Verdict, Word
from pgdyno.stats.noise import NoiseFloor, noise_floor, odd_run, why_untold
from pgdyno.stats.sequential import is_final
from pgdyno.studies.pairs.blocks import JUDGEABLE, ArmUnmeasured, Blocks, Runs, run_blocks, run_repeating
from pgdyno.studies.pairs.drift import find_drift
from pgdyno.studies.pairs.drowned import tighter_elsewhere
from pgdyno.studies.pairs.judging import Unjudged, compare_arms, is_too_thin, verdict_of
from pgdyno.studies.staircase.by_hand import factors_of
from pgdyno.studies.staircase.course import StaircaseCourse, StairProof, StepResult
from pgdyno.studies.staircase.manual_step import AFTER, BEFORE, measure_by_hand
from pgdyno.studies.staircase.options import StaircaseOptions, TimeLeft
from pgdyno.studies.staircase.plan import Step
from pgdyno.studies.staircase.plan_check import is_in_force, laid_over
from pgdyno.studies.staircase.rules import (
    DROP,
    KEEP,
    NULL,
    OPEN,
    SKIPPED,
    missing_of,
    outcome_of,
    stop_reason,
    why_not,
)
from pgdyno.studies.sweep.run import SweepFound, run_sweep
from pgdyno.units import plural

BASE, ALL, WITHOUT = "baseline", "all kept", "without "
STEP_BLOCKS, SWEEP_AT, PROOF_BLOCKS = 1000, 500, 1_000_000
"""Block numbers: a thousand for each step, its sweep from 500 on, the proof far behind them all."""


class Staircase:
    """Runs one staircase; `climb` is the whole of it. `keep` is given what was found after each step."""

    def __init__(
        self,
        runs: Runs,
        facts: Facts,
        options: StaircaseOptions,
        announce: Callable[[str], None],
        keep: Callable[[StaircaseCourse], None] = lambda _: None,
    ) -> None:
        self._keep = keep
        self.options = options
        self.plan = options.read_plan()
        self.design = options.design(self.plan)
        self._runs, self._facts, self._announce = runs, facts, announce
        self._found = StaircaseCourse(self.plan, check_settings(self.plan.baseline, facts))
        self._steps = options.chosen(self.plan)
        self._time = TimeLeft(runs.study.plan.duration_s, proof=self.plan.stage != "sandbox" and not options.only)

    def climb(self) -> StaircaseCourse:
        """Run the whole staircase. Leaves the server in some trial's configuration."""
        found, options = self._found, self.options
        self._measure_noise()
        for number, step in enumerate(self._steps, 1):
            self._take(number, step)
            self._keep(found)  # what ends the process later leaves the report of the steps that it had finished
            measured = [climb.outcome for climb in found.climbs if climb.outcome != SKIPPED]
            found.stopped = stop_reason(measured, options.stop_after)
            if found.stopped:
                if left := ", ".join(step.name for step in self._steps[number:]):
                    found.stopped += f"; not run: {left}"
                self._announce(f"the plan ends after step {number} of {len(self._steps)}: {found.stopped}")
                break
        rounds = [self._figures(found.noise_runs), *(self._figures(climb.baselines) for climb in found.climbs)]
        found.drift = find_drift([each for each in rounds if each], smallest_effect=options.smallest_effect)
        if found.drift.drifted:
            self._announce(f"warning: {found.drift.sentence()}")
        if found.kept and not options.only:
            self._prove()
        return found

    def _measure_noise(self) -> None:
        """Measure the baseline alone; a first run that stands apart (data not in memory yet) is left out."""
        self._announce(f"noise floor: {plural(self.options.noise_runs, 'run')} of the baseline")
        runs = self._baseline_runs(0, self.options.noise_runs, {})
        figures = self._figures(runs)
        place = odd_run(figures)
        if place is not None:
            figures.pop(place)
            runs = tuple(trial for at, trial in enumerate(runs) if at != place)
        self._found.noise_runs = runs
        if len(figures) >= 3:
            self._found.noise = noise_floor(figures)
            self._announce(f"noise floor: {_effect_text(self._found.noise)}")

    def _baseline_runs(self, number: int, count: int, factors: Mapping[str, str]) -> tuple[Trial, ...]:
        specs = (
            TrialSpec(self._found.baseline, Role.BASELINE, BASE, number * STEP_BLOCKS, slot, factors=factors)
            for slot in range(count)
        )
        self._runs.expect(count)
        runs = [run_repeating(self._runs.run, spec) for spec in specs]
        if any(trial.state in (TrialState.VOID, TrialState.FAILED, TrialState.REFUSED) for trial in runs):
            reason = next((trial.outcome.reason for trial in reversed(runs) if trial.outcome), None)
            raise ApplyError("the baseline cannot be measured", detail=reason, hint="Look at [plan] baseline.")
        return tuple(t for t in runs if t.state is TrialState.COMPLETE and self._figures([t]))

    def _figures(self, trials: Iterable[Trial]) -> list[float]:
        return [figure for trial in trials if (figure := trial.figure(self.options.metric))]

    def _take(self, number: int, step: Step) -> None:
        """Run one step, or say why not, and note what came of it."""
        found, options = self._found, self.options
        before = {climb.step.name: OPEN if climb.open else climb.outcome for climb in found.climbs}
        why = why_not(
            step,
            self.plan,
            before,
            options.candidates,
            by_hand=options.waits_for(step),
            alone=step.name == options.only,
        )
        name = f"step {number}/{len(self._steps)} {step.name}"
        if why:
            self._announce(f"{name}: skipped, {why}")
            is_open = step.by_hand is not None and not missing_of(step, before)
            found.climbs.append(StepResult(step, SKIPPED, why, open=is_open))
            return
        left = self._time.text(self.design, self._steps[number - 1 :], self.options, measured=0)
        self._announce(f"{name} ({step.level}): {_what(step)}; {left}")
        climb = self._by_hand(number, step) if step.by_hand is not None else self._measured(number, step, name)
        found.climbs.append(climb)
        if climb.outcome == KEEP:
            found.kept.append(climb)
        told = f", {_gain(climb.comparison.verdict)}" if climb.comparison else ""
        self._announce(f"{name}: {climb.outcome}{told}{f', {climb.why}' if climb.why else ''}")

    def _incumbent(self) -> tuple[Configuration, frozenset[str]]:
        """Return what a step is measured against, and what people have done for it."""
        if self.plan.mode == "isolate":
            return self._found.baseline, frozenset()
        return self._composed(self._found.kept)

    def _composed(self, climbs: Sequence[StepResult]) -> tuple[Configuration, frozenset[str]]:
        settings: dict[str, str] = dict(self._found.baseline)
        for climb in climbs:
            settings = laid_over(settings, climb.settings)
        return check_settings(settings, self._facts), frozenset(c.step.name for c in climbs if c.step.by_hand)

    def _measured(self, number: int, step: Step, name: str) -> StepResult:
        """Measure a step that a session can set: its sweep where it has one, then fresh pairs."""
        incumbent, done = self._incumbent()
        for line in step.commands:
            self._announce(f"not run, for you to decide: {line}")
        factors = factors_of(done, step.name)
        settings, sweep = dict(step.settings), None
        try:
            if step.sweep is not None:
                sweep = self._sweep(number, step, incumbent, factors)
                settings = {step.sweep.knob: sweep.chosen}
            if is_in_force(check_settings(settings, self._facts), incumbent, self._facts):
                if sweep is None:
                    return StepResult(step, SKIPPED, "what it sets is in force already", open=True)
                return StepResult(step, NULL, "the plateau begins at the value in force", sweep=sweep, open=True)
            blocks = self._pairs(number, name, incumbent, settings, factors)
        except ApplyError as error:
            if error.message.startswith((f"arm {BEFORE} ", f"arm {BASE} ")):
                raise
            why = f"it cannot be measured: {error.detail or error.message}"
            return StepResult(step, DROP, why, settings, sweep=sweep, baselines=self._again(number, done))
        except Unjudged as error:  # the step's sweep
            return StepResult(step, DROP, error.one_line, baselines=self._again(number, done))
        again = self._again(number, done)
        try:
            comparison = compare_arms(blocks, BEFORE, AFTER, self.options.metric, self.design)
        except Unjudged as error:  # what was judged before stays
            return StepResult(step, DROP, error.one_line, settings, sweep=sweep, baselines=again)
        candidate = blocks.arms[AFTER]
        changed = {knob: candidate[knob] for knob in candidate if candidate[knob] != incumbent.get(knob)}
        outcome = outcome_of(comparison.verdict, stage=self.plan.stage)
        why = "; ".join(filter(None, notes_on(comparison, blocks)))
        return StepResult(step, outcome, why, changed, comparison, blocks, sweep, again)

    def _sweep(self, number: int, step: Step, incumbent: Configuration, factors: Mapping[str, str]) -> SweepFound:
        """Let a sweep choose the step's value: where the plateau begins."""
        assert step.sweep is not None, "the step has a sweep"
        knob = step.sweep.knob
        return run_sweep(
            self._runs,
            knob,
            {value: check_settings(laid_over(incumbent, {knob: value}), self._facts) for value in step.sweep.values},
            self.options,
            first_block=number * STEP_BLOCKS + SWEEP_AT,
            factors=factors,
            announce=self._announce,
        )

    def _pairs(
        self,
        number: int,
        name: str,
        incumbent: Configuration,
        settings: Mapping[str, str],
        factors: Mapping[str, str],
    ) -> Blocks:
        """Run fresh pairs of the incumbent with and without these settings, until their verdict is final."""

        def is_enough(blocks: Blocks) -> bool:
            verdict = verdict_of(blocks, BEFORE, AFTER, self.options.metric, self.design)
            if verdict is None:
                return is_too_thin(blocks, (BEFORE, AFTER), self.options.metric, self.design.min_pairs)
            left = self._time.text(self.design, self._steps[number - 1 :], self.options, measured=verdict.pairs)
            self._announce(f"{name}: pair {verdict.pairs}: {verdict.sentence('with it', 'without it')}; {left}")
            return is_final(verdict, self.design)

        return run_blocks(
            self._runs,
            {BEFORE: incumbent, AFTER: check_settings(laid_over(incumbent, settings), self._facts)},
            {BEFORE: Role.ARM, AFTER: Role.ARM},
            seed=self.options.seed,
            first_block=number * STEP_BLOCKS + 1,
            max_blocks=self.design.max_pairs,
            is_enough=is_enough,
            factors=factors,
            short_from=JUDGEABLE,
        )

    def _again(self, number: int, done: frozenset[str]) -> tuple[Trial, ...]:
        """Measure the baseline between steps; with what people have done it would be another one."""
        if done or not self.options.baseline_runs:
            return ()
        return self._baseline_runs(number, self.options.baseline_runs, {})

    def _by_hand(self, number: int, step: Step) -> StepResult:
        """Measure what a person does: it cannot be interleaved, and the record says so."""
        incumbent, done = self._incumbent()
        first_block = number * STEP_BLOCKS + 1
        try:
            found = measure_by_hand(self._runs, self.options, step, incumbent, done, first_block=first_block)
        except Unjudged as error:
            return StepResult(step, DROP, error.one_line, interleaved=False)
        assert step.by_hand is not None, "a person does it"
        why = found.why(alternate=step.by_hand.alternate)
        return StepResult(
            step, found.outcome, why, {}, found.comparison, found.blocks, interleaved=False, again=found.again
        )

    def _prove(self) -> None:
        """Measure baseline, all kept steps, and all but each one of them, in fresh blocks.

        What people did stays as it is in every arm: it is not theirs to undo and do again for each pair.
        """
        found, options = self._found, self.options
        kept = [climb for climb in found.kept if climb.settings]
        if not kept:
            return
        everything, done = self._composed(found.kept)
        arms = {BASE: found.baseline, ALL: everything}
        roles = {BASE: Role.BASELINE, ALL: Role.CONFIRM}
        if len(kept) > 1:
            for climb in kept:
                name = WITHOUT + climb.step.name
                arms[name], roles[name] = self._composed([c for c in found.kept if c is not climb])[0], Role.EFFECT
        each = ", each step left out once" if len(kept) > 1 else ""
        self._announce(f"proof: the kept configuration ({len(kept)} of the steps) in fresh blocks{each}")

        def is_enough(blocks: Blocks) -> bool:
            verdict = verdict_of(blocks, BASE, ALL, options.metric, self.design)
            if verdict is not None:
                self._announce(
                    f"proof: block {verdict.pairs}: {verdict.sentence('the kept configuration', 'the baseline')}"
                )
            elif is_too_thin(blocks, (BASE, ALL), options.metric, self.design.min_pairs):
                return True
            asked = [arm for arm in blocks.arms if arm.startswith(WITHOUT)]
            others = [verdict_of(blocks, arm, ALL, options.metric, self.design) for arm in asked]
            return all(one is not None and is_final(one, self.design) for one in (verdict, *others))

        try:
            blocks = run_blocks(
                self._runs,
                arms,
                roles,
                seed=options.seed,
                first_block=PROOF_BLOCKS,
                max_blocks=self.design.max_pairs,
                is_enough=is_enough,
                factors=factors_of(done, "proof"),
                short_from=JUDGEABLE,
                spare=arms.keys() - {BASE, ALL},
            )
            comparison = compare_arms(blocks, BASE, ALL, options.metric, self.design)
        except (ArmUnmeasured, Unjudged) as error:  # what the steps have shown stays
            found.unproven = f"the kept steps together are not proved: {error.one_line}"
            self._announce(found.unproven)
            return
        left_out = {c.step.name: verdict_of(blocks, WITHOUT + c.step.name, ALL, options.metric, self.design)
                    for c in kept if WITHOUT + c.step.name in blocks.arms}  # fmt: skip
        effects = {name: verdict for name, verdict in left_out.items() if verdict is not None}
        if len(kept) == 1:
            effects = {kept[0].step.name: comparison.verdict}
        found.proof = StairProof(blocks, comparison, effects)


def notes_on(comparison: Comparison, blocks: Blocks) -> tuple[str, ...]:
    """Return what makes a verdict less certain than it could be: empty texts where nothing does."""
    runs = [trial for block in blocks.complete for trial in block.values()]
    return blocks.stopped_short, comparison.left_out, tighter_elsewhere(comparison, runs)


def _what(step: Step) -> str:
    if step.sweep is not None:
        return f"sweep of {step.sweep.knob} over {', '.join(step.sweep.values)}"
    if step.settings:
        return ", ".join(f"{knob} = {value}" for knob, value in step.settings.items())
    return "done by hand"


def _gain(verdict: Verdict) -> str:
    word = "" if verdict.word in (Word.BETTER, Word.WORSE) else f"{verdict.word.value}, "
    return f"{word}{verdict.metric.label} {verdict.interval}"


def _effect_text(noise: NoiseFloor) -> str:
    effect = noise.detectable(6)
    if effect is None:
        return f"what six pairs would show here is not known: {why_untold(noise.runs)}"
    return f"six pairs would show {100 * effect:.1f} % here"
