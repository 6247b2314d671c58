"""What a replay came to, in words."""

from __future__ import annotations

from pgdyno.model.results.replay import ReplayResult
from pgdyno.report.judgement import Judgement
from pgdyno.report.sections import Tone
from pgdyno.trace.engine.tally import COMPLETE
from pgdyno.trace.schema import AnswerClass
from pgdyno.units import agreeing, plural, seconds_text

COUNTS, VOID = "counts", "invalid"
STEPS = PREPARE, INJECT, ANALYSE, TUNE = "prepare", "inject", "analyse", "tune"
"""The steps of a run; the last is what a person does between two of them."""
UNLIKE = (AnswerClass.NEW, AnswerClass.MISSING, AnswerClass.CHANGED)


def judgement(result: ReplayResult) -> Judgement:
    """Return whether the run counts, and how it was answered; one that does not count has to be looked at."""
    wanted = agreeing(result.fidelity.statements, "statement", "was", "were")
    sent = f"{result.fidelity.sent:,} of {wanted} sent and answered"
    unlike, why = unlike_of(result), void_text(result)
    if result.is_valid:
        title = f"{sent} on schedule; {unlike:,} were answered differently than in the capture"
        said = f"{plural(result.fidelity.sent, 'statement')} on schedule, {unlike:,} answered differently"
        return Judgement(title, COUNTS, Tone.NEUTRAL, said, result.exit_code)
    if result.ended != COMPLETE:
        title = f"The run ended before the trace did ({result.ended}): {sent}"
    else:
        title = f"The run does not count: {why}"
    return Judgement(title, VOID, Tone.UNSURE, why, result.exit_code, f"a replay does not count: {why}")


def void_text(result: ReplayResult) -> str:
    """Return why a run does not count; empty where it does."""
    if result.ended != COMPLETE:
        return f"ended before the trace did: {result.ended}"
    return next(iter(result.fidelity.invalid), "")


def pause_text(paused_s: float | None, busy: int) -> str:
    """Say for how long a run has been paused, and who does not rest, as `RunTally.resting`; empty where it is not."""
    if paused_s is None:
        return ""
    still = f", {agreeing(busy, 'session', 'is', 'are')} still at a statement or in a transaction" if busy else ""
    return f"paused for {seconds_text(paused_s)}{still}"


def unlike_of(result: ReplayResult) -> int:
    """Return how many answers are not as in the capture."""
    return sum(result.answers[one] for one in UNLIKE)
