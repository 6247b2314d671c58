"""What a comparison says beside its verdict: what held each side back, and whose plans changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from pgdyno.model.record import PlanRecord
from pgdyno.model.results.parts import InsideRun, PlanChange
from pgdyno.store.catalogue import Store
from pgdyno.studies.pairs.blocks import Blocks
from pgdyno.studies.pairs.judging import representative
from pgdyno.trial.laboratory import Laboratory
from pgdyno.trial.plan_changes import plan_changes
from pgdyno.trial.run_evidence import read_evidence


class Inside(TypedDict):
    """What the runs of both sides give to a result."""

    inside: Mapping[str, InsideRun]
    plans: tuple[PlanChange, ...]


def inside(laboratory: Laboratory, blocks: Blocks, a: str, b: str, *, b_is: str | None = None) -> Inside:
    """Return `inside` (the evidence of each side's representative run, by arm) and `plans`.

    `b_is` is what the result calls B where the arm has another name.
    """
    store, study = laboratory.store, laboratory.study
    found = {}
    for name, arm in ((a, a), (b_is or b, b)):
        run = representative(blocks.trials(arm))
        found[name] = InsideRun(run=run, evidence=read_evidence(store, study, store.trial(run)))
    return {"inside": found, "plans": plans_of(store, blocks, a, b)}


def plans_of(store: Store, blocks: Blocks, a: str, b: str) -> tuple[PlanChange, ...]:
    """Return the statements of arms `a` and `b` with their plans, those whose shape changed first."""
    before, after = ([store.records(trial.id, PlanRecord) for trial in blocks.trials(arm)] for arm in (a, b))
    return tuple(plan_changes(before, after))
