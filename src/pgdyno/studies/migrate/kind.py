"""What is special to a rehearsal of a migration."""

from __future__ import annotations

from pgdyno.model.results.migrate import MigrateResult
from pgdyno.model.study import Study
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Report
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.kind import Kind
from pgdyno.studies.migrate.words import judgement


class MigrateKind(Kind):
    """A migration rehearsed: phases with their times, the validation, and the verdict against the window."""

    def judged(self, study: Study) -> Judgement | None:
        """Return whether it fits into its window and all arrived."""
        result = study.told(MigrateResult)
        return None if result is None else judgement(result)

    def page(self, record: StudyRecord) -> Report:
        """Return its phases, drawn as they overlapped, and what was found."""
        from pgdyno.studies.migrate.page import migrate_page

        return migrate_page(record)


KIND = MigrateKind()
