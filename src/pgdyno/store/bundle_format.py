"""A bundle: studies of one store in one file, to be read into another. A ZIP file whose manifest hashes each member.

    manifest.json                  what is in the file: see `BundleManifest`
    manifest.sha256                the SHA-256 of manifest.json, and so of the whole
    <study>/<table>.jsonl          the rows of one table, a JSON list a line; bytes are base64

Pure but for the file that `open_bundle` is given. Nothing of a bundle is ever unpacked to disk, and every size is
bounded before anything is read: a bundle is a stranger's file.
"""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, BinaryIO

from pgdyno.errors import UsageError
from pgdyno.model.shapes import shaped
from pgdyno.model.study import STUDY_ID
from pgdyno.outside.documents import load_json
from pgdyno.outside.files import open_file

FORMAT = 1
"""The version of the layout; it changes when an older pgdyno could not read it."""
MANIFEST, SEAL = "manifest.json", "manifest.sha256"
MOST_MEMBERS = 10_000
MOST_BYTES = 16 << 30
"""So much a bundle may hold unpacked: some years of runs; a file that claims more is a bomb."""
MOST_MANIFEST_BYTES = 8 << 20
MOST_LINE_BYTES = 32 << 20
MOST_RATIO = 400
"""JSON of samples shrinks by 5 to 40; deflate itself ends at 1032."""
UNREADABLE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError)
"""What Python's reader raises on a file that is no ZIP file, is cut, or was changed.

RuntimeError is for members that are encrypted, or packed in a way that it does not know (NotImplementedError).
"""
_TABLE = re.compile(r"[a-z][a-z0-9_]{0,62}")
_AGAIN = "Export it again where it was measured, and copy the file in binary form."


@dataclass(frozen=True, slots=True)
class BundleMember:
    """One table of one study. `bytes` counts the unpacked text, `sha256` is of it."""

    study: str
    table: str
    columns: tuple[str, ...]
    rows: int
    bytes: int
    sha256: str

    @property
    def name(self) -> str:
        """Return its name in the file."""
        return f"{self.study}/{self.table}.jsonl"


@dataclass(frozen=True, slots=True)
class StudyEntry:
    """One study as the manifest tells it. `digest` is the SHA-256 over the hashes of its members."""

    id: str
    kind: str
    name: str
    environment: str
    trials: int
    digest: str


@dataclass(frozen=True, slots=True)
class BundleManifest:
    """What is in a bundle. `whole` is the SHA-256 over the hashes of all members; `revision` is of the schema."""

    format: int
    pgdyno: str
    revision: str
    studies: tuple[StudyEntry, ...]
    members: tuple[BundleMember, ...]
    whole: str

    def to_json(self) -> bytes:
        """Return the text of `manifest.json`, the same for the same contents."""
        return (json.dumps(asdict(self), indent=1, sort_keys=True) + "\n").encode()

    def of(self, study: str) -> dict[str, BundleMember]:
        """Return the members of one study by table."""
        return {member.table: member for member in self.members if member.study == study}


def digest(members: Iterator[BundleMember] | tuple[BundleMember, ...] | list[BundleMember]) -> str:
    """Return the SHA-256 over the hashes of members, in the order of their tables; studies are not named in it."""
    lines = sorted(f"{member.sha256}  {member.table}\n" for member in members)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def check_study_id(study: str) -> None:
    """Refuse an id that is no name of a member. Raises UsageError."""
    if not STUDY_ID.fullmatch(study) or ".." in study:
        raise UsageError(f'"{study}" is not an id of a study', hint="List the studies with pgdyno store list.")


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that is open: its manifest has been checked against its seal, its members against the manifest."""

    path: Path
    manifest: BundleManifest
    seal: str
    """The SHA-256 of the manifest: the name of the whole."""
    archive: zipfile.ZipFile

    def lines(self, member: BundleMember) -> Iterator[bytes]:
        """Yield the lines of a member; raise UsageError when what was read is not what the manifest says."""
        found, size, rows = hashlib.sha256(), 0, 0
        try:
            with self.archive.open(member.name) as stream:
                while line := stream.readline(MOST_LINE_BYTES + 1):
                    if len(line) > MOST_LINE_BYTES:
                        raise damaged(self.path, f"a row of {member.name} is longer than {MOST_LINE_BYTES} bytes")
                    found.update(line)
                    size, rows = size + len(line), rows + 1
                    yield line
        except UNREADABLE as error:
            raise damaged(self.path, f"{member.name}: {error}") from error
        if (found.hexdigest(), size, rows) != (member.sha256, member.bytes, member.rows):
            raise damaged(self.path, f"{member.name} is not what its hash says")

    def verify(self) -> None:
        """Read every member once. Raises UsageError at the first that is damaged."""
        for member in self.manifest.members:
            for _ in self.lines(member):
                pass


@contextmanager
def open_bundle(path: Path) -> Iterator[Bundle]:
    """Open a bundle and check its manifest, names and sizes. Raises UsageError when it is none, or damaged."""
    try:
        file = open_file(path)
    except FileNotFoundError as error:
        raise UsageError(f'bundle "{path}" does not exist', hint="Make one with pgdyno bundle export.") from error
    except OSError as error:
        raise UsageError(f'"{path}" is not a bundle of pgdyno', detail=error.strerror, hint=_AGAIN) from error
    with file, _archive(path, file) as archive:
        _check_sizes(path, archive)
        text = _small(path, archive, MANIFEST)
        seal = hashlib.sha256(text).hexdigest()
        if _small(path, archive, SEAL).decode("ascii", "replace").split()[:1] != [seal]:
            raise damaged(path, "its manifest is not what its seal says")
        manifest = _manifest(path, text)
        _check_names(path, archive, manifest)
        yield Bundle(path, manifest, seal, archive)


def _archive(path: Path, file: BinaryIO) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except UNREADABLE as error:
        raise UsageError(f'"{path}" is not a bundle of pgdyno, or it is cut', detail=str(error), hint=_AGAIN) from error


def damaged(path: Path, detail: str) -> UsageError:
    """Return the error for a bundle whose contents are not what they claim."""
    return UsageError(f'bundle "{path}" is damaged', detail=detail, hint=_AGAIN)


def _check_sizes(path: Path, archive: zipfile.ZipFile) -> None:
    infos = archive.infolist()
    if len(infos) > MOST_MEMBERS:
        raise damaged(path, f"it has {len(infos)} members, more than {MOST_MEMBERS}")
    if len({info.filename for info in infos}) != len(infos):
        raise damaged(path, "two members have the same name")
    total = 0
    for info in infos:
        total += info.file_size
        if info.flag_bits & 1:
            raise damaged(path, f"{info.filename} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise damaged(path, f"{info.filename} is compressed in a way that pgdyno does not write")
        if info.file_size > MOST_RATIO * max(info.compress_size, 1024):
            raise damaged(path, f"{info.filename} would grow more than {MOST_RATIO}-fold when it is unpacked")
    if total > MOST_BYTES:
        raise damaged(path, f"it would unpack to {total} bytes, more than {MOST_BYTES}")


def _check_names(path: Path, archive: zipfile.ZipFile, manifest: BundleManifest) -> None:
    listed = {member.name: member for member in manifest.members}
    sizes = {info.filename: info.file_size for info in archive.infolist()} | {MANIFEST: 0, SEAL: 0}
    if sizes.keys() != {*listed, MANIFEST, SEAL}:
        odd = sorted(sizes.keys() ^ {*listed, MANIFEST, SEAL})[0]
        raise damaged(path, f"{odd!r} is in the file or in its manifest, and not in both")
    for name, member in listed.items():
        if sizes[name] != member.bytes:
            raise damaged(path, f"{name} has {sizes[name]} bytes, its manifest says {member.bytes}")
    if manifest.whole != digest(manifest.members):
        raise damaged(path, "its manifest contradicts itself")


def _small(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        info = archive.getinfo(name)
    except KeyError as error:
        raise UsageError(
            f'"{path}" is not a bundle of pgdyno',
            detail=f"It has no {name}.",
            hint="Write one with pgdyno bundle export STUDY.",
        ) from error
    if info.file_size > MOST_MANIFEST_BYTES:
        raise damaged(path, f"{name} is larger than {MOST_MANIFEST_BYTES} bytes")
    stream: IO[bytes]
    try:
        with archive.open(info) as stream:
            return stream.read(MOST_MANIFEST_BYTES)
    except UNREADABLE as error:
        raise damaged(path, f"{name}: {error}") from error


def _manifest(path: Path, text: bytes) -> BundleManifest:
    try:
        values = load_json(text)
        if values["format"] != FORMAT:
            raise UsageError(
                f'bundle "{path}" has format {values["format"]!r}, this pgdyno reads {FORMAT}',
                hint=f"It was written by pgdyno {values.get('pgdyno')!r}: import it with that version"
                f"{' or a newer one' if str(values['format']) > str(FORMAT) else ''}.",
            )
        manifest = shaped(BundleManifest, values, "it", strict=False)
        _check_ids(manifest)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(path, f"its manifest cannot be read: {error}") from error
    ids = [study.id for study in manifest.studies]
    if len(set(ids)) != len(ids) or {member.study for member in manifest.members} != set(ids):
        raise damaged(path, "its manifest contradicts itself")
    return manifest


def _check_ids(manifest: BundleManifest) -> None:
    """Raise ValueError for a name that could lead to another place than its own."""
    for study in {*(one.id for one in manifest.studies), *(one.study for one in manifest.members)}:
        if not STUDY_ID.fullmatch(study) or ".." in study:
            raise ValueError(f"{study!r} is not an id of a study")
    for member in manifest.members:
        if not _TABLE.fullmatch(member.table):
            raise ValueError(f"{member.name!r} is not a name of a member")
