"""The flags that a proposed command needs to be about the same server as the one that proposes it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

import click
from click.core import ParameterSource

from pgdyno.model.advice import Again
from pgdyno.outside.secret_words import names_secret

_TARGET = ("target", "restart_command", "patroni", "patroni_auth", "patroni_ca", "patroni_cert", "sql_only", "sandbox",
           "sandbox_bin", "sandbox_memory", "host", "sudo_user", "sudo")  # fmt: skip
_STORE = ("store_url",)
_CAPTURE = ("root", "pg_settings", "pg_conf", "pg_version")
_SOURCE = ("rule_files", "window", "logs")
"""What verbs that act take of what advice was made from."""
_JUDGED = (*_SOURCE, "depth", "criticality", "iostat", "sadf", "wal_device")


def of_the_same_case() -> Again:
    """Return the flags typed now, as words for a shell: those that look again, and those that act on the server.

    Nothing can act on a capture: its commands name the server as --target CONNINFO. Who acts there, or on another
    host, is not known; here only root may change Linux settings.
    """
    typed = {name: tuple(words) for name, words in _typed()}
    captured = any(name in typed for name in _CAPTURE)

    def words(*names: str) -> str:
        return shlex.join(word for name in names for word in typed.get(name, ()))

    return Again(
        words(*_TARGET, *_STORE, *_CAPTURE, *_JUDGED),
        f"--target CONNINFO {words('rule_files')}".rstrip() if captured else words(*_TARGET, *_STORE, *_SOURCE),
        words(*_TARGET),
        may_set_linux="sql_only" not in typed and (captured or "host" in typed or os.geteuid() == 0),
    )


def _typed() -> Iterator[tuple[str, list[str]]]:
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        value = context.params[name]
        if isinstance(value, bool):
            yield name, [parameter.opts[0]] if value else []
            continue
        values = value if isinstance(value, tuple) else (value,)
        yield name, [word for one in values for word in (parameter.opts[0], _shown(name, one))]


def _shown(name: str, value: object) -> str:
    """Return a value as it may be shown: a password stays out."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    if name in ("target", "store_url") and ("@" in text or names_secret(text)):
        from pgdyno.server.postgres import redact

        return redact(text)
    return text
