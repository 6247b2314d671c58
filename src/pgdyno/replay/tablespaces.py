"""Tablespaces of a data directory that is brought back: their files come to lie inside of it.

A tablespace is a link in `pg_tblspc` to a folder anywhere, so that a copied link leads a target to the files of another
server. A base backup puts each tablespace where it is told; the files of a directory that was put aside must have been
put beside it, as nobody can tell whether a server still works on those that lie elsewhere.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.server.postgres import Postgres
from pgdyno.targets.target import Target

INSIDE, _SECOND = "pgdyno.tablespaces", "pgdyno.tablespaces.2"
"""In the data directory: a folder for each tablespace. The second is for a backup of a server that has the first, which
pg_basebackup makes as well."""
PLACES = (INSIDE, _SECOND)
_LINKS, _MAP = "pg_tblspc", "tablespace_map"
_ELSEWHERE = """
    SELECT oid::text AS oid, pg_catalog.pg_tablespace_location(oid) AS place FROM pg_catalog.pg_tablespace
    WHERE pg_catalog.pg_tablespace_location(oid) LIKE '/%' ORDER BY 1"""


@dataclass(frozen=True, slots=True)
class Tablespace:
    """One that has a folder of its own: its OID, and where its files are."""

    oid: str
    place: str


def tablespaces_of(postgres: Postgres) -> tuple[Tablespace, ...]:
    """Return those of a server that have a folder of their own. Raises ConnectError where it does not answer."""
    return tuple(Tablespace(str(row["oid"]), str(row["place"])) for row in postgres.fetch(_ELSEWHERE))


def mappings(found: Sequence[Tablespace], folder: Path) -> list[str]:
    """Return what pg_basebackup is told of tablespaces, so that their files come into `folder`."""
    has_first = any(PurePosixPath(one.place).parent.name == INSIDE for one in found)
    inside = folder / (_SECOND if has_first else INSIDE)
    return [_mapping(one.place, inside / one.oid) for one in found]


def _mapping(place: str, to: Path) -> str:
    return "=".join(path.replace("=", "\\=") for path in (place, str(to)))


def linked(target: Target, folder: Path) -> tuple[Tablespace, ...]:
    """Return where the links of a data directory lead to, read with the rights of the target's owner."""
    found = _run(target, "find", str(folder / _LINKS), "-maxdepth", "1", "-type", "l", "-printf", r"%f\0%l\0")
    words = found.split("\0")[:-1]
    return tuple(Tablespace(oid, place) for oid, place in zip(words[::2], words[1::2], strict=True))


def require_inside(target: Target, found: tuple[Tablespace, ...], folder: Path) -> None:
    """Raise EnvironmentUnsuitable where a link of a data directory leads to files that are not beside it.

    So would those that a server makes of a `tablespace_map` as it starts from a backup.
    """
    if _is(target, folder / _MAP, "-type", "f", "-size", "+0"):
        raise EnvironmentUnsuitable(
            f'"{folder / _MAP}" leads out of the copy: the target would work on the files of another server',
            hint="Make the copy by pg_basebackup with --format=plain, which writes no such file.",
        )
    real = [name for name in PLACES if _is(target, folder / name, "-type", "d")]  # a link would lead elsewhere
    for one in found:
        place = PurePosixPath(one.place)
        if place.parent.name in real and place.name != ".." and _is(target, _beside(place, folder), "-type", "d"):
            continue
        mapped = _mapping(one.place, folder / INSIDE / one.oid)
        raise EnvironmentUnsuitable(
            f'tablespace "{folder / _LINKS / one.oid}" leads to "{one.place}", out of the copy: the target would work '
            "on the files of another server",
            hint=f"Make the copy by pg_basebackup {shlex.quote(f'--tablespace-mapping={mapped}')}",
        )


def lead_inside(target: Target, staged: Path, directory: Path) -> None:
    """Make the links of a staged data directory lead to where its files will be, in `directory`.

    Raises EnvironmentUnsuitable for files that are not in `staged`.
    """
    found = linked(target, staged)
    require_inside(target, found, staged)
    for one in found:
        place = _beside(PurePosixPath(one.place), directory)
        _run(target, "ln", "-sfn", "--", str(place), str(staged / _LINKS / one.oid))


def _beside(place: PurePosixPath, folder: Path) -> Path:
    return folder / place.parent.name / place.name


def _is(target: Target, path: Path, *tests: str) -> bool:
    words = ["find", str(path), "-maxdepth", "0", *tests]
    return target.runner.run(words, user=target.os_user, cwd=Path("/"), check=False).stdout.strip() != ""


def _run(target: Target, *argv: str) -> str:
    return target.runner.run(argv, user=target.os_user, cwd=Path("/")).stdout
