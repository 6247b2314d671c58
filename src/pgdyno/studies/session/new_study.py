"""How a study begins: its id, the study of a load that others make, and the place of what is read from files."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from pgdyno import __version__
from pgdyno.errors import ended_by
from pgdyno.model.facts import Facts
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.study import USERS_LOAD, VERSION, Study, StudyKind, StudyState
from pgdyno.model.trial import LoadPlan, WorkloadSpec
from pgdyno.store.catalogue import Store
from pgdyno.studies.session.environment_change import facts_image
from pgdyno.studies.session.target_request import TargetRequest
from pgdyno.targets.target import Target


def study_id(kind: StudyKind, at: float) -> str:
    """Return a new id: the moment in UTC, the kind, and letters by lot that tell studies of one second apart."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(at))}-{kind.value}-{secrets.token_hex(2)}"


def version_option() -> dict[str, object]:
    """Return the option that says which pgdyno begins a study."""
    return {VERSION: __version__}


R = TypeVar("R", bound=StudyResult)


def keep_import(store: Store, study: Study, body: Callable[[], R]) -> R:
    """Put a study of files into the store, complete it with the result of `body`, and return that.

    A study that cannot be kept to its end is marked as failed, with what was kept of it.
    """
    store.add_study(replace(study, options={**study.options, **version_option()}))
    try:
        result = body()
    except BaseException as error:
        store.update_study(study.id, state=StudyState.FAILED, ended=ended_by(error))
        raise
    store.update_study(study.id, state=StudyState.COMPLETE, result=result)
    return result


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a file's text in hexadecimal digits, as a study of files keeps it."""
    return hashlib.sha256(text.encode()).hexdigest()


def imported_study(
    kind: StudyKind,
    name: str,
    target: str,
    workload: WorkloadSpec,
    plan: LoadPlan,
    files: Iterable[tuple[str, str]],
    *,
    facts: Mapping[str, object] | None = None,
    options: Mapping[str, object] | None = None,
) -> Study:
    """Return the study of what others measured; `files` are those that it is read from, each with its SHA-256.

    `kind` and `name` are the study's kind and title, `target` the label of the machine or server that was measured;
    `workload` and `plan` say what ran there and for how long, as far as the files tell. `files` are (name, hexadecimal
    digits) pairs. `facts` has sections as `facts_image` has them ("host", "server"), None where nothing is known;
    `options` are kept beside the files, None for no others.
    """
    now = time.time()
    return Study(
        id=study_id(kind, now),
        kind=kind,
        name=name,
        state=StudyState.RUNNING,
        created_at=now,
        target=target,
        environment="unknown",
        facts=facts or {},
        workload=workload,
        plan=plan,
        options={**(options or {}), "files": [{"name": file, "sha256": seal} for file, seal in files]},
    )


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
    """Return the study, which runs from `began` on, in seconds since the epoch.

    `kind` is part of its id and the key under which `options`, what was asked for, are kept; `name` is its title.
    `target` is the open server and `facts` what was read of it; `request`, how it was asked for, is kept with the
    options. `seconds` is how long the load is watched, or may take; 0 without a bound.
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
