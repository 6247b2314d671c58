"""A line to an agent of this machine, as ssh makes one to another."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgdyno.errors import PgdynoError
from pgdyno.remote.client import AgentClient


@contextmanager
def agent_line(home: Path, program: str | None = None) -> Iterator[AgentClient]:
    """Run an agent as ssh would, by its stdin and stdout; or another program in its place."""
    starter = "import sys; from pgdyno.probes.agent import main; sys.exit(main())"
    log = home / "agent.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", program or starter],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PGDYNO_HOME": str(home)},
        )
    client = AgentClient(process, "ssh://db1", log, reword=_reword)
    try:
        yield client
    finally:
        client.close()


def _reword(error: PgdynoError) -> PgdynoError:
    error.hint = f"reworded {error.hint}"
    return error
