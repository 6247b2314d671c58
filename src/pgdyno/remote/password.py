"""The password of a server that is named as its own host sees it: from this side's environment or ~/.pgpass."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_FIELD = r"((?:\\.|[^:\\])*):"
_LINE = re.compile(4 * _FIELD + "(.*)", re.DOTALL)


def find_password(
    parameters: Mapping[str, str], hosts: Sequence[str], environment: Mapping[str, str] = os.environ
) -> str | None:
    """Return the password that libpq would take, the host being known by any of several names; None without one.

    In order: the connection string, PGPASSWORD, the password file (PostgreSQL documentation, 34.16). A file that
    others may read is not used, as in libpq.
    """
    if "password" in parameters:
        return parameters["password"]
    if environment.get("PGPASSWORD"):
        return environment["PGPASSWORD"]
    path = Path(environment.get("PGPASSFILE") or Path.home() / ".pgpass")
    try:
        if path.stat().st_mode & 0o077:
            return None
        text = path.read_text()
    except OSError:
        return None
    user = parameters.get("user", "")
    wanted = (parameters.get("port", "5432"), parameters.get("dbname", user), user)
    return next((found for host in hosts if (found := look_up(text, (host, *wanted))) is not None), None)


def look_up(text: str, wanted: Sequence[str]) -> str | None:
    """Return the password of the first line that fits host, port, database and user; `*` fits anything."""
    for line in text.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        *patterns, password = match.groups()
        pairs = zip(patterns, wanted, strict=True)
        if all(pattern == "*" or _unescaped(pattern) == value for pattern, value in pairs):
            return _unescaped(password)
    return None


def _unescaped(field: str) -> str:
    return re.sub(r"\\(.)", r"\1", field)
