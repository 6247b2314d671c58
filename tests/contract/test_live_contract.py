"""The board of what runs, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import insert, select

import study_example as example
from pgdyno.errors import StoreError
from pgdyno.model.configuration import BASELINE
from pgdyno.model.live import SILENT_S, Live, LiveIndicator, LiveNotice, LivePoint
from pgdyno.model.person.live_question import LiveDesk, LiveQuestion, QuestionFact, QuestionSetting
from pgdyno.model.person.operator_request import OperatorAction
from pgdyno.model.trial import Outcome, Role, TrialSpec, TrialState
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.store.schema import LIVE

pytestmark = pytest.mark.requirement("R-REP-06")
STATE = Live(
    "tune-3fa94c", at=1_800_000_001.5, began_at=1_800_000_000.0, host="db1", pid=42, run=7, number=3, role="search",
    arm="spread", phase="load", elapsed_s=1.5, duration_s=6.0, best=812.5,
    indicators=(LiveIndicator("disk", "amber", "1.2 GB of 1 GB"),),
    notices=(LiveNotice(1_800_000_000.5, "guard disk: é"),),
    points=(LivePoint(1_800_000_001.0, tps=800.5, cpu_pct=40.0), LivePoint(1_800_000_002.0, p99_ms=12.25)),
    desk=LiveDesk("run", is_paused=True, question=LiveQuestion(
        "q1", "Try é?", (OperatorAction.APPROVE, OperatorAction.EDIT), 1_800_000_900.123456,
        (QuestionSetting("work_mem", "4MB", "16MB"),), (QuestionFact("so far", "nothing"),),
    )),
)  # fmt: skip


@pytest.fixture
def store(new_store: Callable[[], str]) -> Iterator[Store]:
    with Store.open(new_store()) as opened:
        opened.add_study(example.make_study())
        yield opened


def test_a_state_comes_back_as_it_was_shown_and_only_the_newest_stays(store: Store) -> None:
    board = LiveBoard(store)
    board.show(STATE)
    board.show(replace(STATE, at=STATE.at + 1, phase="examine"))
    assert board.running() == [replace(STATE, at=STATE.at + 1, phase="examine")]
    board.show(STATE, [point.to_text() for point in STATE.points])
    assert board.running() == [STATE]
    board.clear(STATE.study)
    board.clear(STATE.study)
    assert board.running() == []


def test_the_study_that_began_last_comes_first(store: Store) -> None:
    store.add_study(example.make_study(study_id="other"))
    board = LiveBoard(store)
    board.show(STATE)
    board.show(replace(STATE, study="other", began_at=STATE.began_at + 5))
    assert [live.study for live in board.running()] == ["other", STATE.study]


def test_a_study_that_the_store_does_not_have_is_refused(store: Store) -> None:
    with pytest.raises(StoreError):
        LiveBoard(store).show(replace(STATE, study="nobody"))


def test_what_cannot_be_read_hides_no_other(store: Store) -> None:
    store.add_study(example.make_study(study_id="other"))
    LiveBoard(store).show(STATE)
    with store.write() as connection:
        connection.execute(insert(LIVE), {"study_id": "other", "at": 1.0, "state": {"study": "other", "points": 3}})
    assert LiveBoard(store).running() == [STATE]


def test_a_commit_that_waits_for_no_disk_leaves_the_others_waiting(store: Store) -> None:
    if not store.name.endswith(".db"):
        pytest.skip("SQLite alone")
    with store.write(fleeting=True) as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 1  # NORMAL
    with store.write() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2  # FULL
        assert connection.execute(select(LIVE)).all() == []


FIGURES = st.none() | st.floats(0, 1e7).map(lambda value: float(f"{value:.5g}"))
POINTS = st.builds(LivePoint, st.integers(10**9, 2 * 10**9).map(float), *[FIGURES] * 7)


@given(points=st.lists(POINTS, max_size=5), text=st.text(max_size=40))
def test_every_state_survives_json(points: list[LivePoint], text: str) -> None:
    state = replace(STATE, points=tuple(points), arm=text, notices=(LiveNotice(1.0, text),))
    assert Live.from_json(state.to_json()) == state
    assert json.loads(state.to_text([point.to_text() for point in points])) == json.loads(json.dumps(state.to_json()))


@given(points=st.lists(POINTS, max_size=5))
def test_a_point_is_rounded_once_and_has_all_its_figures(points: list[LivePoint]) -> None:
    assert [point.shortened() for point in points] == points
    rough = LivePoint(1_700_000_000.123, 1234.5678, cpu_pct=99.9999999)
    assert rough.shortened() == LivePoint(1_700_000_000.1, 1234.6, cpu_pct=100.0)


@pytest.mark.parametrize(
    "broken", [{}, {"study": "a"}, {**STATE.to_json(), "lamps": 3}, {**STATE.to_json(), "points": [1]}]
)
def test_what_is_no_state_is_refused_by_name(broken: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not the state of a study"):
        Live.from_json(broken)


def test_what_a_newer_version_added_is_left_out() -> None:
    assert Live.from_json({**STATE.to_json(), "colour": "blue"}) == STATE


def test_a_study_is_silent_when_nothing_was_heard_for_longer_than_a_living_one_is_silent() -> None:
    assert not STATE.is_silent(STATE.at + SILENT_S)
    assert STATE.is_silent(STATE.at + SILENT_S + 1)


def test_the_newest_trials_are_the_end_of_all(store: Store) -> None:
    spec = TrialSpec(BASELINE, Role.BASELINE, "baseline", 1, 0)
    for _ in range(5):
        store.finish_trial(store.begin_trial(STATE.study, spec), Outcome(TrialState.COMPLETE, throughput=1.0))
    every = store.trials(STATE.study)
    assert len(every) == 5
    assert store.trials(STATE.study, newest=2) == every[-2:]
    assert store.trials(STATE.study, newest=9) == every
