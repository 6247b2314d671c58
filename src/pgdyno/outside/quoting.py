"""How names and values are written for PostgreSQL's readers, so that a value is a value whatever is in it. Pure."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"-?[0-9]+(?:[.][0-9]+)?")


def identifier(*parts: str) -> str:
    """Quote an SQL name, qualified by its schema where two parts are given.

    Always in quotes, because which words need them differs between versions.
    """
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def literal(value: str) -> str:
    """Quote an SQL string, right with either value of standard_conforming_strings."""
    quoted = "'" + value.replace("'", "''").replace("\\", "\\\\") + "'"
    return f"E{quoted}" if "\\" in value else quoted


def conf_line(name: str, value: str) -> str:
    """Return one line of postgresql.conf, without its end; a backslash in quotes begins an escape there."""
    escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n").replace("\r", "\\r")
    return f"{name} = {value}" if _NUMBER.fullmatch(value) else f"{name} = '{escaped}'"
