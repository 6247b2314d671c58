"""The page of two arms: restarts, how often and how long, what too few pairs say, and B as postgresql.conf takes it."""

from __future__ import annotations

import pytest

from pgdyno.model.results.live import LivePair, LiveSwitch
from pgdyno.model.verdict import Interval, Metric, Verdict, Word
from pgdyno.report.sections import FactList, Notice, Snippet
from pgdyno.studies.live.switch_page import switch_sections

PAIR = LivePair(number=1, ratio=0.5, work=1.25, first="A", interval=None)


def section(*, outages, restarts, pairs=(PAIR,), period_s=1800.0):
    switch = LiveSwitch(
        a={}, b={"shared_buffers": "8GB"}, before={"shared_buffers": "128MB"}, ending="stopped", period_s=period_s,
        wash_s=600.0, seed=1, pairs=pairs, session="s1", restarts=restarts, restarts_most=6, outages=outages,
        windows=("01:00-05:00",),
    )  # fmt: skip
    (found,) = [one for one in switch_sections(switch) if one.id == "restarted"]
    return found.blocks


@pytest.mark.parametrize(
    ("outages", "restarts", "words"),
    [((4.0, 75.0), 3, "4.0 s, 1:15 min, 1 not timed"), ((4.0,), 1, "4.0 s"), ((), 2, "2 not timed"), ((), 0, "none")],
)
def test_each_restart_has_its_outage_or_says_that_it_was_not_timed(outages, restarts, words):
    (facts,) = [one for one in section(outages=outages, restarts=restarts) if isinstance(one, FactList)]
    assert dict(facts.rows)["outages"] == words
    assert dict(facts.rows)["restarts"] == f"{restarts}; 6 were announced at most"


@pytest.mark.parametrize(("count", "words"), [(1, "1 pair is before"), (2, "2 pairs are before"), (3, "")])
def test_too_few_pairs_are_before_and_after(count, words):
    notices = [one for one in section(outages=(), restarts=2, pairs=(PAIR,) * count) if isinstance(one, Notice)]
    assert bool(notices) is bool(words)
    assert all(words in text and "no verdict" in text for one in notices for text in one.sentences)


def test_b_is_written_as_the_server_reads_it():
    better = Verdict(Word.BETTER, Interval(0.9, 0.85, 0.95, 0.95), 20, Metric.STATEMENT_TIME, 0.02)
    b = {"log_line_prefix": "it's \\t %m", "random_page_cost": "1.1"}
    switch = LiveSwitch(
        a={}, b=b, before=dict.fromkeys(b, ""), ending="decided", period_s=30.0, wash_s=5.0, seed=1,
        pairs=(PAIR,) * 3, session="s1", verdict=better,
    )  # fmt: skip
    (change,) = [one for one in switch_sections(switch) if one.id == "change"]
    (snippet,) = [one for one in change.blocks if isinstance(one, Snippet)]
    lines = snippet.text.splitlines()
    assert lines == ["log_line_prefix = 'it''s \\\\t %m'", "random_page_cost = 1.1"]
