"""Start a program as another process was: put on its image, become its account, turn into the program.

    python -I -S -c SOURCE ROOT [ARGV...]

An image and the cgroups to enter beside come as JSON on stdin, because an environment is secret. What needs rights is
done before they are given up; what cannot be done does not keep a server down: it is looked at beforehand
(`rehearse`: no ARGV, the answer on stdout) and when the session is closed. Standard library only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pgdyno
from pgdyno.model.shapes import shaped
from pgdyno.owner.process_image import ProcessImage, capture, differences

NOT_LAUNCHED = frozenset({125, 126, 127})
"""Exit statuses that say that the program did not run; a program's own are below, or signals above."""
_SOURCE = """
import sys
try:
    sys.path.append(sys.argv[1])
    from pgdyno.owner.launch import main
    main(sys.argv[2:])
except Exception as error:
    sys.exit(sys.stderr.write(f"{error!r}\\n") and 125)
"""


def command(argv: Sequence[str] = ()) -> list[str]:
    """Return the argument list that becomes `argv`, or rehearses without one."""
    root = Path(pgdyno.__file__).parent.parent  # a folder, or the one file that an agent travels in
    return [sys.executable, "-I", "-S", "-c", _SOURCE, str(root), *argv]


def instructions(image: ProcessImage, cgroups: Sequence[Path] = ()) -> str:
    """Return what the program of `command` reads from its stdin."""
    return json.dumps({"image": image.to_json(), "cgroups": list(map(str, cgroups))})


def main(argv: list[str]) -> None:
    """Do it. Exit with 125 on an error, 126 where a cgroup or the account cannot be had, 127 without a program."""
    given = json.loads(sys.stdin.buffer.read())
    image = shaped(ProcessImage, given["image"], "the image")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        for cgroup in given["cgroups"]:
            (Path(cgroup) / "cgroup.procs").write_text(str(os.getpid()))
        image.put_on()
        if os.geteuid() != image.uid:
            os.setgid(image.gid)
            os.setuid(image.uid)
    except OSError as error:
        sys.stderr.write(f"cannot enter the cgroup or become the user: {error}\n")
        sys.exit(126)
    if not argv:
        now = capture(os.getpid())
        sys.stdout.write(json.dumps(differences(replace(image, environment=None), now)))
        return
    environment = dict(image.environment or {})
    try:  # where it was started, for paths on its command line that are relative
        os.chdir(environment.get("PWD") or "/")
    except OSError:
        os.chdir("/")
    environment.pop("PG_GRANDPARENT_PID", None)  # pg_ctl names itself in it; a number of long ago would be wrong
    try:
        os.execve(argv[0], argv, environment)
    except OSError as error:
        sys.stderr.write(f"{argv[0]}: {error.strerror}\n")
        sys.exit(127)
