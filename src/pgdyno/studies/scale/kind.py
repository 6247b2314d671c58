"""What is special to a scalability study."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.results.scale import ScaleResult
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial
from pgdyno.report.judgement import Judgement
from pgdyno.studies.kind import Kind, Named
from pgdyno.studies.scale.words import judgement


class ScaleKind(Kind):
    """Levels of load on hardware in proportion, against one of them."""

    resumed_by = "scale"

    def judged(self, study: Study) -> Judgement | None:
        """Return whether every level is constant."""
        result = study.told(ScaleResult)
        return None if result is None else judgement(result)

    def shown(self, study: Study, trials: Sequence[Trial]) -> list[Named]:
        """Return the runs that stand for the reference and for the greatest level."""
        result = study.told(ScaleResult)
        found = [] if result is None else [one for one in result.levels if one.run is not None and not one.study]
        wanted = [one for one in found if result is not None and one.percent == result.reference]
        wanted += [one for one in found[-1:] if one not in wanted]
        return [(f"level {one.percent:g} %", one.run) for one in wanted]


KIND = ScaleKind()
