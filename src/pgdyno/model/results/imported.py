"""What an import of runs or samples of another tool comes to."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.model.results.parts import StudyResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedResult(StudyResult):
    """Sentences on what was read. `machine_told` says whether every file names the machine that it is of."""

    title: str
    word: str = "imported"
    machine_told: bool = False
    sentences: tuple[str, ...] = ()
    runs: tuple[int, ...] = ()
    state: str = "complete"
