"""The one configuration file that pgdyno owns, and the one line that makes the server read it.

`pgdyno.conf` lies beside the server's main configuration file, which names it in its last line with
`include_if_exists`, so that the main file works with and without it. `postgresql.auto.conf` is never written.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass, field
from pathlib import Path

from pgdyno.errors import UsageError
from pgdyno.model.configuration import Configuration
from pgdyno.owner.file_image import found_sum
from pgdyno.owner.hands import OURS, Hands
from pgdyno.routes.three_way import Block
from pgdyno.routes.written import Written

NAME = "pgdyno.conf"
LONGEST = 64 << 20
"""Bytes of a configuration file at most."""
TRIES = 50
"""How often a file is read again that somebody else writes in the very moment in which we would."""
SESSION_MARK = "# pgdyno session "
KEPT_MARK = "# pgdyno change "
END_MARK = "# end of pgdyno "
_INCLUDE = re.compile(r"^\s*include(?:_if_exists)?\s*=?\s*'([^']*)'", re.IGNORECASE | re.MULTILINE)
_KNOB = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(?:\.[A-Za-z_][A-Za-z0-9_$]*)*")
_INCLUDE_LINES = f"""\
# Added by pgdyno for a session; `pgdyno rollback` takes it away again.
include_if_exists '{NAME}'
"""
INCLUDE_LINES = tuple(line.encode() for line in _INCLUDE_LINES.splitlines())


@dataclass(frozen=True, slots=True)
class DropIn:
    """Where the two files are. `main` is the file as the server names it; `main_real` what its links lead to.

    Both are read and written by `hands`, those of the server's account.
    """

    main: Path
    hands: Hands = field(default=OURS, compare=False, repr=False)

    @property
    def path(self) -> Path:
        """Return the path of our own file, as the server will spell it in `pg_settings.sourcefile`."""
        return self.main.parent / NAME

    @property
    def main_real(self) -> Path:
        """Return the main file that must be written, symbolic links resolved."""
        return self.hands.resolve(self.main)

    def is_included(self) -> bool:
        """Return True when the main file names our file already."""
        return self.names_ours(self.hands.read_whole(self.main_real, LONGEST))

    def names_ours(self, data: bytes) -> bool:
        """Tell whether these lines of a main file make the server read our file."""
        text = data.decode(errors="replace")
        return any(self.main.parent / name == self.path for name in _INCLUDE.findall(text))

    def write(self, data: bytes) -> None:
        """Replace our file atomically, with the owner and mode of the main file. Raises OSError."""
        attributes = self.hands.capture(self.main_real)[0].attributes
        self.hands.replace(self.path, data, None if attributes is None else attributes.without_time())

    def read(self) -> bytes | None:
        """Return the bytes of our file, None when it is absent."""
        try:
            return self.hands.read_whole(self.path, LONGEST)
        except FileNotFoundError:
            return None

    def put_back(self, data: bytes | None) -> None:
        """Return our file to bytes that were read before, or to its absence. Raises OSError."""
        if data is None:
            self.hands.remove(self.path)
        else:
            self.write(data)

    def include(self) -> None:
        """Append the line to the main file, unless it is there. Raises OSError."""
        tries = 0
        while not self.is_included():
            main = self.main_real
            found = self.hands.read_whole(main, LONGEST)
            try:
                self.hands.put(main, with_include(found), found_sum(found))
            except OSError as error:
                tries += 1
                if error.errno != errno.ESTALE or tries == TRIES:  # else somebody writes just now: look again
                    raise


def with_include(main: bytes) -> bytes:
    """Return the main file's bytes with our line behind them; the original bytes stay a prefix."""
    separator = b"" if not main or main.endswith(b"\n") else b"\n"
    return main + separator + _INCLUDE_LINES.encode()


def render(configuration: Configuration, *, session: str, original: bytes = b"", kept: bool = False) -> bytes:
    """Return the bytes of the drop-in: what was in it before the session, then this configuration.

    `original` is what stays in front, empty for nothing: what was there before, or what others have made of it since.
    `session` is the id that our marks name. `kept` is for a change that stays after its session: its lines are where
    they were, under another head. Raises UsageError on a name or value that would break out of its line.
    """
    for name, value in configuration.items():
        _check(name, value)
    separator = b"" if not original or original.endswith(b"\n") else b"\n"
    head, *remarks = _heading(session, kept=kept)
    block = "".join(f"{line}\n" for line in (head, *remarks)) + configuration.fragment() + f"{_end(head)}\n"
    return original + separator + block.encode()


def block_of(session: str, written: Written) -> Block:
    """Return every line that `render` can have written for a session."""
    configurations = written.configurations
    headings = [_heading(session, kept=kept) for kept in (False, True)]
    fragments = [configuration.postgresql().fragment() for configuration in configurations]
    return Block(
        heads=frozenset(head.encode() for head, *_ in headings),
        ends=frozenset(_end(head).encode() for head, *_ in headings),
        remarks=frozenset(line.encode() for _, *remarks in headings for line in remarks),
        settings=frozenset(line.encode().strip() for text in fragments for line in text.splitlines()),
        names=frozenset(name.lower() for configuration in configurations for name in configuration.postgresql()),
        is_known=written.is_known,
        may_be_bare=not written.is_undone,
    )


def marks_of(session: str) -> list[tuple[str, str]]:
    """Return the first and the last line of each block that a session can have written."""
    heads = [_heading(session, kept=kept)[0] for kept in (False, True)]
    return [(head, _end(head)) for head in heads]


def _heading(session: str, *, kept: bool) -> tuple[str, ...]:
    why = "because it was accepted" if kept else "for a measurement, and taken away when it ends"
    return (
        f"{KEPT_MARK if kept else SESSION_MARK}{session}",
        f"# Written by pgdyno {why}.",
        f"# Undo by hand: pgdyno rollback {session}",
    )


def _end(head: str) -> str:
    return END_MARK + head.removeprefix("# pgdyno ")


def session_named_in(data: bytes) -> str | None:
    """Return the session whose trial a drop-in belongs to, None when it is not a trial's."""
    for line in data.decode(errors="replace").splitlines():
        if line.startswith(SESSION_MARK):
            return line.removeprefix(SESSION_MARK).strip()
    return None


def _check(name: str, value: str) -> None:
    if not _KNOB.fullmatch(name):
        raise UsageError(f'"{name}" is not the name of a knob', hint="Write the name as pg_settings shows it.")
    if any(ord(character) < 32 for character in value) or "\\" in value:
        raise UsageError(
            f"the value {value!r} of {name} cannot be written into a configuration file",
            hint="Use a value without control characters and backslashes.",
        )
