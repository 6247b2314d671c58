"""The dashboard in a real browser, over a real server, while a real load runs: values move, nothing is fetched."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fix_browser import Browser, Page
from free_ports import free_ports
from warm_program import RunningPgdyno

pytestmark = [pytest.mark.web, pytest.mark.pg, pytest.mark.slow, pytest.mark.xdist_group("dashboard-browser")]
LOAD = ("-w", "select-only", "-D", "scale=1", "-c", "1", "-R", "100",
        "--warmup", "1", "--foreign-cpu", "1000", "--steal", "100")  # fmt: skip
FIGURE = """[...document.querySelectorAll(".running .figures div")].find(one => one.textContent.includes("throughput"))
  ?.querySelector("dd").textContent ?? ''"""
DRAWN = """[...document.querySelectorAll(".running .strips canvas")].filter(canvas => canvas.width && canvas
  .getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(value => value !== 0)).length"""
CUT = """[...document.querySelectorAll("h1, h2, h3, .figures dd, .state, .alerts li, figcaption")].filter(one =>
  one.checkVisibility() && one.scrollWidth > one.clientWidth + 1).map(one => one.textContent)"""

OFF_SCREEN = """[...document.querySelectorAll("#studies td")].filter(one =>
  one.getBoundingClientRect().right > innerWidth).map(one => one.dataset.of)"""


@dataclass(frozen=True)
class Served:
    url: str
    environment: dict[str, str]
    store: Path


def pgdyno(words: Sequence[str], environment: dict[str, str]) -> RunningPgdyno:
    return RunningPgdyno(*words, **environment)


@contextmanager
def serving(home: Path, *more: str) -> Iterator[Served]:
    store, (port,) = home / "served.db", free_ports(1)
    environment = {**os.environ, "PGDYNO_HOME": str(home), "PGDYNO_STORE": str(store)}
    server = pgdyno(["serve", "--port", str(port), *more], environment)
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        assert url == f"http://127.0.0.1:{port}/", server.communicate(timeout=60)
        yield Served(url, environment, store)
    finally:
        server.send_signal(signal.SIGINT)
        _, said = server.communicate(timeout=60)
        assert "Traceback" not in said
    assert server.returncode == 0


def opened(browser: Browser, url: str, **more: int | bool) -> Page:
    page = browser.reader()
    page.visit(url, **more)  # type: ignore[arg-type]
    return page


@pytest.mark.requirement("R-REP-06", "R-REP-07")
def test_the_page_moves_with_a_running_load_and_asks_nobody_else(browser: Browser, pgdyno_home: Path) -> None:
    with serving(pgdyno_home) as served:
        page = opened(browser, served.url)
        assert "No study is running on this store" in page.evaluate("document.body.innerText")
        load = pgdyno(["bench", *LOAD, "--measure", "20", "--json"], served.environment)
        try:
            seen: list[str] = []
            page.patience_s = 180  # the sandbox is started and its data are loaded before
            for _ in range(4):
                page.wait_for(f"(shown = {FIGURE}).endsWith('tps') && !{seen!r}.includes(shown)")
                seen.append(page.evaluate("shown"))  # what was looked at: the page has moved on meanwhile
            assert len(set(seen)) == 4, seen
            page.wait_for('document.querySelectorAll(".running .strips canvas").length === 6')
            assert page.evaluate(DRAWN) == 6
            assert page.evaluate(CUT) == []
            assert "guards:" in page.evaluate('document.querySelector(".indicators").textContent')
        finally:
            told, said = load.communicate(timeout=240)
        assert load.returncode in (0, 6), said  # 6: too busy here for a steady window, which is not what is asked
        run = json.loads(told.splitlines()[-1])["run"]
        page.wait_for(
            '!document.querySelector(".running") && document.getElementById("studies").innerText.includes("bench")'
        )
        assert page.evaluate('document.querySelectorAll(".running").length') == 0
        (link,) = page.evaluate('[...document.querySelectorAll("#studies a[href*=studies]")].map(one => one.href)')
        assert page.problems == []
        assert page.evaluate("window.violations") == []
        assert [url for url in page.requests if not url.startswith(served.url)] == []
        phone = opened(browser, served.url, width=390)
        assert phone.evaluate('document.querySelectorAll("#studies td").length') == 6
        assert phone.evaluate(OFF_SCREEN) == []
        report = opened(browser, link)
        assert f"run {run}" in report.evaluate("document.body.innerText") or str(run) in report.evaluate(
            "document.body.innerText"
        )
        assert report.problems == []
        assert report.requests == []


@pytest.mark.requirement("R-REP-07")
def test_the_token_is_asked_for_and_taken(browser: Browser, pgdyno_home: Path, tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    with serving(pgdyno_home, "--token-file", str(token_file)) as served:
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(served.url, timeout=20)
        assert refused.value.code == 401
        refused.value.close()
        page = browser.reader()
        page.visit(served.url)
        assert "asks for its token" in page.evaluate("document.body.innerText")
        page.evaluate(f'document.getElementById("token").value = {token_file.read_text().strip()!r}')
        page.loaded = False
        page.evaluate('document.querySelector("form button").click()')
        browser.wait(lambda: page.loaded)
        page.wait_for('document.querySelector("#alerts") !== null')
        assert "What is running, what is waiting, what was found" in page.evaluate("document.body.innerText")
        assert page.evaluate("document.cookie") == ""  # no script can read it
        assert page.evaluate("window.violations") == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--bind", "0.0.0.0"], 2, "no token"),
        (["--bind", "192.0.2.77", "--token-file", "{tmp}/t"], 6, "cannot be listened on"),
        (["--tls-cert", "{tmp}/c.pem"], 2, "go together"),
        (["--port", "0", "--tls-cert", "{tmp}/c.pem", "--tls-key", "{tmp}/k.pem"], 6, "cannot be used"),
        (["--token-file", "{tmp}/none/t"], 6, "cannot be used"),
    ],
)
def test_what_cannot_be_served_is_one_clear_error(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    given = [word.format(tmp=tmp_path) for word in words]
    environment = {**os.environ, "PGDYNO_HOME": str(tmp_path), "PGDYNO_STORE": str(tmp_path / "s.db")}
    process = pgdyno(["serve", *given], environment)
    _, error = process.communicate(timeout=60)
    assert process.returncode == code, error
    assert said in error
    assert "hint:" in error
    assert "Traceback" not in error
