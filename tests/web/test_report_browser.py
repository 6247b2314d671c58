"""The HTML report in a real browser: everything is drawn, nothing is violated, nothing is fetched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import study_example as example
from fix_browser import Browser, Page
from fix_postgres import NIGHT
from pgdyno.report.drawing.html import write_html
from pgdyno.store.catalogue import Store
from pgdyno.studies.reports import build_report

pytestmark = pytest.mark.web

# A canvas counts as drawn when some of its pixels are not transparent.
EMPTY_CANVASES = """
[...document.querySelectorAll("[data-figure]")].filter(host => ![...host.querySelectorAll("canvas")].some(canvas => {
  const { width, height } = canvas;
  return width && height && canvas.getContext("2d").getImageData(0, 0, width, height).data.some(value => value !== 0);
})).map(host => host.dataset.figure)
"""
UNLABELLED = """
[...document.querySelectorAll("figure")].filter(one => !one.getAttribute("aria-label")
  || !one.querySelector("figcaption") || !one.querySelector("details table")).length
"""
CUT = """
[...document.querySelectorAll("h1, h2, h3, h4, figcaption, .tile *, td, th, dd, li, .caption")].filter(one => (
  one.checkVisibility() && one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflow !== "visible"
)).map(one => one.textContent)
"""
COVERED = """
[...document.querySelectorAll(".tile")].filter(tile => {
  const word = tile.querySelector(".word")?.getBoundingClientRect(), label = document.createRange();
  label.selectNodeContents(tile.querySelector("h2"));
  return word && [...label.getClientRects()].some(one => one.right > word.left && one.bottom > word.top
    && one.left < word.right && one.top < word.bottom);
}).length
"""
NAMELESS_HEADS = 'document.querySelectorAll("table:not([role=presentation]) th:not([scope])").length'
STUDIES: dict[str, Callable[[Store], str]] = {
    "tune": example.add_tune,
    "keep": example.add_keep,
    "tune of an old server": lambda store: example.add_tune(store, old_server=True),
    "bench": example.add_bench,
    "ab": example.add_ab,
}
LOOKS = [(name, width, dark) for name in STUDIES for width in (1200, 600, 360) for dark in (False, True)]
if not NIGHT:  # one at each width, and of the others what each has of its own, where there is little room for it
    LOOKS = [("tune", 1200, False), ("tune", 600, True), ("tune", 360, False), ("keep", 600, True),
             ("tune of an old server", 360, False), ("bench", 360, True), ("ab", 360, False)]  # fmt: skip


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    written = {}
    for number, (name, add) in enumerate(STUDIES.items()):
        written[name] = folder / f"report{number}.html"
        with Store.open(folder / f"store{number}.db") as store:
            write_html(build_report(store, add(store)), written[name])
    return written


def opened(browser: Browser, path: Path, *, width: int = 1200, dark: bool = False) -> Page:
    page = browser.reader()
    page.open(path, width=width, dark=dark)
    return page


@pytest.mark.parametrize(("name", "width", "dark"), LOOKS)
def test_the_page_draws_everything_and_breaks_no_rule(
    browser: Browser, pages: dict[str, Path], name: str, dark: bool, width: int
) -> None:
    page = opened(browser, pages[name], width=width, dark=dark)
    assert page.problems == []
    assert page.requests == []
    assert page.evaluate(EMPTY_CANVASES) == []
    assert page.evaluate('document.querySelectorAll("[data-figure] canvas").length') > 0
    assert page.evaluate(UNLABELLED) == 0
    assert page.evaluate(CUT) == []
    assert page.evaluate(COVERED) == 0
    assert page.evaluate(NAMELESS_HEADS) == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_violation_and_a_request_would_be_seen(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    extra = '<p style="color: red">x</p><img src="missing.png"><script>alert(1)</script></main>'
    broken.write_text(pages["ab"].read_text().replace("</main>", extra))
    page = opened(browser, broken)
    assert any("style-src" in problem for problem in page.problems)
    assert any("script-src" in problem for problem in page.problems)
    assert any("img-src" in problem for problem in page.problems)


def test_strips_line_up(browser: Browser, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["tune"])
    edges = page.evaluate(
        """[...document.querySelectorAll("figure.strip .u-over")].map(one => {
             const { left, width, height } = one.getBoundingClientRect(); return [left, width, height].map(Math.round);
           })"""
    )
    assert len(edges) == 14
    assert len({tuple(edge) for edge in edges}) == 2, "two columns of equal plots"
    assert len({tuple(edge[1:]) for edge in edges}) == 1


def test_one_cursor_for_all_strips(browser: Browser, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["tune"])
    point = page.evaluate(
        """(() => {
             const over = document.querySelector("figure.strip .u-over");
             over.scrollIntoView({ behavior: "instant" });
             const box = over.getBoundingClientRect();
             return [box.left + box.width / 2, box.top + box.height / 2];
           })()"""
    )
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=point[0], y=point[1])
    values = '[...document.querySelectorAll("figure.strip .u-value")].map(one => one.textContent)'
    page.wait_for(f"{values}.every(one => one)")
    assert all(page.evaluate(values)), "every series of every strip shows its value at the cursor"


def test_the_table_of_every_second_is_filled_on_demand(browser: Browser, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["tune"])
    count = 'document.querySelectorAll("figure.strip details tr").length'
    before = page.evaluate(count)
    page.evaluate('document.querySelector("figure.strip details").open = true')
    page.wait_for(f"{count} > {before + 50}")
    assert page.evaluate(count) > before + 50


def test_printing_opens_the_tables(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    page = opened(browser, pages["tune"])
    page.pdf(tmp_path / "report.pdf")
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")
    assert page.evaluate('document.querySelectorAll("details.fold:not([open])").length') == 0
    page.call("Emulation.setEmulatedMedia", media="print")
    shown = "[...document.querySelectorAll('{0}')].filter(one => one.checkVisibility()).length"
    assert page.evaluate(shown.format("details.long")) == 0, "66 rows of the search fill no sheets"
    assert page.evaluate(shown.format(".chart .unprinted, .chapter > .unprinted")) >= 2
    assert page.evaluate(shown.format("details:not(.long) tbody tr")) > 20
    assert page.problems == []
