"""Staircases and curves in a real browser: drawn, readable when narrow, patterns beside colours."""

from __future__ import annotations

from pathlib import Path

import pytest

from fix_browser import Browser
from fix_postgres import NIGHT
from pgdyno.report.drawing.html import write_html
from seed_charts import batch_windows, delays, locks, scaling
from staircase_example import curves, page, staircase

pytestmark = pytest.mark.web
LOOKS = [(width, dark) for width in (1200, 700, 390) for dark in (False, True)]
if not NIGHT:  # each width, and either of the two
    LOOKS = [(1200, False), (700, True), (390, False)]

BARE_CANVASES = """
[...document.querySelectorAll("[data-figure]")].filter(host => ![...host.querySelectorAll("canvas")].some(canvas => (
  canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(value => value !== 0)))).length
"""
BARE_FIGURES = """
[...document.querySelectorAll("figure")].filter(one => !one.ariaLabel || !one.querySelector("details table")).length
"""
COLOURS = """
(() => {
  const canvas = document.querySelector("[data-figure=staircase] canvas");
  const { width, height } = canvas, data = canvas.getContext("2d").getImageData(0, 0, width, height).data, seen = {};
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] < 255) continue;
    const key = [data[at], data[at + 1], data[at + 2]].join(",");
    seen[key] = (seen[key] ?? 0) + 1;
  }
  return seen;
})()
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("curves") / "curves.html"
    names = ("baseline", *(f"autovacuum_vacuum_cost_limit {at} → {at + 1}" for at in range(19)))
    write_html(
        page(
            staircase((1.03, 1.0, 0.95, 1.02) * 4 + (1.1, 0.9, 1.0), names=names),
            curves(),
            scaling(),
            locks(),
            batch_windows(),
            delays(),
        ),
        path,
    )
    return path


@pytest.mark.requirement("R-REP-02")
@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_twenty_steps_and_two_curves_are_drawn(browser: Browser, shown: Path, dark: bool, width: int) -> None:
    opened = browser.reader()
    opened.open(shown, width=width, dark=dark)
    assert opened.problems == []
    assert opened.requests == []
    assert opened.evaluate(BARE_CANVASES) == 0
    assert opened.evaluate(BARE_FIGURES) == 0
    assert opened.evaluate("document.documentElement.scrollWidth") <= width


def test_every_kind_of_step_has_its_colour_and_the_dropped_ones_a_pattern(browser: Browser, shown: Path) -> None:
    opened = browser.reader()
    opened.open(shown)
    seen = opened.evaluate(COLOURS)
    keep, drop = seen.get("0,158,115", 0), seen.get("213,94,0", 0)
    assert keep > 20_000
    assert drop > 1_000
    assert drop / 5 < keep / 9 * 0.75, "five hatched bars show less of their colour than nine solid ones"


def test_a_narrow_screen_lays_the_bars_on_their_side(browser: Browser, shown: Path) -> None:
    def height(width: int) -> float:
        opened = browser.reader()
        opened.open(shown, width=width)
        return float(opened.evaluate("document.querySelector('[data-figure=staircase]').clientHeight"))

    assert height(1200) < 500
    assert height(390) >= 34 * 21


def test_both_are_printed(browser: Browser, shown: Path, tmp_path: Path) -> None:
    opened = browser.reader()
    opened.open(shown, dark=True)
    opened.pdf(tmp_path / "curves.pdf")
    assert (tmp_path / "curves.pdf").stat().st_size > 20_000
    assert opened.problems == []
