"""The exact image of a file that will be changed: bytes, owner, mode, modification time, or its absence."""

from __future__ import annotations

import errno
import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path

from pgdyno.owner import durable
from pgdyno.owner.durable import Attributes

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
_MOST_BYTES = 64 << 20
"""No configuration file is that long; memory must not be either."""


@dataclass(frozen=True, slots=True)
class FileImage:
    """What a file was. `sha256` is None for a file that was absent; then the attributes are None too."""

    path: str
    sha256: str | None
    size_bytes: int
    attributes: Attributes | None

    @property
    def was_present(self) -> bool:
        """Return False when the file did not exist, so that restoring means removing it."""
        return self.sha256 is not None

    def is_in_place(self) -> bool:
        """Return True when the file is byte for byte, and in owner, mode and time, what it was."""
        return capture(Path(self.path))[0] == self

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self)


def digest(data: bytes) -> str:
    """Return the SHA-256 of bytes as hex."""
    return hashlib.sha256(data).hexdigest()


def capture(path: Path) -> tuple[FileImage, bytes]:
    """Read a file's image and bytes. An absent file gives an image that says so; other failures raise OSError.

    A link, a pipe or a device in its place is such a failure, and so is a file of more than 64 MB.
    """
    try:
        data = durable.read_regular(path, _MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise OSError(errno.EFBIG, f"longer than {_MOST_BYTES >> 20} MB", str(path))
        attributes = Attributes.of(path)
    except FileNotFoundError:
        return FileImage(str(path), None, 0, None), b""
    return FileImage(str(path), digest(data), len(data), attributes), data


def why_not_replaceable(path: Path) -> str | None:
    """Return why a file would not be the same again after it was replaced and put back; None when it would, or is not.

    A file with a second name (link(2)) would lose that name, and written in place it would change under both, in a
    backup by `cp -al` for one. Owner, mode, ACL and other extended attributes are tried on a file beside it, which is
    removed at once. Raises OSError.
    """
    try:
        names = path.lstat().st_nlink
    except FileNotFoundError:
        return None
    if names > 1:
        return f"it has {names} names (hard links), and would lose the others (cp -a makes it a file of its own)"
    try:
        kept = durable.rehearse(path)
    except OSError as error:
        return f"its owner, mode, ACL and other attributes cannot be kept: {(error.strerror or str(error)).lower()}"
    return None if kept else "the file system gives a new file another owner, mode, ACL or other attributes"


def restore(image: FileImage, data: bytes, found: str | None = None) -> bool:
    """Make the file what it was; True when there was something to do. Raises OSError.

    Writes a new file and renames it. When the disk is full, writes into the existing file instead: what we add goes
    behind the original bytes, so the file on disk is never shorter than the one that goes back. `found` as in `put`.
    """
    path = Path(image.path)
    durable.temporary_path(path).unlink(missing_ok=True)
    if image.is_in_place():
        return False
    if image.attributes is None:
        require_unchanged(path, found)
        durable.remove(path)
        return True
    put(path, data, image.attributes, found)
    return True


def put(path: Path, data: bytes, attributes: Attributes, found: str | None = None) -> None:
    """Replace a file, in place when the disk is full: see `restore`.

    `data` becomes the whole content of `path`, with the owner, mode, time and extended attributes in `attributes`.
    `found` is the checksum of the bytes that the new ones were made from, as `found_sum` returns it; None is for
    whatever is there. Raises OSError, of number ESTALE when others are there by now: they are not overwritten.
    """
    try:
        durable.replace(path, data, attributes, just_before=lambda: require_unchanged(path, found))
    except OSError as error:
        if error.errno not in _NO_SPACE or not path.exists() or path.stat().st_size < len(data):
            raise
        require_unchanged(path, found)
        durable.overwrite(path, data, attributes)


def found_sum(found: bytes | None) -> str:
    """Return what `put` compares: a checksum, or nothing for a file that is absent."""
    return "" if found is None else digest(found)


def require_unchanged(path: Path, found: str | None) -> None:
    """Raise OSError (ESTALE) when a file has other bytes than those of this `found_sum`; None is for any."""
    if found is None:
        return
    before = _identity(path)
    try:
        now = found_sum(durable.read_regular(path, _MOST_BYTES + 1))
    except FileNotFoundError:
        now = found_sum(None)
    if now != found or _identity(path) != before:  # reading takes longer than an editor's rename
        raise OSError(errno.ESTALE, "it was changed in this moment", str(path))


def _identity(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
