"""Passwords of roles in a password file, as libpq finds them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FIELD = re.compile(r"((?:[^:\\]|\\.)*)(?::|$)")


def passwords_in(text: str, host: str, port: int, database: str, users: Iterable[str]) -> dict[str, str]:
    """Return the passwords of these roles: the first line that fits each, `*` fits all; `\\:` and `\\\\` are escaped.

    `text` is the content of the file. Its lines count where they fit `host`, `port`, `database` and one of `users`, the
    roles; a role without such a line is left out of the result, which is keyed by role. A `host` that begins with a
    slash is the folder of a Unix socket: libpq looks for `localhost` there, if it is the default one, and for the
    folder else; both are taken. Source: "The Password File" of PostgreSQL's documentation.
    """
    lines = [fields for line in text.splitlines() if not line.startswith("#") and len(fields := _fields(line)) == 5]
    hosts = {host, "localhost"} if host.startswith("/") else {host}
    found = dict[str, str]()
    for user in users:
        for line_host, line_port, line_database, line_user, password in lines:
            if (
                (line_host == "*" or _plain(line_host) in hosts)
                and line_port in ("*", str(port))
                and (line_database == "*" or _plain(line_database) == database)
                and (line_user == "*" or _plain(line_user) == user)
            ):
                found[user] = _plain(password)
                break
    return found


def _fields(line: str) -> list[str]:
    parts, at = list[str](), 0
    while at <= len(line) and len(parts) < 5:
        if len(parts) == 4:
            parts.append(line[at:])
            break
        match = _FIELD.match(line, at)
        if match is None:
            break
        parts.append(match[1])
        if match.end() == match.end(1):
            break
        at = match.end()
    return parts


def _plain(field: str) -> str:
    return re.sub(r"\\(.)", r"\1", field)
