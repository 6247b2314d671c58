"""What is special to a self-test."""

from __future__ import annotations

from pgdyno.report.sections import Report
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.kind import Kind


class SelftestKind(Kind):
    """Comparisons whose answers are known beforehand."""

    def page(self, record: StudyRecord) -> Report:
        """Return the cases with what was expected and found."""
        from pgdyno.studies.selftest.page import selftest_page

        return selftest_page(record)


KIND = SelftestKind()
