"""The plans of a chain's statements: asked for when an execution is over, so that no job's time has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from pgdyno.errors import PgdynoError
from pgdyno.model.record import PlanRecord
from pgdyno.model.results.batch import BatchResult, JobEnd, JobRun
from pgdyno.model.results.parts import PlanChange
from pgdyno.server.postgres import Postgres
from pgdyno.store.catalogue import Store
from pgdyno.studies.batch.chain import Chain, ChainJob, JobWork
from pgdyno.studies.batch.job_process import read_own
from pgdyno.trial.plan_changes import plan_changes
from pgdyno.workloads.script_statements import is_planned, label, split_script
from pgdyno.workloads.statement_plans import plan_records

MOST = 200
"""Of so many statements plans are asked for, in the order of the chain."""
_SECRET = re.compile("password|secret", re.IGNORECASE)


def plans_of(server: Postgres, database: str, chain: Chain, jobs: Iterable[JobRun]) -> list[PlanRecord]:
    """Return the plan of each statement of the SQL jobs that succeeded, named by the job, as of now.

    One that cannot be planned any more, such as of a temporary table, is unknown with its reason; a statement that
    speaks of a password is left out, for plans are kept. Nothing is executed. Never raises for what the server does.
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
