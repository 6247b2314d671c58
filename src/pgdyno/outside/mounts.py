"""Mounts that an ordinary account made: its own program then says what is there, whose it is and who may change it.

Of what Linux lets such an account mount only FUSE is seen by others, root among them, where /etc/fuse.conf has
`user_allow_other` (mount.fuse(8)).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
_DEVICE, _POINT = 2, 4
_MAKER = re.compile(r"(?:.*,)?user_id=(\d+)(?:,.*)?")
_ESCAPED = re.compile(r"\\([0-7]{3})")


def fuse_makers() -> Mapping[str, int]:
    """Return who made each FUSE mount that this process sees; see `makers_in`."""
    with suppress(OSError):
        return makers_in(MOUNTS.read_text(errors="surrogateescape"))
    return {}


def makers_in(text: str) -> Mapping[str, int]:
    """Return the user id that made each FUSE mount of a mountinfo (proc(5)), by its mount point and its device. Pure.

    The point is asked before a path is looked at, which the mount's program may never answer; the device is for what is
    reached without passing the point.
    """
    found: dict[str, int] = {}
    if " - fuse" not in text:  # on most hosts, where this is asked again before each file
        return found
    for line in text.split("\n"):  # the kernel escapes only this line end; names of mounts may hold others
        fields, _, rest = line.partition(" - ")
        words, (kind, _, options) = fields.split(" "), [*rest.split(" "), "", "", ""][:3]
        if len(words) < _POINT + 1:
            continue
        device, point = words[_DEVICE], _ESCAPED.sub(lambda byte: chr(int(byte[1], 8)), words[_POINT])
        maker = _MAKER.fullmatch(options) if kind.partition(".")[0] in ("fuse", "fuseblk") else None
        if maker is None:
            found.pop(point, None)  # it covers what is mounted below it
        else:
            found[device] = found[point] = int(maker[1])
    return found


def device_of(status: os.stat_result) -> str:
    """Return the device of a file as a mountinfo writes it."""
    return f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"


def teller_of(status: os.stat_result) -> int | None:
    """Return the account whose program says this of a file; None where the kernel or root says it."""
    if os.major(status.st_dev):  # a disk, which only root mounts
        return None
    return fuse_makers().get(device_of(status), 0) or None
