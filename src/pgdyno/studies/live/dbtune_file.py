"""A session file of DBtune, read for what a live study can use of it. YAML, and nothing in it is ever run or built.

Files of its client and of its agent are told apart by nothing but their keys: sections may be missing, so that
`connection_string` stands alone, as in a file whose indentation was lost. Every scalar is a text; anchors, tags and
what is deeper or larger than any such file are refused, so that no file can grow while it is read.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from pgdyno.control.shell_words import restart_argv
from pgdyno.errors import UsageError
from pgdyno.outside.files import open_file, read_opened
from pgdyno.outside.way import doubt_about
from pgdyno.server.postgres import Postgres, secret_keywords
from pgdyno.units import digits_text

MOST_BYTES, MOST_LEVELS = 1 << 16, 8
LEAST_S, MOST_S = 1.0, 86400.0
_SECTIONS = {
    "connection_string": "postgresql",
    "connection_url": "postgresql",
    "restart_command": "postgresql",
    "warmup_time": "tuning_session",
    "measurement_time": "tuning_session",
    "memory_threshold": "guardrail_settings",
}
"""The keys that are taken, each with the section that it stands in."""
_ALSO = {"memory_threshold": ("tuning_settings",)}


@dataclass(frozen=True, slots=True)
class DbtuneFile:
    """What the file says: the server, how it is restarted, seconds of warm-up and measurement, and memory in percent.

    `unused` are the keys that mean nothing here; no value of theirs is told, because some are secrets.
    """

    connection: str | None = None
    restart_command: tuple[str, ...] | None = None
    warmup_s: float | None = None
    measurement_s: float | None = None
    memory_percent: float | None = None
    unused: tuple[str, ...] = ()


class _Loader(yaml.BaseLoader):
    """Texts, lists and mappings, without anchors and within bounds."""

    _level = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("anchors and aliases are not taken")
        self._level += 1
        if self._level > MOST_LEVELS:
            raise ValueError(f"it is deeper than {MOST_LEVELS} levels")
        try:
            return super().compose_node(parent, index)
        finally:
            self._level -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(names) < len(node.value):
            raise ValueError("a key is no text")
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f'"{twice[0]}" appears twice')
        return dict(super().construct_mapping(node, deep))


def read_dbtune(path: Path, *, uid: int | None = None) -> DbtuneFile:
    """Return what the file says. Raises UsageError for what is no such file, and for one that others could change.

    A file with a password that others may read is refused, as libpq passes over such a password file. Its restart
    command runs with our rights: `uid` is whose they are, ours by default.
    """
    mine = os.geteuid() if uid is None else uid
    try:
        with open_file(path) as file:
            text, status = read_opened(file, at_most=MOST_BYTES).decode(), os.fstat(file.fileno())
        document = yaml.load(text, _Loader)  # noqa: S506 - it builds texts, lists and mappings alone
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        said = str(getattr(error, "problem", None) or getattr(error, "strerror", None) or error)
        raise UsageError(
            f'"{path}" cannot be read: {" ".join(said.split())[:200]}', hint="It is DBtune's own YAML file."
        ) from error
    found = parse_dbtune(document, str(path), is_root=mine == 0)
    doubt = doubt_about(path.absolute(), mine)
    if doubt is not None and found.restart_command is not None:
        raise UsageError(
            f'"{path}" names a command to run, and others could change it: {doubt}',
            hint="Move it where nobody else can write (and chmod 600), or take restart_command out of it.",
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077 and found.connection is not None and _has_secret(found.connection):
        raise UsageError(
            f'"{path}" holds a password, and its mode {mode:04o} lets others read it',
            hint=f"chmod 600 {shlex.quote(str(path))}; or take the password out of it, and put it into ~/.pgpass.",
        )
    return found


def parse_dbtune(document: object, name: str, *, is_root: bool) -> DbtuneFile:
    """Return what a document of texts, lists and mappings says. Raises UsageError that names the key."""
    if not isinstance(document, Mapping):
        raise UsageError(f'"{name}" is not a DBtune file: it has no keys', hint="It begins with postgresql:.")
    values, unused = _flat(document)
    connection = values.get("connection_string") or values.get("connection_url")
    if connection is None:
        raise UsageError(
            f'"{name}" names no server', hint="It needs connection_string or connection_url below postgresql."
        )
    command = values.get("restart_command")
    return DbtuneFile(
        connection=connection,
        restart_command=None if command is None else restart_argv(command, is_root=is_root),
        warmup_s=_number(values, "warmup_time", LEAST_S, MOST_S),
        measurement_s=_number(values, "measurement_time", LEAST_S, MOST_S),
        memory_percent=_number(values, "memory_threshold", 1.0, 99.0),
        unused=tuple(unused),
    )


def _has_secret(connection: str) -> bool:
    try:
        return bool(secret_keywords() & Postgres(connection).parameters.keys())
    except UsageError:  # whoever opens it says so
        return False


def _flat(document: Mapping[object, object]) -> tuple[dict[str, str], list[str]]:
    """Return the keys that are taken, with their texts, and the others by their paths."""
    found: dict[str, str] = {}
    unused: list[str] = []
    for key, value in document.items():
        members = value.items() if isinstance(value, Mapping) else [("", value)]
        for member, said in members:
            name, section = (str(member), str(key)) if member else (str(key), "")
            places = ("", _SECTIONS.get(name, ""), *_ALSO.get(name, ()))
            if name in _SECTIONS and section in places and isinstance(said, str):
                if said.strip():
                    found[name] = said.strip()
            elif said not in ("", None):
                unused.append(f"{section}.{name}" if section else name)
    return found, unused


def _number(values: Mapping[str, str], name: str, least: float, most: float) -> float | None:
    word = values.get(name)
    if word is None:
        return None
    try:
        number = float(word)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise UsageError(
            f'{name} "{word[:40]}" is no number from {digits_text(least)} to {digits_text(most)}',
            hint=f"Write it as {name}: {digits_text(max(least, 60.0))}.",
        )
    return number
