"""Run a session and look at its server's log as root, and tell which files of the server this process touched itself.

audited_session.py CONNINFO UNDO_ROOT FOLDER: prints one line of JSON. Not a test: run by test_owner_boundaries.
"""

import json
import os
import sys
from pathlib import Path

WATCHED = (
    "open", "os.listdir", "os.scandir", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink",
    "os.chmod", "os.chown", "os.truncate", "os.utime", "os.setxattr", "os.getxattr", "os.listxattr", "shutil.copyfile",
    "subprocess.Popen", "os.exec", "os.posix_spawn",
)  # fmt: skip
touched: list[str] = []
folder = sys.argv[3]


def watch(event: str, arguments: tuple[object, ...]) -> None:
    if event in WATCHED and os.geteuid() == 0:
        for argument in arguments[:2]:
            text = os.fsdecode(argument) if isinstance(argument, str | bytes | os.PathLike) else ""
            if text.startswith(folder):
                touched.append(f"{event} {text}")


sys.addaudithook(watch)

from pgdyno.model.configuration import Configuration  # noqa: E402 - the hook sees the imports as well
from pgdyno.target import server_log  # noqa: E402
from pgdyno.target.apply import Session  # noqa: E402
from pgdyno.target.connect import open_target  # noqa: E402
from pgdyno.target.inspection import inspect  # noqa: E402
from pgdyno.target.watch import Deadlines  # noqa: E402

target = open_target(sys.argv[1])
inspect(target)
server_log.log_files(target)
applied = 0
with Session.begin(target, study="audit", undo_root=Path(sys.argv[2]), watch=Deadlines()) as session:
    for settings in ({"work_mem": "8MB"}, {"shared_buffers": "32MB"}):
        session.apply(Configuration.of(settings))
        applied += 1
# A program that is started as the owner is told by its name here, and run after the identity was changed.
mine = [one for one in touched if not one.startswith("subprocess.Popen")]
print(json.dumps({"applied": applied, "touched": sorted(set(mine))}))  # noqa: T201
