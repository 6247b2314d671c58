"""What an execution of a chain is asked for beside its file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """`max_seconds` bounds the whole, restores included; the run ends when `stop_file` is there."""

    path: Path
    executions: int
    max_seconds: float
    stop_file: Path | None = None
