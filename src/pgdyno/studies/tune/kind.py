"""What is special to a tune."""

from __future__ import annotations

from collections.abc import Sequence

from pgdyno.model.results.tune import TuneResult
from pgdyno.model.study import Study
from pgdyno.model.trial import Trial
from pgdyno.model.verdict import Word
from pgdyno.report.judgement import Judgement, SideNames, company_text, compared
from pgdyno.report.sections import Tone
from pgdyno.studies.kind import NO_VERDICT, Kind, Named, Offered
from pgdyno.units import plural

CANDIDATE = SideNames("the best candidate", "the baseline")
"""How the sides are called where the configuration stays: a candidate that did not win is no winner."""


class TuneKind(Kind):
    """A search, and the proof of what it found."""

    sides = SideNames("the winner", "the baseline")
    resumed_by = "tune"
    compares = True
    beside_others = True
    offers = True

    def sides_of(self, result: TuneResult | None) -> SideNames:
        """Return the names of the sides of a result."""
        return CANDIDATE if result is not None and result.keep else self.sides

    def shown(self, study: Study, trials: Sequence[Trial]) -> list[Named]:
        """Return the runs of both sides, under the names that the result gives them."""
        names = self.sides_of(study.told(TuneResult))
        called = {self.sides.subject: names.subject}
        return [(called.get(name, name), run) for name, run in super().shown(study, trials)]

    def judged(self, study: Study) -> Judgement | None:
        """Return the verdict on the winner, or that the configuration stays."""
        result = study.told(TuneResult)
        if result is None:
            return None
        if result.verdict is None:
            said = unproved_text(result)
            return Judgement(f"Not resolved: {said}", Word.NOT_RESOLVED.value, Tone.UNSURE, said, result.exit_code)
        if not result.keep:
            return compared(result, result.verdict, self.sides)
        unsure = result.is_only_together or result.verdict.word is Word.NOT_RESOLVED
        why = together_text(result) if result.is_only_together else "nothing that was tried proved better"
        title = f"Keep your configuration: {why}{company_text(result.beside_others)}"
        return Judgement(title, "keep", Tone.UNSURE if unsure else Tone.NEUTRAL, "your configuration", result.exit_code)

    def offered(self, study: Study) -> Offered:
        """Return the confirmed winner."""
        result = study.told(TuneResult)
        verdict = None if result is None else result.verdict
        if result is None:
            return Offered(withheld=NO_VERDICT)
        if verdict is None:
            return Offered(withheld=unproved_text(result))
        settings = {} if result.winner is None else dict(result.winner.settings)
        if result.is_only_together:
            return Offered(withheld=together_text(result))
        if verdict.word is not Word.BETTER:
            return Offered(withheld=f"its verdict is {verdict.word.value}")
        if result.keep or not settings:
            return Offered(withheld="what proved better is not offered, as its report explains")
        return Offered(settings, verdict)


def unproved_text(result: TuneResult) -> str:
    """Say of a tune without a verdict how far it came."""
    search = result.search
    if not search.trials:
        return "no configuration but the baseline was tried"
    if search.trials == 1:
        return f"the one configuration that was tried {'was not proved' if search.best else 'could not be measured'}"
    was = "was proved" if search.best else "could be measured"
    return f"none of the {search.trials} configurations that were tried {was}"


def together_text(result: TuneResult) -> str:
    """Say that only all that a search found proved better: which of it matters is not known, so it is not offered."""
    return f"{plural(len(result.search.best), 'setting')} proved better together, and none of them is explained"


KIND = TuneKind()
