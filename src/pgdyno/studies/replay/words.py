"""What a replay came to, in words."""

from __future__ import annotations

from pgdyno.model.results.replay import ReplayResult
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.trace.schema import AnswerClass
from pgdyno.units import plural

COUNTS, VOID = "counts", "invalid"
UNLIKE = (AnswerClass.NEW, AnswerClass.MISSING, AnswerClass.CHANGED)


def judgement(result: ReplayResult) -> Judgement:
    """Return whether the run counts, and how it was answered; one that does not count has to be looked at."""
    sent = f"{result.fidelity.sent:,} of {result.fidelity.statements:,} statements were sent and answered"
    unlike = sum(result.answers[one] for one in UNLIKE)
    if result.is_valid:
        title = f"{sent} on schedule; {unlike:,} were answered differently than in the capture"
        said = f"{plural(result.fidelity.sent, 'statement')} on schedule, {unlike:,} answered differently"
        return Judgement(title, COUNTS, Tone.NEUTRAL, said, result.exit_code)
    if result.ended != "complete":
        why = f"ended before the trace did: {result.ended}"
        title = f"The run ended before the trace did ({result.ended}): {sent}"
    else:
        why = result.fidelity.invalid[0]
        title = f"The run does not count: {why}"
    return Judgement(title, VOID, Tone.UNSURE, why, result.exit_code, f"a replay does not count: {why}")
