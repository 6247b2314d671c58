"""What is special to a live study."""

from __future__ import annotations

from pgdyno.report.sections import Report
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.kind import Kind


class LiveKind(Kind):
    """A server under its users' own load."""

    def page(self, record: StudyRecord) -> Report:
        """Return what this server's own load lets one tell."""
        from pgdyno.studies.live.page import live_page

        return live_page(record)


KIND = LiveKind()
