"""What an A/B comparison comes to."""

from __future__ import annotations

from dataclasses import dataclass

from pgdyno.errors import ExitCode
from pgdyno.model.results.parts import EXIT_CODES, Compared


@dataclass(frozen=True, slots=True, kw_only=True)
class AbResult(Compared):
    """B against A. `notes` are sentences on the pairs."""

    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> ExitCode:
        """Return what the verdict's word says."""
        return ExitCode.NOT_RESOLVED if self.verdict is None else EXIT_CODES[self.verdict.word]
