"""Patroni's API without Patroni: credentials, TLS, and answers of every wrong kind, from a server in this process."""

from __future__ import annotations

import base64
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pgdyno.errors import ConnectError, EnvironmentUnsuitable, UsageError
from pgdyno.server.patroni_api import AUTH_VARIABLE, Member, PatroniApi, parse_member

CLUSTER = (
    '{"members": [{"name": "a", "role": "leader", "state": "running", "host": "h", "port": 5433, "api_url": "U"}]}'
)


@dataclass
class Answering:
    """What the server answers, and what it was asked."""

    url: str = ""
    status: int = 200
    text: str = CLUSTER
    asked: list[str] = field(default_factory=list)


@contextmanager
def serving(answering: Answering, context: ssl.SSLContext | None = None) -> Iterator[None]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answering.asked.append(f"{self.command} {self.path} {self.headers.get('Authorization', '')}".strip())
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(answering.status)
            self.end_headers()
            self.wfile.write(answering.text.encode())

        do_PATCH = do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    answering.url = f"{'https' if context else 'http'}://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    monkeypatch.delenv(AUTH_VARIABLE, raising=False)
    found = Answering()
    with serving(found):
        yield found


def test_credentials_come_from_the_file_else_from_the_environment(
    answering: Answering, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PatroniApi((answering.url,)).members()
    monkeypatch.setenv(AUTH_VARIABLE, "env:one")
    PatroniApi((answering.url,)).members()
    (tmp_path / "auth").write_text("file:two\nnot this\n")
    PatroniApi((answering.url,), tmp_path / "auth").members()
    tokens = [base64.b64encode(text).decode() for text in (b"env:one", b"file:two")]
    assert answering.asked == ["GET /cluster", *(f"GET /cluster Basic {token}" for token in tokens)]
    with pytest.raises(UsageError, match="cannot be read"):
        PatroniApi((answering.url,), tmp_path / "none").members()


@pytest.mark.parametrize("status", [401, 403, 404, 409, 500, 503])
def test_a_refusal_names_call_status_and_reason(answering: Answering, status: int) -> None:
    answering.status, answering.text = status, "because"
    with pytest.raises(EnvironmentUnsuitable, match=str(status)) as caught:
        PatroniApi((answering.url,)).patch({"ttl": 30})
    assert "PATCH /config" in caught.value.message
    assert caught.value.detail == "because"
    assert not isinstance(caught.value, ConnectError)


@pytest.mark.parametrize("text", ["", "{}", '{"members": "none"}'])
def test_an_answer_without_members_has_none(answering: Answering, text: str) -> None:
    answering.text = text
    assert PatroniApi((answering.url,)).members() == ()


@pytest.mark.parametrize("text", ["[]", "nonsense", '{"members": ["a"]}', "null"])
def test_an_answer_of_another_shape_is_no_traceback(answering: Answering, text: str) -> None:
    answering.text = text
    with pytest.raises(EnvironmentUnsuitable, match="/cluster"):
        PatroniApi((answering.url,)).members()


def test_a_member_is_read_also_when_half_of_it_is_missing() -> None:
    whole = {"name": "a", "role": "replica", "state": "streaming", "host": "h", "port": 5433}
    member = parse_member({**whole, "api_url": "https://h:8008/patroni", "lag": 0})
    assert member == Member("a", "replica", "streaming", "h", 5433, "https://h:8008")
    assert member.is_up
    assert not member.is_leader
    assert parse_member({"name": "b"}).port == 5432
    assert not parse_member({"name": "b"}).is_up


def test_no_password_goes_to_an_address_without_tls_that_only_the_cluster_names(
    answering: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = Member("a", "leader", "running", "h", 5433, answering.url)
    PatroniApi(("https://h:8008",)).wake(member)
    assert answering.asked == ["PATCH /config"]
    monkeypatch.setenv(AUTH_VARIABLE, "dba:secret")
    with pytest.raises(ConnectError, match="is not asked") as caught:
        PatroniApi(("https://h:8008",)).wake(member)
    assert "in the clear" in str(caught.value.detail)
    assert len(answering.asked) == 1
    PatroniApi(("https://h:8008", answering.url)).wake(member)
    assert len(answering.asked) == 2


def test_members_without_tls_are_no_endpoints_where_only_tls_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tuple(Member(name, "replica", "running", "h", 5433, f"{name}://h:8008") for name in ("http", "https"))
    monkeypatch.setattr(PatroniApi, "members", lambda _: found)
    assert PatroniApi(("https://a:1",)).with_members().endpoints == ("https://a:1", "https://h:8008")
    assert PatroniApi(("http://a:1",)).with_members().endpoints == ("http://a:1", "http://h:8008", "https://h:8008")


@pytest.mark.parametrize("url", ["http://dba:secret@h:8008", "ftp://h", "h:8008", "http://"])
def test_an_address_with_a_password_or_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        PatroniApi((url,))
    assert "secret" not in f"{caught.value} {caught.value.detail} {caught.value.hint}"


def test_the_record_rebuilds_it(tmp_path: Path) -> None:
    api = PatroniApi(("http://a:1", "https://b:2"), tmp_path / "auth", None, tmp_path / "own", 3.0)
    assert PatroniApi.from_record(api.record()) == api
    with pytest.raises(ValueError, match="endpoints"):
        PatroniApi.from_record({**api.record(), "endpoints": "http://a:1"})


def test_tls_is_checked_against_the_authority_that_was_named(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    places = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", *words, *places], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    answering = Answering()
    with serving(answering, context):
        assert PatroniApi((answering.url,), ca_file=certificate).members()[0].name == "a"
        with pytest.raises(ConnectError) as caught:
            PatroniApi((answering.url,)).members()
        assert "certificate verify failed" in (caught.value.detail or "")
        with pytest.raises(UsageError, match="certificates"):
            PatroniApi((answering.url,), ca_file=tmp_path / "none").members()
