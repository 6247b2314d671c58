"""The page of a study that runs, in a real browser: its card moves, and gives way to the result when the study ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_dashboard_browser import serving
from test_dashboard_patch import AHEAD_S

import study_example as example
from fix_browser import Browser
from pgdyno.model.live import Live, LivePoint, LiveReplay
from pgdyno.model.replay_comparison import Lateness
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.store.catalogue import Store
from pgdyno.store.live import LiveBoard

pytestmark = [pytest.mark.web, pytest.mark.xdist_group("dashboard-patch")]
STUDY = "replay-5a1b2c"
TEXT = "document.getElementById('under-way').innerText"


class Replayed:
    """A replay that goes on whenever it is told to: its row on the live board."""

    def __init__(self, store: Store) -> None:
        self.store, self.seconds = store, 0
        self.points: tuple[LivePoint, ...] = ()
        store.add_study(replace(example.make_study(StudyKind.REPLAY, STUDY), name="monday", created_at=time.time()))

    def step(self, paused_s: float | None = None) -> None:
        self.seconds += 1
        sent, now = 1000 * self.seconds, time.time()
        self.points = (*self.points, LivePoint(now, 1000.0, 4.2))
        answers = {"success": sent - 30, "expected": 10, "new": 3, "missing": 2, "changed": 1, "skipped": 0}
        late = tuple(Lateness(part, 0.1, 0.5, 1.5) for part in ("injector", "gate", "server"))
        state = LiveReplay(60_000, sent + 5, sent, sent - 4, 6, 1.5, answers, late, 3.0, 5.0, paused_s)
        LiveBoard(self.store).show(
            Live(STUDY, now + AHEAD_S, now - self.seconds, "db1", 1, phase="sending", elapsed_s=self.seconds,
                 duration_s=60.0, place="as said on the first page", left_s=60.0 - self.seconds, points=self.points,
                 replay=state)
        )  # fmt: skip

    def end(self) -> None:
        self.store.update_study(STUDY, state=StudyState.FAILED, ended="the target's disk was full")
        LiveBoard(self.store).clear(STUDY)


@pytest.fixture
def replayed(pgdyno_home: Path) -> Iterator[tuple[Replayed, str]]:
    with serving(pgdyno_home) as served, Store.open(served.store) as store:
        yield Replayed(store), served.url


@pytest.mark.requirement("R-REP-06", "R-REP-07")
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, True)])
def test_the_page_of_a_replay_moves_and_becomes_that_of_its_end(
    browser: Browser, replayed: tuple[Replayed, str], width: int, dark: bool
) -> None:
    study, url = replayed
    study.step()
    page = browser.reader()
    page.visit(f"{url}studies/{STUDY}", width=width, dark=dark)
    page.wait_for("document.querySelectorAll('#running canvas').length === 7")
    shown = page.evaluate(TEXT)
    for words in ("1,005 of 60,000 statements", "996; 6 answers are not the captured ones",
                  "3.0 ms from the due moment, captured 5.0 ms",
                  "injector", "gate", "server", "the captured error", "no error where the capture has one",
                  "59 s left", "none at present"):  # fmt: skip
        assert words in shown, words
    page.evaluate('document.querySelector("#under-way h3 a").focus()')
    study.step(paused_s=1.0)
    page.wait_for(f"{TEXT}.includes('paused for 1.0 s')")
    shown = page.evaluate(TEXT)
    assert "2,005 of 60,000 statements" in shown
    assert "58 s left" in shown
    assert page.evaluate("document.activeElement.textContent") == "monday"
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert "as said on the first page" not in shown, "the figures say it"
    assert page.evaluate("document.querySelectorAll('#report > section').length") > 1, "its report is there as well"
    assert {one for one in page.requests if not one.startswith("data:")} == {f"{url}events"}
    study.end()
    page.wait_for("document.getElementById('under-way') === null && document.readyState === 'complete'")
    assert "The target's disk was full." in page.evaluate("document.body.innerText")
    assert page.problems == []
