"""A chain's executions as a study of the store: the study that begins, and what another scheduler recorded."""

from __future__ import annotations

from pgdyno.model.configuration import BASELINE
from pgdyno.model.results.batch import BatchResult
from pgdyno.model.study import PRINTED, StudyKind
from pgdyno.model.trial import LoadPlan, Outcome, Role, TrialSpec, TrialState, WorkloadSpec
from pgdyno.store.catalogue import Store
from pgdyno.studies.batch.chain import Chain
from pgdyno.studies.batch.recorded import Recorded
from pgdyno.studies.session.new_study import imported_study, keep_import, sha256_of


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

    `name` and `text` are those of the file, of which name and checksum are kept.
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
