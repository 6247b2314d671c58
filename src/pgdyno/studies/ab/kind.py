"""What is special to an A/B experiment."""

from __future__ import annotations

from pgdyno.model.results.ab import AbResult
from pgdyno.model.study import Study
from pgdyno.report.judgement import Judgement, compared
from pgdyno.studies.kind import Kind


class AbKind(Kind):
    """Two configurations in interleaved pairs."""

    compares = True
    beside_others = True

    def judged(self, study: Study) -> Judgement | None:
        """Return the verdict in words."""
        result = study.told(AbResult)
        return None if result is None or result.verdict is None else compared(result, result.verdict, self.sides)


KIND = AbKind()
