"""What is special to an import."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.results.imported import ImportedResult
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial, TrialState
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.studies.kind import Kind, Named

_FILES = 2
"""So many are drawn: beyond that nobody reads the strips."""


class ImportedKind(Kind):
    """Runs that others made: read, never measured here."""

    def judged(self, study: Study) -> Judgement | None:
        """Return what was read."""
        result = study.told(ImportedResult)
        return None if result is None else Judgement(result.title, result.word, Tone.NEUTRAL, result.title)

    def shown(self, study: Study, trials: Sequence[Trial]) -> list[Named]:
        """Return the first files, side by side: a run of samples is a file."""
        usable = [trial for trial in trials if trial.state is TrialState.COMPLETE]
        return [(trial.spec.factors.get("file", "the run"), trial.id) for trial in usable[:_FILES]]


KIND = ImportedKind()
