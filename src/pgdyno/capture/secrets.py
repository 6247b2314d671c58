"""Keep secrets out of a capture: what a setting, a command line or a kernel line may hold is replaced, not searched.

A password in a connection string is found by its keyword. A command can hold a credential in any shape, so that only
the program's name is kept.
"""

from __future__ import annotations

import re
import shlex

from pgdyno.server.postgres import redact

LEFT_OUT = "(left out)"
_WHOLE = re.compile(r"passphrase|passwd|password|secret|token|credential|private_?key|api_?key", re.IGNORECASE)
_NOT_SECRET = frozenset({"password_encryption", "scram_iterations"})
_COMMANDS = re.compile(r"_command$")
_ARCHIVED_TO = re.compile(r"(/[^\s'\"%;&|]+)/%f")


def public_setting(name: str, value: str | None) -> str | None:
    """Return what may be known of a setting's value; an empty value says that it is not set, and stays."""
    if not value or name in _NOT_SECRET or value in ("(disabled)", "on", "off"):
        return value
    if _WHOLE.search(name):
        return LEFT_OUT
    return public_command(value) if _COMMANDS.search(name) else redact(value)


def public_command(text: str) -> str:
    """Return a command line's program alone: credentials stand in arguments and in assignments before it."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    program = next((word for word in words if "=" not in word), "")
    shown = program if re.fullmatch(r"[\w./+-]+", program) else ""
    return f"{shown} {LEFT_OUT}".strip() if len(words) > 1 or not shown else shown


def archive_folder(command: str) -> str | None:
    """Return the folder that an archive_command copies to by its path, None when it names none."""
    match = _ARCHIVED_TO.search(command)
    return match[1] if match else None


def public_text(text: str) -> str:
    """Return a text of the host without passwords in URIs and in key=value form."""
    return redact(text)
