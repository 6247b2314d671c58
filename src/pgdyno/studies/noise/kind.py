"""What is special to a noise study."""

from __future__ import annotations

from pgdyno.model.results.noise import MEASURED, NoiseResult
from pgdyno.model.study import Study
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.studies.kind import Kind


class NoiseKind(Kind):
    """Equal runs."""

    def judged(self, study: Study) -> Judgement | None:
        """Return what an hour shows here."""
        result = study.told(NoiseResult)
        if result is None:
            return None
        tone = Tone.NEUTRAL if result.word == MEASURED else Tone.UNSURE
        return Judgement(result.title, result.word, tone, result.title, result.exit_code)


KIND = NoiseKind()
