"""What is special to a replay."""

from __future__ import annotations

from pgdyno.model.results.replay import ReplayResult
from pgdyno.model.study import Study
from pgdyno.report.judgement import Judgement
from pgdyno.studies.kind import Kind
from pgdyno.studies.replay.words import judgement


class ReplayKind(Kind):
    """A captured load, sent to another server."""

    def judged(self, study: Study) -> Judgement | None:
        """Return whether the run counts, and how it was answered."""
        result = study.told(ReplayResult)
        return None if result is None else judgement(result)


KIND = ReplayKind()
