"""What a replay's page shows alike while it runs and when it has ended: lateness by who caused it, answers by class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pgdyno.model.figure import Table
from pgdyno.model.live import LiveReplay
from pgdyno.model.replay_comparison import Lateness
from pgdyno.report.sections import Block, FactList, TableBlock
from pgdyno.stats.delays import shares
from pgdyno.stats.ratios import rounded
from pgdyno.studies.replay.words import pause_text
from pgdyno.trace.schema import AnswerClass
from pgdyno.units import plural

_WORDS = {
    AnswerClass.SUCCESS: "success, as in the capture",
    AnswerClass.EXPECTED: "the captured error",
    AnswerClass.NEW: "an error where the capture has none",
    AnswerClass.MISSING: "no error where the capture has one",
    AnswerClass.CHANGED: "another error than the captured one",
    AnswerClass.SKIPPED: "not sent",
}
COUNTED_WITH = "Connects and disconnects are counted with the statements."


def lateness_table(late: Iterable[Lateness]) -> Table:
    """Return how late statements were sent, a row for each cause."""
    rows = tuple((one.part, f"{one.p50:,.3f}", f"{one.p99:,.3f}", f"{one.largest:,.3f}") for one in late)
    return Table(("lateness by", "p50 ms", "p99 ms", "largest ms"), rows, ("p50 ms", "p99 ms", "largest ms"))


def answers_table(answers: Mapping[str, int]) -> Table:
    """Return the classes of answers that there are, with their shares."""
    rows = tuple(
        (one.name, _WORDS[AnswerClass(one.name)], f"{one.count:,}", f"{rounded(one.percent)} %")
        for one in shares(answers)
        if one.count
    )
    return Table(("answer", "meaning", "count", "share"), rows, ("count", "share"))


def blocks_under_way(state: LiveReplay) -> tuple[Block, ...]:
    """Return what a page shows of a replay that runs."""
    took = "unknown: no answer yet"
    if state.response_ms is not None:
        captured = "unknown" if state.captured_ms is None else f"{state.captured_ms:,.1f} ms"
        took = f"{state.response_ms:,.1f} ms from the due moment, captured {captured}: means of the last answers"
    facts = (
        ("due", f"{state.due:,} of {plural(state.statements, 'statement')}"),
        ("sent", f"{state.sent:,}"),
        ("answered", f"{state.answered:,}; {state.unlike:,} answers are not the captured ones"),
        ("response time", took),
        ("pause", pause_text(state.paused_s, state.busy) or "none at present"),
    )
    late, answers = lateness_table(state.lateness), answers_table(state.answers)
    return (
        FactList(facts),
        *((TableBlock(late, "How late the statements were sent that have been answered:"),) if late.rows else ()),
        *((TableBlock(answers, f"Answers so far by class. {COUNTED_WITH}"),) if answers.rows else ()),
    )
