"""What a self-test comes to: cases with what was expected and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pgdyno.errors import ExitCode
from pgdyno.model.results.parts import Pair, StudyResult
from pgdyno.model.shapes import OMITTED
from pgdyno.model.verdict import Verdict, Word


class CaseWord(StrEnum):
    """How a case ended."""

    AS_EXPECTED = "pass"
    MISSED = "fail"
    NOT_RESOLVED = "not resolved here"


_CODES = {
    CaseWord.AS_EXPECTED: ExitCode.OK,
    CaseWord.MISSED: ExitCode.FINDINGS,
    CaseWord.NOT_RESOLVED: ExitCode.NOT_RESOLVED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRecord:
    """One case; the last one, whether the server was restored, has no workload and no verdict."""

    name: str
    what: str
    harm: str
    workload: Annotated[str, OMITTED] = ""
    settings: Mapping[str, str]
    expected: tuple[Word, ...]
    result: CaseWord
    reason: str | None
    verdict: Verdict | None
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelftestResult(StudyResult):
    """All cases."""

    cases: tuple[CaseRecord, ...]
    word: CaseWord
    title: str

    @property
    def exit_code(self) -> ExitCode:
        """Return 0 when all cases pass, 1 when one fails, 3 when one cannot be resolved."""
        return _CODES[self.word]
