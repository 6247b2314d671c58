"""The list of an archive as `pg_restore --list` prints it, and in which phase each entry is restored. Pure.

An entry keeps its number in the archive, which is what a list for `pg_restore --use-list` has to begin with.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from pgdyno.model.results.migrate import MigrationPhase

_ENTRY = re.compile(r"(?P<number>\d+); (?P<table>\d+) (?P<oid>\d+) (?P<rest>.+)")
_KINDS = ("TABLE DATA", "SEQUENCE SET", "FK CONSTRAINT", "CONSTRAINT", "INDEX ATTACH", "INDEX", "STATISTICS DATA",
          "MATERIALIZED VIEW DATA", "MATERIALIZED VIEW", "VIEW", "FUNCTION", "PROCEDURE", "BLOBS", "BLOB METADATA",
          "BLOB", "TRIGGER", "RULE", "POLICY", "EVENT TRIGGER", "PUBLICATION", "STATISTICS")  # fmt: skip
"""The descriptions that decide about anything; of two that begin alike the longer one comes first."""
_LARGE = ("BLOBS", "BLOB METADATA", "BLOB")
_POSTPONED = ("FUNCTION", "PROCEDURE")
"""What needs a key: indexes that follow it in the archive may need it."""


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """One entry. `oid` is that of the object on the source, `rest` schema, name and owner as printed."""

    number: int
    oid: int
    kind: str
    rest: str

    @property
    def line(self) -> str:
        """Return the line by which a list names it."""
        return f"{self.number}; 0 {self.oid} {self.kind} {self.rest}"

    @property
    def label(self) -> str:
        """Return what people call it: schema and name, as far as words can tell them apart."""
        schema, _, name = self.rest.rpartition(" ")[0].partition(" ")
        return name if schema in ("-", "") else f"{schema}.{name}"


def read_list(text: str) -> tuple[ArchiveEntry, ...]:
    """Return the entries of a list; comments are left out, and what is unknown is an entry of its first word."""
    found = []
    for line in text.split("\n"):  # not splitlines: a name may hold what that takes for the end of a line
        match = _ENTRY.fullmatch(line)
        if match is None:
            continue
        rest = match["rest"]
        kind = next((one for one in _KINDS if rest.startswith(f"{one} ")), rest.split(" ")[0])
        found.append(ArchiveEntry(int(match["number"]), int(match["oid"]), kind, rest[len(kind) + 1 :]))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ArchiveParts:
    """The entries by phase: those that are items of their own, and those that are one item together.

    `others` come last in the phase of the constraints: triggers, rules, policies, comments, rights and more.
    """

    structures: tuple[ArchiveEntry, ...]
    tables: tuple[ArchiveEntry, ...]
    large_objects: tuple[ArchiveEntry, ...]
    sequences: tuple[ArchiveEntry, ...]
    indexes: tuple[ArchiveEntry, ...]
    keys: tuple[ArchiveEntry, ...]
    others: tuple[ArchiveEntry, ...]
    statistics: tuple[ArchiveEntry, ...]

    def of(self, phase: MigrationPhase) -> tuple[ArchiveEntry, ...]:
        """Return the entries that are items of their own in a phase."""
        single = {
            MigrationPhase.IMPORT: self.tables,
            MigrationPhase.INDEXES: self.indexes,
            MigrationPhase.CONSTRAINTS: self.keys,
        }
        return single.get(phase, ())


def parts_of(
    before: Iterable[ArchiveEntry],
    data: Iterable[ArchiveEntry],
    after: Iterable[ArchiveEntry],
    of_views: Collection[int] = (),
) -> ArchiveParts:
    """Sort the entries of the three sections of an archive.

    `before`, `data` and `after` are what pg_dump calls pre-data, data and post-data, in the order of the archive.
    `of_views` are the indexes of materialized views, by their oid: they come with those, after the others.
    """
    known, post = tuple(data), tuple(after)
    postponed = next((place for place, one in enumerate(post) if one.kind in _POSTPONED), len(post))
    early = [one for one in post[:postponed] if one.oid not in of_views]
    # statistics of several columns must be there before their table is analyzed, which is after the indexes
    indexes = _of(early, ("INDEX", "CONSTRAINT", "STATISTICS"))
    keys = _of(early, ("FK CONSTRAINT",))
    apart = {one.number for one in (*indexes, *keys)}
    statistics = _of((*known, *post), ("STATISTICS DATA",))
    return ArchiveParts(
        structures=tuple(before),
        tables=_of(known, ("TABLE DATA",)),
        large_objects=_of(known, _LARGE),
        sequences=_of(known, ("SEQUENCE SET",)),
        indexes=indexes,
        keys=keys,
        others=(
            *(one for one in known if one.kind not in ("TABLE DATA", "SEQUENCE SET", "STATISTICS DATA", *_LARGE)),
            *(one for one in post if one.number not in apart and one.kind != "STATISTICS DATA"),
        ),
        statistics=statistics,
    )


def _of(entries: Iterable[ArchiveEntry], kinds: Collection[str]) -> tuple[ArchiveEntry, ...]:
    return tuple(one for one in entries if one.kind in kinds)


def keys_of(entries: Iterable[ArchiveEntry]) -> dict[str, ArchiveEntry]:
    """Return the entries by what people call them; of two that are called alike the later one with its number."""
    found: dict[str, ArchiveEntry] = {}
    for one in entries:
        found[one.label if one.label not in found else f"{one.label} ({one.number})"] = one
    return found
