"""Open sessions: connect, agree on TLS, prove the password. Blocking, for a thread of its own."""

from __future__ import annotations

import encodings.idna  # noqa: F401 - getaddrinfo asks for it when the rights to read Python's files may be given up
import socket
import ssl
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

from pgdyno.trace.engine import wire
from pgdyno.trace.engine.plan import EndPoint, EnginePlan
from pgdyno.trace.engine.scram import MECHANISM, LoginError, Scram, md5_answer

LONGEST = 1 << 20
"""Bytes of a message before the session is open; none is near that."""
APPLICATION = "application_name"
_PLAIN = ("disable", "allow")
"""Modes of TLS in which none is asked for."""


@dataclass(slots=True)
class Opened:
    """A session that is ready for its first statement."""

    socket: socket.socket
    pid: int = 0
    key: bytes = b""
    restore_role: bytes = b""
    """What makes the session its role's again after a reset; empty where the role itself logged in."""
    backlog: bytearray = field(default_factory=bytearray)


def read_roots(end_point: EndPoint) -> None:
    """Read what a server's certificate is checked by, before the rights to read that are given up.

    Where it cannot be read, each session says why.
    """
    if end_point.tls not in _PLAIN:
        with suppress(OSError):
            _tls(end_point)


def open_session(plan: EnginePlan, user: str, database: str, application: str) -> Opened:
    """Open a session for a role of the trace. Raises LoginError, in words for the outcome, and nothing else.

    `user` and `database` are as captured, before the maps of `plan`; `application` is the session's application_name.
    """
    role = plan.users.get(user, user)
    password = plan.login.passwords.get(role)
    stand_in = plan.login.stand_in if password is None else None
    login = role if stand_in is None else stand_in
    settings = {
        "user": login,
        "database": plan.databases.get(database, database),
        APPLICATION: application,
        "client_encoding": "UTF8",
        **plan.settings,
    }
    connection = None
    try:
        connection = _connected(plan.end_point, plan.connect_timeout_s)
        opened = Opened(connection)
        connection.sendall(wire.startup(settings))
        _prove(opened, login, password if stand_in is None else plan.login.passwords.get(login))
        if stand_in is not None and stand_in != role:
            quoted = role.replace('"', '""')
            opened.restore_role = wire.query(f'SET SESSION AUTHORIZATION "{quoted}"')
            connection.sendall(opened.restore_role)
            _wait_ready(opened)
        connection.setblocking(False)
    except LoginError:
        if connection is not None:
            connection.close()
        raise
    except Exception as error:  # of a thread: a run would wait for the session for ever
        if connection is not None:
            connection.close()
        raise LoginError(str(error) or type(error).__name__) from None
    return opened


def cancel(end_point: EndPoint, pid: int, key: bytes, timeout: float) -> None:
    """Ask the server to cancel what a session is at; what goes wrong shows in that session's answer.

    `end_point` is where the session is, `pid` and `key` are of its BackendKeyData; `timeout` is in seconds.
    """
    try:
        with _connected(end_point, timeout) as connection:
            connection.sendall(wire.cancel_request(pid, key))
            connection.recv(1)
    except (OSError, LoginError):
        pass


def _connected(end_point: EndPoint, timeout: float) -> socket.socket:
    if end_point.host.startswith("/"):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout)
        try:
            connection.connect(f"{end_point.host}/.s.PGSQL.{end_point.port}")
        except OSError:
            connection.close()
            raise
        return connection
    connection = socket.create_connection((end_point.host, end_point.port), timeout)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if end_point.tls in _PLAIN:
        return connection
    return _secured(connection, end_point)


def _secured(connection: socket.socket, end_point: EndPoint) -> socket.socket:
    connection.sendall(wire.SSL_REQUEST)
    answer = connection.recv(1)
    if answer == b"N" and end_point.tls == "prefer":
        return connection
    if answer != b"S":
        connection.close()
        raise LoginError(f"the server does not speak TLS, and sslmode is {end_point.tls}")
    return _tls(end_point).wrap_socket(connection, server_hostname=end_point.host)


@lru_cache(maxsize=1)
def _tls(end_point: EndPoint) -> ssl.SSLContext:
    """Return how a server is checked, made once for all sessions. Raises OSError for roots that cannot be read."""
    context = ssl.create_default_context(cafile=end_point.root_certificate)
    context.check_hostname = end_point.tls == "verify-full"
    if end_point.tls in ("prefer", "require") and end_point.root_certificate is None:
        context.verify_mode = ssl.CERT_NONE
    return context


def _prove(opened: Opened, user: str, password: str | None) -> None:
    exchange: Scram | None = None
    while True:
        kind, body = _next(opened)
        if kind == b"E":
            raise LoginError(wire.fields_of_error(body).get("M", "the server refuses the session"))
        if kind != b"R":
            continue
        (method,) = struct.unpack_from("!i", body)
        if method == 0:
            if exchange is not None and not exchange.is_verified:
                raise LoginError("the server has not shown that it knows the password")
            break
        if method == 12 and exchange is not None:
            exchange.verify(body[4:])
            continue
        if password is None:
            raise LoginError(f"the server asks for the password of {user!r}, and none is known")
        if method == 3:
            opened.socket.sendall(wire.message(b"p", password.encode() + b"\0"))
        elif method == 5:
            opened.socket.sendall(wire.message(b"p", md5_answer(user, password, body[4:8]).encode() + b"\0"))
        elif method == 10 and MECHANISM.encode() in body[4:].split(b"\0"):
            exchange = Scram(password)
            first = exchange.first
            opened.socket.sendall(
                wire.message(b"p", MECHANISM.encode() + b"\0" + struct.pack("!i", len(first)) + first)
            )
        elif method == 11 and exchange is not None:
            opened.socket.sendall(wire.message(b"p", exchange.final(body[4:])))
        else:
            raise LoginError(f"the server asks for method {method} of authentication, which a replay cannot give")
    _wait_ready(opened)


def _wait_ready(opened: Opened) -> None:
    while True:
        kind, body = _next(opened)
        if kind == b"K":
            opened.pid, opened.key = struct.unpack_from("!i", body)[0], body[4:]
        elif kind == b"E":
            raise LoginError(wire.fields_of_error(body).get("M", "the server refuses the session"))
        elif kind == b"Z":
            return


def _next(opened: Opened) -> tuple[bytes, bytes]:
    head = _exactly(opened, 5)
    (length,) = struct.unpack_from("!i", head, 1)
    if not 4 <= length <= LONGEST:
        raise LoginError("what answers is not PostgreSQL")
    return head[:1], _exactly(opened, length - 4)


def _exactly(opened: Opened, size: int) -> bytes:
    while len(opened.backlog) < size:
        got = opened.socket.recv(65536)
        if not got:
            raise LoginError("the server closed the connection")
        opened.backlog += got
    found = bytes(opened.backlog[:size])
    del opened.backlog[:size]
    return found
