"""The mounts of a process as the kernel lists them in /proc/PID/mountinfo (proc(5)). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pgdyno.model.facts import Unknown

_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class MountLine:
    """One mount: the file system `kind` of `source`, of which the part below `shown` is seen at `point`.

    `options` are those of the mount, `of_filesystem` those of the file system: of a cgroup tree its controllers.
    """

    shown: str
    point: str
    options: tuple[str, ...]
    kind: str
    source: str
    of_filesystem: tuple[str, ...] = ()


@lru_cache(maxsize=4)
def mount_lines(mountinfo: str) -> tuple[MountLine, ...]:
    """Return the mounts in the order of mounting; a line that is none is left out.

    Kept by the text, which is read again for each look and hardly ever another one.
    """
    found = []
    for line in mountinfo.split("\n"):  # the kernel escapes blanks of ASCII alone: names keep the others
        left, _, right = line.partition(" - ")
        words, kind = left.split(" "), right.split(" ", maxsplit=2)
        if len(words) > 5 and len(kind) > 1 and words[4] and kind[0]:
            shown, point = (unescaped(word) for word in words[3:5])
            options = tuple(kind[2].split(",")) if len(kind) > 2 else ()
            found.append(MountLine(shown, point, tuple(words[5].split(",")), kind[0], unescaped(kind[1]), options))
    return tuple(found)


def filesystem_of(folder: Path, mountinfo: str) -> str | Unknown:
    """Return the file system type of a resolved path; of two mounts at one point the later one covers the other."""
    best, kind = -1, ""
    for mount in mount_lines(mountinfo):
        point = Path(mount.point)
        if folder.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), mount.kind
    return kind or Unknown("no mount holds the data directory")


def unescaped(text: str) -> str:
    """Return a field with its octal escapes undone."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), text)
