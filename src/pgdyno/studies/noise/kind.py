"""What is special to a noise study."""

from __future__ import annotations

from pgdyno.report.sections import Report
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.kind import Kind


class NoiseKind(Kind):
    """Equal runs."""

    def page(self, record: StudyRecord) -> Report:
        """Return the smallest effect that can be told here."""
        from pgdyno.studies.noise.page import noise_page

        return noise_page(record)


KIND = NoiseKind()
