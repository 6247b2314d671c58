"""Statement texts without what a user wrote into them: constants, comments, passwords. Pure."""

from __future__ import annotations

import re

_TOKENS = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?(?:\*/|$) )
  | (?P<escaped> \b[eE]'(?:[^'\\]|\\.|'')*(?:'|$) )
  | (?P<string> (?:\b[bBxXnN]|\b[uU]&)?'(?:[^']|'')*(?:'|$) )
  | (?P<dollar> \$(?P<tag>[A-Za-z_]\w*)?\$.*?(?:\$(?P=tag)\$|$) )
  | (?P<bare> \$\$.*?(?:\$\$|$) )
  | (?P<name> "(?:[^"]|"")*(?:"|$) | \$\d+ | [A-Za-z_]\w* )
  | (?P<number> \d[\w.]* | \.\d+ )
    """,
    re.VERBOSE | re.DOTALL,
)


def without_values(query: str) -> str:
    """Return a statement with `?` for every constant, without comments, on one line.

    pg_stat_statements replaces the constants of queries, but not those of utility statements (ALTER ROLE ... PASSWORD).
    A text that was cut inside of a constant loses the constant too.
    """
    return " ".join(_TOKENS.sub(_replace, query).split())


def _replace(match: re.Match[str]) -> str:
    if match["comment"] is not None:
        return " "
    return match[0] if match["name"] is not None else "?"
