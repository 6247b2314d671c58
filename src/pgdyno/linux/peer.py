"""Who is at the other end of a session, as the kernel tells it: what a server says of itself proves nothing."""

from __future__ import annotations

import os
import pwd
import socket
import stat
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from pgdyno.errors import ConnectError
from pgdyno.linux import processes

_TABLES = {socket.AF_INET: "tcp", socket.AF_INET6: "tcp6"}
_MAPPED = bytes(10) + b"\xff\xff"
"""What an IPv4 address begins with where a socket of IPv6 took the session."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The process that took a session: its account, None where it is not of this host.

    `pid` is who made the Unix socket, where that is a program of PostgreSQL's: a postmaster.
    """

    uid: int | None
    pid: int | None = None


def peer_of(descriptor: int, proc: Path = processes.PROC) -> Peer:
    """Return who is at the other end of a socket: SO_PEERCRED (unix(7)), or the kernel's list of TCP sockets."""
    with socket.socket(fileno=os.dup(descriptor)) as session:
        if session.family == socket.AF_UNIX:
            pid, uid, _ = struct.unpack("3i", session.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            stat = processes.read_stat(pid) if pid > 0 else None
            is_postmaster = stat is not None and stat.command in ("postgres", "postmaster")
            return Peer(uid, pid if is_postmaster else None)
        ours, theirs = (_ends(session.family, name) for name in (session.getsockname(), session.getpeername()))
    found = {uid for table in _TABLES.values() for uid in _owners(proc / "net" / table, ours, theirs)}
    return Peer(found.pop() if len(found) == 1 else None)


def _ends(family: int, name: tuple[str, int]) -> tuple[bytes, int]:
    packed = socket.inet_pton(family, name[0].partition("%")[0])
    return (packed if len(packed) == 16 else _MAPPED + packed), name[1]


def _owners(table: Path, ours: tuple[bytes, int], theirs: tuple[bytes, int]) -> list[int]:
    """Return the accounts of the sockets whose own end is our session's other one (proc(5))."""
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [int(row[7]) for row in rows if len(row) > 7 and (_read(row[1]), _read(row[2])) == (theirs, ours)]


def _read(text: str) -> tuple[bytes, int]:
    """Return address and port as /proc/net/tcp writes them: in words of four bytes, each in the order of this CPU."""
    address, _, port = text.partition(":")
    words = (int(address[at : at + 8], 16) for at in range(0, len(address), 8))
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return (packed if len(packed) == 16 else _MAPPED + packed), int(port, 16)


_USUAL_ACCOUNT = "postgres"


def required_peer(folder: Path, port: str) -> dict[str, str]:
    """Return libpq's `requirepeer` for the socket of a port in this folder; nothing where there is no socket.

    Trusted are root, ourselves, the account "postgres", and the owner of a folder that not everybody can write to.
    libpq compares it with what the kernel says of the other end (SO_PEERCRED), before it sends anything. Raises
    ConnectError when the socket belongs to somebody else.
    """
    path = folder / f".s.PGSQL.{port}"
    try:
        owner, place = path.lstat().st_uid, folder.stat()
    except OSError:
        return {}
    trusted = {0, os.geteuid()} | _usual()
    if not place.st_mode & stat.S_IWOTH:
        trusted.add(place.st_uid)
    if owner not in trusted:
        raise ConnectError(
            f'socket "{path}" belongs to user "{account_name(owner)}", whom nobody named',
            detail=f'Every user can make a socket in "{folder}", and a password would go to whoever did.',
            hint=f'If this is the server that you mean, name it: --target "host={folder} port={port}".',
        )
    return {"requirepeer": account_name(owner)}


def _usual() -> set[int]:
    try:
        return {pwd.getpwnam(_USUAL_ACCOUNT).pw_uid}
    except KeyError:
        return set()


def account_name(uid: int) -> str:
    """Return the account of a user id, the number itself where it has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
