"""What is special to a batch chain."""

from __future__ import annotations

from pgdyno.model.results.batch import BatchResult
from pgdyno.model.study import Study
from pgdyno.report.judgement import Judgement
from pgdyno.studies.batch.words import judgement
from pgdyno.studies.kind import Kind


class BatchKind(Kind):
    """Executions of a batch chain, run here or recorded by another scheduler."""

    has_sessions = False

    def after_kill(self, study: Study) -> str:
        """Return that what was done stays."""
        return "what its jobs had done stays done"

    def judged(self, study: Study) -> Judgement | None:
        """Return whether its jobs succeeded; what its windows are against the reference, `batch compare` says."""
        result = study.told(BatchResult)
        return None if result is None else judgement(result)


KIND = BatchKind()
