"""A server that speaks PostgreSQL's protocol and answers every query with one row of whatever it likes."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from pgdyno.server.postgres import Postgres

INT4, FLOAT8, TIMESTAMPTZ, NUMERIC, JSON, TEXT = 23, 701, 1184, 1700, 114, 25
Row = Mapping[str, tuple[int, bytes | None]]
"""Type (pg_type.oid) and bytes by the name of the column."""


@contextmanager
def lying_server(row: Row) -> Iterator[Postgres]:
    """Listen on a port of 127.0.0.1 until the block ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=_accept, args=(listener, row), daemon=True)
    thread.start()
    try:
        port = listener.getsockname()[1]
        yield Postgres(f"host=127.0.0.1 port={port} user=x dbname=x sslmode=disable gssencmode=disable")
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


def _accept(listener: socket.socket, row: Row) -> None:
    with suppress(OSError):
        while True:
            peer, _ = listener.accept()
            threading.Thread(target=_serve, args=(peer, row), daemon=True).start()


def _serve(peer: socket.socket, row: Row) -> None:
    with suppress(OSError, struct.error), peer, peer.makefile("rb") as stream:
        stream.read(struct.unpack("!I", stream.read(4))[0] - 4)
        version = _message(b"S", b"server_version\0" + b"18.0\0") + _message(b"S", b"client_encoding\0UTF8\0")
        peer.sendall(_message(b"R", struct.pack("!I", 0)) + version + _message(b"Z", b"I"))
        while kind := stream.read(1):
            stream.read(struct.unpack("!I", stream.read(4))[0] - 4)
            if kind == b"P":
                peer.sendall(_message(b"1", b"") + _message(b"2", b""))
            if kind in (b"S", b"Q"):
                peer.sendall(_answer(row) + _message(b"C", b"SELECT 1\0") + _message(b"Z", b"I"))


def _answer(row: Row) -> bytes:
    names = [name.encode() + b"\0" + struct.pack("!IhIhih", 0, 0, oid, -1, -1, 0) for name, (oid, _) in row.items()]
    values = [
        struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for _, value in row.values()
    ]
    count = struct.pack("!h", len(row))
    return _message(b"T", count + b"".join(names)) + _message(b"D", count + b"".join(values))


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", len(body) + 4) + body
