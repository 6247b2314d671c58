"""What a search on a live load comes to: words, exit code, page, the way through the store, and what is offered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from live_search_example import BETTER, CANDIDATES, MODEL, SETTINGS, WORSE, search
from pgdyno.errors import ExitCode, UsageError
from pgdyno.model.facts import Unknown
from pgdyno.model.results.live import LiveCandidate, LiveOwnEffect
from pgdyno.model.results.tune import SearchModel
from pgdyno.model.shapes import plain
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.report.drawing.html import render as render_html
from pgdyno.report.drawing.text import render
from pgdyno.report.sections import Charts
from pgdyno.report.study_record import StudyRecord
from pgdyno.store.codec import result_from_json
from pgdyno.studies.kinds import judged
from pgdyno.studies.live.course.figures import knobs_of
from pgdyno.studies.live.words import search_judgement, uncured
from pgdyno.studies.reports import compose
from pgdyno.studies.winner import offered_by
from simulated_live_world import WATCHED
from study_example import make_study


def study(found):
    said = search_judgement(found)
    result = replace(WATCHED, search=found, title=said.title, word=said.word)
    return replace(make_study(StudyKind.LIVE), state=StudyState.COMPLETE, result=result)


def test_what_was_confirmed_is_offered_with_its_verdict():
    found = search(finals=(BETTER, WORSE), chosen=0)
    assert (found.exit_code, judged(study(found)).word) == (ExitCode.OK, "better")
    assert "work_mem = 16MB: what was found is better" in judged(study(found)).title
    offered = offered_by(study(found))
    assert (dict(offered.settings), offered.verdict) == (SETTINGS, BETTER.verdict)


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"finals": (WORSE,)}, ExitCode.NOT_RESOLVED, "Keep your settings: none of 1 finalist of 1 candidate"),
        (
            {"finals": (replace(WORSE, stopped="root stopped it in the dashboard"),)},
            ExitCode.NOT_RESOLVED,
            "Keep your settings: none of 1 finalist of 1 candidate was confirmed; it ended early: root stopped it",
        ),
        ({}, ExitCode.NOT_RESOLVED, "Keep your settings: none of 1 candidate stood out"),
        ({"candidates": CANDIDATES[:1]}, ExitCode.NOT_RESOLVED, "No candidate was measured"),
        ({"is_restored": True, "stopped": "guards stopped 5 times"}, ExitCode.RESTORED, "No verdict: guards stopped"),
    ],
)
def test_where_nothing_was_confirmed_the_settings_stay(fields, code, said):
    found = search(**fields)
    assert found.exit_code is code
    assert judged(study(found)).title.startswith(said)
    with pytest.raises(UsageError, match="no confirmed winner"):
        offered_by(study(found))


@pytest.mark.requirement("R-TUN-21")
def test_the_page_shows_the_offer_the_finalists_the_candidates_and_what_was_left_out():
    effect = LiveOwnEffect(setting="work_mem", verdict=BETTER.verdict)
    found = search(finals=(BETTER, WORSE), chosen=0, effects=(effect,), notes=("a finalist was rejected: x = 1",))
    page = compose(StudyRecord(study(found), []))
    titles = [one.title for one in page.sections]
    assert titles[:2] == ["What is compared", "Pairs"]
    assert {"What each setting does", "Finalists", "Candidates", "Knobs"} <= {*titles}
    (drawn,) = (chart for section in page.sections if section.id == "candidates" for block in section.blocks
                if isinstance(block, Charts) for chart in block.figures)  # fmt: skip
    assert drawn.series[0].x == (0.0,), "rows are counted from 0, or a label is missing"
    assert render(page) is not None
    html = render_html(page)
    for words in (
        "work_mem = 16MB",
        "acts at the commit",
        "rejected",
        "offered",
        "A finalist was rejected",
        "1 GB",
        "1.23",
    ):
        assert words in html


@pytest.mark.requirement("R-TUN-14")
@pytest.mark.parametrize(
    ("computing", "cores", "fields", "about"),
    [
        (20.0, 8, {}, "about 16"),
        (20.0, 8, {"finals": (BETTER,), "chosen": 0}, "about 16"),
        (9.0, 8, {}, None),  # the fastest leaves a core for each
        (8.0, 8, {}, None),
        (20.0, Unknown("no /proc"), {}, None),
        (20.0, 8, {"candidates": CANDIDATES[:1]}, None),  # nothing was measured
        (None, 8, {}, None),  # a study from before it was counted
        (2.0, 8, {}, None),  # the others of those at work wait for locks or disks
    ],
)
def test_cpus_that_are_saturated_whatever_is_set_are_told_on_the_page(computing, cores, fields, about):
    at_work = replace(WATCHED.reference, active_median=40.0, computing_median=computing)
    notes = uncured(at_work, search(**fields), cores)
    assert [about in note for note in notes] == [True] * (about is not None)
    html = render_html(compose(StudyRecord(study(search(**fields, notes=notes)), [])))
    assert ("The CPUs are saturated, and no setting that was tried cures that" in html) is (about is not None)


def test_notes_of_a_search_without_a_finalist_are_on_its_page():
    html = render_html(compose(StudyRecord(study(search(notes=("no candidate looked better",))), [])))
    assert "No candidate looked better." in html


def test_a_search_survives_the_store():
    found = search(finals=(BETTER,), chosen=0)
    kept = study(found).result
    assert result_from_json(StudyKind.LIVE, plain(kept)) == kept


def test_each_candidate_stands_with_its_knobs_beside_its_effect():
    more = LiveCandidate(number=3, settings={"work_mem": "32MB"}, origin="model", fate="measured", pairs=2, ratio=0.7)
    block = knobs_of([*CANDIDATES[1:], more])
    assert block.table.columns == ("number", "B / A", "give or take", "work_mem", "random_page_cost")
    assert block.table.rows == (
        ("3", "0.7", "unknown", "32MB", "as found"),
        ("2", "0.81", "5.0 %", "16MB", "1.5"),
    )


def test_what_the_model_says_of_the_knobs_is_on_the_page_or_why_it_says_nothing():
    found = search(candidates=(*CANDIDATES, replace(CANDIDATES[1], number=3, ratio=0.9)), model=MODEL)
    page = compose(StudyRecord(study(found), []))
    (section,) = [one for one in page.sections if one.id == "model"]
    (charts,) = [block for block in section.blocks if isinstance(block, Charts)]
    drawn = {one.id: one for one in charts.figures}
    assert set(drawn) == {"importance", "slice-work_mem", "lines"}
    assert drawn["lines"].table.rows[0][:2] == ("2", "1.23"), "the one with the least time is the best"
    assert "candidate 2 is the best of all" in drawn["lines"].caption
    assert result_from_json(StudyKind.LIVE, plain(study(found).result)) == study(found).result
    told = compose(StudyRecord(study(search(model=SearchModel(unknown="2 were measured, and 10 are needed"))), []))
    assert "Importance of the knobs: unknown. 2 were measured" in render_html(told)
