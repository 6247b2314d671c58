"""Where backup tools on this host keep their backups, by their own configuration files. Only paths are taken.

pgBackRest, Barman and WAL-G name their folder in files that also hold keys: nothing else of them leaves this module.
Each is read with the rights of whose folder it is in: some are in the home of the server's account.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.outside.documents import load_json
from pgdyno.outside.files import decode
from pgdyno.owner.account import Account
from pgdyno.owner.hands import hands_for

_PGBACKREST = ("etc/pgbackrest.conf", "etc/pgbackrest/pgbackrest.conf")
_PGBACKREST_PARTS, _BARMAN_PARTS = "etc/pgbackrest/conf.d", "etc/barman.d"
_BARMAN = "etc/barman.conf"
_WALG_ENVIRONMENT = "etc/wal-g.d/env/WALG_FILE_PREFIX"
_WALG_FILES = ("etc/wal-g.json", "var/lib/postgresql/.walg.json", "var/lib/pgsql/.walg.json")
_LINE = re.compile(r"^\s*([\w-]+)\s*=\s*(.*?)\s*$", re.MULTILINE)
_DISTANT = ("s3", "gcs", "azure", "sftp")


def backup_folders(root: Path = Path("/")) -> dict[str, str]:
    """Return the tool of each folder of this host that one of the tools keeps backups in, by the folder's path.

    A repository on another host or in an object store has none here. Files that cannot be read are passed over.
    """
    found: dict[str, str] = {}
    for tool, folder in (*_pgbackrest(root), *_barman(root), *_walg(root)):
        if folder.startswith("/"):
            found.setdefault(folder.rstrip("/") or "/", tool)
    return found


def _pgbackrest(root: Path) -> Iterator[tuple[str, str]]:
    values = dict(pair for path in (*_PGBACKREST, *_parts(root, _PGBACKREST_PARTS)) for pair in _pairs(root / path))
    numbers = {match[1] for name in values if (match := re.match(r"repo(\d+)-", name))}
    for number in sorted(numbers):
        is_distant = f"repo{number}-host" in values or values.get(f"repo{number}-type") in _DISTANT
        folder = values.get(f"repo{number}-path")
        if folder is not None and not is_distant:
            yield "pgBackRest", folder


def _barman(root: Path) -> Iterator[tuple[str, str]]:
    for path in (_BARMAN, *_parts(root, _BARMAN_PARTS)):
        for name, value in _pairs(root / path):
            if name in ("barman_home", "backup_directory"):
                yield "Barman", value


def _walg(root: Path) -> Iterator[tuple[str, str]]:
    yield "WAL-G", _text(root / _WALG_ENVIRONMENT).strip()
    for path in _WALG_FILES:
        try:
            told = load_json(_text(root / path))
        except ValueError:
            continue
        if isinstance(told, dict):
            yield "WAL-G", str(told.get("WALG_FILE_PREFIX", ""))


def _parts(root: Path, folder: str) -> list[str]:
    try:
        return sorted(f"{folder}/{path.name}" for path in (root / folder).iterdir() if path.suffix == ".conf")
    except OSError:
        return []


def _pairs(path: Path) -> list[tuple[str, str]]:
    return [(match[1], match[2]) for match in _LINE.finditer(_text(path))]


def _text(path: Path) -> str:
    if not os.path.lexists(path):  # a process of an account is not started to find nothing
        return ""
    try:
        hands = hands_for(Account.of_user(path.parent.stat().st_uid))
        return decode(hands.read(hands.resolve(path)), lenient=True)
    except (OSError, ValueError, EnvironmentUnsuitable):
        return ""
