"""Rows and JSON from the dataclasses of `model`, and back.

Explicit on purpose: a stored study outlives the code that wrote it, so each field has its converter here, and a
round trip is tested for all of them. Typed columns refuse numbers that are not finite; free JSON holds null there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import TypedDict, TypeVar

from pgdyno.errors import StoreError
from pgdyno.model.change import ChangeAction, ChangeRecord
from pgdyno.model.configuration import Configuration
from pgdyno.model.results.kinds import result_type
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.shapes import Json, plain, shaped
from pgdyno.model.study import Study, StudyKind, StudyState
from pgdyno.model.trial import LatencySummary, LoadPlan, Outcome, Role, Trial, TrialSpec, TrialState, WorkloadSpec

_NO_VALUE = (ValueError, KeyError, TypeError, StoreError)
"""What comes of a row that holds no study or no trial."""
Row = Mapping[str, object]
T = TypeVar("T", str, int, bool)


def to_json(value: object) -> Json:
    """Return plain JSON, as `model.shapes.plain`. Raises StoreError on what cannot be kept as JSON."""
    try:
        return plain(value)
    except TypeError as error:
        raise StoreError(str(error).partition(":")[0], detail=str(error)) from error


def result_from_json(kind: StudyKind, value: object) -> StudyResult:
    """Return the result of a study of this kind, whichever version wrote it. Raises ValueError that names the field.

    What a later version added is passed over; what an earlier one did not have yet has the default of its field.
    """
    return shaped(result_type(kind), value, "the result", strict=False)


def change_to_row(change: ChangeRecord) -> dict[str, object]:
    """Return the columns of table `change`."""
    return {field.name: to_json(getattr(change, field.name)) for field in fields(change)}


def change_from_row(row: Row) -> ChangeRecord:
    """Rebuild a change."""
    texts = {name: str(row[name]) for name in ("who", "target", "environment", "session", "rule", "knob")}
    old, new, study = (None if row[name] is None else str(row[name]) for name in ("old", "new", "study"))
    at, action = float(str(row["at"])), ChangeAction(str(row["action"]))
    return ChangeRecord(at=at, action=action, old=old, new=new, study=study, **texts)


def study_to_row(study: Study) -> dict[str, object]:
    """Return the columns of table `study`. Raises StoreError on a plan that could not be read back."""
    for name, value in asdict(study.plan).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise StoreError(f"{name} of the load is {value}", hint="Give a number of seconds, sessions or CPUs.")
    return {
        "id": study.id,
        "kind": study.kind.value,
        "name": study.name,
        "state": study.state.value,
        "created_at": study.created_at,
        "target": study.target,
        "environment": study.environment,
        "facts": to_json(study.facts),
        "workload": to_json(study.workload),
        "plan": to_json(study.plan),
        "options": to_json(study.options),
        "result": to_json(study.result),
    }


def study_from_row(row: Row) -> Study:
    """Return the study that a row of table `study` holds. Raises StoreError that names it when that is none."""
    try:
        return _study(row)
    except _NO_VALUE as error:
        raise _unreadable(f'study "{row["id"]}"', error) from error


def _unreadable(what: str, error: Exception) -> StoreError:
    said = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
    hint = "It was damaged, or written by a newer pgdyno; pgdyno store list shows the studies that can be read."
    return StoreError(f"{what} cannot be read", detail=said, hint=hint)


def _study(row: Row) -> Study:
    result, kind = row["result"], StudyKind(_required(row, "kind", str))
    return Study(
        id=_required(row, "id", str),
        kind=kind,
        name=_required(row, "name", str),
        state=StudyState(_required(row, "state", str)),
        created_at=_float(row, "created_at"),
        target=_required(row, "target", str),
        environment=_required(row, "environment", str),
        facts=_mapping(row["facts"], "facts"),
        workload=workload_from_json(_mapping(row["workload"], "workload")),
        plan=plan_from_json(_mapping(row["plan"], "plan")),
        options=_mapping(row["options"], "options"),
        result=None if result is None else result_from_json(kind, result),
    )


def workload_from_json(row: Row) -> WorkloadSpec:
    """Return the workload that `to_json` wrote."""
    return WorkloadSpec(
        name=_required(row, "name", str),
        parameters=_parameters(_mapping(row["parameters"], "parameters")),
        fingerprint=_required(row, "fingerprint", str),
        description=_required(row, "description", str),
        read_only=_required(row, "read_only", bool),
        unit=_required(row, "unit", str),
        rows_per_transaction=_optional_float(row, "rows_per_transaction"),
    )


def plan_from_json(row: Row) -> LoadPlan:
    """Return the load plan that `to_json` wrote."""
    return LoadPlan(
        clients=_required(row, "clients", int),
        jobs=_required(row, "jobs", int),
        warmup_s=_float(row, "warmup_s"),
        measure_s=_float(row, "measure_s"),
        protocol=_required(row, "protocol", str),
        rate=_optional_float(row, "rate"),
        connect_each=_required(row, "connect_each", bool),
        reset=_required(row, "reset", str),
        seed=_optional(row, "seed", int),
        **_later(row),
    )


class _LaterPlan(TypedDict, total=False):
    """Fields of a plan that studies of an older pgdyno lack."""

    instances: int
    cpus: str
    instance_memory_bytes: int | None
    host: str
    instance_vcpus: float | None


def _later(row: Row) -> _LaterPlan:
    if "instances" not in row:
        return {}
    return {
        "instances": _required(row, "instances", int),
        "cpus": _required(row, "cpus", str),
        "instance_memory_bytes": _optional(row, "instance_memory_bytes", int),
        "host": _required(row, "host", str),
        "instance_vcpus": _optional_float(row, "instance_vcpus") if "instance_vcpus" in row else None,
    }


def spec_to_row(study_id: str, spec: TrialSpec) -> dict[str, object]:
    """Return the columns of table `trial` that are known when a trial begins."""
    return {
        "study_id": study_id,
        "role": spec.role.value,
        "arm": spec.arm,
        "block": spec.block,
        "slot": spec.slot,
        "repeats": spec.repeats,
        "configuration": spec.configuration.fingerprint(),
        "state": TrialState.RUNNING.value,
    }


_FLOATS = (
    "began_at",
    "elapsed_s",
    "steady_from",
    "ended_at",
    "throughput",
    "driver_cpu_s",
    "server_cpu_s",
    "server_cpu_ms_per_tx",
    "foreign_cpu_pct",
    "steal_pct",
)
_COUNTS = ("transactions", "failed", "retried", "skipped")
_LATENCY = ("p50", "p95", "p99", "p999", "max", "mean")


def outcome_to_row(outcome: Outcome) -> dict[str, object]:
    """Return the columns of table `trial` that a finished trial fills. Raises StoreError on a number not finite."""
    latency = outcome.latency_ms
    floats = {name: getattr(outcome, name) for name in _FLOATS}
    floats |= {f"latency_{name}_ms": None if latency is None else getattr(latency, name) for name in _LATENCY}
    for name, value in floats.items():
        if value is not None and not math.isfinite(value):
            raise StoreError(f'outcome "{name}" is {value}: what was not measured is None')
    return {
        "state": outcome.state.value,
        "reason": outcome.reason,
        **floats,
        **{name: getattr(outcome, name) for name in _COUNTS},
        "settings_fingerprint": outcome.settings_fingerprint,
        "counters": to_json(outcome.counters),
        "warnings": to_json(outcome.warnings),
    }


def trial_from_row(row: Row, settings: Iterable[tuple[str, str]], factors: Iterable[tuple[str, str]] = ()) -> Trial:
    """Return the trial that a row of table `trial` and its rows of `trial_setting` and `trial_factor` hold.

    Raises StoreError that names the trial when that is none.
    """
    try:
        return _trial(row, settings, factors)
    except _NO_VALUE as error:
        raise _unreadable(f"trial {row['id']} of study {row['study_id']}", error) from error


def _trial(row: Row, settings: Iterable[tuple[str, str]], factors: Iterable[tuple[str, str]]) -> Trial:
    state = TrialState(_required(row, "state", str))
    spec = TrialSpec(
        configuration=Configuration(tuple(sorted(settings))),
        role=Role(_required(row, "role", str)),
        arm=_required(row, "arm", str),
        block=_required(row, "block", int),
        slot=_required(row, "slot", int),
        repeats=_optional(row, "repeats", int),
        factors=dict(factors),
    )
    return Trial(
        id=_required(row, "id", int),
        study_id=_required(row, "study_id", str),
        spec=spec,
        state=state,
        outcome=None if state is TrialState.RUNNING else _outcome_from_row(row, state),
    )


def _outcome_from_row(row: Row, state: TrialState) -> Outcome:
    counters = _mapping(row["counters"], "counters")
    warnings = row["warnings"]
    if not isinstance(warnings, list):
        raise _damaged("warnings", warnings)
    return Outcome(
        state=state,
        reason=_optional(row, "reason", str),
        began_at=_float(row, "began_at"),
        elapsed_s=_float(row, "elapsed_s"),
        steady_from=_optional_float(row, "steady_from"),
        ended_at=_float(row, "ended_at"),
        throughput=_optional_float(row, "throughput"),
        latency_ms=_latency(row),
        transactions=_required(row, "transactions", int),
        failed=_required(row, "failed", int),
        retried=_required(row, "retried", int),
        skipped=_required(row, "skipped", int),
        driver_cpu_s=_optional_float(row, "driver_cpu_s"),
        server_cpu_s=_optional_float(row, "server_cpu_s"),
        server_cpu_ms_per_tx=_optional_float(row, "server_cpu_ms_per_tx"),
        foreign_cpu_pct=_optional_float(row, "foreign_cpu_pct"),
        steal_pct=_optional_float(row, "steal_pct"),
        settings_fingerprint=_optional(row, "settings_fingerprint", str),
        counters={name: _float(counters, name) for name, value in counters.items() if value is not None},
        warnings=tuple(str(warning) for warning in warnings),
    )


def _latency(row: Row) -> LatencySummary | None:
    if row["latency_p50_ms"] is None:
        return None
    p50, p95, p99, p999, highest, mean = (_float(row, f"latency_{name}_ms") for name in _LATENCY)
    return LatencySummary(p50=p50, p95=p95, p99=p99, p999=p999, max=highest, mean=mean)


def _damaged(name: str, value: object) -> StoreError:
    return StoreError(
        f'the store holds {value!r} where "{name}" belongs',
        hint="The row was not written by pgdyno: name another store with --store URL.",
    )


def _optional(row: Row, name: str, kind: type[T]) -> T | None:
    value = row[name]
    if value is None or isinstance(value, kind):
        return value
    raise _damaged(name, value)


def _required(row: Row, name: str, kind: type[T]) -> T:
    value = _optional(row, name, kind)
    if value is None:
        raise _damaged(name, value)
    return value


def _optional_float(row: Row, name: str) -> float | None:
    value = row[name]
    if value is None:
        return None
    if isinstance(value, int | float):
        return float(value)
    raise _damaged(name, value)


def _float(row: Row, name: str) -> float:
    value = _optional_float(row, name)
    if value is None:
        raise _damaged(name, value)
    return value


def _mapping(value: object, name: str) -> dict[str, object]:
    if isinstance(value, dict):
        return value
    raise _damaged(name, value)


def _parameters(row: Row) -> dict[str, str | int | float | bool]:
    for name, value in row.items():
        if not isinstance(value, str | int | float):
            raise _damaged(name, value)
    return {name: value for name, value in row.items() if isinstance(value, str | int | float)}
