"""Whatever a request holds, the dashboard answers it: never by a traceback, never with what was sent as markup."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import study_example
from dashboard_asking import CLOSED, OPEN, TOKEN, ask
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.store.catalogue import Store
from pgdyno.web.access import read_token
from pgdyno.web.app import MOST_PAGES, make_app

HOSTILE = [
    "9" * 4301, "-1", "1_0", "+1", " 1", "0x1", "1e3", "1.0", "٣", "²", "\0", "a\0b", "\r\nset-cookie: x=1", "..",
    "../../etc/passwd", "..\\..", "/", "//evil.example/", "%", "%2e%2e", "'; drop table study; --",
    "<script>alert(1)</script>",
    "{{7*7}}", "\ufffd", "\u202e", "🐘" * 99, "a" * 5000, "last.json", ".json", "", "\x1b[31m", str(MOST_PAGES + 1),
]  # fmt: skip
ROUTES = ["/", "/events", "/studies/{}", "/studies/{}.json", "/static/{}", "/api/v1/live.json", "/api/v1/{}", "/{}"]
words = st.sampled_from(HOSTILE) | st.text(max_size=40) | st.integers().map(str)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with Store.open(tmp_path_factory.mktemp("hostile") / "store.db") as opened:
        study_example.add_bench(opened)
        yield make_app(opened, OPEN, event_s=0.001)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with Store.open(tmp_path_factory.mktemp("closed") / "store.db") as opened:
        yield make_app(opened, CLOSED)


@pytest.mark.requirement("R-REP-07")
@pytest.mark.parametrize("page", HOSTILE)
@pytest.mark.parametrize("path", ["/", "/api/v1/studies.json"])
def test_a_page_that_is_no_number_is_not_there(app: Any, path: str, page: str) -> None:
    answer = ask(app, f"{path}?page={quote(page, errors='replace')}")
    assert answer.status == 404
    assert "<script>alert" not in answer.body


def test_the_last_page_that_is_allowed_is_empty(app: Any) -> None:
    assert ask(app, f"/?page={MOST_PAGES}").status == 200


@pytest.mark.requirement("R-REP-07")
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(route=st.sampled_from(ROUTES), word=words, query=st.dictionaries(st.sampled_from(["page", "x"]), words))
@example(route="/studies/{}", word="a" * 100_000, query={})
@example(route="/", word="", query={"page": "9" * 4301})
def test_every_route_answers_every_word(app: Any, route: str, word: str, query: dict[str, str]) -> None:
    asked = "&".join(f"{name}={quote(value, errors='replace')}" for name, value in query.items())
    # as uvicorn hands it over: what is no UTF-8 has become a mark by then
    path = unquote(quote(route.format(word.replace("?", "")), errors="replace"))
    answer = ask(app, f"{path}?{asked}")
    assert answer.status in (200, 404)
    assert "Traceback" not in answer.body
    assert "<script>alert" not in answer.body


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["host", "origin", "cookie", "authorization", "accept", "sec_fetch_site", "content_length"]),
    value=st.sampled_from(HOSTILE).map(lambda text: text.encode("latin-1", "replace").decode("latin-1"))
    | st.text(st.characters(max_codepoint=255), max_size=40),
)
def test_no_header_opens_or_breaks_the_gate(closed: Any, name: str, value: str) -> None:
    answer = ask(closed, "/api/v1/queue.json", **{name: value.encode().decode("latin-1")})
    assert answer.status in (400, 401, 403, 413)


@pytest.mark.requirement("R-REP-07")
@pytest.mark.parametrize(
    "host",
    ["localhost:/static/", "localhost:8432/static/", "localhost:x", "localhost:#", "127.0.0.1:80@evil.example", "[::1",
     "[::1]x", "::1", "1::1:80", "localhost:999999", "local host", "localhost\0", "127.0.0.1.evil.example"],
)  # fmt: skip
def test_a_host_is_a_name_and_a_port_and_nothing_else(app: Any, host: str) -> None:
    assert ask(app, "/", host=host).status == 400


@pytest.mark.requirement("R-REP-07")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "cors", "sec_fetch_dest": "empty"}, 403),
        ({"sec_fetch_site": "same-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "script"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}, 200),
        ({"sec_fetch_site": "same-origin", "sec_fetch_mode": "cors"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost:8432"}, 200),
        ({}, 200),
    ],
)
def test_pages_of_other_sites_have_nothing_computed(app: Any, headers: dict[str, str], status: int) -> None:
    for path in ("/events", "/api/v1/queue.json", "/"):
        assert ask(app, path, **headers).status == status


def test_content_is_refused_unread(app: Any) -> None:
    for headers in ({"content_length": "1"}, {"transfer_encoding": "chunked"}):
        answer = ask(app, "/", body=b"x", **headers)
        assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert ask(app, "/", content_length="0").status == 200


def test_a_head_of_the_stream_ends(app: Any) -> None:
    assert ask(app, "/events", method="HEAD").status == 200


def test_nothing_is_redirected_by_its_slash(app: Any) -> None:
    for path in ("/events/", "/studies", "//evil.example/", "/api/v1/queue.json/"):
        assert ask(app, path).status == 404


@pytest.mark.requirement("R-REP-07")
def test_a_cookie_is_secure_by_tls_and_static_files_admit_nobody(tmp_path: Path) -> None:
    from pgdyno.web.access import ADMITTED, Access, AccessGate

    seen: list[bool] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["state"][ADMITTED])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    gate = AccessGate(inner, Access(frozenset({"localhost"}), TOKEN, secure=True))
    taken = ask(gate, "/token", method="POST", body=f"token={TOKEN}".encode())
    assert "secure" in taken.headers["set-cookie"].lower()
    ask(gate, "/static/live.css")
    ask(gate, "/", authorization=f"Bearer {TOKEN}")
    assert seen == [False, True]


@pytest.mark.requirement("R-REP-07")
def test_a_token_of_another_account_or_of_a_pipe_is_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "token"
    os.mkfifo(path, 0o600)
    with pytest.raises(UsageError, match="not a file of yours"):
        read_token(path)
    path.unlink()
    path.symlink_to(tmp_path / "missing" / "elsewhere")
    with pytest.raises(EnvironmentUnsuitable, match="cannot be used"):
        read_token(path)
    path.unlink()
    path.write_text("a token that is known to another account")
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
        with pytest.raises(UsageError, match="not a file of yours"):
            read_token(path)
