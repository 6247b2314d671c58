"""Ask a server whether it is alive, with nothing but a socket: no password, no free connection slot, no client library.

Sends an SSLRequest (PostgreSQL documentation, 54.2.10 SSL Session Encryption): the postmaster accepts, starts a
process, and that process answers one byte, `S` or `N`, before any authentication. So a server that is hung, cannot
fork, or is gone is told from one that merely refuses sessions: too many clients, a wrong password, or recovery.
Nothing appears in its log unless it logs every connection.
"""

from __future__ import annotations

import errno
import socket
import struct
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable

_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_ALIVE = (b"S", b"N")
_OWN_SHORTAGE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""What keeps us from asking, and says nothing of the server."""


class Health(StrEnum):
    """What came of the question."""

    ALIVE = "alive"
    ABSENT = "absent"
    """Nobody listens."""
    SILENT = "silent"
    """Somebody listens and does not answer in time: stopped, hung or starved."""
    FAILING = "failing"
    """The answer was an error: it cannot start a process."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens: a Unix socket's path, or a host and a port."""

    socket_path: str | None
    host: str | None = None
    port: int | None = None

    @classmethod
    def of(cls, host: str, port: int) -> Address:
        """Return the address that libpq's host (a folder means a Unix socket) and port stand for."""
        if host.startswith(("/", "@")):
            return cls(str(Path(host) / f".s.PGSQL.{port}"))
        return cls(None, host or "localhost", port)

    def __str__(self) -> str:
        return self.socket_path or f"{self.host}:{self.port}"


def ask(address: Address, *, timeout_s: float = 2.0) -> Health:
    """Ask once. Costs the server one process start, no session, no transaction.

    Raises EnvironmentUnsuitable where there is no file or memory for a socket of ours.
    """
    try:
        with _connected(address, timeout_s) as connection:
            connection.sendall(_SSL_REQUEST)
            answer = connection.recv(1)
    except (TimeoutError, BlockingIOError):  # EAGAIN: the backlog of a server that accepts nothing is full
        return Health.SILENT
    except OSError as error:
        if error.errno in _OWN_SHORTAGE:
            raise EnvironmentUnsuitable(
                f'the server at "{address}" cannot be asked whether it is alive', detail=error.strerror
            ) from error
        return Health.ABSENT
    return Health.ALIVE if answer in _ALIVE else Health.FAILING


def _connected(address: Address, timeout_s: float) -> socket.socket:
    if address.socket_path is None:
        socket.socket().close()  # where none can be had, a look-up of the name would only say that nobody has it
        return socket.create_connection((address.host, address.port), timeout_s)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        # An abstract socket is written with @ in libpq and with a null byte in the kernel.
        path = address.socket_path
        connection.connect("\0" + path[1:] if path.startswith("@") else path)
    except BaseException:
        connection.close()
        raise
    return connection
