"""The first page in a real browser while a study moves on: what a reader holds on to stays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_dashboard_browser import serving
from test_operator_browser import signed_in

import study_example as example
from fix_browser import Browser, Page
from pgdyno.model.configuration import Configuration
from pgdyno.model.live import Live, LiveIndicator, LivePoint
from pgdyno.model.person.live_question import LiveDesk
from pgdyno.model.person.operator_request import OperatorAction, OperatorRequest
from pgdyno.model.study import StudyState
from pgdyno.model.trial import Outcome, Role, TrialSpec, TrialState
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard
from pgdyno.store.requests import RequestBoard

pytestmark = [pytest.mark.web, pytest.mark.xdist_group("dashboard-patch")]
STUDY = "tune-3fa94c"
NARROW = 390
AHEAD_S = 600.0
"""So far ahead of its time a study reports: on a machine that stands still it would be called silent, and look so."""
WIDER = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


class Moving:
    """A study that moves on whenever it is told to: its row on the live board, and its trials."""

    def __init__(self, store: Store) -> None:
        self.store, self.seconds = store, 0
        self.points: tuple[LivePoint, ...] = ()
        self.desk: LiveDesk | None = None
        study = replace(example.make_study(study_id=STUDY), name="the winter tune", created_at=time.time() - 100)
        store.add_study(study)

    def step(self, tps: float | None = 100.0) -> None:
        self.seconds += 1
        now = time.time()
        self.points = (*self.points, LivePoint(now, tps, 4.2, 50.0, 20.0, 10.0, 1.0, 2.0))
        LiveBoard(self.store).show(
            Live(STUDY, now + AHEAD_S, now - self.seconds, "db1", 1, run=1, number=1, role="search", phase="load",
                 elapsed_s=self.seconds, duration_s=60.0, points=self.points,
                 indicators=(LiveIndicator("disk", "amber", f"{self.seconds} GB left, floor 100 GB"),), desk=self.desk)
        )  # fmt: skip

    def trial(self, state: TrialState = TrialState.COMPLETE, **settings: str) -> None:
        trial = self.store.begin_trial(STUDY, TrialSpec(Configuration.of(settings), Role.SEARCH, "candidate", 0, 0))
        self.store.finish_trial(trial, Outcome(state, throughput=300.0, began_at=1.0, ended_at=2.0))


@pytest.fixture
def moving(pgdyno_home: Path) -> Iterator[tuple[Moving, str]]:
    with serving(pgdyno_home) as served, Store.open(served.store) as store:
        yield Moving(store), served.url


def visited(browser: Browser, moving: Moving, url: str, **size: int) -> Page:
    moving.step()
    page = browser.reader()
    page.visit(url, **size)
    page.wait_for('document.querySelectorAll(".running canvas").length === 7')
    return page


def moved(page: Page, moving: Moving, tps: float | None) -> None:
    """Move the study on, and wait until the page shows that second."""
    moving.step(tps)
    page.wait_for(f"document.getElementById('alerts').innerText.includes('{moving.seconds} GB left')")
    assert f"{moving.seconds} GB left" in page.evaluate("document.getElementById('alerts').innerText")


@pytest.mark.requirement("R-REP-07")
def test_focus_and_a_selection_survive_what_moves(browser: Browser, moving: tuple[Moving, str]) -> None:
    study, url = moving
    study.trial(work_mem="9MB")
    page = visited(browser, study, url)
    page.evaluate('document.querySelector(".running h3 a").focus()')
    page.evaluate('getSelection().selectAllChildren(document.querySelector(".running .load"))')
    selected = page.evaluate("getSelection().toString()")
    assert "ybio" in selected.lower()
    for tps in (200.0, 300.0):
        moved(page, study, tps)
        assert page.evaluate("document.activeElement.textContent") == "the winter tune"
        assert page.evaluate("getSelection().toString()") == selected
    page.evaluate('document.querySelector("#alerts a").focus()')
    moved(page, study, 400.0)  # the alert's own words have changed, and it is the same alert
    assert page.evaluate("document.activeElement.closest('#alerts') !== null") is True
    study.trial(work_mem="10MB")  # a new row before the one that was there
    page.wait_for("document.querySelectorAll('[data-part=trials] tbody tr').length === 2")
    rows = page.evaluate("[...document.querySelectorAll('[data-part=trials] tbody tr')].map(one => one.innerText)")
    assert ["work_mem = 10MB" in rows[0], "work_mem = 9MB" in rows[1]] == [True, True]
    assert page.problems == []


def test_between_two_loads_the_last_value_stays_and_disturbed_trials_are_an_alert(
    browser: Browser, moving: tuple[Moving, str]
) -> None:
    study, url = moving
    page = visited(browser, study, url)
    moved(page, study, None)
    shown = '[...document.querySelectorAll(".figures div")].map(one => [one.innerText, !!one.querySelector(".old")])'
    assert ["throughput\n100 tps", True] in page.evaluate(shown)
    assert "unknown" not in page.evaluate('document.querySelector(".figures").innerText')
    study.trial(TrialState.DISTURBED, work_mem="9MB")
    page.wait_for("document.getElementById('alerts').innerText.includes('disturbed 1 of 1 trial')")
    assert "disturbed 1 of 1 trial" in page.evaluate("document.getElementById('alerts').innerText")
    assert page.evaluate("document.getElementById('alerts').getAttribute('aria-live')") == "polite"


def test_a_phone_shows_the_page_without_scrolling_sideways(browser: Browser, moving: tuple[Moving, str]) -> None:
    study, url = moving
    study.trial(shared_buffers="4GB", effective_io_concurrency="200", max_parallel_workers_per_gather="0")
    page = visited(browser, study, url, width=NARROW)
    assert page.evaluate(WIDER) is False
    assert page.evaluate('document.querySelector(".running").getBoundingClientRect().right') <= NARROW


def test_figures_of_a_card_do_not_run_into_each_other_on_a_phone(browser: Browser, moving: tuple[Moving, str]) -> None:
    """A replay has statements/s, which is wider than half of a phone's column."""
    page = visited(browser, *moving, width=NARROW)
    page.evaluate("document.querySelectorAll('.figures dd').forEach(one => one.textContent = '39.2 statements/s')")
    assert page.evaluate(
        "[...document.querySelectorAll('.figures dd')].every(one => one.scrollWidth <= one.clientWidth)"
    )


def test_a_phone_shows_what_runs_before_all_alerts_and_those_when_asked(
    browser: Browser, moving: tuple[Moving, str]
) -> None:
    study, url = moving
    for number in range(6):
        failed = replace(example.make_study(study_id=f"failed-{number}"), created_at=time.time())
        study.store.add_study(replace(failed, state=StudyState.FAILED))
    page = visited(browser, study, url, width=NARROW, height=844)
    shown = "[...document.querySelectorAll('#alerts li')].filter(one => one.checkVisibility()).length"
    top = "document.querySelector('.running').getBoundingClientRect().top"
    assert (page.evaluate(shown), page.evaluate(top) < 0.6 * 844) == (2, True)
    assert page.evaluate("document.querySelector('.rest').innerText") == "Show 5 more: 4 alerts, 1 warning"
    page.evaluate("document.querySelector('.rest').click()")
    assert page.evaluate(shown) == 7
    study.step()
    page.wait_for(f"document.getElementById('alerts').innerText.includes('{study.seconds} GB left')")
    assert (page.evaluate(shown), page.evaluate("document.querySelector('.rest').innerText")) == (7, "Show fewer")
    assert page.problems == []
    wide = visited(browser, study, url)
    assert (wide.evaluate(shown), wide.evaluate("document.querySelector('.rest').checkVisibility()")) == (7, False)


def test_a_study_that_ended_without_a_verdict_is_called_by_its_name(
    browser: Browser, moving: tuple[Moving, str]
) -> None:
    study, url = moving
    study.store.update_study(STUDY, state=StudyState.FAILED)
    page = browser.reader()
    page.visit(url)
    assert page.evaluate('document.querySelector("#alerts a").textContent') == "the winter tune"
    assert page.evaluate('document.querySelector("#studies a").textContent') == "the winter tune"


def test_a_second_between_two_gaps_is_drawn(browser: Browser, moving: tuple[Moving, str]) -> None:
    study, url = moving
    page = visited(browser, study, url)  # one reading so far: a line would need two
    blue = """(() => { const canvas = document.querySelector(".strips canvas");
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let found = 0; for (let at = 0; at < data.length; at += 4) found += data[at + 2] - data[at] > 80;
      return found; })()"""
    page.wait_for(f"{blue} > 4")
    assert page.evaluate(blue) > 4


def test_on_a_telephone_a_setting_is_not_broken(browser: Browser, moving: tuple[Moving, str]) -> None:
    study, url = moving
    study.trial(maintenance_work_mem="704MB", max_parallel_workers_per_gather="16")
    page = visited(browser, study, url, width=NARROW, height=844)
    lines = """[...document.querySelectorAll(".settings span")].map(one => {
      const range = document.createRange(), name = one.textContent.indexOf(" ");
      range.setStart(one.firstChild, 0); range.setEnd(one.firstChild, name);
      return range.getClientRects().length; })"""
    page.wait_for("document.querySelectorAll('.settings span').length === 2")
    assert page.evaluate(lines) == [1, 1]
    assert page.evaluate(WIDER) is False


@pytest.mark.requirement("R-REP-07", "R-REP-12")
def test_what_an_operator_has_opened_and_typed_stays_when_another_one_asks(
    browser: Browser, pgdyno_home: Path, tmp_path: Path
) -> None:
    viewers, operators = tmp_path / "viewers", tmp_path / "operators"
    more = ("--token-file", str(viewers), "--operator-token-file", str(operators))
    with serving(pgdyno_home, *more) as served, Store.open(served.store) as store:
        study = Moving(store)
        study.desk = LiveDesk("db1:1")
        study.step()
        page = signed_in(browser, f"{served.url}operator", operators.read_text().split()[1])
        page.wait_for("document.querySelector('details.orders') !== null")
        page.evaluate("document.querySelector('details.orders').open = true")
        page.evaluate("document.querySelector('details.orders [name=why]').focus()")
        page.call("Input.insertText", text="users complain")
        RequestBoard(store).add(
            OperatorRequest("r1", STUDY, "db1:1", OperatorAction.PAUSE, "another", "lunch", time.time())
        )
        study.step()
        page.wait_for("document.querySelector('.desk').innerText.includes('lunch')")
        assert page.evaluate("document.querySelector('details.orders').open")
        assert page.evaluate("document.activeElement.value") == "users complain"
