"""Note what this process does itself, while it is root, with files below a folder: the folder of a server's owner.

The hook is set when this module is imported, so that what is imported after it is seen as well; the folder comes by the
environment.
"""

from __future__ import annotations

import os
import sys
from collections import Counter

FOLDER = "PGDYNO_TORTURE_WATCHED"
"""The variable that names the folder."""
# A program that is started as the owner is run after the identity was changed: subprocess.Popen is none of these.
WATCHED = (
    "open", "os.listdir", "os.scandir", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink",
    "os.chmod", "os.chown", "os.truncate", "os.utime", "os.setxattr", "os.getxattr", "os.listxattr", "shutil.copyfile",
    "os.exec", "os.posix_spawn",
)  # fmt: skip
touched: Counter[str] = Counter()
_folder = os.environ.get(FOLDER)


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if _folder and event in WATCHED and os.geteuid() == 0:
        for argument in arguments[:2]:
            if isinstance(argument, str | bytes | os.PathLike) and os.fsdecode(argument).startswith(_folder):
                touched[f"{event} {os.fsdecode(argument)}"] += 1


sys.addaudithook(_watch)
