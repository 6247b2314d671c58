"""Who is let into the dashboard: tokens, cookies, names of hosts, and the headers of every answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dashboard_asking import CLOSED, OPEN, TOKEN, ask
from pgdyno.errors import EnvironmentUnsuitable, UsageError
from pgdyno.store.catalogue import Store
from pgdyno.web.access import POLICY, Access, access_of, is_loopback, read_token
from pgdyno.web.app import make_app


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.db") as opened:
        yield opened


@pytest.mark.requirement("R-REP-07")
def test_without_the_token_nothing_is_told_and_with_it_everything(store: Store) -> None:
    app = make_app(store, CLOSED)
    for path in ("/", "/events", "/studies/x", "/api/v1/live.json", "/api/v1/studies.json", "/nothing"):
        refused = ask(app, path)
        assert refused.status == 401, path
        assert refused.headers["www-authenticate"] == "Bearer"
        assert store.name not in refused.body
        assert ask(app, path, authorization=f"Bearer {TOKEN}x").status == 401
    assert ask(app, "/", authorization=f"Bearer {TOKEN}").status == 200
    assert ask(app, "/static/live.css").status == 200
    assert "Authorization: Bearer" in ask(app, "/", accept="*/*").body


@pytest.mark.requirement("R-REP-07")
def test_the_form_gives_a_cookie_that_holds_no_token_and_another_site_gets_none(store: Store) -> None:
    app = make_app(store, CLOSED)
    form = {"method": "POST", "body": f"token={TOKEN}".encode(), "content_type": "application/x-www-form-urlencoded"}
    taken = ask(app, "/token", **form)
    assert (taken.status, taken.headers["location"]) == (303, "/")
    cookie = taken.headers["set-cookie"]
    assert TOKEN not in cookie
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert ask(app, "/", cookie=cookie.split(";")[0]).status == 200
    assert (
        ask(make_app(store, Access(frozenset(), TOKEN)), "/", cookie=cookie.split(";")[0], host="127.0.0.1").status
        == 401
    )
    assert ask(app, "/token", **form, sec_fetch_site="cross-site").status == 403
    assert ask(app, "/token", **form, origin="https://evil.example").status == 403
    wrong = ask(app, "/token", method="POST", body=b"token=wrong-but-long-enough")
    assert wrong.status == 401
    assert "set-cookie" not in wrong.headers
    assert ask(app, "/token", method="POST", body=b"token=" + b"a" * 10_000).status == 401


@pytest.mark.requirement("R-REP-07")
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("127.0.0.1:99", 200),
        ("[::1]:8432", 200),
        ("LOCALHOST", 200),
        ("evil.example", 400),
        ("", 400),
    ],
)
def test_only_names_that_were_listed_and_addresses_are_answered(store: Store, host: str, status: int) -> None:
    assert ask(make_app(store, OPEN), "/", host=host).status == status


def test_nothing_but_reading_is_possible(store: Store) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert ask(make_app(store, OPEN), "/", method=method).status == 405


def test_every_answer_has_the_headers_of_safety(store: Store) -> None:
    app = make_app(store, OPEN)
    for path in ("/", "/nothing", "/static/live.js", "/api/v1/queue.json", "/studies/none"):
        headers = ask(app, path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.requirement("R-REP-07")
def test_an_address_that_others_reach_asks_for_a_token() -> None:
    for bind in ("0.0.0.0", "::", "192.0.2.1", "db1.example"):
        with pytest.raises(UsageError, match="no token"):
            access_of(bind, (), None, secure=False)
        assert access_of(bind, (), TOKEN, secure=True).secure
    assert access_of("127.0.0.1", ("DB1.example",), None, secure=False).is_for_us("db1.example:80")


def test_loopback_is_known_by_every_name() -> None:
    assert all(is_loopback(bind) for bind in ("127.0.0.1", "127.8.8.8", "::1", "localhost"))
    assert not any(is_loopback(bind) for bind in ("0.0.0.0", "::", "10.0.0.1", "db1"))


@pytest.mark.requirement("R-REP-07")
def test_a_token_is_made_for_its_owner_alone_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = read_token(path)
    assert len(token) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_token(path) == token
    path.chmod(0o640)
    with pytest.raises(UsageError, match="may be read by others"):
        read_token(path)
    path.chmod(0o600)
    for bad in ("short", "two words that are long", "schlüssel-schlüssel-schlüssel"):
        path.write_text(bad)
        with pytest.raises(UsageError, match="plain characters"):
            read_token(path)
    with pytest.raises(EnvironmentUnsuitable, match="cannot be used"):
        read_token(tmp_path / "none" / "token")
