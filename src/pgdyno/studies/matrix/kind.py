"""What is special to a matrix."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.results.matrix import MatrixResult
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial, TrialState
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.report.wording import capital
from pgdyno.studies.kind import Kind
from pgdyno.units import plural


class MatrixKind(Kind):
    """Cells of many factors, each for itself."""

    resumed_by = "matrix"
    stands_alone = True

    def judged(self, study: Study) -> Judgement | None:
        """Return how many cells were measured whole; which is best the page says."""
        result = study.told(MatrixResult)
        if result is None:
            return None
        whole, every = sum(one.row.usable for one in result.rows), plural(len(result.rows), "cell")
        said = f"{whole} of {every} measured whole"
        tone = Tone.NEUTRAL if whole == len(result.rows) else Tone.UNSURE
        alert = f"matrix {study.id} has no cell that was measured whole" if result.rows and not whole else ""
        return Judgement(capital(said), "", tone, said, result.exit_code, alert)

    def looked_at(self, study: Study, trials: Sequence[Trial]) -> list[Trial]:
        """Return the last complete run of each row: what limited it is told beside its figures."""
        result = study.told(MatrixResult)
        if result is None:
            return []
        complete = {trial.id: trial for trial in trials if trial.state is TrialState.COMPLETE}
        measured = [complete.keys() & set(one.row.trials) for one in result.rows]
        return [complete[max(runs)] for runs in measured if runs]


KIND = MatrixKind()
