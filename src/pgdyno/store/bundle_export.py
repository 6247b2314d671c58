"""Write studies of a store into a bundle; the same studies always give the same bytes."""

from __future__ import annotations

import hashlib
import json
import math
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from sqlalchemy.engine import Connection

from pgdyno import __version__
from pgdyno.errors import UsageError
from pgdyno.model.study import Study
from pgdyno.model.trial import TrialState
from pgdyno.outputs import open_new
from pgdyno.store.bundle_format import (
    FORMAT,
    MANIFEST,
    SEAL,
    BundleManifest,
    BundleMember,
    StudyEntry,
    check_study_id,
    digest,
)
from pgdyno.store.catalogue import Store
from pgdyno.store.export import Cell, table_queries, table_rows, write_whole
from pgdyno.store.schema import REVISION, SAMPLES

Clean = Callable[[str, dict[str, Cell]], dict[str, Cell]]
"""Takes a table's name and a row, and returns the row as it may leave this machine."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every member: the earliest that ZIP knows, so that a bundle depends on its contents alone."""


def export_bundle(store: Store, studies: Sequence[str], path: Path, clean: Clean) -> BundleManifest:
    """Write the studies with all that was recorded for their finished trials. A running trial is left out.

    `studies` name those of `store` as `Store.study` does, by id, prefix or `last`; one named twice is written once.
    Samples go out as they are; every other row passes `clean`. Nothing is under `path` until all of it is. Raises
    UsageError when the file exists or a study is not there.
    """
    found = list({study.id: study for study in map(store.study, studies)}.values())
    for study in found:
        check_study_id(study.id)
    written: list[BundleManifest] = []

    def write(part: Path) -> None:
        with (
            open_new(part) as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
            store.read() as connection,
        ):
            written.append(_write(archive, connection, found, clean))

    write_whole(path, write)
    return written[0]


def study_digest(store: Store, study: str, clean: Clean) -> str:
    """Return the digest that this study would have in a bundle."""
    members = []
    with store.read() as connection:
        for table, columns, lines in _tables(connection, study, clean):
            tally = _Tally(study, table, columns)
            for line in lines:
                tally.add(line)
            members.append(tally.member())
    return digest([member for member in members if member.rows])


class _Tally:
    """Counts and hashes the lines of one member."""

    def __init__(self, study: str, table: str, columns: tuple[str, ...]) -> None:
        self.place = (study, table, columns)
        self.rows = self.bytes = 0
        self.hash = hashlib.sha256()

    def add(self, line: bytes) -> None:
        self.rows += 1
        self.bytes += len(line)
        self.hash.update(line)

    def member(self) -> BundleMember:
        return BundleMember(*self.place, self.rows, self.bytes, self.hash.hexdigest())


def _write(archive: zipfile.ZipFile, connection: Connection, studies: Sequence[Study], clean: Clean) -> BundleManifest:
    members: list[BundleMember] = []
    entries: list[StudyEntry] = []
    for study in studies:
        own = []
        for table, columns, lines in _tables(connection, study.id, clean):
            first = next(lines, None)
            if first is None:
                continue
            tally = _Tally(study.id, table, columns)
            with archive.open(_info(f"{study.id}/{table}.jsonl"), "w", force_zip64=True) as stream:
                for line in chain((first,), lines):
                    tally.add(line)
                    stream.write(line)
            own.append(tally.member())
        trials = next((member.rows for member in own if member.table == "trial"), 0)
        entries.append(StudyEntry(study.id, study.kind.value, study.name, study.environment, trials, digest(own)))
        members += own
    manifest = BundleManifest(FORMAT, __version__, REVISION, tuple(entries), tuple(members), digest(members))
    text = manifest.to_json()
    archive.writestr(_info(MANIFEST), text)
    archive.writestr(_info(SEAL), f"{hashlib.sha256(text).hexdigest()}  {MANIFEST}\n")
    return manifest


def _tables(connection: Connection, study: str, clean: Clean) -> Iterator[tuple[str, tuple[str, ...], Iterator[bytes]]]:
    """Yield every table with its columns and its lines, only of trials that are finished."""
    running: set[object] = set()
    for table, query in table_queries(study):
        columns, rows = table_rows(connection, query)
        named: Iterator[dict[str, Cell]] = (dict(zip(columns, row, strict=True)) for row in rows)
        if table == "trial":
            trials = list(named)
            running = {row["id"] for row in trials if row["state"] == TrialState.RUNNING.value}
            named = iter(trials)
        key = {"trial": "id", "trial_setting": "trial_id", "trial_factor": "trial_id"}.get(table, "run_id")
        kept = (row for row in named if not running or row.get(key) not in running)
        cleaned = kept if table in SAMPLES else (clean(table, row) for row in kept)
        yield table, tuple(columns), (_line(row) for row in cleaned)


def _line(row: dict[str, Cell]) -> bytes:
    cells = [None if isinstance(value, float) and not math.isfinite(value) else value for value in row.values()]
    try:
        return (json.dumps(cells, separators=(",", ":"), allow_nan=False, sort_keys=True) + "\n").encode()
    except ValueError as error:
        raise UsageError(
            "a row of the store holds a number that is not finite",
            detail=str(error),
            hint="Read it with pgdyno store export STUDY --format csv.",
        ) from error


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info
