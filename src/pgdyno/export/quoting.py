"""How names and values are written for each reader, so that a value is a value whatever is in it."""

from __future__ import annotations

import json
import re

from pgdyno.outside.quoting import identifier, literal
from pgdyno.routes.auto_conf import list_words

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
_BARE = re.compile(r"[A-Za-z0-9_.-]+")


def parameter(name: str) -> str:
    """Write a parameter's name for ALTER SYSTEM: plain where it can be, as all of the server's own are."""
    return ".".join(part if _PLAIN.fullmatch(part) else identifier(part) for part in name.split("."))


def alter_system_set(name: str, value: str) -> str:
    """Return ALTER SYSTEM SET; lists of names word by word, because one literal would become one name."""
    words = ", ".join(literal(word) for word in list_words(name, value))
    return f"ALTER SYSTEM SET {parameter(name)} = {words};"


def alter_system_reset(name: str) -> str:
    """Return ALTER SYSTEM RESET."""
    return f"ALTER SYSTEM RESET {parameter(name)};"


def yaml_scalar(value: str | None) -> str:
    """Write a YAML scalar as JSON does, which YAML contains: `on` and `1.10` stay text; None is null."""
    return json.dumps(value)


def yaml_key(name: str) -> str:
    """Write a mapping's key."""
    return (
        name if _BARE.fullmatch(name) and name.lower() not in ("on", "off", "yes", "no", "null") else json.dumps(name)
    )
