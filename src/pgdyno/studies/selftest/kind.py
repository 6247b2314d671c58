"""What is special to a self-test."""

from __future__ import annotations

from pgdyno.model.results.selftest import CaseWord, SelftestResult
from pgdyno.model.study import Study
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.studies.kind import Kind
from pgdyno.units import plural

_TONES = {CaseWord.AS_EXPECTED: Tone.GOOD, CaseWord.MISSED: Tone.BAD, CaseWord.NOT_RESOLVED: Tone.UNSURE}


class SelftestKind(Kind):
    """Comparisons whose answers are known beforehand."""

    def judged(self, study: Study) -> Judgement | None:
        """Return how many cases came out as they must."""
        result = study.told(SelftestResult)
        if result is None:
            return None
        passed = sum(case.result is CaseWord.AS_EXPECTED for case in result.cases)
        said = f"{passed} of {plural(len(result.cases), 'case')} as expected"
        alert = f"selftest {study.id}: {result.title}" if result.word is CaseWord.MISSED else ""
        return Judgement(result.title, result.word.value, _TONES[result.word], said, result.exit_code, alert)


KIND = SelftestKind()
