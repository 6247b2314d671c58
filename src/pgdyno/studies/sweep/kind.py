"""What is special to a sweep."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.results.sweep import UNRESOLVED, SweepResult
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial
from pgdyno.report.judgement import Judgement, company_text
from pgdyno.report.sections import Tone
from pgdyno.report.wording import capital
from pgdyno.studies.kind import Kind, Named


class SweepKind(Kind):
    """Levels of one setting, or two factors with and without each other."""

    resumed_by = "experiment"
    compares = True
    beside_others = True

    def judged(self, study: Study) -> Judgement | None:
        """Return which level to take, or how two factors interact."""
        result = study.told(SweepResult)
        if result is None:
            return None
        tone = Tone.UNSURE if result.word == UNRESOLVED else Tone.NEUTRAL
        title = f"{capital(result.title)}{company_text(result.beside_others)}"
        return Judgement(title, result.word, tone, result.title, result.exit_code)

    def shown(self, study: Study, trials: Sequence[Trial]) -> list[Named]:
        """Return its sides under the names of their levels; the first level may be the one to take."""
        result = study.told(SweepResult)
        sides = () if result is None else (result.baseline, result.winner)
        return list({side.name: side.run for side in sides if side is not None}.items())


KIND = SweepKind()
