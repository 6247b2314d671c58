"""Letters that a terminal lacks: a sign of ours comes in ASCII, so that a minus stays a minus; any other as `?`."""

from __future__ import annotations

import codecs
import os
from collections.abc import Mapping
from io import TextIOWrapper

IN_ASCII = "pgdyno-in-ascii"
"""The name under which Python's encoders find `_in_ascii`."""
_SIGNS = {
    "−": "-", "–": "-", "—": "-", "→": "->", "…": "...", "×": "x", "·": ".", "µ": "u", "±": "+-", "≤": "<=", "≥": ">=",
    "‘": "'", "’": "'", "“": '"', "”": '"', "\u00a0": " ", "✓": "v",
    "─": "-", "╌": "-", "│": "|", "╎": "|", "╵": "|", "└": "+", "├": "+", "┤": "+",
    "▁": "_", "▂": ".", "▃": ":", "▄": "-", "▅": "=", "▆": "+", "▇": "*", "█": "#", "░": ".", "▒": ":", "▓": "%",
    "■": "#", "□": "o", "▲": "A", "△": "a", "▼": "V", "◆": "D", "◇": "d", "○": "o", "●": "*",
}  # fmt: skip


def let_letters_be_missing(stream: TextIOWrapper, environ: Mapping[str, str] = os.environ) -> None:
    """Make a stream write its terminal's letters alone.

    Python takes the C locale for UTF-8 (PEP 540). A terminal whose locale is said to be C shows ASCII.
    """
    is_forced = "PYTHONIOENCODING" in environ or "PYTHONUTF8" in environ
    locale = next((environ[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(name)), "")
    if locale in ("C", "POSIX") and not is_forced and stream.isatty():
        stream.reconfigure(encoding="ascii", errors=IN_ASCII)
    else:
        stream.reconfigure(errors=IN_ASCII)


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError), "only what is written is replaced"
    return "".join(_SIGNS.get(letter, "?") for letter in error.object[error.start : error.end]), error.end


codecs.register_error(IN_ASCII, _in_ascii)
