"""The files that pgdyno keeps beside a project's plan: taken for its own only from who could have written the plan."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pgdyno.outside.files import MOST_BYTES, open_file
from pgdyno.outside.way import name_of


def read_beside(place: Path, plan: Path) -> bytes:
    """Return such a file, which is no link. What is judged is what is read.

    Raises OSError where it cannot be opened, and ValueError where another account may have put it there.
    """
    with open_file(place, follow=False) as file:
        status = os.fstat(file.fileno())
        if status.st_uid not in (0, os.geteuid()) and status.st_uid != plan.stat().st_uid:
            raise ValueError(f"it belongs to {name_of(status.st_uid)}, who did not write the plan")
        if status.st_mode & stat.S_IWOTH:
            raise ValueError("everybody may write it")
        group = _group_of(status)
        if group is not None and group != _group_of(plan.stat()):  # by a umask of 002 both have one
            raise ValueError("its group may write it, and not the plan")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it is larger than {MOST_BYTES >> 20} MB")
    return content


def _group_of(status: os.stat_result) -> int | None:
    """Return the group that may write a file, None where none may."""
    return status.st_gid if status.st_mode & stat.S_IWGRP else None
