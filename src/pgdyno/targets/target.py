"""A target: a PostgreSQL server and its host, as every verb is given it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pgdyno.errors import EnvironmentUnsuitable
from pgdyno.linux.cpu import ServerCpu
from pgdyno.outside.files import is_file
from pgdyno.owner.runner import Runner
from pgdyno.server.postgres import Postgres

if TYPE_CHECKING:
    from pgdyno.control import Control
    from pgdyno.remote.host import RemoteHost
    from pgdyno.routes.route import Route


@dataclass(frozen=True, slots=True)
class Target:
    """A server, how to talk to it, and how to restart it.

    `local` says that the server runs on this host. `control` is None when it cannot be restarted by us. `bin_dir`
    holds the server's own programs; `client_bin_dir` is where else pgbench and psql may be (some builds have none).
    `os_user` owns the data directory, None when that is unknown or ourselves. `disposable` marks a sandbox.
    `route` is how settings reach a server whose configuration files are not at hand; None means through the files.
    `directory` is the data directory when it is on this host and we can reach it. `no_control` says what was seen
    where `control` is None because no way to restart was sure, or looked for. `remote` is the server's host when an
    agent of ours runs there: then `runner` and the programs are this machine's, for the load. `block_reads` counts the
    requests to read that this server alone sent to devices, where a cgroup counts them.
    """

    name: str
    postgres: Postgres
    runner: Runner
    control: Control | None
    bin_dir: Path
    os_user: str | None
    disposable: bool
    directory: Path | None
    cpu: ServerCpu
    client_bin_dir: Path | None = None
    local: bool = True
    route: Route | None = None
    no_control: str | None = None
    remote: RemoteHost | None = None
    block_reads: Callable[[], int | None] | None = None

    def program(self, name: str) -> Path:
        """Return the path of a PostgreSQL program such as pgbench. Raise EnvironmentUnsuitable when it is missing."""
        folders = [folder for folder in (self.bin_dir, self.client_bin_dir) if folder is not None]
        for folder in folders:
            if is_file(folder / name):
                return folder / name
        raise EnvironmentUnsuitable(
            f'program "{name}" was not found in "{self.bin_dir}"',
            detail=f"Looked in {', '.join(map(str, folders))}.",
            hint=f"Install PostgreSQL's client programs, or put the folder of {name} in front of PATH.",
        )
