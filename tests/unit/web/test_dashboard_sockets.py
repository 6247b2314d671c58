"""The dashboard on real sockets of loopback: silent, slow, deaf and many clients, and an honest one among them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import study_example as example
from pgdyno.store.catalogue import Store
from warm_program import RunningText

TOKEN = "a-token-of-the-tests-0123456789"
SERVE = """
import sys
from pgdyno.store.catalogue import Store
from pgdyno.web.access import access_of
from pgdyno.web.app import make_app
from pgdyno.web.crowd import ConnectionLimits
from pgdyno.web.server import bound_socket, run_server
store, token, pem, limits = sys.argv[1], sys.argv[2] or None, sys.argv[3] or None, eval(sys.argv[4])
listener = bound_socket("127.0.0.1", 0)
with Store.open(store) as opened:
    access = access_of("127.0.0.1", (), token, secure=bool(pem))
    run_server(make_app(opened, access, event_s=0.05, limits=limits), listener, certificate=pem, key=pem, limits=limits,
               ready=lambda: print(listener.getsockname()[1], flush=True))
"""
QUICK = "ConnectionLimits(head_s=1.0, stall_s=1.5, stranger_stall_s=1.5, peer_streams=3)"
PATIENT = "ConnectionLimits(head_s=600)"
GET = b"GET /%s HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
Connect = Callable[[], socket.socket]


@contextlib.contextmanager
def served(store: Path, *, token: str = TOKEN, pem: str = "", limits: str = QUICK) -> Iterator[Connect]:
    """Serve in a process of its own, which ends by a signal and must have said nothing."""
    with RunningText(SERVE, str(store), token, pem, limits) as process:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        try:
            yield lambda: socket.create_connection(("127.0.0.1", int(line)), timeout=30)
        finally:
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=30)[1]
    assert said == ""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    with Store.open(path) as opened:
        example.add_tune(opened)
    return path


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    try:
        subprocess.run([*words, "-keyout", str(path), "-out", f"{path}.crt"], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl to make a certificate")
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return str(path)


def answer(connection: socket.socket, request: bytes) -> int:
    """Return the status of the answer; 0 where the connection was cut instead."""
    try:
        connection.sendall(request)
        found = re.match(rb"HTTP/1.1 (\d{3})", connection.recv(4096))
    except OSError:
        return 0
    return int(found[1]) if found else 0


def honest(connect: Connect, tries: int = 5, wrap: Callable[[socket.socket], socket.socket] = lambda one: one) -> int:
    """Return after how many tries a client that behaves was served."""
    for number in range(1, tries + 1):
        with contextlib.suppress(OSError), connect() as plain, wrap(plain) as connection:
            if answer(connection, GET % b"") == 200:
                return number
    raise AssertionError(f"not served in {tries} tries")


def is_cut(connection: socket.socket) -> bool:
    """Tell whether the server has ended this connection, and wait for nothing."""
    connection.setblocking(False)
    try:
        return connection.recv(65536) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        connection.settimeout(30)


def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.requirement("R-REP-07")
@pytest.mark.parametrize("count", [128, 500])
def test_silent_connections_keep_nobody_out(store: Path, count: int) -> None:
    with served(store, limits=PATIENT) as connect, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connect()) for _ in range(count)]
        assert honest(connect) <= 3
        until(lambda: sum(map(is_cut, silent)) >= count - 128)  # those that stay are bounded, too
        for _ in range(20):  # and while they come again and again
            silent += [stack.enter_context(connect()) for _ in range(10)]
            honest(connect)


@pytest.mark.requirement("R-REP-07")
def test_silent_connections_keep_nobody_out_by_tls(store: Path, pem: str) -> None:
    context = ssl.create_default_context(cafile=f"{pem}.crt")
    with served(store, pem=pem, limits=PATIENT) as connect, contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connect()) for _ in range(300)]
        wrap = lambda plain: context.wrap_socket(plain, server_hostname="localhost")  # noqa: E731
        assert honest(connect, wrap=wrap) <= 3
        until(lambda: sum(map(is_cut, silent)) >= 300 - 128)


def test_a_handshake_that_is_none_or_never_ends_is_cut(store: Path, pem: str) -> None:
    with served(store, pem=pem) as connect, connect() as silent, connect() as plain:
        plain.sendall(GET % b"")
        until(lambda: is_cut(plain))
        until(lambda: is_cut(silent))


@pytest.mark.requirement("R-REP-07")
@pytest.mark.parametrize("began", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: "])
def test_a_head_that_does_not_end_is_cut_whole_or_byte_by_byte(store: Path, began: bytes) -> None:
    def is_ended() -> bool:
        with contextlib.suppress(OSError):
            dripping.send(b"a" if began else b"")
        return is_cut(dripping)

    with served(store) as connect, connect() as dripping:
        dripping.sendall(began)
        until(is_ended)


def test_a_second_head_that_does_not_end_is_cut_as_well(store: Path) -> None:
    def is_ended() -> bool:
        with contextlib.suppress(OSError):
            kept.send(b"a")
        return is_cut(kept)

    with served(store) as connect, connect() as kept:
        assert answer(kept, GET % b"static/live.css") == 200
        until(is_ended)


def test_an_idle_connection_is_ended(store: Path) -> None:
    with served(store) as connect, connect() as kept:
        assert answer(kept, GET % b"api/v1/live.json") == 200
        until(lambda: is_cut(kept))


@pytest.mark.parametrize("head", [b"content-length: 9000000\r\n", b"transfer-encoding: chunked\r\n"])
@pytest.mark.parametrize(("method", "path"), [(b"GET", b"/"), (b"POST", b"/token"), (b"PUT", b"/")])
def test_content_is_not_taken(store: Path, head: bytes, method: bytes, path: bytes) -> None:
    with served(store) as connect, connect() as sending:
        assert answer(sending, method + b" " + path + b" HTTP/1.1\r\nhost: localhost\r\n" + head + b"\r\n") in (
            405,
            413,
        )
        until(lambda: is_cut(sending))


def test_a_form_whose_content_does_not_come_is_cut(store: Path) -> None:
    with served(store) as connect, connect() as sending:
        sending.sendall(b"POST /token HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20\r\n\r\ntoken=")
        until(lambda: is_cut(sending))


def test_a_client_that_does_not_read_is_cut(store: Path) -> None:
    with served(store) as connect:
        with Store.open(store) as opened:
            (study,) = opened.studies()
        for path in (b"events", b"studies/" + study.id.encode()):
            deaf = socket.socket()
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with deaf, connect() as other:
                deaf.connect(other.getpeername())
                deaf.sendall(GET % path)
                until(lambda deaf=deaf: _is_reset(deaf))  # type: ignore[misc]


def _is_reset(connection: socket.socket) -> bool:
    """Tell whether the other side has cut the connection, and take nothing of what it has sent."""
    state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state not in (1, 2, 3)  # neither established nor on the way to it


@pytest.mark.requirement("R-REP-07")
def test_open_pages_are_bounded_and_end_with_their_client(store: Path) -> None:
    with served(store) as connect, contextlib.ExitStack() as stack:
        pages = [stack.enter_context(connect()) for _ in range(5)]
        for page in pages:
            assert answer(page, GET % b"events") == 200
        until(lambda: [_is_over(page) for page in pages] == [True, True, False, False, False])
        pages[2].close()
        newer = stack.enter_context(connect())
        assert answer(newer, GET % b"events") == 200
        assert honest(connect) == 1
        assert not _is_over(pages[3])
        assert not _is_over(newer)


def _is_over(page: socket.socket) -> bool:
    """Tell whether a stream has had its last chunk, or its connection its end."""
    page.settimeout(0.2)
    try:
        while data := page.recv(1 << 20):
            if data.endswith(b"0\r\n\r\n"):
                return True
            if len(data) < 1 << 16:
                return False
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def test_what_is_no_http_gets_an_error_and_no_words_in_the_log(store: Path) -> None:
    with served(store) as connect:
        for garbage in (b"\x16\x03\x01\x00\xa5\x01\x00", os.urandom(64) + b"\r\n\r\n", b"GET\r\n\r\n",
                        b"GET / HTTP/1.1\r\n\r\n", b"GET /\xff HTTP/1.1\r\nhost: localhost\r\n\r\n",
                        b"GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil\r\n\r\n", b"A" * 70_000):  # fmt: skip
            with connect() as connection:
                assert answer(connection, garbage) in (0, 400, 413)
        assert honest(connect) == 1
