"""One timed test of HammerDB, as its files tell of it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

_MOMENTS = (
    (re.compile(r"\b(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2})\b"), "%Y-%m-%d %H:%M:%S"),
    (re.compile(r"@ (\w{3} \w{3} +\d{1,2} \d{2}:\d{2}:\d{2}) \S+ (\d{4})"), "%a %b %d %H:%M:%S %Y"),
)


@dataclass(frozen=True, slots=True)
class ProcedureTime:
    """The times of one procedure: how often it was called, and milliseconds; None where the file does not say."""

    calls: int
    avg_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None


@dataclass(frozen=True, slots=True)
class HammerRun:
    """One timed test. `users` are its virtual users without the monitor; None is what the file does not say.

    `began_at` is the moment that the file tells, read as this machine's own time, because it has no zone. `machine` is
    what a summary says of server and host.
    """

    nopm: int
    tpm: int
    database: str
    users: int | None = None
    rampup_min: int | None = None
    duration_min: int | None = None
    warehouses: int | None = None
    version: str | None = None
    job: str | None = None
    began_at: float | None = None
    failed_users: int = 0
    machine: str | None = None
    procedures: Mapping[str, ProcedureTime] = field(default_factory=dict)


def moment(text: str) -> float | None:
    """Return the first moment of a text as this machine's own time, None where there is none."""
    for pattern, form in _MOMENTS:
        if match := pattern.search(text):
            try:
                return datetime.strptime(" ".join(match.groups()), form).timestamp()
            except (ValueError, OverflowError):
                continue
    return None
