"""Make a sandbox's data directory: initdb, our own settings file, and the folder of its socket.

PostgreSQL's defaults stay as they are, because they are what a tune starts from: only what keeps the sandbox to
itself (socket, no TCP), what observation needs (pg_stat_statements) and where the log goes is set.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.outside.quoting import conf_line
from pgdyno.owner.durable import Attributes
from pgdyno.owner.hands import hands_of
from pgdyno.owner.runner import Runner
from pgdyno.server.binaries import Build
from pgdyno.server.places import PRIVATE, writing

SUPERUSER = "postgres"
PORT = 5432
SETTINGS_FILE = "pgdyno-sandbox.conf"
DROP_IN = "pgdyno.conf"
"""Included last, so that a configuration under trial wins."""
SOCKET_PATH_LIMIT = 107
"""Bytes in a Unix socket's path on Linux: sun_path of unix(7) is 108 with its final zero."""
INITDB_TIMEOUT_S = 600


def make_private_dir(folder: Path, user: str | None) -> None:
    """Make a folder of mode 0700 that `user` owns. Raise EnvironmentUnsuitable when it cannot be made."""
    with writing(folder.parent):
        folder.mkdir(mode=PRIVATE)
        if user is not None:
            account = pwd.getpwnam(user)
            os.chown(folder, account.pw_uid, account.pw_gid, follow_symlinks=False)


def initialise(runner: Runner, build: Build, data: Path, user: str | None) -> None:
    """Run initdb: UTF8, locale C, data checksums as the version has it, trust for the socket, TCP rejected.

    `runner` starts the initdb of `build` as `user`, None for our own account; it makes the directory `data`. Trust is
    safe because the socket's folder belongs to the server's user and nobody else may enter it. Raises
    EnvironmentUnsuitable with initdb's reason, such as a full disk; the half-made directory is left to the caller.
    """
    command = [str(build.bin_dir / "initdb"), "-D", str(data), "-U", SUPERUSER]
    words = ["--auth-local=trust", "--auth-host=reject", "--encoding=UTF8", "--locale=C", "--no-sync"]
    done = runner.run([*command, *words], user=user, env=dict(build.env), timeout_s=INITDB_TIMEOUT_S, check=False)
    if done.returncode != 0:
        text = f"{done.stdout}\n{done.stderr}"
        reason = next((line for line in text.splitlines() if "No space left" in line), done.stderr.strip())
        raise EnvironmentUnsuitable(
            f'initdb could not make "{data}"',
            detail=reason,
            hint=f'Check the free space of "{data.parent}", or set PGDYNO_HOME to a folder on another disk.',
        )
    lines = f"\ninclude = '{SETTINGS_FILE}'\ninclude_if_exists = '{DROP_IN}'\n"
    with writing(data):
        hands, main = hands_of(data), data / "postgresql.conf"
        hands.replace(main, hands.read(main) + lines.encode())


def write_settings(data: Path, name: str, socket_dir: Path, *, loopback: int | None = None) -> None:
    """Write the sandbox's own settings file, replaced whole. `loopback` is a port of 127.0.0.1, None for no TCP.

    It lies in the data directory `data`. `name` is the sandbox's, and `socket_dir` the folder of its Unix socket.
    """
    settings = {
        "listen_addresses": "" if loopback is None else "127.0.0.1",
        "port": str(PORT if loopback is None else loopback),
        "unix_socket_directories": str(socket_dir),
        "unix_socket_permissions": "0700",
        "cluster_name": f"pgdyno-{name}",
        "shared_preload_libraries": "pg_stat_statements",
        "logging_collector": "off",
        "log_destination": "stderr",
        "log_checkpoints": "on",
    }
    lines = ("# Written by pgdyno at every start of this sandbox.", *(conf_line(*one) for one in settings.items()))
    text = "".join(f"{line}\n" for line in lines)
    hands = hands_of(data)
    with writing(data):
        hands.replace(data / SETTINGS_FILE, text.encode(), Attributes(hands.account.uid, hands.account.gid, 0o600))


def choose_socket_dir(server_dir: Path) -> Path:
    """Return where the socket goes: in the sandbox, or a short folder where its path would be too long.

    Pure but for `tempfile.gettempdir()`; the same sandbox always gets the same answer.
    """
    inside = server_dir / "run"
    if _fits(inside):
        return inside
    digest = hashlib.sha256(str(server_dir).encode()).hexdigest()[:12]
    short = Path(tempfile.gettempdir()) / f"pgdyno-{os.geteuid()}-{digest}"
    if _fits(short):
        return short
    raise EnvironmentUnsuitable(
        f'socket path "{short}" is longer than {SOCKET_PATH_LIMIT} bytes', hint="Set TMPDIR to a shorter folder."
    )


def ensure_socket_dir(folder: Path, user: str | None) -> None:
    """Make the socket's folder, or prove that the one that is there is private and the server's.

    Raises EnvironmentUnsuitable when somebody else put it there: in a shared folder such as /tmp anyone could.
    """
    if not folder.is_symlink() and not folder.exists():
        make_private_dir(folder, user)
    owner = os.geteuid() if user is None else pwd.getpwnam(user).pw_uid
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or stat.S_IMODE(found.st_mode) != PRIVATE:
        raise EnvironmentUnsuitable(
            f'folder "{folder}" is not a private folder of the server\'s user',
            hint="Find out who made it, remove it, and start again.",
        )


def remove_tree(folder: Path) -> None:
    """Remove a folder of ours and all below it; do nothing when it is gone."""
    with writing(folder), suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _fits(socket_dir: Path) -> bool:
    return len(os.fsencode(socket_dir / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_LIMIT
