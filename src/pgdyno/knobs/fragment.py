"""Read a fragment of `postgresql.conf`: lines of `name = value`, strictly.

Not a parser of whole configuration files: that is the server's work. Whatever is not a plain setting (an include
directive, an unfinished quote, a second value) is refused with file and line.
"""

from __future__ import annotations

import re

from pgdyno.errors import UsageError

_LINE = re.compile(
    r"""^\s*(?P<name>[A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$]*)*)
        (?:\s*=\s*|\s+)
        (?:'(?P<quoted>(?:[^'\\]|'')*)'|(?P<bare>[-+\w.:/]+))
        \s*(?:\#.*)?$""",
    re.VERBOSE,
)
_DIRECTIVES = ("include", "include_dir", "include_if_exists")


def parse_conf(text: str, *, source: str = "fragment") -> dict[str, str]:
    """Return the settings of a fragment, in the order of their lines.

    `source` names the file in messages. Values keep their text; a doubled quote inside of quotes is one quote, as
    PostgreSQL reads it, and backslashes are refused because their meaning inside of quotes is easily mistaken.
    Raises UsageError on a line that is not a plain setting and on a name that is set twice.
    """
    settings: dict[str, str] = {}
    places: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        name, value = _setting(content, f"{source}:{number}")
        if name.casefold() in places:
            first = places[name.casefold()]
            raise UsageError(
                f'{source}:{number}: "{name}" is set twice',
                detail=f"It is set in line {first} already.",
                hint="Keep one of the two lines.",
            )
        places[name.casefold()] = number
        settings[name] = value
    return settings


def _setting(content: str, place: str) -> tuple[str, str]:
    match = _LINE.match(content)
    word = re.split(r"[\s=]", content, maxsplit=1)[0]
    if word.casefold() in _DIRECTIVES:
        raise UsageError(
            f'{place}: directive "{word}" is not read here',
            hint="Write the settings themselves, one `name = value` a line.",
        )
    if match is None:
        raise UsageError(
            f"{place}: not a setting: {content}",
            hint="Write one `name = value` a line; quote values that hold spaces.",
        )
    quoted = match["quoted"]
    return match["name"], match["bare"] if quoted is None else quoted.replace("''", "'")
