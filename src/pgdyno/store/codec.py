"""Rows and JSON from the dataclasses of `model`, and back.

A stored study outlives the code that wrote it: a field that came later has a default, and a round trip is tested for
all of them. Typed columns refuse numbers that are not finite; free JSON holds null there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace

from pgdyno.errors import StoreError
from pgdyno.model.change import ChangeRecord
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.results.parts import StudyResult
from pgdyno.model.shapes import Json, plain, shaped
from pgdyno.model.study import Study, StudyKind, result_type
from pgdyno.model.trial import LatencySummary, Outcome, Trial, TrialSpec, TrialState

Row = Mapping[str, object]


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


def to_row(record: Study | ChangeRecord) -> dict[str, object]:
    """Return the columns of table `study` or `change`."""
    return {field.name: to_json(getattr(record, field.name)) for field in fields(record)}


def change_from_row(row: Row) -> ChangeRecord:
    """Rebuild a change. Raises StoreError that names it when that is none."""
    try:
        return shaped(ChangeRecord, row, "the change", strict=False)
    except ValueError as error:
        raise _unreadable(f"change {row.get('id')}", error) from error


def study_to_row(study: Study) -> dict[str, object]:
    """Return the columns of table `study`. Raises StoreError on a plan that could not be read back."""
    for name, value in asdict(study.plan).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise StoreError(f"{name} of the load is {value}", hint="Give a number of seconds, sessions or CPUs.")
    return to_row(study)


def study_from_row(row: Row) -> Study:
    """Return the study that a row of table `study` holds. Raises StoreError that names it when that is none."""
    try:
        study = shaped(Study, {**row, "result": None}, "the study", strict=False)
        result = row["result"]
        return study if result is None else replace(study, result=result_from_json(study.kind, result))
    except ValueError as error:
        raise _unreadable(f'study "{row["id"]}"', error) from error


def _unreadable(what: str, error: Exception) -> StoreError:
    hint = "It was damaged, or written by a newer pgdyno; pgdyno store list shows the studies that can be read."
    return StoreError(f"{what} cannot be read", detail=str(error), hint=hint)


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


_LATENCY = tuple(field.name for field in fields(LatencySummary))


def outcome_to_row(outcome: Outcome) -> dict[str, object]:
    """Return the columns of table `trial` that a finished trial fills. Raises StoreError on a number not finite."""
    row = {field.name: getattr(outcome, field.name) for field in fields(outcome)}
    latency = row.pop("latency_ms")
    row |= {f"latency_{name}_ms": None if latency is None else getattr(latency, name) for name in _LATENCY}
    for name, value in row.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise StoreError(f'outcome "{name}" is {value}: what was not measured is None')
    return {name: to_json(value) for name, value in row.items()}


def trial_from_row(row: Row, settings: Iterable[tuple[str, str]], factors: Iterable[tuple[str, str]] = ()) -> Trial:
    """Return the trial that a row of table `trial` and its rows of `trial_setting` and `trial_factor` hold.

    Raises StoreError that names the trial when that is none.
    """
    try:
        state = TrialState(str(row["state"]))
        spec = shaped(TrialSpec, {**row, "configuration": BASELINE}, "the trial", strict=False)
        spec = replace(spec, configuration=Configuration(tuple(sorted(settings))), factors=dict(factors))
        outcome = None if state is TrialState.RUNNING else _outcome_from_row(row)
        return Trial(int(str(row["id"])), str(row["study_id"]), spec, state, outcome)
    except ValueError as error:
        raise _unreadable(f"trial {row['id']} of study {row['study_id']}", error) from error


def _outcome_from_row(row: Row) -> Outcome:
    latency = {name: row[f"latency_{name}_ms"] for name in _LATENCY}
    counters = row["counters"]
    if isinstance(counters, Mapping):  # what was not finite stands as null in it
        counters = {name: value for name, value in counters.items() if value is not None}
    own = {"latency_ms": None if latency["p50"] is None else latency, "counters": counters}
    return shaped(Outcome, {**row, **own}, "the outcome", strict=False)
