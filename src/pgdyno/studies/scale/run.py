"""scale: levels of load on hardware in proportion, and a client curve, in interleaved repetitions.

Each repetition runs every level and every load of the curve once, in a new random order. A level's bounds are a
configuration of the session: the undo bundle has them first, and the end of the session removes them. The
load generator is started outside of them. A level with a server of its own has a study and a session of that server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pgdyno.model.bottleneck import WORDS, BottleneckVerdict, Resource
from pgdyno.model.results.scale import LevelFigures, ScaleResult
from pgdyno.model.study import Study
from pgdyno.model.trial import LoadPlan, Trial, TrialSpec, TrialState
from pgdyno.report.facts_image import FactsImage, host_of
from pgdyno.stats.histogram import LatencyHistogram
from pgdyno.store.catalogue import Store
from pgdyno.studies.matrix.rows import CellRun, held_locks, host_cpu
from pgdyno.studies.pairs.blocks import REPEATED, REPEATS, is_repeated
from pgdyno.studies.pairs.result import count_states
from pgdyno.studies.scale.plan import CONNECTIONS, LEVEL, PlannedLevel, ScalePlan
from pgdyno.studies.scale.runs import BottleneckWords, ScaleRun, curve_of, levels_of
from pgdyno.studies.session.guarding import Halting
from pgdyno.studies.session.study_session import StudySession
from pgdyno.targets.target import Target
from pgdyno.trial.laboratory import Laboratory
from pgdyno.trial.run_evidence import read_evidence
from pgdyno.trial.stopwatch import BudgetSpent
from pgdyno.workloads.protocol import Workload
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.sized import SizedWorkload
from pgdyno.workloads.template import checkpoint

BOUND_USED = 0.9
"""A level that uses more of its CPUs than this is limited by them, where nothing else says so."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A workload whose data are there, and how it changes the plan of a run."""

    planned: Callable[[LoadPlan], LoadPlan]
    workload: Workload


def run_scale(
    sessions: Mapping[str, StudySession], plan: ScalePlan, halt: Halting, announce: Callable[[str], None]
) -> str:
    """Run every repetition; return why not all were made, empty where all were. Trials of before a kill are kept.

    `sessions` has one for each of the `plan`'s targets, by its name (empty: the study's own server). `halt` is given
    the seconds under load of each run that is not recorded yet, and returns why to end before it, empty to go on;
    `announce` takes lines of progress.
    """
    workloads = dict[str, Prepared]()
    for target, session in sessions.items():
        workloads |= _prepared(session, plan, target)
        session.laboratory.expect(plan.runs_on(target))

    def level_of(spec: TrialSpec) -> PlannedLevel | None:
        level = spec.factors.get(LEVEL)
        return None if level is None else plan.level_named(level)

    def measure(spec: TrialSpec, laboratory: Laboratory) -> Trial:
        found = level_of(spec)
        level = None if found is None else found.name
        prepared = workloads[level or ""]
        connections = None if level else int(spec.factors[CONNECTIONS])
        load = plan.load(connections, None if found is None else plan.rate_of(found))
        return laboratory.run(spec, plan=prepared.planned(load), workload=prepared.workload)

    for repetition in range(1, plan.repetitions + 1):
        announce(f"repetition {repetition} of {plan.repetitions}")
        for slot, drawn in enumerate(plan.specs(repetition)):
            spec, found = replace(drawn, slot=slot), level_of(drawn)
            laboratory = sessions["" if found is None else found.server].laboratory
            for _ in range(1 + REPEATS):
                why = "" if laboratory.is_replaying else halt(plan.run_s)
                if why:
                    return why
                try:
                    trial = measure(spec, laboratory)
                except BudgetSpent as spent:
                    return str(spent)
                if not is_repeated(trial, REPEATED, laboratory.company):
                    break
                spec = replace(spec, repeats=trial.id)
    return ""


class LevelWorkload(SizedWorkload):
    """A level's workload: every run begins with a checkpoint, so that all write alike many full pages."""

    def _settle(self, target: Target) -> None:
        checkpoint(target.postgres)


def _prepared(session: StudySession, plan: ScalePlan, target: str) -> dict[str, Prepared]:
    """Return the workload of each level of a server, and that of the client curve under no name, their data ready."""
    found = dict[str, Prepared]()
    made = dict[str, Prepared]()
    levels = (one for one in plan.levels if one.server == target)
    for level in (*levels, *([None] if plan.connections and not target else [])):
        inner = make_workload(plan.workload, plan.parameters_of(level))
        key = inner.spec().fingerprint
        if key not in made:
            made[key] = Prepared(inner.planned, LevelWorkload(inner))
            if inner.spec() != session.study.workload:  # the study's own is ready since the session was opened
                session.data.make_ready(inner, session.facts, policy=session.study.plan.reset)
        found["" if level is None else level.name] = made[key]
    return found


def scale_result(store: Store, studies: Mapping[str, Study], plan: ScalePlan, ended: str) -> ScaleResult:
    """Return what the store's runs come to; `studies` has that of each of the plan's targets.

    `studies` are keyed by target, as `plan` names them, and their runs are read from `store`. `ended` says why not all
    runs were made, empty where all were.
    """
    study, by_id = studies[plan.targets[0]], {one.id: one for one in studies.values()}
    trials = tuple(trial for one in by_id for trial in store.trials(one))
    runs = [_seen(store, plan, trial) for trial in trials if trial.state is not TrialState.ABANDONED]

    def judge(trial: Trial, busy: float | None) -> BottleneckWords:
        return bottleneck_words(read_evidence(store, by_id[trial.study_id], trial).bottleneck, busy)

    def placed(level: LevelFigures) -> LevelFigures:
        own = studies[plan.level_named(f"{level.percent:g}").server]
        level = replace(level, target=own.target, environment=own.environment, study="" if own is study else own.id)
        return level if len(studies) < 2 else on_host(level, host_of(own))

    return ScaleResult(
        study=study.id,
        plan=plan.name,
        reference=plan.reference,
        response=plan.criterion.metric.value,
        levels=tuple(map(placed, levels_of(plan, runs, judge))),
        curve=curve_of(plan, runs, judge),
        ended=ended,
        trials=count_states(trials),
        environment=study.environment,
        elapsed_s=sum(trial.outcome.elapsed_s for trial in trials if trial.outcome is not None),
    )


def on_host(level: LevelFigures, host: FactsImage) -> LevelFigures:
    """Return a level with the hardware of its server's host, and how much of these CPUs it used."""
    cpus, path_s, throughput = host.number("cores"), level.path_s, level.throughput
    busy = path_s * throughput / cpus if cpus and path_s is not None and throughput is not None else None
    return replace(level, cpus=cpus, memory_bytes=host.whole("memory_limit_bytes"), busy=busy)


def part_of(result: ScaleResult, store: Store, study: Study) -> ScaleResult:
    """Return what of a result is of one study with a server of its own: its levels, judged as in the whole."""
    levels, trials = (
        tuple(replace(one, study="") for one in result.levels if one.study == study.id),
        store.trials(study.id),
    )
    return replace(
        result,
        study=study.id,
        part_of=result.study,
        environment=study.environment,
        levels=levels,
        curve=None,
        trials=count_states(tuple(trials)),
    )


def bottleneck_words(verdict: BottleneckVerdict, busy: float | None) -> BottleneckWords:
    """Say what held a run back; a bound that is used up is seen by no judge who looks at the whole machine."""
    if busy is not None and busy >= BOUND_USED and verdict.resource not in (Resource.LOCKS, Resource.DISK):
        told = f"the server used {100 * busy:.0f} % of the level's CPUs"
        return BottleneckWords(words="the level's CPUs", evidence=(told, *verdict.evidence))
    return BottleneckWords(words=WORDS[verdict.resource], evidence=verdict.evidence)


def _seen(store: Store, plan: ScalePlan, trial: Trial) -> ScaleRun:
    """Return a run with its share of answers in time, the CPU of its host, and the locks that it held."""
    outcome, limit = trial.outcome, plan.criterion.within_ms
    within = None
    if outcome is not None and limit is not None:
        begin = outcome.steady_from or outcome.began_at
        blobs = [row.blob for row in store.histograms(trial.id) if begin <= row.second < outcome.ended_at]
        within = LatencyHistogram.merged(blobs).share_within(limit) if blobs else None
    sampled = CellRun(
        trial,
        locks=store.samples(trial.id, "locks"),
        sessions=store.samples(trial.id, "sessions"),
        cpu=store.samples(trial.id, "cpu"),
    )
    return ScaleRun(trial=trial, within=within, cpu_pct=host_cpu(sampled), locks=held_locks([sampled])[0])
