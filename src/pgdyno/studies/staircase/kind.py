"""What is special to a staircase."""

from __future__ import annotations

from pgdyno.model.results.staircase import StaircaseResult
from pgdyno.model.study import Study
from pgdyno.report.judgement import Judgement, SideNames
from pgdyno.studies.kind import Kind
from pgdyno.studies.staircase.words import judgement


class StaircaseKind(Kind):
    """Steps on top of each other, each kept or not."""

    sides = SideNames("all kept", "the baseline")
    resumed_by = "experiment"
    compares = True
    beside_others = True

    def judged(self, study: Study) -> Judgement | None:
        """Return what the kept steps bought together."""
        result = study.told(StaircaseResult)
        return None if result is None else judgement(study.state.value, result)


KIND = StaircaseKind()
