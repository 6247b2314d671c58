"""Wait until all load generators are ready, then turn into one.

    held_start.py READY GO CPUS ACCOUNT CGROUP... -- ARGV...

READY and GO are file descriptors of pipes: one byte is written when this process is ready, and one is read when all
shall begin. When the other side is gone before that, nothing is started. CPUS is a list as `taskset -c` has it, or
empty. ACCOUNT is `UID:GID:GROUP,...`, whose rights the program gets, or empty. Run as a file by `gate.py` with an
isolated interpreter, so it imports the standard library only; what it turns into keeps the process id, and is counted
by its cgroups from its first instruction.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

GO = b"g"
_PR_SET_PDEATHSIG = 1


def main(words: list[str]) -> None:
    """Do it. Exit with 125 when told nothing, 126 when a limit cannot be had, 127 when the program cannot be run."""
    end = words.index("--")
    ready, go, cpus, account, *cgroups = words[:end]
    command = words[end + 1 :]
    try:
        for cgroup in cgroups:
            (Path(cgroup) / "cgroup.procs").write_text(str(os.getpid()))
        if cpus:
            os.sched_setaffinity(0, {int(cpu) for cpu in cpus.split(",")})
        if account:
            uid, gid, groups = account.split(":")
            os.setgroups([int(group) for group in groups.split(",") if group])
            os.setresgid(int(gid), int(gid), int(gid))
            os.setresuid(int(uid), int(uid), int(uid))
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # the change of user has taken it back
    except OSError as error:
        sys.stderr.write(f"cannot keep to the limits of this load generator: {error}\n")
        sys.exit(126)
    os.write(int(ready), b"r")
    os.close(int(ready))
    if os.read(int(go), 1) != GO:
        sys.exit(125)
    os.close(int(go))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
