"""The page of advice in a real browser: bars are drawn, cards open, nothing is violated and nothing is fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from advice_example import whole
from fix_browser import Browser, Page
from fix_postgres import NIGHT
from pgdyno.report.advice.page import advice_report
from pgdyno.report.drawing.html import write_html

pytestmark = pytest.mark.web
LOOKS = [(width, dark) for width in (1200, 600, 360) for dark in (False, True)]
if not NIGHT:  # each width, and either of the two
    LOOKS = [(1200, False), (600, True), (360, False)]


@pytest.fixture(scope="module")
def advice_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("advice") / "advice.html"
    write_html(advice_report(whole()), path)
    return path


def opened(browser: Browser, path: Path, *, width: int = 1200, dark: bool = False) -> Page:
    page = browser.reader()
    page.open(path, width=width, dark=dark)
    return page


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_advice_is_drawn_and_breaks_no_rule(browser: Browser, advice_page: Path, dark: bool, width: int) -> None:
    page = opened(browser, advice_page, width=width, dark=dark)
    assert page.problems == []
    assert page.requests == []
    assert page.evaluate("document.querySelectorAll('[data-figure=effects] canvas').length") == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_tab_behind_another_one_is_brought_to_the_front_and_draws(browser: Browser, advice_page: Path) -> None:
    """What tests of other files open lies before the tab that all readers share, in whatever order they run."""
    browser.reader()
    browser.page()
    assert opened(browser, advice_page).evaluate("document.visibilityState") == "visible"


def test_bars_are_of_the_height_of_their_figures(browser: Browser, advice_page: Path) -> None:
    page = opened(browser, advice_page)
    # the widest run of the bars' colour in each row of pixels: 35 %, 7 to 12 %, 2 %
    widths = page.evaluate(
        """(() => {
          const canvas = document.querySelector("[data-figure=effects] canvas");
          const { width, height } = canvas, pen = canvas.getContext("2d"), found = [];
          const data = pen.getImageData(0, 0, width, height).data;
          for (let y = 0; y < height; y++) {
            let run = 0;
            for (let x = 0; x < width; x++) {
              const at = 4 * (y * width + x);
              if (data[at + 3] > 0 && data[at] > 200 && data[at + 1] > 130 && data[at + 2] < 90) run++;
            }
            found.push(run);
          }
          return found.filter((run, y) => run > 4 && !(found[y - 1] > 4));
        })()"""
    )
    assert len(widths) == 3
    assert widths[0] / widths[1] == pytest.approx(35 / 12, rel=0.05)
    assert widths[1] / widths[2] == pytest.approx(12 / 2, rel=0.15)


def test_a_card_opens_and_the_critical_one_is_open(browser: Browser, advice_page: Path) -> None:
    page = opened(browser, advice_page)
    shown = "document.querySelector('#rule-{0} .body').checkVisibility()"
    assert page.evaluate(shown.format("fsync")) is True
    assert page.evaluate(shown.format("dirty-bytes")) is False
    page.evaluate("document.querySelector('#rule-dirty-bytes > summary').click()")
    assert page.evaluate(shown.format("dirty-bytes")) is True
