"""What is special to a batch chain."""

from __future__ import annotations

from pgdyno.model.results.batch import BatchResult
from pgdyno.model.study import Study
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Report
from pgdyno.report.study_record import StudyRecord
from pgdyno.studies.batch.words import judgement
from pgdyno.studies.kind import Kind


class BatchKind(Kind):
    """Executions of a batch chain, run here or recorded by another scheduler."""

    def judged(self, study: Study) -> Judgement | None:
        """Return whether its jobs succeeded; what its windows are against the reference, `batch compare` says."""
        result = study.told(BatchResult)
        return None if result is None else judgement(result)

    def page(self, record: StudyRecord) -> Report:
        """Return its executions, job by job."""
        from pgdyno.studies.batch.page import batch_page

        return batch_page(record)


KIND = BatchKind()
