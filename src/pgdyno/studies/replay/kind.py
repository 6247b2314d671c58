"""What is special to a replay."""

from __future__ import annotations

import shlex

from pgdyno.model.live import Live
from pgdyno.model.results.replay import ReplayResult
from pgdyno.model.study import Study
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Block
from pgdyno.studies.kind import Kind
from pgdyno.studies.replay.words import judgement


class ReplayKind(Kind):
    """A captured load, sent to another server."""

    has_sessions = False
    counts_trials = False

    def after_kill(self, study: Study) -> str:
        """Return that what was sent stays, and where the answers are."""
        trace, output = (study.asked.get(name) for name in ("trace", "output"))
        if not (isinstance(trace, str) and isinstance(output, str)):
            return "what it had sent stays done"
        compared = shlex.join(["pgdyno", "compare", "--replay", trace, output])
        return f"what it had sent stays done; {compared} shows the answers until then"

    def under_way(self, live: Live) -> tuple[Block, ...]:
        """Return due against sent, times beside the captured, lateness, answers by class, and whether it pauses."""
        if live.replay is None:
            return ()
        from pgdyno.studies.replay.blocks import blocks_under_way

        return blocks_under_way(live.replay)

    def judged(self, study: Study) -> Judgement | None:
        """Return whether the run counts, and how it was answered."""
        result = study.told(ReplayResult)
        return None if result is None else judgement(result)


KIND = ReplayKind()
