"""A stand-in data directory for `postgres -C`: private, without a copy of anything secret, and swept after a kill.

The server program takes a data directory only from its own account, which may not enter root's state folder. So as
root the folder of stand-ins is one for each account in the cache folder, whose parents everybody may enter and nobody
but root may write: it belongs to the account and has mode 0700. For anybody else it is in the state folder. Nothing is
put into the temporary folder of all.

PG_VERSION and pg_control are copied; `postgresql.auto.conf`, which may hold passwords (`primary_conninfo`), is a link
to the real one, read by the account that owns it.

A stand-in is named by the process that made it. What a killed process left is removed by the next one of the same
account that makes one. Everything inside is done as the account: root follows no link that it put there.
"""

from __future__ import annotations

import os
import pwd
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pgdyno.errors import PgdynoError
from pgdyno.linux.identity import ProcessIdentity
from pgdyno.owner.runner import Runner
from pgdyno.server import places

COPIED = ("PG_VERSION", "global/pg_control")
LINKED = ("postgresql.auto.conf",)


def home_of(user: str | None) -> Path:
    """Make the folder for the stand-ins of an account, None for our own, and return it.

    Raises EnvironmentUnsuitable when it cannot be made, or is not what it should be.
    """
    if user is None or os.geteuid() != 0:
        return places.ensure(places.state_dir() / "preflight")
    account = pwd.getpwnam(user)
    folder = places.ensure(places.cache_dir() / "preflight", places.PUBLIC) / str(account.pw_uid)
    with places.writing(folder):
        with suppress(FileExistsError):
            folder.mkdir(mode=places.PRIVATE)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fchown(descriptor, account.pw_uid, account.pw_gid)
            os.fchmod(descriptor, places.PRIVATE)
        finally:
            os.close(descriptor)
    return folder


@contextmanager
def stand_in(runner: Runner, data_directory: Path, user: str | None) -> Iterator[Path]:
    """Give a stand-in for a data directory until the block ends. Raises EnvironmentUnsuitable and OSError."""
    home = home_of(user)
    sweep(runner, home, user)
    own = ProcessIdentity.own()
    folder = home / f"{own.pid}-{own.start_ticks}-{own.boot_id}-{secrets.token_hex(4)}"
    try:
        runner.run(["mkdir", "-m", "700", "--", str(folder), str(folder / "global")], user=user)
        for name in COPIED:
            runner.run(["cp", "--", str(data_directory / name), str(folder / name)], user=user)
        for name in LINKED:
            runner.run(["ln", "-s", "--", str(data_directory / name), str(folder / name)], user=user)
        yield folder
    finally:
        _remove(runner, folder, user)


def sweep(runner: Runner, home: Path, user: str | None) -> None:
    """Remove the stand-ins whose process is gone; what cannot be removed stays for the next one."""
    try:
        names = [entry.name for entry in home.iterdir()]
    except OSError:
        return
    for name in names:
        maker = _maker_of(name)
        if maker is None or not maker.is_alive():
            _remove(runner, home / name, user)


def _maker_of(name: str) -> ProcessIdentity | None:
    pid, _, rest = name.partition("-")
    ticks, _, rest = rest.partition("-")
    boot_id = rest.rpartition("-")[0]
    if not (pid.isdecimal() and ticks.isdecimal() and len(pid) < 10 and len(ticks) < 20):
        return None
    return ProcessIdentity(int(pid), int(ticks), boot_id)


def _remove(runner: Runner, folder: Path, user: str | None) -> None:
    with suppress(PgdynoError, OSError):
        runner.run(["rm", "-rf", "--", str(folder)], user=user, check=False)
