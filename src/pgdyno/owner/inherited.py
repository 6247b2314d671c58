"""Which variables of our environment a program that we start is given: a list for each kind of program, never all.

What a shell holds beside (passwords, keys of clouds, an agent's socket) is none of a server's business, and a server
shows its environment to everybody who may read /proc/PID/environ for as long as it runs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache

_EVERY = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
_LIBPQ = ("PG*", "KRB5*", "SSL_CERT_*", "OPENSSL_CONF")
_OURS = ("PYTHON*", "PGDYNO_*", "SSH_*", "XDG_*", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "NO_COLOR")


class ProgramKind(Enum):
    """What a program is, and with that the patterns of the variables that it is given."""

    PROGRAM = _EVERY
    """A server's program, or one of the system's."""
    CLIENT = (*_EVERY, *_LIBPQ)
    """A program that opens sessions by libpq: pgbench, psql."""
    PERSONAL = ("*",)
    """A person's own ssh, whose configuration names programs (ProxyCommand), or what --notify names: all but PG*."""
    BROWSER = (*_EVERY, "XDG_*", "FONTCONFIG_*")
    """A browser that prints a page."""
    OURSELVES = (*_EVERY, *_LIBPQ, *_OURS)
    """Another process of pgdyno, which keeps to this list in its turn."""


def inherited(kind: ProgramKind, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what of `environment` (ours) a program of this kind is given."""
    given = os.environ if environment is None else environment
    return {name: value for name, value in given.items() if _is_given(kind, name)}


@cache
def _is_given(kind: ProgramKind, name: str) -> bool:
    """Tell it of a name; asked again for each program, and the same names each time."""
    if name.startswith("PGDYNO_" if kind is ProgramKind.CLIENT else "PG") and kind is not ProgramKind.OURSELVES:
        return False
    return any(fnmatchcase(name, pattern) for pattern in kind.value)
