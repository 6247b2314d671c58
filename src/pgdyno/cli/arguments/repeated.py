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
           "sandbox_bin", "sandbox_memory", "host", "sudo_user", "sudo", "store_url")  # fmt: skip
_CAPTURE = ("root", "pg_settings", "pg_conf", "pg_version")
_JUDGED = ("rule_files", "depth", "criticality", "window", "logs", "iostat", "sadf", "wal_device")


def of_the_same_case() -> Again:
    """Return the flags typed now, as words for a shell: those that look again, and those that act on the server.

    Nothing can act on a capture: its commands name the server as --target CONNINFO. Who acts there, or on another
    host, is not known; here only root may change Linux settings.
    """
    typed = {name: tuple(words) for name, words in _typed()}
    captured = any(name in typed for name in _CAPTURE)
    look = [word for name in (*_TARGET, *_CAPTURE, *_JUDGED) for word in typed.get(name, ())]
    act = [word for name in _TARGET for word in typed.get(name, ())]
    return Again(
        shlex.join(look),
        "--target CONNINFO" if captured else shlex.join(act),
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
