"""Whom a socket may belong to that nobody named: in a folder that all can write to, anybody could have made it."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from pgdyno.errors import ConnectError

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
