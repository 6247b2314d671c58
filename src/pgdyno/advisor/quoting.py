"""Write names and texts into SQL that people review; no server is at hand, so nothing is left unquoted."""

from __future__ import annotations


def identifier(*parts: str) -> str:
    """Return a name, qualified by its schema when two parts are given, always in double quotes."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


def literal(text: str) -> str:
    """Return a text in single quotes, right whatever standard_conforming_strings says."""
    doubled = text.replace("'", "''")
    return f" E'{doubled.replace(chr(92), chr(92) * 2)}'" if "\\" in text else f"'{doubled}'"
