"""Join cgroups, become another user, and turn into a program: `enter_cgroup.py CGROUP... --user NAME -- ARGV...`.

Run as a file by `runner.py` with an isolated interpreter, so it imports the standard library only. A child that
joins before it executes is counted from its first instruction, which its parent could not do after the fork.
"""

from __future__ import annotations

import os
import pwd
import signal
import sys
from pathlib import Path


def main(words: list[str]) -> None:
    """Do it. Exit with 126 when a cgroup cannot be joined and 127 when the program cannot be run."""
    end = words.index("--")
    command = words[end + 1 :]
    flag = words.index("--user", 0, end)
    cgroups, user = words[:flag], words[flag + 1]
    try:
        for cgroup in cgroups:
            (Path(cgroup) / "cgroup.procs").write_text(str(os.getpid()))
        if user:
            account = pwd.getpwnam(user)
            os.initgroups(user, account.pw_gid)
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
    except OSError as error:
        sys.stderr.write(f"cannot enter the cgroup or become the user: {error}\n")
        sys.exit(126)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which this interpreter ignores, and the program would in its turn
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        sys.exit(127)


if __name__ == "__main__":
    main(sys.argv[1:])
