"""A chain's executions as a study of the store: how it begins, what another scheduler recorded, plans of statements.

Plans are asked for when an execution is over, so that no job's time has them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pgdyno.errors import PgdynoError
from pgdyno.model.configuration import BASELINE
from pgdyno.model.record import PlanRecord
from pgdyno.model.results.batch import BatchResult, JobEnd, JobRun
from pgdyno.model.results.parts import PlanChange
from pgdyno.model.study import PRINTED, StudyKind
from pgdyno.model.trial import LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.server.postgres import Postgres
from pgdyno.store.catalogue import Store
from pgdyno.studies.batch.chain import Chain, ChainJob, JobWork
from pgdyno.studies.batch.job_process import read_own
from pgdyno.studies.batch.recorded import Recorded
from pgdyno.studies.session.new_study import imported_study, keep_import, sha256_of
from pgdyno.trial.plan_changes import plan_changes
from pgdyno.workloads.script_statements import is_planned, label, split_script
from pgdyno.workloads.statement_plans import plan_records


def load_of(chain: Chain) -> WorkloadSpec:
    """Return the chain as a workload; its fingerprint is of what the jobs are and how they wait for each other."""
    seal = sha256_of(repr([(job.key, job.words, job.after) for job in chain.jobs.values()]))
    return WorkloadSpec("batch", {}, seal[:16], f"batch chain {chain.name}", read_only=False, unit="jobs")


def plan_of(chain: Chain, seconds: float) -> LoadPlan:
    """Return the chain as a plan: so many jobs at a time, for at most so long."""
    return LoadPlan(clients=chain.parallel, jobs=1, warmup_s=0.0, measure_s=seconds)


def spec_of(number: int) -> TrialSpec:
    """Return an execution as a trial."""
    return TrialSpec(BASELINE, Role.ARM, "batch", number, 0, factors={"execution": str(number)})


def keep_recorded(
    store: Store, chain: Chain, found: Recorded, *, name: str, text: str, target: str = ""
) -> BatchResult:
    """Keep what another scheduler recorded as one study, an execution a run, and return its result.

    `found` is what was read of the executions of `chain`, and `store` is where the study goes. `name` and `text` are
    those of the file, of which name and checksum are kept. `target` is the label of what the jobs ran on; empty where
    nobody named it.
    """
    study = imported_study(
        StudyKind.BATCH,
        f"import {chain.name}",
        target or "another machine, which the file does not name",
        load_of(chain),
        plan_of(chain, max(one.window_s for one in found.executions)),
        [(name, sha256_of(text))],
        options={PRINTED: True},
    )

    def body() -> BatchResult:
        for one in found.executions:
            run = store.begin_trial(study.id, spec_of(one.number))
            ended = one.began_at + one.window_s
            store.finish_trial(run, Outcome(TrialState.COMPLETE, began_at=one.began_at, ended_at=ended))
        return BatchResult(
            study=study.id,
            chain=chain.name,
            imported=True,
            executions=found.executions,
            jobs=found.jobs,
            no_peak="no samples of its hosts were recorded with the jobs",
        )

    return keep_import(store, study, body)


MOST = 200
"""Of so many statements plans are asked for, in the order of the chain."""
_SECRET = re.compile("password|secret", re.IGNORECASE)


def plans_of(server: Postgres, database: str, chain: Chain, jobs: Iterable[JobRun]) -> list[PlanRecord]:
    """Return the plan of each statement of the SQL jobs that succeeded, named by the job, as of now.

    `jobs` are the runs of an execution of `chain`, of which only the ends count; plans are asked for in `database` of
    `server`. One that cannot be planned any more, such as of a temporary table, is unknown with its reason; a statement
    that speaks of a password is left out, for plans are kept. At most MOST statements, in the order of the chain.
    Nothing is executed. Never raises for what the server does.
    """
    well = {one.key for one in jobs if one.end is JobEnd.SUCCEEDED}
    named = [(key, text) for key, job in chain.jobs.items() if key in well for text in _statements(job)][:MOST]
    found = {one.statement: one for one in plan_records(server, database, [text for _, text in named])}
    records = dict[str, PlanRecord]()
    for key, text in named:
        if (plan := found.get(label(text))) is not None:
            name = f"{key}: {plan.statement}"
            records[name] = PlanRecord(name, plan.shape, plan.plan)
    return list(records.values())


def changed_plans(store: Store, reference: BatchResult, found: BatchResult) -> list[PlanChange]:
    """Compare the plans of two studies' executions; a side that another scheduler ran has none."""
    sides = [
        [store.records(one.run, PlanRecord) for one in side.executions if one.run is not None and not side.imported]
        for side in (reference, found)
    ]
    return plan_changes(*sides) if all(any(side) for side in sides) else []


def _statements(job: ChainJob) -> Iterator[str]:
    text = ""
    if job.work is JobWork.SQL:
        text = job.words[0]
    elif job.work is JobWork.SQL_FILE:
        try:
            text = read_own(Path(job.words[0]))
        except PgdynoError:  # it was there when the job ran; who took it away since has taken its plans too
            return
    yield from (one for one in split_script(text) if is_planned(one) and not _SECRET.search(one))
