"""A pgbench that works for as long as a test looks at its server, however long that takes on a busy machine."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pgdyno.targets.target import Target
from server_image import eventually

LONGEST_S = 240
COUNTED_S = 1.2
"""The server's counters tell what a session did up to a second later."""


@contextmanager
def pgbench_beside(target: Target, database: str, *words: str, clients: int = 2) -> Iterator[subprocess.Popen[str]]:
    """Run pgbench until the block ends; all its sessions are there and have worked for a while when it begins."""
    argv = [str(target.program("pgbench")), "-n", "-c", str(clients), "-T", str(LONGEST_S), *words]
    env = {**os.environ, **target.postgres.environment(database)}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as load:
        try:
            eventually(lambda: sessions_in(target, database) >= clients, "the sessions of pgbench")
            time.sleep(COUNTED_S)
            yield load
        finally:
            load.kill()


def sessions_in(target: Target, database: str) -> int:
    """Return how many clients have a session in a database."""
    query = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"
    return len(target.postgres.fetch(query, [database]))


def transactions_of(load: subprocess.Popen[str]) -> int:
    """End pgbench as its own clock would; return how many transactions it counted."""
    load.send_signal(signal.SIGALRM)
    out, _ = load.communicate(timeout=60)
    (line,) = [line for line in out.splitlines() if "actually processed" in line]
    return int(line.split(":")[1].split("/")[0])
