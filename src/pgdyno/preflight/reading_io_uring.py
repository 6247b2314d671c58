"""Run the io_uring probe as the server's user."""

from __future__ import annotations

import inspect
import os
import pwd
import sys

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.model.facts import Unknown
from pgdyno.owner.runner import Runner
from pgdyno.preflight import io_uring_probe


def read_io_uring(runner: Runner, user: str | None) -> int | Unknown:
    """Return the errno of io_uring_setup(2), 0 when a ring was granted; asked once, given back at once.

    It is asked from our own container and seccomp filter: a server in another one may be told otherwise.
    """
    uid = gid = -1
    if user is not None:
        account = pwd.getpwnam(user)
        if account.pw_uid != os.geteuid():
            if os.geteuid() != 0:
                return Unknown(f'only root can ask as user "{user}"')
            uid, gid = account.pw_uid, account.pw_gid
    # As text: on another host this package is inside a zip, where no interpreter finds a script.
    program = [sys.executable, "-I", "-S", "-c", inspect.getsource(io_uring_probe), str(uid), str(gid)]
    try:
        return int(runner.run(program, timeout_s=30).stdout)
    except (EnvironmentUnsuitable, ValueError) as error:
        return Unknown(f"the probe could not be run: {error}")
