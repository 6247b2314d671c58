"""What is special to a staircase."""

from __future__ import annotations

from pgdyno.report.sections import Report
from pgdyno.report.side_names import SideNames
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.kind import Kind


class StaircaseKind(Kind):
    """Steps on top of each other, each kept or not."""

    sides = SideNames("all kept", "the baseline")
    resumed_by = "experiment"
    compares = True

    def page(self, record: StudyRecord) -> Report:
        """Return what the steps bought, alone and together."""
        from pgdyno.studies.staircase.page import staircase_page

        return staircase_page(record)


KIND = StaircaseKind()
