"""What the server did beside the time of its statements, in each arm of a live study, for the same offered work. Pure.

The time of a commit is in no statement, and neither is that of a statement which was cancelled: a setting that makes
statements faster may make the server slower. So database time and server CPU are judged beside the claim, by the same
rule; what was read, written and spilled is told, and makes no claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from pgdyno.model.results.live import LiveSecond
from pgdyno.model.verdict import Metric
from pgdyno.stats.body_index import PeriodCounts, ServerUse, StatementBody, offered_work
from pgdyno.stats.sequential import Design, judge

JUDGED = ("active_ms", "cpu_ms")
"""Of these there is a verdict: database time, server CPU."""
MOST_VISIBLE = 1.2
"""Statements cannot take more than the time of their sessions, and little more by when each is counted."""


def second_metrics(
    body: StatementBody, pairs: Sequence[tuple[PeriodCounts, PeriodCounts]], design: Design
) -> tuple[LiveSecond, ...]:
    """Return each figure that every period knew; `pairs` are those that were judged, A's and B's."""
    found = []
    for name in (one.name for one in fields(ServerUse)):
        values = [(_per_work(body, a, name), _per_work(body, b, name)) for a, b in pairs]
        known = [(a, b) for a, b in values if a is not None and b is not None]
        if not known or len(known) != len(values):
            continue
        ones, others = zip(*known, strict=True)
        verdict = None
        if name in JUDGED and min(*ones, *others) > 0:
            verdict = judge(ones, others, metric=Metric.STATEMENT_TIME, design=design)
        is_steady = all(a < b for a, b in known) or all(a > b for a, b in known)
        a, b = sum(ones) / len(ones), sum(others) / len(others)
        found.append(LiveSecond(name=name, a=a, b=b, verdict=verdict, in_each_pair=is_steady))
    return tuple(found)


def _per_work(body: StatementBody, period: PeriodCounts, name: str) -> float | None:
    value = None if period.use is None else getattr(period.use, name)
    if name == "active_ms" and value is not None and float(period.time_ms.sum()) > MOST_VISIBLE * value:
        return None  # sessions whose statements touch no relation report their time when they end
    work_s = offered_work(body, period) / 1000
    return None if value is None or work_s <= 0 else float(value) / work_s
