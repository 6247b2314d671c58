"""What is special to a rehearsal of a migration."""

from __future__ import annotations

from pgdyno.model.results.migrate import MigrateResult
from pgdyno.model.study import Study
from pgdyno.report.judgement import Judgement
from pgdyno.studies.kind import Kind
from pgdyno.studies.migrate.words import judgement


class MigrateKind(Kind):
    """A migration rehearsed: phases with their times, the validation, and the verdict against the window."""

    def judged(self, study: Study) -> Judgement | None:
        """Return whether it fits into its window and all arrived."""
        result = study.told(MigrateResult)
        return None if result is None else judgement(result)


KIND = MigrateKind()
