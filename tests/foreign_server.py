"""A server that is not our sandbox: configuration outside of the data directory, as Debian has it, no include line."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fix_postgres import find_build, public_dir
from pgdyno.control import PgCtl
from pgdyno.linux.cpu import ServerCpu
from pgdyno.owner.runner import LocalRunner
from pgdyno.server.postgres import Postgres
from pgdyno.targets.target import Target
from templates import made_once

LONG_AGO_NS = 1_234_567_890_123_456_789
_MAIN = """# the last line has no newline
work_mem = 3MB
listen_addresses = ''
data_directory = '{data}'
unix_socket_directories = '{data}'
port = 54329"""


@contextmanager
def running_foreign_server(bin_dir: Path, home: Path, *, user: str | None = "postgres") -> Iterator[Target]:
    """Run a cluster below `home` until the block ends; `home/etc`, made when missing, holds the main file alone."""
    user = user if os.geteuid() == 0 else None
    data, etc, log = home / "data", home / "etc", home / "log"
    etc.mkdir(mode=0o755, exist_ok=True)
    log.touch()
    _give(user, etc, log)
    made_once(f"foreign {bin_dir} {user}", data, lambda: initialise(bin_dir, data, user))
    (data / "postgresql.conf").unlink()
    main = etc / "postgresql.conf"
    main.write_text(_MAIN.format(data=data))
    main.chmod(0o640)
    os.utime(main, ns=(LONG_AGO_NS, LONG_AGO_NS))
    _give(user, main)
    options = (
        "-c",
        f"config_file={main}",
        "-c",
        f"hba_file={data}/pg_hba.conf",
        "-c",
        f"ident_file={data}/pg_ident.conf",
    )
    control = PgCtl(LocalRunner(), bin_dir, data, log, user=user, options=options)
    control.start()
    try:
        yield Target(
            name="foreign",
            postgres=Postgres(f"host={data} port=54329 user=postgres dbname=postgres"),
            runner=LocalRunner(),
            control=control,
            bin_dir=bin_dir,
            os_user=user,
            disposable=False,
            directory=data,
            cpu=ServerCpu.unavailable("not measured here"),
        )
    finally:
        control.stop("immediate")


def initialise(bin_dir: Path, data: Path, user: str | None) -> None:
    """Make a data directory by initdb, which anybody may enter as anybody."""
    data.mkdir(mode=0o700)
    _give(user, data)
    initdb = [str(bin_dir / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "--no-sync"]
    LocalRunner().run(initdb, user=user)


def foreign_debian() -> Iterator[Target]:
    """Run Debian's 15 in a folder of its own: the body of a fixture."""
    root = public_dir()
    with running_foreign_server(find_build("debian-15"), root) as target:
        yield target
    subprocess.run(["rm", "-rf", str(root)], check=True)  # what ends just now may remove files of its own


def _give(user: str | None, *paths: Path) -> None:
    """Give the files to the server's user, and the main file to another group of that user where there is one."""
    if user is None:
        return
    account = pwd.getpwnam(user)
    groups = [group for group in os.getgrouplist(user, account.pw_gid) if group != account.pw_gid]
    for path in paths:
        group = groups[0] if groups and path.suffix == ".conf" else account.pw_gid
        shutil.chown(path, user, grp.getgrgid(group).gr_name)
