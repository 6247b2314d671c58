"""Two browsers on a real live search that only the dashboard answers: a viewer, an operator, and a page that forges."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from test_dashboard_browser import CUT, Served, serving

from fix_browser import Browser, Page
from live_load import planted_load
from pgdyno.model.person.operator_request import RequestState
from pgdyno.model.results.live import LiveResult
from pgdyno.model.study import StudyState
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.store.catalogue import Store
from pgdyno.store.requests import RequestBoard
from server_image import files_of, settings_of

pytestmark = [pytest.mark.web, pytest.mark.pg, pytest.mark.slow, pytest.mark.xdist_group("dashboard-browser")]
SEARCH = Path(__file__).parents[1] / "operated_search.py"
POST = """(async fields => (await fetch("/requests", {method: "POST", body: new URLSearchParams(fields)})).status)"""
FIELDS = """Object.fromEntries([...document.querySelector('form[aria-label="answer"]').elements]
  .filter(one => one.name && one.name != "action").map(one => [one.name, one.value]))"""


def title(number: int) -> str:
    return f'document.querySelector(".question h4")?.textContent === "Try candidate {number} of 3?"'


@contextmanager
def searching(sandbox: Sandbox, served: Served, operators: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, str(SEARCH), sandbox.target().postgres.conninfo, str(operators)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**served.environment, "PYTHONPATH": str(SEARCH.parent)},
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def signed_in(browser: Browser, url: str, token: str) -> Page:
    page = browser.page(private=True)
    page.patience_s = 120
    page.visit(url)
    page.evaluate(f'document.getElementById("token").value = {token!r}')
    page.loaded = False
    page.evaluate('document.querySelector("main form button").click()')
    browser.wait(lambda: page.loaded)
    page.wait_for('document.querySelector("#alerts") !== null')
    return page


def sends(page: Page, form: str, why: str, button: str) -> None:
    """Fill in why, and reach the button by the keyboard alone."""
    page.evaluate(f"document.querySelector('form[aria-label=\"{form}\"] [name=why]').focus()")
    page.call("Input.insertText", text=why)
    for _ in range(8):
        if page.evaluate(f"document.activeElement.value === {button!r}"):
            break
        page.press("Tab")
    assert page.evaluate("document.activeElement.value") == button
    page.loaded = False
    page.press("Enter")
    page.browser.wait(lambda: page.loaded)


@contextmanager
def another_site(fields: dict[str, str], url: str) -> Iterator[str]:
    """Serve a page of another origin of this host, whose cookies are ours as well, that sends the form by itself."""
    inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
    text = f'<form method="post" action="{url}requests">{inputs}</form><script>document.forms[0].submit()</script>'

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Site)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.night(
    "unit/web/test_dashboard_operator.py::test_an_operator_s_form_becomes_a_signed_request_with_who_when_and_why"
)
@pytest.mark.requirement("R-REP-12", "R-SAF-01", "R-SAF-12")
def test_an_operator_rejects_approves_and_stops_and_nobody_else_does(
    browser: Browser, sandbox18: Sandbox, pgdyno_home: Path, tmp_path: Path
) -> None:
    token_file, operators = tmp_path / "viewers", tmp_path / "operators"
    folder = sandbox18.target().directory
    assert folder is not None
    before = settings_of(sandbox18), files_of(folder)
    more = ("--token-file", str(token_file), "--operator-token-file", str(operators))
    with planted_load(sandbox18.target().postgres, {"4MB": 1.0}, other=0.4), serving(pgdyno_home, *more) as served:
        name, token = operators.read_text().split()
        assert operators.stat().st_mode & 0o777 == 0o600
        viewer = signed_in(browser, served.url, token_file.read_text().strip())
        operator = signed_in(browser, f"{served.url}operator", token)
        with searching(sandbox18, served, operators) as study:
            viewer.wait_for(title(1))
            operator.wait_for(f"{title(1)} && document.querySelector('form[aria-label=\"answer\"]')")
            assert study.poll() is None, study.communicate()[0]
            assert viewer.evaluate("document.title") == "pgdyno: 1 to answer"
            assert viewer.evaluate("document.querySelectorAll('[action=\"/requests\"]').length") == 0
            first = operator.evaluate(FIELDS) | {"action": "approve", "why": "forged"}
            assert viewer.evaluate(f"{POST}({first!r})") == 403
            with another_site(first, served.url) as evil:
                page = operator  # the tab that has the operator's cookies
                page.visit(evil)
                page.wait_for('document.body.innerText.includes("the request was not sent by this page")')
                assert "the request was not sent by this page" in page.evaluate("document.body.innerText")
            operator.visit(served.url)
            assert settings_of(sandbox18) == before[0]
            sends(operator, "answer", "too much memory for today", "reject")
            operator.wait_for(title(2))
            assert operator.evaluate(f"{POST}({first | {'why': 'late'}!r})") in (200, 303)
            operator.wait_for("document.body.innerText.includes('answered it first')")
            assert operator.evaluate(title(2)), "a stale answer does not touch what waits now"
            operator.visit(served.url, width=390)
            assert operator.evaluate("document.documentElement.scrollWidth") <= 390
            assert operator.evaluate(CUT) == []
            sends(operator, "answer", "sorts spill", "approve")
            operator.wait_for(title(3))
            assert operator.evaluate(title(3))
            operator.evaluate("document.querySelector('details.orders').open = true")
            sends(operator, "orders", "users complain", "stop")
            said, _ = study.communicate(timeout=240)
            assert (settings_of(sandbox18), files_of(folder)) == before
    assert operator.evaluate("window.violations") == []
    assert f"{name} in the dashboard: approve (sorts spill)" in said
    with Store.open(served.store) as store:
        (one,) = store.studies()
        told = one.told(LiveResult)
        asked = [(each.who, each.action.value, each.why, each.state) for each in RequestBoard(store).of_study(one.id)]
    assert asked[::-1] == [
        (name, "reject", "too much memory for today", RequestState.DONE),
        (name, "approve", "late", RequestState.REFUSED),
        (name, "approve", "sorts spill", RequestState.DONE),
        (name, "stop", "users complain", RequestState.DONE),
    ]
    assert one.state in (StudyState.COMPLETE, StudyState.INTERRUPTED)
    assert told is not None
    assert [(each.who, each.where, each.answer) for each in told.decisions] == [
        (name, "dashboard", "reject"), (name, "dashboard", "approve"), (name, "dashboard", "stop"),
    ]  # fmt: skip
    assert told.search is not None
    assert [each.fate for each in told.search.candidates][:2] == ["rejected", "measured"]
