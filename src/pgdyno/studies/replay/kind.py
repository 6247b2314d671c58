"""What is special to a replay."""

from __future__ import annotations

from pgdyno.report.sections import Report
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.kind import Kind


class ReplayKind(Kind):
    """A captured load, sent to another server."""

    def page(self, record: StudyRecord) -> Report:
        """Return how the schedule was kept, and how the answers stand to the captured ones."""
        from pgdyno.studies.replay.page import replay_page

        return replay_page(record)


KIND = ReplayKind()
