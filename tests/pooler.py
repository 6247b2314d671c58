"""A PgBouncer of Debian's in transaction mode in front of a sandbox, as most applications reach their server."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fix_postgres import public_dir
from pgdyno.sandbox.sandbox import Sandbox
from pgdyno.server.postgres import Postgres
from server_image import eventually

PGBOUNCER = "/usr/sbin/pgbouncer"
PORT = 6432
"""Only the name of a socket in a folder of its own: nothing listens on the network."""


@contextmanager
def running_pooler(server: Sandbox, user: str, *, first: str = "SELECT 1", size: int = 2) -> Iterator[str]:
    """Run one until the block ends and give a connection string through it, without a user.

    The role `user` has `size` sessions of the server at most, each of which begins with `first`. Skips the test
    where PgBouncer is not installed.
    """
    if not Path(PGBOUNCER).is_file():
        pytest.skip("pgbouncer is not installed")
    target = server.target()
    way = conninfo_to_dict(target.postgres.conninfo)
    folder = public_dir()
    try:
        (folder / "users").write_text(f'"{user}" ""\n')
        query = first.replace("'", "''")
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\npostgres = host={way['host']} port={way['port']} connect_query='{query}'\n"
            f"[pgbouncer]\nlisten_port = {PORT}\nunix_socket_dir = {folder}\nauth_type = trust\n"
            f"auth_file = {folder}/users\npool_mode = transaction\ndefault_pool_size = {size}\n"
        )
        account = target.os_user
        if account is not None:
            shutil.chown(folder, account)
        words = [PGBOUNCER, "--quiet", str(folder / "pgbouncer.ini")]
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(words, user=account, stdout=said, stderr=said)
            try:
                through = make_conninfo(host=folder, port=PORT, dbname="postgres")
                probe = Postgres(make_conninfo(through, user=user))
                eventually(lambda: process.poll() is not None or probe.answers(), "PgBouncer answers")
                said.seek(0)
                assert process.poll() is None, said.read().decode()
                yield through
            finally:
                process.terminate()
                process.wait(30)
    finally:
        shutil.rmtree(folder)
