"""Pages of a target, of two studies, of a run and of live studies in a real browser: drawn, readable, by keyboard.

axe-core is run on each of them: that of the package axe-core-python, or the axe.min.js that PGDYNO_TEST_AXE names.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from test_report_browser import COVERED, CUT, EMPTY_CANVASES, NAMELESS_HEADS, UNLABELLED, opened

import study_example as example
from fix_browser import Browser, Page
from fix_postgres import NIGHT
from live_search_example import BETTER, CANDIDATES, MODEL, WORSE, search
from pgdyno.model.change import ChangeAction, ChangeRecord
from pgdyno.model.results.live import LiveDecision, LiveMoment, LiveOwnEffect, LiveResult, LiveSearch, LiveSwitch
from pgdyno.model.study import StudyKind, StudyState
from pgdyno.report.drawing.html import render
from pgdyno.report.sections import Report
from pgdyno.report.study_record import StudyRecord
from pgdyno.store.catalogue import Store
from pgdyno.studies.bench.run import run_record
from pgdyno.studies.beside import build_studies_beside
from pgdyno.studies.reports import build_run_report, compose
from pgdyno.studies.target_page import build_target_page
from simulated_live_world import WATCHED

pytestmark = pytest.mark.web
LOOKS = ((1200, False), (390, True))
SCROLLED = """
[...document.querySelectorAll("main *")].filter(one => {
  const style = getComputedStyle(one), scrolls = ["auto", "scroll"].includes(style.overflowX);
  return scrolls && one.scrollWidth > one.clientWidth + 1 && one.tabIndex < 0;
}).map(one => one.className || one.tagName)
"""
"""What can be scrolled by a mouse alone."""
SIDEWAYS = """
[...document.querySelectorAll(".scroll:has(.told)")].filter(one => one.scrollWidth > one.clientWidth + 1).length
"""
"""Tables of words of which a part lies off the screen."""
UNDER_BUTTONS = """
[...document.querySelectorAll(".snippet")].filter(box => {
  const button = box.querySelector("button").getBoundingClientRect(), label = document.createRange();
  label.selectNodeContents(box.querySelector("h3"));
  return [...label.getClientRects()].some(one => one.right > button.left && one.bottom > button.top
    && one.left < button.right && one.top < button.bottom);
}).map(box => box.querySelector("h3").textContent)
"""
"""Labels that the button to copy lies upon."""
AXE = """axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations.map(
  one => `${one.id}: ${one.nodes.slice(0, 3).map(node => node.html.slice(0, 90)).join(" | ")}`))"""


def of_target(store: Store) -> Report:
    study = store.study(example.add_tune(store))
    change = ChangeRecord(1.79e9, "alice", ChangeAction.APPLY, study.target, "e", "20261126T101112-1", "work-mem",
                          "work_mem", "4MB", "64MB", study.id)  # fmt: skip
    store.add_changes([change, replace(change, session="s-2"), replace(change, session="s-2",
                       action=ChangeAction.ROLLBACK)])  # fmt: skip
    return build_target_page(store, study.target)


def of_two(store: Store) -> Report:
    return build_studies_beside(store, example.add_tune(store), example.add_ab(store, word="better"))


def of_run(store: Store) -> Report:
    study = store.study(example.add_tune(store))
    return build_run_report(store, run_record(store, study, store.trials(study.id)[0]))


def of_live(*, switch: LiveSwitch | None = None, found: LiveSearch | None = None) -> Report:
    moments = tuple(
        LiveMoment(lane=lane, at=1.79e9 + 30 * number, seconds=30.0 if lane in "AB" else 0.0, words="began")
        for number, lane in enumerate(("A", "B", "checkpoint", "B", "A", "guard", "baseline"))
    )
    decision = LiveDecision(at=1.79e9, who="alice", where="dashboard", asked="Try candidate 1 of 3?", answer="approve",
                            why="sorts spill to disk since the last release")  # fmt: skip
    result: LiveResult = replace(
        WATCHED, switch=switch, search=found, title="a live study", word="better", moments=moments,
        decisions=(decision,),
    )  # fmt: skip
    target = "postgres@/var/lib/laboratory/cache/sandboxes/warehouse-of-the-north/server/run:5432/postgres"
    study = replace(example.make_study(StudyKind.LIVE), state=StudyState.COMPLETE, result=result, target=target)
    return compose(StudyRecord(study, []))


PAGES: dict[str, Callable[[Store], Report]] = {
    "target": of_target,
    "two studies": of_two,
    "run": of_run,
    "live, two arms": lambda _store: of_live(switch=BETTER),
    "live, a search": lambda _store: of_live(
        found=search(finals=(BETTER, WORSE), chosen=0, model=MODEL,
                     candidates=(*CANDIDATES, replace(CANDIDATES[1], number=3, ratio=0.9)),
                     effects=(LiveOwnEffect(setting="work_mem", verdict=BETTER.verdict),)),
    ),
}  # fmt: skip

DARK = ("run", "live, two arms")
"""Where axe-core looks in the dark in a push, and elsewhere on a desk: it takes as long as all the rest."""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole_on_a_desk_and_on_a_telephone_in_the_dark(browser: Browser, tmp_path: Path, name: str) -> None:
    path = tmp_path / "page.html"
    with Store.open(tmp_path / "store.db") as store:
        path.write_text(render(PAGES[name](store), home="/"))
    for width, dark in LOOKS:
        page = opened(browser, path, width=width, dark=dark)
        assert page.problems == []
        assert page.requests == []
        for query in (EMPTY_CANVASES, CUT, SCROLLED, UNDER_BUTTONS):
            assert page.evaluate(query) == []
        for query in (UNLABELLED, COVERED, NAMELESS_HEADS, SIDEWAYS):
            assert page.evaluate(query) == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        _look(page, f"{name} {width}")
        if NIGHT or dark is (name in DARK):
            assert _violations(page) == []


def _violations(page: Page) -> list[str]:
    axe = Path(os.environ.get("PGDYNO_TEST_AXE") or str(files("axe_core_python") / "axe.min.js"))
    page.evaluate(axe.read_text() + "; 0")
    found = page.evaluate(AXE)
    assert isinstance(found, list)
    return found


def _look(page: Page, name: str) -> None:
    """Keep a picture where somebody wants to look at it."""
    if folder := os.environ.get("PGDYNO_TEST_PICTURES"):
        page.screenshot(Path(folder) / f"{name}.png".replace(" ", "-"))
