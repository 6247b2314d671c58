"""Where a search on a live server begins: what earlier studies of the same environment found, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdyno.model.results.live import LiveCandidate, LiveSearch, LiveSwitch
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.model.verdict import Interval, Metric, Verdict, Word
from pgdyno.studies.live.earlier import MOST, earlier_settings
from simulated_live_world import WATCHED
from study_example import make_study

BETTER = Verdict(Word.BETTER, Interval(0.8, 0.75, 0.85, 0.95), 9, Metric.STATEMENT_TIME, 0.02)
KNOBS = ("work_mem", "random_page_cost")
NOW = {"work_mem": "4MB", "random_page_cost": "4"}


def study(name, *, b=None, verdict=BETTER, tried=(), environment="here", state=StudyState.COMPLETE):
    switch = None
    if b is not None:
        switch = LiveSwitch(a={}, b=b, before={}, ending="decided", period_s=30, wash_s=5, seed=1, verdict=verdict)
    search = None
    if tried:
        search = LiveSearch(
            knobs=KNOBS, left_out={}, candidates=tried, finals=() if switch is None else (switch,),
            chosen=None if switch is None else 0, effects=(), stopped="", notes=(), is_restored=False, session="",
        )  # fmt: skip
    result = replace(WATCHED, study=name, switch=switch if search is None else None, search=search)
    made = make_study(StudyKind.LIVE, name)
    return replace(made, environment=environment, state=state, result=result)


def candidate(work_mem, ratio, fate="measured"):
    return LiveCandidate(
        number=1, settings={"work_mem": work_mem}, origin="model", fate=fate, pairs=2, ratio=ratio, error=0.04
    )


def found(*studies):
    return earlier_settings(studies, "here", KNOBS, NOW)


def test_what_was_proved_is_first_and_the_best_that_was_tried_after_it():
    both = study("one", b={"work_mem": "64MB"}, tried=(candidate("8MB", 0.9), candidate("16MB", 0.8)))
    assert found(both) == ({"work_mem": "64MB"}, {"work_mem": "16MB"})
    cut = study("two", tried=(candidate("32MB", 0.7),), state=StudyState.INTERRUPTED)
    assert found(cut, both)[0] == {"work_mem": "32MB"}


@pytest.mark.parametrize(
    "other",
    [
        study("elsewhere", b={"work_mem": "64MB"}, environment="there"),
        study("running", b={"work_mem": "64MB"}, state=StudyState.RUNNING),
        study("equal", b={"work_mem": "64MB"}, verdict=replace(BETTER, word=Word.EQUIVALENT)),
        study("not searched", b={"jit": "off"}),
        study("in force", b={"work_mem": "4MB"}),
        study("vetoed", tried=(candidate("64MB", 0.5, "vetoed"),)),
        study("no gain", tried=(candidate("64MB", 0.97),)),
    ],
    ids=lambda one: one.id,
)
def test_what_says_nothing_of_today_is_no_start(other):
    assert found(other) == ()


def test_only_the_newest_few_are_tried_first_each_once_and_only_what_is_searched():
    many = [study(str(size), b={"work_mem": f"{size}MB", "jit": "off"}) for size in (8, 8, 16, 32, 64)]
    assert found(*many) == ({"work_mem": "8MB"}, {"work_mem": "16MB"}, {"work_mem": "32MB"})
    assert len(found(*many)) == MOST
