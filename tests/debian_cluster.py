"""A cluster of Debian's postgresql-15, as pg_createcluster makes it, for tests that start and stop it themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from fix_postgres import DEBIAN_15
from free_ports import free_ports
from pgdyno.control import PgCtlCluster
from pgdyno.owner.runner import LocalRunner
from pgdyno.server.postgres import Postgres


@dataclass(frozen=True)
class DebianCluster:
    """`config` holds its configuration files; it is not started yet."""

    name: str
    data: Path
    config: Path
    port: int

    @property
    def log(self) -> Path:
        return Path(f"/var/log/postgresql/postgresql-15-{self.name}.log")

    def control(self, user: str | None = None) -> PgCtlCluster:
        return PgCtlCluster(LocalRunner(), "15", self.name, self.data, self.log, user=user)

    def postgres(self) -> Postgres:
        """Return its superuser's way in by the socket, while it runs."""
        folder = (self.data / "postmaster.pid").read_text().splitlines()[4]
        return Postgres(make_conninfo(host=folder, port=self.port, user="postgres", dbname="postgres"))


@contextmanager
def debian_cluster(home: Path, prefix: str, rules: str = "local all all trust\n") -> Iterator[DebianCluster]:
    """Make a cluster with its data below `home` and these lines of pg_hba.conf, until the block ends."""
    if shutil.which("pg_createcluster") is None or not DEBIAN_15.is_dir() or os.geteuid() != 0:
        pytest.skip("no root on a Debian with postgresql-15")
    name, (port,) = f"{prefix}{os.getpid()}", free_ports(1)
    cluster = DebianCluster(name, home / name, Path(f"/etc/postgresql/15/{name}"), port)
    words = ["15", name, "-d", str(cluster.data), "-p", str(port), "--start-conf", "manual"]
    subprocess.run(["pg_createcluster", *words], check=True, stdout=subprocess.DEVNULL)
    try:
        (cluster.config / "pg_hba.conf").write_text(rules)
        (cluster.config / "pg_hba.conf").chmod(0o644)
        yield cluster
    finally:
        subprocess.run(["pg_dropcluster", "15", name, "--stop"], check=True)
