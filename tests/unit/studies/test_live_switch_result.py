"""What two arms on a live load come to: exit code, words, page, and the way through the store."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pgdyno.errors import ExitCode
from pgdyno.model.configuration import BASELINE, Configuration
from pgdyno.model.guard import GuardKind
from pgdyno.model.results.live import LiveSwitch
from pgdyno.model.shapes import plain
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.model.verdict import Interval, Word
from pgdyno.probes.statements import StatementKey
from pgdyno.report.drawing.html import render as render_html
from pgdyno.report.drawing.text import render
from pgdyno.report.study_record import StudyRecord
from pgdyno.stats.sequential import Design
from pgdyno.stats.veto import Slower
from pgdyno.store.codec import result_from_json
from pgdyno.studies.kinds import judged
from pgdyno.studies.live.arms import Arms
from pgdyno.studies.live.course.figures import running
from pgdyno.studies.live.run import shows
from pgdyno.studies.live.switch_result import switch_of, switched
from pgdyno.studies.live.switchback import Switchback
from pgdyno.studies.live.words import REJECTED
from pgdyno.studies.live.world import LiveStopped, StopAsked
from pgdyno.studies.reports import compose
from simulated_live_world import WATCHED, World, breached
from study_example import make_study

ARMS = Arms(BASELINE, Configuration.of({"work_mem": "64MB"}), {"work_mem": "4MB"})
KEYS = [StatementKey(5, 6, 1000 + number, True) for number in range(200)]
NAMES = ({5: "shop"}, {6: "web"})


def told(world, *, most_stops=1, **design):
    outcome = Switchback(world, world.reference, 30.0, Design(**design), seed=3, most_stops=most_stops).run()
    return of(world, outcome), outcome


def of(world, outcome, not_tested=""):
    found = switch_of(ARMS, outcome, world.reference, KEYS, NAMES, seed=3, session="x", not_tested=not_tested)
    return switched(WATCHED, found, elapsed_s=9.0)


def page_of(result):
    study = replace(make_study(StudyKind.LIVE), state=StudyState.COMPLETE, result=result)
    return compose(StudyRecord(study, []))


@pytest.mark.parametrize(
    ("factor", "word", "code"),
    [(0.8, Word.BETTER, ExitCode.OK), (1.25, Word.WORSE, ExitCode.FINDINGS)],
)
def test_the_exit_code_is_that_of_the_word(factor, word, code):
    result, outcome = told(World(factor, seed=3))
    assert (result.word, result.exit_code) == (word.value, code)
    assert result.headline == outcome.verdict
    assert result.switch.is_acceptable == outcome.is_acceptable == (word is Word.BETTER)
    assert [one.ratio for one in result.switch.pairs] == pytest.approx(np.exp([p.log_ratio for p in outcome.pairs]))


def test_too_few_pairs_are_not_resolved_and_none_at_all_have_no_verdict():
    result, _ = told(World(0.8, pairs=2, seed=3))
    assert (result.word, result.exit_code) == ("not resolved", ExitCode.NOT_RESOLVED)
    result, _ = told(World(pairs=0, seed=3))
    assert result.title.startswith("No verdict: the study ended: nothing left")
    assert result.exit_code is ExitCode.NOT_RESOLVED


def test_what_was_restored_says_so_in_its_exit_code_and_title():
    result, _ = told(World(happens={("count", number): breached() for number in range(1, 9)}, seed=3))
    assert result.exit_code is ExitCode.RESTORED
    assert result.title.startswith("No verdict: guard temp")
    assert result.switch.breaches[0].kind == GuardKind.CONFIGURATION.value
    result, _ = told(World(0.97, seed=3, happens={("count", 8): LiveStopped("somebody else did")}))
    assert (result.exit_code, len(result.switch.pairs)) == (ExitCode.RESTORED, 3)
    assert "somebody else did" in result.title
    result, _ = told(World(0.97, happens={("count", 8): StopAsked("asked")}), min_pairs=6)
    assert result.exit_code is ExitCode.NOT_RESOLVED


def test_a_vetoed_statement_is_named_first_and_a_better_word_beside_it_is_not_accepted():
    world = World()
    often = [number for number in range(200) if world.simulation.rates[number] * 25 > 200]
    slow = min(often, key=lambda number: world.simulation.cvs[number])
    factors = np.full(200, 0.9)
    factors[slow] = 3.0
    world.factors = factors
    result, _ = told(world, smallest_effect=0.0001, min_pairs=20)
    first = result.switch.statements[0]
    assert (first.queryid, first.state) == (str(1000 + slow), "vetoed")
    assert first.ratio.ratio == pytest.approx(3.0, rel=0.3)
    assert first.ratio.lo < 3.0 < first.ratio.hi
    assert result.exit_code is ExitCode.RESTORED
    assert result.switch.against[0].startswith(f"statement {1000 + slow} takes ")
    assert not result.switch.is_acceptable
    assert result.switch.unwatched > 0
    assert 0 < result.switch.unwatched_share < 1
    (drawn,) = (one for one in page_of(result).figures() if one.id == "statements-forest")
    assert [(one.name, one.x[0]) for one in drawn.series] == [("vetoed or suspected", 0.0), ("watched", 1.0)]
    assert drawn.series[0].labels[0].startswith(f"{1000 + slow}\nvetoed")
    assert "not watched" not in "".join(label for one in drawn.series for label in one.labels), "they have a table"


def test_the_veto_tells_the_pairs_that_it_rests_on_and_not_those_before():
    """Over all pairs the statement took 1.2 times as long, in those that were judged 2.6 times."""
    world = World(0.8, seed=3)
    _, outcome = told(world, min_pairs=6)
    found = replace(outcome, vetoed={0: Slower(2.6, 3)}, kept=outcome.kept * 2)
    pairs = len(found.kept)
    said = of(world, found).switch.against[0]
    assert said == f"statement 1000 takes 2.6 times as long under B in the latest 3 of {pairs} pairs"
    whole = replace(found, vetoed={0: Slower(2.6, pairs)})
    assert of(world, whole).switch.against[0] == "statement 1000 takes 2.6 times as long under B"
    last = replace(found, vetoed={0: Slower(2.6, 1)})
    assert of(world, last).switch.against[0].endswith(f"in the latest of {pairs} pairs")


def test_what_speaks_against_a_better_b_is_said_and_costs_its_exit_code():
    world = World(0.8, seed=3)
    _, outcome = told(world)
    for harmed, why in (
        (replace(outcome, vanished=(0,)), "hardly ends under B"),
        (replace(outcome, tail=Interval(2.0, 1.3, 3.0, 0.95)), "in no body"),
        (replace(outcome, body=replace(outcome.body, covered=0.4)), "40 % of the time"),
    ):
        result = of(world, harmed)
        assert not harmed.is_acceptable
        assert (result.word, result.exit_code) == ("better", ExitCode.FINDINGS)
        assert why in result.switch.against[0]
        assert "not to be accepted" in result.title


def test_the_result_and_its_page_survive_the_store():
    result, _ = told(World(0.8, seed=3))
    again = result_from_json(StudyKind.LIVE, plain(result))
    assert again == result
    study = replace(make_study(StudyKind.LIVE), state=StudyState.COMPLETE, result=again)
    report = compose(StudyRecord(study, ()))
    assert [one.id for one in report.sections[:5]] == ["change", "pairs", "why", "changes", "guards"]
    assert (report.title, report.word) == (result.title, "better")
    assert judged(study).title == result.title
    text = str(report.sections)
    assert "Not watched: " in text
    assert "work_mem = '64MB'" in text
    assert render(report) is not None
    assert "statements-forest" in render_html(report)


def test_a_study_that_was_broken_off_shows_the_pairs_that_there_were():
    heard = []
    world = World(0.8, happens={("count", 5): KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        Switchback(world, world.reference, 30.0, Design(min_pairs=9), seed=3, hear=heard.append).run()
    result = of(world, heard[-1])
    study = replace(make_study(StudyKind.LIVE), state=StudyState.INTERRUPTED, result=result)
    report = compose(StudyRecord(study, ()))
    assert report.word == "not resolved"
    assert "interrupted" in str(report.sections)


def test_equal_arms_prove_nothing_where_the_load_hardly_saw_the_change():
    world = World(1.0, seed=3)
    found = world.simulation.period(25.0)
    world.simulation.period = lambda seconds, factors=1.0: found
    _, outcome = told(world)
    assert outcome.verdict.word is Word.EQUIVALENT
    assert of(world, outcome).exit_code is ExitCode.OK
    result = of(world, outcome, not_tested="30 % of the body runs cached plans")
    assert result.exit_code is ExitCode.NOT_RESOLVED
    assert result.title == "Not tested: 30 % of the body runs cached plans"


def test_the_page_of_a_rejected_plan_claims_nothing_of_pairs_or_guards():
    switch = LiveSwitch(a={}, b={"work_mem": "64MB"}, before={"work_mem": "4MB"}, ending=REJECTED, period_s=30.0,
                        wash_s=5.0, seed=3, stopped="the plan was rejected, and nothing was changed")  # fmt: skip
    result = replace(WATCHED, switch=switch)
    assert result.exit_code is ExitCode.NOT_RESOLVED
    report = compose(StudyRecord(replace(make_study(StudyKind.LIVE), state=StudyState.COMPLETE, result=result), ()))
    assert report.word == REJECTED
    assert not {"pairs", "guards", "changes"} & {one.id for one in report.sections}
    assert "would have set" in str(report.sections)


def test_the_page_has_the_interval_after_each_pair_and_the_pairs_as_points():
    result, outcome = told(World(0.8, seed=3))
    pairs = result.switch.pairs
    assert [one.interval is None for one in pairs[:3]] == [True, True, False], "the first look is at three pairs"
    assert pairs[-1].interval == outcome.verdict.interval
    figure = running(result.switch, outcome.verdict)
    means, points = figure.series
    assert means.x == tuple(float(one.number) for one in pairs[2:])
    assert (means.lo[-1], means.hi[-1]) == (outcome.verdict.interval.lo, outcome.verdict.interval.hi)
    assert points.y == tuple(one.ratio for one in pairs)
    assert figure.table.rows[0][3:] == ("none yet", "none yet")
    alone = replace(result.switch, pairs=tuple(replace(one, interval=None) for one in pairs))
    assert running(alone, outcome.verdict) is None, "of an earlier result nothing is known"


def test_the_plan_says_what_fits_into_the_time_and_what_is_known_so_far():
    title = "An hour on this load shows effects from 2 % on"
    assert shows(title, 48, 30.0, 3600.0) == f"48 pairs take 24:00 min. {title}"
    assert shows(title, 48, 30.0, 1000.0) == f"the time is enough for about 33 of 48 pairs. {title}"
    said = shows("Not resolved: B has a time", 48, 30.0, 3600.0, pairs=2)
    assert said == "48 pairs take 24:00 min. So far, after 2 pairs: not resolved: B has a time"
