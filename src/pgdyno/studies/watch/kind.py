"""What is special to a watch."""

from __future__ import annotations

from pgdyno.report.sections import Report
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.kind import Kind


class WatchKind(Kind):
    """What became slower, or was changed, on a server that nobody tunes."""

    def page(self, record: StudyRecord) -> Report:
        """Return what happened."""
        from pgdyno.studies.watch.page import watch_page

        return watch_page(record)


KIND = WatchKind()
