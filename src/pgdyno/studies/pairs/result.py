"""What the results of several kinds of study are made of, from their trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TypedDict

from pgdyno.knobs.catalogue import Catalogue, TakesEffect
from pgdyno.knobs.values import setting_text
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.facts import Facts
from pgdyno.model.linux import COUNTERPARTS
from pgdyno.model.record import PlanRecord
from pgdyno.model.results.bench import RunSummary
from pgdyno.model.results.parts import (
    Confirmation,
    InsideRun,
    Pair,
    PlanChange,
    RefusedTrial,
    RunsBesideOthers,
    Side,
)
from pgdyno.model.results.tune import Dropped, Effect, NoiseRecord, OddRun, Unmeasured
from pgdyno.model.study import Comparison
from pgdyno.model.trial import Outcome, Percentiles, Trial, TrialState
from pgdyno.model.verdict import Metric, Verdict
from pgdyno.stats.noise import NoiseFloor
from pgdyno.store.catalogue import Store
from pgdyno.studies.pairs.blocks import BASE, WINNER, Blocks
from pgdyno.studies.pairs.drowned import beside_others
from pgdyno.studies.pairs.judging import QUANTILES, median_of, representative
from pgdyno.trial.laboratory import Laboratory
from pgdyno.trial.plan_changes import plan_changes
from pgdyno.trial.run_evidence import read_evidence


def company_of(trials: Sequence[Trial]) -> RunsBesideOthers | None:
    """Return how many runs were used beside others, and of how many; None where none was."""
    used = sum(trial.state is TrialState.COMPLETE for trial in trials)
    beside = beside_others(trials)
    return RunsBesideOthers(runs=beside, of=used) if beside else None


def noise_floor(noise: NoiseFloor, runs: Sequence[Trial], odd: Trial | None, ratio: float | None) -> NoiseRecord:
    """Return the noise floor; `odd` is the run that was left out, None where none was.

    `noise` was estimated from `runs`; `ratio` is the figure of `odd` over the median of the others, None without `odd`.
    """
    return NoiseRecord(
        cv=noise.cv,
        pair_sd=noise.pair_sd,
        pairs=6,
        detectable=noise.detectable(6),
        runs=tuple(trial.id for trial in runs),
        odd=None if odd is None else OddRun(run=odd.id, ratio=ratio),
    )


def side_of(name: str, configuration: Configuration, runs: Sequence[Trial], facts: Facts) -> Side:
    """Return one side of a comparison, medians over its runs; each percentile is of a histogram of its own.

    `name` is what the side is called, and `configuration` what it sets; `facts` has the values before. `runs` are its
    trials, at least one.
    """
    p50, p95, p99 = (median_of(runs, metric) for metric in QUANTILES)
    return Side(
        name=name,
        settings=dict(configuration),
        before={knob: current_text(facts, knob) for knob in configuration},
        throughput=median_of(runs, Metric.THROUGHPUT),
        latency_ms=Percentiles(p50=p50, p95=p95, p99=p99),
        server_cpu_ms_per_tx=median_of(runs, Metric.SERVER_CPU),
        run=representative(runs),
    )


class ComparedParts(TypedDict):
    """What a comparison gives to a result."""

    verdict: Verdict
    others: tuple[Verdict, ...]
    baseline: Side
    winner: Side
    confirmation: Confirmation


def compared(comparison: Comparison, blocks: Blocks, facts: Facts) -> ComparedParts:
    """Return verdict, arms and the pairs behind them, with A as `baseline` and B as `winner`."""
    a, b = comparison.a, comparison.b
    return {
        "verdict": comparison.verdict,
        "others": comparison.others,
        "baseline": side_of(a, blocks.arms[a], blocks.trials(a), facts),
        "winner": side_of(b, blocks.arms[b], blocks.trials(b), facts),
        "confirmation": Confirmation(pairs=pairs_of(blocks, a, b, comparison.verdict.metric)),
    }


def pairs_of(blocks: Blocks, a: str = BASE, b: str = WINNER, metric: Metric = Metric.THROUGHPUT) -> tuple[Pair, ...]:
    """Return the paired figures block by block, with the trials they come from.

    `a` and `b` name arms of `blocks`; a block that lacks one of them is left out. Figures are of `metric`, in its unit,
    and None where a trial has none.
    """
    return tuple(
        Pair(
            block=number,
            a=block[a].figure(metric),
            b=block[b].figure(metric),
            a_run=block[a].id,
            b_run=block[b].id,
        )
        for number, block in enumerate(blocks.complete, start=1)
        if a in block and b in block
    )


def run_figures(trial: Trial) -> RunSummary:
    """Return one run, as `bench --json` prints it."""
    outcome = trial.outcome or Outcome(state=trial.state)
    return RunSummary(
        run=trial.id,
        state=trial.state,
        reason=outcome.reason,
        tps=outcome.throughput,
        latency_ms=outcome.latency_ms,
        transactions=outcome.transactions,
        failed=outcome.failed,
        retried=outcome.retried,
        skipped=outcome.skipped,
        driver_cpu_s=outcome.driver_cpu_s,
        server_cpu_s=outcome.server_cpu_s,
        server_cpu_ms_per_tx=outcome.server_cpu_ms_per_tx,
        foreign_cpu_pct=outcome.foreign_cpu_pct,
        steal_pct=outcome.steal_pct,
        settings_fingerprint=outcome.settings_fingerprint,
        counters=outcome.counters,
        warnings=outcome.warnings,
    )


class StudyParts(TypedDict):
    """What a study gives to its result, whatever its kind."""

    study: str
    trials: Mapping[str, int]
    environment: str
    elapsed_s: float


def parts_of(laboratory: Laboratory) -> StudyParts:
    """Return what the result of a study has whose runs a laboratory made."""
    study = laboratory.study
    return {
        "study": study.id,
        "trials": count_states(laboratory.store.trials(study.id)),
        "environment": study.environment,
        "elapsed_s": laboratory.spent_s,
    }


def count_states(trials: Sequence[Trial]) -> dict[str, int]:
    """Return how many trials ended in each state."""
    return dict(Counter(trial.state.value for trial in trials))


def refusals(trials: Sequence[Trial]) -> tuple[RefusedTrial, ...]:
    """Return the trials that could not be measured, with the reason."""
    lost = (TrialState.REFUSED, TrialState.VOID, TrialState.FAILED)
    return tuple(
        RefusedTrial(run=t.id, state=t.state, settings=dict(t.spec.configuration), reason=t.reason or None)
        for t in trials
        if t.state in lost
    )


def current_text(facts: Facts, knob: str) -> str:
    """Return the value that a knob had when the study began, as PostgreSQL's SHOW or the kernel writes it."""
    setting = facts.row(knob)
    if setting is None:
        return "unknown"
    try:
        return setting_text(setting, float(setting.setting))
    except ValueError:
        return setting.setting


def effects_of(
    effects: Mapping[str, Verdict], winner: Configuration, facts: Facts, catalogue: Catalogue
) -> tuple[Effect, ...]:
    """Return each retained setting with its measured effect, the largest first.

    `effects` are the verdicts of the winner against the winner without one setting, by that setting's name; `facts` and
    `catalogue` say what the server had before and what a knob costs.
    """
    rows = sorted(effects.items(), key=lambda item: -abs(item[1].interval.ratio - 1))
    return tuple(
        Effect(**asdict(_retained(knob, winner, facts, catalogue)), interval=verdict.interval, word=verdict.word)
        for knob, verdict in rows
    )


def unmeasured_of(
    effects: Mapping[str, Verdict], winner: Configuration, facts: Facts, catalogue: Catalogue
) -> tuple[Unmeasured, ...]:
    """Return each retained setting whose own effect was not measured; arguments as in `effects_of`.

    `winner` has all that are retained, `effects` the verdicts on those that were measured, by setting; `facts` and
    `catalogue` say what the server had before and what a knob costs.
    """
    return tuple(_retained(knob, winner, facts, catalogue) for knob in winner if knob not in effects)


def _retained(knob: str, winner: Configuration, facts: Facts, catalogue: Catalogue) -> Unmeasured:
    return Unmeasured(
        knob=knob,
        before=current_text(facts, knob),
        after=winner[knob],
        why=catalogue[knob].why,
        durability=catalogue[knob].durability.value,
        context=_context(facts, catalogue, knob),
    )


def _context(facts: Facts, catalogue: Catalogue, knob: str) -> str:
    """Return what it takes to bring a knob into force, in the words of `pg_settings.context`."""
    row = facts.row(knob)
    restart = catalogue[knob].takes_effect is TakesEffect.RESTART
    return "postmaster" if restart or row is None else row.context


def dropped_of(dropped: Configuration, because: Mapping[str, str], facts: Facts) -> tuple[Dropped, ...]:
    """Return the settings that were found and did not stay, each with the reason."""
    return tuple(
        Dropped(knob=knob, before=current_text(facts, knob), after=value, why=because.get(knob))
        for knob, value in dropped.items()
    )


def fragment_text(winner: Configuration, facts: Facts) -> str:
    """Return the winner as lines of a postgresql.conf, with a comment on each knob that ALTER SYSTEM sets here."""
    server = winner.postgresql()
    above = (
        f"# {knob} is set by ALTER SYSTEM, which outranks this file: ALTER SYSTEM RESET {knob}; takes that away\n"
        for knob in server
        if knob in facts.by_alter_system
    )
    return server.fragment() + "".join(above)


def undo_text(winner: Configuration, facts: Facts) -> str:
    """Return the lines of a postgresql.conf that take the winner back to what was there before.

    What is not in that file, Linux knobs and what ALTER SYSTEM had set, is told by comments.
    """
    if winner == BASELINE:
        return ""
    lines = [f"# Linux: {_previous(knob, facts)} was in force\n" for knob in winner.linux()]
    for knob in winner.postgresql():
        before = Configuration.of({knob: current_text(facts, knob)}).fragment()
        if facts.settings[knob].source == "default":
            lines.append(f"# {knob}: remove the line; the default of {current_text(facts, knob)} comes back\n")
        elif knob in facts.by_alter_system:
            lines.append(f"# {knob}: remove the line; ALTER SYSTEM SET {before.strip()}; sets it again\n")
        else:
            lines.append(before)
    return "".join(lines)


def _previous(knob: str, facts: Facts) -> str:
    """Return what a Linux knob was; of two counterparts the one that counted."""
    other = COUNTERPARTS.get(knob)
    counted = other if other is not None and current_text(facts, knob) == "0" else knob
    return f"{counted} = {current_text(facts, counted)}"


class Inside(TypedDict):
    """What the runs of both sides give to a result."""

    inside: Mapping[str, InsideRun]
    plans: tuple[PlanChange, ...]


def inside(laboratory: Laboratory, blocks: Blocks, a: str, b: str, *, b_is: str | None = None) -> Inside:
    """Return `inside` (the evidence of each side's representative run, by arm) and `plans`.

    `a` and `b` name arms of `blocks`, whose trials `laboratory` made. `b_is` is what the result calls B where the arm
    has another name; with None it has that of the arm.
    """
    store, study = laboratory.store, laboratory.study
    found = {}
    for name, arm in ((a, a), (b_is or b, b)):
        run = representative(blocks.trials(arm))
        found[name] = InsideRun(run=run, evidence=read_evidence(store, study, store.trial(run)))
    return {"inside": found, "plans": plans_of(store, blocks, a, b)}


def plans_of(store: Store, blocks: Blocks, a: str, b: str) -> tuple[PlanChange, ...]:
    """Return the statements of arms `a` and `b` with their plans, those whose shape changed first.

    `blocks` has the trials, and `store` the plans that were recorded with them.
    """
    before, after = ([store.records(trial.id, PlanRecord) for trial in blocks.trials(arm)] for arm in (a, b))
    return tuple(plan_changes(before, after))
