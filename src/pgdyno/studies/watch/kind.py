"""What is special to a watch."""

from __future__ import annotations

from pgdyno.model.results.watch import WatchResult
from pgdyno.model.study import Study
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.studies.kind import Kind


class WatchKind(Kind):
    """What became slower, or was changed, on a server that nobody tunes."""

    has_sessions = False

    def judged(self, study: Study) -> Judgement | None:
        """Return what happened."""
        result = study.told(WatchResult)
        if result is None:
            return None
        tone = Tone.UNSURE if result.detectable is None else Tone.BAD if result.found else Tone.NEUTRAL
        alert = f"watch {study.id}: {result.title}" if result.found else ""
        return Judgement(result.title, result.word, tone, result.title, result.exit_code, alert)


KIND = WatchKind()
