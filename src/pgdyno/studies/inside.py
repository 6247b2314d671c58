"""What a comparison says beside its verdict: what held each side back, and whose plans changed."""

from __future__ import annotations

from pgdyno.model.record import PlanRecord
from pgdyno.store.catalogue import Store
from pgdyno.studies.blocks import Blocks
from pgdyno.studies.judging import representative
from pgdyno.trial.laboratory import Laboratory
from pgdyno.trial.plan_changes import plan_changes
from pgdyno.trial.run_evidence import read_evidence


def inside_json(
    laboratory: Laboratory, blocks: Blocks, a: str, b: str, *, b_is: str | None = None
) -> dict[str, object]:
    """Return the members `inside` (the evidence of each side's representative run, by arm) and `plans`.

    `b_is` is what the result calls B where the arm has another name.
    """
    store, study = laboratory.store, laboratory.study
    inside: dict[str, object] = {}
    for name, arm in ((a, a), (b_is or b, b)):
        run = representative(blocks.trials(arm))
        evidence = None if run is None else read_evidence(store, study, store.trial(run))
        inside[name] = None if evidence is None else {"run": run, **evidence.to_json()}
    return {"inside": inside, "plans": plans_json(store, blocks, a, b)}


def plans_json(store: Store, blocks: Blocks, a: str, b: str) -> list[dict[str, object]]:
    """Return the statements of both sides with their plans, those whose shape changed first."""
    before, after = ([store.records(trial.id, PlanRecord) for trial in blocks.trials(arm)] for arm in (a, b))
    return [change.to_json() for change in plan_changes(before, after)]
