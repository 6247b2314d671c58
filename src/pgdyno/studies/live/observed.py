"""The study of a server under its users' own load, as it is when it begins: of `pgdyno live` and of `pgdyno watch`."""

from __future__ import annotations

from collections.abc import Mapping

from pgdyno.model.facts import Facts
from pgdyno.model.study import USERS_LOAD, Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, WorkloadSpec
from pgdyno.studies.session.environment_change import facts_image
from pgdyno.studies.session.new_study import study_id, version_option
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.target import Target


def observed_study(
    kind: StudyKind,
    name: str,
    request: TargetRequest,
    target: Target,
    facts: Facts,
    *,
    began: float,
    seconds: float,
    options: Mapping[str, object],
) -> Study:
    """Return the study, which runs from `began` on; `seconds` is how long the load is watched as it is.

    `options` are what was asked for, kept under the kind's word.
    """
    return Study(
        id=study_id(kind, began),
        kind=kind,
        name=name,
        state=StudyState.RUNNING,
        created_at=began,
        target=target.name,
        environment=facts.environment_hash(),
        facts=facts_image(facts),
        workload=WorkloadSpec(USERS_LOAD, {}, "", "the load of its users", read_only=False, unit="statements"),
        plan=LoadPlan(clients=1, jobs=1, warmup_s=0.0, measure_s=seconds),
        options={"target": request.to_json(), kind.value: dict(options), **version_option()},
    )
