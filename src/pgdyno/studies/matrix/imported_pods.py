"""Runs of load generators in a cluster as a matrix of this store: read from what their pods printed, never run here.

The same arithmetic makes the rows as for a matrix that was run here: generators merged, steady window found, cells in
repetitions. What only a look at the server's host tells, its CPU among it, is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pgdyno.errors import UsageError, WorkloadError
from pgdyno.fleet.merge import Part, merge
from pgdyno.fleet.pod_log import PodLog, PodRunLog
from pgdyno.knobs.policy import worst_class
from pgdyno.model.configuration import Configuration
from pgdyno.model.matrix import Cell
from pgdyno.model.results.matrix import MatrixResult
from pgdyno.model.study import Study, StudyKind
from pgdyno.model.trial import Outcome, Role, Trial, TrialSpec, TrialState
from pgdyno.store.catalogue import Store
from pgdyno.studies.matrix.result import data_sentence, rows_result
from pgdyno.studies.matrix.rows import CellRun, Surroundings, build_row, group_runs
from pgdyno.studies.matrix.run import label
from pgdyno.studies.session.new_study import imported_study, keep_import, sha256_of
from pgdyno.trial.assess import Bounds, assess
from pgdyno.workloads.registry import make_workload
from pgdyno.workloads.result import LoadResult, client_records

APART_S = 1.0
"""Pods that begin further apart than this are told: the gate was not at work, or the clocks of nodes differ."""
UNKNOWN = "of the server's host nothing was recorded: CPU % is not known"


@dataclass(frozen=True, slots=True)
class PodJob:
    """The pods of one Job whose output is there."""

    run: PodRunLog
    pods: tuple[PodLog, ...]


def jobs_of(pods: Iterable[PodLog]) -> list[PodJob]:
    """Return the Jobs in the order of their runs. Raises UsageError for a pod that appears twice, or unlike Jobs."""
    found: dict[int, list[PodLog]] = {}
    for pod in pods:
        found.setdefault(pod.run.number, []).append(pod)
    for number, each in found.items():
        if len({pod.run.told for pod in each}) > 1:
            raise UsageError(
                f"the pods of run {number} did not all run the same load: {', '.join(pod.name for pod in each)}",
                hint="Import the output of one set of manifests at a time.",
            )
        twice = next((pod for place, pod in enumerate(each) if pod.index in [one.index for one in each[:place]]), None)
        if twice is not None:
            raise UsageError(
                f'load generator {twice.index} of run {number} appears twice, also in "{twice.name}"',
                hint="Leave one of the files out.",
            )
    return [PodJob(each[0].run, tuple(each)) for _, each in sorted(found.items())]


def merged(job: PodJob) -> LoadResult:
    """Return the load of a Job as a whole; a pod without an end, or without output, makes it partial.

    Raises WorkloadError when no pod measured anything.
    """
    by_index = {pod.index: pod for pod in job.pods}
    missing = "its output is not among the files"
    parts = [
        Part(index, pod.result, pod.reason) if (pod := by_index.get(index)) is not None else Part(index, None, missing)
        for index in range(job.run.cell.instances)
    ]
    began = [part.result.began_at for part in parts if part.result is not None]
    if not began:
        raise WorkloadError(
            "no load generator measured anything",
            detail=parts[0].failure,
            hint="See what the pods say, and run run.sh beside the manifests again.",
        )
    plan = job.run.plan
    scale = job.run.cell.scale if job.run.cell.mode == "tpcb-like" else None
    return merge(parts, plan, began_at=min(began), scale=scale, cores=plan.connections)


def import_pods(store: Store, files: Sequence[tuple[PodLog, str]], *, target: str = "") -> MatrixResult:
    """Keep the runs of these pods as one matrix, each log with its text, and return its result.

    `target` is recorded as the study's target, "" for a sentence about the pods.
    """
    jobs = jobs_of(pod for pod, _ in files)
    first = jobs[0].run
    version = next((pod.version for pod, _ in files if pod.version), "")
    study = imported_study(
        StudyKind.MATRIX,
        "import pods",
        target or f"{first.cell.placement}, seen from load generators in a cluster",
        make_workload(first.cell.mode, {"scale": first.cell.scale}).spec(),
        first.plan,
        [(pod.name, sha256_of(text)) for pod, text in files],
        facts={"server": {"version": version}} if version else {},
    )

    def body() -> MatrixResult:
        for job in jobs:
            _keep(store, study, job)
        return _result(store, study, jobs)

    return keep_import(store, study, body)


def _keep(store: Store, study: Study, job: PodJob) -> None:
    run = job.run
    spec = TrialSpec(
        Configuration.of(run.settings),
        Role.CELL,
        label(run.cell),
        run.repetition,
        run.number,
        factors=run.cell.factors(),
    )
    number = store.begin_trial(study.id, spec)
    try:
        load = merged(job)
    except WorkloadError as error:
        store.finish_trial(number, Outcome(TrialState.FAILED, reason=error.one_line))
        return
    samples = [row for pod in job.pods for row in pod.samples]
    outcome = _outcome(load, run)
    sizes = [float(pod.database_bytes) for pod in job.pods if pod.database_bytes is not None]
    outcome = replace(outcome, counters={**outcome.counters, **({"database_bytes": sizes[0]} if sizes else {})})
    store.add_samples(number, samples)
    store.add_histograms(number, load.histograms)
    window = load.log.between(outcome.steady_from or load.began_at, load.ended_at)
    store.add_records(number, [*load.instances, *client_records(window)])
    store.finish_trial(number, outcome)


def _outcome(load: LoadResult, run: PodRunLog) -> Outcome:
    if load.reason is not None:
        return Outcome(
            TrialState.FAILED, reason=load.reason, began_at=load.began_at, ended_at=load.ended_at,
            transactions=load.transactions, driver_cpu_s=load.driver_cpu_s,
        )  # fmt: skip
    return assess(load, (), run.plan, Bounds())


def _result(store: Store, study: Study, jobs: Sequence[PodJob]) -> MatrixResult:
    trials = store.trials(study.id)
    runs = group_runs([_cell_run(store, trial) for trial in trials])
    around = Surroundings(durability=_durability(jobs))
    cells = dict.fromkeys(job.run.cell for job in jobs)
    rows = [replace(build_row(cell, runs.get(cell, []), around), driver_cpu_pct=None) for cell in _in_order(cells)]
    driver = "The load generators ran as pods of a cluster, away from the database's host."
    return replace(
        rows_result(study.id, rows, driver=driver, method=_method(jobs[0].run, jobs)),
        data=data_sentence([False]),
        network=dict(jobs[0].run.network),
        notes=tuple(_notes(jobs)),
        environment=study.environment,
        elapsed_s=sum(t.outcome.ended_at - t.outcome.began_at for t in trials if t.outcome is not None),
    )


def _cell_run(store: Store, trial: Trial) -> CellRun:
    return CellRun(trial, locks=store.samples(trial.id, "locks"), sessions=store.samples(trial.id, "sessions"))


def _durability(jobs: Sequence[PodJob]) -> Mapping[str, str]:
    found = {job.run.cell.configuration: worst_class(job.run.settings) for job in jobs}
    return {name: klass.value for name, klass in found.items() if klass is not None}


def _in_order(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells as a plan lists them: the baseline first, the smallest load first."""
    return sorted(
        cells,
        key=lambda cell: (
            cell.configuration != "default", cell.configuration, cell.smt, cell.server_cpus, cell.placement,
            cell.mode != "tpcb-like", cell.mode, cell.scale, cell.instances, cell.clients, cell.jobs,
        ),
    )  # fmt: skip


def _method(run: PodRunLog, jobs: Sequence[PodJob]) -> dict[str, str]:
    plan = run.plan
    pod = [f"{plan.instance_vcpus:g} CPUs"] if plan.instance_vcpus is not None else []
    pod += [f"{plan.instance_memory_bytes / 2**30:.3g} GiB"] if plan.instance_memory_bytes is not None else []
    return {
        "each run": f"warm-up until steady, at most {plan.warmup_s:g} s and not counted, then {plan.measure_s:g} s",
        "repetitions": f"{len({job.run.repetition for job in jobs})}, in the order of the manifests",
        "before each run": "pgbench's tables recreated and a checkpoint, by the first pod",
        "start": "a gate in the database, which opens when the last pod has come",
        "protocol": plan.protocol,
        "clients": "a closed loop, connections kept (never pgbench -C)",
        "settings": "as run.sh asked for them; pgdyno did not see whether they were in force",
        f"shape of a pod of {run.cell.instances}": ", ".join(pod) or "no bound",
    }


def _notes(jobs: Sequence[PodJob]) -> list[str]:
    notes = [f"{UNKNOWN[0].upper()}{UNKNOWN[1:]}."]
    for job in jobs:
        began = [pod.result.began_at for pod in job.pods if pod.result is not None]
        if began and max(began) - min(began) > APART_S:
            apart = f"{max(began) - min(began):.1f}"
            notes.append(f"Run {job.run.number}: its pods began up to {apart} s apart, by the clocks of their nodes.")
        notes += [f"Run {job.run.number}, pod {pod.index}: {note}." for pod in job.pods for note in pod.notes]
    return notes
