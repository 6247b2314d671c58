"""Whether the files would let a configuration through that is not in them yet. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pgdyno.target.file_check import FileLine, FileReading
from pgdyno.target.preflight.result import Result, passed, refused

_CHECK = "files"


def would_be_overridden(names: Iterable[str], reading: FileReading, main: Path, include_line: int | None) -> Result:
    """Refuse knobs that something outranks: a later line, ALTER SYSTEM, or the server's command line.

    `include_line` is where `main` names our file, None when that line is still to be appended at its end. Role and
    database settings are judged by `overrides.py`.
    """
    broken = [f"{line.place}: {line.error}" for line in reading.rejected()]
    if broken:
        words = f"the files cannot be read as they are: {'; '.join(broken)}"
        return refused(_CHECK, words, there=f"{len(broken)} lines", hint="Mend those lines first.")
    found = {name: _winner(name, reading, main, include_line) for name in names}
    words = "; ".join(sentence for sentence in found.values() if sentence is not None)
    asked = "1 knob" if len(found) == 1 else f"{len(found)} knobs"
    if words:
        hint = "Take what overrides out of the way, or leave these knobs out."
        return refused(_CHECK, words, asked=asked, there="overridden", hint=hint)
    return passed(_CHECK, "nothing in the files overrides the configuration", asked=asked)


def _winner(name: str, reading: FileReading, main: Path, include_line: int | None) -> str | None:
    state = reading.settings.get(name)
    if state is not None and state.source == "command line":
        return f"{name} is set on the command line of the server"
    lines = [line for line in reading.lines if line.name is not None and line.name.lower() == name.lower()]
    last = lines[-1] if lines else None
    return f"{name} is overridden by {last.place}" if last and _is_later(last, main, include_line) else None


def _is_later(line: FileLine, main: Path, include_line: int | None) -> bool:
    if line.sourcefile is None:
        return False
    if line.sourcefile.endswith("postgresql.auto.conf"):
        return True
    return include_line is not None and line.sourcefile == str(main) and (line.sourceline or 0) > include_line
