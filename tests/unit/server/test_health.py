"""Telling a live server from one that is gone, hung or failing, over real sockets."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.server import health
from pgdyno.server.health import Address, Health

REQUEST = bytes([0, 0, 0, 8, 4, 210, 22, 47])


@contextmanager
def server(path: Path, answer: bytes | None) -> Iterator[list[bytes]]:
    """Answer one question, or accept and stay silent."""
    heard: list[bytes] = []
    done = threading.Event()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path / ".s.PGSQL.5432"))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                heard.append(connection.recv(8))
                if answer is not None:
                    connection.sendall(answer)
                done.wait(30)

        thread = threading.Thread(target=serve)
        thread.start()
        yield heard
        done.set()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [(b"N", Health.ALIVE), (b"S", Health.ALIVE), (b"E\0\0\0", Health.FAILING), (None, Health.SILENT)],
)
def test_what_an_answer_means(tmp_path: Path, answer: bytes | None, expected: Health) -> None:
    patience_s = 0.5 if answer is None else 30.0  # how soon a thread of ours answers is the machine's to say
    with server(tmp_path, answer) as heard:
        assert health.ask(Address.of(str(tmp_path), 5432), timeout_s=patience_s) is expected
    assert heard == [REQUEST]


def test_nobody_listens(tmp_path: Path) -> None:
    assert health.ask(Address.of(str(tmp_path), 5432)) is Health.ABSENT
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert health.ask(Address.of("127.0.0.1", port)) is Health.ABSENT


def test_a_socket_that_nobody_accepts_from(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / ".s.PGSQL.1"))
        listening.listen(0)
        assert health.ask(Address.of(str(tmp_path), 1), timeout_s=0.2) is Health.SILENT
        assert health.ask(Address.of(str(tmp_path), 1), timeout_s=0.2) is Health.SILENT


@contextmanager
def no_file_left() -> Iterator[None]:
    """Let this process open no file more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path("/dev/null").open() as lowest_free:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free.fileno() + 1, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("host", ["a folder", "localhost"])
def test_a_shortage_of_our_own_says_nothing_of_the_server(tmp_path: Path, host: str) -> None:
    address = Address.of(str(tmp_path) if host == "a folder" else host, 5432)
    with pytest.raises(EnvironmentUnsuitable) as unable, no_file_left():
        health.ask(address)
    told = f'the server at "{address}" cannot be asked whether it is alive: Too many open files'
    assert unable.value.one_line == told


def test_addresses() -> None:
    assert str(Address.of("/run/x", 6000)) == "/run/x/.s.PGSQL.6000"
    assert str(Address.of("db1", 5433)) == "db1:5433"
    assert str(Address.of("", 5432)) == "localhost:5432"
