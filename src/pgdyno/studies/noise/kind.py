"""What is special to a noise study."""

from __future__ import annotations

from pgdyno.model.results.noise import MEASURED, NoiseResult
from pgdyno.model.study import Study
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Report, Tone
from pgdyno.report.study_record import StudyRecord
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

    def page(self, record: StudyRecord) -> Report:
        """Return the smallest effect that can be told here."""
        from pgdyno.studies.noise.page import noise_page

        return noise_page(record)


KIND = NoiseKind()
