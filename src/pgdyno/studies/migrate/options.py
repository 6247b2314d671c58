"""What a rehearsal is asked for beside its plan."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class MigrateOptions:
    """`max_seconds` bounds the whole; it ends when `stop_file` is there. A larger source than `max_bytes` is refused.

    `resume` names the study that goes on.
    """

    path: Path
    jobs: int
    window_s: float | None
    max_seconds: float
    stop_file: Path | None = None
    max_bytes: int | None = None
    resume: str | None = None
