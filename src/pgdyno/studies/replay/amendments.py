"""What stands beside an outcome, held against what the store has of its run since before the first statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pgdyno.errors import UsageError
from pgdyno.model.study import StudyKind

if TYPE_CHECKING:
    from pgdyno.store.catalogue import Store
    from pgdyno.trace.outcome_file import OutcomeFacts

_FIXED = {
    "error_limit_percent": "a limit of errors in per cent of",
    "trace_digest": "a trace with the digest",
    "speed": "a speed of",
    "clock": "the clock",
    "order": "the order",
}
"""What is asked for before a run, as facts and study call it, and how it is said."""
_SAME_MOMENT_S = 0.001


@dataclass(frozen=True, slots=True)
class FixedBefore:
    """What was fixed before a run: its limit of errors and its speed, what was changed since, or why nobody knows."""

    error_limit_percent: float
    amendments: tuple[str, ...] = ()
    unknown: str = ""
    speed: float = 1.0


def fixed_before(name: str, facts: OutcomeFacts, store: Store | None) -> FixedBefore:
    """Return what was fixed before the run of the outcome `name`; where the store has it, the store decides."""
    limit, speed = facts.error_limit_percent, facts.speed
    if store is None or not facts.study:
        why = f"outcome {name} names no study: nobody can tell whether its limits are old"
        return FixedBefore(limit, unknown=why, speed=speed)
    try:
        study = store.study(facts.study)
    except UsageError:
        study = None
    if study is None or study.id != facts.study or study.kind is not StudyKind.REPLAY:
        why = (
            f"study {facts.study} of outcome {name} is not in the store {store.name}: nobody can tell whether its "
            "limits are old"
        )
        return FixedBefore(limit, unknown=why, speed=speed)
    asked = study.asked
    changed = [
        f"outcome {name} says {words} {getattr(facts, key)}, and {asked[key]} was fixed before its run"
        for key, words in _FIXED.items()
        if key in asked and asked[key] != getattr(facts, key)
    ]
    if abs(study.created_at - facts.began_at) > _SAME_MOMENT_S:
        changed.append(f"outcome {name} says that it began at another moment than its study {study.id}")
    kept, was = (
        float(value) if isinstance(value := asked.get(key), int | float) else read
        for key, read in (("error_limit_percent", limit), ("speed", speed))
    )
    return FixedBefore(kept, tuple(changed), speed=was)
