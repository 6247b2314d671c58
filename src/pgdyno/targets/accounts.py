"""The operating system's user that a sandbox's server, or a load, runs as: ourselves, or another one for root."""

from __future__ import annotations

import logging
import os
import pwd
import shutil
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.owner.account import Account
from pgdyno.owner.hands import hands_for
from pgdyno.owner.runner import Runner
from pgdyno.targets.target import Target

log = logging.getLogger(__name__)

SERVER_USER = "pgdyno"
_USERADD = ("useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent")
_SHELL = "/usr/sbin/nologin"


def server_user(runner: Runner) -> str | None:
    """Return the account for a sandbox's server: None (ourselves) unless we are root, whom PostgreSQL refuses.

    Side effect on the host, as root and once: the system account `pgdyno` without home, password or shell is added.
    An account that owns a real cluster, such as `postgres`, is never used: a sandbox must not be able to reach it.
    Raises EnvironmentUnsuitable when the account cannot be added.
    """
    if os.geteuid() != 0:
        return None
    if not _exists():
        _add(runner)
    return SERVER_USER


def load_account(target: Target) -> Account | None:
    """Return the account that a load runs as: None (ourselves) unless we are root, who runs none.

    A server's own account could see the password of the load, and a load should not be able to touch the server's
    files: so it is the system account `pgdyno`, added when it is missing. Only where the socket is in a folder that
    lets nobody else in, as that of a sandbox, it is the server's own.
    Side effect: the account may use the tunnels to a server on another host.
    """
    if os.geteuid() != 0:
        return None
    user = server_user(target.runner)
    assert user is not None, "we are root"
    account, host = Account.of_user(pwd.getpwnam(user).pw_uid), target.postgres.parameters.get("host", "")
    if target.os_user is not None and host.startswith("/"):
        try:
            hands_for(account).names(Path(host))
        except OSError:
            return Account.of_user(pwd.getpwnam(target.os_user).pw_uid)
    if target.remote is not None:
        target.remote.connection.admit(account.gid)
    return account


def _add(runner: Runner) -> None:
    if shutil.which("useradd"):
        command = [*_USERADD, "--shell", _SHELL, SERVER_USER]
    else:
        command = ["adduser", "-S", "-D", "-H", "-h", "/nonexistent", "-s", "/sbin/nologin", SERVER_USER]
    try:
        runner.run(command, timeout_s=60)
    except EnvironmentUnsuitable as error:
        if _exists():  # another pgdyno added it meanwhile
            return
        raise EnvironmentUnsuitable(
            f'system user "{SERVER_USER}" cannot be added, and PostgreSQL does not run as root',
            detail=error.detail or error.message,
            hint=f'Add it by "{" ".join(command)}", or run pgdyno as an ordinary user.',
        ) from error
    log.info('added the system user "%s" for the servers of sandboxes', SERVER_USER)


def _exists() -> bool:
    try:
        pwd.getpwnam(SERVER_USER)
    except KeyError:
        return False
    return True


def check_can_enter(runner: Runner, user: str | None, folder: Path) -> None:
    """Raise EnvironmentUnsuitable when the user cannot enter the folder; no permission is ever changed for it."""
    if user is None or _enters(runner, user, folder):
        return
    barrier = next(part for part in reversed([folder, *folder.parents]) if not _enters(runner, user, part))
    raise EnvironmentUnsuitable(
        f'folder "{barrier}" cannot be entered by user "{user}", who runs the sandbox\'s server',
        detail="pgdyno loosens no permission of an existing folder.",
        hint="Set PGDYNO_HOME to a folder that every user can enter, or leave it unset to use /var/cache/pgdyno.",
    )


def _enters(runner: Runner, user: str, folder: Path) -> bool:
    return runner.run(["test", "-x", str(folder)], user=user, check=False).returncode == 0
