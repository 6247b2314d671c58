"""What is special to a live study."""

from __future__ import annotations

from pgdyno.model.results.live import LiveResult, LiveSwitch
from pgdyno.model.study import Study, StudyState
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.studies.kind import NO_VERDICT, Kind, Offered

WATCH_ONLY = "watch_only"
"""The option of a study that only watches its server."""


class LiveKind(Kind):
    """A server under its users' own load."""

    resumed_by = "live"
    offers = True

    def may_change(self, study: Study) -> bool:
        """Tell whether it does more than to watch."""
        return not _only_watches(study)

    def continued_by(self, study: Study) -> str:
        """Return the verb that goes on with a comparison or a search; watching alone is begun again."""
        return "" if _only_watches(study) else self.resumed_by

    def judged(self, study: Study) -> Judgement | None:
        """Return what came of the two arms, or what the watched load would show."""
        result = study.told(LiveResult)
        if result is None:
            return None
        if result.search is not None:
            from pgdyno.studies.live.words import search_judgement

            return search_judgement(result.search)
        if result.switch is not None:
            from pgdyno.studies.live.words import judgement

            return judgement(result.switch)
        tone = Tone.NEUTRAL if study.state is StudyState.COMPLETE else Tone.UNSURE
        return Judgement(result.title, result.word, tone, result.title, result.exit_code)

    def offered(self, study: Study) -> Offered:
        """Return B, or what a search found, where it is better and nothing speaks against it."""
        result = study.told(LiveResult)
        found = None if result is None else result.switch if result.search is None else result.search.winner
        return self._offered(study, found)

    def conservative(self, study: Study) -> Offered:
        """Return the confirmed finalist with the least memory; of two arms, B."""
        result = study.told(LiveResult)
        if result is None or result.search is None:
            return self.offered(study)
        return self._offered(study, result.search.conservative)

    def _offered(self, study: Study, switch: LiveSwitch | None) -> Offered:
        if switch is None or not switch.is_acceptable:
            told = self.judged(study)
            return Offered(withheld=NO_VERDICT if told is None else told.title)
        return Offered(switch.b, switch.verdict)


def _only_watches(study: Study) -> bool:
    return study.asked.get(WATCH_ONLY) is True


KIND = LiveKind()
